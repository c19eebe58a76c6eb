"""Shares: never both kinds for one peer, and wrong ones are found.

Checklist
---------
* Aggregator asks for both seed and key share of one site, in one request and in two.
* Tampered share at opening, with the liar named; a dealer whose shares do not fit what it signed.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dpcape.core.errors import ProtocolError
from dpcape.core.secure_sum import shamir
from dpcape.core.secure_sum.aggregate import RecoverRound
from dpcape.core.secure_sum.aggregator_epoch import AggregatorEpoch
from dpcape.core.secure_sum.messages import Opening

from .consortium import Consortium, added, change, flipped


class TestBothKindsOfShare:
    def settled(self, sites: Consortium) -> RecoverRound:
        aggregator, vectors = RecoverRound(sites.epoch(), round=0), sites.draws()
        sites.send(aggregator, round=0, summed={name: vectors[name] for name in sites.names[:3]})
        sites.settle(aggregator, round=0)
        return aggregator

    def test_seed_shares_of_a_dropped_site(self, sites: Consortium) -> None:
        aggregator = self.settled(sites)
        sites.open(aggregator, round=0)
        with pytest.raises(ProtocolError, match="Seed shares were refused"):
            sites.sites["site000"].open_missing(round=0, missing=["site003"])

    def test_own_seed_shares(self, sites: Consortium) -> None:
        aggregator = self.settled(sites)
        sites.open(aggregator, round=0)
        with pytest.raises(ProtocolError, match="Seed shares were refused"):
            sites.sites["site000"].open_missing(round=0, missing=["site000"])

    @pytest.mark.parametrize("missing", ["site001", [1], None])
    def test_improper_requests(self, sites: Consortium, missing: object) -> None:
        aggregator = self.settled(sites)
        sites.open(aggregator, round=0)
        with pytest.raises(ProtocolError, match="missing must be a list"):
            sites.sites["site000"].open_missing(round=0, missing=missing)

    def test_the_other_kind_is_overwritten_when_a_round_is_opened(self, sites: Consortium) -> None:
        aggregator = self.settled(sites)
        sites.open(aggregator, round=0)
        epoch = sites.sites["site000"]._recover._epoch
        blank = bytes(shamir.SHARE_BYTES)
        for peer in ("site001", "site002"):
            assert epoch.share(peer, 0, 2) == blank, "key share of a survivor"
            assert epoch.share(peer, 0, 1) == blank, "cover share in a round without covers"
            assert epoch.share(peer, 0, 0) != blank, "seed share of a survivor stays for open_missing"
        assert all(epoch.share("site003", 0, kind) == blank for kind in range(3))
        assert all(epoch.secret(0, kind) == bytes(32) for kind in range(3))
        assert epoch.secret(1, 0) != bytes(32), "the next round is untouched"

    def test_everything_is_overwritten_when_a_round_is_spoiled(self, sites: Consortium) -> None:
        self.settled(sites)
        site = sites.sites["site000"]
        with pytest.raises(ProtocolError):
            site.open(round=0, survivors=sites.names, signatures={})
        epoch = site._recover._epoch
        assert all(epoch.secret(0, kind) == bytes(32) for kind in range(3))
        assert all(epoch.share(p, 0, k) == bytes(33) for p in sites.names[1:] for k in range(3))

    def test_no_key_shares_in_a_round_without_summed_vectors(self, sites: Consortium) -> None:
        aggregator, vectors = RecoverRound(sites.epoch(), round=0), sites.draws()
        sites.send(aggregator, round=0, covered={name: vectors[name] for name in sites.names[:3]})
        survivors = sites.settle(aggregator, round=0)
        opening = sites.sites["site000"].open(round=0, survivors=survivors, signatures=aggregator.quorum())
        assert opening.key_shares == {}
        assert opening.sum_seed == b""
        assert opening.cover_seed != b""


class TestWrongShares:
    def lossy(self, n_sites: int = 7, *, threshold: int = 4) -> tuple[Consortium, RecoverRound, dict]:
        """A round with one dropped site, signed; and the vectors."""
        sites = Consortium(n_sites, threshold=threshold).begin()
        aggregator, vectors = RecoverRound(sites.epoch(), round=0), sites.draws()
        sites.send(aggregator, round=0, summed={n: vectors[n] for n in sites.names[:-1]})
        sites.settle(aggregator, round=0)
        return sites, aggregator, vectors

    def openings(self, sites: Consortium, aggregator: RecoverRound) -> dict[str, Opening]:
        quorum, survivors = aggregator.quorum(), aggregator.survivors
        return {n: sites.sites[n].open(round=0, survivors=survivors, signatures=quorum) for n in survivors}

    @pytest.mark.parametrize("liars", [(0,), (3,), (1, 2)])
    @pytest.mark.parametrize("lie", [bytes(33), b"short", b"\xff" * 33, None])
    def test_liars_are_named_and_worked_around(self, liars: tuple[int, ...], lie: object) -> None:
        sites, aggregator, vectors = self.lossy()
        lost = sites.names[-1]
        names = [sites.names[k] for k in liars]
        for name, opening in self.openings(sites, aggregator).items():
            key_shares = {lost: lie} if name in names else opening.key_shares
            aggregator.add_opening(change(opening, key_shares=key_shares))
        np.testing.assert_array_equal(aggregator.total(), added(vectors, aggregator.survivors))
        assert len(aggregator.complaints) == len(names)
        for name, complaint in zip(names, aggregator.complaints, strict=True):
            assert f"of site {lost} sent by site {name} is wrong" in complaint

    def test_too_many_liars_are_detected(self) -> None:
        sites, aggregator, _ = self.lossy()
        lost = sites.names[-1]
        for k, (_, opening) in enumerate(self.openings(sites, aggregator).items()):
            key_shares = {lost: bytes([0] * 32 + [k])} if k < 3 else opening.key_shares
            aggregator.add_opening(change(opening, key_shares=key_shares))
        with pytest.raises(ProtocolError, match=f"shares of site {lost} rebuild the secret"):
            aggregator.total()

    def test_no_spare_share_no_attribution_but_detection(self) -> None:
        sites, aggregator, _ = self.lossy(5, threshold=4)
        lost = sites.names[-1]
        for k, (_, opening) in enumerate(self.openings(sites, aggregator).items()):
            key_shares = {lost: bytes(33)} if k == 0 else opening.key_shares
            aggregator.add_opening(change(opening, key_shares=key_shares))
        with pytest.raises(ProtocolError, match="rebuild the secret"):
            aggregator.total()

    def test_a_dealer_whose_shares_do_not_fit_its_key(self, monkeypatch: pytest.MonkeyPatch) -> None:
        sites = Consortium(5, threshold=3).begin()
        dealer, *others = sites.names
        honest = shamir.split
        monkeypatch.setattr(shamir, "split", lambda secret, **numbers: honest(flipped(secret, 5), **numbers))
        offers = [sites.sites[dealer].offer(epoch=0, n_rounds=1)]
        monkeypatch.undo()
        offers += [sites.sites[name].offer(epoch=0, n_rounds=1) for name in others]
        for site in sites.sites.values():
            site.accept(offers)
        epoch = AggregatorEpoch(sites.config, hellos=sites.hellos, offers=offers, pinned=sites.pinned)
        aggregator = RecoverRound(epoch, round=0)
        sites.send(aggregator, round=0, summed={name: sites.draw() for name in others})
        sites.settle(aggregator, round=0)
        sites.open(aggregator, round=0)
        with pytest.raises(ProtocolError, match=f"shares of site {dealer} rebuild the secret"):
            aggregator.total()

    def test_wrong_seed_share_of_a_lost_survivor(self) -> None:
        sites = Consortium(6, threshold=4).begin()
        aggregator, vectors = RecoverRound(sites.epoch(), round=0), sites.draws()
        sites.send(aggregator, round=0, covered=vectors)
        sites.settle(aggregator, round=0)
        lost, liar = sites.names[0], sites.names[2]
        for name in sites.names[1:]:
            site = sites.sites[name]
            aggregator.add_opening(site.open(round=0, survivors=sites.names, signatures=aggregator.quorum()))
            shares = site.open_missing(round=0, missing=[lost])
            if name == liar:
                shares = change(shares, cover_shares={lost: bytes(33)})
            aggregator.add_shares(shares)
        np.testing.assert_array_equal(aggregator.releases()[lost], vectors[lost])
        assert len(aggregator.complaints) == 1
        assert f"sent by site {liar}" in aggregator.complaints[0]


@pytest.mark.parametrize("threshold", [3, 4, 5])
def test_it_takes_threshold_holders_to_rebuild_a_secret_and_no_fewer(threshold: int) -> None:
    """One holder less must not be enough: the aggregator may pool the shares of `n_colluding` sites."""
    sites = Consortium(5, threshold=threshold).begin()
    graph = sites.epoch(n_rounds=2).graph
    epochs = {name: session._recover._epoch for name, session in sites.sites.items()}
    dealer, *holders = sites.names
    for round, kind in itertools.product(range(2), range(3)):
        secret = epochs[dealer].secret(round, kind)
        shares = {graph.index(dealer, name): epochs[name].share(dealer, round, kind) for name in holders}
        for count in range(1, len(shares) + 1):
            for chosen in itertools.combinations(shares.items(), count):
                assert (rebuilt(dict(chosen)) == secret) == (count >= threshold)


def rebuilt(shares: dict[int, bytes]) -> bytes | None:
    try:
        return shamir.combine(shares)
    except ProtocolError:
        return None
