"""Rows of very many columns: roundings of a long sum all go one way, and the bound still holds exactly."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpcape.records.clip import clip_rows


@pytest.mark.parametrize("n_columns", [10_000, 100_000])
@pytest.mark.parametrize("bound", [1.0, 0.3])
def test_no_wide_row_is_longer_than_its_bound(n_columns: int, bound: float) -> None:
    # All entries of a row alike: the worst for a sum of squares, whose error grows with the number of columns.
    values = (0.1, 0.3, 1 / 3, 0.7, 0.9, 1.1, 2.2)
    block = np.repeat(np.array(values)[:, np.newaxis], n_columns, axis=1)
    out = np.empty_like(block)
    clip_rows(block, bound=bound, out=out)
    for row in out:
        entries, counts = np.unique(row, return_counts=True)
        square = sum(Fraction(float(entry)) ** 2 * int(count) for entry, count in zip(entries, counts, strict=True))
        # Exactly, and not below it by more than the margin for that many columns.
        assert Fraction(bound) ** 2 * (1 - Fraction(n_columns, 2**49)) <= square <= Fraction(bound) ** 2
