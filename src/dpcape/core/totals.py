"""The total of a statistic over a site's records, as a site computes it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from dpcape.core.arrays import FloatArray
from dpcape.core.contributions import ExactSum
from dpcape.core.enclosed import Contributor, Enclosed
from dpcape.core.errors import ProtocolError
from dpcape.core.kernel import PartSums, Summed, exact_sums_of, joined
from dpcape.core.record_blocks import HeldRecords
from dpcape.core.statistic import AnyStatistic, is_own


def released_total(statistic: AnyStatistic, records: HeldRecords, contributor: Contributor | None = None) -> FloatArray:
    """Return what leaves a site before noise: the packed total and, in the last place, the weighted number of records.

    Only valid records count (:attr:`~dpcape.statistics.Extent.count_weight`). ``contributor`` runs the code of other
    packages; without one it does not run.
    """
    if isinstance(statistic, Enclosed):
        total, n_counted = statistic.counted_total(records, required(contributor))
        return np.append(total, statistic.count_weight * n_counted)
    if isinstance(statistic, Summed) and is_own(type(statistic)):
        *sums, count = _sums_of(statistic, records)
        return np.append(statistic.packed([entry.values() for entry in sums]), statistic.count_weight * count.values())
    n_valid = records.n_records - records.n_invalid
    return np.append(total_of(statistic, records), statistic.count_weight * n_valid)


def required(contributor: Contributor | None) -> Contributor:
    """Return what runs code of other packages, or refuse: it never runs in a process that holds keys and a ledger."""
    if contributor is None:
        raise ProtocolError(
            "The release was refused",
            "this site runs no code of other packages",
            "Ask its steward to allow the package (dpcape site allow-analysis) and to start the site again, on Linux "
            "with Landlock.",
        )
    return contributor


def total_of(statistic: AnyStatistic, records: HeldRecords) -> FloatArray:
    """Return the packed total.

    Where records lie on a cluster, sums of the kernel are computed there, part by part (:class:`PartSums`).

    A statistic that is not part of dpcape is given one record at a time, unless it declares itself vectorised. What
    it returns is added with the roundings kept apart (Neumaier's sum), so that adding costs less than any order of
    summation its author may have counted.
    """
    if isinstance(statistic, Summed) and is_own(type(statistic)):
        *sums, _ = _sums_of(statistic, records)
        return statistic.packed([entry.values() for entry in sums])
    if is_own(type(statistic)) or statistic.vectorised:
        return statistic.total(records)
    return _added((statistic.total(single) for single in records.each_alone()), statistic.size)


def _sums_of(statistic: Summed[object], records: HeldRecords) -> list[ExactSum]:
    """Return exact sums, and the number of records that they are of, computed where the records are."""
    # Code of other packages is not sent to a cluster.
    parts = None if statistic.assumption else records.each_part(PartSums.of(statistic))
    return (joined(parts) if parts is not None else []) or exact_sums_of(statistic, records)


def _added(totals: Iterable[object], size: int) -> FloatArray:
    """Return the sum of totals, the roundings kept apart (Neumaier's sum)."""
    total, lost = np.zeros(size), np.zeros(size)
    for answer in totals:
        term = np.asarray(answer, dtype=np.float64)
        if term.shape != total.shape:
            # The site refuses a total of another size than was announced.
            return term
        added = total + term
        lost += np.where(np.abs(total) >= np.abs(term), (total - added) + term, (term - added) + total)
        total = added
    result: FloatArray = total + lost
    return result
