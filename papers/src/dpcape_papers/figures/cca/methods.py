"""The schemes of the CCA figures, with dpcape's protocols and as published, and the measures of their directions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from dpcape import CCA, Cape, Dealer, Exact, Federation, Independent, Replay, in_process, views
from dpcape.core.arrays import FloatArray
from dpcape.core.protocols.protocol import Protocol
from dpcape.metrics import calinski_harabasz, correlation_error
from dpcape.postprocessing.eigen import canonical
from dpcape_papers.experiments.comparison import (
    NON_PRIVATE,
    PUBLISHED,
    VERIFIED,
    Fit,
    Measure,
    Method,
    MethodResult,
    Task,
)
from dpcape_papers.figures.cca.pairs import VIEW_BOUND, Pairs
from dpcape_papers.published import pca as moments
from dpcape_papers.published.cape import assumed_colluding, cape_exposure
from dpcape_papers.published.cca import CAPECCA_HONEST, CAPECCA_SENSITIVITY, POSTER_SENSITIVITY, canonical_directions

Directions = tuple[FloatArray, FloatArray]
Sites = Mapping[str, tuple[FloatArray, FloatArray]]

CH, RATIO, KEPT, ERROR = "CH", "between over within", "correlation kept", "err_corr"
OWN_RECORDS = "local on its own records"


def task(pairs: Pairs, *, n_sites: int, delta: float, copies: int, scheme: str, seed: int, n_judged: int) -> Task:
    """Return the records divided among sites, with everything that schemes and measures need.

    Parameters
    ----------
    pairs : Pairs
        The records of all sites.
    n_sites : int
        Number of sites, which have equal size.
    delta : float
        Delta of all methods.
    copies : int
        How often the papers repeat each record; only published calibrations count copies as people.
    scheme : {'chapter', 'paper', 'poster'}
        Section 7.2, the capeCCA paper or the poster.
    seed : int
        Seed of K-means.
    n_judged : int
        Maximum number of records to cluster; the index is stated for all records.
    """
    parts = [tuple(np.split(view, n_sites)) for view in (pairs.x, pairs.y)]
    sites = {f"site {index}": (parts[0][index], parts[1][index]) for index in range(n_sites)}
    stacked = [np.hstack(pair) for pair in sites.values()]
    options = {
        "pairs": pairs,
        "copies": copies,
        "scheme": scheme,
        "seed": seed,
        "n_judged": n_judged,
        "moments": [z.T @ z / len(z) for z in stacked],
    }
    return Task(sites=sites, delta=delta, options=options)


def measures(task_: Task) -> dict[str, Measure]:
    """Return the measures of a task: of correlations if the true ones are known, otherwise of clusters."""
    known = task_.options["pairs"].correlations is not None
    return {name: _taken(name) for name in ((ERROR, KEPT) if known else (CH, RATIO, KEPT))}


def _taken(name: str) -> Measure:
    return lambda result, _: float(result[name])


def judged(directions: Directions, task_: Task, *, own: bool = False) -> dict[str, float]:
    """Return all measures of a pair of directions; with ``own``, on the last site's records only."""
    pairs: Pairs = task_.options["pairs"]
    x, y = list(task_.sites.values())[-1] if own else (pairs.x, pairs.y)
    kept = _correlation_kept(directions, task_)
    if pairs.correlations is not None:
        found = np.abs([_correlation(x @ u, y @ v) for u, v in zip(directions[0].T, directions[1].T, strict=True)])
        return {ERROR: correlation_error(pairs.correlations, found), KEPT: kept}
    scores = x[: task_.options["n_judged"]] @ np.linalg.qr(directions[0])[0]
    ratio = separation(scores, pairs.n_clusters, task_.options["seed"])
    n_counted = len(x) * task_.options["copies"]
    return {CH: ratio * (n_counted - pairs.n_clusters) / (pairs.n_clusters - 1), RATIO: ratio, KEPT: kept}


def judging(method: Method) -> Method:
    """Return a method whose result, a pair of matrices with directions as columns, is replaced by its measures."""

    def fit(task_: Task, epsilon: float, seed: int) -> MethodResult:
        answer = method.fit(task_, epsilon, seed)
        return MethodResult(judged(answer.result, task_), answer.verified_epsilon, answer.guarantee)

    return Method(method.curve, method.calibration, fit)


def separation(scores: FloatArray, n_clusters: int, seed: int) -> float:
    """Return the ratio of spread between to spread within K-means clusters; CH is this times (N - K)/(K - 1)."""
    from sklearn.cluster import KMeans

    labels = KMeans(n_clusters, n_init=2, random_state=seed).fit_predict(scores)
    index = calinski_harabasz(scores, labels)
    return index * (n_clusters - 1) / (len(scores) - n_clusters)


def _correlation(first: FloatArray, second: FloatArray) -> float:
    scale = math.sqrt(float(first @ first) * float(second @ second))
    return float(first @ second) / scale if scale > 0 else 0.0


def _correlation_kept(directions: Directions, task_: Task) -> float:
    """Return the sum of canonical correlations within the subspaces found, divided by the non-private sum."""
    moment: FloatArray = np.mean(task_.options["moments"], axis=0)
    u, v = (np.linalg.qr(one)[0] for one in directions)
    width, count = len(u), u.shape[1]
    both = np.block([[u, np.zeros((width, count))], [np.zeros((len(v), count)), v]])
    inside = canonical(both.T @ moment @ both, (count, count), 0.0)[2]
    return float(inside.sum() / canonical(moment, (width, len(v)), 0.0)[2][:count].sum())


def _fitted(sites: Sites, protocol: Protocol, task_: Task, epsilon: float, seed: int) -> tuple[Directions, CCA]:
    records = {name: views(*held, bounds=(VIEW_BOUND, VIEW_BOUND)) for name, held in sites.items()}
    federation = Federation(in_process(records, noise=Replay(seed)), protocol=protocol, accept_large_delta=True)
    model = CCA(task_.options["pairs"].n_components, epsilon=epsilon, delta=task_.delta, center=False).fit(federation)
    return (model.x_weights_, model.y_weights_), model


def _by_protocol(chosen: Callable[[Task], Sites], protocol: Callable[[Task], Protocol]) -> Fit:
    def fit(task_: Task, epsilon: float, seed: int) -> MethodResult:
        made = protocol(task_)
        directions, model = _fitted(chosen(task_), made, task_, epsilon, seed)
        return MethodResult(judged(directions, task_), guarantee=model.guarantee_ if made.adds_noise else None)

    return fit


def _everyone(task_: Task) -> Sites:
    return task_.sites


def _pooled(task_: Task) -> Sites:
    pairs: Pairs = task_.options["pairs"]
    return {"all": (pairs.x, pairs.y)}


def _last(task_: Task) -> Sites:
    name = list(task_.sites)[-1]
    return {name: task_.sites[name]}


def n_colluding(task_: Task) -> int:
    """Return how many sites may collude: all but two in the paper on capeCCA, fewer than a third in chapter 7."""
    n_sites = len(task_.sites)
    return n_sites - CAPECCA_HONEST if task_.options["scheme"] == "paper" else assumed_colluding(n_sites)


def _cape(task_: Task) -> Protocol:
    # The paper uses a trusted generator of zero-sum noise; in the chapter the sites agree on it.
    kind = Dealer if task_.options["scheme"] == "paper" else Cape
    return kind(n_colluding=n_colluding(task_))


def _as_published(curve: str) -> Fit:
    def fit(task_: Task, epsilon: float, seed: int) -> MethodResult:
        rng = np.random.default_rng([seed, 71])  # protects nothing
        poster = task_.options["scheme"] == "poster"
        sensitivity = POSTER_SENSITIVITY if poster else CAPECCA_SENSITIVITY
        pairs: Pairs = task_.options["pairs"]
        counted = len(pairs.x) * task_.options["copies"] // len(task_.sites)
        scale = moments.moment_scale(counted, epsilon=epsilon, delta=task_.delta, sensitivity=sensitivity)
        moment = _noisy_moment(curve, task_.options["moments"], scale, rng)
        directions = canonical_directions(moment, pairs.x.shape[1], pairs.n_components)
        real = moments.verified_epsilon(
            epsilon=epsilon,
            delta=task_.delta,
            exposure=cape_exposure(len(task_.sites), n_colluding(task_)) if curve == "CAPE" else 1.0,
            copies=task_.options["copies"],
            sensitivity=sensitivity,
        )
        return MethodResult(judged(directions, task_, own=curve == OWN_RECORDS), real)

    return fit


def _noisy_moment(curve: str, held: list[FloatArray], scale: float, rng: np.random.Generator) -> FloatArray:
    if curve == "CAPE":
        return moments.cape_moment(held, scale=scale, rng=rng)
    if curve == "conventional":
        mean: FloatArray = np.mean(moments.conventional_moments(held, scale=scale, rng=rng), axis=0)
        return mean
    return moments.conventional_moments(held[-1:], scale=scale, rng=rng)[0]


NON_PRIVATE_METHOD = Method("non-private", NON_PRIVATE, _by_protocol(_pooled, lambda _: Exact()))
POOLED = Method("pooled", VERIFIED, _by_protocol(_pooled, lambda _: Independent()))
METHODS = (
    NON_PRIVATE_METHOD,
    POOLED,
    Method("CAPE", VERIFIED, _by_protocol(_everyone, _cape)),
    Method("conventional", VERIFIED, _by_protocol(_everyone, lambda _: Independent())),
    Method("local", VERIFIED, _by_protocol(_last, lambda _: Independent())),
    *(Method(curve, PUBLISHED, _as_published(curve)) for curve in ("CAPE", "conventional", "local", OWN_RECORDS)),
)
# The poster has one site, which holds everything.
POSTER_METHODS = (NON_PRIVATE_METHOD, POOLED, Method("pooled", PUBLISHED, _as_published("pooled")))
