"""Base class of estimators of views: the moments that they all release, and the noise of these."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from dpcape.analyses.scaling import deviations_found, lengths_found
from dpcape.arrays import FloatArray
from dpcape.estimators.estimator import FederatedEstimator, effective_share
from dpcape.estimators.scaling import by_bounds, private_scaling, recentred_or_warned, scaled, warn_of_no_scaling
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

    def _moments(self, federation: Federation, private: Allowance) -> tuple[Scaling, FloatArray, FloatArray]:
        """Return how views were standardised, and the mean and second moment of the standardised views."""
        facts = federation.facts
        scaling = by_bounds(facts)
        if not self._is_centred:
            moment = private.mean(scaled(facts, scaling, "second_moment"))
            return scaling, np.zeros(facts.n_features), moment
        public = self.public(federation)
        if self.scale != "private":
            if recentred_or_warned(public):
                scaling = private_scaling(federation, private, quantile=self._quantile, keep_units=True)
        elif deviations_found(public):
            found = bool(lengths_found(public))
            scaling = private_scaling(federation, private, quantile=self._quantile, lengths=found)
        else:
            warn_of_no_scaling()
        mean, moment = private.mean(scaled(facts, scaling, "centred_moments", mean_weight=MEAN_WEIGHT))
        return scaling, mean, moment

    def _noise(self, federation: Federation, private: Allowance, mean: FloatArray) -> MomentNoise:
        """Return the noise of the moments that were released last."""
        release = private.releases[-1]
        scale = release.scale / private.counted.divisor
        # The mean was released in units of the largest length of a row, the root of the number of views.
        length = MEAN_WEIGHT * math.sqrt(len(federation.facts.widths))
        return MomentNoise(
            scale=scale,
            mean_scale=scale / length if self._is_centred else 0.0,
            mean=mean,
            record_share=effective_share(federation, release.survivors) / private.counted.divisor,
        )
