"""Cubes of rows on the grid: exact sums of whole numbers, near the cubes of the rows by what is counted."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest

from dpcape.core.contributions import ROUND, ExactSum, finer_bits
from dpcape.core.grid import GridRows, into_balls, reach_on_grid
from dpcape.core.statistic import extent_of
from dpcape.core.tiles import parts_of, tile_of_rows
from dpcape.statistics.cubes import cube_entries, cube_error, cubes, pairs_at_a_time
from dpcape.statistics.packing import pack_tensor, root_multiplicities


@pytest.mark.parametrize("width", [1, 2, 7, 21, 35])
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


@pytest.mark.parametrize("width", [3, 30, 33])
@pytest.mark.parametrize("few", [False, True])
def test_many_of_the_longest_cubes_add_up_to_whole_numbers(width: int, few: bool) -> None:
    """Of rows of equal entries, and of rows of one: these have the largest cubes there are."""
    x = np.eye(1, width, width - 1) if few else np.full((1, width), 1 / math.sqrt(width))
    alone, _, _ = into_balls(x, (width,), (1.0,))
    n = ROUND >> finer_bits(width)
    many, _, _ = into_balls(np.repeat(x, n, axis=0), (width,), (1.0,))
    largest = 0
    for one, all_of_them in zip(cubes(alone), cubes(many), strict=True):
        each, total = ExactSum(one), ExactSum(all_of_them)
        each.add(one, 1)
        for _ in range(3):
            total.add(all_of_them, n)
        assert total.integers() == [3 * n * entry for entry in each.integers()]
        largest = max(largest, *map(abs, each.integers()))
        for _ in range(13):
            total.join(copy.deepcopy(total))
        assert total.integers() == [3 * 2**13 * n * entry for entry in each.integers()]
    assert largest > 2**20
    assert not few or largest * n > 2**52


def test_a_tile_of_more_cubes_than_add_up_exactly_is_refused() -> None:
    rows, _, _ = into_balls(np.zeros((ROUND // 8 + 1, 31)), (31,), (1.0,))
    form = cubes(rows)[0]
    with pytest.raises(ValueError, match="at most 1024 records"):
        ExactSum(form).add(form, len(rows))


@pytest.mark.parametrize("width", [30, 31, 40, 127, 128, 200, 463])
def test_parts_of_a_tile_have_as_many_records_as_add_up_exactly(width: int) -> None:
    tile = tile_of_rows(GridRows(np.zeros((ROUND, width)), 1.0), np.ones(ROUND))
    sizes = [part.n_records for part, _ in parts_of(tile, None, pairs_at_a_time(width))]
    assert sum(sizes) == ROUND
    assert max(sizes) <= ROUND >> finer_bits(width)


def test_third_moments_of_hundreds_of_columns_have_hardly_more_noise_than_without_a_grid() -> None:
    for width in (10, 30, 31, 100, 400):
        extent = extent_of("third_moment", n_features=width, bound=1.0, noise_variance=0.0)
        assert extent.sensitivity(1000) <= 2 * (1 + 1e-4)
    for n_words in (10, 30, 31, 100, 130):
        extent = extent_of("word_triples", n_features=n_words, n_words=n_words, clip=1.0)
        assert extent.sensitivity(1000) <= math.sqrt(2) * (1 + 1e-4)


def test_dropped_records_have_no_cubes() -> None:
    rows, _, _ = into_balls(np.random.default_rng(1).normal(size=(8, 4)), (4,), (1.0,))
    for form in cubes(rows):
        form.drop(np.ones(8, dtype=np.bool_))
        total = ExactSum(form)
        total.add(form, 8)
        assert not any(total.integers())
