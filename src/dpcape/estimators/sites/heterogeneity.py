"""Heterogeneity: random effects over sites, for what holds beyond them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dpcape.analyses.description import Analysis
from dpcape.analyses.harmonise import first_scale, harmonised_columns
from dpcape.analyses.heterogeneity import HETEROGENEITY
from dpcape.charts import SiteForest
from dpcape.core.arrays import AnyArray, FloatArray
from dpcape.core.errors import UtilityWarning
from dpcape.estimators.fitted import require_fitted
from dpcape.estimators.sites.random_effects import (
    RandomEffects,
    SiteValues,
    random_effects,
    reach_of_rows,
    site_values,
)
from dpcape.estimators.sites.site_effects import pooled_columns
from dpcape.estimators.sites.site_release import BY_SITE, OfSites
from dpcape.federation.allowance import Allowance
from dpcape.federation.federation import Federation
from dpcape.postprocessing.normal import normal_quantile
from dpcape.postprocessing.verdicts import of_between_sites
from dpcape.results import SHOWN, Estimates, Result, Section
from dpcape.statistics.site_moments import WEIGHT, SiteMoments
from dpcape.statistics.table_designs import NO_SITE
from dpcape.tables import NOT_ESTIMABLE, Table, interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Below this z-score, a count is too noisy to divide by, and the noise of a mean is not estimated.
_CLEAR = 4.0
_MOST_SITES, _DRAWN = 40, 3
_HEADER = ["column", "mean, these sites", "mean, wider population", "SD between sites", "I^2", "mean of a further site"]
# Quantity, part and estimand of the figures of a column.
_VALUES = "values moved into their public range, of complete records"
_POOLED = (
    "mean",
    "these sites",
    f"mean over the populations of these sites, each counted by its records, of {_VALUES}",
)
_WIDER = ("mean", "wider population", f"mean over the population of sites, each counted once, of {_VALUES}")
_FURTHER = ("mean", "a further site", "mean of one further site, as its prediction interval covers it")
_BETWEEN = ("SD between sites", "", "standard deviation between the means of sites in the wider population")
_SHARE = ("I^2", "", "share of the variance of the means of these sites that is not sampling of records")


class Heterogeneity(OfSites):
    """How much sites differ, and means for the sites that these are a sample of (random-effects meta-analysis).

    An interval of a pooled mean is for these sites. For the wider population of sites it must also cover that other
    sites have other means.

    Parameters
    ----------
    site : str
        Column with the site, a category with public levels.
    epsilon : float or mapping
        Privacy parameter epsilon of the whole fit: one number for all sites, or one per site.
    delta : float or mapping
        Privacy parameter delta, for all sites or per site; far below one over the number of records.
    columns : sequence of str or None
        Columns of numbers; None for all. Noise grows with the square root of their number.
    confidence : float
        Probability with which each interval contains its figure, at least 0.92.

    Attributes
    ----------
    mean_, interval_ : array of shape (V,) and (2, V)
        Mean over sites, each counted once, and its interval for the wider population of sites.
    pooled_, pooled_interval_ : array of shape (V,) and (2, V)
        Mean of all records, and its interval for these sites.
    prediction_interval_ : array of shape (2, V)
        Interval for the mean of one further site.
    tau_, tau_interval_ : array of shape (V,) and (2, V)
        Standard deviation between sites.
    i2_, i2_interval_ : array of shape (V,) and (2, V)
        Share of the variance of sites' means that is not sampling of records.
    site_means_, site_interval_ : array of shape (S, V) and (2, S, V)
        Means of the sites; NaN where noise hides a site.
    pooled_noise_scale_, site_noise_scale_ : array of shape (V,) and (S, V)
        Standard deviations of the noise of privacy in the mean of all records and in those of the sites, to first
        order; NaN where noise hides a site.
    sizes_ : array of shape (S,)
        Numbers of complete records, as released; 0 where noise hides a site.
    sites_, columns_ : array of str
        Names of the sites and of the columns.

    Privacy
    -------
    Two releases of ``site_moments``, of diameter 2: for all sites together (30% of mu^2), then by site. Noisy totals of
    each site are visible, under every protocol, also under ``SecureSum``: the guarantee and the card say so.

    Notes
    -----
    The interval of the mean is the t interval of the sites' means. It holds whatever the sizes of sites are, as
    long as their means are normal, also for three sites: it is then wide. The variance between sites has the interval
    of the generalised Q.

    Edge cases
    ----------
    =====================================  ====================================================================
    record with a missing value            left out
    site that noise hides                  left out
    site far from all others               its values are clipped at six standard deviations of all records, or farther
                                           where noise is small. If they reach that end: intervals of the site and of
                                           the mean over sites infinite, sites differ at least as much as stated
    fewer than two sites are left          nothing is known: intervals are infinite
    a site is lost                         figures of the sites that finished
    sites with weights                     refused: every record counts once
    =====================================  ====================================================================

    References
    ----------
    R. Ibragimov and U. Muller, *t-statistic based correlation and heterogeneity robust inference*, 2010.
    W. Viechtbauer, *Confidence intervals for the amount of heterogeneity in meta-analysis*, 2007. R. Paule and
    J. Mandel, *Consensus values and weighting factors*, 1982.

    Examples
    --------
    >>> import numpy as np
    >>> from dpcape import Federation, Heterogeneity, Independent, in_process, table
    >>> source = np.random.default_rng(0)
    >>> site = np.repeat(np.array(["a", "b", "c", "d", "e"], dtype=object), 2000)
    >>> shift = np.repeat(source.normal(0, 0.2, 5), 2000)
    >>> people = {"site": site, "volume": source.normal(3.5, 0.4, 10000) + shift}
    >>> records = table(people, columns={"site": ["a", "b", "c", "d", "e"], "volume": (1, 6)})
    >>> federation = Federation(in_process({"lyon": records}), protocol=Independent())
    >>> model = Heterogeneity("site", epsilon=3.0, delta=1e-6).fit(federation)
    >>> bool(model.tau_interval_[0, 0] > 0), bool(model.interval_[0, 0] < 3.5 < model.interval_[1, 0])
    (True, True)
    """

    analysis: ClassVar[Analysis | None] = HETEROGENEITY
    mean_: FloatArray
    interval_: FloatArray
    pooled_: FloatArray
    pooled_interval_: FloatArray
    prediction_interval_: FloatArray
    tau_: FloatArray
    tau_interval_: FloatArray
    i2_: FloatArray
    i2_interval_: FloatArray
    site_means_: FloatArray
    site_interval_: FloatArray
    pooled_noise_scale_: FloatArray
    site_noise_scale_: FloatArray
    sizes_: FloatArray
    sites_: AnyArray
    columns_: AnyArray

    def __init__(
        self,
        site: str,
        *,
        epsilon: float | Mapping[str, float],
        delta: float | Mapping[str, float],
        columns: str | Sequence[str] | None = None,
        confidence: float = 0.95,
    ) -> None:
        self.site = site
        self.epsilon = epsilon
        self.delta = delta
        self.columns = columns
        self.confidence = confidence

    def _fit(self, federation: Federation, private: Allowance) -> None:
        facts = federation.facts
        chosen, site = harmonised_columns(facts, self.site, self.columns)
        positions, root = np.array(chosen, dtype=np.int64), math.sqrt(len(chosen))
        all_sites = SiteMoments(facts, positions, NO_SITE, np.zeros(len(chosen)), first_scale(len(chosen)))
        sums, noise = self._sums(all_sites, private)
        centre, sd = pooled_columns(sums, noise=noise)
        # Rows are not clipped within the public range, nor within six standard deviations of the mean.
        far = reach_of_rows(float(sums.counts[0]) / len(facts.columns[site].levels), noise * root)
        scale = np.minimum(far * sd, 1 + np.abs(centre)) * root * (1 + 2.0**-30)
        columns = [facts.columns[at] for at in chosen]
        half_range = np.array([(column.high - column.low) / 2 for column in columns])
        middle = np.array([(column.high + column.low) / 2 for column in columns])
        count = max(float(sums.counts[0]), 1.0)
        spread = np.sqrt((noise * root / count) ** 2 * (1 + 2 * centre**2) + sd**2 / count)
        reach = normal_quantile(self.confidence)
        self.pooled_ = middle + half_range * centre
        self.pooled_interval_ = np.array(
            [self.pooled_ - half_range * reach * spread, self.pooled_ + half_range * reach * spread]
        )
        hidden = math.nan if count < _CLEAR * noise / WEIGHT else 1.0
        self.pooled_noise_scale_ = hidden * half_range * noise / count * np.hypot(root, centre / WEIGHT)
        by_site, noise = self._sums(SiteMoments(facts, positions, site, centre, scale), private)
        values = site_values(by_site, noise=noise, longest=float(np.linalg.norm((1 + np.abs(centre)) / scale)))
        self.sites_ = np.array(facts.columns[site].levels, dtype=np.str_)
        self.columns_ = np.array([column.name for column in columns], dtype=np.str_)
        self.sizes_ = values.sizes
        unit = half_range * scale
        self.site_means_ = self.pooled_ + unit * values.means
        self.site_noise_scale_ = np.where(values.is_there[:, np.newaxis], unit * np.sqrt(values.noise), np.nan)
        error = reach * unit * np.sqrt(values.sampling + values.noise)
        ends = np.array([self.site_means_ - error, self.site_means_ + error])
        # Nothing is estimable for a site whose count noise hides, nor for one whose records were shrunk towards the
        # others.
        unknown = np.isnan(ends) | values.is_cut[:, np.newaxis]
        self.site_interval_ = np.where(unknown, np.array([-math.inf, math.inf])[:, np.newaxis, np.newaxis], ends)
        effects = [self._of_column(values, at) for at in range(len(columns))]
        self._warn_of_far_sites(values)
        self.mean_ = self.pooled_ + unit * [entry.mean for entry in effects]
        self.interval_ = self.pooled_ + unit * np.array([entry.interval for entry in effects]).T
        self.prediction_interval_ = self.pooled_ + unit * np.array([entry.prediction for entry in effects]).T
        self.tau_ = unit * np.sqrt([entry.tau2 for entry in effects])
        self.tau_interval_ = unit * np.sqrt(np.array([entry.tau2_interval for entry in effects]).T)
        self.i2_ = np.array([entry.i2 for entry in effects])
        self.i2_interval_ = np.array([entry.i2_interval for entry in effects]).T
        self.verdicts_ = of_between_sites(
            [column.name for column in columns], self.tau_interval_[0], self.tau_interval_[1], half_range
        )

    def _of_column(self, values: SiteValues, at: int) -> RandomEffects:
        """Return random effects of one column; if rows of a site were shortened, sites differ at least as released."""
        there = values.is_there
        effects = random_effects(
            values.means[there, at], values.sampling[there, at], values.noise[there, at], self.confidence
        )
        return effects.at_least() if values.is_cut.any() else effects

    def _warn_of_far_sites(self, values: SiteValues) -> None:
        if values.is_cut.any():
            warnings.warn(
                f"Values of {', '.join(self.sites_[values.is_cut])} lie so far from those of other sites that they "
                "were clipped, so the mean over sites is unknown, and sites differ at least as much as stated. "
                "Check the units of these sites, or fit without them.",
                UtilityWarning,
                stacklevel=4,
            )

    def _result(self) -> Result:
        there = int((self.sizes_ > 0).sum())
        notes = (
            f"{there} of {len(self.sites_)} sites have clearly more records than noise, and count; with few sites "
            "intervals for the wider population are wide.",
            BY_SITE,
        )
        section = Section(
            title="Differences between sites",
            estimates=tuple(part for at in range(len(self.columns_)) for part in self._of_figures(at)),
            tables=(Table(_HEADER, [self._row(at) for at in range(len(self.columns_))][:SHOWN]),),
            charts=tuple(self._forest(at) for at in range(min(_DRAWN, len(self.columns_)))),
            notes=notes,
        )
        normal = "means of sites in the wider population are normal, and these sites are a sample of it"
        return Result((section,), (normal,))

    def _of_figures(self, at: int) -> Iterator[Estimates]:
        """Yield the figures of one column: random effects, then the means of the sites."""
        name = str(self.columns_[at])
        unit = self.unit_of(name)
        for (quantity, part, estimand), values, ends, noise in (
            (_POOLED, self.pooled_, self.pooled_interval_, self.pooled_noise_scale_[at]),
            (_WIDER, self.mean_, self.interval_, None),
            (_FURTHER, self.mean_, self.prediction_interval_, None),
            (_BETWEEN, self.tau_, self.tau_interval_, None),
            (_SHARE, self.i2_, self.i2_interval_, None),
        ):
            yield Estimates(
                quantity=quantity,
                estimand=estimand,
                names=name,
                parts=part,
                value=values[at],
                low=ends[0, at],
                high=ends[1, at],
                noise=noise,
                unit="" if quantity == _SHARE[0] else unit,
                confidence=self.confidence,
            )
        yield Estimates(
            quantity="mean",
            estimand=f"mean of the population of one site, of {_VALUES}",
            names=name,
            groups=[str(site) for site in self.sites_],
            value=self.site_means_[:, at],
            low=self.site_interval_[0, :, at],
            high=self.site_interval_[1, :, at],
            noise=self.site_noise_scale_[:, at],
            unit=unit,
            confidence=self.confidence,
        )

    def _row(self, at: int) -> list[str]:
        return [
            str(self.columns_[at]),
            _with_ends(self.pooled_[at], self.pooled_interval_[:, at]),
            _with_ends(self.mean_[at], self.interval_[:, at]),
            _with_ends(self.tau_[at], self.tau_interval_[:, at]),
            _with_ends(100 * self.i2_[at], 100 * self.i2_interval_[:, at], "%"),
            interval(*self.prediction_interval_[:, at].tolist()),
        ]

    def _forest(self, at: int) -> SiteForest:
        there = np.flatnonzero(self.sizes_ > 0)[:_MOST_SITES]
        name = str(self.columns_[at])
        below = [
            ("these sites", self.pooled_, self.pooled_interval_),
            ("wider population", self.mean_, self.interval_),
            ("a further site", self.mean_, self.prediction_interval_),
        ]
        figures = [(label, float(values[at]), float(ends[0, at]), float(ends[1, at])) for label, values, ends in below]
        return SiteForest(
            names=[str(self.sites_[site]) for site in there],
            values=self.site_means_[there, at],
            interval=self.site_interval_[:, there, at],
            below=[entry for entry in figures if np.isfinite(entry[1:]).all()],
            label=f"mean of {name}, with {100 * self.confidence:g}% interval",
            alt=f"Forest plot of {name}: mean over sites {self.mean_[at]:.4g}, standard deviation between sites "
            f"{self.tau_[at]:.3g}.",
            caption=f"Means of {name} by site; below the line, what holds for these sites and beyond.",
        )

    def plot_sites(self, column: str | None = None, ax: Axes | None = None) -> Axes:
        """Draw the means of sites with their intervals, and what holds for these sites and beyond (forest plot)."""
        from dpcape.report.drawing import draw

        require_fitted(self)
        names = [str(name) for name in self.columns_]
        return draw(self._forest(0 if column is None else names.index(column)), ax)


def _with_ends(value: float, ends: FloatArray, unit: str = "") -> str:
    words = interval(*ends.tolist())
    return words if words == NOT_ESTIMABLE or not np.isfinite(value) else f"{value:.4g}{unit} ({words})"
