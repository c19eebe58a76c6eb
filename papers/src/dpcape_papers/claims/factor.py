"""Claims about the factor-analysis release (factor paper)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from sklearn.linear_model import Lasso

from dpcape.core.arrays import FloatArray
from dpcape_papers.claims.claim import WRONG, Claim, Evidence, number

_RIDGE, _LASSO = 0.7, 3.0


@dataclass(frozen=True)
class _Problem:
    """A small example: features X (n x p), factors E (K x n), loadings (p x K), response and target coefficients."""

    features: FloatArray
    factors: FloatArray
    loadings: FloatArray
    response: FloatArray
    target: FloatArray

    @property
    def inner(self) -> FloatArray:
        """(Lambda' Lambda)^-1."""
        return np.asarray(np.linalg.inv(self.loadings.T @ self.loadings))

    def objective(self, gamma: FloatArray, cross: float = 2.0) -> float:
        """Return eq. 12 with ``cross`` as the coefficient of its mixed term; 2 is right up to a constant."""
        left = self.response - self.factors.T @ (self.target + gamma)
        ridge = gamma @ self.inner @ gamma + cross * gamma @ self.inner @ self.target
        return float(left @ left + _RIDGE * ridge + _LASSO * np.abs(gamma).sum())

    def direct(self, gamma: FloatArray) -> float:
        """Return eq. 11 at beta = target + gamma."""
        beta = self.target + gamma
        left = self.response - self.factors.T @ beta
        return float(left @ left + _RIDGE * beta @ self.inner @ beta + _LASSO * np.abs(gamma).sum())


def _exactly(error: float) -> str:
    """Return the size of an error in words; rounding errors differ from machine to machine."""
    return "up to rounding" if error < 1e-9 else f"up to {number(error)}"


def _problem() -> _Problem:
    rng = np.random.default_rng(8)  # evidence on synthetic data; protects nothing
    n_records, n_features, n_factors = 40, 12, 3
    factors = rng.standard_normal((n_factors, n_records))
    features = (rng.standard_normal((n_features, n_factors)) @ factors).T + rng.standard_normal((n_records, n_features))
    loadings = features.T @ factors.T @ np.linalg.inv(factors @ factors.T)
    coefficients = rng.standard_normal(n_features)
    response = features @ coefficients + rng.standard_normal(n_records)
    target: FloatArray = np.asarray(
        np.linalg.solve(factors @ factors.T, factors @ features @ coefficients), dtype=float
    )
    return _Problem(features, factors, loadings, response, target)


def _no_guarantee() -> Evidence:
    """Reconstruct people's features from their released factors and the features of a few known people."""
    rng = np.random.default_rng(9)  # evidence on synthetic data; protects nothing
    n_records, n_features, n_factors, n_known = 200, 500, 10, 30
    factors = rng.standard_normal((n_records, n_factors))
    loadings = rng.standard_normal((n_factors, n_features))
    features = factors @ loadings + rng.standard_normal((n_records, n_features))
    left, values, _ = np.linalg.svd(features - features.mean(axis=0), full_matrices=False)
    released = left[:, :n_factors] * values[:n_factors]
    design = np.column_stack([np.ones(n_records), released])
    solution = np.linalg.lstsq(design[:n_known], features[:n_known], rcond=None)[0]
    rebuilt, true = design[n_known:] @ solution, features[n_known:]
    explained = 1 - np.sum((true - rebuilt) ** 2) / np.sum((true - true.mean(axis=0)) ** 2)
    distances = np.linalg.norm(rebuilt[:, None] - true[None], axis=2)
    found = float(np.mean(np.argmin(distances, axis=0) == np.arange(len(true))))
    lines = (
        f"200 people, 500 dense features, 10 factors released, 30 people known: {100 * explained:.0f}% of the variance "
        f"of the others' features is reconstructed, {100 * found:.0f}% of the others are identified (chance: 0.6%)",
    )
    return Evidence(lines, bool(explained > 0.5 and found > 0.5))


def _equation_5() -> Evidence:
    p = _problem()
    projection = p.factors.T @ np.linalg.inv(p.factors @ p.factors.T) @ p.factors
    error = float(np.max(np.abs(p.loadings @ p.factors - p.features.T @ projection)))
    gram = (p.factors.T @ p.factors).shape[0]
    lines = (
        f"corrected loadings reproduce eq. 6 {_exactly(error)}; eq. 5 as printed multiplies a {p.loadings.shape[0]} x "
        f"{p.loadings.shape[1]} matrix by a {p.factors.T.shape[0]} x {p.factors.T.shape[1]} matrix",
        f"eq. 9 needs E E' ({p.factors.shape[0]} x {p.factors.shape[0]}) but prints E' E ({gram} x {gram})",
    )
    return Evidence(lines, error < 1e-10 and p.loadings.shape[1] != p.factors.T.shape[0])


def _equation_10() -> Evidence:
    p = _problem()
    rng = np.random.default_rng(10)  # evidence on synthetic data; protects nothing
    coefficients = rng.standard_normal(p.features.shape[1])
    best = np.linalg.solve(p.factors @ p.factors.T, p.factors @ p.features @ coefficients)
    residual = float(np.linalg.norm(p.features @ coefficients - p.factors.T @ best))
    same = float(np.max(np.abs(best - p.loadings.T @ coefficients)))
    lines = (f"predictions differ by {number(residual)}; the formula is their least-squares fit {_exactly(same)}",)
    return Evidence(lines, residual > 0.1 and same < 1e-10)


def _equation_12() -> Evidence:
    p = _problem()
    rng = np.random.default_rng(11)  # evidence on synthetic data; protects nothing
    trials = rng.standard_normal((20, p.target.size))
    right = [p.objective(g) - p.direct(g) for g in trials]
    printed = [p.objective(g, cross=1.0) - p.direct(g) for g in trials]
    lines = (
        f"difference from eq. 11 at 20 points: constant {_exactly(float(np.ptp(right)))} with the coefficient 2; as "
        f"printed it varies by {number(float(np.ptp(printed)))}",
    )
    return Evidence(lines, bool(np.ptp(right) < 1e-9 and np.ptp(printed) > 0.1))


def _theorem_1() -> Evidence:
    p = _problem()
    root = np.linalg.cholesky(p.inner).T  # root' root = inner
    start = minimize(p.direct, np.zeros(p.target.size), method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-12})
    corrected = _lasso(
        np.vstack([p.factors.T, math.sqrt(_RIDGE) * root]),
        np.concatenate([p.response - p.factors.T @ p.target, -math.sqrt(_RIDGE) * root @ p.target]),
        _LASSO,
    )
    changed = np.linalg.solve(root.T, p.factors)
    printed = _lasso(
        np.vstack([changed.T, math.sqrt(_RIDGE) * np.eye(p.target.size)]),
        np.concatenate([p.response, root @ p.target]),
        _LASSO / abs(np.linalg.det(root)),
    )
    values = p.direct(corrected), float(start.fun), p.direct(np.linalg.solve(root, printed))
    lines = (
        f"objective of eq. 11: as one Lasso in gamma {values[0]:.6f}, minimised directly {values[1]:.6f}, by theorem I "
        f"{number(values[2])}",
    )
    return Evidence(lines, values[0] <= values[1] + 1e-5 and values[2] > values[0] + 0.1)


def _lasso(design: FloatArray, response: FloatArray, penalty: float) -> FloatArray:
    model = Lasso(alpha=penalty / (2 * len(response)), fit_intercept=False, tol=1e-12, max_iter=100_000)
    return np.asarray(model.fit(design, response).coef_)


CLAIMS = (
    Claim(
        "factor-guarantee",
        "factor paper, abstract and sections III and IV.C",
        "Releasing recalibrated factors fully guarantees privacy: features can be reconstructed only if they are "
        "sparse, the model's error perturbs them, and their number stays unknown.",
        WRONG,
        "The release is a function of the data, so no (epsilon, delta) with delta below 1 holds. An "
        "adversary who knows some of the people can reconstruct the others by regression, whether features are sparse "
        "or not; the error is estimated, not added. dpcape prints an empirical risk report, never a guarantee, and "
        "offers PrivateFactorModel.",
        _no_guarantee,
        ("factor-2",),
    ),
    Claim(
        "factor-equations-5-9",
        "factor paper, eqs. 5 and 9",
        "Formulas of the recalibrated loadings and of the ridge solution.",
        WRONG,
        "The loadings are Lambda = X' E' (E E')^-1, and eq. 9 needs E E'.",
        _equation_5,
    ),
    Claim(
        "factor-equation-10",
        "factor paper, eq. 10",
        "The coefficients give the same predictions as the original features.",
        WRONG,
        "They give the closest predictions: beta* = Lambda' beta is a least-squares fit.",
        _equation_10,
    ),
    Claim(
        "factor-equation-12",
        "factor paper, eq. 12",
        "This is eq. 11 in terms of gamma.",
        WRONG,
        "The mixed term needs the coefficient 2.",
        _equation_12,
    ),
    Claim(
        "factor-theorem-1",
        "factor paper, theorem I",
        "Eq. 12 is a Lasso in transformed coefficients, with the penalty divided by a determinant.",
        WRONG,
        "An L1 norm does not scale by a determinant. Eq. 11 is a Lasso in gamma itself, with the ridge term as "
        "additional rows.",
        _theorem_1,
    ),
)
