"""The schemes of chapter 5's figures, as published and with dpcape's protocols."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import numpy as np
from scipy.sparse import csr_array

from dpcape import (
    Cape,
    Federation,
    Independent,
    MixtureModel,
    Replay,
    TopicModel,
    documents,
    in_process,
    rows,
)
from dpcape.core.arrays import FloatArray
from dpcape.core.errors import UtilityWarning
from dpcape.metrics import component_error
from dpcape.records.kinds import Records
from dpcape_papers.experiments.comparison import Method, MethodResult, Task
from dpcape_papers.experiments.results import NON_PRIVATE, PUBLISHED, VERIFIED
from dpcape_papers.figures.tensor.simulated import NOISE_VARIANCE, guess, in_order, mixture, mixture_bound, topics
from dpcape_papers.published.tensor import (
    AgnNoise,
    Moments,
    agn,
    agn_noise,
    mixture_means,
    mixture_moments,
    topic_vectors,
    word_moments,
)

Data = FloatArray | csr_array  # rows of a mixture, or word counts

N_SITES, N_COLLUDING = 5, 1  # S_C = ceil(S/3) - 1
RANDOM = "random vectors"


def make_task(model: str, n_features: int, n_components: int, *, site_size: int, delta: float, seed: int) -> Task:
    """Return simulated records at five sites of equal size, with the papers' moments computed once."""
    data, truth = _simulated(model, n_features, n_components, seed, n_records=N_SITES * site_size)
    sites: dict[str, Data] = {f"site{i}": data[i * site_size : (i + 1) * site_size] for i in range(N_SITES)}
    options = {
        "model": model,
        "truth": truth,
        "site_size": site_size,
        "all": _moments(data, n_features, seed),
        "one": _moments(sites["site0"], n_features, seed),
    }
    return Task(sites, delta, options)


def _simulated(model: str, n_features: int, n_components: int, seed: int, *, n_records: int) -> tuple[Data, FloatArray]:
    if model == "mixture":
        return mixture(n_features, n_components, seed, n_records=n_records)
    return topics(n_features, n_components, seed, n_records=n_records)


def _moments(data: Data, n_features: int, seed: int) -> Moments:
    if isinstance(data, csr_array):
        return word_moments(in_order(data, seed), n_features)
    bound = mixture_bound(n_features)
    return mixture_moments(data / bound, NOISE_VARIANCE / bound**2)


def error(found: FloatArray, task: Task) -> float:
    """Return q_comp (section 5.4)."""
    return component_error(found, task.options["truth"])


def _non_private(task: Task, epsilon: float, seed: int) -> MethodResult:
    return MethodResult(_decomposed(task, "all", None, seed), None)


def _random(task: Task, epsilon: float, seed: int) -> MethodResult:
    # The generator protects nothing.
    return MethodResult(guess(task.options["model"], task.options["truth"], np.random.default_rng(seed)), None)


def _published(scheme: str) -> Method:
    def fit(task: Task, epsilon: float, seed: int) -> MethodResult:
        noise = noise_of(task, scheme, epsilon)
        found = _decomposed(task, "one" if scheme == "local" else "all", noise, seed)
        return MethodResult(found, noise.verified_epsilon)

    return Method(scheme, PUBLISHED, fit)


def noise_of(task: Task, scheme: str, epsilon: float) -> AgnNoise:
    """Return the published noise of a scheme on this task."""
    n_features = task.options["truth"].shape[1]
    return agn_noise(
        task.options["model"],
        scheme,
        epsilon=epsilon,
        delta=task.delta,
        site_size=task.options["site_size"],
        n_sites=N_SITES,
        n_colluding=N_COLLUDING,
        n_features=n_features,
        noise_variance=NOISE_VARIANCE / mixture_bound(n_features) ** 2,
    )


def _decomposed(task: Task, moments: str, noise: AgnNoise | None, seed: int) -> FloatArray:
    truth = task.options["truth"]
    # The generator protects nothing.
    strengths, halves = agn(task.options[moments], len(truth), noise=noise, rng=np.random.default_rng(seed))
    if task.options["model"] == "topics":
        return topic_vectors(halves)
    return mixture_bound(truth.shape[1]) * mixture_means(strengths, halves)


def _verified(scheme: str) -> Method:
    def fit(task: Task, epsilon: float, seed: int) -> MethodResult:
        federation = federation_of(task.sites, scheme, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UtilityWarning)
            model = model_of(task, epsilon).fit(federation)
        found = model.topics_ if isinstance(model, TopicModel) else model.means_
        return MethodResult(found, guarantee=model.guarantee_)

    return Method(scheme, VERIFIED, fit)


def model_of(task: Task, epsilon: float) -> TopicModel | MixtureModel:
    """Return the estimator for this task."""
    n_components = len(task.options["truth"])
    if task.options["model"] == "topics":
        return TopicModel(n_components, epsilon=epsilon, delta=task.delta)
    return MixtureModel(n_components, epsilon=epsilon, delta=task.delta, noise_variance=NOISE_VARIANCE)


def federation_of(sites: Mapping[str, Data], scheme: str, seed: int) -> Federation:
    """Return the federation of a scheme; "local" is the first site only."""
    chosen = dict(list(sites.items())[:1]) if scheme == "local" else sites
    protocol = Cape(n_colluding=N_COLLUDING) if scheme == "CAPE" else Independent()
    held = {name: _records(part) for name, part in chosen.items()}
    return Federation(in_process(held, noise=Replay(seed)), protocol=protocol, accept_large_delta=True)


def _records(part: Data) -> Records:
    return documents(part) if isinstance(part, csr_array) else rows(part, bound=mixture_bound(part.shape[1]))


METHODS = (
    Method("non-private", NON_PRIVATE, _non_private),
    *(_published(scheme) for scheme in ("CAPE", "conventional", "local")),
    *(_verified(scheme) for scheme in ("CAPE", "conventional", "local")),
    Method(RANDOM, NON_PRIVATE, _random),
)
