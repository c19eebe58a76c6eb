"""Base class of estimators of views: the moments that they all release, and the noise of these."""

from __future__ import annotations

import math
from typing import ClassVar, overload

import numpy as np
from numpy.typing import ArrayLike

from dpcape.analyses.description import Public
from dpcape.analyses.scaling import deviations_found, is_centred, lengths_found
from dpcape.core.arrays import FloatArray
from dpcape.estimators.estimator import effective_share
from dpcape.estimators.fitted import require_fitted
from dpcape.estimators.reported import weights_section
from dpcape.estimators.row_source import RowSource
from dpcape.estimators.scaling import by_bounds, private_scaling, recentred_or_warned, warn_of_no_scaling
from dpcape.estimators.scores import ScoringEstimator
from dpcape.estimators.site_adjusted import SiteAdjusted
from dpcape.federation.allowance import Allowance
from dpcape.federation.federation import Federation
from dpcape.postprocessing.component_tests import MomentNoise
from dpcape.postprocessing.scaling import Scaling
from dpcape.postprocessing.site_centring import WithinSites
from dpcape.results import Estimates, Section
from dpcape.statistics.moments import MEAN_WEIGHT

PAIR_TESTS = (
    "P-values say how often unrelated views give a pair as strong, after the pairs before it; testing stops at the "
    "first above 0.05, and the rest are 1."
)
"""Explanation of the p-values of pairs, for reports."""


class MultiviewEstimator(SiteAdjusted):
    """Base class of estimators that release the stacked second moment of views, each divided by its bound."""

    center: bool | None
    scale: str | None
    # Moments within sites, if the fit was adjusted for sites.
    _within: WithinSites | None = None
    # Share of the recentred rows of a view that are not clipped.
    _quantile: ClassVar[float] = 0.9

    @property
    def _is_centred(self) -> bool:
        return is_centred(self.center) or self.scale == "private" or self.adjust is not None

    def _public_rows(self, federation: Federation) -> Public:
        """Return the public numbers of the rows whose moments are released."""
        return self.public(federation)

    def _scaling(self, federation: Federation, private: Allowance, source: RowSource | None = None) -> Scaling:
        """Return how views are standardised: by their bounds, or by what is released for it."""
        # Forget the moments within sites of an earlier fit.
        self._within = None
        source = source or RowSource(federation.facts)
        scaling = by_bounds(source.facts)
        if not self._is_centred:
            return scaling
        public = self._public_rows(federation)
        if self.scale != "private":
            if recentred_or_warned(public):
                scaling = private_scaling(federation, private, quantile=self._quantile, keep_units=True, source=source)
        elif deviations_found(public):
            has_lengths = bool(lengths_found(public))
            scaling = private_scaling(federation, private, quantile=self._quantile, lengths=has_lengths, source=source)
        else:
            warn_of_no_scaling()
        return scaling

    def _moments(
        self, federation: Federation, private: Allowance, source: RowSource | None = None
    ) -> tuple[Scaling, FloatArray, FloatArray]:
        """Return how views were standardised, and the mean and second moment of the standardised views.

        Where they are adjusted for sites, the mean is zero and the moment is the covariance within sites.
        """
        source = source or RowSource(federation.facts)
        scaling = self._scaling(federation, private, source)
        if not self._is_centred:
            moment = source.mean(private, "scaled_second_moment", **scaling.arrays)
            return scaling, np.zeros(source.facts.n_features), moment
        if self.adjust is not None:
            length = math.sqrt(len(federation.facts.widths))
            self._within = self._released_within(federation, private, scaling, length)
            self.site_means_ = scaling.rows(self._within.site_means)
            return scaling, np.zeros(federation.n_features), self._within.covariance
        mean, moment = source.mean(private, "scaled_centred_moments", **scaling.arrays, mean_weight=MEAN_WEIGHT)
        return scaling, mean, moment

    def _noise(
        self, federation: Federation, private: Allowance, mean: FloatArray, source: RowSource | None = None
    ) -> MomentNoise:
        """Return the noise of the moments that were released last."""
        source = source or RowSource(federation.facts)
        release = private.releases[-1]
        divisor = private.counted.divisor * source.share
        scale = release.scale / divisor
        # The mean was released in units of the largest length of a row, the root of the number of views.
        length = MEAN_WEIGHT * math.sqrt(len(source.facts.widths))
        return MomentNoise(
            scale=scale,
            mean_scale=scale / length if self._is_centred and self.adjust is None else 0.0,
            mean=mean,
            record_share=effective_share(federation, release.survivors) / divisor,
            sites=None if self._within is None else self._within.noise,
        )


class TwoViewEstimator(ScoringEstimator, MultiviewEstimator):
    """Base class of estimators that give each of two views scores."""

    x_weights_: FloatArray
    y_weights_: FloatArray
    x_mean_: FloatArray
    y_mean_: FloatArray

    @property
    def original_x_weights_(self) -> FloatArray:
        """Weights of the first view per original unit."""
        weights: FloatArray = self.units_.slopes(np.vstack([self.x_weights_, self.y_weights_]).T)
        return weights.T[: len(self.x_weights_)]

    @property
    def original_y_weights_(self) -> FloatArray:
        """Weights of the second view per original unit."""
        weights: FloatArray = self.units_.slopes(np.vstack([self.x_weights_, self.y_weights_]).T)
        return weights.T[len(self.x_weights_) :]

    @overload
    def transform(self, X: ArrayLike, Y: None = None, *, site: str | None = None) -> FloatArray: ...

    @overload
    def transform(self, X: ArrayLike, Y: ArrayLike, *, site: str | None = None) -> tuple[FloatArray, FloatArray]: ...

    def transform(
        self, X: ArrayLike, Y: ArrayLike | None = None, *, site: str | None = None
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Return the scores of X; with Y, those of both views as a pair. Rows are prepared as sites prepare theirs.

        Parameters
        ----------
        X, Y : array_like
            Rows of the first view, and of the second.
        site : str or None
            Site that the rows are from, whose mean is subtracted instead of that of all; only where the model was
            adjusted for sites.
        """
        require_fitted(self)
        centre = self._centre_of(site, np.concatenate([self.x_mean_, self.y_mean_]))
        x_centre, y_centre = np.split(centre, [len(self.x_weights_)])
        x_rows = self._checked_rows(X, len(self.x_weights_))
        x_scores: FloatArray = (x_rows - x_centre) @ self.x_weights_
        if Y is None:
            return x_scores
        y_rows = self._checked_rows(Y, len(self.y_weights_), first=len(self.x_weights_))
        y_scores: FloatArray = (y_rows - y_centre) @ self.y_weights_
        return x_scores, y_scores

    def _weights_of(self, attribute: FloatArray, original: FloatArray, *, second: bool, estimand: str) -> Section:
        """Return the section about the directions in one of two views."""
        first, which = (len(self.x_weights_), "second") if second else (0, "first")
        estimands = (f"{estimand}, per unit of the prepared column", f"{estimand}, per original unit of the column")
        values = (attribute.T, original.T)
        names, parts = self._grids(f"weight, {which} view", estimands, values, "pair", first=first)
        return weights_section(f"Directions in the {which} view", parts, attribute.T, names, "pair")


def noise_level(quantity: str, of: str, value: float) -> Estimates:
    """Return the level that noise and sampling alone reach."""
    estimand = f"95% quantile of the first one that noise and sampling give if the {of} are unrelated"
    return Estimates(quantity=f"{quantity}, of noise alone", estimand=estimand, value=value)
