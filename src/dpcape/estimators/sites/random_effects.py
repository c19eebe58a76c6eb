"""Random effects from noisy means of sites: the mean over a population of sites, and the variance between sites."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq
from scipy.stats import chi2, t

from dpcape.core.arrays import BoolArray, FloatArray
from dpcape.statistics.site_moments import WEIGHT, SiteMeans

# A site is included if its noisy record count is at least this many standard deviations of its noise, and at least this
# many records.
_CLEAR, _FEWEST = 5.0, 5.0
_FARTHEST = 1e12
# Rows are clipped at this many standard deviations from the mean, or farther out as long as the noise of a mean stays
# below this share of its sampling error.
_FAR, _SMALL = 6.0, 0.3
# Values more standard deviations than this from a normal mean hardly move it.
_TAIL = 2.5


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
    is_cut : (S,) array of bool
        Whether rows of a site reach the end of the unit ball, so that its mean may lie farther out than it seems.
    """

    means: FloatArray
    sampling: FloatArray
    noise: FloatArray
    sizes: FloatArray
    is_there: BoolArray
    is_cut: BoolArray


def site_values(sums: SiteMeans, *, noise: float, longest: float = 1.0) -> SiteValues:
    """Return the means of sites with their variances.

    Parameters
    ----------
    sums : SiteMeans
        Sums over all records of rows in the unit ball.
    noise : float
        Standard deviation of the noise of a sum.
    longest : float
        Largest length that a row could have before it was moved into the ball; up to 1 nothing was.
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
    # Limited translation: a site's variance is shrunk by at most one standard deviation, so that outliers survive.
    within = np.clip(within, own - pooled * np.sqrt(error), own + pooled * np.sqrt(error))
    # The count's noise moves a mean in proportion to it.
    noisy = (noise / column) ** 2 * (1 + (means / WEIGHT) ** 2)
    is_cut = is_there & (longest > 1) & _reaches_the_end(means, sums.squares / column, noise / sizes)
    means = np.where(is_there[:, np.newaxis], means, np.nan)
    return SiteValues(means, within / column, noisy, sizes * is_there, is_there, is_cut)


def _reaches_the_end(means: FloatArray, squares: FloatArray, noise: FloatArray) -> BoolArray:
    """Return whether values of a site within some standard deviations of its mean reach the end of the unit ball.

    Rows beyond it were shortened to length 1, with all their columns. Noise alone is not taken for length.
    """
    n_columns = means.shape[1]
    lengths = np.maximum((means**2).sum(axis=1) - n_columns * noise**2, 0.0)
    spread = squares.sum(axis=1) - 2 * math.sqrt(n_columns) * noise / WEIGHT - lengths
    # Means were divided by a noisy count.
    error = noise * np.sqrt(1 + lengths / WEIGHT**2)
    reaches: BoolArray = np.sqrt(lengths) + 3 * error + _TAIL * np.sqrt(np.maximum(spread, 0.0)) > 1
    return reaches


def reach_of_rows(records_per_site: float, noise: float) -> float:
    """Return how many standard deviations from the mean values are not shortened: more where there is little noise.

    Values with long tails lie beyond six, and what is cut off them moves means, which many records show.

    Parameters
    ----------
    records_per_site : float
        Mean number of records of a site.
    noise : float
        Standard deviation of the noise of a sum, in units of the limit to which values are kept.
    """
    return max(_FAR, _SMALL * math.sqrt(max(records_per_site, 0.0)) / max(noise, 1e-300))


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

    def at_least(self) -> RandomEffects:
        """Return what is still known if a mean may lie farther out: sites differ at least as much."""
        unknown = (-math.inf, math.inf)
        differ, share = (self.tau2_interval[0], math.inf), (self.i2_interval[0], 1.0)
        return replace(self, interval=unknown, prediction=unknown, tau2_interval=differ, i2_interval=share)


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
    half_width = reach * spread / math.sqrt(n_sites)
    further = reach * spread * math.sqrt(1 + 1 / n_sites)
    tau2, low, high = _between(means, sampling + noise, confidence)
    weights = 1 / sampling
    typical_variance = (n_sites - 1) * float(weights.sum()) / float(weights.sum() ** 2 - (weights**2).sum())
    return RandomEffects(
        mean,
        (mean - half_width, mean + half_width),
        tau2,
        (low, high),
        tau2 / (tau2 + typical_variance),
        (low / (low + typical_variance), high / (high + typical_variance)),
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
    # Where sites are more alike than chance would make them, use the upper end that holds when Q is as expected.
    expected_end = float(np.mean(variances)) * (freedom / least - 1)
    high = solved(least)
    return solved(float(freedom)), low, high if high > 0 else expected_end


def _generalised_q(means: FloatArray, variances: FloatArray, tau2: float) -> float:
    weights = 1 / (variances + tau2)
    centre = float(weights @ means) / float(weights.sum())
    return float(weights @ (means - centre) ** 2)
