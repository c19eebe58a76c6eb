"""The noise dealer by itself: whom it deals to, what it deals, and that each deal serves once."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from dpcape import Replay
from dpcape.core import messages as m
from dpcape.core.errors import ProtocolError
from dpcape.core.messages import decode_from_site, encode
from dpcape.core.protocols.dealt_noise import PAD_BYTES, box_context, key_statement, parts_of
from dpcape.core.protocols.noise_dealer import NoiseDealer
from dpcape.core.secure_sum.box import BoxKey
from dpcape.core.secure_sum.identity import SIGNATURE_BYTES, Identity, verify

SITES = ("lima", "lyon", "oslo")
SIGNERS = {site: Identity.from_private_bytes(bytes([number] * 32)) for number, site in enumerate(SITES, 1)}
KEYS = {site: BoxKey() for site in SITES}
TERMS = b"terms of the allowance"
SIZE = 50


def signed(site: str, *, signer: str = "", key: str = "", terms: bytes = TERMS) -> bytes:
    """Box key of a site as the site signs it; or as others might have it."""
    public = KEYS[key or site].public
    return SIGNERS[signer or site].sign(key_statement(terms, site, public)) + public


def a_dealer() -> NoiseDealer:
    dealer = NoiseDealer(Identity.generate(), Replay(3))
    dealer.pin({site: signer.public for site, signer in SIGNERS.items()})
    return dealer


def a_deal(receivers: Mapping[str, bytes] = {}, *, release: int = 0) -> m.Deal:
    keys = {site: signed(site) for site in SITES} | dict(receivers)
    steps = dict.fromkeys(keys, 1e6)
    return m.Deal(terms=TERMS, release=release, size=SIZE, shared_steps=steps, receivers=keys)


def answered(dealer: NoiseDealer, deal: m.Deal) -> m.FromSite:
    return decode_from_site(dealer.answer(encode(deal)))[1]


def shares_of(dealer: NoiseDealer, release: int) -> NDArray[np.int64]:
    """Deal, and open every site's box."""
    reply = answered(dealer, a_deal(release=release))
    assert isinstance(reply, m.Dealt)
    opened = []
    for site in SITES:
        signature, root, sealed = parts_of(reply.boxes[site])
        context = box_context(TERMS, release, site, SITES)
        assert verify(dealer.identity.public, signature, context + root + sealed)
        content = KEYS[site].open(sealed, context)
        assert np.frombuffer(content, "<f8", count=3).tolist() == [1e6] * 3
        opened.append(np.frombuffer(content, "<i8", offset=24 + PAD_BYTES))
    return np.array(opened)


FORGED = {
    "an unsigned key": {"lyon": bytes(SIGNATURE_BYTES) + KEYS["oslo"].public},
    "another's key under one's own signature": {"lyon": signed("lyon", signer="oslo", key="oslo")},
    "a key signed for another site": {"lyon": signed("oslo")},
    "a key signed for other terms": {"lyon": signed("lyon", terms=b"terms of another allowance")},
    "a key that was changed": {"lyon": signed("lyon")[:SIGNATURE_BYTES] + KEYS["oslo"].public},
    "a site that is not pinned": {"mallory": signed("lyon")},
}


@pytest.mark.parametrize("what", FORGED)
def test_noise_is_dealt_to_keys_that_the_pinned_sites_signed_for_these_terms(what: str) -> None:
    """Whoever receives a share in a site's place knows the site's cover."""
    dealer = a_dealer()
    refused = answered(dealer, a_deal(FORGED[what]))
    assert isinstance(refused, m.Refused)
    assert "pinned identity" in refused.text
    assert isinstance(answered(dealer, a_deal()), m.Dealt)


def test_a_signed_key_is_of_its_terms_site_and_key() -> None:
    statements = [(TERMS, "lyon", b"1"), (TERMS, "lyon", b"2"), (TERMS, "oslo", b"1"), (b"other", "lyon", b"1")]
    assert len({key_statement(*parts) for parts in statements}) == 4


def test_shares_add_to_zero_and_are_new_for_every_release() -> None:
    dealer = a_dealer()
    first, second = shares_of(dealer, 0), shares_of(dealer, 1)
    for shares in (first, second):
        assert not shares.sum(axis=0).any()
        # Three draws of sd 1e6 less their mean: 150 entries of sd 816497, far from zero and from each other.
        assert 6e5 < shares.std() < 11e5
    assert not np.intersect1d(first, second).size
    again = answered(dealer, a_deal(release=1))
    assert isinstance(again, m.Refused)
    assert "already dealt" in again.text


def test_a_box_opens_for_its_terms_release_receiver_and_sites_only() -> None:
    reply = answered(a_dealer(), a_deal())
    assert isinstance(reply, m.Dealt)
    box = parts_of(reply.boxes["lyon"])[2]
    right = (TERMS, 0, "lyon", SITES)
    KEYS["lyon"].open(box, box_context(*right))
    for place, other in enumerate((b"other terms", 1, "oslo", SITES[:2])):
        wrong = box_context(*(other if at == place else part for at, part in enumerate(right)))
        assert wrong != box_context(*right)
        with pytest.raises(ProtocolError, match="could not be opened"):
            KEYS["lyon"].open(box, wrong)
    with pytest.raises(ProtocolError):
        KEYS["oslo"].open(box, box_context(*right))


@pytest.mark.parametrize(("steps", "size"), [(float("nan"), 3), (0.0, 3), (-1e6, 3), (1e6, -1), (1e6, 2**62)])
def test_the_impossible_is_refused(steps: float, size: int) -> None:
    deal = msgspec.structs.replace(a_deal(), shared_steps=dict.fromkeys(SITES, steps), size=size)
    refused = answered(a_dealer(), deal)
    assert isinstance(refused, m.Refused)
    # For what it asks, not for who asks.
    assert "signed" not in refused.text
