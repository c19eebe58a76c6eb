"""The schemes of figure 4.1, with dpcape's protocols and as published."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from dpcape import PCA, Cape, Exact, Federation, Independent, Replay, in_process, rows
from dpcape.core.arrays import FloatArray
from dpcape.core.protocols.protocol import Protocol
from dpcape.metrics import captured_energy
from dpcape.statistics.moments import second_moment
from dpcape_papers.experiments.comparison import NON_PRIVATE, PUBLISHED, VERIFIED, Fit, Method, MethodResult, Task
from dpcape_papers.published import pca as published
from dpcape_papers.published.cape import assumed_colluding, cape_exposure

MEASURE = "captured energy"


def energy(components: FloatArray, task: Task) -> float:
    """Return the captured energy q^CE in the units of the data."""
    return captured_energy(components, task.options["moment"])


def _federation(sites: Mapping[str, FloatArray], protocol: Protocol, seed: int) -> Federation:
    return Federation(
        in_process({name: rows(held, bound=1.0) for name, held in sites.items()}, noise=Replay(seed)),
        protocol=protocol,
        accept_large_delta=True,
    )


def _fitted(sites: Mapping[str, FloatArray], protocol: Protocol, task: Task, epsilon: float, seed: int) -> MethodResult:
    model = PCA(n_components=task.options["n_components"], epsilon=epsilon, delta=task.delta, center=False)
    model.fit(_federation(sites, protocol, seed))
    return MethodResult(model.components_, guarantee=model.guarantee_ if protocol.adds_noise else None)


def _pooled(task: Task) -> dict[str, FloatArray]:
    return {"all": np.vstack(list(task.sites.values()))}


def _one_site(task: Task) -> dict[str, FloatArray]:
    # The last site, as in the authors' scripts.
    name = list(task.sites)[-1]
    return {name: task.sites[name]}


def _everyone(task: Task) -> dict[str, FloatArray]:
    return dict(task.sites)


def _by_protocol(chosen: Callable[[Task], dict[str, FloatArray]], protocol: Callable[[Task], Protocol]) -> Fit:
    def fit(task: Task, epsilon: float, seed: int) -> MethodResult:
        return _fitted(chosen(task), protocol(task), task, epsilon, seed)

    return fit


def _cape(task: Task) -> Protocol:
    return Cape(n_colluding=assumed_colluding(len(task.sites)))


def _dpdis_verified(task: Task, epsilon: float, seed: int) -> MethodResult:
    """Release each site's moment with independent noise, then compute directions as published."""
    noisy, guarantees = [], []
    for index, (name, held) in enumerate(task.sites.items()):
        alone = _federation({name: held}, Independent(), 1000 * seed + index)
        private = alone.allow(epsilon, task.delta)
        noisy.append(np.asarray(private.mean(second_moment(alone.facts))))
        guarantees.append(private.guarantee())
    weakest = max(guarantees, key=lambda one: one.epsilon)
    return MethodResult(published.dpdis_pca(noisy, task.options["n_components"]), guarantee=weakest)


def _moments(task: Task) -> list[FloatArray]:
    moments: list[FloatArray] = task.options["moments"]  # computed once per task
    return moments


def _scale(task: Task, epsilon: float) -> float:
    return published.moment_scale(len(_one_site(task).popitem()[1]), epsilon=epsilon, delta=task.delta)


def _as_published(
    draw: Callable[[list[FloatArray], float, np.random.Generator, int], FloatArray], exposed: bool
) -> Fit:
    def fit(task: Task, epsilon: float, seed: int) -> MethodResult:
        rng = np.random.default_rng([seed, 41])  # protects nothing
        directions = draw(_moments(task), _scale(task, epsilon), rng, task.options["n_components"])
        n_sites = len(task.sites)
        exposure = cape_exposure(n_sites, assumed_colluding(n_sites)) if exposed else 1.0
        return MethodResult(
            directions, published.verified_epsilon(epsilon=epsilon, delta=task.delta, exposure=exposure)
        )

    return fit


def _published_cape(moments: list[FloatArray], scale: float, rng: np.random.Generator, n_components: int) -> FloatArray:
    return published.leading_directions(published.cape_moment(moments, scale=scale, rng=rng), n_components)


def _published_conventional(
    moments: list[FloatArray], scale: float, rng: np.random.Generator, n_components: int
) -> FloatArray:
    noisy = published.conventional_moments(moments, scale=scale, rng=rng)
    return published.leading_directions(np.mean(noisy, axis=0), n_components)


def _published_local(
    moments: list[FloatArray], scale: float, rng: np.random.Generator, n_components: int
) -> FloatArray:
    noisy = published.conventional_moments(moments[-1:], scale=scale, rng=rng)
    return published.leading_directions(noisy[0], n_components)


def _published_dpdis(
    moments: list[FloatArray], scale: float, rng: np.random.Generator, n_components: int
) -> FloatArray:
    return published.dpdis_pca(published.conventional_moments(moments, scale=scale, rng=rng), n_components)


METHODS = (
    Method("non-private", NON_PRIVATE, _by_protocol(_pooled, lambda _: Exact())),
    Method("pooled", VERIFIED, _by_protocol(_pooled, lambda _: Independent())),
    Method("CAPE", VERIFIED, _by_protocol(_everyone, _cape)),
    Method("conventional", VERIFIED, _by_protocol(_everyone, lambda _: Independent())),
    Method("DPdisPCA", VERIFIED, _dpdis_verified),
    Method("local", VERIFIED, _by_protocol(_one_site, lambda _: Independent())),
    Method("CAPE", PUBLISHED, _as_published(_published_cape, exposed=True)),
    Method("conventional", PUBLISHED, _as_published(_published_conventional, exposed=False)),
    Method("DPdisPCA", PUBLISHED, _as_published(_published_dpdis, exposed=False)),
    Method("local", PUBLISHED, _as_published(_published_local, exposed=False)),
)
