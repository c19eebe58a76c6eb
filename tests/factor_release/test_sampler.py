"""The Gibbs sweep leaves the prior-times-likelihood invariant.

Draw parameters from the prior and data given them; then any number of sweeps must leave every parameter distributed as
its prior, exactly (Geweke 2004). Replicates are independent, so the tests are exact; alpha = 1e-6 each.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from made_data import factor_data, standardised
from scipy import stats

from dpcape.factor_release.gibbs_sampler import (
    RESIDUAL_RATE,
    RESIDUAL_SHAPE,
    ChainState,
    StandardisedFeatures,
    Workspace,
    draw_factors,
    gibbs_sweep,
    svd_start,
)
from dpcape.factor_release.kernels import feature_pass, kernel_named
from dpcape.factor_release.markov_chain import ChainSettings, MarkovChain
from dpcape.factor_release.moment_sampler import draw_cross_products, sample_from_moment
from dpcape.factor_release.priors import IndependentGamma, MultiplicativeGamma, Prior

ALPHA = 1e-6
N, P, K = 3, 4, 2


def prior_state(prior: Prior, rng: np.random.Generator) -> ChainState:
    increments = np.array([prior.from_prior(h == 0, rng) for h in range(K)])
    local = rng.standard_gamma(1.5, (K, P)) / 1.5
    loadings = rng.standard_normal((K, P)) / np.sqrt(local * prior.precisions(increments)[:, None])
    precision = rng.standard_gamma(RESIDUAL_SHAPE, P) / RESIDUAL_RATE
    return ChainState(
        factors=rng.standard_normal((N, K)),
        loadings=loadings,
        local=local,
        precision=precision,
        increments=increments,
        rss=np.zeros(P),
    )


def after_sweeps(
    prior: Prior, kernel: Callable[..., np.ndarray], *, replicates: int, seed: int
) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    rows: dict[str, list[float]] = {"factor": [], "precision": [], "local": [], "first": [], "last": [], "scaled": []}
    for _ in range(replicates):
        state, work = prior_state(prior, rng), Workspace()
        X = state.factors @ state.loadings + rng.standard_normal((N, P)) / np.sqrt(state.precision)
        for _ in range(3):
            gibbs_sweep(state, StandardisedFeatures(X), prior=prior, kernel=kernel, rng=rng, work=work)
        tau = prior.precisions(state.increments)
        rows["factor"].append(state.factors[1, 1])
        rows["precision"].append(state.precision[2])
        rows["local"].append(state.local[1, 0])
        rows["first"].append(state.increments[0])
        rows["last"].append(state.increments[-1])
        rows["scaled"].append(state.loadings[0, 3] * np.sqrt(state.local[0, 3] * tau[0]))
    return {name: np.array(values) for name, values in rows.items()}


def p_values(draws: dict[str, np.ndarray], prior: Prior) -> dict[str, float]:
    shapes = (prior.shape,) * 2 if isinstance(prior, IndependentGamma) else (prior.first_shape, prior.later_shape)
    laws = {
        "factor": stats.norm(),
        "precision": stats.gamma(RESIDUAL_SHAPE, scale=1 / RESIDUAL_RATE),
        "local": stats.gamma(1.5, scale=1 / 1.5),
        "first": stats.gamma(shapes[0]),
        "last": stats.gamma(shapes[1]),
        "scaled": stats.norm(),
    }
    return {name: float(stats.kstest(draws[name], law.cdf).pvalue) for name, law in laws.items()}


@pytest.mark.parametrize("prior", [IndependentGamma(), MultiplicativeGamma()], ids=lambda p: p.name)
def test_sweeps_keep_the_joint_distribution(prior: Prior) -> None:
    draws = after_sweeps(prior, kernel_named("numba"), replicates=2000, seed=11)
    assert min(p_values(draws, prior).values()) > ALPHA


class _ForgetsSubjects(MultiplicativeGamma):
    """A scale move that counts no subjects: its density is wrong."""

    def scale_move(self, increments, factor_squares, n, rng):
        return super().scale_move(increments, factor_squares, 0, rng)


def test_a_wrong_scale_move_is_noticed() -> None:
    draws = after_sweeps(_ForgetsSubjects(), kernel_named("numba"), replicates=1000, seed=13)
    assert min(p_values(draws, MultiplicativeGamma()).values()) < ALPHA


def pass_arguments(n_features: int, n_factors: int, seed: int) -> list[object]:
    rng = np.random.default_rng(seed)
    X, _, factors = factor_data(40, n_features, n_factors, seed=seed)
    shape = (n_factors, n_features)
    return [
        factors.T @ factors,
        factors.T @ X,
        np.sum(X**2, axis=0),
        rng.uniform(0.5, 2, n_features),
        rng.uniform(0.5, 2, shape),
        rng.uniform(0.5, 2, n_factors),
        rng.standard_normal(shape),
        rng.standard_exponential((2, *shape)),
        rng.standard_gamma(21.0, n_features),
        0.3,
        np.empty(shape),
        np.empty(n_features),
    ]


@pytest.mark.parametrize(("n_features", "n_factors"), [(1, 1), (63, 3), (64, 5), (65, 12), (500, 20)])
def test_both_kernels_give_the_same_draws(n_features: int, n_factors: int) -> None:
    ours, theirs = pass_arguments(n_features, n_factors, 5), pass_arguments(n_features, n_factors, 5)
    sums = kernel_named("numba")(*ours)
    np.testing.assert_allclose(sums, feature_pass(*theirs), rtol=1e-9)
    for i in (3, 4, 10, 11):  # precision, local, loadings, rss
        np.testing.assert_allclose(ours[i], theirs[i], rtol=1e-8, atol=1e-10)


def test_pass_draws_from_the_stated_conditional() -> None:
    """With zero normals the loadings are the conditional mean, and the residuals those of the definition."""
    arguments = pass_arguments(30, 4, 6)
    gram, cross, squares = (np.asarray(a) for a in arguments[:3])
    precision, local, tau = (np.asarray(a).copy() for a in arguments[3:6])
    arguments[6] = np.zeros((4, 30))
    kernel_named("numba")(*arguments)
    for j in (0, 7, 29):
        mean = np.linalg.solve(np.diag(local[:, j] * tau) + precision[j] * gram, precision[j] * cross[:, j])
        np.testing.assert_allclose(np.asarray(arguments[10])[:, j], mean, rtol=1e-9)
        rss = squares[j] - 2 * mean @ cross[:, j] + mean @ gram @ mean
        np.testing.assert_allclose(np.asarray(arguments[11])[j], rss, rtol=1e-9)


@pytest.mark.parametrize(("factor", "right"), [(1.0, True), (0.9, False), (1.1, False)])
@pytest.mark.parametrize("name", ["numba", "lapack"])
def test_pass_has_the_scales_of_its_conditionals(name: str, factor: float, right: bool) -> None:
    """Equal features, one draw each: whitened loadings are standard normal, precisions and phi gamma."""
    p, k = 4000, 3
    arguments = pass_arguments(p, k, 7)
    arguments[1] = np.repeat(np.asarray(arguments[1])[:, :1], p, axis=1)
    arguments[2], arguments[3], arguments[4] = np.full(p, 50.0), np.full(p, 0.8), np.full((k, p), 1.3)
    gram, cross, tau = np.asarray(arguments[0]), np.asarray(arguments[1]), np.asarray(arguments[5])
    kernel_named(name)(*arguments)
    loadings, local, precision, rss = (np.asarray(arguments[i]) for i in (10, 4, 3, 11))
    Q = np.diag(1.3 * tau) + 0.8 * gram
    white = np.linalg.cholesky(Q).T @ (loadings - np.linalg.solve(Q, 0.8 * cross)) * factor
    square = float(np.sum(white**2))
    law = stats.chi2(white.size)
    phi = local * (1.5 + 0.5 * tau[:, None] * loadings**2) * factor**2
    residual = precision * (0.3 + 0.5 * rss) * factor**2
    found = [
        2 * min(law.cdf(square), law.sf(square)),
        stats.kstest(phi.ravel(), stats.gamma(2).cdf).pvalue,
        stats.kstest(residual, stats.gamma(21.0).cdf).pvalue,
    ]
    assert all(bool(value > ALPHA) is right for value in found)


@pytest.mark.parametrize(("factor", "same"), [(1.0, True), (0.9, False), (1.1, False)])
def test_cross_products_from_a_moment_have_the_law_of_those_from_rows(factor: float, same: bool) -> None:
    X = standardised(factor_data(30, 5, 2, seed=3)[0])
    state = svd_start(StandardisedFeatures(X), MultiplicativeGamma(), 2)
    state.loadings *= 0.1  # weakly determined factors, so that their noise matters
    S, rng = X.T @ X, np.random.default_rng(4)
    L = np.linalg.cholesky(S)
    from_rows, from_moment = [], []
    for _ in range(5000):
        E = draw_factors(state, StandardisedFeatures(X), rng)
        from_rows.append([E[:, 0] @ E[:, 0], E[:, 0] @ E[:, 1], E[:, 1] @ X[:, 2]])
        gram, cross = draw_cross_products(state.loadings, state.precision, S, L, n=30, rng=rng)
        from_moment.append([gram[0, 0] * factor**2, gram[0, 1] * factor**2, cross[1, 2] * factor])
    a, b = np.array(from_rows), np.array(from_moment)
    smallest = min(stats.ks_2samp(a[:, i], b[:, i]).pvalue for i in range(3))
    assert bool(smallest > ALPHA) is same


def test_moment_and_rows_give_the_same_model() -> None:
    X = standardised(factor_data(400, 20, 3, seed=8)[0])
    chain = MarkovChain(StandardisedFeatures(X), ChainSettings(3, False, "multiplicative", 200, 400, 1, (1,))).run()
    assert chain.kept is not None
    moment = sample_from_moment(
        X.T @ X / 400, 400, 3, n_burn_in=200, n_draws=400, rng=np.random.default_rng(2), kernel="lapack"
    )
    np.testing.assert_allclose(moment.residual_variance, chain.kept.variance_sum / 400, rtol=0.05)
    loadings = chain.kept.loadings_sum / 400
    np.testing.assert_allclose(moment.loadings.T @ moment.loadings, loadings.T @ loadings, atol=0.06)
