"""The synthetic mixtures and topics of the dissertation's chapter 5, and the schemes that are compared."""

from __future__ import annotations

import warnings

import numpy as np
from scipy.sparse import csr_array

from dpcape import (
    Cape,
    Exact,
    Federation,
    Independent,
    MixtureModel,
    Replay,
    TopicModel,
    documents,
    in_process,
    rows,
)
from dpcape.errors import UtilityWarning
from dpcape.metrics import component_error

N_RECORDS, N_SITES, DELTA = 100_000, 5, 1e-5
NOISE_VARIANCE = 0.05
# Closer to dependent than this, components cannot be told apart from any moments of 100,000 records.
LARGEST_CONDITION = 12.0
SCHEMES = ("cape", "pooled", "conventional", "local", "exact")


def mixture(n_features, n_components, seed):
    """Return records, unit-length means and weights of a spherical Gaussian mixture."""
    rng = np.random.default_rng(seed)
    means = _identifiable(rng, lambda: _unit(rng.normal(size=(n_components, n_features))))
    weights = rng.uniform(0.5, 1.5, n_components)
    which = rng.choice(n_components, N_RECORDS, p=weights / weights.sum())
    noise = np.sqrt(NOISE_VARIANCE) * rng.normal(size=(N_RECORDS, n_features))
    return means[which] + noise, means


def topics(n_features, n_components, seed, *, n_words=3):
    """Return word counts and topics; a topic's words are Dirichlet(0.3)."""
    rng = np.random.default_rng(seed)
    truth = _identifiable(rng, lambda: rng.dirichlet(np.full(n_features, 0.3), n_components))
    weights = rng.uniform(0.5, 1.5, n_components)
    which = rng.choice(n_components, N_RECORDS, p=weights / weights.sum())
    counts = np.zeros((N_RECORDS, n_features), dtype=np.int64)
    for topic in range(n_components):
        chosen = which == topic
        counts[chosen] = rng.multinomial(n_words, truth[topic], size=int(chosen.sum()))
    return csr_array(counts), truth


def _identifiable(rng, draw):
    while True:
        components = draw()
        if np.linalg.cond(components) <= LARGEST_CONDITION:
            return components


def _unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def records_of(data, n_features):
    """Return documents, or rows under the bound that a unit mean and the noise's typical length suggest."""
    if isinstance(data, csr_array):
        return documents(data)
    return rows(data, bound=1 + float(np.sqrt(NOISE_VARIANCE * n_features)))


def federation(data, scheme, seed):
    """Return the sites under one of the schemes; "local" is one site alone with its own records."""
    n_features = data.shape[1]
    if scheme in ("pooled", "local"):
        part = data if scheme == "pooled" else data[: N_RECORDS // N_SITES]
        sites, protocol = {"one": records_of(part, n_features)}, Independent()
    else:
        size = N_RECORDS // N_SITES
        parts = [data[start : start + size] for start in range(0, N_RECORDS, size)]
        sites = {f"site{index}": records_of(part, n_features) for index, part in enumerate(parts)}
        protocol = {"cape": Cape(n_colluding=1), "conventional": Independent(), "exact": Exact()}[scheme]
    return Federation(in_process(sites, noise=Replay(seed)), protocol=protocol)


def error(fed, truth, epsilon, **options):
    """Return (q_comp, design used) of one fit."""
    is_topics = fed.facts.kind == "documents"
    common = {"epsilon": epsilon, "delta": DELTA, **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UtilityWarning)
        if is_topics:
            model = TopicModel(len(truth), **common).fit(fed)
            return component_error(model.topics_, truth), model.design_
        model = MixtureModel(len(truth), noise_variance=NOISE_VARIANCE, **common).fit(fed)
        return component_error(model.means_, truth), model.design_
