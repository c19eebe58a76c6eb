"""Summaries of typed columns by group: what papers print as Table 1."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from dpcape.analyses.description import Analysis
from dpcape.analyses.summary import QUARTILES, SUMMARY, checked_quantiles, chosen_columns, n_bins_of, weights_of
from dpcape.core.arrays import AnyArray, BoolArray, FloatArray
from dpcape.core.facts import PublicColumn
from dpcape.estimators.estimator import FederatedEstimator
from dpcape.estimators.fitted import require_fitted
from dpcape.estimators.summary_figures import (
    Sized,
    cell_names,
    drawn_counts,
    figures_of,
    group_names,
    range_of,
    row_of_sizes,
    side_by_side,
    unit_covariance,
)
from dpcape.estimators.table_one import (
    ALL,
    COUNTED,
    ESTIMANDS,
    FLAG,
    FLAGGED,
    IN_UNITS,
    QUANTILE,
    SHARE,
    as_text_array,
    compact_rows,
    interval_rows,
    is_date,
)
from dpcape.federation.allowance import Allowance
from dpcape.federation.federation import Federation
from dpcape.postprocessing.group_summaries import Level, Pooled, pooled
from dpcape.postprocessing.verdicts import Verdict, of_ranges
from dpcape.results import NOISE_ALONE, SAMPLING_AND_NOISE, Estimates, Result, Section
from dpcape.statistics.cells import CATEGORY
from dpcape.statistics.grouped_counts import grouped_counts
from dpcape.tables import Table


class Summary(FederatedEstimator):
    """Counts, shares, quantiles, means and standard deviations of typed columns, overall and by group (Table 1).

    Parameters
    ----------
    epsilon : float or mapping
        Privacy parameter epsilon of the whole fit: one number for all sites, or one per site.
    delta : float or mapping
        Privacy parameter delta, for all sites or per site; far below one over the number of records.
    by : str, sequence of str or None
        Columns with public levels whose combinations form the groups. Groups cost no noise in totals; the figures of a
        group have noise in inverse proportion to its size.
    columns : sequence of str or None
        Columns to summarise; None for all that are not in ``by``. The noise grows with the square root of their number.
    quantiles : sequence of float
        Quantiles of numbers and dates.
    bins : int or None
        Bins of the range of a number; None for 32 to 256, the more the less noise there is. Few bins widen the
        intervals of quantiles, many bins add a little noise: 13% for twice as many.
    weights : sequence of float or None
        One positive number per summarised column; a column of twice the weight has half the noise. None for equal ones.
    confidence : float
        Probability with which each interval contains its figure.

    Attributes
    ----------
    table_ : array of shape (rows, groups)
        The figures.
    interval_ : array of shape (2, rows, groups)
        Lower and upper ends of their intervals.
    table_noise_scale_ : array of shape (rows, groups)
        Standard deviations of the noise of privacy in them, before figures are kept within their ranges; to first order
        for shares, means and standard deviations; NaN for quantiles, and where noise hides the number of records.
    rows_ : array of shape (rows, 3)
        Variable, statistic ("records", "count", "share", "quantile", "mean" or "sd") and level of each row.
    groups_ : array of shape (groups,)
        "all" and the groups, "missing" among them.
    complete_ : array of shape (groups,)
        Whether a group is one of public levels, with nothing missing.
    histogram_ : array of shape (cells, groups)
        Counts to be drawn, not negative: of levels, and at the knots of ranges.
    cells_ : array of shape (cells, 2)
        Variable and level or knot of each cell.
    variables_ : array of shape (variables, 2)
        Name and kind of each summarised column.
    ranges_ : array of shape (variables, 2)
        Their public ranges; 0 and 1 for categories.

    Privacy
    -------
    One release of ``grouped_counts``: the number of records in each cell of every column, by group. Its diameter is the
    square root of the number of columns (with weights, their Euclidean length), whatever the groups are. Group sizes,
    and which values are missing, are private and released with this noise. The rest is post-processing.

    Notes
    -----
    A value is shared between the two knots of its range that it lies between, which keeps the mean; cumulative counts
    are encoded so that their noise grows with the logarithm of the number of bins (``dpcape.statistics.cells``).
    Sizes of groups are pooled over all columns, and add up to the public number of records. Intervals of counts are
    about the records of these sites; those of shares, means, standard deviations and quantiles are about the population
    they are a sample of, and cover noise and sampling. They are about values within the public ranges.

    Edge cases
    ----------
    =================================  ==========================================================
    missing value                      counted as such; left out of shares, means and quantiles
    record whose group is missing      in the group "missing", and in "all"
    group that noise hides             intervals reach from one end of the range to the other
    value held by many records         intervals of quantiles hold for every distribution
    a site is lost                     table of the sites that finished
    sites with weights                 refused: counts would not be counts
    =================================  ==========================================================

    References
    ----------
    H. Fichtenberger, M. Henzinger and J. Upadhyay, *Constant matters: fine-grained error bound on differentially
    private continual observation*, 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from dpcape import Federation, Independent, Summary, in_process, table
    >>> people = {"age": np.linspace(20, 60, 8000), "arm": np.array(["new", "old"] * 4000, dtype=object)}
    >>> records = table(people, columns={"age": (0, 100), "arm": ["new", "old"]})
    >>> federation = Federation(in_process({"lyon": records}), protocol=Independent())
    >>> model = Summary(by="arm", epsilon=5.0, delta=1e-6).fit(federation)
    >>> model.groups_.tolist()
    ['all', 'new', 'old', 'missing']
    >>> bool(abs(model.figure("age", "quantile", "0.5", group="new") - 40) < 1)
    True
    """

    analysis: ClassVar[Analysis | None] = SUMMARY
    _builder: ClassVar[str] = "table(data, columns={...})"
    _takes_weights = False
    table_: FloatArray
    interval_: FloatArray
    table_noise_scale_: FloatArray
    rows_: AnyArray
    groups_: AnyArray
    complete_: BoolArray
    histogram_: FloatArray
    cells_: AnyArray
    variables_: AnyArray
    ranges_: FloatArray

    def __init__(
        self,
        *,
        epsilon: float | Mapping[str, float],
        delta: float | Mapping[str, float],
        by: str | Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        quantiles: Sequence[float] = QUARTILES,
        bins: int | None = None,
        weights: Sequence[float] | None = None,
        confidence: float = 0.95,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.by = by
        self.columns = columns
        self.quantiles = quantiles
        self.bins = bins
        self.weights = weights
        self.confidence = confidence

    def _fit(self, federation: Federation, private: Allowance) -> None:
        facts = federation.facts
        chosen, groups = chosen_columns(facts, self.by, self.columns)
        weights = weights_of(self.weights, len(chosen))
        known = self.public(federation)
        bins = int(n_bins_of(self.bins, known.n_records, known.mu, math.hypot(*weights)))
        statistic = grouped_counts(facts, columns=chosen, by=groups, weights=weights, n_bins=bins)
        shares = private.mean(statistic)
        release = private.releases[-1]
        n_records = float(release.n_records)
        # Tables have no invalid records: undo the division by the noisy count of valid records.
        parts = [share * (n_records * private.counted.divisor) for share in shares]
        units = [
            unit_covariance(column, weight, bins) for column, weight in zip(statistic.counted, weights, strict=True)
        ]
        counts = pooled(parts, units, n_records=n_records, scale=release.scale * n_records)
        level = Level(self.confidence)
        self._tabulate(statistic.counted, [facts.columns[at] for at in groups], counts, level, n_records)

    def _tabulate(
        self,
        columns: Sequence[PublicColumn],
        by: Sequence[PublicColumn],
        counts: Pooled,
        level: Level,
        n_records: float,
    ) -> None:
        """Set the fitted arrays."""
        named = group_names(by) if by else {}
        self.groups_ = np.array([ALL, *named], dtype=np.str_)
        self.complete_ = np.array([True, *named.values()])
        self.variables_ = as_text_array([[column.name, column.kind] for column in columns])
        self.ranges_ = np.array([range_of(column) for column in columns])
        quantiles = checked_quantiles(self.quantiles)
        figures = [row_of_sizes(counts, level, n_records, grouped=bool(by))]
        cells: list[tuple[str, str]] = []
        drawn: list[FloatArray] = []
        for at, column in enumerate(columns):
            per_group = [counts.total[at], *(counts.groups[at] if by else ())]
            sized = Sized(n_records, level)
            figures += side_by_side([list(figures_of(column, entry, sized, quantiles)) for entry in per_group])
            cells += [(column.name, name) for name in cell_names(column, len(per_group[0].counts))]
            drawn.append(np.column_stack([drawn_counts(column, entry) for entry in per_group]))
        self.rows_ = as_text_array([entry.key for entry in figures])
        self.table_ = np.array([entry.values for entry in figures])
        self.interval_ = np.moveaxis(np.array([entry.ends for entry in figures]), 2, 0)
        self.table_noise_scale_ = np.array([entry.noises for entry in figures])
        self.cells_ = as_text_array(cells)
        self.histogram_ = np.concatenate(drawn)
        self.verdicts_ = self._verdicts(columns)

    def _verdicts(self, columns: Sequence[PublicColumn]) -> list[Verdict]:
        """Judge the middle quantile of numbers and the shares of categories, for every group that is not missing."""
        names, halves, ranges = [], [], []
        for column, (low, high) in zip(columns, self.ranges_, strict=True):
            kind = SHARE if column.kind == CATEGORY else QUANTILE
            rows = [
                at for at, (name, statistic, _) in enumerate(self.rows_) if (name, statistic) == (column.name, kind)
            ]
            if kind == QUANTILE:
                rows = [min(rows, key=lambda at: abs(float(self.rows_[at][2]) - 0.5))]
            widths = (self.interval_[1, rows] - self.interval_[0, rows]).max(axis=0)
            what = "shares" if kind == SHARE else "median"
            for group, is_complete, width in zip(self.groups_, self.complete_, widths, strict=True):
                if is_complete:
                    whose = f" ({group})" if len(self.groups_) > 1 else ""
                    names.append(f"{what} of {column.name}{whose}")
                    halves.append(width / 2)
                    ranges.append((high - low) / 2)
        return of_ranges(names, np.array(halves), np.array(ranges), clipped=np.zeros(len(names)))

    def figure(self, variable: str, statistic: str, level: str = "", *, group: str = ALL) -> float:
        """Return one figure of the table.

        Parameters
        ----------
        variable : str
            Name of a summarised column; empty for "records".
        statistic : str
            "records", "count", "share", "quantile", "mean" or "sd".
        level : str
            Level of a category, "missing", or a quantile such as "0.5".
        group : str
            Name of a group.
        """
        row, at = self._position(variable, statistic, level, group)
        return float(self.table_[row, at])

    def interval(self, variable: str, statistic: str, level: str = "", *, group: str = ALL) -> tuple[float, float]:
        """Return the interval of one figure, with the arguments of :meth:`figure`."""
        row, at = self._position(variable, statistic, level, group)
        return float(self.interval_[0, row, at]), float(self.interval_[1, row, at])

    def _position(self, variable: str, statistic: str, level: str, group: str) -> tuple[int, int]:
        require_fitted(self)
        wanted = (variable, statistic, level)
        rows = [at for at, row in enumerate(self.rows_) if tuple(row) == wanted]
        groups = np.flatnonzero(self.groups_ == group)
        if not rows or not len(groups):
            raise KeyError(f"no figure {wanted} of group {group!r}; rows_ and groups_ list all of them")
        return rows[0], int(groups[0])

    def _result(self) -> Result:
        keys = np.repeat(self.rows_, len(self.groups_), axis=0)
        kinds = keys[:, 1].tolist()
        figures = Estimates(
            quantity=kinds,
            estimand=[ESTIMANDS[kind] for kind in kinds],
            names=keys[:, 0].tolist(),
            parts=keys[:, 2].tolist(),
            groups=self.groups_.tolist() * len(self.rows_),
            value=self.table_,
            low=self.interval_[0],
            high=self.interval_[1],
            noise=self.table_noise_scale_,
            unit=[self.unit_of(str(name)) if kind in IN_UNITS else "" for name, kind, _ in keys],
            confidence=self.confidence,
            covers=[NOISE_ALONE if kind in COUNTED else SAMPLING_AND_NOISE for kind in kinds],
            dates=[is_date(self, row) for row in range(len(self.rows_)) for _ in self.groups_],
        )
        whole = Table(*interval_rows(self), f"All figures with {100 * self.confidence:g}% intervals.")
        compact = Table(*compact_rows(self))
        flagged = (FLAGGED,) if any(FLAG in cell for row in compact.rows for cell in row) else ()
        return Result((Section(title="Table 1", estimates=(figures,), tables=(compact, whole), notes=flagged),))

    def to_text(self, *, intervals: bool = False) -> str:
        """Return the table as plain text; with ``intervals``, all figures with their intervals."""
        return self._laid_out(intervals=intervals).to_text()

    def to_markdown(self, *, intervals: bool = False) -> str:
        """Return the table as Markdown; with ``intervals``, all figures with their intervals."""
        return self._laid_out(intervals=intervals).to_markdown()

    def to_latex(self, *, intervals: bool = False) -> str:
        """Return the table as LaTeX, for the package booktabs; with ``intervals``, all figures with their intervals."""
        return self._laid_out(intervals=intervals).to_latex()

    def _laid_out(self, *, intervals: bool) -> Result:
        """Return the result with one of its two tables."""
        (section,) = self.result().sections
        compact, whole = section.tables or ()
        return Result((replace(section, tables=(whole if intervals else compact,)),))
