"""Cases of adjusted contrasts; a number of at least 20 stands for a missing value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcape import table
from dpcape.core.facts import PublicColumn, PublicFacts, TypedColumns
from dpcape.records.from_numbers import schema_of, table_values

from .statistic_case import Case

Vector = NDArray[np.float64]

FACTS = PublicFacts(
    kind="table",
    unit="record",
    n_records=1,
    widths=(6,),
    bounds=(1.0,),
    typed=TypedColumns(
        (
            PublicColumn("volume", "number", 2.0, 5.0),
            PublicColumn("area", "number", -1.0, 1.0),
            PublicColumn("dx", "category", levels=("no", "yes")),
            PublicColumn("age", "number", 20.0, 80.0),
            PublicColumn("stage", "category", levels=("i", "ii", "iii")),
            PublicColumn("site", "category", levels=("a", "b", "c")),
        )
    ),
)


def _table(parameters: Vector) -> Any:
    return table(table_values(FACTS, parameters), columns=schema_of(FACTS))


def _numbers(parameters: Vector, at: int) -> Vector:
    """Return a column of the design, record by record; missing values as NaN."""
    levels, found = FACTS.columns[at].levels, []
    for value in parameters[:, at]:
        code = int(np.clip((value + 1) / 2 * len(levels), 0, max(len(levels) - 1, 0)))
        coded = [np.clip(value, -1, 1)] if not levels else [2.0 * code - 1] if len(levels) == 2 else np.eye(3)[code][:2]
        found.append(np.full(len(coded), np.nan) if abs(value) >= 20 else np.asarray(coded, dtype=float))
    return np.array(found)


def _complete(parameters: Vector, public: dict[str, Any]) -> tuple[Vector, Vector, Vector]:
    """Return design, one-hot sites and outcomes of the complete records."""
    design = np.hstack([_numbers(parameters, at) for at in public["design"]])
    outcomes = np.hstack([_numbers(parameters, at) for at in public["outcomes"]])
    sites = np.ones((len(parameters), 1))
    if public["site"] >= 0:
        codes = np.clip((parameters[:, public["site"]] + 1) / 2 * 3, 0, 2).astype(int)
        sites = np.eye(3)[codes]
        sites[np.abs(parameters[:, public["site"]]) >= 20] = np.nan
    kept = ~np.isnan(np.hstack([design, outcomes, sites])).any(axis=1)
    return design[kept], sites[kept], outcomes[kept]


def _moments(public: dict[str, Any]) -> Callable[[Vector], Vector]:
    def means(parameters: Vector) -> Vector:
        design, sites, outcomes = _complete(parameters, public)
        parts = [
            sites.sum(axis=0),
            sites.T @ design,
            design.T @ design,
            outcomes.sum(axis=0),
            (outcomes**2).sum(axis=0),
        ]
        return np.concatenate([np.ravel(part) for part in parts]) / len(parameters)

    return means


def _products(public: dict[str, Any]) -> Callable[[Vector], Vector]:
    def means(parameters: Vector) -> Vector:
        design, sites, outcomes = _complete(parameters, public)
        residuals = np.clip(
            (design @ public["coefficients"] - sites @ public["offsets"]) * (sites @ public["site_weights"]), -1, 1
        )
        standard = (outcomes - public["centre"]) / public["scale"]
        factors = 1 / np.maximum(np.linalg.norm(standard, axis=1), 1)
        crossed = residuals[:, None] * standard * factors[:, None]
        parts = [crossed.sum(axis=0), (crossed**2).sum(axis=0), [np.sum(residuals * factors * design[:, 0])]]
        return np.concatenate(parts) / len(parameters)

    return means


def _site_moments(label: str, site: int, centre: list[float], scale: list[float], *, reaches: float = 0.999) -> Case:
    public = {"columns": np.array([0, 1]), "site": site, "centre": np.array(centre), "scale": np.array(scale)}

    def means(parameters: Vector) -> Vector:
        _, sites, places = _complete(parameters, {"design": [0], "outcomes": [0, 1], "site": site})
        rows = (places - public["centre"]) / public["scale"]
        rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1)
        parts = [sites.sum(axis=0), sites.T @ rows, sites.T @ rows**2]
        return np.concatenate([np.ravel(part) for part in parts]) / len(parameters)

    expected = means if min(scale) > 1e-3 else None
    return Case("site_moments", label, 6, _table, public, reaches=reaches, expected=expected)


def _positions(outcomes: list[int], design: list[int], site: int) -> dict[str, Any]:
    return {"outcomes": np.array(outcomes), "design": np.array(design), "site": site}


def _design(label: str, *positions: Any, reaches: float = 0.999) -> Case:
    public = _positions(*positions)
    return Case("design_moments", label, 6, _table, public, reaches=reaches, expected=_moments(public))


def _residual(
    label: str, positions: tuple[Any, ...], arrays: dict[str, list[float]], *, reaches: float = 0.999
) -> Case:
    public = {**_positions(*positions), **{name: np.array(values) for name, values in arrays.items()}}
    usual = max(np.abs(values).max() for values in arrays.values()) < 1e3 and min(arrays["scale"]) > 0
    expected = _products(public) if usual else None
    return Case("residual_products", label, 6, _table, public, reaches=reaches, expected=expected)


def _arrays(coefficients: list[float], n_sites: int, n_outcomes: int, scale: float = 0.3) -> dict[str, list[float]]:
    return {
        "coefficients": coefficients,
        "offsets": [0.1 * number for number in range(n_sites)],
        "site_weights": [1.0 - 0.2 * number for number in range(n_sites)],
        "centre": [0.05] * n_outcomes,
        "scale": [scale] * n_outcomes,
    }


CASES = [
    _design("one-outcome", [0], [2], -1),
    _design("sites", [0, 1], [2, 3], 5),
    # Three levels are at most sqrt(2) apart, not 2.
    _design("levels", [0, 1], [3, 4], 5, reaches=0.9),
    # A residual has the sign of its contrast, so that their products are not far apart.
    _residual("plain", ([0, 1], [2], -1), _arrays([1.0], 1, 2), reaches=0.97),
    _residual("covariates", ([0, 1], [2, 3, 4], 5), _arrays([1.2, -0.3, 0.2, 0.4], 3, 2), reaches=0.97),
    # Not a residual: it is 1 for everyone.
    _residual(
        "constant",
        ([1], [2], -1),
        {"coefficients": [0.0], "offsets": [-1.0], "site_weights": [1.0], "centre": [0.0], "scale": [1.0]},
    ),
    _residual("one-outcome", ([1], [3], 5), _arrays([1.0], 3, 1, 0.8), reaches=0.97),
    _site_moments("together", -1, [0.0, 0.0], [1.5, 1.5], reaches=0.9),
    _site_moments("sites", 5, [0.1, -0.2], [0.4, 0.2]),
    _site_moments("hostile", 5, [1e300, 0.5], [1e-300, 0.0], reaches=0.5),
    # Whatever an aggregator sends: the same diameter.
    _residual(
        "hostile",
        ([0, 1], [2, 3], 5),
        {
            "coefficients": [1e300, -1e300],
            "offsets": [1e300, 0.0, -1e300],
            "site_weights": [1e300, 0.0, -1e300],
            "centre": [1e300, 0.0],
            "scale": [1e-300, 0.0],
        },
        reaches=0.5,
    ),
]
