"""Log-rank test: whether groups have the same hazards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from dpcape.analyses.description import Analysis
from dpcape.analyses.survival import LOG_RANK
from dpcape.core.arrays import AnyArray, FloatArray
from dpcape.estimators.reported import CENSORING
from dpcape.estimators.summary_figures import group_names
from dpcape.estimators.survival.curves import LogRankTest, log_rank
from dpcape.estimators.survival.event_release import OfEvents, ReleasedEvents
from dpcape.estimators.survival.tables import tested_section
from dpcape.federation.allowance import Allowance
from dpcape.federation.federation import Federation
from dpcape.postprocessing.verdicts import of_tests
from dpcape.results import Estimates, Result
from dpcape.tables import Table

DIFFERENCE = "difference between groups"


class LogRank(OfEvents):
    """Log-rank test of whether groups of records have the same hazards of an event.

    Parameters
    ----------
    by : str or sequence of str
        Columns with public levels whose combinations are compared. Records with a missing level are left out.
    epsilon : float or mapping
        Privacy parameter epsilon of the whole fit: one number for all sites, or one per site.
    delta : float or mapping
        Privacy parameter delta, for all sites or per site; far below one over the number of records.
    event : str or None
        Name of the time to an event; None if the table has only one.
    bins : int or None
        Equal bins of time; None for 8 to 256, the more the less noise there is.
    horizon : float or None
        Time up to which groups are compared; None for the end of the public range.

    Attributes
    ----------
    groups_ : array of shape (groups,)
        The groups that are compared.
    observed_ : array of shape (groups,)
        Events of each group, with noise.
    expected_ : array of shape (groups,)
        How many there would be if all groups had the same hazards.
    statistic_ : float
        The test's chi^2, noise included.
    freedom_ : int
        Its degrees of freedom.
    p_values_ : float
        Probability of a larger one among groups with the same hazards.
    compared_until_ : float
        End of the last bin that was compared: before the first in which noise may hide who is at risk in a group.

    Privacy
    -------
    One release of ``event_counts``: numbers of records with an event, or another end of follow-up, in each bin, by
    group. Its diameter is that of one count, whatever the groups and bins are. The rest is post-processing.
    :class:`KaplanMeier` with ``by`` makes the same release and contains this test: do not pay for both.

    Edge cases
    ----------
    ====================================  ===========================================================
    time or event missing                 left out
    level of a group missing              left out
    group that noise hides                compared up to that time; if from the start, p = 1
    event after the horizon               counts as none
    a site is lost                        test of the sites that finished
    sites with weights                    refused: counts would not be counts
    ====================================  ===========================================================

    References
    ----------
    N. Mantel, *Evaluation of survival data and two new rank order statistics arising in its consideration*, 1966.

    Examples
    --------
    >>> import numpy as np
    >>> from dpcape import Federation, Independent, LogRank, in_process, table
    >>> source = np.random.default_rng(0)
    >>> arm = np.array(["new", "old"] * 3000, dtype=object)
    >>> days = source.exponential(np.where(arm == "new", 900, 600))
    >>> seen = {"days": np.minimum(days, 1000), "died": (days < 1000).astype(int), "arm": arm}
    >>> columns = {"survival": {"time": "days", "event": "died", "range": [0, 1000]}, "arm": ["new", "old"]}
    >>> federation = Federation(in_process({"lyon": table(seen, columns=columns)}), protocol=Independent())
    >>> model = LogRank(by="arm", epsilon=2.0, delta=1e-6).fit(federation)
    >>> bool(model.p_values_ < 0.01)
    True
    """

    analysis: ClassVar[Analysis | None] = LOG_RANK
    groups_: AnyArray
    observed_: FloatArray
    expected_: FloatArray
    statistic_: float
    freedom_: int
    p_values_: float
    compared_until_: float
    time_: str

    def __init__(
        self,
        by: str | Sequence[str],
        *,
        epsilon: float | Mapping[str, float],
        delta: float | Mapping[str, float],
        event: str | None = None,
        bins: int | None = None,
        horizon: float | None = None,
    ) -> None:
        self.by = by
        self.epsilon = epsilon
        self.delta = delta
        self.event = event
        self.bins = bins
        self.horizon = horizon

    def _fit(self, federation: Federation, private: Allowance) -> None:
        released = self._released(federation, private)
        names, test = groups_compared(released)
        self.groups_ = np.array(names, dtype=np.str_)
        self.observed_, self.expected_ = test.observed, test.expected
        self.statistic_, self.freedom_, self.p_values_ = test.statistic, test.freedom, test.p_value
        self.compared_until_ = float(released.times[test.n_bins])
        self.verdicts_ = of_tests([DIFFERENCE], [test.p_value])

    def _result(self) -> Result:
        groups = self.groups_.tolist()
        rows = [
            [name, f"{observed:.0f}", f"{expected:.0f}"]
            for name, observed, expected in zip(groups, self.observed_, self.expected_, strict=True)
        ]
        until = "the end of the last bin that was compared"
        events = (
            Estimates(
                quantity="observed events",
                estimand=f"events of the group among these records, up to {until}, with noise",
                groups=groups,
                value=self.observed_,
            ),
            Estimates(
                quantity="expected events",
                estimand="how many there would be if all groups had the same hazards",
                groups=groups,
                value=self.expected_,
            ),
        )
        test = tested_section(self.statistic_, self.freedom_, self.p_values_)
        last = Estimates(
            quantity="compared until",
            estimand=f"{until}: before the first in which noise may hide who is at risk in a group",
            value=self.compared_until_,
            unit=self.unit_of(str(self.time_)),
        )
        section = replace(
            test,
            estimates=(*events, *test.estimates, last),
            tables=(Table(["group", "events", "expected if all were the same"], rows),),
            notes=(*test.notes, f"Groups are compared up to {self.compared_until_:.5g}."),
        )
        return Result((section,), (CENSORING,))


def groups_compared(released: ReleasedEvents) -> tuple[list[str], LogRankTest]:
    """Return the groups of public levels, none missing, and the test of their difference."""
    complete = [
        (name, counts)
        for (name, is_complete), counts in zip(group_names(released.by).items(), released.raw, strict=True)
        if is_complete
    ]
    return [name for name, _ in complete], log_rank([counts for _, counts in complete])
