"""Every key, commitment and signature is bound to all it is for: another value of any part gives another result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from dpcape.core.secure_sum.box import _box_key as sealed_box_key
from dpcape.core.secure_sum.config import Config
from dpcape.core.secure_sum.links import Links, _hello_body, _session_id, make_links
from dpcape.core.secure_sum.masking import Retry
from dpcape.core.secure_sum.messages import Hello, Offer
from dpcape.core.secure_sum.offers import COVER, SUM, _box_key, commitment, offer_body
from dpcape.core.secure_sum.round_keys import acceptance, pair_context, pair_key, self_key, statement

NAMES = ("lima", "lyon", "oslo", "rome")
CONFIG = Config(sites=NAMES, threshold=3, n_colluding=1, purpose=b"study")
KEYS = [X25519PrivateKey.from_private_bytes(bytes([number] * 32)) for number in (1, 2)]
PUBLIC = KEYS[1].public_key().public_bytes_raw()
OFFER = Offer("lyon", 3, 2, bytes(64), bytes(64), bytes([1] * 64), {}, b"")
A, B = bytes([7] * 32), bytes([8] * 32)


def body_of(session_id: bytes, **fields: Any) -> bytes:
    return offer_body(msgspec.structs.replace(OFFER, **fields), session_id)


def config_digest(**fields: Any) -> bytes:
    return msgspec.structs.replace(CONFIG, **fields).digest()


def session_of(terms: bytes, **fields: Any) -> bytes:
    hello = msgspec.structs.replace(Hello("lyon", A, A, b""), **fields)
    return _session_id({"lima": Hello("lima", A, B, b""), "lyon": hello}, terms)


def links(session_id: bytes = A) -> Links:
    return Links("lyon", config=CONFIG, session_id=session_id, roots=dict.fromkeys(NAMES, A))


def box_key(session_id: bytes, **parts: Any) -> bytes:
    return _box_key(links(session_id), "oslo", **parts)


def retry_masked(session_id: bytes, size: int, **parts: Any) -> bytes:
    vector = np.zeros(size, dtype=np.uint64)
    # The first word: that a longer vector has more words is no difference.
    return Retry(links(session_id)).mask(vector, **parts)[:1].tobytes()


# For each: the function, its parts, and another value of every part.
BOUND: dict[str, tuple[Callable[..., bytes], dict[str, tuple[Any, Any]]]] = {
    "self mask": (
        self_key,
        {"seed": (A, B), "kind": (SUM, COVER), "epoch_digest": (A, B), "round": (0, 1), "size": (5, 6)},
    ),
    "context of pair masks": (
        pair_context,
        {"epoch_digest": (A, B), "round": (0, 1), "size": (5, 6), "bound": (b"told", b"other")},
    ),
    "context or none": (pair_context, {"epoch_digest": (A, B), "round": (0, 1), "size": (5, 6), "bound": (None, b"")}),
    "pair mask": (
        pair_key,
        {"private": (KEYS[0], KEYS[1]), "public": (PUBLIC, KEYS[0].public_key().public_bytes_raw()),
         "names": (("lima", "lyon"), ("lima", "oslo")), "context": (A, B)},
    ),
    "acceptance": (acceptance, {"epoch_digest": (A, B), "site": ("lyon", "oslo")}),
    "survivor set": (
        statement,
        {"epoch_digest": (A, B), "round": (0, 1), "summed": (True, False), "covered": (True, False),
         "context": (b"told", b"other"), "survivors": (NAMES, NAMES[:3])},
    ),
    "offer": (
        body_of,
        {"session_id": (A, B), "sender": ("lyon", "oslo"), "epoch": (3, 4), "n_rounds": (2, 3),
         "keys": (A + A, A + B), "sum_commitments": (A + A, A + B), "cover_commitments": (A + A, A + B)},
    ),
    "commitment": (
        commitment,
        {"session_id": (A, B), "sender": ("lyon", "oslo"), "epoch": (0, 1), "round": (0, 1), "kind": (SUM, COVER),
         "seed": (A, B)},
    ),
    "box of an offer": (
        box_key,
        {"session_id": (A, B), "dealer": ("lyon", "oslo"), "receiver": ("oslo", "lyon"), "body": (A, B)},
    ),
    "sealed box": (sealed_box_key, {"shared": (A, B), "sender": (A, B), "receiver": (A, B), "context": (A, B)}),
    "hello": (_hello_body, {"name": ("lyon", "oslo"), "nonce": (A, B), "key": (A, B), "terms": (A, B)}),
    "session": (session_of, {"terms": (A, B), "sender": ("lyon", "oslo"), "nonce": (A, B), "key": (A, B)}),
    "terms of a session": (
        config_digest,
        {"sites": (NAMES, (*NAMES[:3], "tours")), "threshold": (3, 4), "n_colluding": (1, 0),
         "purpose": (b"study", b"other")},
    ),
    "masks of an attempt": (
        retry_masked,
        {"session_id": (A, B), "size": (5, 6), "round": (0, 1), "attempt": (0, 1), "roster": (NAMES, NAMES[1:])},
    ),
}  # fmt: skip
CASES = [(what, part) for what, (_, parts) in BOUND.items() for part in parts]


@pytest.mark.parametrize(("what", "part"), CASES, ids=str)
def test_another_part_gives_another_result(what: str, part: str) -> None:
    function, parts = BOUND[what]
    usual = {name: value for name, (value, _) in parts.items()}
    made = function(**usual)
    assert function(**usual) == made
    assert function(**{**usual, part: parts[part][1]}) != made


def test_the_secret_of_a_pair_is_that_pair_s() -> None:
    """Two peers that came with the same key, say one's repeated by the other, still do not share a secret."""
    hellos = {name: Hello(name, A, PUBLIC, b"") for name in NAMES}
    made = make_links("lyon", config=CONFIG, private=KEYS[0], hellos=hellos, session_id=A)
    assert len({made.key(peer, b"context") for peer in NAMES if peer != "lyon"}) == 3
    other = make_links("lyon", config=CONFIG, private=KEYS[0], hellos=hellos, session_id=B)
    assert other.key("oslo", b"context") != made.key("oslo", b"context")
    assert made.key("oslo", b"context") != made.key("oslo", b"other")
