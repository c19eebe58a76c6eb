"""The TopicModel and MixtureModel of dpcape on the records of figures 5.1 to 5.3, with public bounds.

Documents are words, which need no bound. Rows of mixtures are clipped to 1 + sqrt(0.05 D), the norm of a mean plus the
typical norm of the noise, and the noise variance 0.05 is public; the authors take both from the records.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from dpcape import Cape, Federation, Independent, MixtureModel, Replay, TopicModel, documents, in_process, rows
from dpcape.core.arrays import FloatArray
from dpcape.core.errors import UtilityWarning
from dpcape.guarantee.guarantee import Guarantee
from dpcape.records.kinds import Records
from dpcape_papers.figures.replicas.verified import SCHEMES
from dpcape_papers.published.cape import assumed_colluding


@dataclass(frozen=True)
class Fitted:
    """The components that a fit found, as rows, and its guarantee."""

    curve: str
    run: int
    components: FloatArray
    guarantee: Guarantee


@dataclass(frozen=True)
class Held:
    """The records of every site."""

    sites: Mapping[str, Records]
    are_rows: bool


def documents_of(counts: FloatArray) -> Held:
    """Return documents of three words, from the counts of word triples of every site."""
    sites = {}
    for number, site in enumerate(counts):
        triples = np.repeat(np.argwhere(site), site[site > 0].astype(np.int64), axis=0)
        shape = (len(triples), site.shape[0])
        ends = 3 * np.arange(len(triples) + 1)
        held = csr_array((np.ones(triples.size, dtype=np.int64), triples.ravel(), ends), shape=shape)
        held.sum_duplicates()
        sites[f"site{number}"] = documents(held)
    return Held(sites, are_rows=False)


def rows_of(parts: Iterator[FloatArray], variance: float) -> Held:
    """Return rows clipped to a public bound."""
    sites = {}
    for number, part in enumerate(parts):
        sites[f"site{number}"] = rows(part, bound=1 + math.sqrt(variance * part.shape[1]))
    return Held(sites, are_rows=True)


def fits(
    held: Held, n_components: int, variance: float, epsilon: float, delta: float, runs: Sequence[int]
) -> Iterator[Fitted]:
    """Yield the fit of every scheme and run; "local" is the last site only, as in the authors' scripts."""
    for run in runs:
        for curve in SCHEMES:
            name = list(held.sites)[-1]
            chosen = {name: held.sites[name]} if curve == "local" else held.sites
            protocol = Cape(n_colluding=assumed_colluding(len(held.sites))) if curve == "CAPE" else Independent()
            federation = Federation(in_process(chosen, noise=Replay(run)), protocol=protocol, accept_large_delta=True)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UtilityWarning)  # The picture shows the utility.
                if held.are_rows:
                    mixture = MixtureModel(n_components, epsilon=epsilon, delta=delta, noise_variance=variance)
                    mixture.fit(federation)
                    yield Fitted(curve, run, mixture.means_, mixture.guarantee_)
                else:
                    topics = TopicModel(n_components, epsilon=epsilon, delta=delta).fit(federation)
                    yield Fitted(curve, run, topics.topics_, topics.guarantee_)
