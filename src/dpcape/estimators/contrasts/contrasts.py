"""Adjusted differences between two groups, in one, few or many outcomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from dpcape.analyses.contrasts import GROUP_CONTRAST, MASS_UNIVARIATE
from dpcape.analyses.description import Analysis
from dpcape.estimators.contrasts.adjusted_contrasts import AdjustedContrasts


class GroupContrast(AdjustedContrasts):
    """Adjusted difference between two groups, in one or few outcomes.

    Parameters
    ----------
    contrast : str
        Column that is compared: a category of two levels (the second minus the first), or a number (a slope).
    outcomes : str or sequence of str
        Columns of numbers in which the groups may differ. Noise grows with the square root of their number.
    epsilon : float or mapping
        Privacy parameter epsilon of the whole fit: one number for all sites, or one per site.
    delta : float or mapping
        Privacy parameter delta, for all sites or per site; far below one over the number of records.
    covariates : sequence of str or None
        Columns to adjust for.
    site : str or None
        Column with the site or scanner, a category whose levels get a mean of their own; None for no adjustment, which
        is right only for records of one place.
    assumed_effect : float
        Largest effect of a site or covariate on an outcome that intervals and tests allow for, in standard deviations
        of the outcome: noise leaves a little of it in the comparison.
    confidence : float
        Probability with which each interval contains its figure.

    Attributes
    ----------
    effect_, effect_interval_ : array of shape (V,) and (2, V)
        Differences between the levels, or slopes per unit of the contrast, in units of the outcomes.
    d_, d_interval_, standard_errors_ : array of shape (V,), (2, V) and (V,)
        Cohen's d: the same divided by ``sd_``; of a contrast that is a number, per standard deviation of it.
    p_values_, adjusted_p_values_ : array of shape (V,)
        Two-sided p-values, and rates of false discoveries over the outcomes.
    sd_ : array of shape (V,)
        Standard deviations of the outcomes, without what the difference itself adds: those within groups, where site
        and covariates do not differ between groups.
    outcomes_ : array of shape (V,)
        Names of the outcomes.
    contrast_ : str
        What is compared, in words.
    n_complete_ : float
        Number of complete records, as released.
    noise_part_ : float
        Part of the variance of the estimates that is noise of privacy.
    farthest_ : float
        Records whose outcomes are farther from their means weigh less: root mean square over the outcomes, in standard
        deviations.
    effect_noise_scale_, d_noise_scale_ : array of shape (V,)
        Standard deviations of the noise of privacy in ``effect_`` and ``d_``, to first order; what noise leaves of site
        and covariates counts with ``assumed_effect``. NaN where nothing is known.

    Privacy
    -------
    Two releases. ``design_moments``: sums and products of the design by site, means and squares of the outcomes;
    diameter 3.16 times the number of columns of the design. ``residual_products``: products of the outcomes with the
    residual of the contrast, which the first release defines; diameter 2.06 whatever the first release was. Values of
    the contrast, covariates and site are private, their ranges and levels public. Counts and means by site are
    released with noise.

    Notes
    -----
    The residual of the contrast given site and covariates is an instrument: slope = sum(r y) / sum(r d). Rows of
    standardised outcomes are shortened to a length near the square root of their number, with the same factor in the
    denominator: differences are those of records that weigh less if they are farther than ``farthest_``. Standard
    errors hold if the variance of an outcome differs between groups.

    Edge cases
    ----------
    =====================================  ====================================================================
    record with a missing value            left out, if it is in one of the columns that are used
    site that noise hides                  gets weight zero
    contrast that noise hides              nothing is known: intervals are infinite and p-values 1
    outcome that hardly varies             below 1% of half of its range, d may be larger without limit
    outcome with long tails                few records beyond ``farthest_`` hardly count: choose the logarithm
    a site is lost                         estimates for the sites that finished
    sites with weights                     refused: every record counts once
    =====================================  ====================================================================

    References
    ----------
    R. Frisch and F. Waugh, *Partial time regressions as compared with individual trends*, 1933.

    Examples
    --------
    >>> import numpy as np
    >>> from dpcape import Federation, GroupContrast, Independent, in_process, table
    >>> source = np.random.default_rng(0)
    >>> dx = source.choice(np.array(["control", "case"], dtype=object), 20000)
    >>> people = {"dx": dx, "volume": source.normal(3.5, 0.4, 20000) - 0.2 * (dx == "case")}
    >>> records = table(people, columns={"dx": ["control", "case"], "volume": (2, 5)})
    >>> federation = Federation(in_process({"lyon": records}), protocol=Independent())
    >>> model = GroupContrast(contrast="dx", outcomes="volume", epsilon=3.0, delta=1e-6).fit(federation)
    >>> model.contrast_, bool(abs(model.effect_[0] + 0.2) < 0.05), bool(model.p_values_[0] < 0.001)
    ('dx: case minus control', True, True)
    """

    analysis: ClassVar[Analysis | None] = GROUP_CONTRAST

    def __init__(
        self,
        contrast: str,
        outcomes: str | Sequence[str],
        *,
        epsilon: float | Mapping[str, float],
        delta: float | Mapping[str, float],
        covariates: str | Sequence[str] | None = None,
        site: str | None = None,
        assumed_effect: float = 0.5,
        confidence: float = 0.95,
    ) -> None:
        self.contrast = contrast
        self.outcomes = outcomes
        self.epsilon = epsilon
        self.delta = delta
        self.covariates = covariates
        self.site = site
        self.assumed_effect = assumed_effect
        self.confidence = confidence


class MassUnivariate(AdjustedContrasts):
    """Adjusted differences between two groups in many outcomes, such as regions of the brain.

    The same as :class:`GroupContrast`, for all columns of numbers; see there for the attributes.

    Parameters
    ----------
    contrast : str
        Column that is compared: a category of two levels (the second minus the first), or a number (a slope).
    epsilon : float or mapping
        Privacy parameter epsilon of the whole fit: one number for all sites, or one per site.
    delta : float or mapping
        Privacy parameter delta, for all sites or per site; far below one over the number of records.
    covariates : sequence of str or None
        Columns to adjust for.
    site : str or None
        Column with the site or scanner, a category whose levels get a mean of their own; None for no adjustment, which
        is right only for records of one place.
    outcomes : sequence of str or None
        Columns of numbers in which the groups may differ; None for all that are not named otherwise.
    assumed_effect : float
        Largest effect of a site or covariate on an outcome that intervals and tests allow for, in standard deviations
        of the outcome: noise leaves a little of it in the comparison.
    confidence : float
        Probability with which each interval contains its figure.

    Attributes
    ----------
    d_, d_interval_, standard_errors_, p_values_, adjusted_p_values_ : array
        As of :class:`GroupContrast`, one entry per outcome in the order of ``outcomes_``.

    Privacy
    -------
    As for :class:`GroupContrast`: two releases, ``design_moments`` and ``residual_products``.

    Notes
    -----
    Voxels of images are averaged over public parcels first (:func:`dpcape.neuro.parcel_columns`), and results are
    painted on them (:func:`dpcape.neuro.write_parcels`).

    Edge cases
    ----------
    As for :class:`GroupContrast`.

    Examples
    --------
    >>> import numpy as np
    >>> from dpcape import Federation, Independent, MassUnivariate, in_process, table
    >>> source = np.random.default_rng(0)
    >>> dx = source.choice(np.array(["control", "case"], dtype=object), 20000)
    >>> regions = {f"region {number}": source.normal(size=20000) for number in range(20)}
    >>> regions["region 0"] -= 0.3 * (dx == "case")
    >>> records = table({**regions, "dx": dx}, columns={**dict.fromkeys(regions, (-4, 4)), "dx": ["control", "case"]})
    >>> federation = Federation(in_process({"lyon": records}), protocol=Independent())
    >>> model = MassUnivariate(contrast="dx", epsilon=3.0, delta=1e-6).fit(federation)
    >>> model.outcomes_[model.adjusted_p_values_ < 0.001].tolist()
    ['region 0']
    """

    analysis: ClassVar[Analysis | None] = MASS_UNIVARIATE

    def __init__(
        self,
        contrast: str,
        *,
        epsilon: float | Mapping[str, float],
        delta: float | Mapping[str, float],
        covariates: str | Sequence[str] | None = None,
        site: str | None = None,
        outcomes: str | Sequence[str] | None = None,
        assumed_effect: float = 0.5,
        confidence: float = 0.95,
    ) -> None:
        self.contrast = contrast
        self.epsilon = epsilon
        self.delta = delta
        self.covariates = covariates
        self.site = site
        self.outcomes = outcomes
        self.assumed_effect = assumed_effect
        self.confidence = confidence
