"""Canonical correlations of several views (MAXVAR), and what noise and sampling give where views are unrelated.

Each view is whitened, and the whitened cross moments of all pairs of views form a symmetric matrix C with zeros in the
blocks of the views themselves. The eigenvector of its largest eigenvalue l holds one direction per view; l / (V - 1) is
the mean correlation of the V variates, each weighted by how much its view takes part. With two views these are the
canonical correlations. 1 + l is the largest eigenvalue of Kettenring's MAXVAR (1971), which has one global solution;
the largest sum of correlations (SUMCOR) has none that can be computed for certain.

Of views that share k factors and are uncorrelated given these, C is L L' minus the blocks of the views, with k columns
of L: at most k eigenvalues are positive. By Weyl's inequality eigenvalue k + 1 of the released C is then at most the
largest eigenvalue of its error, whatever the factors are: every component is compared with the same draws.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, combinations

import numpy as np

from dpcape.core.arrays import FloatArray
from dpcape.postprocessing.component_tests import MomentNoise, in_order, n_draws, p_value_of, quantile
from dpcape.postprocessing.eigen import Spectrum, signed
from dpcape.postprocessing.largest_norms import operator_norms

# Margin for records that are not normal and for whitening by released moments, as for two views.
MARGIN = 1.05
# Maximum number of entries of draws in memory.
_MOST_ENTRIES = 1 << 20
_SEED = 20260714


@dataclass(frozen=True)
class SharedComponents:
    """Components that views share.

    Attributes
    ----------
    weights : array of shape (D, K)
        Directions, one part per view; each gives a variate of variance 1 where no eigenvalue was floored.
    eigenvalues : array of shape (K,)
        Eigenvalues of the whitened cross moments, descending.
    pair_correlations : array of shape (K, V, V)
        Correlation of the variates of each pair of views.
    """

    weights: FloatArray
    eigenvalues: FloatArray
    pair_correlations: FloatArray


def whitened_crosses(moment: FloatArray, spectra: Sequence[Spectrum]) -> FloatArray:
    """Return the cross moments of all pairs of views, whitened, in the eigenbases of the views."""
    slices = view_slices(spectra)
    crosses = np.zeros_like(moment)
    for (at, first), (other, second) in combinations(zip(slices, spectra, strict=True), 2):
        cross = first.vectors.T @ moment[at, other] @ second.vectors
        crosses[at, other] = first.whitener[:, np.newaxis] * cross * second.whitener
        crosses[other, at] = crosses[at, other].T
    return crosses


def view_slices(spectra: Sequence[Spectrum]) -> list[slice[int, int, None]]:
    """Return the columns of each view."""
    sizes = [spectrum.size for spectrum in spectra]
    return [slice(end - size, end) for end, size in zip(accumulate(sizes), sizes, strict=True)]


def shared_components(crosses: FloatArray, spectra: Sequence[Spectrum], n_components: int) -> SharedComponents:
    """Return the strongest components of whitened cross moments.

    Signs are such that the largest weight of the first view is positive.
    """
    values, vectors = np.linalg.eigh(crosses)
    values, vectors = values[::-1][:n_components], vectors[:, ::-1][:, :n_components]
    weights, units = np.empty_like(vectors), np.empty_like(vectors)
    for at, spectrum in zip(view_slices(spectra), spectra, strict=True):
        lengths = np.linalg.norm(vectors[at], axis=0)
        # A view that takes no part has no direction.
        units[at] = np.where(lengths > 1e-9, vectors[at] / np.maximum(lengths, 1e-9), 0.0)
        weights[at] = (spectrum.vectors * spectrum.whitener) @ units[at]
    _, signs = signed(weights[: spectra[0].size])
    return SharedComponents(weights * signs, values, _pair_correlations(crosses, units, spectra))


def _pair_correlations(crosses: FloatArray, units: FloatArray, spectra: Sequence[Spectrum]) -> FloatArray:
    slices = view_slices(spectra)
    correlations = np.tile(np.eye(len(spectra)), (units.shape[1], 1, 1))
    for first, second in combinations(range(len(spectra)), 2):
        at, other = slices[first], slices[second]
        each = np.einsum("ik,ij,jk->k", units[at], crosses[at, other], units[other])
        correlations[:, first, second] = correlations[:, second, first] = np.clip(each, -1.0, 1.0)
    return correlations


@dataclass(frozen=True)
class UnrelatedViews:
    """What noise and sampling give where views are unrelated.

    Attributes
    ----------
    eigenvalues : array of shape (n,)
        Draws of the largest eigenvalue of the whitened cross moments.
    correlations : array of shape (n,)
        Draws of the largest correlation of any pair of views.
    """

    eigenvalues: FloatArray
    correlations: FloatArray


def unrelated_views(spectra: Sequence[Spectrum], noise: MomentNoise) -> UnrelatedViews:
    """Return draws for views that are unrelated, from released and public numbers alone.

    Parameters
    ----------
    spectra : sequence of Spectrum
        Eigenvalues and eigenvectors of the views' released moments, as they were whitened.
    noise : MomentNoise
        Noise of the stacked moment.
    """
    slices = view_slices(spectra)
    eigenvalues, correlations = [], []
    for draws in _drawn_crosses(spectra, noise):
        eigenvalues.append(np.linalg.eigvalsh(draws)[:, -1])
        norms = [operator_norms(draws[:, at, other]) for at, other in combinations(slices, 2)]
        correlations.append(np.max(norms, axis=0))
    return UnrelatedViews(MARGIN * np.concatenate(eigenvalues), MARGIN * np.concatenate(correlations))


def _drawn_crosses(spectra: Sequence[Spectrum], noise: MomentNoise) -> Iterator[FloatArray]:
    """Yield whitened cross moments of unrelated views, several at a time."""
    generator = np.random.default_rng(_SEED)
    slices = view_slices(spectra)
    size = slices[-1].stop
    # Eigenvalues of the whole matrix and norms of all its blocks: each draw costs as much as several of two views.
    count = n_draws(4 * size**2)
    step = max(1, _MOST_ENTRIES // size**2)
    means = [spectrum.vectors.T @ noise.mean[at] for at, spectrum in zip(slices, spectra, strict=True)]
    for start in range(0, count, step):
        n = min(step, count - start)
        crosses = np.zeros((n, size, size))
        errors = generator.standard_normal((n, size)) * noise.mean_scale
        for view, other in combinations(range(len(spectra)), 2):
            first, second, at, beside = spectra[view], spectra[other], slices[view], slices[other]
            shape = (n, first.size, second.size)
            sampled = generator.standard_normal(shape) * math.sqrt(noise.record_share)
            added = generator.standard_normal(shape) * (noise.scale / math.sqrt(2))
            if noise.mean_scale:
                error, second_error = errors[:, at, np.newaxis], errors[:, np.newaxis, beside]
                added += error * second_error - means[view][:, np.newaxis] * second_error - error * means[other]
            spread = first.spread[:, np.newaxis] * second.spread
            whitener = first.whitener[:, np.newaxis] * second.whitener
            crosses[:, at, beside] = sampled * spread + added * whitener
            crosses[:, beside, at] = crosses[:, at, beside].swapaxes(1, 2)
        yield crosses


def shared_p_values(eigenvalues: FloatArray, unrelated: UnrelatedViews) -> FloatArray:
    """Return for each component the p-value of "no further component is shared"; testing stops as for pairs.

    Parameters
    ----------
    eigenvalues : array of shape (K,)
        Eigenvalues of the released cross moments, descending.
    unrelated : UnrelatedViews
        Draws for unrelated views.
    """
    return in_order(lambda k: p_value_of(float(eigenvalues[k]), unrelated.eigenvalues), len(eigenvalues))


def level_of(draws: FloatArray, divisor: float = 1.0) -> float:
    """Return the 95% quantile of draws over ``divisor``, at most one."""
    return min(1.0, quantile(draws) / divisor)
