"""Description of the mixture model: second and third moments, the third one whole or in few coordinates."""

from __future__ import annotations

from typing import Any

from dpcape.analyses.description import MODELS, VERIFIED, Analysis, AuditCase, Public, Variant
from dpcape.analyses.moment_shares import (
    DESIGN,
    DESIGN_NOTE,
    RELATIVE_NOTE,
    SECOND_MOMENT_SHARE,
    SYMMETRIC_MOMENTS,
    chosen_design,
    second_moment_share,
)
from dpcape.analyses.parameters import NUMBER, OTHER, WHOLE, Parameter, is_number, shown
from dpcape.analyses.release import RELATIVE, Release, Steps
from dpcape.errors import InvalidParameter
from dpcape.statistics.third_moments import checked_variance

_OPTIONS = ("n_components", "noise_variance")


def _schedule(p: Public) -> Steps:
    share = second_moment_share(p.second_moment_share, n_features=p.n_features, n_components=p.n_components)
    yield Release("second_moment", {"n_features": p.n_features, "bound": p.bound}, share)
    numbers = {"n_features": p.n_features, "bound": p.bound, "noise_variance": p.noise_variance}
    whole = Release("third_moment", numbers, 1 - share)
    # In coordinates of unit length and without the correction: relative to the largest contribution.
    few = {"n_features": p.n_features, "n_components": p.n_components, "clip": 1.0}
    whitened = Release("whitened_third_moment", few, 1 - share, known=RELATIVE)
    yield chosen_design(p.design, whole, whitened)


def _refuse_variance(value: Any, p: Public) -> None:
    checked_variance(value)


def _refuse_clip_factor(value: object, p: Public) -> None:
    if not is_number(value) or not 0.5 <= float(value) <= 10:
        raise InvalidParameter(f"clip_factor must be a number from 0.5 to 10; got {shown(value)}. The default is 1.7.")


MIXTURE_MODEL = Analysis(
    name="mixture_model",
    estimator="dpcape.estimators.mixture_model:MixtureModel",
    group=MODELS,
    place=3,
    kinds=frozenset({"rows", "labelled", "views", "subjects"}),
    records="rows",
    parameters=(
        Parameter("n_components", WHOLE, least=1, most=lambda p: p.n_features, planned=5, title="Components"),
        Parameter(
            "noise_variance",
            NUMBER,
            planned=0.01,
            title="Noise variance",
            refuse=_refuse_variance,
        ),
        DESIGN,
        SECOND_MOMENT_SHARE,
        Parameter("clip_factor", OTHER, 1.7, refuse=_refuse_clip_factor),
    ),
    schedule=_schedule,
    variants=(
        Variant("mixture-model", "Mixture of Gaussians", _OPTIONS, {"design": "full"}, note=DESIGN_NOTE),
        Variant(
            "whitened-mixture-model",
            "Mixture, few coordinates (many features)",
            _OPTIONS,
            {"design": "whitened"},
            note=RELATIVE_NOTE,
        ),
    ),
    measure="noise_of_row_moments",
    sections=("component_means", "strengths"),
    audit=(AuditCase("mixture-model", {"n_components": 2, "noise_variance": 0.01}, "rows", 3),),
    standing=VERIFIED,
    reason=SYMMETRIC_MOMENTS,
    reference="docs/analyses/topics_and_mixtures.md",
)
