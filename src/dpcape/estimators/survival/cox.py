"""Cox regression: hazard ratios of columns, with intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy.linalg import block_diag
from scipy.special import ndtr

from dpcape.analyses.cox import COX, CROWDING, N_BINS, SHARES, chosen_covariates, length_of_rows
from dpcape.analyses.description import Analysis
from dpcape.analyses.survival import chosen_event, horizon_of
from dpcape.charts import Forest, drawable
from dpcape.core.arrays import AnyArray, FloatArray
from dpcape.core.facts import PublicColumn, PublicFacts
from dpcape.estimators.fitted import require_fitted
from dpcape.estimators.reported import CENSORING
from dpcape.estimators.survival.event_release import OfEvents
from dpcape.estimators.survival.hazard_rounds import Round, further_of
from dpcape.estimators.survival.hazards import LEAST_GRAIN, Baseline, Standard, baseline_of, limit_of, standard_of
from dpcape.federation.allowance import Allowance
from dpcape.federation.federation import Federation
from dpcape.postprocessing.normal import normal_quantile
from dpcape.postprocessing.verdicts import of_coefficients
from dpcape.results import LOG, SAMPLING_AND_NOISE, Estimates, Result, Section
from dpcape.statistics.cells import CATEGORY, decoding_of_times
from dpcape.statistics.event_counts import event_counts
from dpcape.statistics.followed_columns import ColumnMeans, FollowedColumns
from dpcape.statistics.hazard_scores import DIAMETER, HazardMeans, HazardScores

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Cox(OfEvents):
    """Hazard ratios of columns of a table: Cox regression of a time to an event on pooled data.

    Parameters
    ----------
    columns : str or sequence of str
        Columns whose hazard ratios are estimated together: numbers, and categories, whose first level is the one that
        others are compared with. Name the site among them if hazards may differ between sites.
    epsilon : float or mapping
        Privacy parameter epsilon of the whole fit: one number for all sites, or one per site.
    delta : float or mapping
        Privacy parameter delta, for all sites or per site; far below one over the number of records.
    event : str or None
        Name of the time to an event; None if the table has only one.
    horizon : float or None
        Time at which follow-up ends; None for the end of the public range.
    confidence : float
        Probability with which each interval contains its figure.

    Attributes
    ----------
    names_ : array of shape (P,)
        What each coefficient is about: a number, or a level against the first one.
    coef_, interval_, standard_errors_ : array of shape (P,), (2, P) and (P,)
        Log hazard ratios per unit of a number, or of a level against the first one.
    hazard_ratio_, hazard_ratio_interval_ : array of shape (P,) and (2, P)
        The same as ratios.
    p_values_ : array of shape (P,)
        Two-sided p-values.
    sd_ : array of shape (P,)
        Standard deviations of the numbers, as released; 1 for levels.
    n_complete_ : float
        Number of complete records, as released.
    event_share_ : float
        Share of records with an event up to the horizon, as released.
    noise_part_ : float
        Part of the variance of the estimates that is noise of privacy, on average; NaN where nothing is known.

    Privacy
    -------
    Five releases. ``event_counts``: events and other ends of follow-up over time, diameter 1. ``followed_columns``:
    means and squares of the columns, diameter 2 times the square root of their number. Three times ``hazard_scores``:
    events less expected events, times the columns, and their curvature, diameter 2.23 whatever hazards and
    coefficients were sent. The last one gets 73% of mu^2.

    Notes
    -----
    The model is piecewise exponential in up to 24 bins of about equal numbers of events, with exact times inside.
    Standard errors include what bins do not resolve: 1% of a coefficient, and more where many events share a time.
    Follow-up of a record ends by design once a public number of events is expected of it: that bounds scores without
    bias, as rows that are shortened in the score, and not in the hazard, do. Standard errors hold if hazards
    are proportional.

    Edge cases
    ----------
    =====================================  ====================================================================
    record with a missing value            left out, if it is in a column that is used
    event at the end of the range          follow-up that ends there: a time beyond the range is moved to it
    noise hides the curvature              nothing is known: intervals are infinite and p-values 1
    a site is lost                         estimates for the sites that finished
    sites with weights                     refused: every record counts once
    =====================================  ====================================================================

    References
    ----------
    D. R. Cox, *Regression models and life-tables*, 1972. M. Friedman, *Piecewise exponential models for survival data
    with covariates*, 1982.

    Examples
    --------
    >>> import numpy as np
    >>> from dpcape import Cox, Federation, Independent, in_process, table
    >>> source = np.random.default_rng(0)
    >>> arm = source.choice(np.array(["usual", "new"], dtype=object), 20000)
    >>> age = source.normal(60, 10, 20000)
    >>> days = source.exponential(900 * np.exp(-0.03 * (age - 60) + 0.7 * (arm == "new")))
    >>> seen = {"days": np.minimum(days, 1000), "died": (days < 1000).astype(int), "arm": arm, "age": age}
    >>> survival = {"time": "days", "event": "died", "range": [0, 1000]}
    >>> columns = {"survival": survival, "arm": ["usual", "new"], "age": (20, 100)}
    >>> federation = Federation(in_process({"lyon": table(seen, columns=columns)}), protocol=Independent())
    >>> model = Cox(["age", "arm"], epsilon=2.0, delta=1e-6).fit(federation)
    >>> list(map(str, model.names_)), bool(abs(model.hazard_ratio_[1] - np.exp(-0.7)) < 0.1)
    (['age', 'arm: new against usual'], True)
    """

    analysis: ClassVar[Analysis | None] = COX
    names_: AnyArray
    coef_: FloatArray
    interval_: FloatArray
    standard_errors_: FloatArray
    hazard_ratio_: FloatArray
    hazard_ratio_interval_: FloatArray
    p_values_: FloatArray
    sd_: FloatArray
    n_complete_: float
    event_share_: float
    noise_part_: float

    def __init__(
        self,
        columns: str | Sequence[str],
        *,
        epsilon: float | Mapping[str, float],
        delta: float | Mapping[str, float],
        event: str | None = None,
        horizon: float | None = None,
        confidence: float = 0.95,
    ) -> None:
        self.columns = columns
        self.epsilon = epsilon
        self.delta = delta
        self.event = event
        self.horizon = horizon
        self.confidence = confidence

    def _fit(self, federation: Federation, private: Allowance) -> None:
        facts = federation.facts
        event = chosen_event(facts, self.event)
        chosen = chosen_covariates(facts, event, self.columns)
        design, columns = np.array(chosen, dtype=np.int64), [facts.columns[at] for at in chosen]
        baseline = self._baseline(facts, event, private)
        statistic = FollowedColumns(facts, event, design)
        means = private.mean(statistic)
        factor, release = private.counted.divisor, private.releases[-1]
        means = ColumnMeans(means.complete * factor, means.means * factor, means.squares * factor)
        widths = [max(len(column.levels) - 1, 1) for column in columns]
        numbers = np.repeat([column.kind != CATEGORY for column in columns], widths)
        pairs = np.repeat([len(column.levels) == 2 and column.kind == CATEGORY for column in columns], widths)
        length, n_records = length_of_rows(len(numbers)), float(release.n_records)
        standard = standard_of(means, numbers, pairs, noise=release.scale, length=length)
        last = release.scale / statistic.diameter * DIAMETER * math.sqrt(SHARES[1] / SHARES[-1])
        limit = limit_of(baseline, noise=last, length=length, n_records=n_records)
        self.n_complete_, self.event_share_ = means.complete * n_records, baseline.rate
        slopes, variance = np.zeros(len(standard.sd)), 0.0
        rounds: list[Round] = []
        steps: list[FloatArray] = []
        for number in range(len(SHARES) - 2):
            typical = baseline.of_usual_record(variance)
            scores = HazardScores(
                facts,
                event,
                design,
                centre=standard.centre,
                scale=standard.unit * length,
                coefficients=slopes,
                edges=typical.edges,
                hazards=typical.hazards,
                trend=typical.trend,
                limit=limit,
            )
            this_round = _round(scores, private, limit, typical, standard.sd / (standard.unit * length))
            # Level and trend of hazards follow from the coefficients in every round.
            step = this_round.step(last=number == len(SHARES) - 3)
            slopes = slopes + step[2:]
            variance = this_round.variance_of(slopes)
            rounds.append(this_round)
            steps.append(step)
        spread = this_round.covariance(step, further_of(rounds[-2:], steps[-2:]))
        self._tabulate(columns, standard, length, slopes, spread, typical.grain)

    def _baseline(self, facts: PublicFacts, event: int, private: Allowance) -> Baseline:
        """Make the first release and return the hazard of all records together."""
        high = facts.columns[[column.name for column in facts.columns].index(facts.events[event].time)].high
        horizon = horizon_of(facts, event, self.horizon)
        shares = private.mean(
            event_counts(facts, event=event, by=[], horizon=horizon, n_bins=N_BINS, crowding=CROWDING)
        )
        release = private.releases[-1]
        # Tables have no invalid records: undo the division by the noisy count of valid records.
        counts = shares[0] * (release.n_records * private.counted.divisor)
        spread = float(np.linalg.norm(decoding_of_times(N_BINS)[:, 0]))
        noise = release.scale * release.n_records * spread
        return baseline_of(counts, noise=noise, horizon=horizon / high, crowding=CROWDING)

    def _tabulate(
        self,
        columns: Sequence[PublicColumn],
        standard: Standard,
        length: float,
        slopes: FloatArray,
        spread: tuple[FloatArray, FloatArray],
        grain: float,
    ) -> None:
        """Set the fitted arrays: slopes of rows become log hazard ratios."""
        names, reported, units = _reported(columns, standard.sd)
        self.names_ = np.array(names, dtype=np.str_)
        per_row = reported / (standard.unit * length)
        self.coef_ = per_row @ slopes
        covariance, noise = spread
        if np.isfinite(covariance).all():
            variance = np.einsum("ij,jk,ik->i", per_row, covariance[2:, 2:], per_row)
            variance = variance + (grain**2 + LEAST_GRAIN**2) * self.coef_**2
            noise_parts = np.einsum("ij,jk,ik->i", per_row, noise[2:, 2:], per_row) / variance
            self.standard_errors_, self.noise_part_ = np.sqrt(variance), float(noise_parts.mean())
        else:
            self.standard_errors_, self.noise_part_ = np.full(len(names), np.inf), math.nan
        half_width = self.standard_errors_ * normal_quantile(self.confidence)
        self.interval_ = np.array([self.coef_ - half_width, self.coef_ + half_width])
        with np.errstate(over="ignore"):
            self.hazard_ratio_, self.hazard_ratio_interval_ = np.exp(self.coef_), np.exp(self.interval_)
        self.p_values_ = 2 * ndtr(-np.abs(self.coef_) / self.standard_errors_)
        self.sd_ = units
        labels = [f"hazard ratio of {name}" for name in names]
        self.verdicts_ = of_coefficients(labels, *self.hazard_ratio_interval_, none=1)

    def _result(self) -> Result:
        events = f"{100 * self.event_share_:.3g}% of the records have their event."
        known = f"Noise of privacy is {100 * self.noise_part_:.0f}% of the variance."
        if math.isnan(self.noise_part_):
            known = "Noise of privacy hides how much the records tell: nothing is known."
        ratios = Estimates(
            quantity="hazard ratio",
            estimand="ratio of hazards per unit of a number, or of a level against the first one, with the other "
            "columns held fixed; numbers outside their public range are moved to its nearer end",
            names=self.names_.tolist(),
            value=self.hazard_ratio_,
            low=self.hazard_ratio_interval_[0],
            high=self.hazard_ratio_interval_[1],
            standard_error=self.standard_errors_,
            scale=LOG,
            p_value=self.p_values_,
            confidence=self.confidence,
            covers=f"{SAMPLING_AND_NOISE}, and what bins of time do not resolve",
            n=self.n_complete_,
        )
        section = Section(title="Hazard ratios", estimates=(ratios,), charts=(self._forest(),), notes=(events, known))
        return Result((section,), ("hazards are proportional", CENSORING))

    def _forest(self) -> Forest:
        listed = "; ".join(f"{name}: {ratio:.3g}" for name, ratio in zip(self.names_, self.hazard_ratio_, strict=True))
        values = self.coef_ * self.sd_
        return Forest(
            values=values,
            interval=drawable(self.interval_ * self.sd_, values, 1.0),
            names=[str(name) for name in self.names_],
            label=f"hazard ratio (numbers: per SD), with {100 * self.confidence:g}% interval",
            is_log=True,
            alt=f"Forest plot of hazard ratios: {listed}.",
            caption="Hazard ratios, of numbers per standard deviation; to the right of the line hazards are higher.",
        )

    def plot_ratios(self, ax: Axes | None = None, *, largest: int = 30) -> Axes:
        """Draw hazard ratios with their intervals (forest plot): of numbers per standard deviation."""
        from dpcape.report.drawing import draw

        require_fitted(self)
        return draw(self._forest(), ax, largest=largest)


def _round(statistic: HazardScores, private: Allowance, limit: float, baseline: Baseline, spread: FloatArray) -> Round:
    """Make the release of one round."""
    means = private.mean(statistic)
    release, factor = private.releases[-1], private.counted.divisor
    means = HazardMeans(means.scores * factor, means.curvature * factor)
    return Round(means, limit, release.scale, float(release.n_records), baseline, spread)


def _reported(columns: Sequence[PublicColumn], sd: FloatArray) -> tuple[list[str], FloatArray, FloatArray]:
    """Return what is reported of a design: names, combinations of coded slopes, and standard deviations of numbers.

    Of more than two levels, all but the last have a column of the design; they are reported against the first level.
    """
    names: list[str] = []
    blocks: list[FloatArray] = []
    units: list[float] = []
    at = 0
    for column in columns:
        if column.kind != CATEGORY:
            half_range = (column.high - column.low) / 2
            names.append(column.name)
            blocks.append(np.array([[1 / half_range]]))
            units.append(float(sd[at]) * half_range)
        else:
            first, *others = column.levels
            names += [f"{column.name}: {level} against {first}" for level in others]
            # Combinations of coded slopes that compare all levels with the first.
            coded = np.eye(len(column.levels))[:, :-1]
            blocks.append(np.array([[2.0]]) if len(others) == 1 else coded[1:] - coded[0])
            units += [1.0] * len(others)
        at += blocks[-1].shape[1]
    return names, block_diag(*blocks), np.array(units)
