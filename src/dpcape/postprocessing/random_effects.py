"""Random effects over sites from noisy means of sites: the mean beyond these sites, and how much sites differ."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.stats import chi2, t

from dpcape.arrays import BoolArray, FloatArray
from dpcape.statistics.site_moments import WEIGHT, SiteMeans

# A site counts if its number of records is so many times its noise, and at least so many.
_CLEAR, _FEWEST = 5.0, 5.0
_FARTHEST = 1e12


@dataclass(frozen=True)
class SiteValues:
    """Means of sites, in units of the rows, with their variances.

    Attributes
    ----------
    means : (S, V) array
        Means of the sites; NaN where noise hides a site.
    sampling, noise : (S, V) array
        Variances by sampling of records, and by noise.
    sizes : (S,) array
        Numbers of complete records, as released.
    is_there : (S,) array of bool
        Whether a site has clearly more records than noise.
    """

    means: FloatArray
    sampling: FloatArray
    noise: FloatArray
    sizes: FloatArray
    is_there: BoolArray


def site_values(sums: SiteMeans, *, noise: float) -> SiteValues:
    """Return the means of sites with their variances.

    Parameters
    ----------
    sums : SiteMeans
        Sums over all records of rows in the unit ball.
    noise : float
        Standard deviation of the noise of a sum.
    """
    is_there: BoolArray = sums.counts > max(_FEWEST, _CLEAR * noise / WEIGHT)
    sizes = np.maximum(sums.counts, 1.0)
    column = sizes[:, np.newaxis]
    means = sums.sums / column
    own = np.maximum(sums.squares / column - means**2, 0.0)
    weights = np.where(is_there, sizes, 0.0)
    pooled = np.maximum(weights @ own / max(float(weights.sum()), 1.0), 1e-9)
    # A site's own variance, as far as its noise and sampling show it.
    error = ((noise / WEIGHT / column) / pooled) ** 2 + 2 / column
    within = pooled + (own - pooled) / (1 + error / 0.25)
    # The count's noise moves a mean in proportion to it.
    noisy = (noise / column) ** 2 * (1 + (means / WEIGHT) ** 2)
    return SiteValues(
        np.where(is_there[:, np.newaxis], means, np.nan), within / column, noisy, sizes * is_there, is_there
    )


@dataclass(frozen=True)
class RandomEffects:
    """Random effects of one column over sites.

    Attributes
    ----------
    mean, interval : float and pair
        Mean over sites, and its interval for the sites that these are a sample of.
    tau2, tau2_interval : float and pair
        Variance between sites.
    i2, i2_interval : float and pair
        Its share in the variance of sites' means without noise.
    prediction : pair
        Interval for the mean of a further site.
    """

    mean: float
    interval: tuple[float, float]
    tau2: float
    tau2_interval: tuple[float, float]
    i2: float
    i2_interval: tuple[float, float]
    prediction: tuple[float, float]


_NOTHING = RandomEffects(
    math.nan, (-math.inf, math.inf), math.nan, (0.0, math.inf), math.nan, (0.0, 1.0), (-math.inf, math.inf)
)


def random_effects(means: FloatArray, sampling: FloatArray, noise: FloatArray, confidence: float) -> RandomEffects:
    """Return random effects from means of at least two sites; else nothing is known.

    The interval of the mean is that of the t test of the sites' means, all with the same weight. It holds for sites of
    any different variances, if means are normal and confidence is at least 0.917 (Ibragimov and Muller 2010; Bakirov
    and Szekely 2005). The variance between sites has the interval of the generalised Q (Viechtbauer 2007) and the
    estimate of Paule and Mandel.

    Parameters
    ----------
    means : (S,) array
        Means of sites.
    sampling, noise : (S,) array
        Their variances by sampling and by noise.
    confidence : float
        Probability with which each interval contains its figure.
    """
    n_sites = len(means)
    if n_sites < 2:
        return _NOTHING
    mean, spread = float(means.mean()), float(means.std(ddof=1))
    reach = float(t.ppf((1 + confidence) / 2, n_sites - 1))
    half = reach * spread / math.sqrt(n_sites)
    further = reach * spread * math.sqrt(1 + 1 / n_sites)
    tau2, low, high = _between(means, sampling + noise, confidence)
    weights = 1 / sampling
    usual = (n_sites - 1) * float(weights.sum()) / float(weights.sum() ** 2 - (weights**2).sum())
    return RandomEffects(
        mean,
        (mean - half, mean + half),
        tau2,
        (low, high),
        tau2 / (tau2 + usual),
        (low / (low + usual), high / (high + usual)),
        (mean - further, mean + further),
    )


def _between(means: FloatArray, variances: FloatArray, confidence: float) -> tuple[float, float, float]:
    """Return the variance between sites and both ends of its interval."""
    freedom = len(means) - 1

    def solved(target: float) -> float:
        if _generalised_q(means, variances, 0.0) <= target:
            return 0.0
        return float(brentq(lambda tau2: _generalised_q(means, variances, tau2) - target, 0.0, _FARTHEST, xtol=1e-12))

    low = solved(float(chi2.ppf((1 + confidence) / 2, freedom)))
    least = float(chi2.ppf((1 - confidence) / 2, freedom))
    # Sites that are more alike than chance makes them show as little as sites that are as alike as it does.
    usual = float(np.mean(variances)) * (freedom / least - 1)
    high = solved(least)
    return solved(float(freedom)), low, high if high > 0 else usual


def _generalised_q(means: FloatArray, variances: FloatArray, tau2: float) -> float:
    weights = 1 / (variances + tau2)
    centre = float(weights @ means) / float(weights.sum())
    return float(weights @ (means - centre) ** 2)
