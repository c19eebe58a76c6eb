"""Description of k-means clustering."""

from __future__ import annotations

import numpy as np

from dpcape.analyses.description import BOUND, MODELS, VERIFIED, Analysis, AuditCase, Public, Variant
from dpcape.analyses.parameters import OTHER, WHOLE, Parameter, check_seed
from dpcape.analyses.release import Release, Steps
from dpcape.errors import InvalidParameter

SEED = Parameter("random_state", OTHER, 0, refuse=lambda value, public: check_seed(value))
EVERY_ROUND = "clipped gradients or sums; every round is counted, whether used or not"


def _schedule(p: Public) -> Steps:
    numbers = {"n_features": p.n_features, "bound": p.bound, "n_clusters": p.n_clusters}
    yield Release("cluster_sums", numbers, 1 / p.n_iter, p.n_iter)


def _refuse_start(init: object, p: Public) -> None:
    """Refuse initial centres of the wrong shape or with non-finite entries."""
    if init is None:
        return
    try:
        centres = np.asarray(init, dtype=np.float64)
    except (TypeError, ValueError):
        centres = np.full((), np.nan)
    shape = (p.n_clusters, p.n_features)
    if centres.shape != shape or not np.isfinite(centres).all():
        raise InvalidParameter(
            f"init must be finite numbers of shape {shape}; got shape {centres.shape}. Pass one row per cluster."
        )


KMEANS = Analysis(
    name="kmeans",
    estimator="dpcape.estimators.kmeans:KMeans",
    group=MODELS,
    place=1,
    kinds=frozenset({"rows", "labelled", "views", "subjects"}),
    records="rows",
    parameters=(
        Parameter("n_clusters", WHOLE, least=1, most=lambda p: p.n_records, planned=5, title="Clusters"),
        Parameter("n_iter", WHOLE, 8, 1, 10_000, title="Rounds"),
        Parameter("init", OTHER, None, optional=True, refuse=_refuse_start),
        SEED,
    ),
    schedule=_schedule,
    variants=(Variant("kmeans", "Clusters", ("n_clusters", "n_iter"), yardstick=BOUND),),
    measure="noise_of_centres",
    sections=("sizes", "centres"),
    audit=(
        AuditCase("kmeans", {"n_clusters": 2, "n_iter": 3, "init": ((0.1, 0.0, 0.0), (-0.1, 0.0, 0.0))}, "rows", 3),
    ),
    standing=VERIFIED,
    reason=EVERY_ROUND,
    reference="docs/analyses/regression.md",
)
