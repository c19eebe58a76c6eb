"""Principal components of rows spread over sites (capePCA: dissertation, algorithm 4.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from dpcape.analyses.description import Analysis
from dpcape.analyses.parameters import check_components, is_number, shown
from dpcape.analyses.pca import PCA as DESCRIPTION
from dpcape.arrays import FloatArray
from dpcape.errors import InvalidParameter
from dpcape.estimators.estimator import FederatedEstimator
from dpcape.federation import Allowance, Federation
from dpcape.postprocessing.eigen import noise_norm, top_eigen
from dpcape.privacy.calibration import plan_release
from dpcape.statistics import centred_moments, second_moment
from dpcape.statistics.statistic import AnyStatistic

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class PCA(FederatedEstimator):
    """Principal component analysis of the rows of all sites.

    Parameters
    ----------
    n_components : int or "auto"
        Number of components; "auto" keeps the eigenvalues above the noise level, at least one.
    epsilon : float or mapping
        Privacy parameter epsilon of the whole fit: one number for all sites, or one per site.
    delta : float
        Privacy parameter delta, the same at all sites; far below one over the number of records.
    center : bool
        False decomposes the second moment, as the papers do. True also releases the mean, in the same release, and
        decomposes the covariance.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        Orthonormal rows, largest eigenvalue first; each row's largest entry is positive.
    explained_ : array of shape (n_components,)
        Eigenvalues of the released matrix.
    mean_ : array of shape (n_features,)
        Private mean; zeros without centring.
    noise_norm_ : float
        Expected operator norm of the noise in the released matrix.

    Privacy
    -------
    One release: x x' (diameter sqrt(2) B^2), or with ``center`` jointly (B x / 2, x x') (diameter 1.59 B^2). Everything
    else is post-processing.

    Edge cases
    ----------
    ==============================  ==================================================
    noise above every eigenvalue    components are returned; ``explained_`` is close to ``noise_norm_``
    one site                        centralised private PCA (Dwork et al. 2014)
    "auto" and nothing but noise    one component
    ==============================  ==================================================

    References
    ----------
    H. Imtiaz and A. D. Sarwate 2018, algorithm 1; C. Dwork et al., *Analyze Gauss*, 2014.

    Examples
    --------
    >>> import numpy as np
    >>> from dpcape import PCA, Federation, Independent, in_process, rows
    >>> X = np.outer(np.linspace(-1, 1, 2000), [0.6, 0.8])
    >>> fed = Federation(in_process({"lyon": rows(X, bound=1.0)}), protocol=Independent())
    >>> PCA(n_components=1, epsilon=5.0, delta=1e-6).fit(fed).components_.round(1)
    array([[0.6, 0.8]])
    """

    analysis: ClassVar[Analysis | None] = DESCRIPTION
    _fitted: ClassVar[tuple[str, ...]] = ("components_", "explained_", "mean_", "noise_norm_")

    def __init__(
        self,
        n_components: int | str,
        *,
        epsilon: float | Mapping[str, float],
        delta: float,
        center: bool = False,
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.center = center

    def _statistic(self, federation: Federation) -> AnyStatistic:
        return centred_moments(federation.facts) if self.center else second_moment(federation.facts)

    def _fit(self, federation: Federation, private: Allowance) -> None:
        released = private.mean(self._statistic(federation))
        mean, moment = _centred(released) if self.center else (np.zeros(federation.n_features), released)
        self.mean_: FloatArray = mean
        self.noise_norm_ = noise_norm(private.releases[-1].scale, federation.n_features)
        wanted = check_components(self.n_components, federation.n_features)
        values, vectors = top_eigen(moment, wanted or federation.n_features)
        if wanted is None:
            # Eigenvalues of pure noise stay below its norm; 10% covers its fluctuation.
            wanted = max(1, int(np.sum(values > 1.1 * self.noise_norm_)))
        self.components_ = vectors[:, :wanted].T.copy()
        self.explained_ = values[:wanted]

    def transform(self, X: ArrayLike) -> FloatArray:
        """Return the scores of new rows, prepared as the sites prepare theirs, on the components."""
        rows = self._checked_rows(X, self.n_features_in_ if hasattr(self, "n_features_in_") else 0)
        scores: FloatArray = (rows - self.mean_) @ self.components_.T
        return scores

    def inverse_transform(self, scores: ArrayLike) -> FloatArray:
        """Return the rows that have these scores."""
        check_is_fitted(self, "guarantee_")
        given = np.asarray(scores, dtype=np.float64)
        if given.ndim != 2 or given.shape[1] != len(self.components_):
            raise InvalidParameter(
                f"scores must have one column per component ({len(self.components_)}); got shape {given.shape}. "
                "Pass what transform returns."
            )
        rows: FloatArray = given @ self.components_ + self.mean_
        return rows

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
        """Return the names of the components."""
        check_is_fitted(self, "guarantee_")
        return np.array([f"pca{index}" for index in range(len(self.components_))], dtype=object)

    def expected_error(self, federation: Federation, spectrum: ArrayLike, *, failure: float = 0.05) -> ExpectedError:
        """Bound the error due to noise, for a declared spectrum; spends nothing (dissertation, section 4.2.2).

        Parameters
        ----------
        federation : Federation
            Its sizes and protocol determine the noise.
        spectrum : array_like
            Eigenvalues of the second moment in descending order, from public knowledge; padded with zeros.
        failure : float
            Probability with which the noise may exceed what the bounds assume.
        """
        wanted = check_components(self.n_components, federation.n_features)
        values = _checked_spectrum(spectrum, federation.n_features)
        if not is_number(failure) or not 0 < failure < 1:
            raise InvalidParameter(f"failure must be strictly between 0 and 1; got {shown(failure)}. Try 0.05.")
        if wanted is None:
            raise InvalidParameter(
                "n_components must be a whole number for expected_error; got 'auto'. Choose a number of components."
            )
        terms = federation.terms(self.epsilon, self.delta)
        plan = plan_release(terms, 0, self._statistic(federation), federation.protocol)
        scale = plan.sum_scale(terms.sites) / terms.divisor(terms.sites)
        padded = np.concatenate([values, np.zeros(federation.n_features + 1 - values.size)])
        return _bounds(padded, wanted, scale, failure)

    def plot_scree(self, ax: Axes | None = None) -> Axes:
        """Draw the eigenvalues and the noise level."""
        from dpcape.report.plots import scree

        check_is_fitted(self, "guarantee_")

        return scree(self.explained_, self.noise_norm_, ax)


@dataclass(frozen=True)
class ExpectedError:
    """Bounds on the error due to noise; all hold except with probability ``failure``.

    Attributes
    ----------
    energy_loss : float
        Upper bound on the captured energy lost, at most 2 K eta.
    energy_share : float
        Lower bound on the captured energy, as a share of the optimum.
    subspace_distance : float
        Upper bound on the operator norm between projectors, eta / (gap - eta); 1 when the gap is too small.
    approximation : float
        Upper bound on the operator norm of A minus its private rank-K approximation, lambda_{K+1} + 2 eta.
    noise : float
        Eta, the bound on the operator norm of the noise.
    failure : float
        Probability with which the noise may exceed ``noise``.
    """

    energy_loss: float
    energy_share: float
    subspace_distance: float
    approximation: float
    noise: float
    failure: float


def _checked_spectrum(spectrum: ArrayLike, largest: int) -> FloatArray:
    """Return a declared spectrum as an array, or refuse it."""
    try:
        values = np.asarray(spectrum, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.full((), np.nan)
    # Computed eigenvalues may be slightly negative by rounding; comparisons with NaN are false.
    listed = values.ndim == 1 and 1 <= values.size <= largest
    if not listed or not (values > -1e-12).all() or (np.diff(values) > 0).any():
        raise InvalidParameter(
            f"spectrum must be 1 to {largest} nonnegative numbers in descending order; got {shown(spectrum)}. List the "
            "largest eigenvalue first."
        )
    return values


def _bounds(values: FloatArray, n_components: int, scale: float, failure: float) -> ExpectedError:
    eta = noise_norm(scale, values.size - 1, failure)
    energy = float(values[:n_components].sum())
    # No subspace captures less than the smallest eigenvalues do.
    loss = min(2 * n_components * eta, energy - float(values[:-1][-n_components:].sum()))
    gap = float(values[n_components - 1] - values[n_components])
    return ExpectedError(
        energy_loss=loss,
        energy_share=1 - loss / energy if energy > 0 else 0.0,
        subspace_distance=min(1.0, eta / (gap - eta)) if gap > eta else 1.0,
        approximation=float(values[n_components]) + 2 * eta,
        noise=eta,
        failure=failure,
    )


def _centred(released: tuple[FloatArray, FloatArray]) -> tuple[FloatArray, FloatArray]:
    mean, moment = released
    return mean, moment - np.outer(mean, mean)
