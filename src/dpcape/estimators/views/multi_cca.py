"""Canonical correlations of three or more views spread over sites, from one release of their stacked moment."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dpcape.analyses.description import Analysis
from dpcape.analyses.multi_cca import MULTI_CCA as DESCRIPTION
from dpcape.analyses.parameters import check_components
from dpcape.charts import Bars
from dpcape.core.arrays import FloatArray, IntArray
from dpcape.core.errors import InvalidParameter
from dpcape.estimators.fitted import require_fitted
from dpcape.estimators.reported import weights_section
from dpcape.estimators.scores import ScoringEstimator
from dpcape.estimators.views.maxvar import (
    level_of,
    shared_components,
    shared_p_values,
    unrelated_views,
    whitened_crosses,
)
from dpcape.estimators.views.multiview import MultiviewEstimator, noise_level
from dpcape.federation.allowance import Allowance
from dpcape.federation.federation import Federation
from dpcape.postprocessing.eigen import view_spectra
from dpcape.postprocessing.verdicts import LEVEL, numbered, of_tests
from dpcape.results import SHOWN, Estimates, Result, Section
from dpcape.statistics.scaling import views_of
from dpcape.tables import Table, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class MultiCCA(ScoringEstimator, MultiviewEstimator):
    """Canonical correlation analysis of two or more views over the records of all sites (MAXVAR).

    A component has one direction in each view, such that the variates, one per view, have as much in common as
    possible: they maximise the largest eigenvalue of the matrix of their correlations (Kettenring's MAXVAR). It has one
    global solution, which an eigenvalue problem gives; that of the largest sum of correlations (SUMCOR) is found by
    iterations that may stop elsewhere, and noise would choose where. For two views it is CCA.

    Parameters
    ----------
    n_components : int or "auto"
        Number of components; "auto" keeps those that are more than noise and sampling by the test, at least one.
    epsilon : float or mapping
        Privacy parameter epsilon of the whole fit: one number for all sites, or one per site.
    delta : float or mapping
        Privacy parameter delta, for all sites or per site; far below one over the number of records.
    center : bool or None
        True, and None, use covariances: the means and the radius of each view around its mean are released first, then
        the moments of the views minus these means. False uses second moments, for views with mean zero by construction:
        any other means are correlated.
    scale : str or None
        With "private" the typical deviation of each column is released too, and columns are divided by it: recommended
        where columns have ranges of their own that are too wide. Implies ``center``. None leaves columns as they are.

    Attributes
    ----------
    weights_ : array of shape (columns of all views, n_components)
        Directions, one per column of the array; :meth:`weights_of` returns the part of one view.
    correlations_ : array of shape (n_components,)
        For each component the mean correlation of its variates, in [0, 1], descending: the eigenvalue over the number
        of views minus one, in which a pair counts by how much its two views take part.
    pair_correlations_ : array of shape (n_components, views, views)
        For each component the correlation of the variates of each pair of views.
    mean_ : array of shape (columns of all views,)
        Private mean; zeros without centring.
    widths_ : array of shape (views,)
        Number of columns of each view.
    noise_scale_ : float
        Standard deviation of the noise on the diagonal of the released moment.
    noise_level_ : float
        The 95% quantile of the first of ``correlations_`` that noise and sampling give if all views are unrelated.
    pair_noise_level_ : float
        The 95% quantile of the largest correlation of any pair of views, if they are unrelated: a pair whose
        correlation is larger is related, for all pairs and components together.
    p_values_ : array of shape (n_components,)
        For each component, how often unrelated views would give an eigenvalue as large. Testing stops at the first
        value above 0.05; the rest are 1. A small value says that at least two views share the component, not that all
        do: see ``pair_correlations_``.

    Privacy
    -------
    Each of the V views is divided by its bound, so that its units do not matter. Without centring one release of z z'
    with z all views stacked: z is at most sqrt(V) long, so the diameter is sqrt(2) V. Centred three: the mean (diameter
    2 sqrt(V)), histograms of the lengths of the rows of each view minus it (sqrt(2 V)), and jointly the mean and second
    moment of these rows, divided by a radius per view and clipped to 1 (diameter 1.59 V whatever was released before).
    With ``scale`` absolute deviations (sqrt(D)) after the mean. With so few records that no radius can be found, the
    last release only. Everything else is post-processing.

    Edge cases
    ----------
    ================================  ======================================================
    indefinite noisy blocks           eigenvalues floored, never an exception
    two views                         the canonical correlations of ``CCA``
    a view that shares nothing        weights near zero correlation; see ``pair_correlations_``
    "auto" and nothing but noise      one component
    ================================  ======================================================

    References
    ----------
    J. R. Kettenring, *Canonical analysis of several sets of variables*, Biometrika 58, 1971; H. Imtiaz and A. D.
    Sarwate, *Distributed differentially private CCA*, which names several views as future work.

    Examples
    --------
    >>> import numpy as np
    >>> from dpcape import Federation, Independent, MultiCCA, in_process, views
    >>> t = np.linspace(-1, 1, 6000)[:, None]
    >>> held = views(t, -t, t, bounds=(1.0, 1.0, 1.0))
    >>> fed = Federation(in_process({"lyon": held}), protocol=Independent())
    >>> model = MultiCCA(n_components=1, epsilon=5.0, delta=1e-6).fit(fed)
    >>> model.correlations_.round(1), np.sign(model.weights_.T)
    (array([1.]), array([[ 1., -1.,  1.]]))
    """

    analysis: ClassVar[Analysis | None] = DESCRIPTION
    _score, _per_score = "multicca", "correlations_"
    _builder: ClassVar[str] = "views(X, Y, ..., bounds=...)"
    _fitted: ClassVar[tuple[str, ...]] = (
        "weights_",
        "correlations_",
        "pair_correlations_",
        "mean_",
        "widths_",
        "noise_scale_",
        "noise_level_",
        "pair_noise_level_",
        "p_values_",
    )
    widths_: IntArray

    def __init__(
        self,
        n_components: int | str,
        *,
        epsilon: float | Mapping[str, float],
        delta: float | Mapping[str, float],
        center: bool | None = None,
        scale: str | None = None,
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.center = center
        self.scale = scale

    def _fit(self, federation: Federation, private: Allowance) -> None:
        widths = federation.facts.widths
        scaling, mean, moment = self._moments(federation, private)
        noise = self._noise(federation, private, mean)
        covariance = moment - np.outer(mean, mean)
        spectra = view_spectra(covariance, widths, noise.scale)
        crosses = whitened_crosses(covariance, spectra)
        unrelated = unrelated_views(spectra, noise)
        most = sum(widths) - max(widths)
        wanted = check_components(self.n_components, most)
        components = shared_components(crosses, spectra, wanted or most)
        p_values = shared_p_values(components.eigenvalues, unrelated)
        if wanted is None:
            wanted = max(1, int(np.sum(p_values <= LEVEL)))
        others = len(widths) - 1
        self.weights_ = components.weights[:, :wanted] / scaling.units[:, np.newaxis]
        self.correlations_ = np.clip(components.eigenvalues[:wanted] / others, 0.0, 1.0)
        self.pair_correlations_ = components.pair_correlations[:wanted]
        self.mean_ = scaling.rows(mean)
        self.widths_ = np.array(widths)
        self.noise_scale_ = noise.scale
        self.noise_level_ = level_of(unrelated.eigenvalues, others)
        self.pair_noise_level_ = level_of(unrelated.correlations)
        self.p_values_ = p_values[:wanted]
        self.verdicts_ = of_tests(numbered("component", wanted), self.p_values_)
        self._state_centring(moment, math.sqrt(len(widths)))

    def weights_of(self, view: int) -> FloatArray:
        """Return the directions in one view, (its columns, n_components); views count from 0."""
        require_fitted(self)
        return self.weights_[self._view_slices[view]]

    @property
    def _view_slices(self) -> list[slice[int, int, None]]:
        return views_of(tuple(int(width) for width in self.widths_))

    @property
    def original_weights_(self) -> FloatArray:
        """Weights of all views per original unit."""
        return self.units_.slopes(self.weights_.T).T

    def transform(self, *views: ArrayLike) -> tuple[FloatArray, ...]:
        """Return the variates of new rows, one array (rows, n_components) per view.

        Parameters
        ----------
        *views : array_like
            Rows of all views, in the order of the sites, prepared as the sites prepare theirs.
        """
        require_fitted(self)
        if len(views) != len(self.widths_):
            must = f"be the {len(self.widths_)} that the model was fitted with"
            raise InvalidParameter("Views", must, len(views), "Write transform(X, Y, Z).")
        variates = []
        for X, at in zip(views, self._view_slices, strict=True):
            rows = self._checked_rows(X, at.stop - at.start, first=at.start)
            variates.append((rows - self.mean_[at]) @ self.weights_[at])
        return tuple(variates)

    def _result(self) -> Result:
        count = len(self.correlations_)
        pairs = list(combinations(range(len(self.widths_)), 2))
        clipped = "of rows as they were clipped, with variances of the views not below their noise"
        if not self._is_centred:
            clipped += ", around zero: means are not subtracted"
        means = Estimates(
            quantity="mean correlation",
            estimand=f"mean correlation of the variates of the component, one per view (MAXVAR), {clipped}",
            names=numbered("component", count),
            value=self.correlations_,
            p_value=self.p_values_,
        )
        of_pairs = Estimates(
            quantity="correlation of two views",
            estimand=f"correlation of the variates of two views, {clipped}",
            names=[f"component {at}" for at in range(1, count + 1) for _ in pairs],
            parts=[f"{first + 1} and {second + 1}" for first, second in pairs] * count,
            value=np.array([[matrix[pair] for pair in pairs] for matrix in self.pair_correlations_]),
        )
        largest = "95% quantile of the largest of any pair that noise and sampling give if the views are unrelated"
        rows = [
            [str(number), short(float(value), 3), short(float(p), 3), *(f"{matrix[pair]:.2f}" for pair in pairs)]
            for number, (value, p, matrix) in enumerate(
                zip(self.correlations_, self.p_values_, self.pair_correlations_, strict=True), start=1
            )
        ]
        header = ["component", "mean correlation", "p-value", *(f"views {a + 1} and {b + 1}" for a, b in pairs)]
        strength = Section(
            title="Correlations of the views",
            estimates=(
                means,
                noise_level("mean correlation", "views", self.noise_level_),
                of_pairs,
                Estimates(
                    quantity="correlation of two views, of noise alone", estimand=largest, value=self.pair_noise_level_
                ),
            ),
            tables=(Table(header, rows[:SHOWN]),),
            charts=(self._bars(),),
            notes=(
                f"A pair of views whose absolute correlation is above {self.pair_noise_level_:.2f} is related: noise "
                "and sampling give one as large for any pair in 5% of studies of unrelated views. A small p-value says "
                "that at least two views share the component, not that all do.",
                "Scores of individual records are not drawn, because they were not released.",
            ),
        )
        estimand = "weight of the column in the variate of its view"
        estimands = (f"{estimand}, per unit of the prepared column", f"{estimand}, per original unit of the column")
        names, parts = self._grids("weight", estimands, (self.weights_.T, self.original_weights_.T), "component")
        return Result((strength, self._directions(parts, names)))

    def _directions(self, parts: tuple[Estimates, ...], names: list[str]) -> Section:
        """Return the section about the directions in all views, with a table and a picture for each."""
        views = [weights_section("", (), self.weights_[at].T, names[at], "component") for at in self._view_slices]
        return Section(
            title="Directions in the views",
            estimates=parts,
            tables=tuple(
                replace(table, caption=f"View {number}. {table.caption}".strip())
                for number, view in enumerate(views, start=1)
                for table in view.shown()
            ),
            charts=tuple(
                replace(chart, caption=f"View {number}.")
                for number, view in enumerate(views, start=1)
                for chart in view.charts
            ),
        )

    def _bars(self) -> Bars:
        listed = ", ".join(f"{value:.2f}" for value in self.correlations_)
        return Bars(
            values=self.correlations_,
            label="mean correlation",
            level=self.noise_level_,
            top=1.0,
            alt=f"Bars of the mean correlations: {listed}; noise alone reaches {self.noise_level_:.2f}.",
            caption="Mean correlation of the variates of each component. Of unrelated views, the first is above the "
            "dashed line in 5% of studies.",
        )

    def plot_correlations(self, ax: Axes | None = None) -> Axes:
        """Draw the mean correlation of each component and the noise level."""
        from dpcape.report.drawing import draw

        require_fitted(self)
        return draw(self._bars(), ax)
