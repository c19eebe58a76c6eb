"""FactorRelease: releases latent factors of one holder's subjects instead of their features."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from dpcape.core.arrays import FloatArray
from dpcape.core.errors import Failed, InvalidParameter
from dpcape.estimators.fitted import require_fitted
from dpcape.estimators.parameters import Parameters
from dpcape.factor_release.bundle import Bundle, bundle_of
from dpcape.factor_release.competitors import competitor_predictions
from dpcape.factor_release.gibbs_sampler import StandardisedFeatures
from dpcape.factor_release.markov_chain import ChainSettings
from dpcape.factor_release.posterior import Posterior, run_chains, short_chain, starting_number
from dpcape.factor_release.prediction import (
    Interval,
    TestError,
    credible_interval,
    draw_predictions,
    error_interval,
    predictive_interval,
)
from dpcape.factor_release.preparation import (
    as_covariates,
    as_response,
    as_table,
    check_n_factors,
    check_not_released,
    check_parts,
    check_settings,
    standardise,
)
from dpcape.factor_release.recommended import RecommendedModel, recalibrated_loadings
from dpcape.factor_release.release_files import ReleasePaths, write_release
from dpcape.factor_release.risk import RiskReport, assess_risk
from dpcape.factor_release.subjects import Calibration, SubjectDraws, calibrate, recommend


class FactorRelease(Parameters):
    """Factor-analysis release of a single holder, with a measured disclosure risk.

    Few subjects with very many features are reduced to K factors each. The third party gets the factors of
    training subjects with their responses, those of test subjects without, and a recommended model; no
    loadings and no features.

    Parameters
    ----------
    n_factors : int or "adaptive"
        Number of factors K, below the number of subjects; "adaptive" estimates it during the burn-in.
    prior : str
        "multiplicative" (shrinks later factors, [BD11]) or "independent" (equation (4) as printed).
    n_burn_in, n_draws, thin, n_chains : int
        Sweeps before the first draw, draws kept per chain, sweeps per draw, number of chains.
    random_state : int or None
        Seed of the sampler; None draws one, kept in ``seed_``. Equal seeds and data give equal results up to rounding.
    kernel : str
        "numba", "lapack", or "auto" for numba where it is installed.
    missing : str
        "refuse", or "drop" to leave out features with missing values.
    n_folds : int
        Folds for choosing the recommended model's weights.
    checkpoint : str or os.PathLike[str] or None
        Folder in which interrupted chains are kept, or None. It is as sensitive as the features; keep it at the holder.
    checkpoint_every : int
        Sweeps between two saves.
    progress : bool
        Show a progress bar.

    Attributes
    ----------
    n_factors_ : int
        Number of factors.
    n_factors_trace_ : list of int
        Number of factors that were not redundant at each adapting sweep.
    factors_, factors_test_, draws_ : ndarray
        Posterior means (n_train, K) and (n_test, K) in a common rotation, and draws (n_draws, n_train + n_test, K).
    loadings_ : ndarray
        (K, p), recalibrated loadings, corrected equation (5). Never released.
    recommended_ : RecommendedModel or None
        The recommended model, if there are responses.
    features_used_ : ndarray of bool
        (p,), features that vary and are complete.
    diagnostics_, risk_ : dict, RiskReport
        R-hat and effective sample size by monitored quantity; measured risk of the last release.

    Privacy
    -------
    No differential-privacy guarantee. Factors are a function of the records, covariates and responses are released
    as they are. ``release`` always measures and writes the disclosure risk of everything released.

    Edge cases
    ----------
    ============================  ==========================================
    K >= n, or K > p              refused
    constant features             left out, see ``features_used_``
    missing values                refused, or the features dropped
    responses of test subjects    refused
    no responses                  factors are released without a model
    ============================  ==========================================

    References
    ----------
    [KS18] S. Kundu and S. Suthaharan, *Privacy-preserving predictive model using factor analysis for neuroscience
    applications*, sections III and IV; [BD11] A. Bhattacharya and D. B. Dunson, *Sparse Bayesian infinite factor
    models*, Biometrika 2011 (prior and adaptation).

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> latent = rng.standard_normal((60, 3))
    >>> X = latent @ rng.standard_normal((3, 200)) + rng.standard_normal((60, 200))
    >>> y = latent[:, 0] + 0.1 * rng.standard_normal(60)
    >>> model = FactorRelease(3, n_burn_in=100, n_draws=50, random_state=1, kernel="lapack")
    >>> model = model.fit(X[:40], y[:40], X_test=X[40:])
    >>> bool(model.test_error(y[40:]).mse < 0.5 * y[40:].var())
    True
    """

    def __init__(
        self,
        n_factors: int | str = "adaptive",
        *,
        prior: str = "multiplicative",
        n_burn_in: int = 1000,
        n_draws: int = 500,
        thin: int = 2,
        n_chains: int = 2,
        random_state: int | None = None,
        kernel: str = "auto",
        missing: str = "refuse",
        n_folds: int = 5,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: int = 500,
        progress: bool = False,
    ) -> None:
        self.n_factors = n_factors
        self.prior = prior
        self.n_burn_in = n_burn_in
        self.n_draws = n_draws
        self.thin = thin
        self.n_chains = n_chains
        self.random_state = random_state
        self.kernel = kernel
        self.missing = missing
        self.n_folds = n_folds
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every
        self.progress = progress

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        X_test: ArrayLike | None = None,
        covariates: ArrayLike | None = None,
        covariates_test: ArrayLike | None = None,
    ) -> FactorRelease:
        """Sample the factor model on all features, then fit the recommended model to the training responses.

        Parameters
        ----------
        X : array-like
            (n_train, p) features of the training subjects.
        y : array-like or None
            (n_train,) their responses.
        X_test : array-like or None
            (n_test, p) features of the test subjects. Their responses are not accepted.
        covariates, covariates_test : array-like or None
            (n_train, q) and (n_test, q), released as they are and not penalised.
        """
        check_settings(self.get_params(deep=False))
        train = as_table(X, "X")
        test = np.empty((0, train.shape[1])) if X_test is None else as_table(X_test, "X_test")
        if test.shape[1] != train.shape[1]:
            raise InvalidParameter(
                "X_test", f"have the {train.shape[1]} features of X", test.shape[1], "Pass the same features."
            )
        response = None if y is None else as_response(y, len(train), len(test))
        with_covariates = (covariates is not None, covariates_test is not None)
        check_parts(len(train), len(test), self.n_folds, with_covariates=with_covariates)
        values, self._standardisation = standardise(np.vstack([train, test]), self.missing)
        check_n_factors(self.n_factors, *values.shape)
        self.features_used_ = self._standardisation.used
        self._released = False
        self._posterior = self._sample(values)
        subjects = SubjectDraws(
            features=values,
            draws=self._posterior.draws,
            n_train=len(train),
            response=response,
            covariates=as_covariates(covariates, len(train), "covariates"),
            covariates_test=as_covariates(covariates_test, len(test), "covariates_test"),
        )
        return self._set_subjects(subjects)

    def _sample(self, values: FloatArray) -> Posterior:
        """Run the chains as the parameters say."""
        self.seed_ = secrets.randbits(63) if self.random_state is None else int(self.random_state)
        adaptive = self.n_factors == "adaptive"
        plan = ChainSettings(
            n_factors=starting_number(*values.shape) if adaptive else int(self.n_factors),
            adaptive=adaptive,
            prior=self.prior,
            n_burn_in=self.n_burn_in,
            n_draws=self.n_draws,
            thin=self.thin,
            seed=(self.seed_,),
        )
        posterior = run_chains(
            StandardisedFeatures(values),
            plan,
            n_chains=self.n_chains,
            kernel=self.kernel,
            checkpoint=None if self.checkpoint is None else Path(self.checkpoint),
            checkpoint_every=self.checkpoint_every,
            progress=self.progress,
        )
        self.n_factors_ = int(posterior.draws.shape[2])
        self.n_factors_trace_ = posterior.n_factors_trace
        self.diagnostics_ = posterior.diagnostics
        return posterior

    def _set_subjects(self, subjects: SubjectDraws) -> FactorRelease:
        """Set the subjects and everything computed from them."""
        self._subjects = subjects
        self.draws_ = subjects.draws
        self.factors_ = subjects.factors[: subjects.n_train]
        self.factors_test_ = subjects.factors[subjects.n_train :]
        self.loadings_ = recalibrated_loadings(subjects.factors, subjects.features)
        self._calibration: Calibration | None = None
        self.recommended_: RecommendedModel | None = None
        if subjects.response is not None:
            self._calibration = calibrate(subjects, subjects.response, n_folds=self.n_folds)
            self.recommended_ = recommend(subjects, subjects.response, self._calibration)
        return self

    def _fitted_model(self) -> tuple[SubjectDraws, FloatArray, Calibration, RecommendedModel]:
        subjects = self._checked_subjects()
        if subjects.response is None or self._calibration is None or self.recommended_ is None:
            raise Failed("There is no recommended model", "fit() was called without y", "Pass y to fit().")
        return subjects, subjects.response, self._calibration, self.recommended_

    def _checked_subjects(self) -> SubjectDraws:
        require_fitted(self, "_subjects")
        return self._subjects

    def predict(self) -> FloatArray:
        """Predict the test subjects' responses with the recommended model."""
        subjects, _, _, model = self._fitted_model()
        return model.predict(self.factors_test_, subjects.covariates_test)

    def _by_draw(self) -> FloatArray:
        subjects, response, calibration, model = self._fitted_model()
        return draw_predictions(
            subjects.draws,
            response,
            gram=subjects.gram,
            fitted=calibration.fitted,
            model=model,
            covariates=subjects.covariates,
            covariates_test=subjects.covariates_test,
        )

    def predict_interval(self, *, level: float = 0.95, kind: str = "credible") -> Interval:
        """Predict the test subjects with intervals.

        Parameters
        ----------
        level : float
            Probability, between 0 and 1.
        kind : str
            "credible" for the predicted value over the draws, as in the paper; "predictive" for a new response.
        """
        if not 0 < level < 1:
            raise InvalidParameter("level", "be between 0 and 1", level, "Use for instance 0.95.")
        if kind == "credible":
            return credible_interval(self.predict(), self._by_draw(), level)
        if kind == "predictive":
            variance = self._fitted_model()[3].cv_error
            return predictive_interval(self.predict(), self._by_draw(), level, error_variance=variance)
        raise InvalidParameter("kind", 'be "credible" or "predictive"', repr(kind), "Use one of them.")

    def test_error(self, y_test: ArrayLike, *, level: float = 0.95) -> TestError:
        """Return the test part's mean squared error and its interval over the draws; y_test is not kept."""
        truth = as_response(y_test, self._checked_subjects().n_test, 0)
        return error_interval(self.predict(), self._by_draw(), truth, level)

    def competitors(self) -> dict[str, FloatArray]:
        """Predict the test subjects with the paper's competitors, on the same data and number of factors."""
        subjects, response, _, _ = self._fitted_model()
        return competitor_predictions(
            subjects.features,
            response,
            factors=subjects.factors,
            loadings=self._posterior.loadings,
            covariates=subjects.covariates,
            covariates_test=subjects.covariates_test,
        )

    def transform(self, X: ArrayLike) -> FloatArray:
        """Return the factors of further subjects, without sampling again."""
        return np.asarray(self._project(X)[1].mean(axis=0))

    def _project(self, X: ArrayLike) -> tuple[FloatArray, FloatArray]:
        n = len(self._checked_subjects().features)
        table = as_table(X, "X")
        values = self._standardisation.apply(table)
        if np.isnan(values).any():
            raise InvalidParameter("X", "not have missing values in features used", "at least one", "Impute them.")
        return values, self._posterior.project(values, np.random.default_rng([self.seed_, n]))

    def update(
        self, X: ArrayLike, y: ArrayLike | None = None, *, covariates: ArrayLike | None = None, part: str = "test"
    ) -> FactorRelease:
        """Add subjects without sampling again, before the release; after it, it is refused: it would show them.

        Parameters
        ----------
        X, y, covariates : array-like
            (m, p) features; (m,) responses, for ``part="training"`` only; (m, q) covariates, if the model has them.
        part : str
            Where the subjects are added: "test" or "training".
        """
        subjects = self._checked_subjects()
        check_not_released(self._released)
        values, draws = self._project(X)
        extra = as_covariates(covariates, len(values), "covariates")
        if (extra is None) != (subjects.covariates is None):
            raise InvalidParameter("covariates", "be given exactly if fit() got them", "the opposite", "Follow fit().")
        if part == "test":
            if y is not None:
                raise InvalidParameter(
                    "y", "be left out for test subjects", "responses", "Leave it out: it would be released."
                )
            return self._set_subjects(subjects.with_test(values, draws, extra))
        if part != "training":
            raise InvalidParameter("part", 'be "test" or "training"', repr(part), "Use one of them.")
        if (y is None) != (subjects.response is None):
            raise InvalidParameter("y", "be given exactly if fit() got it", "the opposite", "Call update() like fit().")
        response = None if y is None else as_response(y, len(values), 0)
        return self._set_subjects(subjects.with_training(values, draws, response=response, covariates=extra))

    def bundle(self, *, n_released_draws: int = 0) -> Bundle:
        """Return what the third party would get, in the holder's row order."""
        subjects = self._checked_subjects()
        return bundle_of(subjects, self._calibration, self.factors_, self.factors_test_, n_draws=n_released_draws)

    def assess_risk(self, *, n_released_draws: int = 0, n_repeats: int = 10, response_known: bool = True) -> RiskReport:
        """Attack the release on the holder's own data and report the success; parameters as in ``release``."""
        return assess_risk(
            self.bundle(n_released_draws=n_released_draws),
            self._checked_subjects().features,
            refit=lambda X: short_chain(X, self.n_factors_, self.prior, seed=(self.seed_, 2), kernel=self.kernel),
            rng=np.random.default_rng([self.seed_, 1]),
            n_repeats=n_repeats,
            model=self.recommended_,
            response_known=response_known,
        )

    def release(
        self,
        folder: str | os.PathLike[str],
        *,
        n_released_draws: int = 0,
        n_repeats: int = 10,
        response_known: bool = True,
    ) -> ReleasePaths:
        """Write one folder for the third party, and one for the holder with the risk report.

        Parameters
        ----------
        folder : str or os.PathLike[str]
            Where to write the folders ``third_party`` and ``holder``.
        n_released_draws : int
            Number of posterior draws of the factors to release as well.
        n_repeats : int
            Repetitions of each attack in the risk report.
        response_known : bool
            Whether an adversary may know a person's response; if not, such adversaries do not make the headline.
        """
        draws = n_released_draws
        self.risk_ = self.assess_risk(n_released_draws=draws, n_repeats=n_repeats, response_known=response_known)
        self._released = True
        return write_release(self.bundle(n_released_draws=draws), self.risk_, Path(folder))
