"""The synthetic mixtures and topics of the dissertation's chapter 5."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.random import Generator  # simulated data: nothing is protected by it
from scipy.sparse import csr_array

from dpcape.core.arrays import FloatArray, IntArray

NOISE_VARIANCE = 0.05
# With a larger condition number, components cannot be told apart from the moments of 100,000 records.
LARGEST_CONDITION = 12.0
TOPIC_CONCENTRATION = 0.3


def mixture(n_features: int, n_components: int, seed: int, *, n_records: int) -> tuple[FloatArray, FloatArray]:
    """Return records and unit-length means of a spherical Gaussian mixture (section 5.4.1)."""
    rng = np.random.default_rng(seed)  # protects nothing
    means = _identifiable(lambda: _unit(rng.normal(size=(n_components, n_features))))
    weights = rng.uniform(0.5, 1.5, n_components)
    which = rng.choice(n_components, n_records, p=weights / weights.sum())
    noise = np.sqrt(NOISE_VARIANCE) * rng.normal(size=(n_records, n_features))
    return means[which] + noise, means


def mixture_bound(n_features: int) -> float:
    """Return a public bound: the norm of a mean plus the typical norm of the noise."""
    return 1 + float(np.sqrt(NOISE_VARIANCE * n_features))


def topics(
    n_features: int, n_components: int, seed: int, *, n_records: int, n_words: int = 3
) -> tuple[csr_array, FloatArray]:
    """Return word counts and topics; word probabilities are Dirichlet(0.3) (section 5.4.2)."""
    rng = np.random.default_rng(seed)  # protects nothing
    truth = _identifiable(lambda: rng.dirichlet(np.full(n_features, TOPIC_CONCENTRATION), n_components))
    weights = rng.uniform(0.5, 1.5, n_components)
    which = rng.choice(n_components, n_records, p=weights / weights.sum())
    counts = np.zeros((n_records, n_features), dtype=np.int64)
    for topic in range(n_components):
        chosen = which == topic
        counts[chosen] = rng.multinomial(n_words, truth[topic], size=int(chosen.sum()))
    return csr_array(counts), truth


def in_order(counts: csr_array, seed: int) -> IntArray:
    """Return documents of equal length as words in random order; given the counts, all orders are equally likely."""
    words = np.repeat(counts.indices, counts.data).reshape(counts.shape[0], -1).astype(np.int64)
    ordered: IntArray = np.random.default_rng(seed).permuted(words, axis=1)  # protects nothing
    return ordered


def guess(model: str, truth: FloatArray, rng: Generator) -> FloatArray:
    """Return components drawn independently of the data: the papers' random vectors."""
    if model == "mixture":
        return _unit(rng.normal(size=truth.shape))
    return rng.dirichlet(np.full(truth.shape[1], TOPIC_CONCENTRATION), len(truth))


def _identifiable(draw: Callable[[], FloatArray]) -> FloatArray:
    while True:
        components = draw()
        if np.linalg.cond(components) <= LARGEST_CONDITION:
            return components


def _unit(vectors: FloatArray) -> FloatArray:
    normed: FloatArray = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return normed
