"""Recommended model, ridge, alignment and diagnostics: deterministic facts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_data import factor_data, standardised
from scipy.optimize import minimize
from scipy.stats import special_ortho_group
from sklearn.linear_model import Ridge

from dpcape.factor_release.alignment import kept_spread, rotation_onto
from dpcape.factor_release.competitors import gram_of_factors, gram_of_svd
from dpcape.factor_release.diagnostics import effective_sample_size, r_hat
from dpcape.factor_release.recommended import (
    fit_at,
    guide_coefficients,
    lasso_limit,
    penalty_root,
    recalibrated_loadings,
    recommended_objective,
    solve_recommended,
)
from dpcape.factor_release.ridge import fit_ridge


def problem(seed: int, n: int = 40, p: int = 60, k: int = 5) -> dict[str, np.ndarray]:
    X, y, factors = factor_data(n, p, k, seed=seed)
    X = standardised(X)
    beta_hat = X.T @ np.linalg.solve(X @ X.T + 10 * np.eye(n), y)
    return {
        "X": X, "y": y, "E": factors, "root": penalty_root(factors, X @ X.T),
        "guide": guide_coefficients(factors, X @ beta_hat), "beta_hat": beta_hat,
    }  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), ridge=st.floats(1e-3, 1e2), fraction=st.floats(0.01, 0.9))
def test_solution_satisfies_the_optimality_conditions_of_equation_11(seed: int, ridge: float, fraction: float) -> None:
    d = problem(seed)
    lasso = fraction * lasso_limit(d["E"], d["y"], root=d["root"], guide=d["guide"], ridge=ridge)
    beta = solve_recommended(d["E"], d["y"], root=d["root"], guide=d["guide"], ridge=ridge, lassos=np.array([lasso]))[0]
    gradient = -2 * d["E"].T @ (d["y"] - d["E"] @ beta) + 2 * ridge * d["root"].T @ d["root"] @ beta
    gamma = beta - d["guide"]
    moved = np.abs(gamma) > 1e-10
    tolerance = 1e-3 * lasso
    np.testing.assert_allclose(gradient[moved], -lasso * np.sign(gamma[moved]), atol=tolerance)
    assert np.all(np.abs(gradient[~moved]) <= lasso + tolerance)


def test_lasso_form_reaches_the_minimum_found_directly_and_theorem_one_does_not() -> None:
    d = problem(1)
    ridge, lasso = 2.0, 15.0
    settings_ = {"root": d["root"], "guide": d["guide"], "ridge": ridge, "lasso": lasso}
    beta = solve_recommended(d["E"], d["y"], root=d["root"], guide=d["guide"], ridge=ridge, lassos=np.array([lasso]))[0]
    ours = recommended_objective(beta, d["E"], d["y"], **settings_)
    direct = min(
        minimize(
            lambda b: recommended_objective(b, d["E"], d["y"], **settings_), start, method="Powell",
            options={"xtol": 1e-10, "ftol": 1e-14, "maxiter": 10**5},
        ).fun
        for start in (d["guide"], np.zeros(5), beta + 0.01)
    )  # fmt: skip
    assert ours == pytest.approx(direct, rel=1e-7)
    # Theorem I: Lasso in gamma* = R gamma with the weight divided by det R, taken at its word.
    R = d["root"]
    stars = np.linalg.solve(R.T, d["E"].T).T
    design = np.vstack([stars, np.sqrt(ridge) * np.eye(5)])
    target = np.concatenate([d["y"], R @ d["guide"]])
    weight = lasso / np.linalg.det(R)
    from sklearn.linear_model import lasso_path

    gamma_star = lasso_path(design, target, alphas=[weight / (2 * len(target))], tol=1e-9, max_iter=10**5)[1][:, 0]
    printed = d["guide"] + np.linalg.solve(R, gamma_star)
    assert recommended_objective(printed, d["E"], d["y"], **settings_) > 1.05 * ours


def test_ends_of_the_lasso_range_are_the_guide_and_ridge() -> None:
    d = problem(2)
    limit = lasso_limit(d["E"], d["y"], root=d["root"], guide=d["guide"], ridge=3.0)
    lassos = np.array([0.0, 1.0001 * limit])
    betas = solve_recommended(d["E"], d["y"], root=d["root"], guide=d["guide"], ridge=3.0, lassos=lassos)
    closed = np.linalg.solve(d["E"].T @ d["E"] + 3.0 * d["root"].T @ d["root"], d["E"].T @ d["y"])
    np.testing.assert_allclose(betas[0], closed, atol=1e-9)  # corrected equation (9)
    np.testing.assert_allclose(betas[1], d["guide"], atol=1e-12)


def test_corrected_equations_five_six_and_ten() -> None:
    d = problem(3)
    loadings = recalibrated_loadings(d["E"], d["X"])
    projector = np.eye(40) - d["E"] @ np.linalg.pinv(d["E"])
    np.testing.assert_allclose(d["X"] - d["E"] @ loadings, projector @ d["X"], atol=1e-10)
    np.testing.assert_allclose(d["guide"], loadings @ d["beta_hat"], atol=1e-10)
    A = np.linalg.inv(loadings @ loadings.T)
    np.testing.assert_allclose(d["root"].T @ d["root"], A / np.linalg.eigvalsh(A)[-1], atol=1e-10)


def test_penalty_root_does_not_tell_the_number_of_features() -> None:
    d = problem(4)
    twice = penalty_root(d["E"], np.hstack([d["X"], d["X"]]) @ np.hstack([d["X"], d["X"]]).T)
    np.testing.assert_allclose(twice, d["root"], atol=1e-10)


def test_ridge_predictions_do_not_depend_on_the_frame_of_the_factors() -> None:
    d = problem(5)
    mix = np.random.default_rng(0).standard_normal((5, 5))
    predictions = []
    for E in (d["E"], d["E"] @ mix):
        gram = d["X"] @ d["X"].T
        # The penalty is scaled to a largest eigenvalue of one, so equal strength means equal ridge times scale.
        root, guide = penalty_root(E, gram), guide_coefficients(E, d["X"] @ d["beta_hat"])
        loadings = recalibrated_loadings(E, d["X"])
        scale = np.linalg.eigvalsh(np.linalg.inv(loadings @ loadings.T))[-1]
        model = fit_at(
            E[:30], d["y"][:30], covariates=None, root=root, guide=guide, ridge=100.0 * scale, lasso_fraction=0.0
        )
        predictions.append(model.predict(E[30:]))
    np.testing.assert_allclose(predictions[0], predictions[1], atol=1e-7)


@pytest.mark.parametrize("with_covariates", [False, True])
def test_dual_ridge_equals_explicit_ridge_and_its_error_is_leave_one_out(with_covariates: bool) -> None:
    rng = np.random.default_rng(6)
    X, y, _ = factor_data(25, 12, 2, seed=6)
    C = rng.standard_normal((25, 2)) if with_covariates else None
    fit = fit_ridge(X[:20] @ X[:20].T, y[:20], None if C is None else C[:20])
    ours = fit.predict(X[20:] @ X[:20].T, None if C is None else C[20:])
    # Covariates without penalty: blow them up so that the penalty does not matter.
    wide = X if C is None else np.column_stack([X, 1e5 * C])
    explicit = Ridge(alpha=fit.penalty, solver="svd").fit(wide[:20], y[:20])
    np.testing.assert_allclose(ours, explicit.predict(wide[20:]), atol=1e-5)
    left_out = []
    for i in range(20):
        rest = np.delete(np.arange(20), i)
        one = Ridge(alpha=fit.penalty, solver="svd").fit(wide[rest], y[rest])
        left_out.append((y[i] - one.predict(wide[[i]])[0]) ** 2)
    assert fit.loo_error == pytest.approx(np.mean(left_out), rel=1e-4)


def test_competitors_grams_are_those_of_their_features() -> None:
    d = problem(7)
    loadings = recalibrated_loadings(d["E"], d["X"])
    perturbed = d["E"] @ loadings
    np.testing.assert_allclose(gram_of_factors(d["E"], loadings), perturbed @ perturbed.T, atol=1e-8)
    U, s, Vt = np.linalg.svd(d["X"], full_matrices=False)
    truncated = (U[:, :3] * s[:3]) @ Vt[:3]
    np.testing.assert_allclose(gram_of_svd(d["X"] @ d["X"].T, 3), truncated @ truncated.T, atol=1e-8)


def test_alignment_undoes_rotations_where_plain_averaging_shrinks() -> None:
    rng = np.random.default_rng(8)
    frame = rng.standard_normal((50, 4))
    rotated = [frame @ special_ortho_group.rvs(4, random_state=rng) for _ in range(200)]
    aligned = np.array([E @ rotation_onto(E, frame) for E in rotated])
    assert kept_spread(np.array(rotated)).max() < 0.3
    np.testing.assert_allclose(kept_spread(aligned), 1.0, atol=1e-12)


def test_diagnostics_on_chains_of_known_behaviour() -> None:
    rng = np.random.default_rng(9)
    independent = rng.standard_normal((4, 2000))
    assert r_hat(independent) < 1.005
    assert effective_sample_size(independent) == pytest.approx(8000, rel=0.1)
    rho = 0.8
    chain = np.zeros((4, 5000))
    for t in range(1, 5000):
        chain[:, t] = rho * chain[:, t - 1] + rng.standard_normal(4)
    assert effective_sample_size(chain) == pytest.approx(20000 * (1 - rho) / (1 + rho), rel=0.2)
    apart = independent + np.array([[0.0], [0.0], [0.0], [2.0]])
    assert r_hat(apart) > 1.2
    wider = independent * np.array([[1.0], [1.0], [1.0], [5.0]])
    assert r_hat(wider) > 1.2  # same mean, other spread: seen by the folded statistic only
