"""Cases of proportional hazards; a number of at least 20 stands for a missing value."""

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
    widths=(5,),
    bounds=(1.0,),
    typed=TypedColumns(
        (
            PublicColumn("days", "number", 0.0, 100.0),
            PublicColumn("died", "category", levels=("no", "unknown", "yes")),
            PublicColumn("age", "number", 20.0, 80.0),
            PublicColumn("arm", "category", levels=("a", "b")),
            PublicColumn("stage", "category", levels=("i", "ii", "iii")),
        ),
        (PublicEvent("survival", "days", "died", "yes"),),
    ),
)


def _table(parameters: Vector) -> Any:
    return table(table_values(FACTS, parameters), columns=schema_of(FACTS))


def _coded(value: float, at: int) -> list[float]:
    """Return one column of a record's design."""
    levels = FACTS.columns[at].levels
    if not levels:
        return [float(np.clip(value, -1, 1))]
    code = int(np.clip((value + 1) / 2 * len(levels), 0, len(levels) - 1))
    return [2.0 * code - 1] if len(levels) == 2 else list(np.eye(3)[code][:2])


def _complete(parameters: Vector, design: list[int]) -> list[tuple[Vector, float, bool]]:
    """Return row, place of time and event of the complete records."""
    found = []
    for record in parameters:
        if max(abs(record[at]) for at in (0, 1, *design)) >= 20:
            continue
        row = np.array([number for at in design for number in _coded(record[at], at)])
        time, died = (float(np.clip(record[0], -1, 1)) + 1) / 2, (record[1] + 1) / 2 * 3 >= 2
        found.append((row, time, bool(died) and time < 1))
    return found


def _columns(label: str, design: list[int], *, reaches: float = 0.999) -> Case:
    is_number = [at == 2 for at in design for _ in range(max(len(FACTS.columns[at].levels) - 1, 1))]

    def means(parameters: Vector) -> Vector:
        rows = np.array([row for row, _, _ in _complete(parameters, design)]).reshape(-1, len(is_number))
        parts = [[float(len(rows))], rows.sum(axis=0), (rows[:, is_number] ** 2).sum(axis=0)]
        return np.concatenate(parts) / len(parameters)

    public = {"event": 0, "design": np.array(design)}
    return Case("followed_columns", label, 5, _table, public, reaches=reaches, expected=means)


def _one_score(row: Vector, time: float, died: bool, public: dict[str, Any]) -> Vector:
    """Return scores and curvature of one record, its follow-up integrated in small steps of expected events."""
    unit = (row - public["centre"]) / public["scale"]
    relative = float(np.exp(unit @ public["coefficients"]))
    edges, hazards, trend, limit = (public[name] for name in ("edges", "hazards", "trend", "limit"))
    died, time = died and time <= edges[-1], min(time, edges[-1])
    moments, s_end = np.zeros(3), trend[0]
    for begin, end, hazard, s in zip(edges[:-1], edges[1:], hazards, trend, strict=True):
        if time > begin or begin == 0:
            s_end = s
            left = (limit - moments[0]) / (relative * hazard)
            if begin + left < min(time, end):
                time, died = begin + left, False
            moments += relative * hazard * max(min(time, end) - begin, 0.0) * s ** np.arange(3)
        if time <= end:
            break
    ball = unit / max(1.0, float(np.linalg.norm(unit)))
    stretched = ball * np.sqrt(min(max(1.0, float(np.linalg.norm(unit))), 2.0))
    scores = [died - moments[0], died * s_end - moments[1], *((died - moments[0]) * ball)]
    basis = np.array([[1, 0], [0, 1], *((entry, 0) for entry in stretched)])
    curvature = basis @ np.array([[moments[0], moments[1]], [moments[1], moments[2]]]) @ basis.T
    return np.concatenate([scores, curvature.ravel()]) / limit


def _scores(label: str, design: list[int], *, reaches: float = 0.999, expected: bool = True, **arrays: Any) -> Case:
    public = {"event": 0, "design": np.array(design), "limit": arrays.pop("limit", 1.0)}
    public |= {name: np.array(values, dtype=float) for name, values in arrays.items()}

    def means(parameters: Vector) -> Vector:
        width = len(public["centre"])
        total = np.zeros(2 + width + (2 + width) ** 2)
        for row, time, died in _complete(parameters, design):
            total += _one_score(row, time, died, public)
        return total / len(parameters)

    return Case("hazard_scores", label, 5, _table, public, reaches=reaches, expected=means if expected else None)


CASES = [
    _columns("number", [2]),
    _columns("pair", [2, 3]),
    # Three levels are at most sqrt(2) apart, not 2.
    _columns("levels", [2, 4], reaches=0.85),
    _scores(
        "attained",
        [2],
        centre=[0.0],
        scale=[0.2],
        coefficients=[0.0],
        edges=[0.0, 0.9],
        hazards=[2.0],
        trend=[1.0],
    ),
    _scores(
        # With a limit above one, no record is as far from all others as the bound allows.
        "usual",
        [2, 3],
        reaches=0.8,
        centre=[0.1, -0.2],
        scale=[0.6, 1.2],
        coefficients=[0.4, -0.3],
        edges=[0.0, 0.2, 0.5, 1.0],
        hazards=[0.8, 1.5, 3.0],
        trend=[-0.7, 0.0, 0.7],
        limit=1.5,
    ),
    _scores(
        "levels",
        [2, 4],
        reaches=0.75,
        centre=[0.0, 0.3, 0.3],
        scale=[0.5, 0.7, 0.7],
        coefficients=[0.5, 0.2, -0.2],
        edges=[0.0, 0.4, 0.8],
        hazards=[4.0, 9.0],
        trend=[-1.0, 1.0],
        limit=6.0,
    ),
    # Whatever an aggregator sends: the same diameter.
    _scores(
        "hostile",
        [2, 3],
        reaches=0.5,
        expected=False,
        centre=[1e300, 0.0],
        scale=[1e-300, 0.0],
        coefficients=[1e300, -1e300],
        edges=[0.0, 1e-300, 1.0],
        hazards=[1e300, -1e300],
        trend=[1e300, -1e300],
    ),
    _scores(
        "steep",
        [2],
        reaches=0.9,
        expected=False,
        centre=[0.0],
        scale=[0.3],
        coefficients=[40.0],
        edges=[0.0, 0.1, 1.0],
        hazards=[1e-9, 1e9],
        trend=[-1.0, 1.0],
        limit=1.0,
    ),
    # The end of follow-up rounds to a time at which 1.85 times the limit is expected.
    _scores(
        "rounded-time",
        [2],
        reaches=0.9,
        expected=False,
        centre=[0.0],
        scale=[1.0],
        coefficients=[9.72],
        edges=[0.0, 0.5, 1.0],
        hazards=[1e-12, 1e12],
        trend=[1.0, 1.0],
        limit=1.0,
    ),
]
