"""Cases of counts of typed columns by group; a number of at least 20 stands for a missing value."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcape import table
from dpcape.core.facts import PublicColumn, PublicEvent, PublicFacts, TypedColumns
from dpcape.records.from_numbers import schema_of, table_values

from .statistic_case import Case

Vector = NDArray[np.float64]

FACTS = PublicFacts(
    kind="table",
    unit="record",
    n_records=1,
    widths=(4,),
    bounds=(1.0,),
    typed=TypedColumns(
        (
            PublicColumn("age", "number", 20.0, 80.0),
            PublicColumn("arm", "category", levels=("a", "b", "c")),
            PublicColumn("seen", "date", 18000.0, 20000.0),
            PublicColumn("dx", "category", levels=("no", "yes")),
        )
    ),
)


def _table(parameters: Vector) -> Any:
    return table(table_values(FACTS, parameters), columns=schema_of(FACTS))


def _cells(values: Vector, kind: str, n_levels: int, n_bins: int) -> Vector:
    """Return the share of every record in every cell of a column, computed record by record."""
    found = np.zeros((len(values), n_levels + 1 if kind == "category" else n_bins + 2))
    for row, value in zip(found, values, strict=True):
        if abs(value) >= 20:
            row[-1] = 1.0
        elif kind == "category":
            row[int(np.clip((value + 1) / 2 * n_levels, 0, n_levels - 1))] = 1.0
        else:
            place = (np.clip(value, -1, 1) + 1) / 2 * n_bins
            row[:-1] = np.maximum(1 - np.abs(place - np.arange(n_bins + 1)), 0.0)
    return found


def _expected(columns: list[int], by: list[int], n_bins: int) -> Any:
    def shares(parameters: Vector) -> Vector:
        def cells_of(at: int) -> Vector:
            column = FACTS.columns[at]
            return _cells(parameters[:, at], column.kind, len(column.levels), n_bins)

        groups = np.ones((len(parameters), 1))
        for at in by:
            groups = (groups[:, :, None] * cells_of(at)[:, None, :]).reshape(len(parameters), -1)
        return np.concatenate([(groups.T @ cells_of(at) / len(parameters)).ravel() for at in columns])

    return shares


def _case(label: str, columns: list[int], by: list[int], weights: list[float], n_bins: int) -> Case:
    public = {
        "columns": np.array(columns, dtype=np.int64),
        "by": np.array(by, dtype=np.int64),
        "weights": np.array(weights),
        "n_bins": n_bins,
    }
    return Case("grouped_counts", label, 4, _table, public, expected=_expected(columns, by, n_bins))


FOLLOWED = PublicFacts(
    kind="table",
    unit="record",
    n_records=1,
    widths=(4,),
    bounds=(1.0,),
    typed=TypedColumns(
        (
            PublicColumn("days", "number", 0.0, 100.0),
            PublicColumn("died", "category", levels=("no", "unknown", "yes")),
            PublicColumn("arm", "category", levels=("a", "b")),
            PublicColumn("dx", "category", levels=("no", "yes")),
        ),
        (PublicEvent("survival", "days", "died", "yes"),),
    ),
)


def _followed(parameters: Vector) -> Any:
    return table(table_values(FOLLOWED, parameters), columns=schema_of(FOLLOWED))


def _cell_of(days: float, died: float, horizon: float, n_bins: int, crowding: float) -> int:
    """Return the cell of one record, step by step: events by ends of bins, other ends by their beginnings."""
    if abs(days) >= 20 or abs(died) >= 20:
        return 2 * n_bins + 1
    time, occurred = 50 + 50 * float(np.clip(days, -1, 1)), (died + 1) / 2 * 3 >= 2
    ends = [horizon * ((number + 1) / n_bins) ** crowding for number in range(n_bins)]
    if time >= 100:
        return 2 * n_bins
    if occurred:
        return next((at for at, end in enumerate(ends) if time <= end), 2 * n_bins)
    return n_bins + next((at for at, end in enumerate(ends) if time < end), n_bins)


def _expected_events(by: list[int], horizon: float, n_bins: int, crowding: float) -> Any:
    def shares(parameters: Vector) -> Vector:
        n_groups = 3 ** len(by)
        found = np.zeros((n_groups, 2 * n_bins + 2))
        for record in parameters:
            group = 0
            for at in by:
                level = 2 if abs(record[at]) >= 20 else int(np.clip((record[at] + 1) / 2 * 2, 0, 1))
                group = 3 * group + level
            found[group, _cell_of(record[0], record[1], horizon, n_bins, crowding)] += 1 / len(parameters)
        return found

    return shares


def _events(label: str, by: list[int], horizon: float, n_bins: int, crowding: float = 1.0) -> Case:
    public: dict[str, Any] = {"event": 0, "by": np.array(by, dtype=np.int64), "horizon": horizon, "n_bins": n_bins}
    public |= {} if crowding == 1 else {"crowding": crowding}
    expected = _expected_events(by, horizon, n_bins, crowding)
    return Case("event_counts", label, 4, _followed, public, expected=lambda p: expected(p).ravel())


CASES = [
    _events("one-group", [], 100.0, 8),
    _events("by-one", [2], 60.0, 5),
    _events("by-two", [2, 3], 97.5, 32),
    _events("two-bins", [3], 0.5, 2),
    _events("crowded", [2], 60.0, 6, 3.0),
    _case("one-group", [0, 1, 2], [], [1.0, 1.0, 1.0], 8),
    _case("by-one", [0, 2], [3], [1.0, 1.0], 5),
    _case("by-two", [0], [1, 3], [1.0], 32),
    _case("weights", [0, 1, 2], [3], [0.5, 2.0, 1.0], 4),
    _case("one-bin", [0, 1], [3], [1.0, 1.0], 1),
]
