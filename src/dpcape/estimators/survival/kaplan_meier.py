"""Survival curves by group, with intervals, medians and numbers at risk."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dpcape.analyses.description import Analysis
from dpcape.analyses.survival import KAPLAN_MEIER
from dpcape.charts import Curves
from dpcape.core.arrays import AnyArray, BoolArray, FloatArray
from dpcape.estimators.fitted import require_fitted
from dpcape.estimators.reported import CENSORING
from dpcape.estimators.summary_figures import group_names
from dpcape.estimators.survival.curves import Curve, curve_of, median_of
from dpcape.estimators.survival.event_release import OfEvents
from dpcape.estimators.survival.log_rank import DIFFERENCE, groups_compared
from dpcape.estimators.survival.tables import at_risk_rows, curve_rows, drawn_groups, shown_times, tested_section
from dpcape.estimators.table_one import ALL
from dpcape.federation.allowance import Allowance
from dpcape.federation.federation import Federation
from dpcape.postprocessing.group_summaries import Level, size_interval
from dpcape.postprocessing.verdicts import Verdict, of_ranges, of_tests
from dpcape.results import NOISE_ALONE, SAMPLING_AND_NOISE, Estimates, Result, Section
from dpcape.tables import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COVERED = f"{SAMPLING_AND_NOISE}, and where within a bin of time follow-up ended"


class KaplanMeier(OfEvents):
    """Survival curves of a time to an event, overall and by group: the Kaplan-Meier estimator on pooled data.

    Parameters
    ----------
    epsilon : float or mapping
        Privacy parameter epsilon of the whole fit: one number for all sites, or one per site.
    delta : float or mapping
        Privacy parameter delta, for all sites or per site; far below one over the number of records.
    event : str or None
        Name of the time to an event; None if the table has only one.
    by : str, sequence of str or None
        Columns with public levels whose combinations form the groups. Groups cost no noise in totals; the curve of a
        group has noise in inverse proportion to its size.
    bins : int or None
        Equal bins of time, at whose ends the curves are known; None for 8 to 256, the more the less noise there is.
    horizon : float or None
        Time at which curves end; None for the end of the public range. Noise is largest where few are left at risk, so
        choose a horizon at which enough are.
    confidence : float
        Probability with which the interval at any one time, or of a median, contains its figure.

    Attributes
    ----------
    times_ : array of shape (times,)
        Zero and the ends of the bins.
    groups_ : array of shape (groups,)
        "all" and the groups, "missing" among them.
    complete_ : array of shape (groups,)
        Whether a group is one of public levels, with nothing missing.
    survival_ : array of shape (times, groups)
        Shares without the event.
    interval_ : array of shape (2, times, groups)
        Lower and upper ends of their intervals.
    at_risk_ : array of shape (times, groups)
        Numbers of records at risk after each time, with noise.
    at_risk_interval_ : array of shape (2, times, groups)
        Lower and upper ends of their intervals.
    survival_noise_scale_, at_risk_noise_scale_ : array of shape (times, groups)
        Standard deviations of the noise of privacy in both, to first order for shares; NaN where noise hides the number
        at risk.
    median_ : array of shape (groups,)
        Times by which half have their event; infinite if not reached.
    median_interval_ : array of shape (2, groups)
        Lower and upper ends of their intervals.
    log_rank_ : array of shape (3,)
        Statistic, degrees of freedom and p-value of the log-rank test; NaN if there are no two groups.

    Privacy
    -------
    One release of ``event_counts``: numbers of records with an event, or another end of follow-up, in each bin, by
    group. Its diameter is that of one count, whatever the groups and bins are. Group sizes, and which times are
    missing, are private and released with this noise. The rest is post-processing.

    Notes
    -----
    Intervals are about the population that the records are a sample of, if leaving follow-up tells nothing about the
    time of the event. They cover noise, sampling, and where in a bin records leave follow-up, which is not released;
    more bins make that part smaller. They hold at one time at a time.

    Edge cases
    ----------
    ===================================  ==============================================================
    time or event missing                left out
    record whose group is missing        in the group "missing", and in "all"
    event at the end of the range        follow-up that ends there: a time beyond the range is moved to it
    few at risk, hidden by noise         from there on the interval reaches from 0 to the last upper end
    a site is lost                       curves of the sites that finished
    sites with weights                   refused: counts would not be counts
    ===================================  ==============================================================

    References
    ----------
    E. L. Kaplan and P. Meier, *Nonparametric estimation from incomplete observations*, 1958. H. Fichtenberger,
    M. Henzinger and J. Upadhyay, *Constant matters: fine-grained error bound on differentially private continual
    observation*, 2023 (the encoding of cumulative counts).

    Examples
    --------
    >>> import numpy as np
    >>> from dpcape import Federation, Independent, KaplanMeier, in_process, table
    >>> days = np.random.default_rng(0).exponential(700, 6000)
    >>> seen = {"days": np.minimum(days, 1000), "died": (days < 1000).astype(int)}
    >>> columns = {"survival": {"time": "days", "event": "died", "range": [0, 1000]}}
    >>> federation = Federation(in_process({"lyon": table(seen, columns=columns)}), protocol=Independent())
    >>> model = KaplanMeier(epsilon=2.0, delta=1e-6).fit(federation)
    >>> bool(abs(model.at(500)[0] - np.exp(-500 / 700)) < 0.05)
    True
    """

    analysis: ClassVar[Analysis | None] = KAPLAN_MEIER
    times_: FloatArray
    groups_: AnyArray
    complete_: BoolArray
    survival_: FloatArray
    interval_: FloatArray
    at_risk_: FloatArray
    at_risk_interval_: FloatArray
    survival_noise_scale_: FloatArray
    at_risk_noise_scale_: FloatArray
    median_: FloatArray
    median_interval_: FloatArray
    log_rank_: FloatArray
    time_: str

    def __init__(
        self,
        *,
        epsilon: float | Mapping[str, float],
        delta: float | Mapping[str, float],
        event: str | None = None,
        by: str | Sequence[str] | None = None,
        bins: int | None = None,
        horizon: float | None = None,
        confidence: float = 0.95,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.event = event
        self.by = by
        self.bins = bins
        self.horizon = horizon
        self.confidence = confidence

    def _fit(self, federation: Federation, private: Allowance) -> None:
        released = self._released(federation, private)
        level = Level(self.confidence)
        named = group_names(released.by) if released.by else {}
        self.groups_ = np.array([ALL, *named], dtype=np.str_)
        self.complete_ = np.array([True, *named.values()])
        self.times_ = released.times
        counts = [released.agreed.total[0], *(released.agreed.groups[0] if named else ())]
        sizes = [entry.present.of(np.ones(len(entry.counts) - 1)) for entry in counts]
        self._set_curves([curve_of(entry, level) for entry in counts], sizes, level, released.n_records)
        self.log_rank_ = np.full(3, math.nan)
        if self.complete_[1:].sum() > 1:
            test = groups_compared(released)[1]
            self.log_rank_ = np.array([test.statistic, test.freedom, test.p_value])
        self.verdicts_ = self._verdicts()

    def _set_curves(
        self, curves: Sequence[Curve], sizes: Sequence[tuple[float, float]], level: Level, n_records: float
    ) -> None:
        """Set the fitted arrays of curves, beginning at time zero."""
        self.survival_ = np.column_stack([np.append(1.0, curve.survival) for curve in curves])
        ends = [(np.append(1.0, curve.low), np.append(1.0, curve.high)) for curve in curves]
        self.interval_ = np.moveaxis(np.array(ends), 0, 2)
        at_risk = [
            (np.append(max(size, 0.0), curve.at_risk), np.append(math.sqrt(max(variance, 0.0)), curve.at_risk_scale))
            for curve, (size, variance) in zip(curves, sizes, strict=True)
        ]
        self.survival_noise_scale_ = np.column_stack([np.append(0.0, curve.noise_scale) for curve in curves])
        self.at_risk_noise_scale_ = np.column_stack([scales for _, scales in at_risk])
        self.at_risk_ = np.column_stack([np.minimum(numbers, n_records) for numbers, _ in at_risk])
        self.at_risk_interval_ = np.moveaxis(
            np.array(
                [
                    [size_interval(number, scale**2, level, n_records) for number, scale in zip(*entry, strict=True)]
                    for entry in at_risk
                ]
            ),
            (0, 1, 2),
            (2, 1, 0),
        )
        medians = [median_of(curve, self.times_) for curve in curves]
        self.median_ = np.array([median for median, _ in medians])
        self.median_interval_ = np.array([interval for _, interval in medians]).T

    def _verdicts(self) -> list[Verdict]:
        """Judge the curves of complete groups at half the horizon and at the horizon, and their difference."""
        names, halves = [], []
        for at in (len(self.times_) // 2, len(self.times_) - 1):
            for group in np.flatnonzero(self.complete_):
                whose = f" ({self.groups_[group]})" if len(self.groups_) > 1 else ""
                names.append(f"survival at {self.times_[at]:.4g}{whose}")
                halves.append(float(np.diff(self.interval_[:, at, group])[0]) / 2)
        judged = of_ranges(names, np.array(halves), np.full(len(names), 0.5), clipped=np.zeros(len(names)))
        if math.isnan(self.log_rank_[2]):
            return judged
        return [*judged, *of_tests([DIFFERENCE], [float(self.log_rank_[2])])]

    def at(self, time: float, *, group: str = ALL) -> tuple[float, tuple[float, float]]:
        """Return the share without the event at a time, and its interval.

        Between the ends of bins the curve is drawn straight, and the interval is that of both ends together.

        Parameters
        ----------
        time : float
            From zero to the horizon.
        group : str
            Name of a group.
        """
        require_fitted(self)
        matches = np.flatnonzero(self.groups_ == group)
        if not len(matches) or not 0 <= time <= self.times_[-1]:
            raise KeyError(f"no curve of group {group!r} at {time}; groups_ and times_ list all of them")
        column = int(matches[0])
        value = float(np.interp(time, self.times_, self.survival_[:, column]))
        after = int(np.searchsorted(self.times_, time - 1e-9 * self.times_[-1]))
        before = after if math.isclose(time, self.times_[after], abs_tol=1e-9 * self.times_[-1]) else after - 1
        return value, (float(self.interval_[0, after, column]), float(self.interval_[1, before, column]))

    def _result(self) -> Result:
        times, level = shown_times(self), f"{100 * self.confidence:g}%"
        curves = Section(
            title="Survival",
            estimates=tuple(part for at in range(len(self.groups_)) for part in self._of_group(at)),
            tables=(
                Table(*curve_rows(self, times), f"Shares without the event, with {level} intervals."),
                Table(*at_risk_rows(self, times), "Numbers at risk, with noise."),
            ),
            charts=(self._curves(),),
            notes=("Intervals hold at one time at a time: a curve leaves its band somewhere more often than that.",),
        )
        if math.isnan(self.log_rank_[2]):
            return Result((curves,), (CENSORING,))
        statistic, freedom, p_value = map(float, self.log_rank_)
        return Result((curves, tested_section(statistic, freedom, p_value)), (CENSORING,))

    def _of_group(self, at: int) -> Iterator[Estimates]:
        """Yield the figures of one group: shares, numbers at risk and the median."""
        group, times = str(self.groups_[at]), [f"{time:.10g}" for time in self.times_]
        yield Estimates(
            quantity="survival",
            estimand="share without the event at the time (Kaplan-Meier), in the population that these records are a "
            "sample of",
            parts=times,
            groups=group,
            value=self.survival_[:, at],
            low=self.interval_[0, :, at],
            high=self.interval_[1, :, at],
            noise=self.survival_noise_scale_[:, at],
            confidence=self.confidence,
            covers=_COVERED,
        )
        yield Estimates(
            quantity="at risk",
            estimand="number of these records at risk after the time",
            parts=times,
            groups=group,
            value=self.at_risk_[:, at],
            low=self.at_risk_interval_[0, :, at],
            high=self.at_risk_interval_[1, :, at],
            noise=self.at_risk_noise_scale_[:, at],
            confidence=self.confidence,
            covers=NOISE_ALONE,
        )
        yield Estimates(
            quantity="median",
            estimand="time by which half of that population have their event; infinite if not reached by the horizon",
            groups=group,
            value=self.median_[at],
            low=self.median_interval_[0, at],
            high=self.median_interval_[1, at],
            unit=self.unit_of(str(self.time_)),
            confidence=self.confidence,
            covers=_COVERED,
        )

    def _curves(self) -> Curves:
        groups = drawn_groups(self)
        listed = "; ".join(
            f"{name}: {100 * share:.0f}%" for name, share in zip(self.groups_, self.survival_[-1], strict=True)
        )
        return Curves(
            times=self.times_,
            groups=[str(self.groups_[at]) for at in groups],
            values=self.survival_[:, groups],
            interval=self.interval_[:, :, groups],
            at_risk=self.at_risk_[:, groups],
            shown=shown_times(self)[::2].tolist(),
            alt=f"Survival curves with bands; shares without the event at {self.times_[-1]:.4g}: {listed}.",
            caption="Shares without the event, with numbers at risk below.",
        )

    def plot_curves(self, ax: Axes | None = None) -> Axes:
        """Draw the curves of all complete groups with their intervals, and the numbers at risk below them."""
        from dpcape.report.drawing import draw

        require_fitted(self)
        return draw(self._curves(), ax)
