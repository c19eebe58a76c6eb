"""What an aggregator with colluding sites can compute from everything it holds.

Checklist
---------
* late vector of a dropped site: x is not computable from the aggregator's whole state
* late CAPE release of a dropped site stays covered, also after the correction
* C colluders: no honest value; C + 1 colluders: the limit, x *is* recoverable (which also proves the attack
works)
* t - 1 survivors: abort, and no share released
* tells one site "alive" and the others "dropped"; the same without the check, to show that the attack is one
* a reconstructable secret over two rounds: why it must not be
* different rosters or epochs to different sites: noise, not a partial sum
"""

from __future__ import annotations

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from dpcape.core.errors import ProtocolError, SiteLost
from dpcape.core.secure_sum.aggregate import RecoverRound
from dpcape.core.secure_sum.aggregator_epoch import AggregatorEpoch
from dpcape.core.secure_sum.keystream import masked
from dpcape.core.secure_sum.offers import KEY, SUM, check_offers, entry
from dpcape.core.secure_sum.round_keys import pair_context, pair_key, self_key

from .adversary import Adversary
from .consortium import Consortium, Vectors, added


def watched_round(
    sites: Consortium,
    adversary: Adversary,
    *,
    summed: Vectors | None = None,
    covered: Vectors | None = None,
    dropped: tuple[str, ...] = (),
    lost: tuple[str, ...] = (),
) -> RecoverRound:
    """Run round 0; `dropped` sites send their vectors, but too late; `lost` sites never open."""
    aggregator = RecoverRound(adversary.epoch, round=0)
    for name, vector in (covered or {}).items():
        adversary.covered[name, 0] = sites.sites[name].self_mask(round=0, vector=vector)
        if name not in dropped:
            aggregator.add_covered(name, adversary.covered[name, 0])
    for name, vector in (summed or {}).items():
        adversary.summed[name, 0] = sites.sites[name].recover_mask(round=0, vector=vector)
        if name not in dropped:
            aggregator.add_masked(name, adversary.summed[name, 0])
    survivors = sites.settle(aggregator, round=0)
    quorum = aggregator.quorum()
    for name in survivors:
        if name not in lost:
            opening = sites.sites[name].open(round=0, survivors=survivors, signatures=quorum)
            adversary.openings.append(opening)
            aggregator.add_opening(opening)
    for name in survivors:
        if aggregator.missing and name not in lost:
            shares = sites.sites[name].open_missing(round=0, missing=aggregator.missing)
            adversary.seed_shares.append(shares)
            aggregator.add_shares(shares)
    return aggregator


@pytest.mark.parametrize("n_colluding", [0, 1, 3])
@pytest.mark.parametrize("n_dropped", [0, 1, 3])
@pytest.mark.parametrize("n_lost", [0, 1])
def test_only_the_sum_over_the_survivors_is_computable(n_colluding: int, n_dropped: int, n_lost: int) -> None:
    sites = Consortium(10, threshold=7, n_colluding=3).begin()
    epoch = sites.epoch()
    colluders = sites.names[:n_colluding]
    adversary = Adversary(sites, epoch, colluders)
    vectors, dropped, lost = sites.draws(), sites.names[-n_dropped:] if n_dropped else (), ()
    if n_lost and n_dropped < 3:
        lost = (sites.names[5],)
    aggregator = watched_round(sites, adversary, summed=vectors, dropped=dropped, lost=lost)
    expected = tuple(name for name in sites.names if name not in (*colluders, *dropped))
    found = adversary.sums(0)
    assert list(found) == [expected]
    np.testing.assert_array_equal(found[expected], added(vectors, expected))
    np.testing.assert_array_equal(aggregator.total(), added(vectors, aggregator.survivors))
    for name in adversary.honest:
        assert not np.any(adversary.unmask(name, 0) == vectors[name])


def test_a_late_vector_stays_masked_although_its_round_key_is_known() -> None:
    sites = Consortium(4, threshold=3, n_colluding=1).begin()
    adversary = Adversary(sites, sites.epoch(), sites.names[:1])
    vectors = sites.draws(50)
    watched_round(sites, adversary, summed=vectors, dropped=sites.names[3:])
    late = sites.names[3]
    assert adversary.secret(late, 0, 2) is not None, "the round key of the dropped site was rebuilt"
    assert adversary.secret(late, 0, 0) is None, "its seed was not"
    assert not np.any(adversary.unmask(late, 0) == vectors[late])


def test_one_colluder_too_many_recovers_a_value() -> None:
    sites = Consortium(4, threshold=3, n_colluding=1).begin()
    one, other, victim, bystander = sites.names
    adversary = Adversary(sites, sites.epoch(), [one, other])
    vectors, survivors = sites.draws(), (one, other, victim)
    signed = {}
    for name in sites.names:
        adversary.summed[name, 0] = sites.sites[name].recover_mask(round=0, vector=vectors[name])
    for name in survivors:
        signed[name] = sites.sites[name].sign_survivors(round=0, survivors=survivors)
    adversary.openings.append(sites.sites[victim].open(round=0, survivors=survivors, signatures=signed))
    np.testing.assert_array_equal(adversary.sums(0)[(victim,)], vectors[victim])
    assert (bystander,) not in adversary.sums(0)


@pytest.mark.parametrize("n_dropped", [0, 1, 2])
def test_cape_releases_are_uncovered_for_survivors_only(n_dropped: int) -> None:
    sites = Consortium(7, threshold=5, n_colluding=1).begin()
    adversary = Adversary(sites, sites.epoch(), sites.names[:1])
    draws, releases = sites.draws(), sites.draws()
    dropped = sites.names[-n_dropped:] if n_dropped else ()
    correction = draws if n_dropped else None
    aggregator = watched_round(sites, adversary, summed=correction, covered=releases, dropped=dropped)
    survivors = aggregator.survivors
    assert set(adversary.releases(0)) == set(survivors) - {sites.names[0]}
    for name, release in aggregator.releases().items():
        np.testing.assert_array_equal(release, releases[name])
    expected = [tuple(name for name in survivors if name != sites.names[0])] if n_dropped else []
    assert list(adversary.sums(0)) == expected


def test_too_few_survivors_release_no_share() -> None:
    sites = Consortium(4, threshold=3, n_colluding=1).begin()
    epoch = sites.epoch()
    aggregator = RecoverRound(epoch, round=0)
    vectors = sites.draws()
    left = sites.names[:2]
    sites.send(aggregator, round=0, summed={name: vectors[name] for name in left})
    with pytest.raises(SiteLost, match="at least 3 required sites"):
        aggregator.settle()
    for name in left:
        with pytest.raises(SiteLost, match="at least 3 required sites"):
            sites.sites[name].sign_survivors(round=0, survivors=left)
        with pytest.raises(ProtocolError, match="is unusable"):
            sites.sites[name].open(round=0, survivors=left, signatures={})


def alive_and_dropped(sites: Consortium) -> tuple[Adversary, str, Vectors, list[str]]:
    """Tell the victim that it is alive and the others that it dropped; return what came of it."""
    colluder, victim, *others = sites.names
    adversary = Adversary(sites, sites.epoch(), [colluder])
    vectors = sites.draws()
    for name, vector in vectors.items():
        adversary.summed[name, 0] = sites.sites[name].recover_mask(round=0, vector=vector)
    everybody, without = sites.names, tuple(name for name in sites.names if name != victim)
    signed = {name: sites.sites[name].sign_survivors(round=0, survivors=without) for name in without}
    for name in others:
        request = {"round": 0, "survivors": without, "signatures": signed}
        adversary.openings.append(sites.sites[name].open(**request))
    signed[victim] = sites.sites[victim].sign_survivors(round=0, survivors=everybody)
    try:
        request = {"round": 0, "survivors": everybody, "signatures": signed}
        adversary.openings.append(sites.sites[victim].open(**request))
    except ProtocolError as error:
        assert "signed the same set" in str(error)  # noqa: PT017
    return adversary, victim, vectors, others


def test_alive_to_one_and_dropped_to_the_others() -> None:
    sites = Consortium(4, threshold=3, n_colluding=1).begin()
    adversary, victim, vectors, others = alive_and_dropped(sites)
    assert list(adversary.sums(0)) == [tuple(others)]
    assert not np.any(adversary.unmask(victim, 0) == vectors[victim])


def test_without_the_signatures_the_same_attack_succeeds(monkeypatch: pytest.MonkeyPatch) -> None:
    sites = Consortium(4, threshold=3, n_colluding=1).begin()
    monkeypatch.setattr("dpcape.core.secure_sum.recover.verify", lambda *_: True)
    adversary, victim, vectors, _ = alive_and_dropped(sites)
    np.testing.assert_array_equal(adversary.sums(0)[(victim,)], vectors[victim])


def test_with_one_sharing_for_two_rounds_a_drop_out_opens_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Why every round has secrets of its own: a shared round key, rebuilt in round 1, opens round 0."""
    real = np.random.default_rng(1).bytes
    monkeypatch.setattr("os.urandom", lambda n: real(n // 2) * 2 if n == 192 else real(n))
    monkeypatch.setattr("dpcape.core.secure_sum.offers._refuse_repeated_keys", lambda offers: None)
    sites = Consortium(4, threshold=3).begin()
    adversary = Adversary(sites, sites.epoch(n_rounds=2))
    vectors, victim = sites.draws(), sites.names[3]
    aggregator = watched_round(sites, adversary, summed=vectors)
    assert aggregator.survivors == sites.names
    later = RecoverRound(adversary.epoch, round=1)
    sites.send(later, round=1, summed={name: sites.draw() for name in sites.names[:3]})
    survivors = sites.settle(later, round=1)
    stolen = {}
    for name in survivors:
        opening = sites.sites[name].open(round=1, survivors=survivors, signatures=later.quorum())
        stolen[adversary.epoch.graph.index(victim, name)] = opening.key_shares[victim]
    assert adversary.secret(victim, 0, 2) is None
    monkeypatch.setattr(adversary, "_shares_of", lambda site, round, kind: stolen if kind == 2 else {})
    np.testing.assert_array_equal(adversary.unmask(victim, 0), vectors[victim])


def test_different_rosters_for_retry_give_noise() -> None:
    sites = Consortium(5, threshold=3).begin()
    vectors = sites.draws(50)
    small, large = sites.names[:4], sites.names
    sent = {}
    for name in small:
        roster = large if name == small[0] else small
        sent[name] = sites.sites[name].retry_mask(round=0, attempt=0, roster=roster, vector=vectors[name])
    for subset in (small, small[1:], small[:1]):
        wrong = added(sent, subset)
        assert not np.any(wrong == added(vectors, subset))


def test_different_epochs_to_different_sites_cannot_be_opened() -> None:
    sites = Consortium(5, threshold=4, n_colluding=1).begin()
    offers = [site.offer(epoch=0, n_rounds=1) for site in sites.sites.values()]
    first, *others = sites.names
    sites.sites[first].accept(offers[:4])
    for name in others:
        sites.sites[name].accept(offers)
    survivors = sites.names[:4]
    signed = {}
    for name in survivors:
        sites.sites[name].recover_mask(round=0, vector=sites.draw())
        signed[name] = sites.sites[name].sign_survivors(round=0, survivors=survivors)
    for name in survivors:
        with pytest.raises(ProtocolError, match="signed the same set"):
            sites.sites[name].open(round=0, survivors=survivors, signatures=signed)


def test_a_site_with_another_epoch_keeps_a_mask_although_its_seed_is_opened() -> None:
    """The others count it as a survivor and give its seed; a pair mask with a signer remains (docs, split views)."""
    sites = Consortium(4, threshold=3, n_colluding=1).begin()
    colluder, victim, signer, other = sites.names
    offers = [site.offer(epoch=0, n_rounds=1) for site in sites.sites.values()]
    for name in (colluder, signer, other):
        sites.sites[name].accept(offers)
    sites.sites[victim].accept(offers[:3])
    epoch = AggregatorEpoch(sites.config, hellos=sites.hellos, offers=offers, pinned=sites.pinned)
    adversary, vector = Adversary(sites, epoch, [colluder]), sites.draw()
    sent = sites.sites[victim].recover_mask(round=0, vector=vector)
    for name in (colluder, signer, other):
        sites.sites[name].recover_mask(round=0, vector=sites.draw())
    signers = (colluder, signer, other)
    signed = {n: sites.sites[n].sign_survivors(round=0, survivors=sites.names) for n in signers}
    for name in (signer, other):
        site = sites.sites[name]
        adversary.openings.append(site.open(round=0, survivors=sites.names, signatures=signed))
        adversary.seed_shares.append(site.open_missing(round=0, missing=[victim]))
    seed = adversary.secret(victim, 0, SUM)
    assert seed is not None
    assert adversary.secret(victim, 0, KEY) is adversary.secret(signer, 0, KEY) is None
    _, seen = check_offers(offers[:3], config=sites.config, session_id=epoch.session_id, pinned=sites.pinned)
    context = pair_context(seen, round=0, size=vector.size, bound=None)

    def pair(private: bytes, owner: str, peer: str) -> bytes:
        public = entry(epoch.offers[peer].keys, 0)
        return pair_key(X25519PrivateKey.from_private_bytes(private), public, names=(owner, peer), context=context)

    own = self_key(seed, SUM, epoch_digest=seen, round=0, size=vector.size)
    stripped = masked(sent, plus=[pair(adversary.secret(colluder, 0, KEY), colluder, victim)], minus=[own])
    assert not np.any(stripped == vector)
