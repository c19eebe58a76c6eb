"""A factor model with a guarantee, fitted to one private second moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dpcape.analyses.description import Analysis
from dpcape.analyses.parameters import check_components, check_whole
from dpcape.analyses.private_factor_model import PRIVATE_FACTOR_MODEL
from dpcape.core.arrays import FloatArray
from dpcape.core.errors import InvalidParameter
from dpcape.estimators.estimator import FederatedEstimator
from dpcape.estimators.fitted import require_fitted
from dpcape.factor_release.kernels import kernel_named
from dpcape.factor_release.moment_sampler import sample_from_moment
from dpcape.federation.allowance import Allowance
from dpcape.federation.federation import Federation
from dpcape.postprocessing.eigen import noise_norm
from dpcape.statistics.moments import second_moment


class PrivateFactorModel(FederatedEstimator):
    """Bayesian factor model of rows, from one differentially private second moment.

    :class:`FactorRelease` releases the factors of every subject without a guarantee; this releases the model
    (loadings and residual variances) with one. Anyone who has a person's features can then compute that
    person's factors, or predict one column from the others; no subject's row is released.

    Parameters
    ----------
    n_factors : int or "auto"
        Number of factors; "auto" counts the eigenvalues above what noise and sampling explain, at least one.
    epsilon : float or mapping
        One number, or one per site.
    delta : float
        Probability, strictly between 0 and 1.
    n_burn_in, n_draws : int
        Sweeps before the first draw, and draws averaged.
    random_state : int
        Seed of the sampler, which is post-processing and protects nothing.
    kernel : str
        "numba", "lapack", or "auto" for numba where it is installed.

    Attributes
    ----------
    n_factors_ : int
        Number of factors.
    loadings_ : ndarray
        (n_factors, n_features), posterior mean.
    residual_variance_ : ndarray
        (n_features,), posterior mean.
    moment_ : ndarray
        (n_features, n_features), the released second moment, made positive definite.
    noise_norm_ : float
        Expected operator norm of the noise.

    Privacy
    -------
    One release: x x' (diameter sqrt(2) B^2). Choosing the number of factors and sampling are
    post-processing. See ``guarantee_``.

    Edge cases
    ----------
    ================================  ==========================================
    more than 1000 features           refused: noise of size p hides everything
    records not above features + K    refused: the moment alone does not suffice
    only noise                        one factor
    ================================  ==========================================

    References
    ----------
    S. Kundu and S. Suthaharan, *Privacy-preserving predictive model using factor analysis for neuroscience
    applications*, equations (3) and (4); C. Dwork et al., *Analyze Gauss*, 2014.

    Examples
    --------
    >>> import numpy as np
    >>> from dpcape import Federation, Independent, in_process, rows
    >>> X = np.outer(np.linspace(-1, 1, 5000), [0.6, 0.0, 0.8])
    >>> fed = Federation(in_process({"lyon": rows(X, bound=1.0)}), protocol=Independent())
    >>> model = PrivateFactorModel(1, epsilon=1.0, delta=1e-6, n_burn_in=50, n_draws=50, random_state=0).fit(fed)
    >>> np.abs(model.loadings_).round(1)
    array([[0.3, 0. , 0.5]])
    """

    analysis: ClassVar[Analysis | None] = PRIVATE_FACTOR_MODEL
    _fitted: ClassVar[tuple[str, ...]] = ("n_factors_", "loadings_", "residual_variance_", "moment_", "noise_norm_")

    def __init__(
        self,
        n_factors: int | str,
        *,
        epsilon: float | Mapping[str, float],
        delta: float | Mapping[str, float],
        n_burn_in: int = 300,
        n_draws: int = 300,
        random_state: int = 0,
        kernel: str = "auto",
    ) -> None:
        self.n_factors = n_factors
        self.epsilon = epsilon
        self.delta = delta
        self.n_burn_in = n_burn_in
        self.n_draws = n_draws
        self.random_state = random_state
        self.kernel = kernel

    def _shares(self, federation: Federation) -> Sequence[float]:
        shares = super()._shares(federation)
        kernel_named(self.kernel)
        return shares

    def _fit(self, federation: Federation, private: Allowance) -> None:
        released = private.mean(second_moment(federation.facts))
        width = federation.n_features
        self.noise_norm_ = noise_norm(private.releases[-1].scale, width)
        values, vectors = np.linalg.eigh((released + released.T) / 2)
        wanted = check_components(self.n_factors, width, name="n_factors")
        self.n_factors_ = wanted or outstanding_factors(released, federation.n_records, self.noise_norm_)
        self.moment_ = _positive_definite(values, vectors, self.n_factors_)
        unit = np.sqrt(np.diag(self.moment_))
        posterior = sample_from_moment(
            self.moment_ / np.outer(unit, unit),
            federation.n_records,
            self.n_factors_,
            n_burn_in=self.n_burn_in,
            n_draws=self.n_draws,
            rng=np.random.default_rng(self.random_state),
            kernel=self.kernel,
        )
        self.loadings_ = posterior.loadings * unit
        self.residual_variance_ = posterior.residual_variance * unit**2

    def transform(self, X: ArrayLike) -> FloatArray:
        """Return the factors of rows, prepared as the sites prepare theirs."""
        rows = self._checked_rows(X, self.loadings_.shape[1] if hasattr(self, "loadings_") else 0)
        return _factors(rows, self.loadings_, self.residual_variance_)

    def predict_column(self, X: ArrayLike, column: int) -> FloatArray:
        """Predict one column from the others, for rows that have all columns but that one."""
        require_fitted(self)
        check_whole("column", column, 0, self.loadings_.shape[1] - 1)
        others = np.delete(np.arange(self.loadings_.shape[1]), column)
        rows = np.asarray(X, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != others.size:
            raise InvalidParameter(
                "X", f"have the other {others.size} columns", f"shape {rows.shape}", "Leave out the predicted column."
            )
        factors = _factors(rows, self.loadings_[:, others], self.residual_variance_[others])
        return np.asarray(factors @ self.loadings_[:, column])


def outstanding_factors(released: FloatArray, n_records: int, noise: float) -> int:
    """Count the eigenvalues that residual variance, sampling and noise together do not explain; at least one.

    Columns are scaled to unit second moment, so that residual variance alone has eigenvalues of at most one;
    sampling raises them to the Marchenko-Pastur edge, and noise by its norm (10% more for its fluctuation).
    """
    width = len(released)
    unit = np.sqrt(np.maximum(np.diag(released), noise))
    values = np.linalg.eigvalsh(released / np.outer(unit, unit))
    edge = (1.0 + np.sqrt(width / n_records)) ** 2 + 1.1 * noise / float(np.min(unit)) ** 2
    return int(np.clip(np.sum(values > edge), 1, max(width - 1, 1)))


def _positive_definite(values: FloatArray, vectors: FloatArray, n_factors: int) -> FloatArray:
    """Keep the largest eigenvalues and replace the others by their mean, which keeps the trace.

    Beyond the factors the model knows only residual variance, and single small eigenvalues are noise.
    """
    smallest = values[:-n_factors] if n_factors < len(values) else values[:0]
    top = np.maximum(values[len(smallest) :], 1e-12)
    level = max(float(smallest.mean()) if smallest.size else 0.0, 1e-3 * float(top.min()))
    V = vectors[:, len(smallest) :]
    return np.asarray((V * (top - level)) @ V.T + level * np.eye(len(values)))


def _factors(rows: FloatArray, loadings: FloatArray, residual_variance: FloatArray) -> FloatArray:
    weighted = loadings / residual_variance
    return np.asarray(np.linalg.solve(weighted @ loadings.T + np.eye(len(loadings)), weighted @ rows.T).T)
