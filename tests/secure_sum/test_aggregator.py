"""What the aggregator refuses, and inputs at a site.

Checklist
---------
* Wrong seed against the commitment; wrong round, epoch, sender or kind; duplicated sender; sender outside
  the roster.
* Inputs: float32, int, object, big-endian, non-contiguous, read-only, 2-d, empty, D +- 1, masked arrays,
  lists; the aggregator gets a wrong dtype or length.
"""

from __future__ import annotations

import numpy as np
import pytest

from dpcape.core.errors import InvalidParameter, ProtocolError, SiteLost
from dpcape.core.secure_sum.aggregate import RecoverRound
from dpcape.core.secure_sum.aggregator_epoch import AggregatorEpoch
from dpcape.core.secure_sum.messages import Opening

from .consortium import Consortium, added, change, flipped


class TestAggregator:
    def opened(self, sites: Consortium, sent: RecoverRound, name: str) -> Opening:
        return sites.sites[name].open(round=0, survivors=sent.survivors, signatures=sent.quorum())

    def test_wrong_seed(self, sites: Consortium, sent: RecoverRound) -> None:
        sites.settle(sent, round=0)
        opening = self.opened(sites, sent, "site001")
        for seed in (flipped(opening.sum_seed), b"", None):
            with pytest.raises(ProtocolError, match=r"opening of site site001 .* commitment"):
                sent.add_opening(change(opening, sum_seed=seed))
        sent.add_opening(opening)
        with pytest.raises(ProtocolError, match="open once"):
            sent.add_opening(opening)

    def test_wrong_round_sender_kind(self, sites: Consortium, sent: RecoverRound) -> None:
        sites.settle(sent, round=0)
        opening = self.opened(sites, sent, "site001")
        for wrong, reason in (
            (change(opening, round=1), "must be for epoch"),
            (change(opening, epoch=1), "must be for epoch"),
            (change(opening, sender="stranger"), "not a survivor"),
            (change(opening, sender="site002"), "match the commitment"),
            (change(opening, key_shares={"site003": bytes(33)}), "share for each dropped site"),
            (sites.hellos[0], "must be Opening"),
        ):
            with pytest.raises(ProtocolError, match=reason):
                sent.add_opening(wrong)
        with pytest.raises(ProtocolError, match="must be SeedShares"):
            sent.add_shares(opening)

    def test_vectors(self, sites: Consortium) -> None:
        aggregator = RecoverRound(sites.epoch(), round=0)
        aggregator.add_masked("site000", sites.draw())
        for vector, reason in (
            (sites.draw().astype(np.float32), "dtype uint64"),
            (sites.draw().astype(np.int64), "dtype uint64"),
            (sites.draw().astype(object), "dtype uint64"),
            (sites.draw().astype(">u8"), "byte order"),
            (sites.draw()[:0], "not empty"),
            (sites.draw(4), "All vectors must have"),
            (sites.draw(6), "All vectors must have"),
            (sites.draw(4).reshape(2, 2), "one-dimensional"),
            ([1, 2, 3, 4, 5], "plain NumPy array"),
            (np.ma.masked_array(sites.draw()), "plain NumPy array"),
        ):
            with pytest.raises(ProtocolError, match=reason):
                aggregator.add_masked("site001", vector)
        with pytest.raises(ProtocolError, match="a second from site site000"):
            aggregator.add_masked("site000", sites.draw())
        with pytest.raises(ProtocolError, match="not in the roster"):
            aggregator.add_masked("stranger", sites.draw())

    def test_signatures(self, sites: Consortium, sent: RecoverRound) -> None:
        with pytest.raises(ProtocolError, match="settled round"):
            sent.add_signature("site000", bytes(64))
        survivors = sites.settle(sent, round=0, silent=("site003",))
        with pytest.raises(ProtocolError, match="already settled"):
            sent.settle()
        with pytest.raises(ProtocolError, match="signature of site site003 was refused"):
            sent.add_signature("site003", sent.signatures["site000"])
        with pytest.raises(ProtocolError, match="sign once"):
            sent.add_signature("site000", sent.signatures["site000"])
        assert survivors == sites.names

    def test_results_before_their_time(self, sites: Consortium) -> None:
        epoch = sites.epoch()
        aggregator = RecoverRound(epoch, round=0)
        with pytest.raises(ProtocolError, match="no total yet"):
            aggregator.total()
        with pytest.raises(ProtocolError, match="no releases yet"):
            aggregator.releases()
        for round in (-1, 3):
            with pytest.raises(ProtocolError, match="round must be in"):
                RecoverRound(epoch, round=round)
        sites.send(aggregator, round=0, summed=sites.draws())
        sites.settle(aggregator, round=0)
        with pytest.raises(SiteLost, match="of 3 required sites sent a share"):
            aggregator.total()

    def test_a_site_that_accepted_other_offers(self) -> None:
        sites = Consortium(4).begin()
        offers = [site.offer(epoch=0, n_rounds=1) for site in sites.sites.values()]
        epoch = AggregatorEpoch(sites.config, hellos=sites.hellos, offers=offers, pinned=sites.pinned)
        accepted = {n: sites.sites[n].accept(offers) for n in ("site000", "site001")}
        accepted["site002"] = sites.sites["site002"].accept(offers[:3])
        epoch.confirm("site000", accepted["site000"])
        for site, signature in (
            ("site002", accepted["site002"]),
            ("site001", accepted["site000"]),
            ("site001", flipped(accepted["site001"])),
            ("site001", None),
            ("stranger", accepted["site000"]),
        ):
            with pytest.raises(ProtocolError, match=f"signature of site {site} was refused"):
                epoch.confirm(site, signature)

    def test_epoch_with_missing_identity(self, sites: Consortium) -> None:
        sites.epoch()
        pinned = {name: key for name, key in sites.pinned.items() if name != "site002"}
        with pytest.raises(ProtocolError, match="site002 missing"):
            AggregatorEpoch(sites.config, hellos=sites.hellos, offers=sites.offers, pinned=pinned)


class TestInputs:
    @pytest.mark.parametrize("mask", ["recover_mask", "self_mask"])
    def test_a_wrong_vector_is_refused_and_uses_nothing_up(self, sites: Consortium, mask: str) -> None:
        sites.epoch()
        call = getattr(sites.sites["site000"], mask)
        for vector in (
            sites.draw().astype(np.float32), sites.draw().astype(np.int64), sites.draw().astype(object),
            sites.draw().astype(">u8"), sites.draw(4).reshape(2, 2), sites.draw()[:0], [1, 2], None,
            np.uint64(5), np.array(5, dtype=np.uint64), np.ma.masked_array(sites.draw()),
        ):  # fmt: skip
            with pytest.raises(InvalidParameter, match="vector must"):
                call(round=0, vector=vector)
        call(round=0, vector=sites.draw())

    def test_strided_and_read_only_vectors_are_left_alone(self, sites: Consortium) -> None:
        aggregator = RecoverRound(sites.epoch(), round=0)
        wide = {name: sites.draw(10) for name in sites.names}
        vectors = {name: array[::2] for name, array in wide.items()}
        before = {name: array.copy() for name, array in wide.items()}
        for array in vectors.values():
            array.flags.writeable = False
        sites.send(aggregator, round=0, summed=vectors)
        sites.settle(aggregator, round=0)
        sites.open(aggregator, round=0)
        np.testing.assert_array_equal(aggregator.total(), added(vectors, sites.names))
        for name in sites.names:
            np.testing.assert_array_equal(wide[name], before[name])
