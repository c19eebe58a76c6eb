"""The sparse masking graph and its certificate.

Checklist
---------
* every set that is certified stays connected whoever colludes (exhaustive, all graphs of few sites); the converse fails
  only where it may
* rounding: sets whose eigenvalue is the limit itself are refused
* the graph: same at all sites, other in every session, at most `n_neighbours`, certified at the advised numbers
* sums with and without drop-outs equal those of the complete graph
"""

from __future__ import annotations

import itertools
from itertools import combinations

import numpy as np
import pytest

from dpcape.core.errors import InvalidParameter, ProtocolError, SiteLost
from dpcape.core.protocols.secure_session import enough_neighbours
from dpcape.core.secure_sum.aggregate import RecoverRound
from dpcape.core.secure_sum.config import Config
from dpcape.core.secure_sum.graph import MARGIN, MaskingGraph, is_certified, masking_graph

from .consortium import Consortium, added

pytestmark = pytest.mark.usefixtures("fixed_graphs")


def names_of(n_sites: int) -> tuple[str, ...]:
    return tuple(f"site{k:03d}" for k in range(n_sites))


def config_of(n_sites: int, n_neighbours: int, n_colluding: int = 0) -> Config:
    threshold = (n_sites + n_colluding) // 2 + 1
    return Config(names_of(n_sites), max(threshold, n_colluding + 2), n_colluding, b"test", n_neighbours)


def laplacian_of(n_sites: int, edges: list[tuple[int, int]]) -> np.ndarray:
    matrix = np.zeros((n_sites, n_sites))
    for i, j in edges:
        matrix[i, j] = matrix[j, i] = -1.0
        matrix[i, i] += 1
        matrix[j, j] += 1
    return matrix


def is_connected(vertices: set[int], edges: list[tuple[int, int]]) -> bool:
    reached, left = set(), {min(vertices)}
    while left:
        reached |= left
        left = {b for a, b in (*edges, *((j, i) for i, j in edges)) if a in reached and b in vertices} - reached
    return reached == vertices


def survives(n_sites: int, edges: list[tuple[int, int]], n_colluding: int) -> bool:
    """Whether the others stay connected for every set of colluders up to the number."""
    every = set(range(n_sites))
    sets = [set(c) for count in range(n_colluding + 1) for c in combinations(every, count)]
    return all(is_connected(every - colluders, edges) for colluders in sets)


def test_a_certified_graph_stays_connected_whoever_colludes() -> None:
    """All 1024 graphs of five sites, and every number of colluders."""
    pairs = list(combinations(range(5), 2))
    certified = 0
    for chosen in itertools.product((False, True), repeat=len(pairs)):
        edges = list(itertools.compress(pairs, chosen))
        for n_colluding in range(4):
            if is_certified(laplacian_of(5, edges), n_colluding):
                certified += 1
                assert survives(5, edges, n_colluding)
    assert certified > 500, "a certificate that nothing passes proves nothing"


def test_certified_sets_of_survivors_stay_connected_whoever_colludes() -> None:
    """Every set of survivors of small random graphs, and every set of colluders in it."""
    n_sites, tried, refused = 9, 0, 0
    for seed, n_colluding in itertools.product(range(2), range(3)):
        graph = masking_graph(config_of(n_sites, 6, n_colluding), bytes([seed]) * 32)
        edges = [tuple(edge) for edge in graph._edges.tolist()]
        for count in range(4, n_sites + 1):
            for chosen in combinations(range(n_sites), count):
                names = tuple(graph._config.sites[k] for k in chosen)
                place = {k: row for row, k in enumerate(chosen)}
                inside = [(place[i], place[j]) for i, j in edges if i in place and j in place]
                try:
                    graph.check_connected(names)
                except ProtocolError:
                    refused += 1
                    continue
                tried += 1
                assert survives(count, inside, n_colluding)
    assert tried > 100
    assert refused > 100


def test_at_the_limit_a_set_is_refused() -> None:
    """K sites joined to all others, which are two groups: the eigenvalue is K, and K colluders separate them."""
    for n_middle, n_group in ((1, 4), (3, 5), (20, 90)):
        n_sites = n_middle + 2 * n_group
        middle, one = range(n_middle), range(n_middle, n_middle + n_group)
        other = range(n_middle + n_group, n_sites)
        edges = [*combinations((*middle, *one), 2), *combinations(other, 2), *itertools.product(middle, other)]
        laplacian = laplacian_of(n_sites, edges)
        assert np.linalg.eigvalsh(laplacian)[1] == pytest.approx(n_middle, abs=1e-9)
        assert not is_certified(laplacian, n_middle)
        assert is_certified(laplacian, n_middle - 1)


def test_the_margin_covers_the_rounding_of_the_factorization() -> None:
    """The bound of the docstring at 3000 sites that all mask with each other is far below the margin."""
    n_sites = 3000
    assert (n_sites + 2) * n_sites * n_sites * 2.0**-52 < MARGIN / 100
    assert not is_certified(np.full((3, 3), np.nan), 0)
    assert not is_certified(laplacian_of(3, [(0, 1), (1, 2), (0, 2)]) * 2.0**45, 0), "the bound does not hold there"


def test_the_graph_is_public_and_new_in_every_session() -> None:
    config = config_of(50, 12, 2)
    one, same, other = (
        MaskingGraph(config, masking_graph.__wrapped__(config, session)._edges)
        for session in (b"a" * 32, b"a" * 32, b"b" * 32)
    )
    assert all(one.neighbours(name) == same.neighbours(name) for name in config.sites)
    assert any(one.neighbours(name) != other.neighbours(name) for name in config.sites)
    for name in config.sites:
        neighbours = one.neighbours(name)
        assert name not in neighbours
        assert 2 < len(neighbours) <= 12
        assert all(name in one.neighbours(peer) for peer in neighbours)
        assert one.threshold(name) > max(2, len(neighbours) / 2)


@pytest.mark.parametrize(("n_neighbours", "n_colluding"), [(48, 26), (60, 36)])
def test_no_secret_is_shared_so_that_colluding_neighbours_could_rebuild_it(n_neighbours: int, n_colluding: int) -> None:
    """Of many neighbours more than half may collude, and the graph is certified all the same."""
    config = config_of(150, n_neighbours, n_colluding)
    graph = masking_graph(config, b"c" * 32)
    graph.check_connected(config.sites)
    assert min(len(graph.neighbours(name)) for name in config.sites) < 2 * n_colluding
    assert all(n_colluding < graph.threshold(name) <= len(graph.holders(name)) for name in config.sites)


@pytest.mark.parametrize(("n_sites", "n_colluding", "lost"), [(40, 1, 3), (120, 2, 6), (120, 10, 20), (150, 2, 40)])
def test_the_advised_number_of_neighbours_is_enough(n_sites: int, n_colluding: int, lost: int) -> None:
    """Fixed seeds: eight graphs, a random set of the fewest survivors of each."""
    number = enough_neighbours(n_sites, n_colluding, n_sites - lost)
    config, generator = config_of(n_sites, number, n_colluding), np.random.default_rng(3)
    for seed in range(8):
        graph = masking_graph(config, bytes([seed]) * 32)
        graph.check_connected(config.sites)
        kept = np.sort(generator.permutation(n_sites)[lost:])
        graph.check_connected(tuple(config.sites[k] for k in kept))


@pytest.mark.parametrize("n_neighbours", [2, 5, -4, 39, True, 40, 8.0])
def test_improper_numbers_of_neighbours(n_neighbours: object) -> None:
    with pytest.raises(InvalidParameter, match="n_neighbours"):
        Config(names_of(40), 21, 0, b"test", n_neighbours)  # type: ignore[arg-type]  # wrong on purpose


def test_the_configuration_is_bound_to_the_number() -> None:
    digests = {config_of(40, n).digest() for n in (0, 4, 6)}
    assert len(digests) == 3


def test_a_session_whose_graph_is_not_certified_does_not_begin() -> None:
    sites = Consortium(20, n_colluding=5, n_neighbours=4)
    with pytest.raises(ProtocolError, match="colluding sites might separate"):
        sites.begin()


@pytest.mark.parametrize("n_dropped", [0, 1, 3])
@pytest.mark.parametrize("n_lost", [0, 2])
def test_the_sum_is_that_of_the_survivors(n_dropped: int, n_lost: int) -> None:
    sites = Consortium(24, n_colluding=2, n_neighbours=14).begin()
    epoch = sites.epoch()
    vectors, covered = sites.draws(), sites.draws()
    arrived = sites.names[n_dropped:]
    aggregator = RecoverRound(epoch, round=0)
    sites.send(
        aggregator,
        round=0,
        summed={n: vectors[n] for n in sites.names if n in arrived},
        covered={n: covered[n] for n in sites.names if n in arrived},
    )
    survivors = sites.settle(aggregator, round=0)
    sites.open(aggregator, round=0, silent=arrived[:n_lost])
    assert survivors == arrived
    np.testing.assert_array_equal(aggregator.total(), added(vectors, arrived))
    for name, release in aggregator.releases().items():
        np.testing.assert_array_equal(release, covered[name])
    np.testing.assert_array_equal(sites.retry(vectors), added(vectors, sites.names))
    some = {name: sites.draw() for name in sites.names[2:]}
    np.testing.assert_array_equal(sites.retry(some, attempt=1), added(some, sites.names[2:]))


def test_wrong_shares_of_neighbours_are_left_out_and_reported() -> None:
    sites = Consortium(24, n_colluding=2, n_neighbours=14).begin()
    epoch, vectors, lost = sites.epoch(), sites.draws(), sites.names[-1]
    aggregator = RecoverRound(epoch, round=0)
    sites.send(aggregator, round=0, summed={name: vectors[name] for name in sites.names[:-1]})
    survivors = sites.settle(aggregator, round=0)
    liar = epoch.graph.neighbours(lost)[0]
    for name in survivors:
        opening = sites.sites[name].open(round=0, survivors=survivors, signatures=aggregator.quorum())
        assert (lost in opening.key_shares) == (name in epoch.graph.neighbours(lost))
        if name == liar:
            opening.key_shares[lost] = bytes(33)
        aggregator.add_opening(opening)
    np.testing.assert_array_equal(aggregator.total(), added(vectors, survivors))
    assert any(liar in complaint for complaint in aggregator.complaints)


def test_too_few_neighbours_left_to_rebuild_end_the_round() -> None:
    sites = Consortium(24, n_colluding=2, n_neighbours=14).begin()
    epoch, vectors, lost = sites.epoch(), sites.draws(), sites.names[-1]
    aggregator = RecoverRound(epoch, round=0)
    sites.send(aggregator, round=0, summed={name: vectors[name] for name in sites.names[:-1]})
    sites.settle(aggregator, round=0)
    silent = epoch.graph.neighbours(lost)[: len(epoch.graph.neighbours(lost)) - epoch.graph.threshold(lost) + 1]
    sites.open(aggregator, round=0, silent=silent)
    with pytest.raises(SiteLost, match=f"share of site {lost}"):
        aggregator.total()


def test_with_a_sparse_graph_every_site_must_offer() -> None:
    """A site's roster decides with whom it masks: without this rule it could be shown one without its neighbours."""
    sites = Consortium(24, n_colluding=2, n_neighbours=14).begin()
    offers = [site.offer(epoch=0, n_rounds=1) for site in sites.sites.values()]
    name = sites.names[0]
    with pytest.raises(ProtocolError, match="all sites must offer"):
        sites.sites[name].accept([offer.addressed_to(name) for offer in offers[:-1]])
