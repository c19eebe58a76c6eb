"""The synthetic mixtures and topics of the dissertation's chapter 5, and the schemes that are compared."""

from __future__ import annotations

import warnings

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
from dpcape.core.errors import UtilityWarning
from dpcape.metrics import component_error
from dpcape_papers.figures.tensor import simulated
from dpcape_papers.figures.tensor.simulated import NOISE_VARIANCE, mixture_bound

N_RECORDS, N_SITES, DELTA = 100_000, 5, 1e-5
SCHEMES = ("cape", "pooled", "conventional", "local", "exact")


def mixture(n_features, n_components, seed):
    """Return records and unit-length means of a spherical Gaussian mixture."""
    return simulated.mixture(n_features, n_components, seed, n_records=N_RECORDS)


def topics(n_features, n_components, seed, *, n_words=3):
    """Return word counts and topics; a topic's words are Dirichlet(0.3)."""
    return simulated.topics(n_features, n_components, seed, n_records=N_RECORDS, n_words=n_words)


def records_of(data, n_features):
    """Return documents, or rows under the bound that a unit mean and the noise's typical length suggest."""
    if isinstance(data, csr_array):
        return documents(data)
    return rows(data, bound=mixture_bound(n_features))


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
