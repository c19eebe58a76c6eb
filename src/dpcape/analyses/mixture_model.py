"""Description of the mixture model: second and third moments, then steps of expectation-maximisation."""

from __future__ import annotations

import math
from typing import Any

from dpcape.analyses.description import LAW, MODELS, Analysis, AuditCase, Public, Variant
from dpcape.analyses.footprint import whole_tensors
from dpcape.analyses.moment_shares import (
    DESIGN,
    DESIGN_NOTE,
    RELATIVE_NOTE,
    SECOND_MOMENT_SHARE,
    chosen_design,
    second_moment_share,
)
from dpcape.analyses.parameters import NUMBER, OTHER, WHOLE, Parameter, is_number, shown
from dpcape.analyses.release import RELATIVE, Release, Steps
from dpcape.core.errors import InvalidParameter
from dpcape.statistics.third_moments import checked_variance

_OPTIONS = ("n_components", "noise_variance")


# Half of mu^2 for the moments and half for two steps: chosen on simulated mixtures (experiments/topics/steps.py),
# as were the clip and the weight of the counts, both in typical lengths of a component's noise.
_STEPS_SHARE, _N_STEPS = 0.5, 2
_STEP_CLIP, _COUNT_WEIGHT = 1.2, 0.3
# Above this noise of a mean, as a share of the bound, steps made some results worse; above 0.14, the average result.
_MOST_NOISE = 0.12


def step_clip(n_features: float, noise_variance: float) -> float:
    """Return the clip of a record's contribution to a step."""
    return _STEP_CLIP * math.sqrt(n_features * noise_variance)


def step_count_weight(n_features: float, noise_variance: float) -> float:
    """Return the factor of the responsibilities in a step."""
    return _COUNT_WEIGHT * math.sqrt(n_features * noise_variance)


def _schedule(p: Public) -> Steps:
    steps, times = _steps(p)
    moments = 1 - _STEPS_SHARE if steps else 1.0
    share = second_moment_share(p.second_moment_share, n_features=p.n_features, n_components=p.n_components)
    yield Release("second_moment", {"n_features": p.n_features, "bound": p.bound, "single": p.single}, moments * share)
    numbers = {"n_features": p.n_features, "bound": p.bound, "noise_variance": p.noise_variance}
    full = Release("third_moment", numbers, moments * (1 - share))
    # Coordinates have unit length and no correction is made: scales are relative to the largest contribution.
    few = {"n_features": p.n_features, "n_components": p.n_components, "clip": 1.0}
    whitened = Release("whitened_third_moment", few, moments * (1 - share), known=RELATIVE)
    yield chosen_design(p.design, full, whitened)
    step = {
        "n_features": p.n_features,
        "bound": p.bound,
        "n_components": p.n_components,
        "clip": step_clip(p.n_features, p.noise_variance),
        "count_weight": step_count_weight(p.n_features, p.noise_variance),
    }
    yield Release("mixture_step", step, _STEPS_SHARE / times, times, when=steps)


def _steps(p: Public) -> tuple[bool, int]:
    """Return whether steps are made, and how many; "auto" judges from public numbers.

    A mean of a component of average weight moves with noise of sqrt(D) K 2 clip / (N mu) in the whole step, with the mu
    that one holder of all records would have for the noise that the protocol leaves in the total.
    """
    if p.n_iter != "auto":
        return p.noise_variance > 0 and p.n_iter > 0, max(1, p.n_iter)
    noise = math.sqrt(p.n_features * _N_STEPS) * p.n_components * 2 * step_clip(p.n_features, p.noise_variance)
    bearable = _MOST_NOISE * p.bound * p.n_records * p.total_mu * math.sqrt(_STEPS_SHARE)
    return p.noise_variance > 0 and noise <= bearable, _N_STEPS


def _refuse_variance(value: Any, p: Public) -> None:
    checked_variance(value)


def _refuse_clip_factor(value: object, p: Public) -> None:
    if not is_number(value) or not 0.5 <= float(value) <= 10:
        raise InvalidParameter("clip_factor", "be a number from 0.5 to 10", shown(value), "The default is 1.7.")


MIXTURE_MODEL = Analysis(
    name="mixture_model",
    estimator="dpcape.estimators.clusters.mixture_model:MixtureModel",
    group=MODELS,
    place=3,
    kinds=frozenset({"rows", "labelled", "views", "subjects"}),
    records="rows",
    parameters=(
        Parameter("n_components", WHOLE, least=1, most=lambda p: p.n_features, planned=5, title="Components"),
        Parameter("noise_variance", NUMBER, planned=0.01, title="Noise variance", refuse=_refuse_variance),
        DESIGN,
        SECOND_MOMENT_SHARE,
        Parameter("clip_factor", OTHER, 1.7, refuse=_refuse_clip_factor),
        Parameter("n_iter", WHOLE, "auto", 0, 1000, words=("auto",)),
    ),
    schedule=_schedule,
    workspace=whole_tensors,
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
    audit=(
        AuditCase("mixture-model", {"n_components": 2, "noise_variance": 0.01}, "rows", 3),
        AuditCase("mixture-model-by-steps", {"n_components": 2, "noise_variance": 0.01, "n_iter": 2}, "rows", 3),
    ),
    law=LAW,
    reason="symmetric second and third moments, then clipped steps; every release is counted",
    reference="docs/analyses/topics_and_mixtures.md#privacy",
)
