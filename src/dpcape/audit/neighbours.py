"""Search for the two units that are easiest to distinguish.

Totals are compared, not single contributions: a statistic that lets one record change what others contribute is found.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpcape.audit.cases import Case
from dpcape.audit.recorded_run import RecordedRun
from dpcape.core.arrays import FloatArray
from dpcape.core.enclosed import IN_THIS_PROCESS
from dpcape.core.totals import released_total
from dpcape.site.pair_search import Effort, farthest_pair

# Records of the victim's site besides the one that varies, in the search; the attack itself uses all of them.
_BACKGROUND = 2


@dataclass(frozen=True)
class Neighbours:
    """A unit, the unit that replaces it, and their distance.

    Attributes
    ----------
    first : array of shape (n_numbers,)
        Numbers of the unit.
    second : array of shape (n_numbers,)
        Numbers of the unit that replaces it.
    reached : float
        Share of the allowed mu that the pair uses; 1 if it attains the stated diameter in every release.
    """

    first: FloatArray
    second: FloatArray
    reached: float


def worst_pair(
    case: Case, transcript: RecordedRun, *, seed: int, effort: Effort | None = None, background: int = _BACKGROUND
) -> Neighbours:
    """Search for the pair whose exchange moves the victim's totals, over all releases together, most.

    Parameters
    ----------
    effort : Effort or None
        How long to search.
    background : int
        Records of the victim's site besides the one that varies.
    """
    pair, reached = farthest_pair(
        _totals(case, transcript, background), case.n_numbers, seed=seed, effort=Effort() if effort is None else effort
    )
    return Neighbours(pair[0], pair[1], reached)


def _totals(case: Case, transcript: RecordedRun, background: int) -> Callable[[FloatArray], FloatArray]:
    """Return the victim's totals as a function of one unit, scaled so that length is the part of mu that it uses."""
    mus = np.array([request.plan.mus[case.victim] for request in transcript.requests])
    weights = mus / np.linalg.norm(mus) / np.array([statistic.diameter for statistic in transcript.statistics])
    others = case.numbers(0)[case.victim][1 : 1 + background]

    def totals(unit: FloatArray) -> FloatArray:
        records = case.records(np.vstack([unit, others]))
        return np.concatenate(
            [
                weight * released_total(statistic, records, IN_THIS_PROCESS)
                for weight, statistic in zip(weights, transcript.statistics, strict=True)
            ]
        )

    return totals
