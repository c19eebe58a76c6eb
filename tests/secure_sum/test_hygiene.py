"""Secrets stay where they are, and nothing is used twice.

Checklist
---------
* no secret in logs, representations, exceptions, pickles or files
* burned rounds: a session dies with its process, cannot be copied and refuses to work after a fork
* rounds without a repeated mask key (all HKDF outputs collected); box keys are used once
"""

from __future__ import annotations

import copy
import logging
import os
import pickle
import sys
import threading

import numpy as np
import pytest

from dpcape.core.errors import DpcapeError, InvalidParameter, ProtocolError
from dpcape.core.secure_sum import keystream, offers
from dpcape.core.secure_sum.aggregate import RecoverRound
from dpcape.core.secure_sum.identity import Identity, fingerprint_of, verify

from .consortium import Consortium


def secrets_of(sites: Consortium) -> list[bytes]:
    """Every secret the sites hold."""
    found = [identity.private_bytes() for identity in sites.identities.values()]
    for site in sites.sites.values():
        found += site._retry._links._roots.values()
        epoch = site._recover._epoch
        for round in range(epoch.n_rounds):
            found += [epoch.secret(round, kind) for kind in range(3)]
            found += [epoch.share(peer, round, kind) for peer in epoch._shares for kind in range(3)]
    return found


def shows(text: str, secrets: list[bytes]) -> bool:
    """Whether a text holds a secret, as hexadecimal digits, as a bytes literal or as a number."""
    forms = [f(s) for s in secrets for f in (bytes.hex, lambda s: repr(s)[2:-1], lambda s: str(int.from_bytes(s)))]
    return any(form in text for form in forms)


def reachable(value: object) -> list[object]:
    """An object and the objects its slots hold, to a few levels."""
    found, edge = [value], [value]
    for _ in range(4):
        edge = [getattr(o, n) for o in edge for n in getattr(type(o), "__slots__", ()) if hasattr(o, n)]
        found += edge
    return found


def test_representations_show_nothing() -> None:
    sites = Consortium(3).begin()
    sites.epoch()
    secrets = secrets_of(sites)
    assert shows(repr(secrets[0]), secrets), "the search itself works"
    assert shows(secrets[5].hex(), secrets)
    for site in sites.sites.values():
        for text in (repr(site), str(site), f"{site}", repr(site.hello())):
            assert not shows(text, secrets)
        for part in reachable(site):
            if type(part).__module__.startswith("dpcape"):
                assert not shows(repr(part), secrets), type(part).__name__
    for identity in sites.identities.values():
        assert repr(identity) == f"Identity({identity.fingerprint()!r})"


def test_openings_and_shares_show_only_their_sender() -> None:
    sites = Consortium(4, threshold=3).begin()
    aggregator = RecoverRound(sites.epoch(), round=0)
    sites.send(aggregator, round=0, summed=sites.draws())
    sites.settle(aggregator, round=0)
    site = sites.sites["site000"]
    opening = site.open(round=0, survivors=sites.names, signatures=aggregator.quorum())
    shares = site.open_missing(round=0, missing=["site001"])
    assert repr(opening) == str(opening) == "Opening(sender='site000')"
    assert repr(shares) == "SeedShares(sender='site000')"
    assert repr(sites.offers[0]) == "Offer(sender='site000')"


def test_nothing_secret_can_be_pickled_or_copied() -> None:
    sites = Consortium(3).begin()
    sites.epoch()
    site = sites.sites["site000"]
    epoch = site._recover._epoch
    for holder in (sites.identities["site000"], site, site._retry, site._recover, site._retry._links, epoch):
        for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="must not be pickled or copied"):
                attempt(holder)


def test_exceptions_and_logs_show_nothing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    sites = Consortium(4, threshold=3).begin()
    aggregator = RecoverRound(sites.epoch(), round=0)
    vectors = sites.draws()
    secrets = secrets_of(sites) + [vector.tobytes() for vector in vectors.values()]
    sites.send(aggregator, round=0, summed=vectors)
    site, raised = sites.sites["site000"], []
    for call in (
        lambda: site.recover_mask(round=0, vector=vectors["site000"]),
        lambda: site.recover_mask(round=1, vector=vectors["site000"].astype(float)),
        lambda: site.open(round=1, survivors=sites.names, signatures={}),
        lambda: site.accept(sites.offers),
        lambda: site.retry_mask(round=0, attempt=0, roster=[], vector=vectors["site000"]),
        lambda: sites.session("site000").begin(sites.hellos),
        lambda: Identity.from_private_bytes(sites.identities["site000"].private_bytes()[:-1]),
    ):
        with pytest.raises(DpcapeError) as caught:
            call()
        raised.append(caught.value)
    for error in raised:
        assert not shows(f"{error!r} {error} {error.args}", secrets)
        assert error.__cause__ is None
    assert not shows(caplog.text, secrets)


def test_identity_is_kept_only_by_explicit_call(tmp_path: object) -> None:
    identity = Identity.generate()
    again = Identity.from_private_bytes(identity.private_bytes())
    assert again.public == identity.public
    assert again.fingerprint() == fingerprint_of(identity.public) == identity.fingerprint()
    assert len(identity.fingerprint().split()) == 8
    signature = identity.sign(b"message")
    assert verify(identity.public, signature, b"message")
    assert not verify(identity.public, signature, b"massage")
    assert not verify(Identity.generate().public, signature, b"message")
    assert not verify(b"short", signature, b"message")
    for wrong in (b"", bytes(31), bytes(33), "text", None):
        with pytest.raises(InvalidParameter, match="private must be 32 bytes"):
            Identity.from_private_bytes(wrong)


def test_a_forked_process_cannot_use_the_session() -> None:
    sites = Consortium(3).begin()
    child = os.fork()
    if child == 0:  # pragma: no cover - runs in the child
        code = 1
        try:
            sites.sites["site000"].retry_mask(round=0, attempt=0, roster=sites.names, vector=sites.draw())
        except ProtocolError as error:
            code = 0 if "must stay in the process" in str(error) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_two_threads_cannot_use_one_attempt_twice() -> None:
    sites = Consortium(3).begin()
    site, done = sites.sites["site000"], []

    def attempt(vector: np.ndarray) -> None:
        try:
            site.retry_mask(round=0, attempt=0, roster=sites.names, vector=vector)
            done.append(True)
        except ProtocolError:
            done.append(False)

    threads = [threading.Thread(target=attempt, args=(sites.draw(100_000),)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == [False] * 7 + [True]


def test_no_mask_key_is_used_twice_at_a_site(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[bytes] = []
    stream = keystream._stream

    def recording(key: bytes) -> object:
        used.append(key)
        return stream(key)

    monkeypatch.setattr(keystream, "_stream", recording)
    sites = Consortium(3).begin()
    site, others = sites.sites["site000"], 2
    for round in range(1000):
        site.retry_mask(round=round, attempt=round % 3, roster=sites.names, vector=sites.draw(2))
    for epoch in range(2):
        sites.epoch(epoch, n_rounds=50)
        for round in range(50):
            site.recover_mask(round=round, vector=sites.draw(2))
            site.self_mask(round=round, vector=sites.draw(2))
    assert len(used) == 1000 * others + 2 * 50 * (others + 2)
    assert len(set(used)) == len(used)


def test_no_box_key_is_used_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[tuple[bytes, bytes]] = []
    real = offers.AESGCM

    class Recording:
        def __init__(self, key: bytes) -> None:
            self.key = key

        def encrypt(self, nonce: bytes, data: bytes, associated: bytes) -> bytes:
            used.append((self.key, nonce))
            return real(self.key).encrypt(nonce, data, associated)

        def decrypt(self, nonce: bytes, data: bytes, associated: bytes) -> bytes:
            return real(self.key).decrypt(nonce, data, associated)

    monkeypatch.setattr(offers, "AESGCM", Recording)
    sites = Consortium(4).begin()
    for epoch in range(20):
        sites.epoch(epoch, n_rounds=1)
    assert len(used) == 20 * 4 * 3
    assert len(set(used)) == len(used)


def test_round_secrets_are_all_different() -> None:
    sites = Consortium(3).begin()
    sites.epoch(n_rounds=50)
    secrets = [
        site._recover._epoch.secret(round, kind)
        for site in sites.sites.values()
        for round in range(50)
        for kind in range(3)
    ]
    assert len(set(secrets)) == 3 * 50 * 3


def test_no_vector_is_held_because_its_signature_was_checked() -> None:
    identity, message = Identity.generate(), bytes(100_000)
    signature, n_held = identity.sign(message), sys.getrefcount(message)
    assert verify(identity.public, signature, message)
    assert sys.getrefcount(message) == n_held
    assert not verify(identity.public, signature, message + b"more")
