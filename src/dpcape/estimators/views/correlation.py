"""Correlations of all pairs of columns of rows spread over sites, with intervals and tests."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dpcape.analyses.correlation import CORRELATION as DESCRIPTION
from dpcape.analyses.correlation import TABLE, correlated_columns, public_rows
from dpcape.analyses.description import Analysis, Public
from dpcape.charts import Matrix
from dpcape.core.arrays import AnyArray, BoolArray, IntArray
from dpcape.core.errors import InvalidParameter, UtilityWarning
from dpcape.core.facts import PublicFacts
from dpcape.estimators.estimator import refuse_weights
from dpcape.estimators.fitted import require_fitted
from dpcape.estimators.row_source import RowSource, TableSource
from dpcape.estimators.views.correlation_tests import correlations_of, holm
from dpcape.estimators.views.multiview import MultiviewEstimator
from dpcape.federation.allowance import Allowance
from dpcape.federation.federation import Federation
from dpcape.postprocessing.verdicts import at_most_uncertain, of_correlations
from dpcape.results import LARGEST, SHOWN, Estimates, Result, Section
from dpcape.statistics.clipped_means import most_clipped
from dpcape.tables import Table, interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Median standard error due to noise from which a matrix is reported as uninformative.
_USELESS = 0.2
_CLIPPED = "rows may have been clipped to their bound, which makes unrelated columns correlate; give ranges instead"


class Correlation(MultiviewEstimator):
    """Pearson correlations of all pairs of columns over the records of all sites: of rows, or of a table.

    Parameters
    ----------
    epsilon : float or mapping
        Privacy parameter epsilon of the whole fit: one number for all sites, or one per site.
    delta : float or mapping
        Privacy parameter delta, for all sites or per site; far below one over the number of records.
    columns : sequence of str or None
        Columns of a table; None for all numbers and dates. A category of two levels is 1 for the second; one of more
        levels is a column for each, 1 for the records of that level. None for records that are not a table.
    confidence : float
        Confidence level of each interval.
    scale : str
        With "private" the typical deviation of each column is released, and columns are divided by it, so that none
        drowns in the noise that others need. "none" leaves columns as they are, for columns of similar spread.

    Attributes
    ----------
    correlations_ : array of shape (n_features, n_features)
        Correlations; 0 where nothing is known.
    interval_ : array of shape (2, n_features, n_features)
        Lower and upper ends, each at the confidence level; -1 and 1 where nothing is known.
    standard_errors_ : array of shape (n_features, n_features)
        Standard errors, of noise and sampling together; infinite where nothing is known.
    correlation_noise_scale_ : array of shape (n_features, n_features)
        Standard deviations of the noise of privacy alone, to first order; NaN where nothing is known.
    p_values_ : array of shape (n_features, n_features)
        For each pair, how often columns without correlation would give one as large; NaN for levels of one category.
    adjusted_p_values_ : array of shape (n_features, n_features)
        The same, adjusted for the number of pairs (Holm): of those at most 0.05, any is wrong in at most 5% of studies.
    mean_ : array of shape (n_features,)
        Private mean; of a table in original units, and of a level the share of complete records that have it.
    columns_ : array of shape (n_features,)
        What the rows and columns of the matrix are, such as "age" and "stage: II"; numbers if columns have no names.
    complete_share_ : float
        Share of the records that these correlations are of, as released: of a table, those without a missing value in
        these columns; of rows, those that can be read.
    noise_scale_ : float
        Standard deviation of the noise on the diagonal of the released moment of standardised rows.

    Privacy
    -------
    Four releases: the mean (diameter 2 B), absolute deviations of all columns (sqrt(D)), a histogram of the lengths of
    standardised rows (sqrt(2)), and jointly the mean and second moment of these rows, divided by a radius and clipped
    to 1 (diameter 1.59 whatever was released before). With ``scale="none"`` no deviations. With so few records that
    noise would hide deviations or lengths, these are not released. Everything else is post-processing. Of a table,
    the same of its complete records, with their number, at the same diameters (B = sqrt(D) for D columns).

    Notes
    -----
    Correlations are of the rows as they were clipped: about 2% are shortened to the radius that is found. Intervals are
    wider by 0.01 on each side, more than clipping makes independent columns correlate; correlations of columns with
    very long tails, or that are 1 for few records and else 0, may differ by more from those without clipping.

    Where public ranges do not rule it out, rows were also clipped to their bound, around zero: unrelated columns whose
    means are not zero then correlate. How many were is not known, so that no pair is called determined.

    Edge cases
    ----------
    ================================  ======================================================
    noise above a column's variance   its correlations are 0, with interval [-1, 1]
    correlations above one            set to one
    one column                        a matrix of one; of a table, refused
    record with a missing value       left out, if it is in one of the columns of a table that are used
    levels of one category            nothing is tested: they exclude each other
    table at sites with weights       refused: every record counts once
    ================================  ======================================================

    Examples
    --------
    >>> import numpy as np
    >>> from dpcape import Correlation, Federation, Independent, in_process, rows
    >>> t = np.random.default_rng(0).normal(size=(20_000, 2))
    >>> X = np.column_stack([t[:, 0], t[:, 0] + t[:, 1]])
    >>> fed = Federation(in_process({"lyon": rows(X, bound=4.0)}), protocol=Independent())
    >>> Correlation(epsilon=5.0, delta=1e-6).fit(fed).correlations_.round(1)
    array([[1. , 0.7],
           [0.7, 1. ]])
    """

    analysis: ClassVar[Analysis | None] = DESCRIPTION
    columns_: AnyArray
    complete_share_: float
    center = True
    _quantile: ClassVar[float] = 0.98
    _fitted: ClassVar[tuple[str, ...]] = (
        "correlations_",
        "interval_",
        "standard_errors_",
        "correlation_noise_scale_",
        "p_values_",
        "adjusted_p_values_",
        "mean_",
        "noise_scale_",
        "columns_",
        "complete_share_",
    )

    def __init__(
        self,
        *,
        epsilon: float | Mapping[str, float],
        delta: float | Mapping[str, float],
        columns: str | Sequence[str] | None = None,
        confidence: float = 0.95,
        scale: str = "private",
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.columns = columns
        self.confidence = confidence
        self.scale = scale

    @property
    def _builder(self) -> str:  # type: ignore[override]  # depends on the columns
        return "rows(X, bound=...)" if self.columns is None else "table(data, columns={...})"

    def _shares(self, federation: Federation) -> Sequence[float]:
        if federation.facts.kind == TABLE:
            refuse_weights(federation, "for Correlation of a table")
        return super()._shares(federation)

    def _public_rows(self, federation: Federation) -> Public:
        return public_rows(self.public(federation))

    def _fit(self, federation: Federation, private: Allowance) -> None:
        facts, source = federation.facts, RowSource(federation.facts)
        if facts.kind == TABLE:
            source = TableSource(facts, correlated_columns(facts, self.columns))
        scaling, mean, moment = self._moments(federation, private, source)
        noise = self._noise(federation, private, mean, source)
        self.mean_ = scaling.rows(mean)
        self.noise_scale_ = noise.scale
        self.complete_share_ = source.share * private.counted.divisor
        labels: Sequence[str] = facts.feature_names or [str(at + 1) for at in range(len(mean))]
        groups, is_level = np.arange(len(mean)), _are_levels(facts)
        if isinstance(source, TableSource):
            self.mean_ = source.columns.original(self.mean_)
            labels, groups, is_level = source.columns.labels, source.columns.groups, ~source.columns.is_number
        shares = np.where(is_level, self.mean_, np.nan)
        estimated = correlations_of(moment - np.outer(mean, mean), noise, shares, tails=scaling.tails)
        self.correlations_, self.standard_errors_ = estimated.values, estimated.errors
        self.correlation_noise_scale_ = estimated.noise
        self.interval_ = estimated.interval(self.confidence)
        self.p_values_ = estimated.p_values()
        same = np.equal.outer(groups, groups) & ~np.eye(len(groups), dtype=bool)
        self.p_values_[same] = np.nan
        above = self._tested()
        self.adjusted_p_values_ = np.where(np.isnan(self.p_values_), np.nan, 0.0)
        self.adjusted_p_values_[above] = holm(self.p_values_[above])
        self.adjusted_p_values_[above[::-1]] = self.adjusted_p_values_[above]
        self.columns_ = np.array(labels)
        pairs, (low, high) = [f"{labels[i]} and {labels[j]}" for i, j in zip(*above, strict=True)], self.interval_
        self.verdicts_ = of_correlations(pairs, low[above], high[above], self.adjusted_p_values_[above])
        if most_clipped(source.facts) > 0:
            self.verdicts_ = at_most_uncertain(self.verdicts_, _CLIPPED)
        self._warn_if_useless(noise.record_share)

    def _tested(self) -> tuple[IntArray, IntArray]:
        """Return the pairs above the diagonal that are tested: not those of levels of one category."""
        return np.nonzero(np.triu(~np.isnan(self.p_values_), 1))  # type: ignore[return-value]  # of two dimensions

    def _warn_if_useless(self, record_share: float) -> None:
        """Warn of a matrix in which noise hides most correlations that could be there."""
        above = self._tested()
        if above[0].size and float(np.median(self.standard_errors_[above])) > max(_USELESS, 3 * record_share**0.5):
            warnings.warn(
                "These correlations are useless: noise moves half of them or more by over 0.2. Use more records, a "
                "larger epsilon or fewer columns.",
                UtilityWarning,
                stacklevel=4,
            )

    def between(self, first: str | int, second: str | int) -> tuple[float, float, float]:
        """Return the correlation of two columns, by name or position, and the ends of its interval."""
        require_fitted(self)
        at = self._position(first), self._position(second)
        return float(self.correlations_[at]), float(self.interval_[0][at]), float(self.interval_[1][at])

    def _position(self, column: str | int) -> int:
        labels = self._labels()
        if isinstance(column, str) and column in labels:
            return labels.index(column)
        if isinstance(column, int) and 0 <= column < len(labels):
            return column
        must = f"be one of the names of the columns, or a position from 0 to {len(labels) - 1}"
        raise InvalidParameter("A column", must, repr(column), "See feature_names_in_.")

    def _labels(self) -> list[str]:
        numbered = [str(at + 1) for at in range(len(self.correlations_))]
        return [str(name) for name in getattr(self, "columns_", getattr(self, "feature_names_in_", numbered))]

    def _result(self) -> Result:
        labels, adjusted, (low, high) = self._labels(), self.adjusted_p_values_, self.interval_
        above = self._tested()
        n_analysed = self.complete_share_ * self.releases_[-1].n_records
        pairs = Estimates(
            quantity="correlation",
            estimand="Pearson correlation of two columns in the population that these records are a sample of, of rows "
            "as they were clipped: to their bound and, unless there are few records, to a released radius that about "
            "2% exceed",
            value=self.correlations_[above],
            low=low[above],
            high=high[above],
            standard_error=self.standard_errors_[above],
            noise=self.correlation_noise_scale_[above],
            p_value=self.p_values_[above],
            adjusted=adjusted[above],
            names=[labels[at] for at in above[0]] if len(above[0]) <= LARGEST else "",
            parts=[labels[at] for at in above[1]] if len(above[1]) <= LARGEST else "",
            confidence=self.confidence,
            n=n_analysed,
        )
        order = sorted(range(len(pairs)), key=lambda at: (adjusted[above][at], -abs(self.correlations_[above][at])))
        rows = [
            [
                f"{labels[above[0][at]]} and {labels[above[1][at]]}",
                f"{self.correlations_[above][at]:.2f}",
                interval(float(low[above][at]), float(high[above][at]), decimals=2),
                f"{adjusted[above][at]:.3g}",
            ]
            for at in order[:SHOWN]
        ]
        notes = [
            "P-values are adjusted for the number of pairs (Holm); intervals are not, and are wider by 0.01 on each "
            "side for what clipping does."
        ]
        if self.complete_share_ < 1:
            share = f"{100 * self.complete_share_:.3g}% of the records, as released"
            notes.append(f"They are of {share}: those without a missing value in a column.")
        if len(order) > len(rows):
            notes.append(f"The first {len(rows)} of {len(order)} pairs are listed.")
        header = ["columns", "correlation", f"{100 * self.confidence:g}% interval", "adjusted p-value"]
        tables, charts = (Table(header, rows),), (self._matrix(),)
        section = Section(title="Correlations", estimates=(pairs,), tables=tables, charts=charts, notes=tuple(notes))
        return Result((section,))

    def _matrix(self) -> Matrix:
        return Matrix(
            values=self.correlations_,
            p_values=self.adjusted_p_values_,
            names=self._labels(),
            alt=f"Heat map of the correlations of {len(self.correlations_)} columns.",
            caption="Red is positive, blue negative. A dot marks a pair whose adjusted p-value is at most 0.05.",
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the correlations as a heat map; dots mark pairs that are determined."""
        from dpcape.report.drawing import draw

        require_fitted(self)
        return draw(self._matrix(), ax)


def _are_levels(facts: PublicFacts) -> BoolArray:
    """Return which columns of rows are levels of a category by their schema: 1 for a level and else 0."""
    if len(facts.ranges) != facts.n_features:
        return np.zeros(facts.n_features, dtype=np.bool_)
    return np.array([entry.least == 0 for entry in facts.ranges])
