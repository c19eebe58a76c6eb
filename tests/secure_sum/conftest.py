"""Fixtures of the secure-sum tests."""

from __future__ import annotations

import pytest

from dpcape.secure_sum import RecoverRound

from .consortium import Consortium


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
