"""Description of k-means clustering."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dpcape.analyses.description import LAW, MODELS, Analysis, AuditCase, Noise, Public, Variant
from dpcape.analyses.parameters import OTHER, WHOLE, Parameter, check_seed, shown
from dpcape.analyses.release import RELATIVE, Release, Steps
from dpcape.analyses.scaling import CLIP, clipping, only, scaled_release, scaling, scaling_used
from dpcape.analyses.scaling import SCALE as PRIVATE_SCALE
from dpcape.core.errors import InvalidParameter

SEED = Parameter("random_state", OTHER, 0, refuse=lambda value, public: check_seed(value))
SPREAD = "spread"
EVERY_ROUND = "clipped gradients or sums; every round is counted, whether used or not"


# Rows of more columns are clustered in this many coordinates. Shares, the number of coordinates and that of starting
# points were chosen on simulated clusters (experiments/clusters/start.py).
N_COORDINATES = 10
MANY = 3
_MOMENTS_SHARE, _ROUNDS_SHARE, _LAST_SHARE = 0.35, 0.45, 0.2
_NOTE = (
    f"In more than {N_COORDINATES} columns the first result sets the length to which rows are shortened, so the "
    "scales of the later releases are relative to it."
)


def reduces(n_features: float, init: object) -> bool:
    """Return whether clusters are sought in few coordinates first: in many columns, unless a start is given."""
    return init is None and n_features > N_COORDINATES


def n_first_rounds(n_iter: float) -> float:
    """Return how many of the rounds in few coordinates have more centres than clusters."""
    return (3 * n_iter + 7) // 8


def _schedule(p: Public) -> Steps:
    few = reduces(p.n_features, p.init)
    plan = (yield from scaling(p)) if p.scale == "private" else (yield from clipping(p))
    moments = {"n_features": p.n_features, "bound": plan.bound}
    yield from only(scaled_release(plan, "centred_moments", moments, _MOMENTS_SHARE), few)
    reduced = {"n_features": p.n_features, "n_columns": N_COORDINATES, "clip": 1.0}
    first, share = n_first_rounds(p.n_iter), plan.left * _ROUNDS_SHARE / p.n_iter
    many, own = reduced | {"n_clusters": MANY * p.n_clusters}, reduced | {"n_clusters": p.n_clusters}
    yield Release("reduced_cluster_sums", many, share, first, known=RELATIVE, when=few)
    more = few and p.n_iter > first
    yield Release("reduced_cluster_sums", own, share, p.n_iter - first, known=RELATIVE, when=more)
    all_columns = {"n_features": p.n_features, "n_columns": p.n_features, "n_clusters": p.n_clusters, "clip": 1.0}
    # Standardising columns takes a matrix, which the statistic in few coordinates accepts.
    standardised = few and scaling_used(p)
    last = plan.left * _LAST_SHARE
    yield Release("reduced_cluster_sums", all_columns, last, known=RELATIVE, when=standardised)
    yield Release("recentred_cluster_sums", all_columns, last, known=RELATIVE, when=few and not standardised)
    numbers = {"n_features": p.n_features, "bound": plan.bound, "n_clusters": p.n_clusters}
    yield from only(scaled_release(plan, "cluster_sums", numbers, 1 / p.n_iter, p.n_iter), not few)


def _noise(p: Public, scales: Sequence[float]) -> float:
    # In many columns, and after a release of lengths, scales are relative to the length that rows are shortened to.
    asked = p.clip is not None or p.scale is not None
    relative = reduces(p.n_features, p.init) or (asked and len(scales) > p.n_iter)
    spread: float = p.n_clusters * math.sqrt(p.n_features + 1) / (1.0 if relative else p.bound)
    return scales[-1] * spread


def _refuse_start(init: object, p: Public) -> None:
    """Refuse initial centres of the wrong shape or with non-finite entries."""
    if init is None or (isinstance(init, str) and init == SPREAD):
        return
    try:
        centres = np.asarray(init, dtype=np.float64)
    except (TypeError, ValueError):
        centres = np.full((), np.nan)
    shape = (p.n_clusters, p.n_features)
    if centres.shape != shape or not np.isfinite(centres).all():
        must = f"be {SPREAD!r} or finite numbers of shape {shape}"
        raise InvalidParameter("init", must, f"shape {centres.shape}", "Pass one row per cluster.")


def _refuse_scale(scale: object, p: Public) -> None:
    """Refuse to standardise rows that are clipped to a quantile of their lengths, or views."""
    PRIVATE_SCALE.check(scale, p)
    if scale is not None and (p.clip is not None or p.kind == "views"):
        raise InvalidParameter(
            "scale",
            "be None where rows are clipped to a quantile of their lengths, and for views",
            shown(scale),
            "Standardised rows have a length of their own that is found: leave out clip, or join the views to one "
            "table.",
        )


SCALE = replace(PRIVATE_SCALE, refuse=_refuse_scale)


KMEANS = Analysis(
    name="kmeans",
    estimator="dpcape.estimators.clusters.kmeans:KMeans",
    group=MODELS,
    place=1,
    kinds=frozenset({"rows", "labelled", "views", "subjects"}),
    records="rows",
    parameters=(
        Parameter("n_clusters", WHOLE, least=1, most=lambda p: p.n_records, planned=5, title="Clusters"),
        Parameter("n_iter", WHOLE, 8, 1, 10_000, title="Rounds"),
        Parameter("init", OTHER, None, optional=True, refuse=_refuse_start),
        SCALE,
        CLIP,
        SEED,
    ),
    schedule=_schedule,
    variants=(Variant("kmeans", "Clusters", ("n_clusters", "n_iter"), note=_NOTE),),
    measure=Noise(
        "noise of a centre in the last round, against the longest row (clusters of equal size)", _noise, "bound"
    ),
    audit=(
        AuditCase("kmeans", {"n_clusters": 2, "n_iter": 3, "init": ((0.1, 0.0, 0.0), (-0.1, 0.0, 0.0))}, "rows", 3),
        AuditCase("clipped-kmeans", {"n_clusters": 2, "n_iter": 2, "clip": (0.9, 0.05)}, "rows", 3),
        AuditCase("scaled-kmeans", {"n_clusters": 2, "n_iter": 2, "scale": "private"}, "rows", 3),
        AuditCase("kmeans-in-many-columns", {"n_clusters": 2, "n_iter": 3}, "rows", N_COORDINATES + 2),
    ),
    law=LAW,
    reason=EVERY_ROUND,
    reference="docs/analyses/kmeans.md#privacy",
)
