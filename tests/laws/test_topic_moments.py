"""Moments of documents and third moments of rows: definitions, sensitivities, and what is refused."""

from __future__ import annotations

import math
from itertools import combinations_with_replacement, permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dpcape import documents, rows
from dpcape.core.errors import InvalidParameter
from dpcape.core.statistic import build
from dpcape.statistics.packing import pack_tensor, unpack_tensor
from dpcape.statistics.third_moments import third_moment, whitened_third_moment
from dpcape.statistics.word_moments import whitened_word_triples, word_pairs, word_shares, word_triples

Array = NDArray[np.float64]
WORD_VECTORS = np.array([[1.0, 0.2], [-0.7, 1.1], [0.3, -0.9], [0.5, 0.5]])
texts = st.lists(st.lists(st.integers(0, 3), max_size=6), min_size=1, max_size=4)


def counts_of(documents_: list[list[int]], n_words: int = 4) -> NDArray[np.int64]:
    return np.array([np.bincount(text, minlength=n_words) for text in documents_], dtype=np.int64)


def average(text: list[int], order: int, vectors: Array) -> Array:
    """Return the average over all ordered choices of positions, by going through them."""
    total = np.zeros((vectors.shape[1],) * order)
    if len(text) < 3:
        return total
    choices = list(permutations(text, order))
    for chosen in choices:
        product: Any = np.ones(())
        for word in chosen:
            product = np.multiply.outer(product, vectors[word])
        total = total + product
    return total / len(choices)


def clipped(part: Array, clip: float) -> Array:
    length = float(np.linalg.norm(part))
    return part * min(1.0, clip / length) if length else part


@settings(max_examples=60, deadline=None, derandomize=True)
@given(texts, st.sampled_from([1.0, 0.4, 0.05]))
def test_averages_over_ordered_pairs_and_triples(chosen: list[list[int]], clip: float) -> None:
    records = documents(csr_array(counts_of(chosen)))
    # Shares are on a grid of 2^40 steps, products of two on one of 2^20 for sqrt(3/2) each.
    for order, make, step in ((1, word_shares, 2.0**-40), (2, word_pairs, 1.5 * 2.0**-20), (3, word_triples, 2.0**-18)):
        statistic = make(records.facts(), clip=clip)
        expected = np.mean([clipped(average(text, order, np.eye(4)), clip) for text in chosen], axis=0)
        found = statistic.unpack(statistic.total(records) / len(chosen))
        np.testing.assert_allclose(found, expected, rtol=0, atol=step * 1.01)
    whitened = whitened_word_triples(records.facts(), WORD_VECTORS, clip=clip)
    expected = np.mean([clipped(average(text, 3, WORD_VECTORS), clip) for text in chosen], axis=0)
    # Public columns, of about 1, have 2^32 steps.
    np.testing.assert_allclose(whitened.unpack(whitened.total(records) / len(chosen)), expected, rtol=0, atol=2e-8)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(texts)
def test_restricting_to_words_is_dropping_the_others(chosen: list[list[int]]) -> None:
    words = np.array([0, 2], dtype=np.int64)
    counts = counts_of(chosen)
    full, small = documents(counts), documents(counts[:, words])
    for make in (word_pairs, word_triples):
        kept = make(full.facts(), clip=0.7, words=words)
        alone = make(small.facts(), clip=0.7)
        np.testing.assert_allclose(kept.total(full), alone.total(small), atol=1e-14)


def test_every_pair_of_short_documents_stays_within_the_diameter() -> None:
    """All documents of up to five words over three words, and the one without words: exhaustive."""
    all_texts = [[], *(list(t) for n in (3, 4, 5) for t in combinations_with_replacement(range(3), n))]
    for clip in (1.0, 0.5):
        for make in (word_shares, word_pairs, word_triples):
            values = []
            for text in all_texts:
                records = documents(counts_of([text], 3))
                values.append(make(records.facts(), clip=clip).total(records))
            stacked = np.array(values)
            distances = np.linalg.norm(stacked[:, None] - stacked[None], axis=2)
            statistic = make(records.facts(), clip=clip)
            assert statistic.diameter == pytest.approx(math.sqrt(2) * clip)
            assert distances.max() <= statistic.sensitivity(1)
            attained = distances[1, all_texts.index([1, 1, 1])]
            assert attained == pytest.approx(statistic.diameter, rel=1e-12)  # "aaa" and "bbb"


def test_first_three_words_alone_would_have_an_antisymmetric_part() -> None:
    """The papers' moments: noise that is symmetric cannot cover what is not (docs/papers/claims.md, topic-moments)."""
    first = np.outer(np.eye(3)[0], np.eye(3)[1])
    assert np.abs(first - first.T).max() == 1.0
    records = documents(counts_of([[0, 1, 2]], 3))
    statistic = word_pairs(records.facts(), clip=1.0)
    released = statistic.unpack(statistic.total(records))
    assert np.abs(released - released.T).max() == 0.0


def test_short_documents_are_counted_but_contribute_nothing() -> None:
    counts = counts_of([[0, 1, 2], [0, 0], [1], []], 3)
    records = documents(counts)
    assert records.n_records == 4
    alone = documents(counts[:1])
    for make in (word_shares, word_pairs, word_triples):
        np.testing.assert_array_equal(
            make(records.facts(), clip=1.0).total(records), make(alone.facts(), clip=1.0).total(alone)
        )


def test_many_documents_and_long_ones_agree_with_a_direct_formula() -> None:
    rng = np.random.default_rng(3)
    counts = rng.poisson(2.0, size=(2500, 6))
    records = documents(csr_array(counts))
    lengths = counts.sum(axis=1)
    kept = counts[lengths >= 3].astype(float)
    n = kept.sum(axis=1)
    eye = np.eye(6)
    tensor = np.einsum("d,di,dj,dk->ijk", 1 / (n * (n - 1) * (n - 2)), kept, kept, kept)
    weights = 1 / (n * (n - 1) * (n - 2))
    pairs = np.einsum("d,di,dj->ij", weights, kept, kept)
    for order in ("ik,ij->ijk", "ik,jk->ijk", "ij,ik->ijk"):
        tensor -= np.einsum(order, pairs, eye)
    tensor += 2 * np.einsum("i,ij,jk->ijk", weights @ kept, eye, eye)
    statistic = word_triples(records.facts(), clip=1.0)
    assert np.linalg.norm(statistic.total(records) - pack_tensor(tensor)) <= 0.1 * statistic.rounding(2500)
    # The same tensor seen through coordinates, block by block.
    vectors = rng.normal(size=(6, 3))
    seen = whitened_word_triples(records.facts(), vectors, clip=100.0)
    expected = np.einsum("ijk,ia,jb,kc->abc", tensor, vectors, vectors, vectors)
    np.testing.assert_allclose(unpack_tensor(seen.total(records), 3), expected, rtol=0, atol=2500 * 2e-8)


@pytest.mark.parametrize(
    ("width", "variance", "expected"), [(10, 0.05, 1.777639), (3, 0.1, 1.483240), (2, 0.3, None), (50, 0.05, None)]
)
def test_third_moment_diameter_is_the_tight_one(width: int, variance: float, expected: float | None) -> None:
    facts = rows(np.zeros((1, width)), bound=1.0).facts()
    diameter = third_moment(facts, noise_variance=variance).diameter
    closed = 2 * math.sqrt(1 - 6 * variance + 3 * (width + 2) * variance**2)
    # Rows on the grid may be a little longer than the bound.
    assert closed <= diameter == pytest.approx(closed, rel=1e-4)
    assert diameter < 2 + 6 * width * variance  # the papers' value
    if expected is not None:
        assert diameter == pytest.approx(expected, rel=1e-4)
    wider = rows(np.zeros((1, width)), bound=2.0).facts()
    scaled = third_moment(wider, noise_variance=4 * variance).diameter
    assert scaled == pytest.approx(8 * diameter, rel=1e-12)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.integers(0, 10**6), st.floats(0.05, 3.0), st.floats(0.0, 2.0))
def test_whitened_radius_bounds_every_contribution_and_is_attained(seed: int, clip: float, variance: float) -> None:
    rng = np.random.default_rng(seed)
    whitener = rng.normal(size=(4, 3)) * rng.uniform(0.1, 2.0, size=3)
    facts = rows(np.zeros((1, 4)), bound=100.0).facts()
    statistic = whitened_third_moment(facts, whitener, clip=clip, noise_variance=variance)
    gram = whitener.T @ whitener
    vectors = np.linalg.eigh(gram)[1].T
    lengths = np.linspace(0.0, clip, 60)
    directions = [*vectors, *(v / np.linalg.norm(v) for v in rng.normal(size=(10, 3)))]
    longest = max(_contribution(length * v, gram, variance) for v in directions for length in lengths)
    assert longest <= statistic.radius
    assert longest >= 0.995 * statistic.radius


def _contribution(z: Array, gram: Array, variance: float) -> float:
    cube = np.einsum("i,j,k->ijk", z, z, z)
    correction = np.einsum("i,jk->ijk", z, gram) + np.einsum("j,ik->ijk", z, gram) + np.einsum("k,ij->ijk", z, gram)
    return float(np.linalg.norm(cube - variance * correction))


# What a site must refuse, because the aggregator sends it.

_ROWS = rows(np.zeros((1, 3)), bound=1.0).facts()
_DOCUMENTS = documents(np.ones((1, 3), dtype=int)).facts()
_GOOD = {"whitener": np.eye(3)[:, :2].copy(), "clip": 1.0, "noise_variance": 0.0, "radius": 1.00001}


@pytest.mark.parametrize(
    "changed",
    [
        {"radius": 0.99},
        {"clip": 1.01},
        {"noise_variance": -0.1},
        {"noise_variance": 10.0},
        {"clip": 0.0},
        {"clip": math.nan},
        {"radius": math.inf},
        {"whitener": np.full((3, 2), math.nan)},
        {"whitener": np.full((3, 2), 1e60)},
        {"whitener": np.ones((2, 2))},
        {"whitener": np.ones((3, 4))},
        {"whitener": np.ones(3)},
        {"whitener": np.ones((3, 2), dtype=np.float32)},
    ],
    ids=str,
)
def test_a_site_refuses_coordinates_that_break_the_proof(changed: dict[str, Any]) -> None:
    build("whitened_third_moment", _ROWS, _GOOD)
    with pytest.raises(InvalidParameter):
        build("whitened_third_moment", _ROWS, {**_GOOD, **changed})


@pytest.mark.parametrize(
    "changed",
    [
        {"words": np.array([0, 0, 1])},
        {"words": np.array([2, 1])},
        {"words": np.array([-1, 1])},
        {"words": np.array([1, 3])},
        {"words": np.array([], dtype=np.int64)},
        {"words": np.array([0.0, 1.0])},
        {"words": np.array([[0, 1]])},
        {"clip": -1.0},
        {"clip": "wide"},
    ],
    ids=str,
)
def test_a_site_refuses_words_that_are_not_positions(changed: dict[str, Any]) -> None:
    good = {"clip": 1.0, "words": np.array([0, 2])}
    for name in ("word_pairs", "word_triples"):
        build(name, _DOCUMENTS, good)
        with pytest.raises(InvalidParameter):
            build(name, _DOCUMENTS, {**good, **changed})


def test_a_whole_tensor_of_thousands_of_words_is_refused() -> None:
    facts = documents(csr_array((2, 5000), dtype=np.int64)).facts()
    with pytest.raises(InvalidParameter, match="whitened"):
        word_triples(facts, clip=1.0)
    assert whitened_word_triples(facts, np.ones((5000, 10)), clip=1.0).size == 220


def test_rounding_stays_below_its_bound() -> None:
    """Against exact integer arithmetic: documents of one length make contributions exact fractions."""
    rng = np.random.default_rng(11)
    counts = rng.multinomial(7, [0.6, 0.3, 0.1], size=4000)
    records = documents(csr_array(counts))
    statistic = word_triples(records.facts(), clip=1.0)
    exact = np.zeros((3, 3, 3))
    for i in range(3):
        for j in range(3):
            for k in range(3):
                one = counts[:, i]
                two = counts[:, j] - (j == i)
                three = counts[:, k] - (k == i) - (k == j)
                exact[i, j, k] = int(np.sum(one * two * three))
    error = np.linalg.norm(statistic.total(records) - pack_tensor(exact / 210.0))
    assert 0 < error <= statistic.rounding(4000)
