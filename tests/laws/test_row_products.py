"""The product of a row with a public matrix is the same wherever the row stands."""

from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from dpcape.statistics.feature_maps import feature_map, own_maps
from dpcape.statistics.row_products import CHUNK_ROWS, row_products


@pytest.mark.parametrize("n_threads", [1, 2, 4])
def test_rounding_does_not_depend_on_the_other_rows(n_threads: int) -> None:
    """A plain product fails here in about a third of the shapes."""
    random = np.random.default_rng(1)
    with threadpool_limits(n_threads):
        for _ in range(60):
            n_rows, width = random.integers(2, 700), random.integers(1, 800)
            shape = (width, int(random.choice([1, 2, 3, 5, 8, 10, 33, 100]))) if random.random() < 0.8 else (width,)
            rows, matrix = random.normal(size=(n_rows, width)), random.normal(size=shape)
            kept = np.sort(random.permutation(n_rows)[: max(1, n_rows - random.integers(1, 20))])
            np.testing.assert_array_equal(row_products(rows, matrix)[kept], row_products(rows[kept], matrix))


@pytest.mark.parametrize("n_rows", [0, 1, CHUNK_ROWS - 1, CHUNK_ROWS, CHUNK_ROWS + 1, 5 * CHUNK_ROWS])
@pytest.mark.parametrize("shape", [(7, 3), (7, 1), (7,)])
def test_value(n_rows: int, shape: tuple[int, ...]) -> None:
    random = np.random.default_rng(2)
    rows, matrix = random.normal(size=(n_rows, 7)), random.normal(size=shape)
    np.testing.assert_allclose(row_products(rows, matrix), rows @ matrix, rtol=0, atol=1e-14)
    out = np.full((n_rows, *shape[1:]), np.nan)
    assert row_products(rows[:, ::-1], matrix[::-1], out=out) is out
    np.testing.assert_allclose(out, rows @ matrix, rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", sorted(own_maps()))
def test_features_do_not_depend_on_the_other_rows(name: str) -> None:
    made, rows = feature_map(name), np.random.default_rng(3).random((130, 196))
    together = made.mapped(rows)
    for first in (1, 2, 5, 64, 129):
        np.testing.assert_array_equal(made.mapped(rows[first:]), together[first:])
