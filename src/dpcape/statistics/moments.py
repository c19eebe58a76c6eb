"""Means and moments of bounded rows.

Sensitivities are for replacing one row; that of the second moment is sqrt(2) B^2 (the papers' value 1 is for removing
one). Each is proved in the docstring above its ``extent`` and searched for a violation in ``tests/laws``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

import numpy as np

from dpcape.core.arrays import FloatArray
from dpcape.core.contributions import Cells, Form, Outer, Squares, Sum
from dpcape.core.errors import InvalidParameter
from dpcape.core.extent import Extent, exact_sums
from dpcape.core.facts import PublicFacts
from dpcape.core.grid import reach_on_grid
from dpcape.core.kernel import Summed
from dpcape.core.statistic import MeanT_co, known
from dpcape.core.tiles import Tile
from dpcape.statistics.packing import pack, packed_size, unpack

_ROW_KINDS = frozenset({"rows", "labelled", "views", "subjects"})

MEAN_WEIGHT = 0.5
"""Weight of the mean when it is released together with the second moment.

It keeps the noise on the second moment within 13% of that of releasing only the second moment, which matters more than
the mean's as soon as there are several columns.
"""

SITE_WEIGHT = math.sqrt(0.5)
"""Weight of the means, and of the numbers of records, by site when they are released with the second moment.

Means by site have more noise than one of all records. On connectivity of ABIDE (220 records a site, epsilon 3) what
sites leave in scores falls from 0.021 to 0.015 against a weight of 0.5, and components capture 0.963 of the variance
instead of 0.967.
"""


def row_bound(facts: PublicFacts) -> float:
    """Return the largest norm of a row, over all views together."""
    return math.hypot(*facts.bounds)


class _OfRows(Summed[MeanT_co]):
    """Base class of statistics of rows of bounded length.

    Their proofs use of a row only how long it is. B is the length that a row may have on the grid.
    """

    kinds = _ROW_KINDS
    units = frozenset({"record"})

    @property
    def _bound(self) -> float:
        return reach_on_grid(row_bound(self.facts), self._width)

    @property
    def _width(self) -> int:
        return self.facts.n_features

    @property
    def numbers(self) -> Mapping[str, float]:
        return {"n_features": self._width, "bound": row_bound(self.facts)}


@known
class FirstMoments(_OfRows[tuple[FloatArray, FloatArray]]):
    """Mean of rows and mean of their squared entries, at the diameter of the mean.

    The contribution is (x, x*x / (2 B)). With s = x + y and d = x - y, the squared distance of two contributions is
    |d|^2 + |s*d|^2 / (4 B^2) <= |d|^2 (1 + (4 B^2 - |d|^2) / (4 B^2)), which grows in |d|^2 up to |d| = 2 B:
    releasing the squares as well does not increase the diameter 2 B of the mean. The radius follows from |x|^2 +
    |x*x|^2/(4 B^2) <= B^2 (1 + 1/4).
    """

    name = "first_moments"

    def __init__(self, facts: PublicFacts) -> None:
        super().__init__(facts)

    @staticmethod
    def extent(*, n_features: float, bound: float) -> Extent:
        """Return the extent for rows of ``n_features`` columns and of length at most ``bound``."""
        reach = reach_on_grid(bound, n_features)
        return exact_sums(2 * n_features, 2 * reach, reach * math.sqrt(1.25))

    def terms(self, tile: Tile) -> Sequence[Form]:
        return [Sum(tile.rows), Squares(tile.rows)]

    def packed(self, sums: Sequence[FloatArray]) -> FloatArray:
        rows, squares = sums
        return np.concatenate([rows, squares / (2 * self._bound)])

    def unpack(self, packed: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return (mean, mean of squares)."""
        mean, squares = packed.reshape(2, -1)
        return mean, squares * (2 * self._bound)


@known
class SecondMoment(_OfRows[FloatArray]):
    """Mean of x x' (for two views of the stacked row), packed.

    *Diameter.* |x x' - y y'|_F^2 = |x|^4 + |y|^4 - 2 (x.y)^2 <= 2 B^4, attained by orthogonal rows of full length.
    """

    name = "second_moment"

    def __init__(self, facts: PublicFacts) -> None:
        super().__init__(facts)

    @staticmethod
    def extent(*, n_features: float, bound: float) -> Extent:
        """Return the extent for rows of ``n_features`` columns and of length at most ``bound``."""
        radius = reach_on_grid(bound, n_features) ** 2
        return exact_sums(packed_size(n_features), math.sqrt(2) * radius, radius)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self._width, self._width)

    def terms(self, tile: Tile) -> Sequence[Form]:
        return [Outer(tile.rows)]

    def packed(self, sums: Sequence[FloatArray]) -> FloatArray:
        return pack(sums[0].T)

    def unpack(self, packed: FloatArray) -> FloatArray:
        return unpack(packed, self._width)


@known
class CentredMoments(_OfRows[tuple[FloatArray, FloatArray]]):
    """Mean and second moment, released jointly, for private centring.

    The contribution is (b B x, x x'), b at most sqrt(2); the diameter is (b^2 + 2)/sqrt(2) B^2. Take B = 1,
    lengths p, q <= 1 and c the cosine: the square is b^2 (p^2 + q^2 - 2 p q c) + p^4 + q^4 - 2 p^2 q^2 c^2, concave
    in c. If b^2 <= 2 p q its maximum over c, at c = -b^2/(2 p q), is b^2 (p^2 + q^2) + p^4 + q^4 + b^4/2, at most
    (b^2 + 2)^2/2. Otherwise it is at c = -1: b^2 (p + q)^2 + (p^2 - q^2)^2 <= (1 + b^2/2)^2 (1 + b^4/4), which is
    less for b^2 <= 2.
    """

    name = "centred_moments"

    def __init__(self, facts: PublicFacts, mean_weight: float) -> None:
        if not 0 < mean_weight <= math.sqrt(2):
            raise InvalidParameter("mean_weight", "be in (0, sqrt(2)]", repr(mean_weight), "The default is 0.5.")
        super().__init__(facts, mean_weight=mean_weight)
        self._mean_weight = float(mean_weight)

    @staticmethod
    def extent(*, n_features: float, bound: float, mean_weight: float = MEAN_WEIGHT) -> Extent:
        """Return the extent for rows of ``n_features`` columns and of length at most ``bound``."""
        square = reach_on_grid(bound, n_features) ** 2
        diameter = (mean_weight**2 + 2) / math.sqrt(2) * square
        size = n_features + packed_size(n_features)
        return exact_sums(size, diameter, math.sqrt(1 + mean_weight**2) * square)

    @property
    def numbers(self) -> Mapping[str, float]:
        return {**super().numbers, "mean_weight": self._mean_weight}

    def terms(self, tile: Tile) -> Sequence[Form]:
        return [Sum(tile.rows), Outer(tile.rows)]

    def packed(self, sums: Sequence[FloatArray]) -> FloatArray:
        rows, products = sums
        return np.concatenate([self._mean_weight * self._bound * rows, pack(products.T)])

    def unpack(self, packed: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return (mean, second moment)."""
        mean = packed[: self._width] / (self._mean_weight * self._bound)
        return mean, unpack(packed[self._width :], self._width)


class MomentsBySite(NamedTuple):
    """Means over all records of what valid records contribute.

    Attributes
    ----------
    counts : (S,) array
        Share of all records that are valid and of each site.
    sums : (S, D) array
        Rows by site.
    moment : (D, D) array
        Second moment, of all sites together.
    """

    counts: FloatArray
    sums: FloatArray
    moment: FloatArray


@known
class SiteCentredMoments(_OfRows[MomentsBySite]):
    r"""Second moment of all rows, and numbers and sums of rows by site of the federation, released jointly.

    A record of site s contributes :math:`(h B^2 e_s,\; b B\, e_s \otimes x,\; x x')` with b = h = sqrt(1/2).

    *Diameter.* A record is replaced at its site, so :math:`e_s` stays. Two valid rows differ by (b B (x - y), x x' - y
    y'), at most :math:`(b^2 + 2)/\sqrt 2\, B^2` as proved at :class:`CentredMoments`; two of length B attain it. A
    valid and an invalid one, which contributes zero, are as far apart as the former is long: :math:`\sqrt{1 + b^2 +
    h^2}\, B^2 = \sqrt 2\, B^2`, less. Which place a site has does not matter, so no coordinator can change the diameter
    by what it sends. Without h it would hold for a record that changes its site too: :math:`|x x' - y y'|^2 + b^2
    (|x|^2 + |y|^2) \le 2 + 2 b^2 < (b^2 + 2)^2 / 2` for B = 1.

    Parameters
    ----------
    facts : PublicFacts
        Public facts of the records.
    n_sites : int
        Number of sites of the federation.
    """

    name = "site_centred_moments"

    def __init__(self, facts: PublicFacts, n_sites: int) -> None:
        if isinstance(n_sites, bool) or not isinstance(n_sites, int | np.integer) or n_sites < 1:
            raise InvalidParameter("n_sites", "be a whole number of at least 1", repr(n_sites))
        super().__init__(facts, n_sites=int(n_sites))
        self._n_sites = int(n_sites)

    def at(self, place: int) -> Self:
        """Return the same statistic for the site at this place."""
        if not 0 <= place < self._n_sites:
            must, remedy = "be the number of sites of the federation", "Install the same dpcape version everywhere."
            raise InvalidParameter("n_sites", must, f"{self._n_sites} for site {place + 1}", remedy)
        return super().at(place)

    @staticmethod
    def extent(*, n_features: float, bound: float, n_sites: float) -> Extent:
        """Return the extent for rows of ``n_features`` columns, of length at most ``bound``, at ``n_sites`` sites."""
        square = reach_on_grid(bound, n_features) ** 2
        diameter = (SITE_WEIGHT**2 + 2) / math.sqrt(2) * square
        size = n_sites * (1 + n_features) + packed_size(n_features)
        return exact_sums(size, diameter, math.sqrt(1 + 2 * SITE_WEIGHT**2) * square)

    @property
    def numbers(self) -> Mapping[str, float]:
        return {**super().numbers, "n_sites": self._n_sites}

    def terms(self, tile: Tile) -> Sequence[Form]:
        here = np.full(tile.n_records, self.place)
        return [Cells(here, self._n_sites), Sum(tile.rows), Outer(tile.rows)]

    def packed(self, sums: Sequence[FloatArray]) -> FloatArray:
        counts, rows, products = sums
        by_site = np.zeros((self._n_sites, self._width))
        by_site[self.place] = rows
        unit = SITE_WEIGHT * self._bound
        return np.concatenate([unit * self._bound * counts, unit * by_site.ravel(), pack(products.T)])

    def unpack(self, packed: FloatArray) -> MomentsBySite:
        """Return the means, without their weights."""
        counts, sums, moment = np.split(packed, [self._n_sites, self._n_sites * (1 + self._width)])
        unit = SITE_WEIGHT * self._bound
        shape = (self._n_sites, self._width)
        return MomentsBySite(counts / (unit * self._bound), sums.reshape(shape) / unit, unpack(moment, self._width))


@known
class Histogram(Summed[FloatArray]):
    """Shares of the public classes among labelled records.

    Replacing a record moves one entry down and one up, each by one: the diameter is sqrt(2).
    """

    name = "histogram"
    kinds = frozenset({"labelled"})

    def __init__(self, facts: PublicFacts) -> None:
        super().__init__(facts)
        if facts.classes is None:
            remedy = "Build them with labelled(X, y, bound=..., classes=[...])."
            raise InvalidParameter("Records for a histogram", "have public classes", "a numeric response", remedy)

    @staticmethod
    def extent(*, n_features: float, n_classes: float) -> Extent:
        """Return the extent for ``n_classes`` public classes of rows of ``n_features`` columns."""
        return exact_sums(n_classes, math.sqrt(2), 1.0)

    @property
    def numbers(self) -> Mapping[str, float]:
        return {"n_features": self.facts.n_features, "n_classes": len(self.facts.classes or ())}

    def terms(self, tile: Tile) -> Sequence[Form]:
        return [Cells(tile.classes, self.size)]

    def packed(self, sums: Sequence[FloatArray]) -> FloatArray:
        return sums[0]


def first_moments(facts: PublicFacts) -> FirstMoments:
    """Mean of rows and of their squared entries."""
    return FirstMoments(facts)


def second_moment(facts: PublicFacts) -> SecondMoment:
    """Mean of x x'."""
    return SecondMoment(facts)


def centred_moments(facts: PublicFacts, *, mean_weight: float | None = None) -> CentredMoments:
    """Mean and second moment, released jointly; ``mean_weight`` is :data:`MEAN_WEIGHT` by default."""
    return CentredMoments(facts, mean_weight=MEAN_WEIGHT if mean_weight is None else mean_weight)


def histogram(facts: PublicFacts) -> Histogram:
    """Shares of the public classes."""
    return Histogram(facts)
