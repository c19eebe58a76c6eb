"""Cubes of rows on the grid: exact sums of whole numbers, near the cubes of the rows by what is counted."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpcape.core.contributions import ROUND, ExactSum
from dpcape.core.grid import into_balls, reach_on_grid
from dpcape.statistics.cubes import cube_entries, cube_error, cubes
from dpcape.statistics.packing import pack_tensor, root_multiplicities


@pytest.mark.parametrize("width", [1, 2, 7, 21])
def test_a_cube_is_off_by_no_more_than_is_counted(width: int) -> None:
    draw = np.random.default_rng(width)
    for size in (1e-3, 0.5, 1.0, 7.0):
        rows, _, _ = into_balls(size * draw.normal(size=(8, width)), (width,), (1.0,))
        for at in range(8):
            rows_alone, _, _ = into_balls(rows.values[at : at + 1], (width,), (1.0,))
            sums = [ExactSum(form) for form in cubes(rows_alone)]
            for total, form in zip(sums, cubes(rows_alone), strict=True):
                total.add(form, 1)
            found = cube_entries([total.values() for total in sums], width) * root_multiplicities(width)
            x = rows_alone.values[0]
            exact = pack_tensor(np.einsum("i,j,k->ijk", x, x, x))
            assert np.linalg.norm(found - exact) <= cube_error(width, reach_on_grid(1.0, width))


@pytest.mark.parametrize("width", [3, 24])
def test_many_of_the_longest_cubes_add_up_to_whole_numbers(width: int) -> None:
    x = np.full((1, width), 1 / math.sqrt(width))
    alone, _, _ = into_balls(x, (width,), (1.0,))
    many, _, _ = into_balls(np.repeat(x, ROUND, axis=0), (width,), (1.0,))
    for one, all_of_them in zip(cubes(alone), cubes(many), strict=True):
        each, total = ExactSum(one), ExactSum(all_of_them)
        each.add(one, 1)
        for _ in range(3):
            total.add(all_of_them, ROUND)
        assert total.integers() == [3 * ROUND * entry for entry in each.integers()]
        assert max(map(abs, each.integers())) > 2**20


def test_dropped_records_have_no_cubes() -> None:
    rows, _, _ = into_balls(np.random.default_rng(1).normal(size=(8, 4)), (4,), (1.0,))
    for form in cubes(rows):
        form.drop(np.ones(8, dtype=np.bool_))
        total = ExactSum(form)
        total.add(form, 8)
        assert not any(total.integers())
