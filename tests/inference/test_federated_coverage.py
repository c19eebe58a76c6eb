"""Intervals of regressions through the protocol cover: drop-outs, weights, private scaling; quick cells.

The grid is ``experiments/regression/federated.py``. A cell is refused by an exact one-sided binomial test of .95
at 1e-4: over all cells a true law fails with a probability below 6e-4 (seeds are fixed).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from experiments.regression import federated as grid

ROOT = Path(__file__).parents[2]
ALPHA = 1e-4
QUICK: list[tuple[tuple[Any, ...], int]] = [
    (("linear", "lost", "skewed", 3, 1500, 3.0), 12),
    (("linear", "lost of equal weights", "normal", 3, 1500, 10.0), 12),
    (("logistic", "four", "binary", 3, 1500, 3.0), 8),
    (("linear", "four", "normal", 3, 2500, 3.0, 3.0, "private"), 10),
    (("linear", "one", "skewed", 3, 2000, 1.0, 3.0, "private", None), 20),
]


@pytest.mark.parametrize(("cell", "n_runs"), QUICK, ids=[str(cell) for cell, _ in QUICK])
def test_intervals_cover_through_the_protocol(cell: tuple[Any, ...], n_runs: int) -> None:
    found = grid.measured(grid.Cell(*cell), n_runs, seed=3)
    assert found["p_value"] >= ALPHA, found


def test_the_stored_grid_is_whole_and_covers() -> None:
    results = json.loads(grid.FILE.read_text("utf-8"))
    assert [row["cell"] for row in results] == [cell.label for cell in grid.grid()]
    assert min(row["p_value"] for row in results) >= 0.01 / len(results)
    # Lost sites and unequal weights must not be answered by silence alone.
    assert all(row["no_answer"] < 0.6 for row in results)


def test_fresh_seeds_confirm_what_was_chosen_on_others() -> None:
    results = json.loads((ROOT / "experiments" / "intervals" / "fresh.json").read_text("utf-8"))
    kinds = {row["cell"].partition(":")[0] for row in results}
    assert {"pca", "logistic", "linear"} <= kinds
    assert all(row["runs"] >= 200 for row in results)
    assert min(row["p_value"] for row in results) >= 0.01 / len(results)
