"""Vectors that depend on different things must not be summed: mixed attempts of CAPE's noise agreement.

A hostile aggregator has one site release on attempt 0 and the others on attempt 1 of the agreement, then asks all for
the correction. The sum of the draws less the agreed sum of attempt 1 is then the one site's draw.
"""

from __future__ import annotations

import numpy as np
import pytest

from dpcape.core.errors import ProtocolError
from dpcape.core.secure_sum.aggregate import RecoverRound
from dpcape.core.secure_sum.offers import SUM
from dpcape.core.secure_sum.recover import Recover

from .adversary import Adversary
from .consortium import Consortium, Vectors, added


def mixed_attempts(*, bound: bool, helping: bool = True) -> tuple[Adversary, Vectors, str]:
    """Carry the attack out; with ``helping`` the others are asked for shares of the victim's seed."""
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
        if helping:
            relied_on = {victim: sites.sites[victim].sign_context(round=0)} if bound else None
            adversary.seed_shares.append(site.open_missing(round=0, missing=[victim], relied_on=relied_on))
    return adversary, draws, victim


def test_unbound_vectors_of_two_attempts_give_the_draw_of_one_site() -> None:
    """The limit that callers remove by passing a context when they mask."""
    adversary, draws, victim = mixed_attempts(bound=False)
    (group,) = adversary.sums(0)
    agreed = added(draws, [name for name in group if name != victim])
    np.testing.assert_array_equal(adversary.sums(0)[group] - agreed, draws[victim])


def test_nobody_helps_to_open_a_vector_of_another_attempt() -> None:
    with pytest.raises(ProtocolError, match="has not signed what this site relied on"):
        mixed_attempts(bound=True)
    adversary, _, victim = mixed_attempts(bound=True, helping=False)
    assert adversary.secret(victim, 0, SUM) is None


def test_bound_vectors_of_two_attempts_do_not_add_up_even_if_others_help(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Recover, "_check_relied_on", lambda *_, **__: None)
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


def test_a_bound_survivor_that_is_lost_is_recovered(sites: Consortium) -> None:
    """It signed, with its vectors, the context that is the others'."""
    aggregator, vectors = RecoverRound(sites.epoch(), round=0, bound=True), sites.draws()
    for name, vector in vectors.items():
        site = sites.sites[name]
        aggregator.add_covered(name, site.self_mask(round=0, vector=vector, context=b"told"))
        aggregator.add_masked(name, site.recover_mask(round=0, vector=vector, context=b"told"))
        aggregator.add_context(name, site.sign_context(round=0))
    lost = sites.names[1]
    survivors = sites.settle(aggregator, round=0, context=b"told", silent=(lost,))
    sites.open(aggregator, round=0, silent=(lost,))
    np.testing.assert_array_equal(aggregator.total(), added(vectors, survivors))
    for name, vector in aggregator.releases().items():
        np.testing.assert_array_equal(vector, vectors[name])


@pytest.mark.parametrize("signature", [b"", bytes(64)])
def test_the_aggregator_shows_nobody_a_wrong_signature_of_a_context(sites: Consortium, signature: bytes) -> None:
    aggregator = RecoverRound(sites.epoch(), round=0, bound=True)
    for name in sites.names:
        site = sites.sites[name]
        aggregator.add_covered(name, site.self_mask(round=0, vector=sites.draw(), context=b"told"))
        aggregator.add_context(name, signature)
    lost = sites.names[1]
    sites.settle(aggregator, round=0, context=b"told", silent=(lost,))
    with pytest.raises(ProtocolError, match=f"{lost} was lost and has not signed"):
        sites.open(aggregator, round=0, silent=(lost,))


# Whose signature of which round is shown for that of the lost site; the context of round 2 is another one.
WRONG = {
    "none": None,
    "another site's": ("site002", 0),
    "another round's": ("site000", 1),
    "another context's": ("site000", 2),
}


@pytest.mark.parametrize("shown", WRONG.values(), ids=WRONG.keys())
def test_a_share_is_given_for_the_lost_site_s_own_signature_only(
    sites: Consortium, shown: tuple[str, int] | None
) -> None:
    sites.epoch()
    for site in sites.sites.values():
        for round, context in enumerate((b"told", b"told", b"other")):
            site.self_mask(round=round, vector=sites.draw(), context=context)
    lost, *others = sites.names
    signed = {n: sites.sites[n].sign_survivors(round=0, survivors=sites.names, context=b"told") for n in others}
    helper = sites.sites[others[0]]
    helper.open(round=0, survivors=sites.names, signatures=signed)
    relied_on = {} if shown is None else {lost: sites.sites[shown[0]].sign_context(round=shown[1])}
    with pytest.raises(ProtocolError, match="has not signed what this site relied on"):
        helper.open_missing(round=0, missing=[lost], relied_on=relied_on)


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
