"""The algorithms of chapter 6's figures, as published and verified."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcape import Cape, Exact, Federation, Independent, JointICA, Replay, in_process, subjects
from dpcape.core.arrays import FloatArray
from dpcape.core.errors import UtilityWarning
from dpcape.guarantee.guarantee import Guarantee
from dpcape.postprocessing.eigen import top_eigen
from dpcape_papers.figures.ica.series import N_COLLUDING, N_SITES, Arrays, PeopleSeries
from dpcape_papers.published.ica import DjicaComparison, cape_djica, clipped_infomax, dp_djica
from dpcape_papers.published.pca import symmetric_noise
from dpcape_papers.published.regression import classical_multiplier


@dataclass(frozen=True)
class Found:
    """An unmixing matrix and its maps, with the claimed and the real epsilon per time point, and the guarantee."""

    unmixing: FloatArray
    mixing: FloatArray
    claimed: float | None = None
    verified: float | None = None
    guarantee: Guarantee | None = None


def djica(series: PeopleSeries, n_components: int, *, n_iter: int) -> Found:
    """Return the result without noise, with gradients clipped as in the private algorithm (section 6.5)."""
    return _infomax(series.arrays, series.bound, n_components, n_iter=n_iter)


def cape_djica_found(
    series: PeopleSeries, n_components: int, *, epsilon: float, delta_round: float, delta: float, n_iter: int,
    seed: int, alone: bool = False,
) -> Found:  # fmt: skip
    """Return the result of capeDJICA with the published noise; with ``alone``, that of a single site.

    Simulated data are reduced by capePCA, real data by a PCA without noise, as in the papers.
    """
    arrays = series.sites()[0] if alone else series.arrays
    private_pca = series.mixing is not None
    noise, rng = classical_multiplier(epsilon, delta_round), np.random.default_rng(seed)  # protects nothing
    found = _infomax(arrays, series.bound, n_components, n_iter=n_iter, noise=noise, rng=rng, private_pca=private_pca)
    totals = overall(series, epsilon=epsilon, delta_round=delta_round, delta=delta, n_iter=n_iter, alone=alone)
    # The papers reduce the real data by a PCA without noise (section 6.5): nothing is guaranteed then.
    verified = totals.verified_epsilon if private_pca else math.inf
    return Found(found.unmixing, found.mixing, totals.claimed_epsilon, verified)


def overall(
    series: PeopleSeries, *, epsilon: float, delta_round: float, delta: float, n_iter: int, alone: bool = False
) -> DjicaComparison:
    """Return the epsilons that chapter 6 claims, and those that the same noise provides."""
    n_records = series.n_timepoints * len(series.arrays) // (N_SITES if alone else 1)
    return cape_djica(
        epsilon_round=epsilon,
        delta_round=delta_round,
        n_iter=n_iter,
        n_sites=1 if alone else N_SITES,
        n_colluding=N_COLLUDING,
        delta=delta,
        n_records=n_records,
        n_timepoints=series.n_timepoints,
        with_pca=series.mixing is not None,
    )


def dp_djica_found(
    series: PeopleSeries, n_components: int, *, epsilon: float, n_iter: int, seed: int, pooled: bool = False
) -> Found:
    """Return the result of DP-djICA as published, with ``epsilon`` for the PCA and every round; no guarantee holds."""
    sites = [series.arrays] if pooled else series.sites()
    # Scaled by the public bound to the norms of section III; clipping without scaling would make all norms equal.
    factor = np.float32(1 / (series.bound * 2 * math.sqrt(series.arrays[0].shape[1])))
    found = dp_djica(
        [np.vstack(site) * factor for site in sites],  # type: ignore[misc]  # float32 is precise enough
        n_components,
        epsilon_pca=epsilon,
        epsilon_round=epsilon,
        n_iter=n_iter,
        rng=np.random.default_rng(seed),  # protects nothing
        learning_rate=1.0,
        # As printed a round adds up the gradients of all records, which diverges from any rate that small sets need.
        step="mean",
    )
    unmixing = np.asarray(found.unmixing, dtype=np.float64)
    mixing = np.linalg.pinv(unmixing).astype(np.float64)
    return Found(unmixing, mixing, found.claimed_epsilon, math.inf)


def joint_ica(
    series: PeopleSeries,
    n_components: int,
    *,
    scheme: str,
    epsilon: float,
    delta: float,
    seed: int,
    unit: str = "record",
) -> Found:
    """Return the result of dpcape's JointICA; ``epsilon`` is the total of all releases.

    ``scheme`` is "CAPE", "local" (a single site), "pooled" (one holder of all records) or "exact".
    """
    sites = {"CAPE": series.sites(), "exact": series.sites(), "local": series.sites()[:1], "pooled": [series.arrays]}
    held = {
        f"site{i}": subjects(
            part, bound=series.bound, unit=unit, rows_per_subject=max(map(len, part)), n_features=part[0].shape[1]
        )
        for i, part in enumerate(sites[scheme])
    }
    protocol = {"CAPE": Cape(n_colluding=N_COLLUDING), "exact": Exact()}.get(scheme, Independent())
    federation = Federation(in_process(held, noise=Replay(seed)), protocol=protocol, accept_large_delta=True)
    model = JointICA(n_components, epsilon=epsilon, delta=delta, n_timepoints=series.n_timepoints, insist=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UtilityWarning)
        model.fit(federation)
    if scheme == "exact":
        return Found(model.unmixing_, model.mixing_)
    return Found(model.unmixing_, model.mixing_, epsilon, model.guarantee_.epsilon, model.guarantee_)


def _infomax(
    arrays: Arrays,
    bound: float,
    n_components: int,
    *,
    n_iter: int,
    noise: float = 0.0,
    rng: np.random.Generator | None = None,
    private_pca: bool = True,
) -> Found:
    """Reduce by PCA, whiten by its eigenvalues, and run clipped infomax."""
    n_rows = sum(len(part) for part in arrays)
    moment = sum((_gram(part, bound) for part in arrays), np.zeros((arrays[0].shape[1],) * 2)) / n_rows
    if rng is not None and private_pca:
        moment = moment + symmetric_noise(rng, len(moment), noise * bound**2 / n_rows)
    values, vectors = top_eigen(moment, n_components)
    roots = np.sqrt(np.maximum(values, 1e-6 * max(float(values[0]), 1e-300)))
    rows = np.vstack([_clipped(part, bound) @ (vectors / roots) for part in arrays])
    turn = clipped_infomax(
        rows,
        n_iter=n_iter,
        clip=5 * math.sqrt(n_components),
        bias_clip=0.5 * math.sqrt(n_components),
        noise=noise,
        rng=rng,
    )
    return Found(turn / roots @ vectors.T, (vectors * roots) @ np.linalg.inv(turn))


def _clipped(part: NDArray[np.float32], bound: float) -> FloatArray:
    rows = part.astype(np.float64)
    clipped: FloatArray = rows * np.minimum(
        1.0, bound / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)
    )
    return clipped


def _gram(part: NDArray[np.float32], bound: float) -> FloatArray:
    rows = _clipped(part, bound)
    product: FloatArray = rows.T @ rows
    return product
