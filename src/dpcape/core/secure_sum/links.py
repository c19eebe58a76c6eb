"""Set-up of a session: checked hellos, the session id and one secret per pair of sites."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from dpcape.core.errors import InvalidMessage, ProtocolError
from dpcape.core.secure_sum.config import Config
from dpcape.core.secure_sum.graph import masking_graph
from dpcape.core.secure_sum.identity import KEY_BYTES, Identity, verify
from dpcape.core.secure_sum.keystream import expand, extract
from dpcape.core.secure_sum.messages import Hello
from dpcape.core.secure_sum.sealed import Sealed
from dpcape.core.secure_sum.transcript import digest

NONCE_BYTES = 16


class Links(Sealed):
    """Secrets that a site shares with its peers once the hellos are checked; cannot be shown or pickled."""

    __slots__ = ("_roots", "config", "graph", "name", "session_id")

    def __init__(self, name: str, *, config: Config, session_id: bytes, roots: Mapping[str, bytes]) -> None:
        self.name = name
        self.config = config
        self.session_id = session_id
        self.graph = masking_graph(config, session_id)
        self._roots = dict(roots)

    def key(self, peer: str, context: bytes) -> bytes:
        """Return the key that only this site and `peer` can derive, bound to `context`."""
        return expand(self._roots[peer], context)


def make_hello(name: str, identity: Identity, *, config: Config, private: X25519PrivateKey) -> Hello:
    """Return a signed hello with a fresh nonce."""
    nonce, key = os.urandom(NONCE_BYTES), private.public_key().public_bytes_raw()
    signature = identity.sign(_hello_body(name, nonce=nonce, key=key, terms=config.digest()))
    return Hello(sender=name, nonce=nonce, key=key, signature=signature)


def check_hellos(
    hellos: Sequence[Hello], *, config: Config, pinned: Mapping[str, bytes]
) -> tuple[dict[str, Hello], bytes]:
    """Return hellos by sender and the session id, or raise unless each pinned identity signed its one hello."""
    for hello in hellos:
        if not isinstance(hello, Hello):
            raise InvalidMessage("hellos", "be Hello messages", type(hello).__name__, "Start a new run.")
    senders = [hello.sender for hello in hellos]
    if any(not isinstance(sender, str) for sender in senders) or sorted(senders) != list(config.sites):
        why = "there is not exactly one hello from each agreed site"
        raise ProtocolError("The session was refused", why, "Start a new run.")
    for hello in hellos:
        _check_lengths(hello)
    by_sender = {hello.sender: hello for hello in sorted(hellos, key=lambda hello: hello.sender)}
    publics = tuple(pinned[sender] for sender in by_sender)
    return by_sender, _checked_session_id(tuple(by_sender.values()), config.digest(), publics)


def make_links(
    name: str, *, config: Config, private: X25519PrivateKey, hellos: Mapping[str, Hello], session_id: bytes
) -> Links:
    """Return one secret per neighbour; the session id is the salt of every extraction."""
    graph = masking_graph(config, session_id)
    graph.check_connected(config.sites)
    roots = {}
    for peer in graph.neighbours(name):
        shared = agree(private, hellos[peer].key, peer=peer)
        roots[peer] = extract(shared, salt=session_id, context=digest("pair", *sorted((name, peer))))
    return Links(name, config=config, session_id=session_id, roots=roots)


def agree(private: X25519PrivateKey, public: bytes, *, peer: str) -> bytes:
    """Return the X25519 secret shared with a peer; keys of small order give no secret and are refused."""
    try:
        return private.exchange(_public_key(public))
    except ValueError:
        must = "be a valid X25519 key"
        raise InvalidMessage(f"The key of site {peer}", must, "one of small order", "Exclude the site.") from None


# Cached, because sites in one process use the same keys.
_public_key = lru_cache(maxsize=2**11)(X25519PublicKey.from_public_bytes)


def _check_lengths(hello: Hello) -> None:
    """Refuse a hello that is malformed."""
    if not (_is_bytes(hello.nonce, NONCE_BYTES) and _is_bytes(hello.key, KEY_BYTES)):
        must = f"have a nonce of {NONCE_BYTES} bytes and a key of {KEY_BYTES}"
        remedy = "Install the same dpcape version everywhere."
        raise InvalidMessage(f"The hello of site {hello.sender}", must, "a different length", remedy)
    if not isinstance(hello.signature, bytes):
        raise _not_signed(hello)


# Cached, because sites in one process receive the same hellos; refusals raise and are not cached.
@lru_cache(maxsize=4)
def _checked_session_id(hellos: tuple[Hello, ...], terms: bytes, publics: tuple[bytes, ...]) -> bytes:
    """Return the session id, or raise unless each pinned identity signed its one hello, with a key of its own."""
    for hello, public in zip(hellos, publics, strict=True):
        body = _hello_body(hello.sender, nonce=hello.nonce, key=hello.key, terms=terms)
        if not verify(public, hello.signature, body):
            raise _not_signed(hello)
    if len({hello.key for hello in hellos}) != len(hellos):
        raise InvalidMessage("session keys", "be distinct", "one key under two names", "Start a new run.")
    return _session_id({hello.sender: hello for hello in hellos}, terms)


def _not_signed(hello: Hello) -> ProtocolError:
    return ProtocolError(
        f"The hello of site {hello.sender} was refused",
        "it is not signed by its pinned identity for this configuration",
        "Compare fingerprints and study files with that site.",
    )


def _hello_body(name: str, *, nonce: bytes, key: bytes, terms: bytes) -> bytes:
    return digest("hello", name, nonce, key, terms)


def _session_id(hellos: Mapping[str, Hello], terms: bytes) -> bytes:
    fields = [field for hello in hellos.values() for field in (hello.sender, hello.nonce, hello.key)]
    return digest("session", terms, *fields)


def _is_bytes(value: object, length: int) -> bool:
    return isinstance(value, bytes) and len(value) == length


def forget_hellos() -> None:
    """Clear the caches of checked keys and hellos."""
    _public_key.cache_clear()
    _checked_session_id.cache_clear()
