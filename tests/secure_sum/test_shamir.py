"""Shamir's sharing.

Checklist
---------
* all-zero and all-ones secrets; t shares rebuild, t - 1 do not; duplicated index, index 0, value >= p; mixed
  sharings
* t - 1 shares are independent of the secret: exactly (every secret fits) and statistically (with teeth)
"""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcape.core.errors import ProtocolError
from dpcape.core.secure_sum import shamir

ALPHA = 1e-6


def chosen(shares: list[bytes], indices: tuple[int, ...]) -> dict[int, bytes]:
    return {index: shares[index - 1] for index in indices}


def rebuilds(shares: dict[int, bytes], secret: bytes) -> bool:
    """Whether the shares rebuild the secret; a wrong value may also lie beyond 2^256 and be refused."""
    try:
        return shamir.combine(shares) == secret
    except ProtocolError:
        return False


def test_the_modulus_is_the_least_prime_above_2_256() -> None:
    def probably_prime(n: int) -> bool:
        odd, twos = n - 1, 0
        while odd % 2 == 0:
            odd, twos = odd // 2, twos + 1
        for base in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37):
            x = pow(base, odd, n)
            if x not in (1, n - 1) and not any((x := x * x % n) == n - 1 for _ in range(twos - 1)):
                return False
        return True

    assert probably_prime(shamir.PRIME)
    assert not any(probably_prime(n) for n in range(2**256, shamir.PRIME))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(secret=st.binary(min_size=32, max_size=32), n_shares=st.integers(2, 12), data=st.data())
def test_any_threshold_shares_rebuild(secret: bytes, n_shares: int, data: st.DataObject) -> None:
    threshold = data.draw(st.integers(2, n_shares))
    shares = shamir.split(secret, threshold=threshold, n_shares=n_shares)
    indices = data.draw(st.permutations(range(1, n_shares + 1)))[:threshold]
    assert shamir.combine(chosen(shares, tuple(indices))) == secret


@pytest.mark.parametrize("secret", [bytes(32), b"\xff" * 32, b"\x00" * 31 + b"\x01"])
def test_extreme_secrets(secret: bytes) -> None:
    shares = shamir.split(secret, threshold=3, n_shares=5)
    for indices in itertools.combinations(range(1, 6), 3):
        assert shamir.combine(chosen(shares, indices)) == secret


def test_one_share_fewer_does_not_rebuild() -> None:
    secret = bytes(range(32))
    shares = shamir.split(secret, threshold=4, n_shares=6)
    for indices in itertools.combinations(range(1, 7), 3):
        assert not rebuilds(chosen(shares, indices), secret)


def test_threshold_less_one_shares_fit_every_secret() -> None:
    """One polynomial passes through any secret and t - 1 shares, so they say nothing about it."""
    shares = shamir.split(bytes(32), threshold=4, n_shares=6)
    known = {index: shamir.decode(shares[index - 1]) for index in (2, 3, 5)}
    for secret in (0, 1, 2**255, 2**256 - 1):
        points = {0: secret, **known}

        def value(at: int, points: dict[int, int] = points) -> int:
            total = 0
            for i, y in points.items():
                top, bottom = 1, 1
                for j in points:
                    if j != i:
                        top, bottom = top * (at - j), bottom * (i - j)
                total += y * top * pow(bottom, -1, shamir.PRIME)
            return total % shamir.PRIME

        others = {index: value(index).to_bytes(33, "big") for index in (1, 4, 6)}
        fitting = {1: others[1], **chosen(shares, (2, 3, 5))}
        assert shamir.combine(fitting) == secret.to_bytes(32, "big")
        assert shamir.consistent(fitting, index=4, share=others[4])


def first_bytes(secret: bytes, n_draws: int, *, index: int) -> np.ndarray:
    """Histogram of the leading byte below 2^256 of one share of fresh sharings: share 1 is drawn, share 2 computed."""
    drawn = [shamir.split(secret, threshold=2, n_shares=2)[index - 1][1] for _ in range(n_draws)]
    return np.bincount(drawn, minlength=256)


@pytest.mark.parametrize("index", [1, 2])
def test_a_single_share_has_the_same_distribution_for_all_secrets(index: int, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = random.Random(7)
    monkeypatch.setattr("os.urandom", generator.randbytes)
    for secret in (bytes(32), b"\xff" * 32):
        assert scipy.stats.chisquare(first_bytes(secret, 20_000, index=index)).pvalue > ALPHA
    # Teeth: draws of 248 bits leave the secret's leading byte visible.
    monkeypatch.setattr("os.urandom", lambda n: bytes(n - 31) + generator.randbytes(31))
    assert scipy.stats.chisquare(first_bytes(bytes(32), 20_000, index=index)).pvalue < ALPHA


def test_shares_are_the_values_of_one_polynomial_of_the_right_degree() -> None:
    """All shares lie on the polynomial of any `threshold` of them, for every threshold up to the number of shares."""
    for n_shares, threshold in ((7, 1), (7, 2), (7, 4), (7, 7), (40, 13)):
        shares = shamir.split(bytes(range(32)), threshold=threshold, n_shares=n_shares)
        first = chosen(shares, tuple(range(1, threshold + 1)))
        assert shamir.combine(first) == bytes(range(32))
        for index in range(threshold + 1, n_shares + 1):
            assert shamir.consistent(first, index=index, share=shares[index - 1])


def test_draws_are_fresh_for_every_secret() -> None:
    secret = bytes(32)
    seen = {shamir.split(secret, threshold=3, n_shares=3)[0] for _ in range(100)}
    assert len(seen) == 100


def test_mixed_sharings_give_another_secret() -> None:
    secret = bytes(range(32))
    one, two = (shamir.split(secret, threshold=3, n_shares=5) for _ in range(2))
    mixed = {1: one[0], 2: one[1], 3: two[2]}
    assert not rebuilds(mixed, secret)
    assert not shamir.consistent(chosen(one, (1, 2, 3)), index=4, share=two[3])
    assert shamir.consistent(chosen(one, (1, 2, 3)), index=4, share=one[3])


@pytest.mark.parametrize("index", [0, -1])
def test_improper_indices(index: int) -> None:
    shares = shamir.split(bytes(32), threshold=2, n_shares=3)
    with pytest.raises(ProtocolError, match="indices must be distinct and positive"):
        shamir.combine({index: shares[0], 2: shares[1]})


def test_duplicated_index() -> None:
    with pytest.raises(ProtocolError, match="distinct"):
        shamir._weights((1, 1), 0)


@pytest.mark.parametrize("share", [b"", bytes(32), bytes(34), None, "text", b"\xff" * 33])
def test_malformed_shares(share: object) -> None:
    with pytest.raises(ProtocolError, match="A share must be"):
        shamir.decode(share)
    assert shamir.decode((shamir.PRIME - 1).to_bytes(33, "big")) == shamir.PRIME - 1
    with pytest.raises(ProtocolError, match="above the prime"):
        shamir.decode(shamir.PRIME.to_bytes(33, "big"))


def test_a_value_beyond_32_bytes_is_refused() -> None:
    shares = {k: (shamir.PRIME - 1).to_bytes(33, "big") for k in (1, 2)}
    with pytest.raises(ProtocolError, match="32-byte secret"):
        shamir.combine(shares)
