"""RETRY: one masked vector, one attempt.

Checklist
---------
* exact sums; S = 3; a lost site means a new attempt with a smaller roster
* same (round, attempt) twice; decreasing numbers; 0 and 2^63; no second chance after a refusal
* roster below the floor, with a stranger, with a duplicate, without the addressee
* no reuse of the draw of a failed attempt
* wrong dtype, shape, length, byte order; sender outside the roster; missing sender
* up to S - 2 colluding sites learn nothing but the sum of the others
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcape.core.errors import InvalidParameter, ProtocolError, SiteLost
from dpcape.core.secure_sum.keystream import masked
from dpcape.core.secure_sum.masking import retry_sum
from dpcape.core.secure_sum.transcript import digest

from .consortium import Consortium, added


@settings(max_examples=20, deadline=None, derandomize=True)
@given(n_sites=st.integers(3, 8), size=st.integers(1, 50), round=st.integers(0, 2**63 - 1))
def test_exact_sum(n_sites: int, size: int, round: int) -> None:
    sites = Consortium(n_sites).begin()
    vectors = sites.draws(size)
    np.testing.assert_array_equal(sites.retry(vectors, round=round), added(vectors, sites.names))


@pytest.mark.parametrize("size", [1, 32_767, 32_768, 32_769, 100_000])
def test_exact_sum_around_the_piece_length(size: int) -> None:
    sites = Consortium(3).begin()
    vectors = sites.draws(size)
    np.testing.assert_array_equal(sites.retry(vectors), added(vectors, sites.names))


@pytest.mark.parametrize("position", [0, 2, 4])
def test_a_lost_site_means_a_smaller_roster(position: int) -> None:
    sites = Consortium(5).begin()
    lost = sites.names[position]
    roster = sites.names
    sent = {
        name: sites.sites[name].retry_mask(round=0, attempt=0, roster=roster, vector=sites.draw())
        for name in roster
        if name != lost
    }
    with pytest.raises(SiteLost, match=f"{lost} sent no vector"):
        retry_sum(roster, sent)
    vectors = {name: sites.draw() for name in roster if name != lost}
    np.testing.assert_array_equal(sites.retry(vectors, attempt=1), added(vectors, sorted(vectors)))


class TestNumbers:
    def mask(self, sites: Consortium, round: object, attempt: object) -> None:
        site = sites.sites["site000"]
        site.retry_mask(round=round, attempt=attempt, roster=sites.names, vector=sites.draw())

    @pytest.mark.parametrize("repeated", [(3, 2), (3, 1), (2, 9), (0, 0)])
    def test_they_only_grow(self, sites: Consortium, repeated: tuple[int, int]) -> None:
        self.mask(sites, 3, 2)
        with pytest.raises(ProtocolError, match="must increase"):
            self.mask(sites, *repeated)

    def test_growing_ones(self, sites: Consortium) -> None:
        for numbers in ((0, 0), (0, 1), (1, 0), (7, 3), (2**63 - 1, 2**63 - 1)):
            self.mask(sites, *numbers)

    @pytest.mark.parametrize("number", [-1, 2**63, 1.0, True, None, "1"])
    def test_improper_ones(self, sites: Consortium, number: object) -> None:
        with pytest.raises(ProtocolError, match="round must be an integer"):
            self.mask(sites, number, 0)
        with pytest.raises(ProtocolError, match="attempt must be an integer"):
            self.mask(sites, 0, number)

    def test_a_refusal_ends_the_round(self, sites: Consortium) -> None:
        site = sites.sites["site000"]
        with pytest.raises(SiteLost):
            site.retry_mask(round=0, attempt=0, roster=sites.names[:2], vector=sites.draw())
        with pytest.raises(ProtocolError, match="must increase"):
            self.mask(sites, 0, 1)
        self.mask(sites, 1, 0)

    def test_an_old_request_does_not_end_the_current_round(self, sites: Consortium) -> None:
        self.mask(sites, 5, 0)
        with pytest.raises(ProtocolError):
            self.mask(sites, 4, 0)
        self.mask(sites, 5, 1)


@pytest.mark.parametrize(
    ("roster", "reason"),
    [
        (("site000", "site001"), "only 2 of at least 3"),
        (("site000", "site001", "stranger"), "only agreed sites"),
        (("site000", "site001", "site001"), "each site once"),
        (("site001", "site002", "site003"), "must name the site it is sent to"),
        ("site000", "list of site names"),
        (None, "list of site names"),
        ((1, 2, 3), "list of site names"),
    ],
)
def test_improper_rosters(sites: Consortium, roster: object, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        sites.sites["site000"].retry_mask(round=0, attempt=0, roster=roster, vector=sites.draw())


def test_the_threshold_is_a_floor() -> None:
    sites = Consortium(7, threshold=6).begin()
    with pytest.raises(SiteLost, match="only 5 of at least 6"):
        sites.sites["site000"].retry_mask(round=0, attempt=0, roster=sites.names[:5], vector=sites.draw())


def test_the_draw_of_a_failed_attempt_is_refused(sites: Consortium) -> None:
    site, vector = sites.sites["site000"], sites.draw(10_000)
    site.retry_mask(round=0, attempt=0, roster=sites.names, vector=vector)
    with pytest.raises(ProtocolError, match="fresh draw"):
        site.retry_mask(round=0, attempt=1, roster=sites.names[:3], vector=vector.copy())


def test_wrong_vectors_are_refused_and_use_nothing_up(sites: Consortium) -> None:
    site = sites.sites["site000"]
    for vector in (
        sites.draw().astype(np.float32), sites.draw().astype(np.int64), sites.draw().astype(object),
        sites.draw().astype(">u8"), sites.draw(4).reshape(2, 2), sites.draw()[:0], [1, 2], None,
    ):  # fmt: skip
        with pytest.raises(InvalidParameter, match="vector must"):
            site.retry_mask(round=0, attempt=0, roster=sites.names, vector=vector)
    site.retry_mask(round=0, attempt=0, roster=sites.names, vector=sites.draw())


def test_the_aggregator_refuses_wrong_vectors(sites: Consortium) -> None:
    good = sites.draws()
    for wrong, reason in (
        (sites.draw().astype(np.int64), "dtype uint64"),
        (sites.draw().astype(">u8"), "byte order"),
        (sites.draw(4), "All vectors must have"),
        (sites.draw(6), "All vectors must have"),
        (sites.draw()[:0], "not empty"),
        (sites.draw(4).reshape(2, 2), "one-dimensional"),
        ([1, 2, 3, 4, 5], "plain NumPy array"),
    ):
        with pytest.raises(ProtocolError, match=reason):
            retry_sum(sites.names, {**good, "site003": wrong})
    with pytest.raises(ProtocolError, match="not in the roster"):
        retry_sum(sites.names, {**good, "stranger": sites.draw()})
    with pytest.raises(ProtocolError, match="must not be empty"):
        retry_sum((), {})


def test_all_but_two_sites_colluding_learn_the_sum_of_the_two_only() -> None:
    sites = Consortium(5, threshold=5, n_colluding=3).begin()
    one, other, *colluders = sites.names
    vectors = sites.draws(50)
    sent = {
        name: sites.sites[name].retry_mask(round=0, attempt=0, roster=sites.names, vector=vectors[name])
        for name in sites.names
    }
    context = digest("retry", sites.sites[one].session_id, 0, 0, 50, *sites.names)
    stripped = {}
    for name in (one, other):
        keys = {peer: sites.sites[peer]._retry._links.key(name, context) for peer in colluders}
        plus = [key for peer, key in keys.items() if peer < name]
        minus = [key for peer, key in keys.items() if peer > name]
        stripped[name] = masked(sent[name], plus=plus, minus=minus)
        assert not np.any(stripped[name] == vectors[name])
    np.testing.assert_array_equal(added(stripped, [one, other]), added(vectors, [one, other]))
    # With the last peer's help the same computation does give the value: the attack itself works.
    key = sites.sites[other]._retry._links.key(one, context)
    np.testing.assert_array_equal(masked(stripped[one], minus=[key]), vectors[one])


def test_the_mask_depends_on_session_round_attempt_roster_and_length(sites: Consortium) -> None:
    zero = np.zeros(5, dtype=np.uint64)
    again = Consortium(4, threshold=3, n_colluding=1).begin()
    masks = [
        sites.sites["site000"].retry_mask(round=0, attempt=0, roster=sites.names, vector=zero),
        sites.sites["site000"].retry_mask(round=1, attempt=0, roster=sites.names, vector=zero),
        sites.sites["site000"].retry_mask(round=1, attempt=1, roster=sites.names, vector=zero + np.uint64(1)),
        sites.sites["site000"].retry_mask(round=2, attempt=0, roster=sites.names[:3], vector=zero),
        again.sites["site000"].retry_mask(round=0, attempt=0, roster=sites.names, vector=zero),
    ]
    short = sites.sites["site000"].retry_mask(round=3, attempt=0, roster=sites.names, vector=zero[:4])
    assert len({mask[:4].tobytes() for mask in [*masks, short]}) == 6
