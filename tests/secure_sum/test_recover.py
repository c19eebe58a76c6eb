"""RECOVER with honest parties: a site may be lost at every stage.

Checklist
---------
* before hello (a new session of the others), after hello, after the offer, before M1, after M1 before M2
* after M2 before M3, during M3, several stages at once
* exactly t survive; the lowest and the highest name; everyone
* drop and return in the next round; late M1 is discarded
* half a message: see test_fuzz.py
"""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcape.core.errors import ProtocolError, SiteLost
from dpcape.core.secure_sum.aggregate import RecoverRound
from dpcape.core.secure_sum.aggregator_epoch import AggregatorEpoch
from dpcape.core.secure_sum.messages import Offer, Opening, SeedShares

from .consortium import Consortium, Vectors, added


def run(sites: Consortium, epoch: AggregatorEpoch, round: int, vectors: Vectors) -> RecoverRound:
    aggregator = RecoverRound(epoch, round=round)
    sites.send(aggregator, round=round, summed=vectors)
    sites.settle(aggregator, round=round)
    sites.open(aggregator, round=round)
    return aggregator


def without(vectors: Vectors, *lost: str) -> Vectors:
    return {name: vector for name, vector in vectors.items() if name not in lost}


def test_lost_before_hello_the_others_begin_a_new_session() -> None:
    sites = Consortium(4)
    with pytest.raises(ProtocolError, match="exactly one hello from each"):
        sites.sites[sites.names[0]].begin(sites.hellos[:3])
    smaller = Consortium(3).begin()
    vectors = smaller.draws()
    aggregator = run(smaller, smaller.epoch(), 0, vectors)
    np.testing.assert_array_equal(aggregator.total(), added(vectors, smaller.names))


@pytest.mark.parametrize("position", [0, 2, 4])
def test_lost_after_hello_or_offer(position: int) -> None:
    sites = Consortium(5).begin()
    lost = sites.names[position]
    vectors = sites.draws()
    epoch = sites.epoch(absent=(lost,))
    aggregator = run(sites, epoch, 0, without(vectors, lost))
    assert lost not in epoch.roster
    np.testing.assert_array_equal(aggregator.total(), added(vectors, epoch.roster))


@pytest.mark.parametrize("position", [0, 2, 4])
def test_lost_before_m1_returns_in_the_next_round(position: int) -> None:
    sites = Consortium(5).begin()
    epoch, vectors = sites.epoch(), sites.draws()
    lost = sites.names[position]
    aggregator = run(sites, epoch, 0, without(vectors, lost))
    np.testing.assert_array_equal(aggregator.total(), added(vectors, aggregator.survivors))
    assert aggregator.dropped == (lost,)
    again = sites.draws()
    np.testing.assert_array_equal(run(sites, epoch, 1, again).total(), added(again, sites.names))


@pytest.mark.parametrize("position", [0, 2, 4])
def test_lost_between_signing_and_opening(position: int) -> None:
    sites = Consortium(5, threshold=4).begin()
    aggregator, vectors = RecoverRound(sites.epoch(), round=0), sites.draws()
    sites.send(aggregator, round=0, summed=vectors, covered=vectors)
    sites.settle(aggregator, round=0)
    sites.open(aggregator, round=0, silent=(sites.names[position],))
    np.testing.assert_array_equal(aggregator.total(), added(vectors, sites.names))
    np.testing.assert_array_equal(aggregator.releases()[sites.names[position]], vectors[sites.names[position]])


def test_lost_at_several_stages_at_once() -> None:
    sites = Consortium(9, threshold=5).begin()
    names, vectors = sites.names, sites.draws()
    epoch = sites.epoch(absent=names[:1])
    aggregator = RecoverRound(epoch, round=2)
    sites.send(aggregator, round=2, summed=without(vectors, names[0], names[4]))
    sites.settle(aggregator, round=2, silent=(names[8],))
    sites.open(aggregator, round=2, silent=(names[2], names[8]))
    np.testing.assert_array_equal(aggregator.total(), added(vectors, aggregator.survivors))
    assert len(aggregator.survivors) == 7


def test_exactly_threshold_survive_and_one_more_loss_ends_the_run() -> None:
    sites = Consortium(7, threshold=5).begin()
    epoch, vectors = sites.epoch(), sites.draws()
    aggregator = run(sites, epoch, 0, without(vectors, *sites.names[:2]))
    np.testing.assert_array_equal(aggregator.total(), added(vectors, sites.names[2:]))
    aggregator = RecoverRound(epoch, round=1)
    sites.send(aggregator, round=1, summed=without(vectors, *sites.names[:2]))
    sites.settle(aggregator, round=1)
    sites.open(aggregator, round=1, silent=sites.names[2:3])
    with pytest.raises(SiteLost, match="of 5 required sites sent a share"):
        aggregator.total()


def test_everyone_lost() -> None:
    sites = Consortium(4).begin()
    with pytest.raises(SiteLost, match="only 0 of"):
        RecoverRound(sites.epoch(), round=0).settle()


def test_too_few_signatures_end_the_run() -> None:
    sites = Consortium(4, threshold=3, n_colluding=1).begin()
    aggregator = RecoverRound(sites.epoch(), round=0)
    sites.send(aggregator, round=0, summed=sites.draws())
    sites.settle(aggregator, round=0, silent=sites.names[:2])
    with pytest.raises(SiteLost, match="only 2 of 3 required survivors signed"):
        aggregator.quorum()


def test_a_late_vector_is_discarded() -> None:
    sites = Consortium(4).begin()
    aggregator, vectors = RecoverRound(sites.epoch(), round=0), sites.draws()
    late = sites.names[1]
    sites.send(aggregator, round=0, summed=without(vectors, late))
    sites.settle(aggregator, round=0)
    masked = sites.sites[late].recover_mask(round=0, vector=vectors[late])
    with pytest.raises(ProtocolError, match=rf"site {late} .*settled"):
        aggregator.add_masked(late, masked)
    sites.open(aggregator, round=0)
    np.testing.assert_array_equal(aggregator.total(), added(vectors, aggregator.survivors))


def test_a_second_epoch_replaces_the_first() -> None:
    sites = Consortium(4).begin()
    first, second = sites.epoch(0, n_rounds=1), sites.epoch(1, n_rounds=2)
    vectors = sites.draws()
    aggregator = run(sites, second, 1, vectors)
    np.testing.assert_array_equal(aggregator.total(), added(vectors, sites.names))
    assert first.digest != second.digest


def test_messages_survive_messagepack() -> None:
    sites = Consortium(4).begin()
    for kind, message in [
        (Offer, sites.sites[sites.names[0]].offer(epoch=0, n_rounds=2)),
        (
            Opening,
            Opening(sender="a", epoch=0, round=1, sum_seed=b"s", cover_seed=b"", key_shares={"b": b"k"}),
        ),
        (SeedShares, SeedShares(sender="a", epoch=0, round=1, sum_shares={"b": b"k"}, cover_shares={})),
    ]:
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=kind) == message
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(
            {"sender": "a", "nonce": b"", "key": b"", "signature": b"", "extra": 1},
            type=type(sites.hellos[0]),
        )


@settings(max_examples=15, deadline=None, derandomize=True)
@given(data=st.data())
def test_any_allowed_losses_give_the_exact_sum(data: st.DataObject) -> None:
    n_sites = data.draw(st.integers(3, 9))
    n_colluding = data.draw(st.integers(0, (n_sites - 1) // 3))
    sites = Consortium(n_sites, n_colluding=n_colluding).begin()
    spare = n_sites - sites.config.floor
    order = data.draw(st.permutations(sites.names))
    n_dropped = data.draw(st.integers(0, spare))
    n_lost = data.draw(st.integers(0, max(0, min(spare - n_dropped, n_sites - n_dropped - sites.config.threshold))))
    dropped, lost = order[:n_dropped], tuple(order[n_dropped : n_dropped + n_lost])
    vectors, releases = sites.draws(3), sites.draws(4)
    aggregator = RecoverRound(sites.epoch(n_rounds=1), round=0)
    sites.send(aggregator, round=0, summed=without(vectors, *dropped), covered=without(releases, *dropped))
    survivors = sites.settle(aggregator, round=0, context=b"agreed")
    sites.open(aggregator, round=0, silent=lost)
    np.testing.assert_array_equal(aggregator.total(), added(vectors, survivors))
    assert set(survivors) == set(sites.names) - set(dropped)
    for name, release in aggregator.releases().items():
        np.testing.assert_array_equal(release, releases[name])
