"""The release that survival curves and the log-rank test share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpcape.analyses.survival import chosen_event, chosen_groups, horizon_of, n_times_of
from dpcape.core.arrays import FloatArray
from dpcape.core.facts import PublicColumn
from dpcape.estimators.estimator import FederatedEstimator
from dpcape.federation.allowance import Allowance
from dpcape.federation.federation import Federation
from dpcape.postprocessing.group_summaries import CellCounts, Pooled, pooled
from dpcape.statistics.cells import decoding_of_times
from dpcape.statistics.event_counts import event_counts


@dataclass(frozen=True)
class ReleasedEvents:
    """Counts of events and of other ends of follow-up, by group.

    Attributes
    ----------
    by : tuple of PublicColumn
        Columns whose levels form the groups.
    times : (K + 1,) array
        Beginning of the first bin and ends of all bins.
    raw : tuple of CellCounts
        Counts of each group, with independent noise.
    agreed : Pooled
        Counts that add up to the public number of records.
    n_records : float
        Number of records.
    """

    by: tuple[PublicColumn, ...]
    times: FloatArray
    raw: tuple[CellCounts, ...]
    agreed: Pooled
    n_records: float


class OfEvents(FederatedEstimator):
    """Base class of analyses of times to an event by group."""

    _builder = "table(data, columns={...})"
    _takes_weights = False
    by: str | Sequence[str] | None
    event: str | None
    bins: int | None
    horizon: float | None

    def _released(self, federation: Federation, private: Allowance) -> ReleasedEvents:
        """Make the release and return its counts."""
        facts, known = federation.facts, self.public(federation)
        event = chosen_event(facts, self.event)
        self.time_ = facts.events[event].time
        groups = chosen_groups(facts, event, self.by)
        horizon = horizon_of(facts, event, self.horizon)
        bins = int(n_times_of(self.bins, known.n_records, known.mu))
        shares = private.mean(event_counts(facts, event=event, by=groups, horizon=horizon, n_bins=bins))
        release = private.releases[-1]
        n_records = float(release.n_records)
        # Tables have no invalid records: undo the division by the noisy count of valid records.
        counts = shares * (n_records * private.counted.divisor)
        decoding, scale = decoding_of_times(bins), release.scale * n_records
        unit = decoding.T @ decoding
        own = scale**2 * unit
        return ReleasedEvents(
            tuple(facts.columns[at] for at in groups),
            np.linspace(0.0, horizon, bins + 1),
            tuple(CellCounts(row, own) for row in counts),
            pooled([counts], [unit], n_records=n_records, scale=scale),
            n_records,
        )
