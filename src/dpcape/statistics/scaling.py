"""Scaling records by public numbers, and the statistics from which those numbers are found.

An analysis with private scaling first releases the mean of the rows, then their absolute deviations from it, then a
histogram of the lengths of standardised rows. From these public numbers follow a centre, a scale and a radius. A
:class:`Scaled` statistic reads every row x as z = (x - centre) / (scale * radius), moved into the unit ball, so its
diameter is a public constant whatever was released, and whatever an aggregator sends instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any, ClassVar, Self, cast

import msgspec
import numpy as np

from dpcape.core.arrays import FloatArray, IntArray
from dpcape.core.contributions import Cells, Form, Sum
from dpcape.core.extent import Extent, exact_sums, row_error
from dpcape.core.facts import PublicFacts
from dpcape.core.grid import clipped, on_grid, squares_in_steps, steps_for
from dpcape.core.kernel import Summed
from dpcape.core.statistic import MeanT_co, PublicValue, known
from dpcape.core.tiles import Tile
from dpcape.statistics.length_bins import N_BINS
from dpcape.statistics.moments import CentredMoments, FirstMoments, MomentsBySite, SecondMoment, SiteCentredMoments
from dpcape.statistics.reduced import checked_matrix

BIN_RATIO = 2.0**0.25
"""Ratio of the ends of a bin."""
USUAL_LENGTH = 1.2
"""Most standardised rows of D columns are shorter than this many times sqrt(D)."""

# Steps of the grid of lengths: squares up to 2^52 are exact.
_BIN_BITS = 26
_ROW_KINDS = frozenset({"rows", "labelled", "views", "subjects"})


def standardised(
    tile: Tile,
    widths: tuple[int, ...],
    centre: FloatArray,
    scale: FloatArray,
    radius: FloatArray,
    *,
    with_factors: bool = False,
) -> Tile:
    """Return a tile seen through public numbers: z = (x - centre) / (scale * radius), at most 1 long.

    Each view has its own radius and unit ball. The arrays may be anything finite: a row that is not finite after the
    division becomes zero, and the last step is always the clipping.

    Parameters
    ----------
    tile : Tile
        Records of a site within their bounds.
    widths : tuple of int
        Columns per view.
    centre, scale : (D,) array
        Public numbers, one per column.
    radius : (views,) array
        Public numbers, one per view.
    with_factors : bool
        Whether a row that was shortened by w is w x, the row of a record that was shortened as a whole: its
        standardised form, shortened alike, is (w x - w centre) / (scale * radius).
    """
    bounds = (1.0,) * len(widths)
    ints, steps = tile.rows.finest
    in_steps = steps * centre
    rows = ints - (tile.factors[:, np.newaxis] * in_steps if with_factors else in_steps)
    rows *= steps_for(len(centre), bounds) / (steps * scale * np.repeat(radius, widths))
    moved, factors, _ = clipped(rows, widths, bounds)
    return Tile(moved, tile.factors * factors, tile.targets, tile.codes)


def views_of(widths: tuple[int, ...]) -> list[slice[int, int, None]]:
    """Return the columns of each view."""
    return [slice(end - width, end) for end, width in zip(accumulate(widths), widths, strict=True)]


def scaled_facts(facts: PublicFacts) -> PublicFacts:
    """Return the facts of standardised records: each view is at most 1 long, and may have been of any length."""
    return msgspec.structs.replace(facts, bounds=(1.0,) * len(facts.bounds), longest=())


class Scaled(Summed[MeanT_co]):
    """Statistic of standardised records.

    A subclass names the statistic it is made of, ``inner``. The proof of that statistic uses of a record only that
    each view is at most its bound long (and of a target its range). Rows that are :func:`standardised` are at most 1
    long for any finite public arrays, so the diameter is that of ``inner`` for bounds of 1.

    Parameters
    ----------
    facts : PublicFacts
        Public facts of the records.
    centre, scale : (D,) array
        Public numbers, one per column.
    radius : (views,) array
        Public numbers, one per view.
    **public
        Public values of ``inner``.
    """

    inner: ClassVar[type[Summed[Any]]]  # type: ignore[explicit-any]  # known when it runs

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        if hasattr(cls, "inner"):
            cls.name = f"scaled_{cls.inner.name}"
            cls.kinds, cls.units = cls.inner.kinds & _ROW_KINDS, cls.inner.units
            cls.extent = staticmethod(cls.inner.extent)

    def __init__(
        self, facts: PublicFacts, centre: FloatArray, scale: FloatArray, radius: FloatArray, **public: PublicValue
    ) -> None:
        super().__init__(facts, centre=centre, scale=scale, radius=radius, **public)
        self._arrays = (
            checked_matrix("centre", centre, (facts.n_features,)),
            checked_matrix("scale", scale, (facts.n_features,)),
            checked_matrix("radius", radius, (len(facts.widths),)),
        )
        make: Callable[..., Summed[Any]] = self.inner  # type: ignore[explicit-any]  # keywords differ
        self._inner = make(scaled_facts(facts), **public)

    @property
    def numbers(self) -> Mapping[str, float]:
        return self._inner.numbers

    @property
    def shape(self) -> tuple[int, ...]:
        return self._inner.shape

    @property
    def n_entries(self) -> int:
        return self._inner.n_entries

    def at(self, place: int) -> Self:
        """Return the same statistic for the site at this place."""
        moved = super().at(place)
        moved._inner = self._inner.at(place)
        return moved

    def terms(self, tile: Tile) -> Sequence[Form]:
        with_factors = self.inner.with_factors
        return self._inner.terms(standardised(tile, self.facts.widths, *self._arrays, with_factors=with_factors))

    def packed(self, sums: Sequence[FloatArray]) -> FloatArray:
        return self._inner.packed(sums)

    def unpack(self, packed: FloatArray) -> MeanT_co:
        """Return the mean of the standardised records, in the form of ``inner``."""
        return cast(MeanT_co, self._inner.unpack(packed))


@known
class ScaledFirstMoments(Scaled[tuple[FloatArray, FloatArray]]):
    """Mean of standardised rows, and of their squared entries."""

    inner = FirstMoments


@known
class ScaledSecondMoment(Scaled[FloatArray]):
    """Mean of z z' of standardised rows."""

    inner = SecondMoment


@known
class ScaledCentredMoments(Scaled[tuple[FloatArray, FloatArray]]):
    """Mean and second moment of standardised rows, released jointly."""

    inner = CentredMoments


@known
class ScaledSiteCentredMoments(Scaled[MomentsBySite]):
    """Second moment of standardised rows, and their numbers and sums by site, released jointly."""

    inner = SiteCentredMoments


@known
class AbsoluteDeviations(Summed[FloatArray]):
    """Mean of min(|x_j - centre_j| / cap, 1) for every column j; the cap of a view is its bound / sqrt(its width).

    A contribution is the deviations minus 1/2, so that its entries lie in [-1/2, 1/2] whatever the centre is: two
    contributions are at most sqrt(D) apart, and none is longer than half of that.

    Parameters
    ----------
    facts : PublicFacts
        Public facts of the records.
    centre : (D,) array
        Public numbers, one per column.
    """

    name = "absolute_deviations"
    kinds = _ROW_KINDS
    units = frozenset({"record"})

    def __init__(self, facts: PublicFacts, centre: FloatArray) -> None:
        super().__init__(facts, centre=centre)
        self._centre = checked_matrix("centre", centre, (facts.n_features,))
        self._caps = deviation_caps(facts)

    @staticmethod
    def extent(*, n_features: float) -> Extent:
        """Return the extent for rows of ``n_features`` columns."""
        diameter = math.sqrt(n_features)
        return exact_sums(n_features, diameter, diameter / 2, error=row_error(n_features, diameter))

    @property
    def numbers(self) -> Mapping[str, float]:
        return {"n_features": self.facts.n_features}

    def terms(self, tile: Tile) -> Sequence[Form]:
        # An overflow counts as the largest deviation.
        ints, steps = tile.rows.finest
        apart = ints - steps * self._centre
        np.abs(apart, out=apart)
        apart *= 1 / (steps * self._caps)
        np.minimum(apart, 1.0, out=apart)
        deviations = on_grid(apart, math.sqrt(self.facts.n_features), out=apart)
        return [Sum(deviations), Cells(np.zeros(tile.n_records, dtype=np.intp), 1)]

    def packed(self, sums: Sequence[FloatArray]) -> FloatArray:
        deviations, count = sums
        return deviations - count / 2

    def unpack(self, packed: FloatArray) -> FloatArray:
        """Return the mean absolute deviations in the units of the rows."""
        return (packed + 0.5) * self._caps


@known
class RadiusHistogram(Summed[FloatArray]):
    """Shares of records by the length of (x - centre) / scale, for each view in bins of a fixed ratio.

    The last of the bins of a view ends at its ``top`` and has everything longer; the first has everything shorter. A
    record is in exactly one bin of each view, whatever the arrays are: two contributions are at most sqrt(2 views)
    apart, and each is sqrt(views) long.

    Parameters
    ----------
    facts : PublicFacts
        Public facts of the records.
    centre, scale : (D,) array
        Public numbers, one per column.
    top : (views,) array
        Upper end of the last bin of each view.
    """

    name = "radius_histogram"
    kinds = _ROW_KINDS
    units = frozenset({"record"})

    def __init__(self, facts: PublicFacts, centre: FloatArray, scale: FloatArray, top: FloatArray) -> None:
        super().__init__(facts, centre=centre, scale=scale, top=top)
        self._centre = checked_matrix("centre", centre, (facts.n_features,))
        self._scale = checked_matrix("scale", scale, (facts.n_features,))
        self._top = checked_matrix("top", top, (len(facts.widths),))
        self._views = views_of(facts.widths)

    @staticmethod
    def extent(*, n_features: float, n_views: float) -> Extent:
        """Return the extent for rows of ``n_features`` columns in ``n_views`` views."""
        radius = math.sqrt(n_views)
        return exact_sums(N_BINS * n_views, math.sqrt(2) * radius, radius)

    @property
    def numbers(self) -> Mapping[str, float]:
        return {"n_features": self.facts.n_features, "n_views": len(self.facts.widths)}

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.facts.widths), N_BINS)

    def terms(self, tile: Tile) -> Sequence[Form]:
        ints, steps = tile.rows.finest
        rows = ints - steps * self._centre
        rows *= 1 / (steps * self._scale)
        views = zip(self._views, self._top, strict=True)
        return [Cells(bins_of(rows[:, columns], top), N_BINS) for columns, top in views]

    def packed(self, sums: Sequence[FloatArray]) -> FloatArray:
        return np.concatenate(sums)


def bins_of(rows: FloatArray, top: float) -> IntArray:
    """Return the bin of each row, 0 for the shortest; what has no length counts as long.

    The bin of a row must depend on that row alone: otherwise a record that becomes invalid moves the bins of others.
    Rows are on a grid of 2^26 steps per ``top``, where squared lengths up to the last bin are exact in any order.
    """
    with np.errstate(all="ignore"):
        squares = squares_in_steps(rows, 2.0**_BIN_BITS / top)
        ends = (bin_ends(top)[:-1] / top * 2.0**_BIN_BITS) ** 2
    # NaN is larger than every end.
    bins: IntArray = np.searchsorted(ends, squares, side="left")
    return bins


def bin_ends(top: float) -> FloatArray:
    """Return the upper ends of the bins, from the first to ``top``."""
    ends: FloatArray = top * BIN_RATIO ** np.arange(1.0 - N_BINS, 1.0)
    return ends


def deviation_caps(facts: PublicFacts) -> FloatArray:
    """Return the largest deviation that counts, per column: the bound of a view / sqrt(its width)."""
    each = [bound / math.sqrt(width) for bound, width in zip(facts.bounds, facts.widths, strict=True)]
    return np.repeat(each, facts.widths)
