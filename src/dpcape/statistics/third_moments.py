"""Third moments of bounded rows, corrected for spherical noise of public variance (dissertation, section 5.1.2).

A record x of a spherical Gaussian mixture contributes f(x) = x (x) x (x) x - v 3 Sym(x (x) I), v the public
variance of the noise; the mean of f is sum_k w_k a_k (x) a_k (x) a_k. For a mixture of many columns the
record is first mapped to few coordinates z = W'x by a public W, clipped there, and I becomes G = W'W.

Sensitivity. f is odd, so two records z and -z are the farthest apart: the diameter is 2 max |f|. With q =
|z|^2,

    |f(z)|^2 = q^3 - 6 v q z'Gz + v^2 (3 |G|_F^2 q + 6 |Gz|^2).

In the eigenbasis of G, with p_i = z_i^2 / q, the direction enters as sum_i p_i (-6 v q^2 g_i + 6 v^2 q
g_i^2): linear in p, so the worst direction is an eigenvector, and the worst length is the largest one or a
root of a quadratic. For G = I and at least two columns this is 2 B^3 sqrt(1 - 6 s + 3 (D + 2) s^2), s = v /
B^2; the papers' value is 2 + 6 D s.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np

from dpcape.core.arrays import FloatArray
from dpcape.core.contributions import Form, Sum
from dpcape.core.errors import InvalidParameter
from dpcape.core.extent import CONVERSIONS, Extent, exact_sums
from dpcape.core.facts import PublicFacts
from dpcape.core.grid import GridRows, PublicColumns, reach_on_grid
from dpcape.core.kernel import Summed
from dpcape.core.statistic import known
from dpcape.core.tiles import Tile
from dpcape.statistics.cubes import cube_entries, cube_error, cubes, pairs_at_a_time
from dpcape.statistics.moments import row_bound
from dpcape.statistics.packing import packed_tensor_size, root_multiplicities, triples, unpack_tensor
from dpcape.statistics.reduced import reduced_rows

_KINDS = frozenset({"rows", "labelled", "views", "subjects"})
# Cubes of numbers up to this size and their squares stay far inside float64's range, whatever the records
# are.
_LARGEST_FACTOR = 1e40
# Tolerance, in the last digits, between a site's own largest length and the announced one.
_SLACK = 1e-9


class _ThirdMoments(Summed[FloatArray]):
    """Base class of corrected third moments: packed symmetric tensors, two sums subtracted at the end.

    The proof holds for rows on the grid, and lengths are those there. Pairs of entries are rounded once more; how far
    that moves a contribution is counted (:func:`~dpcape.statistics.cubes.cube_error`).
    """

    kinds = _KINDS
    units = frozenset({"record"})
    _width: int
    _variance: float
    _gram: FloatArray

    @abstractmethod
    def _rows(self, tile: Tile) -> GridRows:
        """Return the rows whose third moment is taken."""

    @property
    def n_entries(self) -> int:
        return pairs_at_a_time(self._width)

    def terms(self, tile: Tile) -> Sequence[Form]:
        rows = self._rows(tile)
        return [Sum(rows), *cubes(rows)]

    def packed(self, sums: Sequence[FloatArray]) -> FloatArray:
        return corrected(cube_entries(sums[1:], self._width), sums[0], self._gram, self._variance)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self._width, self._width, self._width)

    def unpack(self, packed: FloatArray) -> FloatArray:
        return unpack_tensor(packed, self._width)


@known
class ThirdMoment(_ThirdMoments):
    """Mean of x (x) x (x) x - v 3 Sym(x (x) I), packed.

    The cubes and the correction are summed separately, so each counts in the rounding with its own length.
    """

    name = "third_moment"

    def __init__(self, facts: PublicFacts, noise_variance: float) -> None:
        variance = checked_variance(noise_variance)
        super().__init__(facts, noise_variance=variance)
        self._variance, self._width, self._gram = variance, facts.n_features, np.eye(facts.n_features)
        checked_positive("the bound of rows", self._bound)

    @property
    def _bound(self) -> float:
        return row_bound(self.facts)

    @staticmethod
    def extent(*, n_features: float, bound: float, noise_variance: float) -> Extent:
        """Return the extent for rows of ``n_features`` columns and of length at most ``bound``."""
        # All eigenvalues of G = I are one, and |G|_F^2 is their number.
        reach = reach_on_grid(bound, n_features)
        radius = math.sqrt(_largest_square(reach, noise_variance, square=n_features, variance=noise_variance))
        correction = noise_variance * math.sqrt(3 * (n_features + 2)) * reach
        return exact_sums(
            packed_tensor_size(n_features),
            2 * radius,
            radius,
            error=cube_error(n_features, reach),
            roundings=2 * CONVERSIONS * (reach**3 + correction) / radius,
        )

    @property
    def numbers(self) -> Mapping[str, float]:
        return {"n_features": self._width, "bound": self._bound, "noise_variance": self._variance}

    def _rows(self, tile: Tile) -> GridRows:
        return tile.rows


@known
class WhitenedThirdMoment(_ThirdMoments):
    """Mean of z (x) z (x) z - v 3 Sym(z (x) W'W) in public coordinates z = W'x, clipped to length ``clip``.

    ``radius`` is sent with the request, so that all sites calibrate to the same number; a site refuses one that is
    smaller than its own. Cubes (at most clip^3) and corrections (at most clip^3 + radius, being cube minus
    contribution) are summed separately, so each counts in the rounding with its own length.
    """

    name = "whitened_third_moment"

    def __init__(
        self, facts: PublicFacts, whitener: FloatArray, clip: float, noise_variance: float, radius: float
    ) -> None:
        self._whitener = checked_whitener(whitener, facts)
        self._clip, self._variance = checked_positive("clip", clip), checked_variance(noise_variance)
        self._width = self._whitener.shape[1]
        self._columns, self._gram = PublicColumns(self._whitener), self._whitener.T @ self._whitener
        self._radius = checked_positive("radius", radius, largest=1e130)
        needed = whitened_radius(self._whitener, clip=self._clip, noise_variance=self._variance)
        if not needed <= self._radius:
            must = f"be at least the largest length of a contribution, {needed:.6g}"
            raise InvalidParameter("radius", must, repr(radius), "Install the same dpcape version everywhere.")
        super().__init__(facts, whitener=whitener, clip=clip, noise_variance=noise_variance, radius=radius)

    @staticmethod
    def extent(
        *, n_features: float, n_components: float, clip: float, noise_variance: float = 0.0, radius: float | None = None
    ) -> Extent:
        """Return the extent for rows mapped to ``n_components`` coordinates and to length ``clip``.

        Parameters
        ----------
        n_features, n_components : float
            Columns of a row, and coordinates it is mapped to.
        clip : float
            Largest length of a row in these coordinates.
        noise_variance : float
            Public variance of the noise.
        radius : float or None
            The radius sent with the request; None for that of orthonormal directions.
        """
        reach = reach_on_grid(clip, n_components)
        if radius is None:
            largest = _largest_square(reach, noise_variance, square=n_components, variance=noise_variance)
            announced = math.sqrt(largest) * (1 + _SLACK)
        else:
            announced = radius
        return exact_sums(
            packed_tensor_size(n_components),
            2 * announced,
            announced,
            error=cube_error(n_components, reach),
            roundings=2 * CONVERSIONS * (2 * reach**3 + announced) / announced,
        )

    @property
    def numbers(self) -> Mapping[str, float]:
        return {
            "n_features": self.facts.n_features,
            "n_components": self._width,
            "clip": self._clip,
            "noise_variance": self._variance,
            "radius": self._radius,
        }

    def _rows(self, tile: Tile) -> GridRows:
        return reduced_rows(tile.rows, self._columns, self._clip)


def corrected(cube_entries: FloatArray, sums: FloatArray, gram: FloatArray, variance: float) -> FloatArray:
    """Return the packed tensor of summed cubes minus v 3 Sym(s (x) G), s the summed records."""
    n = sums.size
    entries = cube_entries
    if variance:
        i, j, k = triples(n)
        entries = entries - variance * (sums[i] * gram[j, k] + sums[j] * gram[i, k] + sums[k] * gram[i, j])
    packed: FloatArray = entries * root_multiplicities(n)
    return packed


def longest(clip: float, eigenvalues: FloatArray, *, square: float, variance: float) -> float:
    """Return max |f(z)| over |z| <= clip; ``eigenvalues`` of G and ``square`` = |G|_F^2 (proof above)."""
    squares = (_largest_square(clip, g, square=square, variance=variance) for g in eigenvalues * variance)
    return math.sqrt(max((0.0, *(entry for entry in squares))))


def _largest_square(clip: float, g: float, *, square: float, variance: float) -> float:
    """Return max |f(z)|^2 over the eigenvectors z of one eigenvalue of G with |z| <= clip; ``g`` is v times it."""
    end = clip**2
    linear = 3 * square * variance**2 + 6 * g**2

    def value(q: float) -> float:
        return q**3 - 6 * g * q**2 + linear * q

    # Roots of the derivative; where they are not real they are replaced by the end, which is a candidate anyway.
    spread = 4 * g**2 - linear / 3
    root = math.sqrt(max(spread, 0.0))
    inner = (end if spread < 0 else min(max(extreme, 0.0), end) for extreme in (2 * g - root, 2 * g + root))
    return max(0.0, value(end), *map(value, inner))


def whitened_radius(whitener: FloatArray, *, clip: float, noise_variance: float) -> float:
    """Return the largest length of a contribution to the whitened third moment, of rows on the grid."""
    gram = whitener.T @ whitener
    eigenvalues = np.maximum(np.linalg.eigvalsh(gram), 0.0)
    return longest(reach_on_grid(clip, len(gram)), eigenvalues, square=float(np.sum(gram**2)), variance=noise_variance)


def checked_whitener(whitener: FloatArray, facts: PublicFacts, n_rows: int | None = None) -> FloatArray:
    """Return public directions as an (n_rows, n_components) array, or raise; one row per column of the records."""
    array = np.asarray(whitener)
    wanted = facts.n_features if n_rows is None else n_rows
    if array.dtype != np.float64 or array.ndim != 2 or array.shape[0] != wanted:
        must, remedy = f"be a float64 matrix with {wanted} rows", "Pass one row per column of the records."
        raise InvalidParameter("whitener", must, f"shape {array.shape} of {array.dtype}", remedy)
    if not 1 <= array.shape[1] <= array.shape[0]:
        subject = "whitener"
        raise InvalidParameter(subject, f"have 1 to {array.shape[0]} columns", array.shape[1], "Use fewer components.")
    limit = _LARGEST_FACTOR / (max(1.0, row_bound(facts)) * array.shape[0])
    # Written so that NaN is refused. Larger numbers could overflow for some records only, which would reveal
    # something about them.
    outside = np.flatnonzero(~(np.abs(array) <= limit).all(axis=1))
    if outside.size:
        must, remedy = f"have finite entries of at most {limit:.3g} in absolute value", "Use fewer components."
        raise InvalidParameter("whitener", must, f"a larger or non-finite entry in row {outside[0]}", remedy)
    return array


def checked_positive(subject: str, value: float, *, largest: float = _LARGEST_FACTOR) -> float:
    """Return a positive number from 1 / ``largest`` to ``largest``, or raise."""
    number = isinstance(value, int | float | np.floating) and not isinstance(value, bool)
    if not number or not 1 / largest <= value <= largest:
        must = f"be a positive number between {1 / largest:g} and {largest:g}"
        raise InvalidParameter(subject, must, repr(value), "Rescale it.")
    return float(value)


def checked_variance(noise_variance: float) -> float:
    """Return the public variance of the mixture's noise, or raise."""
    number = isinstance(noise_variance, int | float | np.number) and not isinstance(noise_variance, bool)
    if not number or not 0 <= noise_variance <= _LARGEST_FACTOR:
        must = f"be a number from 0 to {_LARGEST_FACTOR:g}"
        remedy = "It is public: take it from knowledge of the measurement, never from the records."
        raise InvalidParameter("noise_variance", must, " ".join(repr(noise_variance).split()), remedy)
    return float(noise_variance)


def third_moment(facts: PublicFacts, *, noise_variance: float) -> ThirdMoment:
    """Mean of x (x) x (x) x, corrected for spherical noise of public variance."""
    return ThirdMoment(facts, noise_variance=noise_variance)


def whitened_third_moment(
    facts: PublicFacts, whitener: FloatArray, *, clip: float, noise_variance: float
) -> WhitenedThirdMoment:
    """Corrected third moment in the public coordinates W'x, clipped there to length ``clip``."""
    checked_whitener(whitener, facts)
    needed = whitened_radius(
        whitener, clip=checked_positive("clip", clip), noise_variance=checked_variance(noise_variance)
    )
    return WhitenedThirdMoment(
        facts, whitener=whitener, clip=clip, noise_variance=noise_variance, radius=needed * (1 + _SLACK)
    )
