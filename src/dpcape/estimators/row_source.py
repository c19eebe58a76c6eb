"""Where an analysis of rows reads them: records that are rows, or complete records of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dpcape.core.arrays import FloatArray
from dpcape.core.facts import PublicFacts
from dpcape.core.statistic import PublicValue, build
from dpcape.federation.allowance import Allowance
from dpcape.statistics.complete_rows import PREFIX, OfComplete, RowColumns

# Lower bound on the share of complete records, in standard deviations of its noise.
_HIDDEN = 4.0


class RowSource:
    """Means of statistics of rows, for records that are rows.

    Parameters
    ----------
    facts : PublicFacts
        Public facts of the rows.
    """

    def __init__(self, facts: PublicFacts) -> None:
        self.facts = facts
        self.share = 1.0
        """Share of the records that the last mean is over."""

    @property
    def usual_scales(self) -> FloatArray:
        """Public scale of each column; NaN where it is estimated."""
        return np.full(self.facts.n_features, np.nan)

    def mean(self, private: Allowance, statistic: str, **public: PublicValue) -> Any:
        """Return the private mean of the statistic of this name."""
        return private.mean(build(statistic, self.facts, public))

    def noise(self, private: Allowance) -> float:
        """Return the standard deviation of the noise of the last mean."""
        return private.releases[-1].scale / self.share


class TableSource(RowSource):
    """Means of statistics of rows, for columns of a table: over complete records.

    Parameters
    ----------
    facts : PublicFacts
        Public facts of the table.
    columns : sequence of int
        Positions of the columns that become rows.
    """

    def __init__(self, facts: PublicFacts, columns: Sequence[int]) -> None:
        self.columns = RowColumns(facts, columns)
        super().__init__(self.columns.facts)
        self._table, self._positions = facts, np.array(columns, dtype=np.int64)

    @property
    def usual_scales(self) -> FloatArray:
        """Public scale of each column; NaN where it is estimated."""
        return self.columns.usual_scales

    def mean(self, private: Allowance, statistic: str, **public: PublicValue) -> Any:
        """Return the private mean of the statistic of this name over complete records."""
        of_complete = build(f"{PREFIX}{statistic}", self._table, {"columns": self._positions, **public})
        assert isinstance(of_complete, OfComplete)
        means = private.mean(of_complete)
        # Tables have no invalid records: a noisy count of valid records that both were divided by cancels in the ratio.
        noise = private.releases[-1].scale / private.counted.divisor / of_complete.weight
        self.share = min(max(means.share, _HIDDEN * noise), 1.0)
        return of_complete.mean_of(means, self.share)
