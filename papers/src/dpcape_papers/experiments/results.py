"""Rows of an experiment, and averages of them for pictures and verdicts."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, overload

import numpy as np

from dpcape.core.arrays import FloatArray
from dpcape.core.errors import InvalidParameter

if TYPE_CHECKING:
    from dpcape.guarantee.guarantee import Guarantee

Value = str | int | float | None
Row = dict[str, Value]
# The first columns of every data.csv; an experiment may add columns after them.
COLUMNS = (
    "panel",
    "curve",
    "calibration",
    "x",
    "measure",
    "value",
    "claimed_epsilon",
    "verified_epsilon",
    "delta",
    "run",
)
NON_PRIVATE, PUBLISHED, VERIFIED = "non-private", "as published", "verified"
# A formula or a count, not a fit: no guarantee belongs to it.
EXACT = "exact"
# Noise of dpcape's size on data prepared from the records themselves, which no guarantee covers.
UNCOVERED = "dpcape's noise, no guarantee"
# A guarantee may state a little less than was asked for, never more.
_ROUNDING = 1 + 1e-9


def row(
    *,
    panel: str,
    curve: str,
    calibration: str,
    x: float,
    measure: str,
    value: float,
    claimed_epsilon: float | None = None,
    verified_epsilon: float | None = None,
    delta: float | None = None,
    run: int = 0,
    guarantee: Guarantee | None = None,
    **more: Value,
) -> Row:
    """Return a row with one measured value.

    ``claimed_epsilon`` is the epsilon the scheme claims, ``verified_epsilon`` the one its noise provides at the same
    delta (infinite if nothing is guaranteed). Both are None for results without noise. ``guarantee`` is that of the
    fit, which every row called verified must have (`require_guarantees`).
    """
    stated: Row = {}
    if guarantee is not None:
        stated = {
            "guarantee": guarantee.status,
            "guarantee_epsilon": guarantee.epsilon,
            "guarantee_delta": guarantee.delta,
        }
    return {
        "panel": panel,
        "curve": curve,
        "calibration": calibration,
        "x": float(x),
        "measure": measure,
        "value": float(value),
        "claimed_epsilon": claimed_epsilon,
        "verified_epsilon": verified_epsilon,
        "delta": delta,
        "run": run,
        **stated,
        **more,
    }


def require_guarantees(rows: Iterable[Row]) -> None:
    """Refuse rows called verified whose fit has no guarantee of status verified, at the epsilon they are drawn for."""
    for r in rows:
        if r["calibration"] != VERIFIED:
            continue
        asked, real = r.get("claimed_epsilon"), r.get("verified_epsilon")
        stated = r.get("guarantee") == VERIFIED and isinstance(asked, (int, float)) and isinstance(real, (int, float))
        if not stated or not float(str(real)) <= _ROUNDING * float(str(asked)):
            raise InvalidParameter(
                "A curve called verified",
                "have a guarantee of status verified at its epsilon",
                f"{r.get('guarantee')!r}, epsilon {real} for {asked}, in panel {r['panel']}, curve {r['curve']}",
                f"Store the guarantee of the fit, or call the curve {UNCOVERED!r}.",
            )


def number(row: Mapping[str, Value], column: str) -> float:
    """Return the value of a numeric column."""
    value = row[column]
    if value is None or isinstance(value, str):
        raise TypeError(
            f"{column} must be a number; got {value!r}. Read another column, or select rows in which it is a number."
        )
    return float(value)


@dataclass(frozen=True)
class CurvePoints:
    """The points of one curve, averaged over the runs."""

    curve: str
    calibration: str
    x: FloatArray
    mean: FloatArray
    spread: FloatArray  # standard deviation over the runs
    claimed: FloatArray  # NaN where no epsilon is claimed
    verified: FloatArray


class Results(Sequence[Row]):
    """The rows of one experiment."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows = list(rows)

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> Row: ...

    @overload
    def __getitem__(self, index: slice) -> list[Row]: ...

    def __getitem__(self, index: int | slice) -> Row | list[Row]:
        return self._rows[index]

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def where(self, **wanted: Value) -> Results:
        """Return the rows in which the given columns have the given values."""
        return Results(r for r in self._rows if all(r.get(key) == value for key, value in wanted.items()))

    def values(self, column: str) -> list[Value]:
        """Return the distinct values of a column, in order of appearance."""
        return list(dict.fromkeys(r.get(column) for r in self._rows))

    def numbers(self, column: str) -> list[float]:
        """Return the values of a numeric column, one per row."""
        return [number(r, column) for r in self._rows]

    def mean(self, **wanted: Value) -> float:
        """Return the mean of ``value`` over the selected rows; NaN if there are none."""
        found = self.where(**wanted).numbers("value")
        return float(np.mean(found)) if found else math.nan

    def series(self, **wanted: Value) -> list[CurvePoints]:
        """Return the curves of the selected rows, in order of appearance."""
        chosen = self.where(**wanted)
        keys = dict.fromkeys((str(r["curve"]), str(r["calibration"])) for r in chosen)
        return [_series(chosen.where(curve=curve, calibration=kind), curve, kind) for curve, kind in keys]

    def write(self, path: Path) -> None:
        """Write the rows to a CSV file."""
        header = [*COLUMNS, *dict.fromkeys(key for r in self._rows for key in r if key not in COLUMNS)]
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, header)
            writer.writeheader()
            writer.writerows(self._rows)


def _series(rows: Results, curve: str, calibration: str) -> CurvePoints:
    points = sorted(set(rows.numbers("x")))
    at = {x: rows.where(x=x) for x in points}

    def average(column: str, reduce: Callable[[list[float]], np.floating] = np.mean) -> FloatArray:
        found = [[math.nan if r[column] is None else number(r, column) for r in at[x]] for x in points]
        return np.array([reduce(values) for values in found])

    return CurvePoints(
        curve=curve,
        calibration=calibration,
        x=np.array(points),
        mean=average("value"),
        spread=average("value", np.std),
        claimed=average("claimed_epsilon"),
        verified=average("verified_epsilon"),
    )
