"""The subjects of a release, and the calibration of the recommended model on them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpcape.core.arrays import FloatArray
from dpcape.factor_release.recommended import RecommendedModel, fit_recommended, guide_coefficients, penalty_root
from dpcape.factor_release.ridge import fit_ridge


@dataclass(frozen=True)
class SubjectDraws:
    """Training subjects first, then test subjects; responses of the former only."""

    features: FloatArray  # n x p, standardised
    draws: FloatArray  # n_draws x n x K
    n_train: int
    response: FloatArray | None  # n_train
    covariates: FloatArray | None  # n_train x q
    covariates_test: FloatArray | None  # n_test x q

    @cached_property
    def factors(self) -> FloatArray:
        """Posterior mean factors, n x K."""
        return np.asarray(self.draws.mean(axis=0))

    @cached_property
    def gram(self) -> FloatArray:
        """Inner products of the subjects' features, n x n."""
        return np.asarray(self.features @ self.features.T)

    @property
    def n_test(self) -> int:
        """Number of test subjects."""
        return len(self.features) - self.n_train

    def with_test(self, features: FloatArray, draws: FloatArray, covariates: FloatArray | None) -> SubjectDraws:
        """Return the subjects with new ones at the end of the test part."""
        return replace(
            self,
            features=np.vstack([self.features, features]),
            draws=np.concatenate([self.draws, draws], axis=1),
            covariates_test=_stack(self.covariates_test, covariates),
        )

    def with_training(
        self, features: FloatArray, draws: FloatArray, *, response: FloatArray | None, covariates: FloatArray | None
    ) -> SubjectDraws:
        """Return the subjects with new ones at the end of the training part."""
        n = self.n_train
        return replace(
            self,
            features=np.vstack([self.features[:n], features, self.features[n:]]),
            draws=np.concatenate([self.draws[:, :n], draws, self.draws[:, n:]], axis=1),
            n_train=n + len(features),
            response=None if self.response is None or response is None else np.concatenate([self.response, response]),
            covariates=_stack(self.covariates, covariates),
        )


def _stack(former: FloatArray | None, new: FloatArray | None) -> FloatArray | None:
    if former is None or new is None:
        return new if former is None else former
    return np.vstack([former, new])


@dataclass(frozen=True)
class Calibration:
    """What the recommended model needs besides factors and responses."""

    fitted: FloatArray  # n, X beta_hat
    root: FloatArray  # K x K
    guide: FloatArray  # K
    fold: NDArray[np.int_]  # n_train
    fold_guides: FloatArray  # n_folds x K


def _fitted(subjects: SubjectDraws, response: FloatArray, used: NDArray[np.intp]) -> FloatArray:
    """Return X beta_hat of all subjects, beta_hat the ridge estimate (1) on the subjects ``used``."""
    covariates = None if subjects.covariates is None else subjects.covariates[used]
    ridge = fit_ridge(subjects.gram[np.ix_(used, used)], response[used], covariates)
    return np.asarray(subjects.gram[:, used] @ ridge.weights)


def calibrate(subjects: SubjectDraws, response: FloatArray, *, n_folds: int) -> Calibration:
    """Compute the guides and the penalty of the recommended model.

    Folds are striped over the sorted responses: balanced, and no random number that a reader would have to
    trust.
    """
    train = np.arange(subjects.n_train)
    fold = np.empty(subjects.n_train, dtype=np.int_)
    fold[np.argsort(response, kind="stable")] = train % n_folds
    fitted = _fitted(subjects, response, train)
    by_fold = [_fitted(subjects, response, train[fold != number]) for number in range(n_folds)]
    return Calibration(
        fitted=fitted,
        root=penalty_root(subjects.factors, subjects.gram),
        guide=guide_coefficients(subjects.factors, fitted),
        fold=fold,
        fold_guides=np.array([guide_coefficients(subjects.factors, f) for f in by_fold]),
    )


def recommend(subjects: SubjectDraws, response: FloatArray, calibration: Calibration) -> RecommendedModel:
    """Fit the recommended model over its grid, as the third party will."""
    return fit_recommended(
        subjects.factors[: subjects.n_train],
        response,
        covariates=subjects.covariates,
        root=calibration.root,
        guide=calibration.guide,
        fold=calibration.fold,
        fold_guides=calibration.fold_guides,
    )
