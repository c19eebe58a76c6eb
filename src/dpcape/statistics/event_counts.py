"""Counts of events and of ends of follow-up in bins of time, by group, in one release."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from dpcape.core.arrays import FloatArray, IntArray
from dpcape.core.contributions import Cells, Form
from dpcape.core.errors import InvalidParameter
from dpcape.core.extent import CONVERSIONS, UNIT_ROUNDOFF, Extent, exact_sums
from dpcape.core.facts import PublicColumn, PublicFacts
from dpcape.core.kernel import Summed
from dpcape.core.statistic import known
from dpcape.core.tiles import Tile
from dpcape.statistics.cells import CATEGORY, decoding_of_times, encoding_of_times
from dpcape.statistics.grouped_counts import checked_positions, groups_in, n_groups_of

MOST_TIMES = 512
"""Most bins of time."""

# Distance, in bins, within which a time counts as the end of a bin: it covers rounding.
_AT_END = 1e-9
_MOST_CROWDING = 8.0


@known
class EventCounts(Summed[FloatArray]):
    r"""Shares of records with their event, or another end of follow-up, in each of K bins of time, by group.

    Bin k ends at the horizon times :math:`(k/K)^p`, p the ``crowding``: bins are equal, or crowd towards the beginning.

    A record lies in one cell: its event is in one of K bins, each of which includes its end; or it left follow-up
    without an event in one of K bins, each of which includes its beginning; or it is known to be beyond the last bin;
    or its time or event is missing. Groups are the combinations of the levels of the columns in ``by``, missing
    included. A record of group g in cell c contributes :math:`e_g \otimes a_c`.

    *Diameter.* All rows :math:`a_c` are :math:`1/\sqrt 2` long and at most 1 apart
    (:func:`~dpcape.statistics.cells.encoding_of_times`). Two records of one group are apart by :math:`|a_c - a_{c'}|
    \le 1`. Those of different groups contribute in different places and are apart by :math:`\sqrt{1/2 + 1/2} = 1`. So
    the diameter is 1, whatever the groups are; an event and another end attain it. (For cells that are counted by ones
    it is :math:`\sqrt 2`.)

    A record is in one cell, whatever its codes are, so this holds for any tile. Rounding is that of
    :class:`~dpcape.statistics.grouped_counts.GroupedCounts`.

    Parameters
    ----------
    facts : PublicFacts
        Public facts of a table.
    event : int
        Position of the time to an event among those of the table.
    by : array of int
        Positions of the columns, all categories, whose levels form the groups; may be empty.
    horizon : float
        End of the last bin, positive and at most the end of the public range of time.
    n_bins : int
        Number of bins.
    crowding : float
        1 for equal bins; up to 8 for bins that are shorter the earlier they are.
    """

    name = "event_counts"
    kinds = frozenset({"table"})
    units = frozenset({"record"})

    def __init__(
        self, facts: PublicFacts, event: int, by: IntArray, horizon: float, n_bins: int, crowding: float = 1.0
    ) -> None:
        # Sent only for bins that are not equal.
        uneven = {} if crowding == 1 else {"crowding": crowding}
        super().__init__(facts, event=event, by=by, horizon=horizon, n_bins=n_bins, **uneven)
        self._time, self._event, self._occurred = checked_event(facts, event)
        self._by = checked_positions(facts, by, "by")
        if {self._time, self._event} & set(self._by) or any(facts.columns[at].kind != CATEGORY for at in self._by):
            must = "name categories other than the columns of the time to an event"
            raise InvalidParameter("by", must, self._by, "Choose other columns of the table.")
        if isinstance(n_bins, bool) or not isinstance(n_bins, int | np.integer) or not 2 <= n_bins <= MOST_TIMES:
            raise InvalidParameter("n_bins", f"be a whole number from 2 to {MOST_TIMES}", repr(n_bins))
        last = facts.columns[self._time].high
        # Written so that NaN is refused.
        if isinstance(horizon, bool) or not isinstance(horizon, int | float) or not 1e-9 * last <= horizon <= last:
            raise InvalidParameter(
                "horizon", f"be a positive number up to {last:g}, the end of the public range of time", repr(horizon)
            )
        if isinstance(crowding, bool) or not isinstance(crowding, int | float) or not 1 <= crowding <= _MOST_CROWDING:
            raise InvalidParameter("crowding", f"be a number from 1 to {_MOST_CROWDING:g}", repr(crowding))
        self._n_bins, self._crowding = int(n_bins), float(crowding)
        self._ratio = last / float(horizon)
        self._ends = self._ends_of_bins()

    @staticmethod
    def extent(*, n_groups: float, n_bins: float) -> Extent:
        """Return the extent for so many groups and bins."""
        radius = 1 / math.sqrt(2)
        n_cells = 2 * n_bins + 2
        return exact_sums(
            n_groups * n_cells,
            1.0,
            radius,
            error=4 * (n_cells + 64) * UNIT_ROUNDOFF * radius,
            roundings=n_cells + CONVERSIONS,
        )

    @property
    def numbers(self) -> Mapping[str, float]:
        return {"n_groups": self.n_groups, "n_bins": self._n_bins}

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return n_groups_of([self.facts.columns[at] for at in self._by])

    def terms(self, tile: Tile) -> Sequence[Form]:
        n_cells = 2 * self._n_bins + 2
        cells = groups_in(self.facts, self._by, tile.codes) * n_cells + self._cells(tile.codes)
        return [Cells(cells, self.n_groups * n_cells)]

    def packed(self, sums: Sequence[FloatArray]) -> FloatArray:
        return np.asarray((sums[0].reshape(self.n_groups, -1) @ encoding_of_times(self._n_bins)).ravel())

    def _cells(self, codes: FloatArray) -> IntArray:
        """Return the cell of every record."""
        last, positions, events = 2 * self._n_bins, codes[:, self._time], codes[:, self._event]
        missing = np.isnan(positions) | np.isnan(events)
        times = np.clip(np.where(missing, 0.0, positions) + 1, 0.0, 2.0) / 2
        # A time that was clipped to the end of the range may lie anywhere after it.
        after = times >= 1
        with_event, without = self._bins(times)
        occurred = events == self._occurred
        cells = np.where(occurred, with_event, without)
        # Beyond: after the range, or an event after the last bin.
        beyond = after | (occurred & (with_event >= self._n_bins)) | (cells > last)
        with_missing: IntArray = np.where(missing, last + 1, np.where(beyond, last, cells)).astype(np.intp)
        return with_missing

    def _bins(self, times: FloatArray) -> tuple[FloatArray | IntArray, FloatArray | IntArray]:
        """Return the cells of times in the range, from 0 to 1, with and without an event."""
        if self._crowding == 1:
            in_bins = times * (self._ratio * self._n_bins)
            return np.maximum(np.ceil(in_bins - _AT_END) - 1, 0.0), self._n_bins + np.floor(in_bins + _AT_END)
        # By comparison with ends: powers may be rounded differently from one place in memory to another.
        passed = np.searchsorted(self._ends, times, side="left")
        return passed // 2, self._n_bins + (passed + 1) // 2

    def _ends_of_bins(self) -> FloatArray:
        """Return what lies just before and just after every end of a bin, alternately."""
        ends = np.arange(1, self._n_bins + 1)[:, np.newaxis] + np.array([-_AT_END, _AT_END])
        places: FloatArray = (ends / self._n_bins) ** self._crowding / self._ratio
        # A time without an event that is exactly the former lies after it.
        places[:, 0] = np.nextafter(places[:, 0], 0.0)
        return places.ravel()

    def unpack(self, packed: FloatArray) -> FloatArray:
        """Return the shares of all records by group and cell, (groups, cells)."""
        shares: FloatArray = packed.reshape(self.n_groups, -1) @ decoding_of_times(self._n_bins)
        return shares


def event_counts(
    facts: PublicFacts, *, event: int, by: Sequence[int], horizon: float, n_bins: int, crowding: float = 1.0
) -> EventCounts:
    """Return the statistic for this time to an event, by position."""
    positions = np.array(by, dtype=np.int64)
    return EventCounts(facts, event=event, by=positions, horizon=horizon, n_bins=n_bins, crowding=crowding)


def numbers_of_events(by: Sequence[PublicColumn], n_bins: int) -> dict[str, float]:
    """Return the public numbers that determine the extent."""
    return {"n_groups": n_groups_of(by), "n_bins": n_bins}


def checked_event(facts: PublicFacts, event: int) -> tuple[int, int, int]:
    """Return the positions of the columns of time and event, and of the level which says that it occurred."""
    position_of = {column.name: at for at, column in enumerate(facts.columns)}
    if isinstance(event, bool) or not isinstance(event, int | np.integer) or not 0 <= event < len(facts.events):
        must = f"be the position of one of the {len(facts.events)} times to an event of a table"
        raise InvalidParameter("event", must, repr(event))
    pair = facts.events[event]
    time, occurred = facts.columns[position_of[pair.time]], facts.columns[position_of[pair.event]]
    if time.kind != "number" or time.low != 0 or not time.high > 0 or pair.occurred not in occurred.levels:
        raise InvalidParameter(
            f"The time to the event {pair.name!r}",
            "have a range that begins at 0, and a level which says that it occurred",
            f"{time.kind} from {time.low:g} to {time.high:g} and {pair.occurred!r}",
            "Declare both.",
        )
    return position_of[pair.time], position_of[pair.event], occurred.levels.index(pair.occurred)
