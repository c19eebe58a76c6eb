"""Convergence of chains: rank-normalised split R-hat and effective sample size (Vehtari et al. 2021)."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri
from scipy.stats import rankdata

from dpcape.core.arrays import FloatArray


def _split(draws: FloatArray) -> FloatArray:
    """Halve each chain: m x n becomes 2m x (n // 2)."""
    length = draws.shape[1] // 2
    return np.concatenate([draws[:, :length], draws[:, -length:]], axis=0)


def _normal_scores(draws: FloatArray) -> FloatArray:
    """Replace draws by normal scores of their ranks, with Blom's offset."""
    ranks = rankdata(draws, method="average").reshape(draws.shape)
    return np.asarray(ndtri((ranks - 0.375) / (draws.size + 0.25)))


def _plain_r_hat(chains: FloatArray) -> float:
    n = chains.shape[1]
    within = float(chains.var(axis=1, ddof=1).mean())
    between = float(chains.mean(axis=1).var(ddof=1))
    return float(np.sqrt((n - 1) / n + between / within)) if within > 0 else float("nan")


def r_hat(draws: FloatArray) -> float:
    """Return the larger of the bulk and the tail (folded) rank-normalised split R-hat.

    Parameters
    ----------
    draws : ndarray
        n_chains x n_draws, at least four draws per chain.
    """
    halves = _split(np.asarray(draws, dtype=float))
    folded = np.abs(halves - np.median(halves))
    return max(_plain_r_hat(_normal_scores(halves)), _plain_r_hat(_normal_scores(folded)))


def _autocovariance(chains: FloatArray) -> FloatArray:
    n = chains.shape[1]
    centred = chains - chains.mean(axis=1, keepdims=True)
    spectrum = np.fft.rfft(centred, 2 * n, axis=1)
    return np.asarray(np.fft.irfft(np.abs(spectrum) ** 2, 2 * n, axis=1)[:, :n] / n)


def _integrated_time(autocorrelation: FloatArray) -> float:
    """Sum autocorrelations by Geyer's initial monotone positive pairs."""
    n_pairs = autocorrelation.size // 2
    pairs = autocorrelation[: 2 * n_pairs].reshape(n_pairs, 2).sum(axis=1)
    negative = np.flatnonzero(pairs < 0)
    positive = pairs[: negative[0]] if negative.size else pairs
    return float(-1.0 + 2.0 * np.minimum.accumulate(positive).sum()) if positive.size else 1.0


def effective_sample_size(draws: FloatArray) -> float:
    """Return the bulk effective sample size of n_chains x n_draws draws."""
    chains = _normal_scores(_split(np.asarray(draws, dtype=float)))
    n_chains, n = chains.shape
    covariance = _autocovariance(chains).mean(axis=0)
    within = covariance[0] * n / (n - 1)
    total = within * (n - 1) / n + chains.mean(axis=1).var(ddof=1)
    if not total > 0:
        return float("nan")
    correlation = 1.0 - (within - covariance * n / (n - 1)) / total
    correlation[0] = 1.0
    size = n_chains * n
    # Antithetic chains may exceed the number of draws; the cap is the one of Vehtari et al.
    return float(size / max(_integrated_time(correlation), 1.0 / np.log10(size)))


def summarise(monitors: FloatArray, names: list[str]) -> dict[str, dict[str, float]]:
    """Return R-hat and effective sample size by quantity; ``monitors`` is chains x draws x quantities."""
    return {
        name: {"r_hat": r_hat(monitors[:, :, i]), "ess": effective_sample_size(monitors[:, :, i])}
        for i, name in enumerate(names)
    }
