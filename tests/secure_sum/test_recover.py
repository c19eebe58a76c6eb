"""RECOVER with honest parties: every stage at which a site can be lost."""

from __future__ import annotations

import numpy as np

from dpcape.secure_sum import RecoverRound

from .consortium import Consortium, added


def test_nobody_lost() -> None:
    sites = Consortium(4).begin()
    aggregator = RecoverRound(sites.epoch(), round=0)
    vectors = sites.draws()
    sites.send(aggregator, round=0, summed=vectors)
    survivors = sites.settle(aggregator, round=0)
    sites.open(aggregator, round=0)
    assert survivors == sites.names
    np.testing.assert_array_equal(aggregator.total(), added(vectors, survivors))
