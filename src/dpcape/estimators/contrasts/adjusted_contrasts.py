"""What estimators of adjusted differences share: two releases, figures with their intervals, tables and pictures."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dpcape.analyses.contrasts import ContrastColumns, contrast_columns
from dpcape.charts import Forest, drawable
from dpcape.core.arrays import AnyArray, FloatArray
from dpcape.core.errors import UtilityWarning
from dpcape.core.facts import PublicColumn, PublicFacts
from dpcape.estimators.contrasts.ratio_intervals import (
    of_deviation,
    of_divisor,
    of_inverse_deviation,
    ratio_interval,
)
from dpcape.estimators.contrasts.residualiser import (
    Residualiser,
    Slopes,
    false_discovery_rates,
    refined_deviations,
    residualiser_of,
    slopes_of,
)
from dpcape.estimators.estimator import FederatedEstimator
from dpcape.estimators.fitted import require_fitted
from dpcape.federation.allowance import Allowance
from dpcape.federation.federation import Federation
from dpcape.postprocessing.normal import normal_quantile
from dpcape.postprocessing.verdicts import LEVEL, of_discoveries
from dpcape.results import SHOWN, Estimates, Result, Section
from dpcape.statistics.adjusted_products import DesignMeans, DesignMoments, ProductMeans, ResidualProducts
from dpcape.statistics.cells import CATEGORY
from dpcape.tables import Table, interval, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Half the width of the coded range [-1, 1], the unit of coded values.
_STEP_OF_LEVELS = 2.0
# Minimum share of variance within groups; groups farther apart are not estimable.
_LEAST_LEFT = 0.05
# (k - 1) / 4 for the kurtosis k of an exponential distribution.
_KURTOSIS_PART = 2.0
_ADJUSTED = "adjusted for sites and covariates as far as they are named"


class AdjustedContrasts(FederatedEstimator):
    """What :class:`GroupContrast` and :class:`MassUnivariate` share."""

    _builder: ClassVar[str] = "table(data, columns={...})"
    _takes_weights = False
    outcomes_: AnyArray
    effect_: FloatArray
    effect_interval_: FloatArray
    d_: FloatArray
    d_interval_: FloatArray
    standard_errors_: FloatArray
    p_values_: FloatArray
    adjusted_p_values_: FloatArray
    sd_: FloatArray
    contrast_: str
    n_complete_: float
    noise_part_: float
    farthest_: float
    effect_noise_scale_: FloatArray
    d_noise_scale_: FloatArray
    contrast: str
    outcomes: str | Sequence[str] | None
    covariates: str | Sequence[str] | None
    site: str | None
    assumed_effect: float
    confidence: float

    def _fit(self, federation: Federation, private: Allowance) -> None:
        facts = federation.facts
        chosen = contrast_columns(facts, self.contrast, self.outcomes, self.covariates, self.site)
        if self.site is None and len(federation.sites) > 1:
            warnings.warn(
                f"{type(self).__name__}: without site=, differences between sites count as differences of the "
                "contrast. Name the column with the site or scanner.",
                UtilityWarning,
                stacklevel=4,
            )
        design = DesignMoments(facts, **chosen.public())  # type: ignore[arg-type]  # positions
        shares = self._shares(federation)
        fitted, n_records = self._residualiser(design, facts.columns[chosen.design[0]], private, shares)
        products = ResidualProducts(
            facts,
            **chosen.public(),  # type: ignore[arg-type]  # positions
            coefficients=fitted.coefficients,
            offsets=fitted.offsets,
            site_weights=fitted.site_weights,
            centre=fitted.centre,
            scale=fitted.scale,
        )
        means = private.mean(products)
        factor = n_records * private.counted.divisor
        sums = ProductMeans(means.products * factor, means.squares * factor, means.contrast * factor)
        noise = private.releases[-1].scale * n_records
        slopes = slopes_of(sums, fitted, noise=noise)
        deviations = refined_deviations(sums, fitted, noise=noise)
        self._tabulate(facts, chosen, fitted, slopes, deviations)

    def _residualiser(
        self, design: DesignMoments, contrast: PublicColumn, private: Allowance, shares: Sequence[float]
    ) -> tuple[Residualiser, float]:
        """Release the moments of the design, and return what follows from them and the number of records."""
        means = private.mean(design)
        release = private.releases[-1]
        n_records = float(release.n_records)
        # Tables have no invalid records: undo the division by the noisy count of valid records.
        sums = DesignMeans(*(part * (n_records * private.counted.divisor) for part in means))
        following = ResidualProducts.extent(n_outcomes=len(sums.outcomes), width=len(sums.products))
        noise = release.scale * n_records
        ratio = following.diameter / design.diameter * math.sqrt(shares[0] / shares[1])
        fitted = residualiser_of(
            sums,
            design.weights,
            noise=noise,
            next_noise=noise * ratio,
            is_binary=contrast.kind == CATEGORY,
            assumed=self.assumed_effect,
        )
        return fitted, n_records

    def _tabulate(
        self,
        facts: PublicFacts,
        chosen: ContrastColumns,
        fitted: Residualiser,
        slopes: Slopes,
        deviations: tuple[FloatArray, FloatArray],
    ) -> None:
        """Set the fitted arrays: slopes per coded unit become differences in original units and d."""
        outcomes = [facts.columns[at] for at in chosen.outcomes]
        contrast = facts.columns[chosen.design[0]]
        is_binary = contrast.kind == CATEGORY
        reach = normal_quantile(self.confidence)
        half_ranges = np.array([(column.high - column.low) / 2 for column in outcomes])
        # In original units: between levels, or per unit of the contrast.
        unit = _STEP_OF_LEVELS if is_binary else 2 / (contrast.high - contrast.low)
        per_unit = unit * fitted.sd * half_ranges
        self.effect_ = slopes.slope * per_unit
        divided = np.full(len(per_unit), slopes.relative)
        without = _less(slopes.se, _part(slopes.slope, divided))
        self.effect_interval_ = ratio_interval(self.effect_, without * per_unit * reach, of_divisor(divided * reach))
        step = _STEP_OF_LEVELS if is_binary else fitted.contrast_sd
        total, error = deviations
        # Correlation with the contrast. Within groups, what the contrast itself adds to the variance is taken away.
        correlation = slopes.slope * fitted.sd / total * (fitted.contrast_sd if is_binary else 0.0)
        within_share = np.maximum(1 - correlation**2, _LEAST_LEFT)
        within = total * np.sqrt(within_share)
        to_d = step * fitted.sd / within
        self.d_ = to_d * slopes.slope
        sampled = np.hypot(to_d * _less(slopes.se, slopes.noise), self.d_ * _of_long_tails(fitted, is_binary=is_binary))
        # Noise of the slope or of the whole variance changes the variance within groups too; what is sampled does not.
        effect = np.hypot(sampled, to_d * _less(without, _less(slopes.se, slopes.noise)) / within_share)
        deviation = np.hypot(error, correlation**2 * fitted.contrast_sd_error if is_binary else 0.0) / within_share
        deviation = np.where(correlation**2 > 1 - _LEAST_LEFT, np.inf, deviation)
        factor = np.full(len(within_share), 0.0 if is_binary else fitted.contrast_sd_error)
        divisor = of_divisor(divided / within_share * reach) & of_deviation(deviation * reach)
        self.d_interval_ = ratio_interval(self.d_, effect * reach, divisor & of_inverse_deviation(factor * reach))
        own = np.hypot(to_d * slopes.noise / within_share, _part(self.d_, np.hypot(deviation, factor)))
        self.standard_errors_ = np.nan_to_num(np.hypot(sampled, own), nan=np.inf, posinf=np.inf)
        self.effect_noise_scale_ = slopes.noise * per_unit
        self.d_noise_scale_ = np.where(np.isfinite(own), own, np.nan)
        self.p_values_, self.adjusted_p_values_ = slopes.p, false_discovery_rates(slopes.p)
        self.sd_ = within * half_ranges
        self.outcomes_ = np.array([column.name for column in outcomes], dtype=np.str_)
        self.contrast_ = f"slope on {contrast.name}"
        if is_binary:
            self.contrast_ = f"{contrast.name}: {contrast.levels[1]} minus {contrast.levels[0]}"
        self.n_complete_, self.noise_part_ = fitted.n_complete, slopes.noise_part
        self.farthest_ = fitted.length / math.sqrt(len(outcomes))
        names = [f"difference in {column.name}" for column in outcomes]
        self.verdicts_ = of_discoveries(names, self.adjusted_p_values_, *self.d_interval_)

    def _result(self) -> Result:
        many = "s of the outcomes (root mean square)" if len(self.outcomes_) > 1 else ""
        section = Section(
            title="Adjusted differences",
            estimates=self._figures(),
            tables=(self._table(),),
            charts=(self._forest(),),
            notes=(
                "q is the rate of false discoveries over the outcomes (Benjamini and Hochberg); intervals allow for "
                f"one outcome. Noise of privacy is {100 * self.noise_part_:.0f}% of the variance.",
                f"Records more than {self.farthest_:.2g} standard deviations from the mean{many} weigh less: what only "
                "a few extreme records differ by is estimated too small.",
            ),
        )
        assumed = (
            "what noise leaves of a site or covariate in the comparison moves an outcome by "
            f"{self.assumed_effect:g} standard deviations at most (assumed_effect)"
        )
        return Result((section,), (assumed,))

    def _figures(self) -> tuple[Estimates, Estimates]:
        """Return the differences in units of the outcomes, and as d."""
        names = [str(name) for name in self.outcomes_]
        difference = Estimates(
            quantity="difference",
            estimand=f"in units of the outcome (a slope: per unit of the contrast), {_ADJUSTED}, of values moved into "
            "their public ranges",
            names=names,
            parts=str(self.contrast_),
            value=self.effect_,
            low=self.effect_interval_[0],
            high=self.effect_interval_[1],
            noise=self.effect_noise_scale_,
            p_value=self.p_values_,
            adjusted=self.adjusted_p_values_,
            unit=[self.unit_of(name) for name in names],
            confidence=self.confidence,
            n=self.n_complete_,
        )
        d = replace(
            difference,
            quantity="d",
            estimand="the difference in standard deviations of the outcome (Cohen's d; a slope: per standard deviation "
            f"of the contrast), {_ADJUSTED}",
            value=self.d_,
            low=self.d_interval_[0],
            high=self.d_interval_[1],
            standard_error=self.standard_errors_,
            noise=self.d_noise_scale_,
            unit="",
        )
        return difference, d

    def _table(self) -> Table:
        """Return one row per outcome; of many, those of the smallest p-values, in the order of the columns."""
        positions = np.arange(len(self.outcomes_))
        cut = ""
        if len(positions) > SHOWN:
            positions = np.sort(np.argsort(self.p_values_, kind="stable")[:SHOWN])
            cut = f"The {SHOWN} of {len(self.outcomes_)} outcomes with the smallest p-values; results.csv has all."
        rows = [
            [
                str(self.outcomes_[at]),
                short(float(self.effect_[at]), 3),
                short(float(self.d_[at]), 3),
                interval(*self.d_interval_[:, at].tolist(), decimals=2),
                short(float(self.p_values_[at]), 2),
                short(float(self.adjusted_p_values_[at]), 2),
            ]
            for at in positions
        ]
        return Table(["outcome", "difference", "d", f"{100 * self.confidence:g}% interval of d", "p", "q"], rows, cut)

    def _forest(self) -> Forest:
        discoveries = int(np.count_nonzero(self.adjusted_p_values_ <= LEVEL))
        return Forest(
            values=self.d_,
            interval=drawable(self.d_interval_, self.d_, 3.0),
            names=[str(name) for name in self.outcomes_],
            label=f"d, with {100 * self.confidence:g}% interval",
            alt=f"Forest plot of {len(self.d_)} differences; {discoveries} are discoveries at q of at most {LEVEL:g}.",
            caption="Intervals cover sampling and noise; an arrow says that one goes on. Of many outcomes, those with "
            "the largest d are drawn.",
        )

    def plot_differences(self, ax: Axes | None = None, *, largest: int = 30) -> Axes:
        """Draw d with its interval for every outcome, or for those with the largest (forest plot)."""
        from dpcape.report.drawing import draw

        require_fitted(self)
        return draw(self._forest(), ax, largest=largest)


def _part(whole: FloatArray, relative: FloatArray) -> FloatArray:
    """Return |whole| times a relative error; infinite where the error is, even for a whole of zero."""
    return np.abs(whole) * np.where(np.isfinite(relative), relative, 0.0) + np.where(np.isfinite(relative), 0.0, np.inf)


def _less(whole: FloatArray, part: FloatArray) -> FloatArray:
    """Return sqrt(whole^2 - part^2), the standard deviation without an independent part; infinite if the whole is."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(whole), np.sqrt(np.maximum(whole**2 - part**2, 0.0)), np.inf)


def _of_long_tails(fitted: Residualiser, *, is_binary: bool) -> float:
    """Return the sampling error of d due to the estimated deviation, relative to d, beyond the error of the slope.

    Its variance is d^2 (k - 1) / 4 over the number of records, with a kurtosis k of up to 9: that of an exponential
    distribution. The slope's squared error, of outcomes around one mean for both groups, has d^2 (1 - 3 v) / v of it,
    where v is the variance of a group's indicator.
    """
    if not is_binary:
        return 0.0
    v = fitted.contrast_sd**2 / 4
    return math.sqrt(max(_KURTOSIS_PART - (1 - 3 * v) / v, 0.0) / fitted.n_complete)
