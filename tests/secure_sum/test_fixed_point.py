"""Integers on the grid and the ring.

Checklist
---------
* S sites at +-B do not wrap; a configuration that could wrap is refused
* the integer sum of what remains is 0 for T mod S = 0, 1, S - 1 and negative T; covariance of what remains
* dtypes, byte order, shapes
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from dpcape.core.errors import InvalidParameter
from dpcape.core.secure_sum.fixed_point import check_range, from_ring, packed, to_ring, unpacked, zero_sum_share

INT64 = st.integers(-(2**63), 2**63 - 1)


@given(arrays.arrays(np.int64, arrays.array_shapes(max_dims=2), elements=INT64))
def test_ring_and_back(values: np.ndarray) -> None:
    words = to_ring(values)
    assert words.dtype == np.uint64
    np.testing.assert_array_equal(from_ring(words), values)


@given(st.lists(st.integers(-(2**47), 2**47 - 1), min_size=1, max_size=6), st.integers(0, 2**64 - 1))
def test_sums_of_short_words_are_exact_and_carry_48_bits(values: list[int], mask: int) -> None:
    """Masked modulo 2^64, sent without the upper 16 bits: the sum is that of the integers."""
    total = np.array(values, dtype=np.int64)
    masks = np.full(total.size, mask, dtype=np.uint64)
    sent = [packed(to_ring(total // 2) + masks), packed(to_ring(total - total // 2) - masks)]
    assert [len(data) for data in sent] == [6 * total.size] * 2
    received = [unpacked(data) for data in sent]
    assert max(int(words.max()) for words in received) < 2**48
    np.testing.assert_array_equal(from_ring(received[0] + received[1], 6), total)


@pytest.mark.parametrize("value", [2**47 - 1, -(2**47), 0, -1])
def test_short_words_at_the_ends_of_their_range(value: int) -> None:
    words = unpacked(packed(to_ring(np.array([value]))))
    assert from_ring(words, 6).tolist() == [value]
    beyond = to_ring(np.array([2**47]))
    assert from_ring(unpacked(packed(beyond)), 6).tolist() == [-(2**47)]  # why a plan keeps a factor of two


@given(st.integers(1, 200), st.data())
def test_largest_allowed_values_do_not_wrap(n_sites: int, data: st.DataObject) -> None:
    bound = (2**63 - 1) // n_sites
    check_range(bound, n_sites)
    with pytest.raises(InvalidParameter, match="n_sites \\* bound_steps must be at most"):
        check_range(bound + 1, n_sites)
    signs = data.draw(st.sampled_from([1, -1]))
    words = to_ring(np.full((n_sites, 1), signs * bound))
    assert from_ring(words.sum(axis=0, dtype=np.uint64))[0] == signs * bound * n_sites


@pytest.mark.parametrize(("bound", "n_sites"), [(-1, 3), (1.0, 3), (True, 3), (1, 0), (1, 2.0), (None, 3)])
def test_improper_ranges(bound: object, n_sites: object) -> None:
    with pytest.raises(InvalidParameter):
        check_range(bound, n_sites)


@given(st.lists(INT64, min_size=1, max_size=5), st.integers(1, 200))
def test_shares_add_to_the_total(total: list[int], n_sites: int) -> None:
    values = np.array(total, dtype=np.int64)
    parts = [zero_sum_share(values, n_sites, rank=rank) for rank in range(n_sites)]
    sums = [sum(int(part[k]) for part in parts) for k in range(values.size)]
    assert sums == total
    spread = [int(max(p[k] for p in parts)) - int(min(p[k] for p in parts)) for k in range(values.size)]
    assert max(spread) <= 1


@pytest.mark.parametrize("total", [0, 1, 9, 10, 11, -1, -9, -10, -11, -(2**63), 2**63 - 1])
def test_remaining_draws_add_to_zero(total: int) -> None:
    parts = [int(zero_sum_share(np.array([total]), 10, rank=rank)[0]) for rank in range(10)]
    assert total - sum(parts) == 0
    assert parts == [total // 10 + (rank < total % 10) for rank in range(10)]


def test_covariance_of_draw_less_mean() -> None:
    # tau^2 (I - 11'/S). Entries of the sample covariance of n draws have a standard error of at most
    # tau^2 sqrt(2/n); 6 of them leave a false alarm of 2e-9 each, below 1e-6 for the 25 entries.
    n_draws, n_sites, scale = 100_000, 5, 2.0**30
    draws = np.rint(np.random.default_rng(3).normal(0, scale, (n_sites, n_draws))).astype(np.int64)
    total = draws.sum(axis=0)
    rest = np.stack([draws[k] - zero_sum_share(total, n_sites, rank=k) for k in range(n_sites)])
    assert not rest.sum(axis=0).any()
    expected = np.eye(n_sites) - 1 / n_sites
    bound = 6 * np.sqrt(2 / n_draws)
    measured = np.cov(rest) / scale**2
    assert np.abs(measured - expected).max() < bound
    for factor in (0.9, 1.1):
        assert np.abs(factor**2 * measured - expected).max() > bound


@pytest.mark.parametrize(("n_sites", "rank"), [(0, 0), (3, 3), (3, -1), (3, 1.0), (3.0, 1), (3, True)])
def test_improper_shares(n_sites: object, rank: object) -> None:
    with pytest.raises(InvalidParameter):
        zero_sum_share(np.zeros(2, dtype=np.int64), n_sites, rank=rank)


@pytest.mark.parametrize("convert", [to_ring, from_ring, lambda v: zero_sum_share(v, 3, rank=0)])
def test_wrong_arrays(convert: object) -> None:
    for wrong in (
        np.zeros(3), np.zeros(3, dtype=np.float32), np.zeros(3, dtype=np.int32), np.zeros(3, dtype=object),
        np.zeros(3, dtype=">i8"), np.zeros(3, dtype=">u8"), [1, 2], None, 3, np.ma.masked_array([1, 2]),
        np.array([np.nan]), np.array([-0.0]),
    ):  # fmt: skip
        with pytest.raises(InvalidParameter, match="must"):
            convert(wrong)
    with pytest.raises(InvalidParameter, match="dtype uint64"):
        from_ring(np.zeros(3, dtype=np.int64))
    with pytest.raises(InvalidParameter, match="dtype int64"):
        to_ring(np.zeros(3, dtype=np.uint64))
