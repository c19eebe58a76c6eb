"""Attacks on the sparse masking graph, with everything that an aggregator and colluding sites hold.

Checklist
---------
* targeted drop-outs that leave one site, or a pair, with colluding neighbours only: refused; without the certificate
  the attack succeeds, for the summed vectors of RECOVER and for RETRY
* whatever graph a last speaker picks: an opened sum is over all honest survivors
* colluding neighbours at the limit rebuild nothing
* different graphs, or survivor sets, for different sites; a site that lies about its nonce; old hellos and offers
"""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from dpcape.core.errors import ProtocolError
from dpcape.core.secure_sum.aggregate import RecoverRound
from dpcape.core.secure_sum.graph import MaskingGraph, masking_graph
from dpcape.core.secure_sum.links import make_hello
from dpcape.core.secure_sum.offers import COVER, KEY, SUM

from .adversary import Adversary
from .consortium import Consortium, added
from .test_secrecy import watched_round

N_SITES, N_COLLUDING, N_NEIGHBOURS = 48, 3, 10
pytestmark = pytest.mark.usefixtures("fixed_graphs")
REFUSED = "colluding sites might separate"


def begun() -> Consortium:
    return Consortium(N_SITES, n_colluding=N_COLLUDING, n_neighbours=N_NEIGHBOURS).begin()


def separating(graph: MaskingGraph, targets: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Colluders and drop-outs that separate the targets from all other honest sites."""
    around = sorted({peer for name in targets for peer in graph.neighbours(name)} - set(targets))
    return tuple(around[:N_COLLUDING]), tuple(around[N_COLLUDING:])


def targets_of(sites: Consortium, graph: MaskingGraph, count: int) -> tuple[str, ...]:
    """One site, or two neighbours of whose other neighbours few enough are lost."""
    if count == 1:
        return sites.names[:1]
    spare = N_SITES - sites.config.threshold
    pairs = ((one, other) for one in sites.names for other in graph.neighbours(one))
    return next(pair for pair in pairs if len(separating(graph, pair)[1]) <= spare)


@pytest.mark.parametrize("count", [1, 2])
def test_targeted_drop_outs_are_refused(count: int) -> None:
    sites = begun()
    epoch = sites.epoch()
    targets = targets_of(sites, epoch.graph, count)
    _, dropped = separating(epoch.graph, targets)
    survivors = tuple(name for name in sites.names if name not in dropped)
    assert len(survivors) >= sites.config.floor, "the set is large enough; only the certificate refuses it"
    aggregator = RecoverRound(epoch, round=0)
    vectors = sites.draws()
    sites.send(aggregator, round=0, summed={name: vectors[name] for name in survivors})
    with pytest.raises(ProtocolError, match=REFUSED):
        aggregator.settle()
    for name in survivors:
        with pytest.raises(ProtocolError, match=REFUSED):
            sites.sites[name].sign_survivors(round=0, survivors=survivors)
        with pytest.raises(ProtocolError, match="is unusable"):
            sites.sites[name].open(round=0, survivors=survivors, signatures={})
    # Only this round is lost.
    later = RecoverRound(epoch, round=1)
    sites.send(later, round=1, summed=vectors)
    sites.settle(later, round=1)
    sites.open(later, round=1)
    np.testing.assert_array_equal(later.total(), added(vectors, sites.names))


@pytest.mark.parametrize("count", [1, 2])
def test_without_the_certificate_targeted_drop_outs_open_the_targets(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sites = begun()
    epoch = sites.epoch()
    targets = targets_of(sites, epoch.graph, count)
    colluders, dropped = separating(epoch.graph, targets)
    monkeypatch.setattr(MaskingGraph, "check_connected", lambda *_: None)
    adversary, vectors = Adversary(sites, epoch, colluders), sites.draws()
    watched_round(sites, adversary, summed=vectors, dropped=dropped)
    np.testing.assert_array_equal(adversary.sums(0)[tuple(sorted(targets))], added(vectors, targets))


def test_targeted_rosters_of_retry_are_refused_before_anything_is_sent() -> None:
    sites = begun()
    graph = masking_graph(sites.config, sites.sites[sites.names[0]].session_id)
    _, dropped = separating(graph, sites.names[:1])
    roster = [name for name in sites.names if name not in dropped]
    for name in roster:
        with pytest.raises(ProtocolError, match=REFUSED):
            sites.sites[name].retry_mask(round=0, attempt=0, roster=roster, vector=sites.draw())


def test_without_the_certificate_a_targeted_roster_opens_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    sites = begun()
    victim = sites.names[0]
    graph = masking_graph(sites.config, sites.sites[victim].session_id)
    colluders, dropped = separating(graph, (victim,))
    monkeypatch.setattr(MaskingGraph, "check_connected", lambda *_: None)
    roster = [name for name in sites.names if name not in dropped]
    vectors = {name: np.zeros(5, dtype=np.uint64) if name in colluders else sites.draw() for name in roster}
    sent = {n: sites.sites[n].retry_mask(round=0, attempt=0, roster=roster, vector=v) for n, v in vectors.items()}
    # The colluders hold the keys of all masks of the victim; each sends its mask with the victim alone.
    links = {name: sites.sites[name]._retry._links for name in colluders}
    known = np.zeros(5, dtype=np.uint64)
    for name in colluders:
        links[name].graph = _Only({name: (victim,)})
        sites.sites[name]._retry._last, sites.sites[name]._retry._seen = (-1, -1), set()
        zero = np.zeros(5, dtype=np.uint64)
        known += sites.sites[name].retry_mask(round=0, attempt=0, roster=roster, vector=zero)
    np.testing.assert_array_equal(sent[victim] + known, vectors[victim])


class _Only:
    """A graph as a colluding site may pretend it."""

    def __init__(self, table: dict[str, tuple[str, ...]]) -> None:
        self._table = table

    def neighbours(self, site: str) -> tuple[str, ...]:
        return self._table[site]

    def check_connected(self, names: tuple[str, ...]) -> None:
        """Check nothing."""


def test_the_worst_graph_of_many_opens_no_more_than_the_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    """A last speaker tries nonces until as many neighbours of a victim as possible collude, and drops others."""
    sites = Consortium(N_SITES, n_colluding=N_COLLUDING, n_neighbours=N_NEIGHBOURS)
    victim, colluders = sites.names[0], sites.names[-N_COLLUDING:]
    graphs = (masking_graph.__wrapped__(sites.config, bytes([k]) * 32) for k in range(200))
    chosen = max(graphs, key=lambda graph: len(set(colluders) & set(graph.neighbours(victim))))
    assert set(colluders) <= set(chosen.neighbours(victim)), "the search found what it looked for"
    for module in ("links", "aggregator_epoch"):
        monkeypatch.setattr(f"dpcape.core.secure_sum.{module}.masking_graph", lambda *_: chosen)
    epoch = sites.begin().epoch()
    adversary, vectors = Adversary(sites, epoch, colluders), sites.draws()
    honest = [name for name in chosen.neighbours(victim) if name not in colluders]
    most = next(islice((k for k in range(len(honest), -1, -1) if _passes(chosen, sites, honest[:k])), 1))
    dropped = tuple(honest[:most])
    aggregator = watched_round(sites, adversary, summed=vectors, dropped=dropped)
    expected = tuple(name for name in aggregator.survivors if name not in colluders)
    assert list(adversary.sums(0)) == [expected]
    assert most < len(honest)
    np.testing.assert_array_equal(adversary.sums(0)[expected], added(vectors, expected))


def _passes(graph: MaskingGraph, sites: Consortium, dropped: list[str]) -> bool:
    try:
        graph.check_connected(tuple(name for name in sites.names if name not in dropped))
    except ProtocolError:
        return False
    return True


def test_colluding_neighbours_at_the_limit_rebuild_nothing() -> None:
    sites = begun()
    epoch, victim = sites.epoch(), sites.names[0]
    neighbours = epoch.graph.neighbours(victim)
    adversary = Adversary(sites, epoch, neighbours[:N_COLLUDING])
    assert all(adversary.secret(victim, 0, kind) is None for kind in (SUM, COVER, KEY))
    vectors, covered = sites.draws(), sites.draws()
    late = next(name for name in neighbours[N_COLLUDING:])
    watched_round(sites, adversary, summed=vectors, covered=covered, dropped=(late,))
    assert adversary.secret(victim, 0, KEY) is None, "a live site's pair keys stay secret"
    assert adversary.secret(late, 0, KEY) is not None, "those of a dropped site were rebuilt"
    assert adversary.secret(late, 0, SUM) is adversary.secret(late, 0, COVER) is None, "its self-masks were not"
    expected = tuple(name for name in sites.names if name not in (late, *neighbours[:N_COLLUDING]))
    assert list(adversary.sums(0)) == [expected]
    assert late not in adversary.releases(0)


def test_as_many_colluders_as_the_threshold_rebuild_a_secret() -> None:
    """The limit, which also shows that the adversary looks in the right place."""
    sites = begun()
    epoch, victim = sites.epoch(), sites.names[0]
    count = epoch.graph.threshold(victim)
    assert count > N_COLLUDING
    neighbours = epoch.graph.neighbours(victim)
    assert Adversary(sites, epoch, neighbours[: count - 1]).secret(victim, 0, KEY) is None
    assert Adversary(sites, epoch, neighbours[:count]).secret(victim, 0, KEY) is not None


def test_a_site_that_lies_about_its_nonce_splits_the_session() -> None:
    """Two signed hellos of one site give two session ids, hence two graphs; offers of one are refused in the other."""
    sites = Consortium(N_SITES, n_colluding=N_COLLUDING, n_neighbours=N_NEIGHBOURS)
    victim, liar = sites.names[0], sites.names[-1]
    private = sites.sites[liar]._private
    second = make_hello(liar, sites.identities[liar], config=sites.config, private=private)
    for name in sites.names[:-1]:
        shown = [second if h.sender == liar and name == victim else h for h in sites.hellos]
        sites.sites[name].begin(shown)
    sites.sites[liar].begin(sites.hellos)
    ids = {sites.sites[name].session_id for name in sites.names}
    assert len(ids) == 2
    graphs = [masking_graph(sites.config, session_id) for session_id in ids]
    assert graphs[0].neighbours(victim) != graphs[1].neighbours(victim)
    offers = [site.offer(epoch=0, n_rounds=1) for site in sites.sites.values()]
    for name in (victim, sites.names[1]):
        with pytest.raises(ProtocolError, match="not signed by its pinned identity for this session"):
            sites.sites[name].accept([offer.addressed_to(name) for offer in offers])


def test_different_survivor_sets_are_not_opened() -> None:
    sites = begun()
    sites.epoch()
    one, two = sites.names, sites.names[1:]
    for name in sites.names:
        sites.sites[name].recover_mask(round=0, vector=sites.draw())
    half = sites.names[1 : N_SITES // 2]
    signed = {n: sites.sites[n].sign_survivors(round=0, survivors=two if n in half else one) for n in sites.names}
    for name in (half[0], sites.names[-1]):
        shown = two if name in half else one
        signatures = {n: signed[n] for n in shown}
        with pytest.raises(ProtocolError, match="signed the same set"):
            sites.sites[name].open(round=0, survivors=shown, signatures=signatures)


def test_graphs_of_earlier_sessions_and_epochs_cannot_be_replayed() -> None:
    sites = begun()
    sites.epoch(0)
    old_hellos, old_offers, name = sites.hellos, sites.offers, sites.names[0]
    sites.sites[name] = sites.session(name)
    with pytest.raises(ProtocolError, match="own hello was changed"):
        sites.sites[name].begin(old_hellos)
    again = begun()
    again.epoch(0)
    earlier = again.offers
    again.sites[name].offer(epoch=1, n_rounds=3)
    with pytest.raises(ProtocolError, match="missing or changed"):
        again.sites[name].accept([offer.addressed_to(name) for offer in earlier])
    again.sites[name].offer(epoch=2, n_rounds=3)
    with pytest.raises(ProtocolError, match="not signed by its pinned identity"):
        again.sites[name].accept([offer.addressed_to(name) for offer in old_offers])


def test_split_rosters_of_retry_give_noise() -> None:
    """Two certified rosters for two parts of the sites: no sum over a part, or over all, is that of the vectors."""
    sites = begun()
    vectors = sites.draws(50)
    small, half = sites.names[:-1], sites.names[: N_SITES // 2]
    sent = {}
    for name in small:
        roster = small if name in half else sites.names
        sent[name] = sites.sites[name].retry_mask(round=0, attempt=0, roster=roster, vector=vectors[name])
    rest = tuple(name for name in small if name not in half)
    for part in (half, rest, small, half[:1]):
        assert not np.any(added(sent, part) == added(vectors, part))
