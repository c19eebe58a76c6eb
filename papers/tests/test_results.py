"""Rows as numbers, averages and curves."""

from __future__ import annotations

import math

import pytest

from dpcape_papers.experiments.results import PUBLISHED, Results, number, row


def rows() -> Results:
    return Results(
        row(
            panel="p", curve="c", calibration=PUBLISHED, x=x, measure="m", value=x + run, run=run, claimed_epsilon=claim
        )
        for x, claim in ((2, None), (1, 0.5))
        for run in range(2)
    )


def test_columns_of_numbers_are_read_row_by_row() -> None:
    assert rows().numbers("value") == [2.0, 3.0, 1.0, 2.0]
    assert number(rows()[-1], "claimed_epsilon") == 0.5


@pytest.mark.parametrize("column", ["claimed_epsilon", "panel"])
def test_what_is_no_number_is_refused(column: str) -> None:
    with pytest.raises(TypeError, match=column):
        rows().numbers(column)


def test_curves_are_averaged_over_runs_in_order_of_x() -> None:
    (series,) = rows().series(measure="m")
    assert series.x.tolist() == [1.0, 2.0]
    assert series.mean.tolist() == [1.5, 2.5]
    assert series.spread.tolist() == [0.5, 0.5]
    assert series.claimed[0] == 0.5
    assert math.isnan(series.claimed[1])
    assert rows().mean(x=2) == 2.5
    assert math.isnan(rows().mean(x=7))
