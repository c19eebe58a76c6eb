"""What a site refuses in a RECOVER round.

Checklist
---------
* Replay and order: opening before signing; second opening; vector after signing; round numbers outside the
  epoch, negative, 2^63; decreasing epochs; restart of a site in mid-round.
* Aggregator: two survivor sets; a set with a stranger, a duplicate, without the addressee, below the floor;
  t - 1 signatures; a forged one; an old one in a new round or epoch; a valid one for another set, context or
  kind of round.
"""

from __future__ import annotations

import pytest

from dpcape.core.errors import ProtocolError
from dpcape.core.secure_sum.aggregate import RecoverRound
from dpcape.core.secure_sum.messages import Opening

from .consortium import Consortium


class TestOrder:
    def test_a_round_needs_an_epoch(self, sites: Consortium) -> None:
        for call in (
            lambda site: site.recover_mask(round=0, vector=sites.draw()),
            lambda site: site.sign_survivors(round=0, survivors=sites.names),
            lambda site: site.open(round=0, survivors=sites.names, signatures={}),
            lambda site: site.open_missing(round=0, missing=[]),
        ):
            with pytest.raises(ProtocolError, match="no epoch was accepted"):
                call(sites.sites[sites.names[0]])

    @pytest.mark.parametrize("round", [3, -1, 2**63, 1.0, True, None, "0"])
    def test_round_numbers_outside_the_epoch(self, sites: Consortium, round: object) -> None:
        sites.epoch(n_rounds=3)
        with pytest.raises(ProtocolError, match="round must be"):
            sites.sites[sites.names[0]].recover_mask(round=round, vector=sites.draw())

    def test_one_vector_of_a_kind_per_round(self, sites: Consortium) -> None:
        sites.epoch()
        site = sites.sites[sites.names[0]]
        site.recover_mask(round=0, vector=sites.draw())
        with pytest.raises(ProtocolError, match="one summed vector"):
            site.recover_mask(round=0, vector=sites.draw())
        site.self_mask(round=1, vector=sites.draw())
        with pytest.raises(ProtocolError, match="one covered vector"):
            site.self_mask(round=1, vector=sites.draw())

    @pytest.mark.parametrize("mask", ["recover_mask", "self_mask"])
    def test_no_vector_after_signing(self, sites: Consortium, mask: str) -> None:
        sites.epoch()
        site = sites.sites[sites.names[0]]
        other = {"recover_mask": site.self_mask, "self_mask": site.recover_mask}[mask]
        other(round=0, vector=sites.draw())
        site.sign_survivors(round=0, survivors=sites.names)
        with pytest.raises(ProtocolError, match="before signing"):
            getattr(site, mask)(round=0, vector=sites.draw())

    def test_opening_before_signing(self, sites: Consortium, sent: RecoverRound) -> None:
        with pytest.raises(ProtocolError, match="has not signed a survivor set"):
            sites.sites[sites.names[0]].open(round=0, survivors=sites.names, signatures={})

    def test_opening_twice(self, sites: Consortium, sent: RecoverRound) -> None:
        sites.settle(sent, round=0)
        sites.open(sent, round=0)
        with pytest.raises(ProtocolError, match="opened once"):
            sites.sites[sites.names[0]].open(round=0, survivors=sites.names, signatures=sent.quorum())

    def test_seed_shares_before_opening(self, sites: Consortium, sent: RecoverRound) -> None:
        sites.settle(sent, round=0)
        with pytest.raises(ProtocolError, match="has not opened round"):
            sites.sites[sites.names[0]].open_missing(round=0, missing=sites.names[1:2])

    def test_signing_without_having_sent(self, sites: Consortium) -> None:
        sites.epoch()
        with pytest.raises(ProtocolError, match="sent no vector"):
            sites.sites[sites.names[0]].sign_survivors(round=0, survivors=sites.names)

    def test_epochs_grow_and_are_accepted_once(self, sites: Consortium) -> None:
        sites.epoch(5)
        site = sites.sites[sites.names[0]]
        for epoch in (5, 4, 0):
            with pytest.raises(ProtocolError, match="epoch must increase"):
                site.offer(epoch=epoch, n_rounds=1)
        with pytest.raises(ProtocolError, match="accepted once"):
            site.accept(sites.offers)

    @pytest.mark.parametrize("n_rounds", [0, -1, 100_001, 2**63, 1.0])
    def test_numbers_of_rounds(self, sites: Consortium, n_rounds: object) -> None:
        with pytest.raises(ProtocolError, match="n_rounds must be"):
            sites.sites[sites.names[0]].offer(epoch=0, n_rounds=n_rounds)

    def test_a_restarted_site_cannot_continue(self, sites: Consortium, sent: RecoverRound) -> None:
        name = sites.names[0]
        restarted = sites.session(name)
        with pytest.raises(ProtocolError, match="session has not begun"):
            restarted.recover_mask(round=0, vector=sites.draw())
        with pytest.raises(ProtocolError, match="own hello was changed"):
            restarted.begin(sites.hellos)

    def test_a_refusal_spoils_the_round_but_not_the_next(self, sites: Consortium, sent: RecoverRound) -> None:
        site = sites.sites[sites.names[0]]
        with pytest.raises(ProtocolError):
            site.open(round=0, survivors=sites.names, signatures={})
        for call in (
            lambda: site.sign_survivors(round=0, survivors=sites.names),
            lambda: site.self_mask(round=0, vector=sites.draw()),
            lambda: site.open_missing(round=0, missing=[]),
        ):
            with pytest.raises(ProtocolError, match="is unusable"):
                call()
        site.recover_mask(round=1, vector=sites.draw())


class TestSurvivorSets:
    def sign(self, sites: Consortium, survivors: object) -> bytes:
        return sites.sites[sites.names[0]].sign_survivors(round=0, survivors=survivors)

    def test_two_sets(self, sites: Consortium, sent: RecoverRound) -> None:
        self.sign(sites, sites.names)
        with pytest.raises(ProtocolError, match="one survivor set"):
            self.sign(sites, sites.names[:3])

    def test_the_same_set_twice(self, sites: Consortium, sent: RecoverRound) -> None:
        self.sign(sites, sites.names)
        with pytest.raises(ProtocolError, match="one survivor set"):
            self.sign(sites, sites.names)

    @pytest.mark.parametrize(
        ("survivors", "reason"),
        [
            (("site000", "site001", "stranger"), "only agreed sites"),
            (("site000", "site001", "site001", "site002"), "each site once"),
            (("site001", "site002", "site003"), "must name the site it is sent to"),
            (("site000", "site001"), "only 2 of at least 3"),
            ((), "only 0 of at least 3"),
            ("site000", "list of site names"),
            ((b"site000", "site001", "site002"), "list of site names"),
            (None, "list of site names"),
        ],
    )
    def test_improper_sets(self, sites: Consortium, sent: RecoverRound, survivors: object, reason: str) -> None:
        with pytest.raises(ProtocolError, match=reason):
            self.sign(sites, survivors)

    def test_a_site_outside_the_epoch_roster(self) -> None:
        sites = Consortium(5, threshold=3).begin()
        sites.epoch(absent=sites.names[4:])
        sites.sites[sites.names[0]].recover_mask(round=0, vector=sites.draw())
        with pytest.raises(ProtocolError, match="only agreed sites"):
            self.sign(sites, sites.names)

    def test_opening_another_set_than_the_signed_one(self, sites: Consortium, sent: RecoverRound) -> None:
        sites.settle(sent, round=0)
        with pytest.raises(ProtocolError, match="is not the signed one"):
            sites.sites[sites.names[0]].open(round=0, survivors=sites.names[:3], signatures=sent.quorum())

    def test_context_must_be_bytes(self, sites: Consortium, sent: RecoverRound) -> None:
        with pytest.raises(ProtocolError, match="context must be bytes"):
            sites.sites[sites.names[0]].sign_survivors(round=0, survivors=sites.names, context="x")


class TestSignatures:
    def open(self, sites: Consortium, sent: RecoverRound, signatures: object) -> Opening:
        return sites.sites[sites.names[0]].open(round=0, survivors=sent.survivors, signatures=signatures)

    def test_threshold_less_one(self, sites: Consortium, sent: RecoverRound) -> None:
        sites.settle(sent, round=0)
        with pytest.raises(ProtocolError, match="only 2 of 3 required sites signed"):
            self.open(sites, sent, {name: sent.signatures[name] for name in sites.names[:2]})

    def test_threshold_is_enough(self, sites: Consortium, sent: RecoverRound) -> None:
        sites.settle(sent, round=0)
        others = {name: sent.signatures[name] for name in sites.names[1:3]}
        assert self.open(sites, sent, others).sum_seed

    @pytest.mark.parametrize("forged", [b"", b"x", bytes(64), None, "text"])
    def test_forged(self, sites: Consortium, sent: RecoverRound, forged: object) -> None:
        sites.settle(sent, round=0)
        with pytest.raises(ProtocolError, match="site site003 has not signed the same set"):
            self.open(sites, sent, {**sent.signatures, "site003": forged})

    def test_one_site_under_two_names(self, sites: Consortium, sent: RecoverRound) -> None:
        sites.settle(sent, round=0)
        doubled = {**sent.signatures, "site002": sent.signatures["site001"]}
        with pytest.raises(ProtocolError, match="site site002 has not signed"):
            self.open(sites, sent, doubled)

    def test_of_somebody_outside_the_set(self, sites: Consortium) -> None:
        aggregator = RecoverRound(sites.epoch(), round=0)
        vectors = sites.draws()
        sites.send(aggregator, round=0, summed=vectors)
        survivors = sites.names[:3]
        signed = {n: sites.sites[n].sign_survivors(round=0, survivors=survivors) for n in survivors}
        signed["site003"] = sites.sites["site003"].sign_survivors(round=0, survivors=sites.names)
        with pytest.raises(ProtocolError, match="a signer is not a survivor"):
            sites.sites["site000"].open(round=0, survivors=survivors, signatures=signed)

    def test_valid_for_another_round(self, sites: Consortium) -> None:
        epoch = sites.epoch()
        old = RecoverRound(epoch, round=0)
        sites.send(old, round=0, summed=sites.draws())
        sites.settle(old, round=0)
        new = RecoverRound(epoch, round=1)
        sites.send(new, round=1, summed=sites.draws())
        sites.settle(new, round=1)
        with pytest.raises(ProtocolError, match="has not signed the same set"):
            sites.sites["site000"].open(round=1, survivors=sites.names, signatures=old.signatures)

    def test_valid_for_another_epoch(self, sites: Consortium) -> None:
        old = RecoverRound(sites.epoch(0), round=0)
        sites.send(old, round=0, summed=sites.draws())
        sites.settle(old, round=0)
        new = RecoverRound(sites.epoch(1), round=0)
        sites.send(new, round=0, summed=sites.draws())
        sites.settle(new, round=0)
        with pytest.raises(ProtocolError, match="has not signed the same set"):
            sites.sites["site000"].open(round=0, survivors=sites.names, signatures=old.signatures)

    def test_for_another_context(self, sites: Consortium, sent: RecoverRound) -> None:
        signed = {
            name: sites.sites[name].sign_survivors(round=0, survivors=sites.names, context=name.encode())
            for name in sites.names
        }
        with pytest.raises(ProtocolError, match="has not signed the same set"):
            sites.sites["site000"].open(round=0, survivors=sites.names, signatures=signed)

    def test_for_another_kind_of_round(self, sites: Consortium, sent: RecoverRound) -> None:
        sites.sites["site000"].self_mask(round=0, vector=sites.draw())
        signed = {n: sites.sites[n].sign_survivors(round=0, survivors=sites.names) for n in sites.names}
        with pytest.raises(ProtocolError, match="has not signed the same set"):
            sites.sites["site000"].open(round=0, survivors=sites.names, signatures=signed)

    def test_not_a_mapping(self, sites: Consortium, sent: RecoverRound) -> None:
        sites.settle(sent, round=0)
        with pytest.raises(ProtocolError, match="a signer is not a survivor"):
            self.open(sites, sent, list(sent.signatures.items()))
