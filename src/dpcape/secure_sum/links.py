"""The set-up of a session: checked hellos, the session id and one secret per pair of sites."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from dpcape.errors import ProtocolError
from dpcape.secure_sum.config import Config
from dpcape.secure_sum.identity import KEY_BYTES, Identity, verify
from dpcape.secure_sum.keystream import expand, extract
from dpcape.secure_sum.messages import Hello
from dpcape.secure_sum.sealed import Sealed
from dpcape.secure_sum.transcript import digest

NONCE_BYTES = 16


class Links(Sealed):
    """What a site shares with its peers once the hellos are checked; shows and pickles nothing."""

    __slots__ = ("_roots", "config", "name", "session_id")

    def __init__(self, name: str, *, config: Config, session_id: bytes, roots: Mapping[str, bytes]) -> None:
        self.name = name
        self.config = config
        self.session_id = session_id
        self._roots = dict(roots)

    def key(self, peer: str, context: bytes) -> bytes:
        """Key that only this site and `peer` can derive, bound to `context`."""
        return expand(self._roots[peer], context)


def make_hello(name: str, identity: Identity, *, config: Config, private: X25519PrivateKey) -> Hello:
    """Signed hello with a fresh nonce."""
    nonce, key = os.urandom(NONCE_BYTES), private.public_key().public_bytes_raw()
    signature = identity.sign(_hello_body(name, nonce=nonce, key=key, terms=config.digest()))
    return Hello(sender=name, nonce=nonce, key=key, signature=signature)


def check_hellos(
    hellos: Sequence[Hello], *, config: Config, pinned: Mapping[str, bytes]
) -> tuple[dict[str, Hello], bytes]:
    """Hellos by sender and the session id, if each site's pinned identity signed its one hello."""
    if any(not isinstance(hello, Hello) for hello in hellos):
        raise ProtocolError("hellos must be Hello messages; got something else.")
    senders = [hello.sender for hello in hellos]
    if any(not isinstance(sender, str) for sender in senders) or sorted(senders) != list(config.sites):
        raise ProtocolError("there must be exactly one hello of each agreed site; got another list of senders.")
    terms = config.digest()
    for hello in hellos:
        _check_hello(hello, terms=terms, public=pinned[hello.sender])
    if len({hello.key for hello in hellos}) != len(hellos):
        raise ProtocolError("session keys must be distinct; got one key under two names.")
    by_sender = {hello.sender: hello for hello in sorted(hellos, key=lambda hello: hello.sender)}
    return by_sender, _session_id(by_sender, terms)


def make_links(
    name: str, *, config: Config, private: X25519PrivateKey, hellos: Mapping[str, Hello], session_id: bytes
) -> Links:
    """Agree on one secret with each peer; the session id is the salt of every extraction."""
    roots = {}
    for peer in config.sites:
        if peer != name:
            shared = agree(private, hellos[peer].key, peer=peer)
            roots[peer] = extract(shared, salt=session_id, context=digest("pair", *sorted((name, peer))))
    return Links(name, config=config, session_id=session_id, roots=roots)


def agree(private: X25519PrivateKey, public: bytes, *, peer: str) -> bytes:
    """X25519 secret with a peer; keys of small order give no secret and are refused."""
    try:
        return private.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        raise ProtocolError(f"the key of site {peer} must be a proper X25519 key; got a degenerate one.") from None


def _check_hello(hello: Hello, *, terms: bytes, public: bytes) -> None:
    """Refuse a hello of wrong shape or that the pinned identity did not sign."""
    if not _is_bytes(hello.nonce, NONCE_BYTES) or not _is_bytes(hello.key, KEY_BYTES):
        raise ProtocolError(f"the hello of site {hello.sender} must hold a nonce and a key; got other lengths.")
    body = _hello_body(hello.sender, nonce=hello.nonce, key=hello.key, terms=terms)
    if not verify(public, hello.signature, body):
        raise ProtocolError(
            f"the hello of site {hello.sender} must be signed by its pinned identity for this configuration; "
            "got another signature. Compare fingerprints and study files with that site."
        )


def _hello_body(name: str, *, nonce: bytes, key: bytes, terms: bytes) -> bytes:
    return digest("hello", name, nonce, key, terms)


def _session_id(hellos: Mapping[str, Hello], terms: bytes) -> bytes:
    parts = [part for hello in hellos.values() for part in (hello.sender, hello.nonce, hello.key)]
    return digest("session", terms, *parts)


def _is_bytes(value: object, length: int) -> bool:
    return isinstance(value, bytes) and len(value) == length
