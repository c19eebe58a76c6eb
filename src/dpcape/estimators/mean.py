"""The mean of bounded rows across sites (dissertation, chapter 3)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import msgspec
import numpy as np
from scipy.special import ndtri

from dpcape.analyses.description import Analysis
from dpcape.analyses.mean import MEAN
from dpcape.analyses.scaling import Quantile
from dpcape.charts import Forest, drawn_caption
from dpcape.core.arrays import FloatArray
from dpcape.core.facts import PublicFacts
from dpcape.estimators.estimator import FederatedEstimator, effective_share
from dpcape.estimators.reported import THESE_SITES
from dpcape.estimators.scaling import clipped_or_warned, private_scaling, scaled, used_or_warned
from dpcape.federation.allowance import Allowance, ValidShare
from dpcape.federation.federation import Federation
from dpcape.postprocessing.scaling import Scaling
from dpcape.postprocessing.verdicts import Verdict, numbered, of_ranges
from dpcape.results import Estimates, Result, Section
from dpcape.statistics.clipped_means import ClippedMeans, Means, clipped_means, most_clipped, weight_after_scaling

# Share of the rows that recentring should leave unclipped; chosen on simulated data (docs/defaults.md).
_QUANTILE = 0.95
_CLIPPED = "of rows clipped to the bound, because there are no public ranges"


class Mean(FederatedEstimator):
    """Mean of the rows of all sites, with confidence intervals that cover sampling and privacy noise.

    Parameters
    ----------
    epsilon : float or mapping
        Privacy parameter epsilon of the whole fit: one number for all sites, or one per site.
    delta : float or mapping
        Privacy parameter delta, for all sites or per site; far below one over the number of records.
    confidence : float
        Probability with which each interval contains its entry of the population mean.
    clip : Quantile or None
        Rows are clipped to this quantile of their lengths, which is found by a release of its own inside the same
        allowance; None clips them to their bound alone.
    recentre : bool
        Whether a rough mean and the usual distance from it are found first, by two releases of 4% of mu^2 each inside
        the same allowance. Rows are then clipped around that mean. Worth its price where rows lie close together
        compared with their bound.

    Attributes
    ----------
    mean_ : array of shape (n_features,)
        Private mean of the (clipped) rows.
    variance_ : array of shape (n_features,)
        Private variance of each column, at least 0.
    interval_ : array of shape (2, n_features)
        Lower and upper end of each column's interval.
    original_mean_ : array of shape (n_features,)
        The mean in original units, if all columns have public ranges; else the same as ``mean_``.
    original_interval_ : array of shape (2, n_features)
        The intervals in original units, likewise.
    clipped_ : float
        Released mean of the part of a row that clipping took away, from 0 (nothing) to 1, with noise.
    centre_ : array of shape (n_features,)
        The released rough mean around which rows were clipped; zeros if they were not recentred.
    noise_scale_ : float
        Standard deviation of the noise in each entry of ``mean_``.
    about_ : str
        What the intervals are about: "the mean", or without public ranges "the mean of clipped rows" (with ``clip``,
        of rows clipped to the length found; with ``recentre``, of rows clipped to a distance from ``centre_``).

    Privacy
    -------
    One release of ``clipped_means``: the rows, their squares for the variance, the part that
    clipping took away, and the number of valid rows. Its diameter is 2 B if public ranges allow no clipping, 2.24 B if
    they do, and 2.06 B without ranges. With ``clip`` a histogram of the lengths of the rows comes first (sqrt(2)); rows
    are then divided by the length found and clipped to 1, so B is 1 whatever was found. With ``recentre`` the rough
    mean (diameter 2 B) and a histogram of distances from it (sqrt(2)) come first; rows less that mean are then divided
    by the distance found and clipped to 1. The rest is post-processing.

    Notes
    -----
    If clipping took away the mean part t of the rows, the mean of a column of half range h is off by at most h t.
    With public ranges, intervals are widened by h t and its uncertainty and are about the mean of the rows as they
    are (within their ranges). Without, nothing is known of what was clipped: they are about the mean of clipped rows.
    With ``recentre``, a row x that was multiplied by f, and its distance from the rough mean c then by g, is read as
    c + g (f x - c): it is off by (1 - f g) x - (1 - g) c, at most (h + |c|) t, where t = 1 - f g is released.

    Edge cases
    ----------
    =================================  ==========================================================
    rows longer than the bound         clipped at the site; intervals allow for it if ranges are public
    variance hidden by noise           counted as one standard deviation of its noise, not as 0
    records that cannot be read        the mean is that of the others, by their released number
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
    _fitted: ClassVar[tuple[str, ...]] = (
        "mean_",
        "variance_",
        "interval_",
        "original_mean_",
        "original_interval_",
        "clipped_",
        "centre_",
        "about_",
        "noise_scale_",
    )

    def __init__(
        self,
        *,
        epsilon: float | Mapping[str, float],
        delta: float | Mapping[str, float],
        confidence: float = 0.95,
        clip: Quantile | None = None,
        recentre: bool = False,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.confidence = confidence
        self.clip = clip
        self.recentre = recentre

    def _fit(self, federation: Federation, private: Allowance) -> None:
        clipped_to = self._clipped_to(federation, private)
        facts, statistic, means, unit = _released(federation.facts, private, clipped_to)
        self.centre_ = centre = np.zeros(facts.n_features) if clipped_to is None else clipped_to.centre
        release = private.releases[-1]
        released = _per_valid(means, release.scale * unit, private.counted, statistic)
        low, high = _ends(facts, centre)
        self.variance_ = np.maximum(released.squares - released.mean**2, 0.0)
        # Where noise hides the variance, use an upper bound instead of zero.
        counted = self.variance_ + released.scale * statistic.square_unit
        record_share = effective_share(federation, release.survivors) / released.share
        # Without public ranges the clipped part is unknown: the interval is for the mean of clipped rows.
        reach = (high - low) / 2 + np.abs(centre) if facts.ranges and statistic.clipped_unit else np.zeros_like(low)
        spread = _spread(released, counted, reach, record_share=record_share, most=most_clipped(facts))
        clipped = reach * max(released.clipped, 0.0)
        half_width = clipped + float(ndtri(0.5 + self.confidence / 2)) * spread
        mean = centre + released.mean
        self.mean_ = np.clip(mean, low, high)
        self.interval_ = np.clip(np.stack([mean - half_width, mean + half_width]), low, high)
        self.clipped_ = released.clipped
        self.noise_scale_ = released.scale
        self.about_ = "the mean" if facts.ranges else _about_clipped(clipped_to)
        self.original_mean_ = original_units(facts, self.mean_)
        self.original_interval_ = original_units(facts, self.interval_)
        self.verdicts_ = _verdicts(facts, half_width, (high - low) / 2, clipped + reach * released.clipped_scale)

    def _clipped_to(self, federation: Federation, private: Allowance) -> Scaling | None:
        """Release around what and to which length rows are clipped, if that is asked for and not hidden by noise."""
        public = self.public(federation)
        if not self.recentre:
            return clipped_or_warned(federation, private, public)
        if not used_or_warned(public, wanted=True):
            return None
        return private_scaling(federation, private, quantile=_QUANTILE, keep_units=True)

    def _result(self) -> Result:
        names, units = self._names(len(self.mean_)), self.units_
        has_ranges = str(self.about_) == "the mean"
        estimand = (
            "mean of the column in the population that these records are a sample of, values outside the public range "
            "moved to its nearer end"
            if has_ranges
            else f"{self.about_} in the population that these records are a sample of, in units of the prepared column"
        )
        # Standard deviations are not listed: noise can hide them, and no interval for them follows from the release.
        means = Estimates(
            quantity="mean",
            estimand=estimand,
            names=names,
            value=self.original_mean_,
            low=self.original_interval_[0],
            high=self.original_interval_[1],
            noise=units.steps(np.full(len(names), self.noise_scale_)),
            unit=units.names,
            confidence=self.confidence,
        )
        about = (
            "Intervals are wider by what clipping rows to the bound may have taken away."
            if has_ranges
            else "There are no public ranges, so that nothing is known of what was clipped."
        )
        forest = Forest(
            values=self.original_mean_,
            interval=self.original_interval_,
            names=names,
            label=f"mean, with {100 * self.confidence:g}% interval",
            alt=f"Means of {len(names)} features with intervals.",
            caption=drawn_caption(len(names)),
        )
        section = Section(title="Means", estimates=(means,), charts=(forest,), notes=(about, THESE_SITES))
        return Result((section,))


def _about_clipped(clipped_to: Scaling | None) -> str:
    """Return what the intervals are for if the clipped part is unknown."""
    if clipped_to is None:
        return "the mean of clipped rows"
    around = " around centre_" if clipped_to.centre.any() else ""
    return f"the mean of rows clipped to {clipped_to.radius[0]:.6g}{around}"


def _released(
    facts: PublicFacts, private: Allowance, clipped_to: Scaling | None
) -> tuple[PublicFacts, ClippedMeans, Means, float]:
    """Release the means; return facts and statistic of the rows as they were clipped, the means, and their unit.

    Rows that were divided by a released length and clipped to 1 are, in their own units, rows clipped to that length.
    Rows and means are relative to the released centre, if there is one.
    """
    if clipped_to is None:
        statistic = clipped_means(facts)
        return facts, statistic, private.mean(statistic), 1.0
    weight, unit = weight_after_scaling(facts), float(clipped_to.radius[0])
    means: Means = private.mean(scaled(facts, clipped_to, "clipped_means", clipping_weight=weight))
    shorter = msgspec.structs.replace(facts, bounds=(unit,), longest=())
    statistic = ClippedMeans(shorter, clipping_weight=weight)
    return shorter, statistic, Means(means.mean * unit, means.squares * unit**2, means.clipped), unit


@dataclass(frozen=True)
class _ReleasedMeans:
    """Released means per valid record, and the standard deviations of their noise.

    Attributes
    ----------
    mean, squares : array of shape (D,)
        Means of the clipped rows and of their squared entries.
    clipped : float
        Mean part that clipping took away.
    share : float
        Share of valid records.
    scale, clipped_scale, share_scale : float
        Noise of each entry of the mean, of the clipped part, and of the share (0 if all records are known to be valid).
    """

    mean: FloatArray
    squares: FloatArray
    clipped: float
    share: float
    scale: float
    clipped_scale: float
    share_scale: float


def _per_valid(means: Means, scale: float, valid: ValidShare, statistic: ClippedMeans) -> _ReleasedMeans:
    """Return the means over valid records: divided by their released share, which is at most one.

    If the share is clearly below one the release has been divided by it already. Otherwise it is near one, and dividing
    by it costs little: a share of unreadable records that noise hides would bias the mean.
    """
    share = min(max(valid.share, 0.5), 1.0) if not valid.was_divided else valid.share
    divisor = 1.0 if valid.was_divided else share
    noise = scale / share
    return _ReleasedMeans(
        mean=means.mean / divisor,
        squares=means.squares / divisor,
        clipped=means.clipped / divisor,
        share=share,
        scale=noise,
        clipped_scale=noise * statistic.clipped_unit,
        share_scale=valid.scale / share,
    )


def _spread(
    released: _ReleasedMeans, variance: FloatArray, reach: FloatArray, *, record_share: float, most: float
) -> FloatArray:
    """Return the standard deviation of each mean, together with that of what clipping may have taken from it.

    Parameters
    ----------
    released : _Found
        The released means.
    variance : array of shape (D,)
        Variances of the columns, not below the truth.
    reach : array of shape (D,)
        How far a column's mean moves when a whole row is clipped away.
    record_share : float
        One over the effective number of valid records.
    most : float
        Largest part of a row that clipping can take away.
    """
    noise = released.scale**2 + (released.mean * released.share_scale) ** 2 + (reach * released.clipped_scale) ** 2
    # The clipped part of a row lies between 0 and the largest part, so its variance is at most their product.
    wander = math.sqrt((max(released.clipped, 0.0) + released.clipped_scale) * most)
    return np.sqrt(noise + (np.sqrt(variance) + reach * wander) ** 2 * record_share)


def _verdicts(facts: PublicFacts, half_width: FloatArray, half_range: FloatArray, clipped: FloatArray) -> list[Verdict]:
    names = facts.feature_names or numbered("column", facts.n_features)
    judged = of_ranges(
        [f"mean of {name}" for name in names], np.minimum(half_width, half_range), half_range, clipped=clipped
    )
    if facts.ranges:
        return judged
    return [replace(entry, reason=f"{entry.reason}; {_CLIPPED}") for entry in judged]


def _ends(facts: PublicFacts, centre: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the least and largest mean that was possible before its release, per column."""
    if facts.ranges:
        return np.array([entry.least for entry in facts.ranges]), np.array([entry.most for entry in facts.ranges])
    limits = np.repeat(facts.bounds, facts.widths)
    return centre - limits, centre + limits


def original_units(facts: PublicFacts, values: FloatArray) -> FloatArray:
    """Return values of prepared columns in original units; unchanged without public ranges.

    Parameters
    ----------
    facts : PublicFacts
        Public facts of the records.
    values : array of shape (..., D)
        Values of the columns.
    """
    if not facts.ranges:
        return values
    low, high, least, most = (
        np.array([getattr(entry, name) for entry in facts.ranges]) for name in ("low", "high", "least", "most")
    )
    return np.asarray(low + (values - least) / (most - least) * (high - low), dtype=np.float64)
