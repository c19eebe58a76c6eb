"""Vectors that depend on different things must not be summed: mixed attempts of CAPE's noise agreement.

A hostile aggregator has one site release on attempt 0 and the others on attempt 1 of the agreement, then asks all for
the correction. The sum of the draws less the agreed sum of attempt 1 is then the one site's draw.
"""

from __future__ import annotations

import numpy as np
import pytest

from dpcape.core.errors import ProtocolError
from dpcape.core.secure_sum.aggregate import RecoverRound

from .adversary import Adversary
from .consortium import Consortium, Vectors, added


def mixed_attempts(*, bound: bool) -> tuple[Adversary, Vectors, str]:
    sites = Consortium(5, threshold=4, n_colluding=1).begin()
    colluder, victim, *others = sites.names
    adversary, draws = Adversary(sites, sites.epoch(), [colluder]), sites.draws()
    told = {name: b"attempt 0" if name == victim else b"attempt 1" for name in sites.names}
    adversary.bound = b"attempt 1" if bound else None
    for name, draw in draws.items():
        context = told[name] if bound else None
        adversary.summed[name, 0] = sites.sites[name].recover_mask(round=0, vector=draw, context=context)
    signed = {
        name: sites.sites[name].sign_survivors(round=0, survivors=sites.names, context=told[name])
        for name in (colluder, *others)
    }
    for name in others:
        site = sites.sites[name]
        adversary.openings.append(site.open(round=0, survivors=sites.names, signatures=signed))
        adversary.seed_shares.append(site.open_missing(round=0, missing=[victim]))
    return adversary, draws, victim


def test_unbound_vectors_of_two_attempts_give_the_draw_of_one_site() -> None:
    """The limit that callers remove by passing a context when they mask."""
    adversary, draws, victim = mixed_attempts(bound=False)
    (group,) = adversary.sums(0)
    agreed = added(draws, [name for name in group if name != victim])
    np.testing.assert_array_equal(adversary.sums(0)[group] - agreed, draws[victim])


def test_bound_vectors_of_two_attempts_do_not_add_up() -> None:
    adversary, draws, victim = mixed_attempts(bound=True)
    total = added({name: adversary.unmask(name, 0) for name in adversary.honest}, adversary.honest)
    assert not np.any(total == added(draws, adversary.honest))
    for context in (b"attempt 0", b"attempt 1", None):
        adversary.bound = context
        assert not np.any(adversary.unmask(victim, 0) == draws[victim])


def test_bound_round_with_a_drop_out_is_exact(sites: Consortium) -> None:
    aggregator, vectors = RecoverRound(sites.epoch(), round=0, bound=True), sites.draws()
    for name in sites.names[:3]:
        masked = sites.sites[name].recover_mask(round=0, vector=vectors[name], context=b"told")
        aggregator.add_masked(name, masked)
    survivors = sites.settle(aggregator, round=0, context=b"told")
    sites.open(aggregator, round=0)
    np.testing.assert_array_equal(aggregator.total(), added(vectors, survivors))


def test_a_bound_site_signs_its_own_context_only(sites: Consortium) -> None:
    sites.epoch()
    site = sites.sites["site000"]
    site.recover_mask(round=0, vector=sites.draw(), context=b"told")
    with pytest.raises(ProtocolError, match="context differs"):
        site.sign_survivors(round=0, survivors=sites.names, context=b"other")
    site.self_mask(round=1, vector=sites.draw(), context=b"told")
    with pytest.raises(ProtocolError, match="one context"):
        site.recover_mask(round=1, vector=sites.draw(), context=b"other")
    with pytest.raises(ProtocolError, match="context must be bytes"):
        site.recover_mask(round=2, vector=sites.draw(), context="text")
