"""Base class of estimators of views: the moments that they all release, and the noise of these."""

from __future__ import annotations

import math
from typing import ClassVar, overload

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from dpcape.analyses.description import Public
from dpcape.analyses.scaling import deviations_found, lengths_found
from dpcape.arrays import FloatArray
from dpcape.estimators.estimator import FederatedEstimator, effective_share
from dpcape.estimators.row_source import RowSource
from dpcape.estimators.scaling import by_bounds, private_scaling, recentred_or_warned, warn_of_no_scaling
from dpcape.estimators.scores import ScoringEstimator
from dpcape.federation import Allowance, Federation
from dpcape.postprocessing.component_tests import MomentNoise
from dpcape.postprocessing.scaling import Scaling
from dpcape.statistics.moments import MEAN_WEIGHT


class MultiviewEstimator(FederatedEstimator):
    """Base class of estimators that release the stacked second moment of views, each divided by its bound."""

    center: bool
    scale: str | None
    # Share of the recentred rows of a view that are not clipped.
    _quantile: ClassVar[float] = 0.9

    @property
    def _is_centred(self) -> bool:
        return self.center or self.scale == "private"

    def _public_rows(self, federation: Federation) -> Public:
        """Return the public numbers of the rows whose moments are released."""
        return self.public(federation)

    def _scaling(self, federation: Federation, private: Allowance, source: RowSource | None = None) -> Scaling:
        """Return how views are standardised: by their bounds, or by what is released for it."""
        source = source or RowSource(federation.facts)
        scaling = by_bounds(source.facts)
        if not self._is_centred:
            return scaling
        public = self._public_rows(federation)
        if self.scale != "private":
            if recentred_or_warned(public):
                scaling = private_scaling(federation, private, quantile=self._quantile, keep_units=True, source=source)
        elif deviations_found(public):
            found = bool(lengths_found(public))
            scaling = private_scaling(federation, private, quantile=self._quantile, lengths=found, source=source)
        else:
            warn_of_no_scaling()
        return scaling

    def _moments(
        self, federation: Federation, private: Allowance, source: RowSource | None = None
    ) -> tuple[Scaling, FloatArray, FloatArray]:
        """Return how views were standardised, and the mean and second moment of the standardised views."""
        source = source or RowSource(federation.facts)
        scaling = self._scaling(federation, private, source)
        if not self._is_centred:
            moment = source.mean(private, "scaled_second_moment", **scaling.arrays)
            return scaling, np.zeros(source.facts.n_features), moment
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
            mean_scale=scale / length if self._is_centred else 0.0,
            mean=mean,
            record_share=effective_share(federation, release.survivors) / divisor,
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
    def transform(self, X: ArrayLike, Y: None = None) -> FloatArray: ...

    @overload
    def transform(self, X: ArrayLike, Y: ArrayLike) -> tuple[FloatArray, FloatArray]: ...

    def transform(self, X: ArrayLike, Y: ArrayLike | None = None) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Return the scores of X; with Y, those of both views as a pair. Rows are prepared as sites prepare theirs."""
        check_is_fitted(self, "guarantee_")
        x_rows = self._checked_rows(X, len(self.x_weights_))
        x_scores: FloatArray = (x_rows - self.x_mean_) @ self.x_weights_
        if Y is None:
            return x_scores
        y_rows = self._checked_rows(Y, len(self.y_weights_), first=len(self.x_weights_))
        y_scores: FloatArray = (y_rows - self.y_mean_) @ self.y_weights_
        return x_scores, y_scores
