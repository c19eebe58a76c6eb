"""The recommended model of the paper's section IV, with its formulas put right.

Corrections (the printed forms do not conform or are false): loadings (5) are X'E(E'E)^-1; the coefficients
beta* that imitate a regression on the features, (10), are least squares, Lambda' beta_hat; and Theorem I
does not hold, since an L1 norm does not scale by a determinant. None is needed: with A = (Lambda'Lambda)^-1
= R'R and gamma = beta - beta*, (11) is directly a Lasso,

    min | [y - E beta*; -sqrt(ridge) R beta*] - [E; sqrt(ridge) R] gamma |^2 + lasso |gamma|_1 ,    beta =
    beta* + gamma.

A is scaled to a largest eigenvalue of one, absorbed in ``ridge``, because the scale of Lambda'Lambda would
tell the number of features. Intercept and covariates are not penalised and are projected out of the data
rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcape.core.arrays import FloatArray
from dpcape.core.errors import InvalidParameter
from dpcape.factor_release.ridge import least_squares, residual_maker, with_intercept

RIDGES: tuple[float, ...] = tuple(float(v) for v in np.logspace(-4, 4, 17))
# Lasso weights as fractions of the smallest one that gives beta = beta*; zero is the plain ridge estimate (9).
LASSO_FRACTIONS: tuple[float, ...] = (0.0, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)


def recalibrated_loadings(factors: FloatArray, features: FloatArray) -> FloatArray:
    """Return corrected (5) as K x p: the least-squares loadings given the factors."""
    return np.asarray(np.linalg.solve(factors.T @ factors, factors.T @ features))


def penalty_root(factors: FloatArray, gram: FloatArray) -> FloatArray:
    """Return upper-triangular R with R'R proportional to (Lambda'Lambda)^-1, largest eigenvalue one.

    ``gram`` is X X' of all subjects, so that nothing here costs O(p).
    """
    projector = np.linalg.solve(factors.T @ factors, factors.T)
    values, vectors = np.linalg.eigh(projector @ gram @ projector.T)
    inverse = values[0] / np.maximum(values, np.finfo(float).tiny)
    # QR of a root of A gives the triangular root without squaring the condition number.
    R = np.linalg.qr(np.sqrt(inverse)[:, None] * vectors.T, mode="r")
    return np.asarray(R * np.sign(np.diag(R))[:, None])


def guide_coefficients(factors: FloatArray, fitted: FloatArray) -> FloatArray:
    """Return corrected (10), Lambda' beta_hat, as least squares of X beta_hat (all subjects) on factors."""
    return np.asarray(np.linalg.solve(factors.T @ factors, factors.T @ fitted))


def modified_design(factors: FloatArray, root: FloatArray, ridge: float) -> FloatArray:
    """Return the modified design [E; sqrt(ridge) R] the third party regresses on."""
    return np.vstack([factors, np.sqrt(ridge) * root])


def modified_response(
    factors: FloatArray, root: FloatArray, ridge: float, *, response: FloatArray, guide: FloatArray
) -> FloatArray:
    """Return the modified response that goes with :func:`modified_design`."""
    return np.concatenate([response - factors @ guide, -np.sqrt(ridge) * (root @ guide)])


def recommended_objective(
    beta: FloatArray,
    factors: FloatArray,
    response: FloatArray,
    *,
    root: FloatArray,
    guide: FloatArray,
    ridge: float,
    lasso: float,
) -> float:
    """Evaluate (11) at ``beta``."""
    misfit = float(np.sum((response - factors @ beta) ** 2))
    return misfit + ridge * float(np.sum((root @ beta) ** 2)) + lasso * float(np.abs(beta - guide).sum())


def lasso_limit(
    factors: FloatArray, response: FloatArray, *, root: FloatArray, guide: FloatArray, ridge: float
) -> float:
    """Return the smallest lasso weight at which the solution is the guide itself."""
    design = modified_design(factors, root, ridge)
    target = modified_response(factors, root, ridge, response=response, guide=guide)
    return 2.0 * float(np.abs(design.T @ target).max())


def solve_recommended(
    factors: FloatArray, response: FloatArray, *, root: FloatArray, guide: FloatArray, ridge: float, lassos: FloatArray
) -> FloatArray:
    """Minimise (11) for each lasso weight; return len(lassos) x K coefficients beta."""
    design = modified_design(factors, root, ridge)
    target = modified_response(factors, root, ridge, response=response, guide=guide)
    order = np.argsort(-lassos)
    # scikit-learn's objective is |.|^2 / (2 rows) + alpha |.|_1, so alpha = lasso / (2 rows).
    alphas = lassos[order] / (2.0 * len(target))
    positive = alphas > 0
    gammas = np.zeros((len(lassos), len(guide)))
    if positive.any():
        # Loaded when it is used: scikit-learn takes most of a second.
        from sklearn.linear_model import lasso_path

        _, path, _ = lasso_path(design, target, alphas=alphas[positive], tol=1e-9, max_iter=200_000)
        gammas[order[positive]] = path.T
    gammas[order[~positive]] = np.linalg.lstsq(design, target, rcond=None)[0]
    return guide + gammas


@dataclass(frozen=True)
class RecommendedModel:
    """A fitted recommended model, made only of what the third party was given."""

    coefficients: FloatArray
    unpenalised: FloatArray
    ridge: float
    lasso_fraction: float
    cv_error: float

    def predict(self, factors: FloatArray, covariates: FloatArray | None = None) -> FloatArray:
        """Predict responses of subjects from their factors."""
        return np.asarray(factors @ self.coefficients + with_intercept(covariates, len(factors)) @ self.unpenalised)


def _coefficients(
    factors: FloatArray,
    response: FloatArray,
    unpenalised: FloatArray,
    *,
    root: FloatArray,
    guide: FloatArray,
    ridge: float,
    fractions: FloatArray,
) -> FloatArray:
    """Solve with the unpenalised columns projected out; len(fractions) x K."""
    M = residual_maker(unpenalised)
    E, y = M @ factors, M @ response
    limit = lasso_limit(E, y, root=root, guide=guide, ridge=ridge)
    return solve_recommended(E, y, root=root, guide=guide, ridge=ridge, lassos=fractions * limit)


def fit_at(
    factors: FloatArray,
    response: FloatArray,
    *,
    covariates: FloatArray | None,
    root: FloatArray,
    guide: FloatArray,
    ridge: float,
    lasso_fraction: float,
    cv_error: float = float("nan"),
) -> RecommendedModel:
    """Fit at one point of the grid."""
    unpenalised = with_intercept(covariates, len(response))
    fractions = np.array([lasso_fraction])
    beta = _coefficients(factors, response, unpenalised, root=root, guide=guide, ridge=ridge, fractions=fractions)[0]
    return RecommendedModel(
        beta, least_squares(unpenalised, response - factors @ beta), ridge, lasso_fraction, cv_error
    )


def cross_validated_errors(
    factors: FloatArray,
    response: FloatArray,
    *,
    covariates: FloatArray | None,
    root: FloatArray,
    fold: NDArray[np.int_],
    fold_guides: FloatArray,
    ridges: tuple[float, ...] = RIDGES,
    fractions: tuple[float, ...] = LASSO_FRACTIONS,
) -> FloatArray:
    """Return mean squared held-out errors, len(ridges) x len(fractions).

    Each fold uses the guide computed without it: a guide that used the held-out responses would make shrinking
    towards it look better than it is.
    """
    squared = np.zeros((len(ridges), len(fractions)))
    unpenalised = with_intercept(covariates, len(response))
    for number, guide in enumerate(fold_guides):
        held_out, used = fold == number, fold != number
        for i, ridge in enumerate(ridges):
            betas = _coefficients(
                factors[used], response[used], unpenalised[used],
                root=root, guide=guide, ridge=ridge, fractions=np.asarray(fractions),
            )  # fmt: skip
            for j, beta in enumerate(betas):
                free = least_squares(unpenalised[used], response[used] - factors[used] @ beta)
                residual = response[held_out] - factors[held_out] @ beta - unpenalised[held_out] @ free
                squared[i, j] += float(residual @ residual)
    return squared / len(response)


def fit_recommended(
    factors: FloatArray,
    response: FloatArray,
    *,
    covariates: FloatArray | None,
    root: FloatArray,
    guide: FloatArray,
    fold: NDArray[np.int_],
    fold_guides: FloatArray,
    ridges: tuple[float, ...] = RIDGES,
    fractions: tuple[float, ...] = LASSO_FRACTIONS,
) -> RecommendedModel:
    """Choose the ridge and lasso weights by cross-validation, then fit on all training subjects."""
    if min(ridges) <= 0:
        raise InvalidParameter("ridges", "be positive", min(ridges), "Leave it out.")
    errors = cross_validated_errors(
        factors, response, covariates=covariates, root=root, fold=fold, fold_guides=fold_guides,
        ridges=ridges, fractions=fractions,
    )  # fmt: skip
    i, j = np.unravel_index(int(np.argmin(errors)), errors.shape)
    return fit_at(
        factors, response, covariates=covariates, root=root, guide=guide,
        ridge=ridges[i], lasso_fraction=fractions[j], cv_error=float(errors[i, j]),
    )  # fmt: skip
