"""Fixtures of the secure-sum tests."""

from __future__ import annotations

import pytest

from dpcape.core.secure_sum.aggregate import RecoverRound
from dpcape.core.secure_sum.transcript import digest

from .consortium import Consortium


@pytest.fixture
def fixed_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw the sparse graphs of sessions from the order in which they come, and not from their random ids."""
    known: list[bytes] = []

    def numbered(label: str, session_id: bytes) -> bytes:
        if session_id not in known:
            known.append(session_id)
        return digest(label, known.index(session_id))

    monkeypatch.setattr("dpcape.core.secure_sum.graph.digest", numbered)


@pytest.fixture
def sites() -> Consortium:
    """Four sites, one of which may collude, that have begun a session."""
    return Consortium(4, threshold=3, n_colluding=1).begin()


@pytest.fixture
def sent(sites: Consortium) -> RecoverRound:
    """A round in which everybody has sent its vector."""
    aggregator = RecoverRound(sites.epoch(), round=0)
    sites.send(aggregator, round=0, summed=sites.draws())
    return aggregator
