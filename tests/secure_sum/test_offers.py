"""What a site refuses when an epoch is set up.

Checklist
---------
* Tampered box, box for another receiver, no box, old epoch's box; shares outside the field.
* Unsigned or altered offer; swapped senders; old epoch; old session; own offer missing or replaced.
* Repeated key; degenerate key; duplicated sender; stranger; roster below the floor.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

import dpcape.core.secure_sum.offers as offers_module
from dpcape.core.errors import ProtocolError
from dpcape.core.secure_sum import shamir
from dpcape.core.secure_sum.messages import Offer
from dpcape.core.secure_sum.offers import offer_body

from .consortium import Consortium, change, flipped

Offers = list[Offer]


def second(**fields: object) -> Callable[[Offers], Offers]:
    """Alter fields of the second site's offer."""
    return lambda offers: [offers[0], change(offers[1], **fields), *offers[2:]]


def boxed(box: Callable[[Offers], object]) -> Callable[[Offers], Offers]:
    """Alter the second site's box for the first."""
    return lambda offers: second(boxes={"site000": box(offers)})(offers)


def swapped(offers: Offers) -> Offers:
    """Two offers under each other's name."""
    return [offers[0], change(offers[1], sender="site002"), change(offers[2], sender="site001"), offers[3]]


SIGNED, TABLES, COUNT = "signed by its pinned identity", "32 bytes per round", "n_rounds must be between 1 and"
NUMBERS, NO_BOX, TAMPERED = "epoch and n_rounds of site", "no box for this site", "could not be opened"
TAMPERINGS: list[tuple[str, Callable[[Offers], Offers]]] = [
    (SIGNED, lambda o: second(signature=flipped(o[1].signature))(o)),
    (SIGNED, second(signature=b"")),
    (SIGNED, lambda o: second(keys=flipped(o[1].keys))(o)),
    (SIGNED, second(epoch=1)),
    (SIGNED, lambda o: second(sum_commitments=o[2].sum_commitments)(o)),
    (SIGNED, lambda o: second(cover_commitments=o[1].sum_commitments)(o)),
    (SIGNED, swapped),
    (TABLES, lambda o: second(keys=o[1].keys[:-1])(o)),
    (TABLES, second(n_rounds=3)),
    (TABLES, second(sum_commitments="text")),
    (COUNT, second(n_rounds=0)),
    (COUNT, second(n_rounds=2**62)),
    (NUMBERS, second(epoch=-1)),
    (NUMBERS, second(epoch=2**64)),
    (NUMBERS, second(epoch="0")),
    ("each site once", lambda o: [*o, o[1]]),
    ("only agreed sites", second(sender="stranger")),
    ("list of site names", second(sender=7)),
    ("at least 3 required sites", lambda o: o[:2]),
    ("must be Offer messages", lambda o: [*o[:3], None]),
    ("own offer is missing or changed", lambda o: o[1:]),
    (NO_BOX, second(boxes={})),
    (NO_BOX, second(boxes=None)),
    (NO_BOX, boxed(lambda o: "text")),
    (TAMPERED, boxed(lambda o: b"")),
    (TAMPERED, boxed(lambda o: flipped(o[1].boxes["site000"]))),
    (TAMPERED, boxed(lambda o: o[1].boxes["site000"][:-1])),
    (TAMPERED, boxed(lambda o: o[1].boxes["site002"])),
    (TAMPERED, boxed(lambda o: o[2].boxes["site000"])),
]


@pytest.mark.parametrize(("reason", "tamper"), TAMPERINGS)
def test_refused(sites: Consortium, reason: str, tamper: Callable[[Offers], Offers]) -> None:
    offers = [site.offer(epoch=0, n_rounds=2) for site in sites.sites.values()]
    site = sites.sites["site000"]
    with pytest.raises(ProtocolError, match=reason):
        site.accept(tamper(offers))
    with pytest.raises(ProtocolError, match="no epoch was accepted"):
        site.recover_mask(round=0, vector=sites.draw())


class TestOffers:
    def test_own_offer_replaced_by_an_earlier_one(self, sites: Consortium) -> None:
        old = sites.sites["site000"].offer(epoch=0, n_rounds=1)
        offers = [site.offer(epoch=1, n_rounds=1) for site in sites.sites.values()]
        with pytest.raises(ProtocolError, match="one epoch"):
            sites.sites["site000"].accept([old, *offers[1:]])

    def test_old_epoch(self, sites: Consortium) -> None:
        old = [site.offer(epoch=0, n_rounds=1) for site in sites.sites.values()]
        own = sites.sites["site000"].offer(epoch=1, n_rounds=1)
        with pytest.raises(ProtocolError, match="one epoch"):
            sites.sites["site000"].accept([own, *old[1:]])

    def test_old_box_in_a_new_epoch(self, sites: Consortium) -> None:
        old = [site.offer(epoch=0, n_rounds=1) for site in sites.sites.values()]
        new = [site.offer(epoch=1, n_rounds=1) for site in sites.sites.values()]
        with pytest.raises(ProtocolError, match="could not be opened"):
            sites.sites["site000"].accept([new[0], change(new[1], boxes=old[1].boxes), *new[2:]])

    def test_old_session(self, sites: Consortium) -> None:
        other = Consortium(4, threshold=3, n_colluding=1)
        other.identities, other.pinned = sites.identities, sites.pinned
        other.sites = {name: other.session(name) for name in other.names}
        other.hellos = [site.hello() for site in other.sites.values()]
        other.begin()
        offers = [site.offer(epoch=0, n_rounds=1) for site in sites.sites.values()]
        foreign = other.sites["site001"].offer(epoch=0, n_rounds=1)
        with pytest.raises(ProtocolError, match="for this session"):
            sites.sites["site000"].accept([offers[0], foreign, *offers[2:]])

    def signed(self, sites: Consortium, offer: Offer) -> object:
        body = offer_body(offer, sites.sites[offer.sender].session_id)
        return change(offer, signature=sites.identities[offer.sender].sign(body))

    def test_a_key_twice(self, sites: Consortium) -> None:
        offers = [site.offer(epoch=0, n_rounds=2) for site in sites.sites.values()]
        stolen = self.signed(sites, change(offers[1], keys=offers[2].keys))
        with pytest.raises(ProtocolError, match="round keys must be distinct"):
            sites.sites["site000"].accept([offers[0], stolen, *offers[2:]])
        offers = [site.offer(epoch=1, n_rounds=2) for site in sites.sites.values()]
        repeated = self.signed(sites, change(offers[1], keys=offers[1].keys[:32] * 2))
        with pytest.raises(ProtocolError, match="round keys must be distinct"):
            sites.sites["site000"].accept([offers[0], repeated, *offers[2:]])

    @pytest.mark.parametrize("top_bit", [0, 0x80])
    @pytest.mark.parametrize("key", sorted(offers_module._SMALL_ORDER))
    def test_a_round_key_of_small_order_is_refused_at_the_offer(
        self, sites: Consortium, monkeypatch: pytest.MonkeyPatch, key: bytes, top_bit: int
    ) -> None:
        """No exchange with such a key gives a secret; refused when masks are made, a site would be charged already."""
        degenerate = key[:31] + bytes([key[31] | top_bit])
        with pytest.raises(ValueError, match="computing shared key"):
            X25519PrivateKey.generate().exchange(X25519PublicKey.from_public_bytes(degenerate))
        monkeypatch.setattr("dpcape.core.secure_sum.offers.public_key", lambda private: degenerate)
        offers = {"site001": sites.sites["site001"].offer(epoch=0, n_rounds=1)}
        monkeypatch.undo()
        offers |= {n: s.offer(epoch=0, n_rounds=1) for n, s in sites.sites.items() if n != "site001"}
        with pytest.raises(ProtocolError, match="offer of site site001 was refused because a round key is of small"):
            sites.sites["site000"].accept(list(offers.values()))

    def test_shares_beyond_the_field(self, sites: Consortium, monkeypatch: pytest.MonkeyPatch) -> None:
        for share, reason in ((b"\xff" * 33, "above the prime"), (bytes(32), "three shares per round")):
            number = len(share)
            monkeypatch.setattr(shamir, "split", lambda *_, share=share, n_shares, **__: [share] * n_shares)
            bad = sites.sites["site001"].offer(epoch=number, n_rounds=1)
            monkeypatch.undo()
            offers = [s.offer(epoch=number, n_rounds=1) for n, s in sites.sites.items() if n != "site001"]
            with pytest.raises(ProtocolError, match=reason):
                sites.sites["site000"].accept([*offers, bad])
            monkeypatch.undo()
            sites = Consortium(4, threshold=3, n_colluding=1).begin()
