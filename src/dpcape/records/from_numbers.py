"""Synthetic records with given public facts, made from numbers: any numbers are legal, also beyond the public bound.

What clips at a site clips here too, so a search over the numbers is a search over all possible records.
"""

from __future__ import annotations

import numpy as np

from dpcape.arrays import FloatArray
from dpcape.facts import PublicFacts
from dpcape.records import documents, labelled, rows, subjects, views
from dpcape.records.kinds import Records

# Time points of a synthetic subject.
TIME_POINTS = 8
# Words of a synthetic document for a number of size 1.
_WORDS = 8


def numbers_per_unit(facts: PublicFacts) -> int:
    """Return how many numbers make one protected unit."""
    width = facts.n_features
    if facts.kind == "labelled":
        return width + 1
    return width * time_points(facts) if facts.unit == "subject" else width


def time_points(facts: PublicFacts) -> int:
    """Return the length of a synthetic subject's series."""
    return min(TIME_POINTS, facts.rows_per_unit or TIME_POINTS)


def records_from(facts: PublicFacts, numbers: FloatArray) -> Records:
    """Return records of this kind, one protected unit per row of ``numbers``.

    Parameters
    ----------
    facts : PublicFacts
        Kind, widths, bounds, response or classes, unit.
    numbers : FloatArray
        (units, numbers per unit). One means a length of about the bound; the last number of labelled records is the
        response, from -1 to 1, or picks the class.
    """
    width = facts.n_features
    if facts.kind == "documents":
        counts = np.floor(_WORDS * np.abs(np.clip(numbers, -1e6, 1e6)))
        return documents(counts.astype(np.int64))
    if facts.kind == "subjects":
        scaled = numbers * facts.bounds[0]
        series = [scaled] if facts.unit == "record" else list(scaled.reshape(len(scaled), -1, width))
        longest = max(len(entry) for entry in series) if facts.unit == "subject" else None
        return subjects(series, bound=facts.bounds[0], unit=facts.unit, rows_per_subject=longest)
    if facts.kind == "views":
        first = facts.widths[0]
        tables = numbers[:, :first] * facts.bounds[0], numbers[:, first:] * facts.bounds[1]
        return views(*tables, bounds=(facts.bounds[0], facts.bounds[1]))
    table = numbers[:, :width] * facts.bounds[0]
    if facts.kind == "rows":
        return rows(table, bound=facts.bounds[0])
    return _labelled(facts, table, np.clip(numbers[:, width], -1.0, 1.0))


def _labelled(facts: PublicFacts, table: FloatArray, last: FloatArray) -> Records:
    bound = facts.bounds[0]
    if facts.classes is not None:
        codes = np.minimum((last + 1) / 2 * len(facts.classes), len(facts.classes) - 1).astype(int)
        return labelled(table, np.array(facts.classes, dtype=object)[codes], bound=bound, classes=facts.classes)
    assert facts.response is not None
    low, high = facts.response
    return labelled(table, low / 2 + high / 2 + (high / 2 - low / 2) * last, bound=bound, response=facts.response)
