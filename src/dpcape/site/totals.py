"""The total of a statistic over a site's records, as a site computes it."""

from __future__ import annotations

import numpy as np

from dpcape.arrays import FloatArray
from dpcape.records.kinds import Records
from dpcape.records.one_at_a_time import one_at_a_time
from dpcape.statistics.statistic import AnyStatistic, is_own


def released_total(statistic: AnyStatistic, records: Records) -> FloatArray:
    """Return what leaves a site before noise: the packed total and, in the last place, the weighted number of records.

    Only valid records count (:attr:`~dpcape.statistics.Extent.count_weight`).
    """
    n_valid = records.n_records - records.n_invalid
    return np.append(total_of(statistic, records), statistic.count_weight * n_valid)


def total_of(statistic: AnyStatistic, records: Records) -> FloatArray:
    """Return the packed total.

    A statistic that is not part of dpcape is given one record at a time, unless it declares itself vectorised. What
    it returns is added with the roundings kept apart (Neumaier's sum), so that adding costs less than any order of
    summation its author may have counted.
    """
    if is_own(type(statistic)) or statistic.vectorised:
        return statistic.total(records)
    total, lost = np.zeros(statistic.size), np.zeros(statistic.size)
    for single in one_at_a_time(records):
        part = np.asarray(statistic.total(single), dtype=np.float64)
        if part.shape != total.shape:
            # The site refuses a total of another size than was announced.
            return part
        added = total + part
        lost += np.where(np.abs(total) >= np.abs(part), (total - added) + part, (part - added) + total)
        total = added
    result: FloatArray = total + lost
    return result
