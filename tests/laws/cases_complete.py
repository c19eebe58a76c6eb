"""Cases of columns of a table read as rows; a number of at least 20 stands for a missing value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .cases_contrasts import FACTS, _table
from .cases_moments import _clipped
from .statistic_case import Case

Vector = NDArray[np.float64]

NUMBERS, MIXED = [0, 1, 3], [0, 2, 4]
_HOSTILE = {"centre": np.array([1e300, -1e300, 0.0]), "scale": np.array([1e-300, 0.0, -1.0])}


def complete_rows(parameters: Vector, columns: list[int]) -> Vector:
    """Return the rows of complete records, record by record."""
    found = []
    for record in parameters:
        if (np.abs(record[columns]) >= 20).any():
            continue
        row: list[float] = []
        for at in columns:
            levels = FACTS.columns[at].levels
            code = int(np.clip((record[at] + 1) / 2 * len(levels), 0, max(len(levels) - 1, 0)))
            if not levels:
                row.append(float(np.clip(record[at], -1, 1)))
            else:
                row += [2.0 * code - 1] if len(levels) == 2 else np.eye(len(levels))[code].tolist()
        found.append(row)
    return np.array(found)


def _first(rows: Vector) -> Vector:
    # Squares are packed over twice the largest length of a row of three columns.
    return np.concatenate([rows.sum(axis=0), (rows**2).sum(axis=0) / (2 * np.sqrt(3))])


def _deviations(centre: Vector) -> Callable[[Vector], Vector]:
    cap = np.sqrt(3 / len(centre))
    return lambda rows: (np.minimum(np.abs(rows - centre) / cap, 1) - 0.5).sum(axis=0)


def _joint(centre: Vector, scale: Vector, radius: float) -> Callable[[Vector], Vector]:
    def sums(rows: Vector) -> Vector:
        seen = _clipped((rows - centre) / (scale * radius), 1.0)
        products = seen.T @ seen
        at = np.triu_indices(len(products))
        packed = products[at] * np.where(at[0] == at[1], 1.0, np.sqrt(2))
        return np.concatenate([0.5 * seen.sum(axis=0), packed])

    return sums


def _case(
    statistic: str,
    label: str,
    columns: list[int],
    public: dict[str, Any],
    sums: Callable[[Vector], Vector] | None = None,
    reaches: float = 0.999,
) -> Case:
    def expected(parameters: Vector) -> Vector:
        rows = complete_rows(parameters, columns)
        assert sums is not None
        return np.append(len(rows), sums(rows)) / len(parameters)

    return Case(
        f"complete_{statistic}",
        label,
        6,
        _table,
        {"columns": np.array(columns), **public},
        reaches=reaches,
        expected=None if sums is None else expected,
    )


_CENTRE, _SCALE = np.array([0.1, -0.4, 0.2, 0.3, 0.5]), np.array([0.2, 1.0, 0.5, 0.5, 0.5])
_MIXED_ARRAYS = {"centre": _CENTRE, "scale": _SCALE, "radius": np.array([1.3])}

CASES = [
    _case("first_moments", "numbers", NUMBERS, {}, _first),
    _case("first_moments", "levels", MIXED, {}, _first, reaches=0.9),
    _case("absolute_deviations", "numbers", NUMBERS, {"centre": np.zeros(3)}, _deviations(np.zeros(3))),
    _case("absolute_deviations", "levels", MIXED, {"centre": _CENTRE}, _deviations(_CENTRE), reaches=0.5),
    _case(
        "radius_histogram",
        "levels",
        MIXED,
        {"centre": _CENTRE, "scale": _SCALE, "top": np.array([6.0])},
    ),
    _case("radius_histogram", "hostile", NUMBERS, {**_HOSTILE, "top": np.array([-1.0])}, reaches=0.5),
    _case(
        "scaled_centred_moments",
        "numbers",
        NUMBERS,
        {"centre": np.array([0.1, 0.0, -0.2]), "scale": np.array([0.2, 0.1, 0.3]), "radius": np.array([1.5])}
        | {"mean_weight": 0.5},
        _joint(np.array([0.1, 0.0, -0.2]), np.array([0.2, 0.1, 0.3]), 1.5),
    ),
    _case(
        "scaled_centred_moments",
        "levels",
        MIXED,
        {**_MIXED_ARRAYS, "mean_weight": 0.5},
        _joint(_CENTRE, _SCALE, 1.3),
        reaches=0.9,
    ),
    # Whatever an aggregator sends: the same diameter.
    _case(
        "scaled_centred_moments",
        "hostile",
        NUMBERS,
        {**_HOSTILE, "radius": np.array([1e-300]), "mean_weight": 0.5},
        reaches=0.5,
    ),
]
