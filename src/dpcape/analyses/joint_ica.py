"""Description of joint ICA with unit "record" (a time point) or "subject", for both solvers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from dpcape.analyses.description import ICA, LAW, RADIUS, Analysis, AuditCase, Noise, Public, Variant
from dpcape.analyses.footprint import Workspace
from dpcape.analyses.parameters import CHOICE, FLAG, NUMBER, OTHER, WHOLE, Parameter
from dpcape.analyses.release import Refusal, Release, Steps
from dpcape.analyses.wide import MAPS, SOURCE_MAPS, InBasis, bytes_of_basis, map_share, maps_used
from dpcape.core.arrays import FloatArray
from dpcape.core.errors import InvalidParameter
from dpcape.core.statistic import extent_of
from dpcape.statistics.bases import as_basis
from dpcape.statistics.basis import Basis
from dpcape.statistics.packing import packed_size4

# Per time point: shares of mu^2 for PCA and whitening, and for whitening where the basis needs no PCA.
_RECORD_PCA, _RECORD_WHITENING, _RECORD_WHITENING_ALONE = 0.30, 0.10, 0.15
# Per person: the share for PCA; then, of the rest, logarithms and covariances. The rotation gets what remains.
PCA_SHARE, LOG_SHARE, COVARIANCE_SHARE = 0.22, 0.05, 0.10
N_COVARIANCE_ROUNDS, N_POLISH_ROUNDS = 2, 4
# Simulated maps were not recovered below this many subjects times mu per component, or above this noise in the PCA.
_STRENGTH_PER_COMPONENT, _MOST_PCA_NOISE = 16.0, 0.6
# Clip radii in units of sqrt(components), for whitened time points.
_WHITENING_CLIP, _FOURTH_CLIP = 1.0, 0.8
LOG_CLIP = 3.0
# How far covariances are from the identity once logarithms have been removed.
LEFT_BY_LOGS = 0.3 * LOG_CLIP
SOLVERS = ("moment", "infomax")
CONTRASTS = ("positive", "negative", "mixed")
_NOTE = "Later requests depend on earlier results, but their noise does not, so these numbers are exact."
_PEOPLE_NOTE = (
    f"{_NOTE} Clip radii of covariances are computed from the noise of earlier releases, assuming that every site "
    "finishes."
)


_NO_MAPS = InvalidParameter(
    "maps",
    "be False without a public basis of more columns than components",
    "True",
    "Give a larger basis, or leave maps out.",
)
_NO_ROUNDS = InvalidParameter(
    "maps", "be False with solver='infomax'", "True", "Use solver='moment', or leave maps out."
)
_NO_PEOPLE = InvalidParameter(
    "maps",
    "be False for unit 'subject', where noise would hide them",
    "True",
    "Leave maps out, or protect time points with unit='record'.",
)


def whitening_clip(n_components: float) -> float:
    """Return the clip radius of time points for the second moment that whitens them."""
    return _WHITENING_CLIP * math.sqrt(n_components)


def fourth_clip(n_components: float) -> float:
    """Return the clip radius of whitened time points for the fourth moment."""
    return _FOURTH_CLIP * math.sqrt(n_components)


def infomax_clips(n_components: float) -> tuple[float, float]:
    """Return the clip radii of a time point's gradient and of its bias.

    Near a solution |G| is about .45 R; a smaller radius slows the first rounds, a larger one adds noise.
    """
    return 0.4 * n_components, 0.5 * math.sqrt(n_components)


def subject_infomax_clip(n_components: float, n_timepoints: float) -> float:
    """Return the clip radius of a subject's mean gradient."""
    return n_components / math.sqrt(n_timepoints)


def covariance_clip(n: float, n_timepoints: float, scale: float, *, residual: float = 0.0) -> float:
    """Return a clip radius that covers nearly all subjects: sampling, the last release's noise and its residual."""
    return 1.2 * math.sqrt(n * (n + 3) / n_timepoints + scale**2 * n * (n + 1) / 2 + residual**2)


def _of_time_points(p: Public) -> Steps:
    n, columns = p.n_components, (p.n_basis if p.n_basis is not None else p.n_features)
    reduces = columns > n
    in_basis = sources_in_basis(p)
    if p.maps:
        # A plan need not state the basis; without a basis there are no maps.
        yield Refusal(p.operator is not None and not in_basis.wide, _NO_MAPS)
        yield Refusal(p.solver != "moment", _NO_ROUNDS)
    has_maps = maps_used(p, in_basis)
    of_maps = map_share(p, in_basis) if has_maps else 0.0
    remaining = 1 - of_maps
    few = InvalidParameter("Time points", "outnumber the {n} components", "{n_records}", "Use fewer components.")
    yield Refusal(p.n_records <= n, few, {"n": n, "n_records": p.n_records})
    pca = _RECORD_PCA * remaining if reduces else 0.0
    whitening = _RECORD_WHITENING * remaining if reduces else _RECORD_WHITENING_ALONE
    first = pca if reduces else whitening
    plain = p.n_basis is None and reduces
    yield Release(
        "second_moment", {"n_features": p.n_features, "bound": p.bound, "single": p.single}, first, when=plain
    )
    narrow = {"n_features": p.n_features, "n_columns": columns, "clip": p.bound}
    if p.operator or p.maps:
        inside = {"n_features": p.n_features, "n_columns": columns, "bound": p.bound}
        yield Release("basis_moments", inside, first, when=in_basis.wide)
        yield Release("reduced_second_moment", narrow, first, when=not (plain or in_basis.wide))
    else:
        yield Release("reduced_second_moment", narrow, first, when=not plain)
    white = {"n_features": p.n_features, "n_columns": n, "clip": whitening_clip(n)}
    yield Release("reduced_second_moment", white, whitening, when=reduces)
    if p.solver == "infomax":
        clip, bias_clip = infomax_clips(n)
        scores = {"n_features": p.n_features, "n_components": n, "clip": clip, "bias_clip": bias_clip}
        yield Release("infomax_scores", scores, (remaining - pca - whitening) / p.n_iter, p.n_iter)
    else:
        fourth = {"n_features": p.n_features, "n_components": n, "clip": fourth_clip(n)}
        yield Release("fourth_moment", fourth, remaining - pca - whitening)
    if has_maps:
        yield Release("residual_maps", {"n_features": p.n_features, "n_components": n}, of_maps)


def _noise(p: Public, scales: Sequence[float]) -> float:
    n, by_record = p.n_components, p.unit == "record"
    if p.solver == "infomax":
        reach = math.hypot(*infomax_clips(n)) if by_record else subject_infomax_clip(n, p.n_timepoints)
        return scales[-1] * math.sqrt(n * (n + 1)) / reach
    reduces = (p.n_basis if p.n_basis is not None else p.n_features) > n
    # After the moments of PCA and whitening, or the projector, the logarithm and two covariances; more may follow.
    at = (1 if by_record else 3) + (1 if reduces else 0)
    return scales[at] * math.sqrt(packed_size4(n)) / (fourth_clip(n) ** 4 if by_record else 1.0)


def _noise_in_words(p: Public) -> str:
    where = "each gradient" if p.solver == "infomax" else f"the {'fourth moment' if p.unit == 'record' else 'tensor'}"
    return f"length of the noise in {where}, against its bound"


def sources_in_basis(p: Public) -> InBasis:
    """Return the numbers of columns of time points in a public basis that has more columns than components."""
    columns = p.n_basis if p.n_basis is not None else p.n_features
    return InBasis(p.n_basis is not None and columns > p.n_components, columns, p.n_features, 1, SOURCE_MAPS)


def _of_people(p: Public) -> Steps:
    n, columns = p.n_components, (p.n_basis if p.n_basis is not None else p.n_features)
    reduces = columns > n
    after_pca = 1 - PCA_SHARE if reduces else 1.0
    remedy = "Add subjects, or protect time points with unit='record'."
    alone = InvalidParameter("unit='subject'", "have at least 2 subjects", "1", remedy)
    yield Refusal(p.n_records < 2, alone)
    if p.maps:
        yield Refusal(True, _NO_PEOPLE)
    yield Release("subject_projector", {"n_columns": columns, "n_components": n}, PCA_SHARE, when=reduces)
    noise = yield Release(
        "subject_log_covariance", {"n_components": n, "clip": LOG_CLIP}, LOG_SHARE * after_pca, feeds=True
    )
    share = COVARIANCE_SHARE / N_COVARIANCE_ROUNDS * after_pca
    for number in range(N_COVARIANCE_ROUNDS):
        clip = covariance_clip(n, p.n_timepoints, noise, residual=0.0 if number else LEFT_BY_LOGS)
        more = number + 1 < N_COVARIANCE_ROUNDS
        noise = yield Release("subject_covariance", {"n_components": n, "clip": clip}, share, feeds=more)
    rotation = 1 - LOG_SHARE - COVARIANCE_SHARE
    if p.solver == "infomax":
        gradient = {"n_components": n, "clip": subject_infomax_clip(n, p.n_timepoints)}
        yield Release("subject_infomax", gradient, rotation / p.n_iter * after_pca, p.n_iter)
        return
    polishes = p.kurtosis == "positive"
    tensor = _tensor_share(p, after_pca) if polishes else rotation
    yield Release("subject_tensor", {"n_components": n}, tensor * after_pca)
    if polishes:
        share = (rotation - tensor) / N_POLISH_ROUNDS * after_pca
        yield Release("subject_polish", {"n_components": n}, share, N_POLISH_ROUNDS)


def _tensor_share(p: Public, after_pca: float) -> float:
    """Return the tensor's share: smaller where there is less noise, because refinement then gains more."""
    strength = p.n_records * p.mu * math.sqrt(after_pca)
    return 0.60 if strength < 330 else (0.50 if strength < 600 else 0.35)


def least_subjects(p: Public) -> int:
    """Return the number of subjects below which noise hides the maps at the subject unit, from public numbers alone.

    Simulated sources of two kinds with 5, 10 and 20 components were found (q_NGI below .05) where subjects times mu
    exceeded about 16 per component, after the share of the PCA, and not below. In the private PCA the operator norm of
    the noise, scale * sqrt(2 columns), must stay below .6: the eigenvalues of a mean projector are at most 1
    (experiments/ica/least_subjects.py).
    """
    n, columns = int(p.n_components), int(p.n_features if p.n_basis is None else p.n_basis)
    reduces = columns > n
    least: float = _STRENGTH_PER_COMPONENT * n / (p.mu * math.sqrt(1 - PCA_SHARE if reduces else 1.0))
    if reduces:
        diameter = extent_of("subject_projector", n_columns=columns, n_components=n).diameter
        least = max(least, diameter * math.sqrt(2 * columns / PCA_SHARE) / (_MOST_PCA_NOISE * p.mu))
    return math.ceil(least)


def _derived(parameters: Mapping[str, object]) -> dict[str, object]:
    """Return the number of columns of the public basis, and whether it is applied as an operator; None in a plan."""
    if "n_basis" in parameters:
        return {"operator": None}
    basis = parameters.get("basis")
    if is_operator(basis):
        try:
            return {"n_basis": as_basis(basis).n_columns, "operator": True}
        except InvalidParameter:
            # The check of the parameter says what is wrong with it.
            return {"n_basis": None, "operator": False}
    shape = () if basis is None else as_numbers(basis).shape
    return {"n_basis": shape[1] if len(shape) == 2 else None, "operator": False}


def is_operator(basis: object) -> bool:
    """Return whether a public basis is given as an operator, and not as a matrix of columns."""
    is_list = isinstance(basis, list | tuple) and len(basis) > 0 and isinstance(basis[0], str)
    return isinstance(basis, Basis) or is_list


def as_numbers(basis: object) -> FloatArray:
    """Return a basis as an array; if it is not numeric, an array without dimensions, which is refused."""
    try:
        return np.asarray(basis, dtype=np.float64)
    except (TypeError, ValueError):
        return np.full((), np.nan)


def _refuse_basis(value: object, p: Public) -> None:
    if value is None:
        return
    if is_operator(value):
        operator = as_basis(value)
        if operator.n_features != p.n_features or operator.n_columns < p.n_components:
            must = f"have {p.n_features} rows (voxels) and at least {p.n_components} columns"
            remedy = "Use a basis of the voxels of the mask."
            raise InvalidParameter("basis", must, f"{operator.n_features} and {operator.n_columns}", remedy)
        return
    basis = as_numbers(value)
    fits = basis.ndim == 2 and basis.shape[0] == p.n_features and basis.shape[1] >= p.n_components
    if not fits or not np.isfinite(basis).all():
        must = f"be finite, with {p.n_features} rows (voxels) and at least {p.n_components} columns"
        raise InvalidParameter("basis", must, f"shape {basis.shape}", "Use a basis of the voxels of the mask.")
    if np.abs(basis.T @ basis - np.eye(basis.shape[1])).max() > 1e-8:
        raise InvalidParameter(
            "basis", "have orthonormal columns", "columns that are not", "Use numpy.linalg.qr(basis)[0]."
        )


# A basis of three of four columns, for the audit.
_SMALL = ["cosines", [4], [3]]
_TIME_POINT = ("n_components", "n_basis")
_PERSON = ("n_components", "n_basis", "n_timepoints")

JOINT_ICA = Analysis(
    name="joint_ica",
    estimator="dpcape.estimators.ica.joint_ica:JointICA",
    group=ICA,
    kinds=frozenset({"subjects", "rows"}),
    units=frozenset({"record", "subject"}),
    records="subjects",
    parameters=(
        Parameter("solver", CHOICE, "moment", words=SOLVERS),
        Parameter("kurtosis", CHOICE, "positive", words=CONTRASTS),
        Parameter("n_components", WHOLE, least=2, most=lambda p: p.n_features, planned=5, title="Components"),
        Parameter("n_iter", WHOLE, 200, 1, 10**6, title="Rounds"),
        Parameter(
            "n_timepoints",
            WHOLE,
            250,
            lambda p: p.n_components + 1 if p.unit == "subject" else 1,
            10**9,
            title="Time points each",
        ),
        Parameter("learning_rate", NUMBER, 1.0, 0, math.inf),
        Parameter("tol", NUMBER, 1e-6, 0, math.inf),
        Parameter("basis", OTHER, None, optional=True, refuse=_refuse_basis),
        Parameter("insist", FLAG, False, title="Fit also where noise hides the maps"),
        MAPS,
    ),
    facts=(
        Parameter("operator", FLAG, None, optional=True),
        Parameter(
            "n_basis",
            WHOLE,
            None,
            lambda p: p.n_components,
            lambda p: p.n_features,
            optional=True,
            title="Public basis, columns",
            left_out="none",
        ),
    ),
    derived=_derived,
    workspace=lambda p, sizes: Workspace(public=bytes_of_basis(p)),
    schedule=lambda p: _of_people(p) if p.unit == "subject" else _of_time_points(p),
    variants=(
        Variant("joint-ica", "Joint ICA, per time point", _TIME_POINT, {"solver": "moment"}, note=_NOTE),
        Variant(
            "joint-ica-maps",
            "Joint ICA, per time point, with maps beyond the basis",
            _TIME_POINT,
            {"solver": "moment", "maps": True},
            note=_NOTE,
        ),
        Variant(
            "infomax-joint-ica",
            "Joint ICA by infomax, per time point",
            (*_TIME_POINT, "n_iter"),
            {"solver": "infomax"},
            note=_NOTE,
        ),
        Variant(
            "subject-joint-ica",
            "Joint ICA, per person",
            _PERSON,
            {"solver": "moment"},
            "subject",
            yardstick=RADIUS,
            note=_PEOPLE_NOTE,
        ),
        Variant(
            "subject-infomax-joint-ica",
            "Joint ICA by infomax, per person",
            (*_PERSON, "n_iter"),
            {"solver": "infomax"},
            "subject",
            yardstick=RADIUS,
            note=_PEOPLE_NOTE,
        ),
    ),
    measure=Noise(_noise_in_words, _noise),
    audit=(
        AuditCase("joint-ica", {"n_components": 2}, "time_points", 2),
        AuditCase("joint-ica-maps", {"n_components": 2, "basis": _SMALL, "maps": True}, "time_points", 4),
        AuditCase("joint-ica-of-subjects", {"n_components": 2, "n_timepoints": 8, "insist": True}, "people", 16),
        AuditCase("joint-ica-infomax", {"n_components": 2, "solver": "infomax", "n_iter": 3}, "time_points", 2),
    ),
    law=LAW,
    reason="clipped moments or gradients; every release is counted; the guarantee names the unit",
    reference="docs/analyses/joint_ica.md#privacy",
)
