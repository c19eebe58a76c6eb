"""capeAGN as published (dissertation, chapter 5), and the guarantee its noise really provides. For comparison only.

Nothing here is used to protect records. Mixtures: the printed sensitivity of the second moment, 1/N, is a spectral
norm, and too small by a factor of sqrt(2) if a record is replaced; that of the third moment is too large. Topics: the
printed moments t1 t2' and t1 (x) t2 (x) t3 are not symmetric, but the noise that remains in the sum is. So the
difference between the released matrix and its transpose has no noise at all. The caller supplies the generators.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator  # published algorithms for comparison: nothing is protected by it

from dpcape.core.arrays import FloatArray, IntArray
from dpcape.core.errors import InvalidParameter
from dpcape.core.privacy.adversary_view import AdversaryView
from dpcape.core.privacy.gaussian import compose, epsilon_of
from dpcape.postprocessing.tensor_power import multilinear, power_method
from dpcape.statistics.packing import middle_groups, packed_tensor_size, root_multiplicities, unpack_tensor
from dpcape.statistics.third_moments import corrected, longest
from dpcape_papers.published.cape import cape_exposure
from dpcape_papers.published.pca import symmetric_noise

MODELS = ("mixture", "topics")
SCHEMES = ("CAPE", "conventional", "local", "pooled")
_BLOCK_ROWS = 1024


@dataclass(frozen=True)
class AgnNoise:
    """The noise of eqs. 5.3 and 5.4, with half of epsilon and delta for each moment, and the epsilons it provides.

    Attributes
    ----------
    second_scale, third_scale : float
        Standard deviation of every distinct entry of the moments that are decomposed.
    claimed_epsilon : float
        By theorem 5.1 (basic composition for the other schemes), at ``delta``.
    delta : float
        Delta of all epsilons.
    verified_epsilon : float
        At the same delta, for one replaced record, against the aggregator and the colluding sites. Infinite for topics
        as printed. For mixtures an upper bound, which adds up the worst cases of both moments.
    verified_second : float
        The exact value for the second moment only: a lower bound for both together.
    verified_symmetrised : float
        As ``verified_epsilon``, if the moments of topics were made symmetric before noise is added.
    """

    second_scale: float
    third_scale: float
    claimed_epsilon: float
    delta: float
    verified_epsilon: float
    verified_second: float
    verified_symmetrised: float


def agn_noise(
    model: str,
    scheme: str,
    *,
    epsilon: float,
    delta: float,
    site_size: int,
    n_sites: int,
    n_colluding: int,
    n_features: int,
    noise_variance: float = 0.0,
) -> AgnNoise:
    """Return the published noise of one of the schemes, and its claimed and verified epsilon.

    Parameters
    ----------
    model : str
        "mixture" (rows of norm at most one) or "topics".
    scheme : str
        "CAPE" (algorithm 5.1), "conventional" (every site adds full noise), "local" (a single site) or "pooled".
    epsilon, delta : float
        As claimed for both moments together.
    site_size : int
        Number of records per site.
    n_sites, n_colluding : int
        Number of sites, and of colluding sites.
    n_features : int
        Number of columns, or of words in the vocabulary.
    noise_variance : float
        Noise variance of the mixture, for rows scaled to norm at most one.
    """
    if model not in MODELS or scheme not in SCHEMES:
        raise InvalidParameter(
            "model",
            f"be one of {MODELS} and scheme one of {SCHEMES}",
            f"{model!r} and {scheme!r}",
            "Choose from these lists.",
        )
    per_sensitivity = math.sqrt(2 * math.log(1.25 / (delta / 2))) / (epsilon / 2)
    claimed = claimed_sensitivities(model, n_features, noise_variance)
    true = true_sensitivities(model, n_features, noise_variance)
    fewer = {"CAPE": n_sites, "conventional": math.sqrt(n_sites), "local": 1.0, "pooled": n_sites}[scheme]
    second, third = (value * per_sensitivity / site_size / fewer for value in claimed)
    exposure = cape_exposure(n_sites, n_colluding) if scheme == "CAPE" else 1.0
    mus = [exposure * real / (printed * per_sensitivity) for real, printed in zip(true, claimed, strict=True)]
    symmetrised = epsilon_of(delta, compose(mus))
    verified, second_alone = symmetrised, epsilon_of(delta, mus[0])
    if model == "topics":
        n = n_sites if scheme in ("CAPE", "conventional") else 1
        verified = second_alone = epsilon_of(delta, asymmetry_exposure(n, cancelling=scheme == "CAPE"))
    return AgnNoise(second, third, epsilon, delta, verified, second_alone, symmetrised)


def claimed_sensitivities(model: str, n_features: int, noise_variance: float = 0.0) -> tuple[float, float]:
    """Return the printed sensitivities of both moments times the number of records (section 5.2)."""
    if model == "topics":
        return math.sqrt(2), math.sqrt(2)
    return 1.0, 2 + 6 * n_features * noise_variance


def true_sensitivities(model: str, n_features: int, noise_variance: float = 0.0) -> tuple[float, float]:
    """Return the true sensitivities for one replaced record; for topics, those of symmetric moments."""
    if model == "topics":
        return math.sqrt(2), math.sqrt(2)
    return math.sqrt(2), 2 * longest(1.0, np.ones(1), square=float(n_features), variance=noise_variance)


def asymmetry_exposure(n_sites: int, *, cancelling: bool) -> float:
    """Return the exposure of an entry of an asymmetric moment if the mirrored entry has the same noise.

    Every site sends both entries with the same own noise and, if ``cancelling``, with zero-sum noise that differs
    between the two. A replaced document changes the entry but not the mirrored one.
    """
    same = np.eye(n_sites)
    zero_sum = same - 1 / n_sites if cancelling else 0 * same
    entry = np.hstack([same, zero_sum, 0 * same])
    mirror = np.hstack([same, 0 * same, zero_sum])
    view = AdversaryView(np.vstack([same, 0 * same]), np.vstack([entry, mirror]), np.ones(3 * n_sites))
    return float(view.exposures().max())


@dataclass(frozen=True)
class Moments:
    """Second and third moments of a set of records, as in the papers."""

    second: FloatArray
    third: FloatArray


def mixture_moments(rows: FloatArray, noise_variance: float) -> Moments:
    """Return M2 and M3 of rows (section 5.1.2), rows clipped to norm one."""
    clipped = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1.0)
    n_rows, width = clipped.shape
    packed = corrected(_sum_of_cubes(clipped), clipped.sum(axis=0), np.eye(width), noise_variance)
    second = clipped.T @ clipped / n_rows - noise_variance * np.eye(width)
    return Moments(second, unpack_tensor(packed / n_rows, width))


def _sum_of_cubes(rows: FloatArray) -> FloatArray:
    """Return the sum of x_i x_j x_k over rows, i <= j <= k, in packed order."""
    width = rows.shape[1]
    groups = middle_groups(width)
    sums = [np.zeros((sum(j + 1 for j in middles), width - middles[0])) for middles in groups]
    for start in range(0, len(rows), _BLOCK_ROWS):
        columns = np.ascontiguousarray(rows[start : start + _BLOCK_ROWS].T)
        for middles, total in zip(groups, sums, strict=True):
            pairs = np.concatenate([columns[: j + 1] * columns[j] for j in middles])
            total += pairs @ columns[middles[0] :].T
    entries = []
    for middles, total in zip(groups, sums, strict=True):
        start = 0
        for j in middles:
            entries.append(total[start : start + j + 1, j - middles[0] :].ravel())
            start += j + 1
    return np.concatenate(entries)


def word_moments(words: IntArray, n_words: int) -> Moments:
    """Return M2 and M3 of the documents' first three words in order, which are not symmetric (section 5.2)."""
    first, second, third = words[:, 0], words[:, 1], words[:, 2]
    pairs = np.bincount(first * n_words + second, minlength=n_words**2)
    triples = np.bincount((first * n_words + second) * n_words + third, minlength=n_words**3)
    return Moments(
        pairs.reshape(n_words, n_words) / len(words), triples.reshape(n_words, n_words, n_words) / len(words)
    )


def agn(
    moments: Moments, n_components: int, *, noise: AgnNoise | None, rng: Generator
) -> tuple[FloatArray, FloatArray]:
    """Run algorithm 5.1 and the tensor power method; return the strengths and, as rows, sqrt(w_k) a_k.

    With ``noise`` None no noise is added. The zero-sum noise of the sites cancels in the mean that is decomposed here,
    so it matters only for the accounting.
    """
    second, third = (moments.second + moments.second.T) / 2, _symmetric(moments.third)
    if noise is not None:
        second = second + symmetric_noise(rng, len(second), noise.second_scale)
        third = third + symmetric_tensor_noise(rng, len(second), noise.third_scale)
    values, vectors = np.linalg.eigh(second)
    # The papers use singular values: the eigenvalues of largest magnitude, whatever their sign.
    order = np.argsort(-np.abs(values))[:n_components]
    roots = np.sqrt(np.maximum(np.abs(values[order]), 1e-12))
    strengths, found = power_method(multilinear(third, vectors[:, order] / roots), n_components)
    return strengths, ((vectors[:, order] * roots) @ found).T


def mixture_means(strengths: FloatArray, halves: FloatArray) -> FloatArray:
    """Return the component means a_k."""
    means: FloatArray = halves * strengths[:, None]
    return means


def topic_vectors(halves: FloatArray) -> FloatArray:
    """Return probability vectors: negative entries become zero, then rows are scaled to sum to one (section 5.4.2)."""
    upright = halves * np.where(halves.sum(axis=1) < 0, -1.0, 1.0)[:, None]
    positive = np.maximum(upright, 0.0)
    vectors: FloatArray = positive / np.maximum(positive.sum(axis=1, keepdims=True), 1e-300)
    return vectors


def symmetric_tensor_noise(rng: Generator, size: int, scale: float) -> FloatArray:
    """Return a symmetric tensor whose distinct entries are independent with the same scale."""
    entries = rng.normal(scale=scale, size=packed_tensor_size(size))
    # Packed entries are multiplied by the root of their multiplicity; the papers' noise is not.
    return unpack_tensor(entries * root_multiplicities(size), size)


def _symmetric(tensor: FloatArray) -> FloatArray:
    orders = ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0))
    mean: FloatArray = np.mean([np.transpose(tensor, order) for order in orders], axis=0)
    return mean
