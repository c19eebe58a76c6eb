"""The schemes of figures 8.1 to 8.3: least squares without intercept, rows of norm at most 1, responses in [-1, 1].

Each site of a task is a pair (rows, responses); all have the same size. A fit returns the coefficients w of f_D(w)
(eq. 8.11).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import numpy as np

from dpcape import Cape, Federation, Independent, LinearRegression, Replay, in_process, labelled
from dpcape.core.arrays import FloatArray
from dpcape.core.errors import UtilityWarning
from dpcape.core.protocols.protocol import Protocol
from dpcape.metrics import coefficient_error, squared_loss
from dpcape_papers.baselines import regression as baselines
from dpcape_papers.experiments.comparison import NON_PRIVATE, PUBLISHED, VERIFIED, Method, MethodResult, Task
from dpcape_papers.published.cape import assumed_colluding

Sites = Mapping[str, tuple[FloatArray, FloatArray]]

DP_FM, OBJECTIVE = "dp-fm", "objective perturbation"
LOSS, ERROR = "f_D(w)", "err_w"


def loss(coefficients: FloatArray, task: Task) -> float:
    """Return f_D(w) over the records of all sites (eq. 8.11)."""
    X, y = _pooled(task)
    return squared_loss(y, X @ coefficients)


def error(coefficients: FloatArray, task: Task) -> float:
    """Return |w - w*| / D (section 8.4)."""
    return coefficient_error(coefficients, task.options["truth"])


def papers_methods() -> tuple[Method, ...]:
    """Return the schemes, verified and as published, in the order of the legend."""
    return (
        Method("non-private", NON_PRIVATE, _without_noise),
        Method("pooled", VERIFIED, _verified_pooled),
        Method("CAPE", VERIFIED, _verified_cape),
        Method("conventional", VERIFIED, _verified_conventional),
        Method("local", VERIFIED, _verified_local),
        Method("CAPE", PUBLISHED, _published_cape),
        Method("conventional", PUBLISHED, _published_conventional),
        Method("local", PUBLISHED, _published_local),
        Method(DP_FM, PUBLISHED, _dp_fm),
        Method(OBJECTIVE, PUBLISHED, _objective_perturbation),
    )


def _pooled(task: Task) -> tuple[FloatArray, FloatArray]:
    pairs = list(task.sites.values())
    return np.concatenate([X for X, _ in pairs]), np.concatenate([y for _, y in pairs])


def _one(task: Task) -> tuple[FloatArray, FloatArray]:
    """Return the records of the first site; all have the same size."""
    first: tuple[FloatArray, FloatArray] = next(iter(task.sites.values()))
    return first


def _without_noise(task: Task, epsilon: float, seed: int) -> MethodResult:
    X, y = _pooled(task)
    return MethodResult(np.linalg.lstsq(X, y, rcond=None)[0], None)


def _released(task: Task, epsilon: float, seed: int, sites: Sites, protocol: Protocol) -> MethodResult:
    """Fit with dpcape's own protocol code and replayable noise."""
    records = {name: labelled(X, y, bound=1.0, response=(-1, 1)) for name, (X, y) in sites.items()}
    federation = Federation(in_process(records, noise=Replay(seed)), protocol=protocol, accept_large_delta=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UtilityWarning)  # The picture shows the utility.
        model = LinearRegression(
            epsilon=epsilon, delta=task.delta, purpose="prediction", n_iter=0, fit_intercept=False
        ).fit(federation)
    return MethodResult(model.coef_, guarantee=model.guarantee_)


def _verified_pooled(task: Task, epsilon: float, seed: int) -> MethodResult:
    return _released(task, epsilon, seed, {"all": _pooled(task)}, Independent())


def _verified_cape(task: Task, epsilon: float, seed: int) -> MethodResult:
    return _released(task, epsilon, seed, dict(task.sites), Cape(n_colluding=assumed_colluding(len(task.sites))))


def _verified_conventional(task: Task, epsilon: float, seed: int) -> MethodResult:
    return _released(task, epsilon, seed, dict(task.sites), Independent())


def _verified_local(task: Task, epsilon: float, seed: int) -> MethodResult:
    return _released(task, epsilon, seed, {"one": _one(task)}, Independent())


def _as_published(
    task: Task, epsilon: float, generator: np.random.Generator, sites: list[tuple[FloatArray, FloatArray]], scheme: str
) -> MethodResult:
    fit = baselines.gaussian_functional_mechanism(
        sites,
        scheme=scheme,
        epsilon=epsilon,
        delta=task.delta,
        n_colluding=assumed_colluding(len(task.sites)),
        generator=generator,
    )
    return MethodResult(fit.coefficients, fit.verified_epsilon)


def _published_cape(task: Task, epsilon: float, seed: int) -> MethodResult:
    # The generator protects nothing.
    return _as_published(task, epsilon, np.random.default_rng([seed, 1]), list(task.sites.values()), "CAPE")


def _published_conventional(task: Task, epsilon: float, seed: int) -> MethodResult:
    # The generator protects nothing.
    return _as_published(task, epsilon, np.random.default_rng([seed, 2]), list(task.sites.values()), "conventional")


def _published_local(task: Task, epsilon: float, seed: int) -> MethodResult:
    # The generator protects nothing.
    return _as_published(task, epsilon, np.random.default_rng([seed, 3]), [_one(task)], "conventional")


def _dp_fm(task: Task, epsilon: float, seed: int) -> MethodResult:
    # The generator protects nothing.
    fit = baselines.laplace_functional_mechanism(*_pooled(task), epsilon, np.random.default_rng([seed, 4]))
    return MethodResult(fit.coefficients, fit.verified_epsilon)


def _objective_perturbation(task: Task, epsilon: float, seed: int) -> MethodResult:
    # The generator protects nothing.
    fit = baselines.objective_perturbation_linear(*_pooled(task), epsilon, np.random.default_rng([seed, 5]))
    return MethodResult(fit.coefficients, fit.verified_epsilon)
