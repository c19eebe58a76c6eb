"""The mean of bounded rows across sites (dissertation, chapter 3)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from scipy.special import ndtri

from dpcape.analyses.description import Analysis
from dpcape.analyses.mean import MEAN
from dpcape.arrays import FloatArray
from dpcape.estimators.estimator import FederatedEstimator, effective_share
from dpcape.federation import Allowance, Federation
from dpcape.statistics import first_moments


class Mean(FederatedEstimator):
    """Mean of the rows of all sites, with confidence intervals that cover sampling and privacy noise.

    Parameters
    ----------
    epsilon : float or mapping
        Privacy parameter epsilon of the whole fit: one number for all sites, or one per site.
    delta : float
        Privacy parameter delta, the same at all sites; far below one over the number of records.
    confidence : float
        Probability with which each interval contains its entry of the population mean.

    Attributes
    ----------
    mean_ : array of shape (n_features,)
        Private mean of the (clipped) rows.
    variance_ : array of shape (n_features,)
        Private variance of each column, at least 0.
    interval_ : array of shape (2, n_features)
        Lower and upper end of each column's interval.

    Privacy
    -------
    One release of :func:`~dpcape.statistics.first_moments`, diameter 2 B. Releasing the squares as well, for the
    variance, does not increase the diameter. The rest is post-processing.

    Edge cases
    ----------
    =================================  ==========================================================
    rows longer than the bound         clipped at the site; the mean is that of clipped rows
    variance hidden by noise           counted as one standard deviation of its noise, not as 0
    a site is lost                     mean over the sites that finished
    =================================  ==========================================================

    Examples
    --------
    >>> import numpy as np
    >>> from dpcape import Federation, Independent, Mean, in_process, rows
    >>> X = np.tile([0.6, -0.2], (1000, 1))
    >>> fed = Federation(in_process({"lyon": rows(X, bound=1.0)}), protocol=Independent())
    >>> Mean(epsilon=5.0, delta=1e-6).fit(fed).mean_.round(1) + 0.0
    array([ 0.6, -0.2])
    """

    analysis: ClassVar[Analysis | None] = MEAN
    _fitted: ClassVar[tuple[str, ...]] = ("mean_", "variance_", "interval_")

    def __init__(self, *, epsilon: float | Mapping[str, float], delta: float, confidence: float = 0.95) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.confidence = confidence

    def _fit(self, federation: Federation, private: Allowance) -> None:
        self.mean_, squares = private.mean(first_moments(federation.facts))
        release = private.releases[-1]
        # The squares are released divided by twice the bound, so their noise is that much larger.
        square_scale = release.scale * 2 * math.hypot(*federation.facts.bounds)
        noisy: FloatArray = squares - self.mean_**2
        self.variance_ = np.maximum(noisy, 0.0)
        # Where noise hides the variance, count what it could be rather than nothing.
        counted = np.maximum(noisy, 0.0) + square_scale
        spread = np.sqrt(counted * effective_share(federation, release.survivors) + release.scale**2)
        half = float(ndtri(0.5 + self.confidence / 2)) * spread
        self.interval_ = np.stack([self.mean_ - half, self.mean_ + half])
