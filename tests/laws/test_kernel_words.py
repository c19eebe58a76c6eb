"""Moments of documents on their grids: how long their vectors can be, and searches for documents too far apart."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator

import numpy as np
import pytest
from scipy.sparse import csr_array

from dpcape import Exact, Federation, documents, in_process
from dpcape.core.totals import released_total
from dpcape.core.word_counts import WordCounts
from dpcape.statistics.word_moments import (
    _root_reach,
    _triple_reaches,
    whitened_word_triples,
    word_pairs,
    word_shares,
    word_triples,
)


def _partitions(n_words: int, largest: int) -> Iterator[tuple[int, ...]]:
    """Yield the counts of all documents of so many words, up to the names of words."""
    if not n_words:
        yield ()
    for count in range(min(n_words, largest), 0, -1):
        yield from ((count, *others) for others in _partitions(n_words - count, count))


def test_no_document_has_longer_vectors_than_their_grids_hold() -> None:
    """All documents of 3 to 20 words, and some of words that occur very often."""
    texts = [text for length in range(3, 21) for text in _partitions(length, length)]
    texts += [(often, *[1] * others) for often in (50, 1000, 2**31) for others in (1, 2, 10, 1000)]
    for text in texts:
        c = np.array(text, dtype=float)
        s = {power: math.fsum(c**power) for power in (2, 3, 4, 6)}
        pairs = math.sqrt(s[2] ** 2 - 2 * s[3] + s[2])
        assert s[2] / pairs <= _root_reach(1.0) ** 2
        twice, thrice = c * (c - 1), c * (c - 1) * (c - 2)
        equal = math.fsum(twice**2) * s[2] - math.fsum((twice * c) ** 2)
        different = s[2] ** 3 - 3 * s[2] * s[4] + 2 * s[6]
        tensor = math.sqrt(max(different, 0.0) + 3 * max(equal, 0.0) + math.fsum(thrice**2))
        ones, other, one = _triple_reaches(1.0)
        assert len(text) < 3 or s[2] ** 1.5 / tensor <= ones**3
        assert len(text) < 2 or math.fsum(twice**2) ** 0.75 / tensor <= other**1.5
        assert len(text) < 2 or s[2] ** 1.5 / tensor <= one**3


@pytest.mark.parametrize("clip", [1.0, 0.2, 1e-9, 1e9])
def test_no_two_documents_are_farther_apart_than_the_sensitivity(clip: float) -> None:
    draw = np.random.default_rng(4)
    n_words = 12
    texts = [draw.multinomial(length, draw.dirichlet(np.full(n_words, a))) for a in (0.05, 0.3, 3) for length in (3, 5)]
    texts += [draw.multinomial(length, draw.dirichlet(np.full(n_words, 1.0))) for length in (3, 4, 50, 10**4, 10**9)]
    # Pairs without a common word, and the longest documents there are.
    texts += [np.repeat([1, 0], 6), np.repeat([0, 1], 6), np.eye(n_words)[0] * (2.0**31 - 1), np.eye(n_words)[1] * 3]
    texts += [np.repeat([2.0**31 - 1, 0], 6), np.repeat([0, 2.0**31 - 1], 6)]
    whitener = draw.normal(size=(n_words, 3)) * [1.0, 1e-150, 1e20]
    for make in (word_shares, word_pairs, word_triples, whitened_word_triples):
        public = (whitener,) if make is whitened_word_triples else ()
        values = []
        for text in texts:
            records = documents(csr_array(np.array([text], dtype=np.int64)))
            statistic = make(records.facts(), *public, clip=clip)
            values.append(statistic.total(records))
        found = np.array(values)
        assert np.isfinite(found).all()
        assert np.linalg.norm(found, axis=1).max() <= statistic.radius + statistic.rounding(1)
        assert np.linalg.norm(found[:, None] - found[None], axis=2).max() <= statistic.sensitivity(1)


def test_products_of_very_long_documents_are_those_of_their_shares() -> None:
    draw = np.random.default_rng(6)
    counts = np.vstack([draw.integers(0, 2**31, size=(3, 40)), draw.integers(0, 5, size=(3, 40)), np.zeros((1, 40))])
    public = np.rint(draw.normal(size=(40, 3)) * 2.0**28)
    found = WordCounts(csr_array(counts.astype(float))).products(public)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    np.testing.assert_allclose(found, shares @ public, rtol=0, atol=2.0**32 * 2.0**-16)
    np.testing.assert_allclose(found[3:], (shares @ public)[3:], rtol=1e-14, atol=1e-6)


def test_the_order_of_words_in_one_document_changes_no_other() -> None:
    """Words that are listed twice are added up, in another order if any document of a block is not in order."""
    draw = np.random.default_rng(5)
    others = [draw.permutation([2.0**60, -(2.0**60), *[1.0] * 28]) for _ in range(40)]
    totals = []
    for words, numbers in (([0, 1, 2], [2.0, 1, 1]), ([2, 0, 1], [1.0, 2, 1])):
        entries = np.concatenate([numbers, *(np.append(other, [2.0, 1.0]) for other in others)])
        places = np.concatenate([words, *([0] * 30 + [1, 2] for _ in others)])
        ends = np.concatenate([[0, 3], 3 + 32 * np.arange(1, 41)])
        with warnings.catch_warnings(action="ignore"):
            records = documents(csr_array((entries, places, ends), shape=(41, 3)))
        totals.append(word_shares(records.facts(), clip=1.0).total(records))
        assert records.n_invalid == 40
    np.testing.assert_array_equal(*totals)
    # Counts that are listed twice are valid, and so is what they add up to.
    twice = documents(csr_array((np.array([1.0, 2, 1]), np.array([1, 0, 1]), np.array([0, 3])), shape=(1, 2)))
    np.testing.assert_allclose(word_shares(twice.facts(), clip=1.0).total(twice), [0.5, 0.5], rtol=1e-9)


@pytest.mark.filterwarnings("ignore::dpcape.core.errors.UtilityWarning")
def test_means_are_of_documents_that_can_be_read() -> None:
    """A document with an entry that is not a count is not counted; one of too few words is."""
    held = documents([[3, 1], [0.5, 9], [-1, 4], [1, 3], *[[2, 2], [0.5, 0]] * 700])
    federation = Federation(in_process({"x": held}), protocol=Exact())
    for make in (word_shares, word_pairs, word_triples):
        statistic = make(federation.facts, clip=1.0)
        assert released_total(statistic, held)[-1] == 702 * statistic.count_weight
        assert math.isclose(federation.allow(1.0, 1e-5).mean(statistic).sum(), 1.0, rel_tol=1e-5)
    short = documents([[1, 1], [2, 2]])
    assert released_total(statistic, short)[-1] == 2 * statistic.count_weight
