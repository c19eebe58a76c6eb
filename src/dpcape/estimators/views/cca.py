"""Canonical correlations of two views spread over sites (capeCCA; with one site the DP-CCA of the poster)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dpcape.analyses.cca import CCA as DESCRIPTION
from dpcape.analyses.description import Analysis
from dpcape.analyses.parameters import check_components
from dpcape.analyses.scaling import scaling_used
from dpcape.analyses.wide import views_in_bases
from dpcape.charts import Bars
from dpcape.core.arrays import FloatArray
from dpcape.estimators.fitted import require_fitted
from dpcape.estimators.reported import grid, weights_section
from dpcape.estimators.views.multiview import PAIR_TESTS, TwoViewEstimator, noise_level
from dpcape.estimators.views.wide_views import reduced_views, released_maps, released_views
from dpcape.estimators.wide_moments import maps_or_warned
from dpcape.federation.allowance import Allowance
from dpcape.federation.federation import Federation
from dpcape.postprocessing.component_tests import (
    MomentNoise,
    correlation_draws,
    correlation_of_noise,
    correlation_p_values,
)
from dpcape.postprocessing.eigen import canonical_pairs, signed, spectra_of, whitened_cross
from dpcape.postprocessing.verdicts import LEVEL, numbered, of_tests
from dpcape.results import Estimates, Result, Section
from dpcape.statistics.bases import as_basis, as_view_bases, is_no_basis
from dpcape.statistics.basis import Basis
from dpcape.statistics.view_bases import SideBySide

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class CCA(TwoViewEstimator):
    """Canonical correlation analysis of two views over the records of all sites.

    Parameters
    ----------
    n_components : int or "auto"
        Number of pairs; "auto" keeps those that are more than noise and sampling by the test, at least one.
    epsilon : float or mapping
        Privacy parameter epsilon of the whole fit: one number for all sites, or one per site.
    delta : float or mapping
        Privacy parameter delta, for all sites or per site; far below one over the number of records.
    center : bool or None
        True, and None, use covariances: the means and the radius of each view around its mean are released first, then
        the moments of the views minus these means. False uses second moments, as the papers do, for views with mean
        zero by construction: any other means are correlated.
    scale : str or None
        With "private" the typical deviation of each column is released too, and columns are divided by it: recommended
        where columns have ranges of their own that are too wide. Implies ``center``. None leaves columns as they are.
    basis : sequence or None
        For wide views, such as the voxels of images: for each view a public basis in which it is analysed
        (:class:`~dpcape.Cosines`, :class:`~dpcape.Atlas`, :class:`~dpcape.Template` or a matrix of orthonormal columns,
        most important first), or None for a view that is read as it is.
    maps : bool
        Whether what the bases leave out is released too, as one map of loadings per pair at full resolution. If noise
        would hide the maps, judging from public numbers, the whole allowance goes to the bases.
    adjust : str or None
        With "site" covariances are those within sites: of rows minus the mean of their site, so that sites which differ
        in both views as a whole, by their scanner for instance, give no correlation. Implies ``center``. Noisy means of
        each site are then part of the result. None leaves differences between sites in.

    Attributes
    ----------
    x_weights_ : array of shape (x columns, n_components)
        Directions in the first view, one per column; with a basis, within it.
    y_weights_ : array of shape (y columns, n_components)
        Directions in the second view, one per column; with a basis, within it.
    x_loadings_ : array of shape (x columns, n_components)
        Covariances of the columns of the first view with its own canonical variates, which have variance 1.
    y_loadings_ : array of shape (y columns, n_components)
        Covariances of the columns of the second view with its own canonical variates.
    correlations_ : array of shape (n_components,)
        Canonical correlations, in [0, 1], descending.
    x_mean_ : array of shape (x columns,)
        Private mean of the first view; zeros without centring.
    y_mean_ : array of shape (y columns,)
        Private mean of the second view; zeros without centring.
    noise_scale_ : float
        Standard deviation of the noise on the diagonal of the released moment.
    noise_level_ : float
        The 95% quantile of the first correlation that noise and sampling give if the views are unrelated.
    p_values_ : array of shape (n_components,)
        For each pair, how often unrelated views would give a correlation as large, after the pairs before it. Testing
        stops at the first value above 0.05; the rest are 1.
    n_kept_ : array of shape (2,)
        Number of the first columns of each basis that are used, chosen afterwards; without a basis, all columns.
    left_out_ : array of shape (2,)
        Mean squared length of what the basis leaves of each view; 0 without a basis.
    sites_ : array of str
        Names of the sites; only with ``adjust``.
    site_means_ : array of shape (n_sites, columns of both views)
        Means of the sites, moved towards that of all as far as noise explains their distance from it; only with
        ``adjust``.

    Privacy
    -------
    Each view is divided by its bound, so that its units do not matter. Without centring one release of z z' with z =
    (x, y) stacked (diameter sqrt(8)). Centred three: the mean (diameter sqrt(8)), histograms of the lengths of the rows
    of each view minus it (2), and jointly the mean and second moment of these rows, divided by a radius per view and
    clipped to 1 (diameter 3.18 whatever was released before). With ``scale`` absolute deviations (sqrt(D)) after the
    mean. With so few records that no radius can be found, the last release only. Eigenvalues of each view's moment are
    floored at 1.5 times the operator norm of its noise: post-processing. With a basis a view is replaced by its
    coordinates in these releases, and the energy of what is left of each view is part of them at no cost. With ``maps``
    one more: what the bases leave of a row, clipped to 1, times the variates of each view, clipped to 1 (diameter 2).
    With ``adjust`` the last release has the number and sum of each site's rows in a place of its own (diameter 3.54):
    noisy totals of each site are visible, under every protocol. All of these hold for any bases, weights and scales.

    Edge cases
    ----------
    ================================  ======================================================
    indefinite noisy blocks           eigenvalues floored, never an exception
    correlations above one            set to one
    one site                          centralised private CCA (poster)
    "auto" and nothing but noise      one pair
    maps that noise would hide        not released; UtilityWarning
    a basis and ``scale``             refused: noise would hide the deviations of so many columns
    ================================  ======================================================

    References
    ----------
    H. Imtiaz and A. D. Sarwate, *Distributed differentially private CCA*, algorithm 1; dissertation, chapter 7.

    Examples
    --------
    >>> import numpy as np
    >>> from dpcape import CCA, Federation, Independent, in_process, views
    >>> t = np.linspace(-1, 1, 4000)[:, None]
    >>> fed = Federation(in_process({"lyon": views(t, -t, bounds=(1.0, 1.0))}), protocol=Independent())
    >>> CCA(n_components=1, epsilon=5.0, delta=1e-6).fit(fed).correlations_.round(1)
    array([1.])
    """

    analysis: ClassVar[Analysis | None] = DESCRIPTION
    _score, _per_score = "cca", "correlations_"
    _builder: ClassVar[str] = "views(X, Y, bounds=...)"
    _fitted: ClassVar[tuple[str, ...]] = (
        "x_weights_",
        "y_weights_",
        "correlations_",
        "x_mean_",
        "y_mean_",
        "noise_scale_",
        "noise_level_",
        "p_values_",
        "x_loadings_",
        "y_loadings_",
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
        scale: str | None = None,
        basis: Sequence[Basis | ArrayLike | None] | None = None,
        maps: bool = False,
        adjust: str | None = None,
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.center = center
        self.scale = scale
        self.basis = basis
        self.maps = maps
        self.adjust = adjust

    def _fit(self, federation: Federation, private: Allowance) -> None:
        if self.basis is not None:
            self._fit_wide(federation, private, as_view_bases(self.basis, federation.facts.widths))
            return
        facts = federation.facts
        widths = (facts.widths[0], facts.widths[1])
        scaling, mean, moment = self._moments(federation, private)
        covariance = moment - np.outer(mean, mean)
        weights = self._pairs(covariance, widths, self._noise(federation, private, mean))
        self._state_centring(moment, math.sqrt(len(widths)))
        loadings = np.vsplit(covariance, [widths[0]])
        own = [loadings[0][:, : widths[0]] @ weights[0], loadings[1][:, widths[0] :] @ weights[1]]
        units = np.split(scaling.units[:, np.newaxis], [widths[0]])
        self.x_weights_, self.y_weights_ = (mine / unit for mine, unit in zip(weights, units, strict=True))
        self.x_loadings_, self.y_loadings_ = (mine * unit for mine, unit in zip(own, units, strict=True))
        centre = mean if self._within is None else self._within.mean
        self.x_mean_, self.y_mean_ = np.split(scaling.rows(centre), [widths[0]])
        self.n_kept_, self.left_out_ = np.array(widths), np.zeros(2)

    def _fit_wide(self, federation: Federation, private: Allowance, basis: SideBySide) -> None:
        """Fit in public bases, and beyond them if maps are asked for and noise does not hide them."""
        public = self.public(federation)
        scaling = self._scaling(federation, private)
        mean, moment, energies = released_views(federation, private, basis, scaling, center=self._is_centred)
        noise = self._noise(federation, private, mean)
        wanted = check_components(self.n_components, min(part.n_columns for part in basis.parts))
        reduced = reduced_views(basis, scaling, moment, energies, noise, wanted or 1)
        weights = self._pairs(reduced.covariance, reduced.widths, reduced.noise)
        self._state_centring(moment, math.sqrt(len(reduced.views)))
        x_view, y_view = reduced.views
        x_weights, signs = signed(x_view.weights(weights[0]))
        weights = (weights[0] * signs, weights[1] * signs)
        self.x_weights_, self.y_weights_ = x_weights, y_view.weights(weights[1])
        loadings = [view.loadings(mine) for view, mine in zip(reduced.views, weights, strict=True)]
        self.n_kept_, self.left_out_ = reduced.n_kept, reduced.left_out
        self.x_mean_, self.y_mean_ = np.split(reduced.mean_row, [x_view.basis.n_features])
        recentred = not self._is_centred or bool(scaling_used(public, True))
        if maps_or_warned(public, views_in_bases(public), needed=recentred):
            maps = released_maps(federation, private, reduced, weights)
            loadings = [mine if more is None else mine + more for mine, more in zip(loadings, maps, strict=True)]
        self.x_loadings_, self.y_loadings_ = loadings

    def _pairs(
        self, covariance: FloatArray, widths: tuple[int, int], noise: MomentNoise
    ) -> tuple[FloatArray, FloatArray]:
        """Return the weights of the pairs of a released covariance of two views; set correlations and tests."""
        self.noise_scale_ = noise.total_scale
        spectra = spectra_of(covariance, widths, self.noise_scale_)
        whitened = whitened_cross(covariance, spectra)
        unrelated = correlation_draws(spectra, noise)
        self.noise_level_ = correlation_of_noise(unrelated)
        wanted = check_components(self.n_components, min(widths))
        p_values = correlation_p_values(whitened, unrelated, wanted or min(widths))
        if wanted is None:
            wanted = max(1, int(np.sum(p_values <= LEVEL)))
        x_weights, y_weights, correlations = canonical_pairs(whitened, spectra)
        self.correlations_, self.p_values_ = correlations[:wanted], p_values[:wanted]
        self.verdicts_ = of_tests(numbered("pair", wanted), self.p_values_)
        return x_weights[:, :wanted], y_weights[:, :wanted]

    def _result(self) -> Result:
        about = ", around zero: means are not subtracted"
        if self._is_centred:
            about = ", within sites" if self.adjust else ""
        values = Estimates(
            quantity="canonical correlation",
            estimand="canonical correlation of the two views, of rows as they were clipped, with variances of the "
            f"views not below their noise{about}",
            names=numbered("pair", len(self.correlations_)),
            value=self.correlations_,
            p_value=self.p_values_,
        )
        level = noise_level("canonical correlation", "views", self.noise_level_)
        tested = "Scores of individual records are not drawn, because they were not released."
        title = "Canonical correlations"
        strength = Section(title=title, estimates=(values, level), charts=(self._bars(),), notes=(PAIR_TESTS, tested))
        estimand = "weight of the column in the canonical variate of its view, which has variance one"
        bases = (
            [None, None]
            if self.basis is None
            else [None if is_no_basis(part) else as_basis(part) for part in self.basis]
        )
        weights = [
            self._weights_of(own, original, second=bool(view), estimand=estimand)
            for view, (own, original) in enumerate(
                ((self.x_weights_, self.original_x_weights_), (self.y_weights_, self.original_y_weights_))
            )
        ]
        loadings = [
            self._loadings_of(own, view, bases[view]) for view, own in enumerate((self.x_loadings_, self.y_loadings_))
        ]
        # Weights of a view in a public basis are a matter of that basis: its loadings are drawn. Figures of both are
        # listed, weights before loadings.
        listed = [
            section if basis is None else replace(section, tables=(), charts=())
            for section, basis in zip(weights, bases, strict=True)
        ]
        drawn = [
            section if basis is not None else replace(section, tables=(), charts=())
            for section, basis in zip(loadings, bases, strict=True)
        ]
        return Result((strength, *listed, *drawn))

    def _loadings_of(self, loadings: FloatArray, view: int, basis: Basis | None) -> Section:
        """Return the section about the loadings of a view."""
        which = ("first", "second")[view]
        names = self._names(len(loadings), view * len(self.x_weights_))
        estimand = (
            "covariance of the prepared column with the canonical variate of its own view, of rows as they were clipped"
        )
        part = grid(f"loading, {which} view", estimand, loadings.T, names, "pair")
        notes: tuple[str, ...] = ()
        if basis is not None:
            notes = (
                f"{int(self.n_kept_[view])} columns of the basis are used; it leaves out "
                f"{float(self.left_out_[view]):.4g} of the mean squared length of a row of the view.",
            )
        inside = None if basis is None else basis.inside
        title = f"Loadings of the {which} view"
        return weights_section(title, (part,), loadings.T, names, "pair", inside=inside, notes=notes)

    def _bars(self) -> Bars:
        listed = ", ".join(f"{value:.2f}" for value in self.correlations_)
        return Bars(
            values=self.correlations_,
            label="canonical correlation",
            row="pair",
            level=self.noise_level_,
            top=1.0,
            alt=f"Bars of the canonical correlations: {listed}; noise alone reaches {self.noise_level_:.2f}.",
            caption="Of unrelated views, the first correlation is above the dashed line in 5% of studies.",
        )

    def plot_correlations(self, ax: Axes | None = None) -> Axes:
        """Draw the canonical correlations and the noise level."""
        from dpcape.report.drawing import draw

        require_fitted(self)
        return draw(self._bars(), ax)
