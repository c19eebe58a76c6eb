"""One step of expectation-maximisation for a mixture of spherical Gaussians, recentred at the present means."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dpcape.core.arrays import FloatArray
from dpcape.core.contributions import Cross, Form, Sum
from dpcape.core.errors import InvalidParameter
from dpcape.core.extent import CONVERSIONS, UNIT_ROUNDOFF, Extent, exact_sums, row_error
from dpcape.core.facts import PublicFacts
from dpcape.core.grid import PublicColumns, clipped, on_grid, reach_on_grid, steps_for
from dpcape.core.kernel import Summed
from dpcape.core.statistic import known
from dpcape.core.tiles import Tile
from dpcape.statistics.moments import row_bound
from dpcape.statistics.third_moments import checked_positive

_LEAST_WEIGHT = 1e-12
# Means may exceed the bound of the records by rounding only.
_SLACK = 1e-9


class StepMeans(NamedTuple):
    """Changes of the weights, and means over all records of r_k (x - m_k), one row per component."""

    weights: FloatArray
    moves: FloatArray


@known
class MixtureStep(Summed[StepMeans]):
    """Mean of (b (r - w), r_k (x - m_k) stacked over k), clipped to a public length, r the responsibilities.

    For components of means m_k, weights w_k and variance v in each column, r_k is proportional to w_k exp(-|x -
    m_k|^2 / 2 v). A record contributes the vector u = (b (r - w), r_1 (x - m_1), ..., r_K (x - m_K)) times min(1, c /
    |u|), c the clip. Whatever means, weights, variance and b are, two contributions have length at most c each, so
    they are at most 2 c apart. Because r is part of the clipped vector, changes of the weights are
    released without a diameter of their own.

    *On the grid.* Rows x and means m_k are integers, each of its own steps. The length is computed from |x|^2 - 2 x'm_k
    + |m_k|^2, three exact sums, which are off by at most 1024 u B^2 when they are rounded and added, for |x|, |m_k| <=
    B. This much is added before the root is taken, so that cancellation cannot make a contribution longer than c. With
    f the factor of clipping, f r_k is cut, not rounded, to whole steps: no move is longer than before. What the weights
    contribute, f b (r - w), is rounded to the grid of length c, for which the target of clipping leaves room.

    The sums of f r_k x and of f r_k are combined at the end, so each counts in the rounding with its own length, B.

    Parameters
    ----------
    facts : PublicFacts
        Public facts of the records.
    means : (K, D) array
        Present means, none longer than the bound of the records.
    weights : (K,) array
        Present weights, from 1e-12 to 1.
    noise_variance : float
        Variance v that responsibilities are computed with.
    clip : float
        Largest length of a contribution.
    count_weight : float
        Factor b of the responsibilities.
    """

    name = "mixture_step"
    kinds = frozenset({"rows", "labelled", "views", "subjects"})
    units = frozenset({"record"})

    def __init__(
        self,
        facts: PublicFacts,
        means: FloatArray,
        weights: FloatArray,
        noise_variance: float,
        clip: float,
        count_weight: float,
    ) -> None:
        super().__init__(
            facts, means=means, weights=weights, noise_variance=noise_variance, clip=clip, count_weight=count_weight
        )
        columns = PublicColumns(_checked_means(means, facts).T)
        # As they are on their own grid.
        self._columns, self._means = columns, (columns.ints * np.multiply.reduce(columns.units)).T
        self._weights = _checked_weights(weights, len(self._means))
        self._variance = checked_positive("noise_variance", noise_variance)
        self._clip = checked_positive("clip", clip)
        self._count_weight = checked_positive("count_weight", count_weight)
        self._squares = np.array([math.fsum(entry * entry for entry in mean) for mean in self._means.tolist()])
        self._off = 1024 * UNIT_ROUNDOFF * reach_on_grid(row_bound(facts), facts.n_features) ** 2

    @staticmethod
    def extent(*, n_features: float, bound: float, n_components: float, clip: float, count_weight: float) -> Extent:
        """Return the extent for ``n_components`` components and contributions of length at most ``clip``."""
        # Twice the bound, and what the rows on the grid and the slack of means exceed it by.
        combined = 1 + 2.01 * bound / clip
        return exact_sums(
            n_components * n_features + n_components,
            2 * clip,
            clip,
            roundings=CONVERSIONS * combined,
        )

    @property
    def numbers(self) -> Mapping[str, float]:
        n_components, n_features = self._means.shape
        return {
            "n_features": n_features,
            "bound": row_bound(self.facts),
            "n_components": n_components,
            "clip": self._clip,
            "count_weight": self._count_weight,
        }

    @property
    def n_entries(self) -> int:
        return len(self._means)

    def terms(self, tile: Tile) -> Sequence[Form]:
        distances = tile.rows.products(self._columns)
        distances *= -2
        distances += self._squares
        shares = responsibilities(distances, self._weights, self._variance)
        distances += tile.rows.squared_lengths()[:, np.newaxis]
        changes = shares - self._weights
        factors = self._factors(shares, changes, distances)[:, np.newaxis]
        changes *= self._count_weight * factors
        shares *= steps_for(len(self._means), (1.0,)) * factors
        taken = clipped(np.trunc(shares, out=shares), self._weights.shape, (1.0,))[0]
        return [Sum(on_grid(changes, self._clip)), Sum(taken), Cross(taken, tile.rows)]

    def _factors(self, shares: FloatArray, changes: FloatArray, distances: FloatArray) -> FloatArray:
        """Return the factors that bring contributions to length at most ``clip``, allowing for rounding."""
        np.maximum(distances, 0.0, out=distances)
        distances += self._off
        distances *= shares
        distances *= shares
        distances += np.square(self._count_weight * changes)
        n_components = len(self._means)
        target = self._clip * (1 - 8 * (n_components + 64) * UNIT_ROUNDOFF) - row_error(n_components, self._clip)
        factors: FloatArray = target / np.maximum(np.sqrt(over_columns(distances)), target)
        return factors

    def packed(self, sums: Sequence[FloatArray]) -> FloatArray:
        changes, masses, products = sums
        return np.concatenate([changes, (products - masses[:, np.newaxis] * self._means).ravel()])

    def unpack(self, packed: FloatArray) -> StepMeans:
        """Return changes of the weights, and sums of the recentred rows per record."""
        n_components = len(self._means)
        changes, moves = np.split(packed, [n_components])
        return StepMeans(changes / self._count_weight, moves.reshape(self._means.shape))


def responsibilities(distances: FloatArray, weights: FloatArray, variance: float) -> FloatArray:
    """Return the probability of each component, given squared distances up to a constant per row."""
    exponents = np.log(weights) - distances / (2 * variance)
    exponents -= exponents.max(axis=1, keepdims=True)
    shares: FloatArray = np.exp(exponents)
    shares /= over_columns(shares)[:, np.newaxis]
    return shares


def over_columns(values: FloatArray) -> FloatArray:
    """Return the sum of each row, always added in the same order."""
    total = values[:, 0].copy()
    for at in range(1, values.shape[1]):
        total += values[:, at]
    return total


def _checked_means(means: FloatArray, facts: PublicFacts) -> FloatArray:
    fits = isinstance(means, np.ndarray) and means.ndim == 2 and means.dtype == np.float64
    if not fits or means.shape[1] != facts.n_features or not len(means):
        must, remedy = f"be a matrix of float64 with {facts.n_features} columns", "Pass one row per component."
        raise InvalidParameter("means", must, getattr(means, "shape", type(means).__name__), remedy)
    bound = row_bound(facts)
    # Entries first, so that no square overflows; written so that NaN is refused.
    small = bool((np.abs(means) <= 2 * bound).all())
    if not small or not (np.linalg.norm(means, axis=1) <= bound * (1 + _SLACK)).all():
        must = f"be finite and no longer than the bound of the records, {bound:g}"
        raise InvalidParameter("means", must, "a longer one", "Shorten it to the bound.")
    checked: FloatArray = means
    return checked


def _checked_weights(weights: FloatArray, n_components: int) -> FloatArray:
    fits = isinstance(weights, np.ndarray) and weights.dtype == np.float64 and weights.shape == (n_components,)
    if not fits or not ((weights >= _LEAST_WEIGHT) & (weights <= 1)).all():
        must = f"be {n_components} numbers of float64 from {_LEAST_WEIGHT:g} to 1"
        raise InvalidParameter("weights", must, " ".join(repr(weights).split()), "Raise small weights.")
    checked: FloatArray = weights
    return checked


def mixture_step(
    facts: PublicFacts,
    *,
    means: FloatArray,
    weights: FloatArray,
    noise_variance: float,
    clip: float,
    count_weight: float,
) -> MixtureStep:
    """One clipped step of expectation-maximisation from the given means and weights."""
    return MixtureStep(
        facts, means=means, weights=weights, noise_variance=noise_variance, clip=clip, count_weight=count_weight
    )
