"""Principal components of rows spread over sites (capePCA: dissertation, algorithm 4.1)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dpcape.analyses.description import Analysis
from dpcape.analyses.parameters import check_components, is_number, shown
from dpcape.analyses.pca import PCA as DESCRIPTION
from dpcape.analyses.scaling import Quantile, is_centred
from dpcape.core.arrays import FloatArray
from dpcape.core.errors import InvalidParameter
from dpcape.core.privacy.calibration import plan_release
from dpcape.core.statistic import AnyStatistic, build
from dpcape.estimators.eigen_noise import eigen_noise
from dpcape.estimators.estimator import effective_share
from dpcape.estimators.expected_error import ExpectedError, checked_spectrum, energy_bounds
from dpcape.estimators.fitted import require_fitted
from dpcape.estimators.pca_result import pca_result, scree_of
from dpcape.estimators.scaling import clipped_or_warned, private_scaling, recentred_or_warned, scaled
from dpcape.estimators.scores import ScoringEstimator
from dpcape.estimators.site_adjusted import SiteAdjusted
from dpcape.estimators.wide_moments import maps_of_rows_or_warned, released_moments, with_maps
from dpcape.federation.allowance import Allowance
from dpcape.federation.federation import Federation
from dpcape.postprocessing.component_tests import MomentNoise, component_p_values, moment_error
from dpcape.postprocessing.eigen import all_eigen, noise_norm
from dpcape.postprocessing.scaling import Scaling
from dpcape.postprocessing.verdicts import LEVEL, numbered, of_tests
from dpcape.results import Result
from dpcape.statistics.bases import as_basis
from dpcape.statistics.basis import Basis
from dpcape.statistics.moments import MEAN_WEIGHT, centred_moments, second_moment

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Share of the recentred rows that are not clipped: eigenvalues are reported, so few are.
_QUANTILE = 0.98


class PCA(SiteAdjusted, ScoringEstimator):
    """Principal component analysis of the rows of all sites.

    Parameters
    ----------
    n_components : int or "auto"
        Number of components; "auto" keeps those that are more than noise and sampling by the test, at least one.
    epsilon : float or mapping
        Privacy parameter epsilon of the whole fit: one number for all sites, or one per site.
    delta : float or mapping
        Privacy parameter delta, for all sites or per site; far below one over the number of records.
    center : bool or None
        True decomposes the covariance: the mean and the radius of the rows around it are released first, then the
        moments of the rows minus that mean. False decomposes the second moment, as the papers do, for columns with mean
        zero by construction: any other mean is a component of its own. None is True unless ``clip`` is given.
    clip : Quantile or None
        Instead of centring, rows are clipped to this quantile of their lengths, which is found by a release of its own
        inside the same allowance; None clips them to their bound alone.
    basis : Basis, array_like or None
        For wide rows, such as the voxels of images: a public basis in which they are analysed,
        :class:`~dpcape.Cosines`, :class:`~dpcape.Atlas`, :class:`~dpcape.Template` or a matrix of orthonormal columns,
        most important first. Noise grows with the columns of the basis instead of those of the rows.
    maps : bool
        Whether what the basis leaves out is released too, as one map per component at full resolution. If noise would
        hide the maps, judging from public numbers, the whole allowance goes to the basis.
    adjust : str or None
        With "site" the covariance is that within sites: of rows minus the mean of their site, so that sites which
        differ as a whole, by their scanner for instance, give no components. Implies ``center``. Noisy means of each
        site are then part of the result. None leaves differences between sites in.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        Orthonormal rows, largest eigenvalue first; each row's largest entry is positive.
    explained_variance_ : array of shape (n_components,)
        Eigenvalues of the released matrix.
    mean_ : array of shape (n_features,)
        Private mean; zeros without centring.
    noise_norm_ : float
        Expected operator norm of the noise in the released matrix.
    noise_scale_ : float
        Standard deviation of the noise of the second moment along any direction; NaN with ``maps``.
    variance_noise_scale_, component_noise_scale_ : array of shape (n_components,) and (n_components, n_features)
        Standard deviations of the noise in the eigenvalues and in the entries of the components, to first order; NaN
        for a component whose eigenvalue is near another, and for components in a basis.
    p_values_ : array of shape (n_components,)
        For each component, how often noise and sampling give one as strong if the rest of the records has no
        direction. Testing stops at the first value above 0.05; the rest are 1.
    interval_ : array of shape (2, n_components)
        Lower and upper end for each eigenvalue of the sample's clipped rows, at 95% for all together. Centred rows are
        clipped around the mean that is released first, of which ``mean_`` is a correction. Sampling is not part of it.
    n_kept_ : int
        Number of the first columns of the basis that are used, chosen afterwards; without a basis, all columns.
    left_out_ : float
        Mean squared length of what the basis leaves of the rows; 0 without a basis.
    radius_ : float
        Length to which rows (minus the mean, if centred) were clipped; the bound if none was released.
    sites_ : array of str
        Names of the sites; only with ``adjust``.
    site_means_ : array of shape (n_sites, n_features)
        Means of the sites, moved towards that of all as far as noise explains their distance from it; only with
        ``adjust``.

    Privacy
    -------
    Without centring one release: x x' (diameter sqrt(2) B^2). With ``clip`` two: a histogram of the lengths of the rows
    (sqrt(2)), then x x' of the rows divided by the length found and clipped to 1 (sqrt(2), whatever was found). Centred
    three: the mean (2 B), a histogram of the lengths of the rows minus that mean (sqrt(2)), and jointly the mean and
    second moment of these rows, divided by a radius and clipped to 1 (diameter 1.59 whatever the mean and the radius
    are). With so few records that no radius can be found, one: jointly (B x / 2, x x') (diameter 1.59 B^2). With a
    basis x is replaced by its coordinates in these releases, and the energy of what is left is part of them at no cost.
    With ``maps`` one more: what the basis leaves of a row times scores of the row, both clipped to 1 (diameter 2). All
    of these hold for any basis, scores and scale. With ``adjust`` the last release has the number and sum of each
    site's rows in a place of its own (diameter 1.77, or 1.77 B^2 without a radius): noisy totals of each site are
    visible, under every protocol. Everything else is post-processing.

    Notes
    -----
    Tests and intervals are about the records as they were clipped. A bound around the origin that clips many rows whose
    mean is not zero gives the rest directions of their own; choose public ranges, or a bound that clips few.

    Edge cases
    ----------
    ==============================  ==================================================
    noise above every eigenvalue    components are returned, and judged "not determined"
    one site                        centralised private PCA (Dwork et al. 2014)
    maps that noise would hide      not released; UtilityWarning
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
    _score, _per_score = "pca", "components_"
    mean_: FloatArray
    _fitted: ClassVar[tuple[str, ...]] = (
        "components_",
        "explained_variance_",
        "mean_",
        "noise_norm_",
        "noise_scale_",
        "variance_noise_scale_",
        "component_noise_scale_",
        "p_values_",
        "interval_",
        "radius_",
        "n_kept_",
        "left_out_",
        "sites_",
        "site_means_",
    )

    def __init__(
        self,
        n_components: int | str,
        *,
        epsilon: float | Mapping[str, float],
        delta: float | Mapping[str, float],
        center: bool | None = None,
        clip: Quantile | None = None,
        basis: Basis | ArrayLike | None = None,
        maps: bool = False,
        adjust: str | None = None,
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.center = center
        self.clip = clip
        self.basis = basis
        self.maps = maps
        self.adjust = adjust

    @property
    def _is_centred(self) -> bool:
        return is_centred(self.center, self.clip) or self.adjust is not None

    def _fit(self, federation: Federation, private: Allowance) -> None:
        if self.basis is not None:
            self._fit_wide(federation, private, as_basis(self.basis))
            return
        covariance, noise, share_scale = self._covariance(federation, private)
        self.noise_norm_, self.noise_scale_ = noise_norm(noise.total_scale, federation.n_features), noise.total_scale
        wanted = check_components(self.n_components, federation.n_features)
        values, vectors = all_eigen(covariance)
        p_values = component_p_values(values, vectors, noise, wanted or federation.n_features)
        if wanted is None:
            wanted = max(1, int(np.sum(p_values <= LEVEL)))
        self.variance_noise_scale_, self.component_noise_scale_ = eigen_noise(values, vectors, noise, wanted)
        values = values[:wanted].copy()
        self.n_kept_, self.left_out_ = federation.n_features, 0.0
        self.p_values_ = p_values[:wanted]
        self.components_ = vectors[:, :wanted].T.copy()
        self.explained_variance_ = values
        error = moment_error(noise, federation.n_features)
        # Unreadable records that noise hides make every eigenvalue too small by their share.
        high = (values + error) * (1 + 2 * share_scale)
        self.interval_ = np.maximum(np.stack([values - error, high]), 0.0)
        self.verdicts_ = of_tests(numbered("component", wanted), self.p_values_)
        self._state_centring(covariance, self.radius_)

    def _fit_wide(self, federation: Federation, private: Allowance, basis: Basis) -> None:
        """Fit in a public basis, and beyond it if maps are asked for and noise does not hide them."""
        public = self.public(federation)
        scaling = self._scaling(federation, private)
        self.radius_ = math.hypot(*federation.facts.bounds) if scaling is None else float(scaling.radius[0])
        moments = released_moments(federation, private, basis, scaling, center=self._is_centred)
        wanted = check_components(self.n_components, basis.n_columns)
        result = moments.components(wanted)
        share_scale = private.counted.scale
        self.noise_scale_ = moments.noise.scale
        if maps_of_rows_or_warned(public, scaled=scaling is not None):
            result = with_maps(federation, private, moments, result)
            # Values are then computed from two releases.
            self.noise_scale_ = math.nan
        self.components_, self.p_values_ = result.components, result.p_values
        self.explained_variance_ = result.values
        self.variance_noise_scale_ = np.full(len(result.values), self.noise_scale_)
        self.component_noise_scale_ = np.full(result.components.shape, math.nan)
        self.mean_, self.n_kept_, self.left_out_ = moments.mean_row, result.n_kept, moments.left_out
        self.noise_norm_ = noise_norm(moments.noise.scale, result.n_kept)
        self.interval_ = moments.interval(len(result.values), share_scale)
        self.verdicts_ = of_tests(numbered("component", len(result.values)), self.p_values_)
        self._state_centring(moments.covariance, self.radius_)

    def _covariance(self, federation: Federation, private: Allowance) -> tuple[FloatArray, MomentNoise, float]:
        """Return the released matrix, its noise, and the noise of the share of valid records; set mean and radius."""
        facts = federation.facts
        scaling = self._scaling(federation, private)
        self.radius_ = math.hypot(*facts.bounds) if scaling is None else float(scaling.radius[0])
        unit, bound = (1.0, self.radius_) if scaling is None else (self.radius_, 1.0)
        self.mean_ = np.zeros(federation.n_features)
        if self.adjust is not None:
            return self._within_sites(federation, private, scaling)
        if self._is_centred:
            statistic = scaled(facts, scaling, "centred_moments", mean_weight=MEAN_WEIGHT)
            mean, moment = private.mean(statistic)
            self.mean_ = mean if scaling is None else scaling.rows(mean)
        else:
            statistic = scaled(facts, scaling, "second_moment")
            mean, moment = np.zeros(federation.n_features), private.mean(statistic)
        release = private.releases[-1]
        scale = release.scale / private.counted.divisor
        noise = MomentNoise(
            scale=scale * unit**2,
            mean_scale=scale * unit / (MEAN_WEIGHT * bound) if self._is_centred else 0.0,
            mean=mean * unit,
            record_share=effective_share(federation, release.survivors) / private.counted.divisor,
        )
        return (moment - np.outer(mean, mean)) * unit**2, noise, private.counted.scale

    def _within_sites(
        self, federation: Federation, private: Allowance, scaling: Scaling | None
    ) -> tuple[FloatArray, MomentNoise, float]:
        unit, bound = (1.0, self.radius_) if scaling is None else (self.radius_, 1.0)
        within = self._released_within(federation, private, scaling, bound)
        self.mean_ = within.mean if scaling is None else scaling.rows(within.mean)
        self.site_means_ = within.site_means if scaling is None else scaling.rows(within.site_means)
        release = private.releases[-1]
        noise = MomentNoise(
            scale=release.scale / private.counted.divisor * unit**2,
            mean_scale=0.0,
            mean=np.zeros(federation.n_features),
            record_share=effective_share(federation, release.survivors) / private.counted.divisor,
            sites=within.noise.scaled(unit),
        )
        return within.covariance * unit**2, noise, private.counted.scale

    def _scaling(self, federation: Federation, private: Allowance) -> Scaling | None:
        """Release mean and radius if rows are recentred, or the radius if they are clipped to a quantile."""
        public = self.public(federation)
        if not self._is_centred:
            return clipped_or_warned(federation, private, public)
        # The rows of two views would be divided by a radius each, which changes their relative units.
        if federation.facts.kind == "views" or not recentred_or_warned(public):
            return None
        return private_scaling(federation, private, quantile=_QUANTILE, keep_units=True)

    def transform(self, X: ArrayLike, *, site: str | None = None) -> FloatArray:
        """Return the scores of new rows on the components.

        Parameters
        ----------
        X : array_like
            Table in original units, or array of prepared rows.
        site : str or None
            Site that the rows are from, whose mean is subtracted instead of that of all; only with ``adjust``.
        """
        rows = self._checked_rows(X, self.n_features_in_ if hasattr(self, "n_features_in_") else 0)
        return (rows - self._centre_of(site, self.mean_)) @ self.components_.T

    @property
    def original_components_(self) -> FloatArray:
        """Change of each column, in original units, when the score of a component grows by one."""
        return self.units_.steps(self.components_)

    @property
    def original_mean_(self) -> FloatArray:
        """The mean in original units; the middle of the ranges without centring."""
        return self.units_.points(self.mean_)

    def inverse_transform(self, scores: ArrayLike) -> FloatArray:
        """Return the rows that have these scores."""
        require_fitted(self)
        score_rows = np.asarray(scores, dtype=np.float64)
        if score_rows.ndim != 2 or score_rows.shape[1] != len(self.components_):
            must, got = f"have one column per component ({len(self.components_)})", f"shape {score_rows.shape}"
            raise InvalidParameter("scores", must, got, "Pass what transform returns.")
        return score_rows @ self.components_ + self.mean_

    def expected_error(self, federation: Federation, spectrum: ArrayLike, *, failure: float = 0.05) -> ExpectedError:
        """Bound the error due to noise, for a declared spectrum; spends nothing (dissertation, section 4.2.2).

        Parameters
        ----------
        federation : Federation
            Its sizes and protocol determine the noise; if a radius is released, for one as long as the bound.
        spectrum : array_like
            Eigenvalues of the second moment in descending order, from public knowledge; padded with zeros.
        failure : float
            Probability with which the noise may exceed what the bounds assume.
        """
        wanted = check_components(self.n_components, federation.n_features)
        values = checked_spectrum(spectrum, federation.n_features)
        if not is_number(failure) or not 0 < failure < 1:
            raise InvalidParameter("failure", "be strictly between 0 and 1", shown(failure), "Try 0.05.")
        if wanted is None:
            raise InvalidParameter(
                "n_components", "be a whole number for expected_error", "'auto'", "Choose a number of components."
            )
        shares = self._shares(federation)
        terms = federation.terms(self.epsilon, self.delta, shares)
        # With centring, the last release is of rows divided by a radius: here taken to be the bound.
        facts = federation.facts
        statistic: AnyStatistic = centred_moments(facts) if self._is_centred else second_moment(facts)
        if self.adjust is not None:
            statistic = build("site_centred_moments", facts, {"n_sites": len(federation.sites)})
        plan = plan_release(terms, len(shares) - 1, statistic, federation.protocol)
        scale = plan.sum_scale(terms.sites) / terms.divisor(terms.sites)
        padded = np.concatenate([values, np.zeros(federation.n_features + 1 - values.size)])
        return energy_bounds(padded, wanted, scale, failure)

    def plot_components(self, shape: tuple[int, int]) -> Axes:
        """Draw the components side by side, as images of this shape; columns are pixels in C order."""
        from dpcape.report.map_plots import plot_maps

        require_fitted(self)
        if len(shape) != 2 or math.prod(shape) != self.components_.shape[1]:
            must = f"have one pixel per column ({self.components_.shape[1]})"
            remedy = "For three-dimensional maps use dpcape.neuro.write_maps."
            raise InvalidParameter("shape", must, tuple(shape), remedy)
        return plot_maps({"": self.components_.T}, shape, n_shown=min(8, len(self.components_)))

    def _result(self) -> Result:
        return pca_result(self)

    def plot_scree(self, ax: Axes | None = None) -> Axes:
        """Draw the eigenvalues and the noise level."""
        from dpcape.report.drawing import draw

        require_fitted(self)
        return draw(scree_of(self), ax)
