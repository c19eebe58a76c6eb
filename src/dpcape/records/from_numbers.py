"""Synthetic records with given public facts, made from numbers: any numbers are legal, also beyond the public bound.

What clips at a site clips here too, so a search over the numbers is a search over all possible records.
"""

from __future__ import annotations

import numpy as np

from dpcape.core.arrays import AnyArray, FloatArray
from dpcape.core.facts import PublicFacts
from dpcape.records import labelled, rows, views
from dpcape.records.kinds import Records
from dpcape.records.typed_table import table
from dpcape.records.words_and_series import documents, subjects
from dpcape.schema.column import Column
from dpcape.schema.schema import Schema

# Time points of a synthetic subject.
TIME_POINTS = 8
# Words of a synthetic document for a number of size 1.
_WORDS = 8
# A number of at least this size stands for a missing value of a table.
_ABSENT = 20.0


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
        Kind, widths, bounds, response or classes, unit; of a table the columns.
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
        return subjects(
            series,
            bound=facts.bounds[0],
            unit=facts.unit,
            rows_per_subject=longest,
            n_features=width,
        )
    if facts.kind == "table":
        return table(table_values(facts, numbers), columns=schema_of(facts))
    if facts.kind == "views":
        blocks = np.split(numbers, np.cumsum(facts.widths)[:-1], axis=1)
        first, second, *more = (block * bound for block, bound in zip(blocks, facts.bounds, strict=True))
        return views(first, second, *more, bounds=facts.bounds)
    features = numbers[:, :width] * facts.bounds[0]
    if facts.kind == "rows":
        return rows(features, bound=facts.bounds[0])
    return _labelled(facts, features, np.clip(numbers[:, width], -1.0, 1.0))


def schema_of(facts: PublicFacts) -> Schema:
    """Return a schema with the public columns of a table; levels are text, and dates are numbers of days."""
    columns = [
        Column(name=entry.name, levels=entry.levels)
        if entry.kind == "category"
        else Column(name=entry.name, range=(entry.low, entry.high))
        for entry in facts.columns
    ]
    return Schema(tuple(columns), events=facts.events)


def table_values(facts: PublicFacts, numbers: FloatArray) -> dict[str, AnyArray]:
    """Return raw columns of a table: numbers from -1 to 1 are in the range, and a large one is a missing value.

    Parameters
    ----------
    facts : PublicFacts
        Public facts of a table.
    numbers : FloatArray
        One row per record, one number per column.
    """
    columns: dict[str, AnyArray] = {}
    for entry, values in zip(facts.columns, numbers.T, strict=True):
        is_there = np.abs(values) < _ABSENT
        if entry.kind == "category":
            codes = np.clip((np.where(is_there, values, 0.0) + 1) / 2 * len(entry.levels), 0, len(entry.levels) - 1)
            levels: AnyArray = np.array(entry.levels, dtype=object)[codes.astype(int)]
            levels[~is_there] = None
            columns[entry.name] = levels
        else:
            middle, half_width = entry.low / 2 + entry.high / 2, entry.high / 2 - entry.low / 2
            columns[entry.name] = np.where(is_there, middle + half_width * np.where(is_there, values, 0.0), np.nan)
    return columns


def _labelled(facts: PublicFacts, table: FloatArray, last: FloatArray) -> Records:
    bound = facts.bounds[0]
    if facts.classes is not None:
        codes = np.minimum((last + 1) / 2 * len(facts.classes), len(facts.classes) - 1).astype(int)
        labels = np.array(facts.classes, dtype=object)[codes]
        return labelled(table, labels, bound=bound, classes=facts.classes)
    assert facts.response is not None
    low, high = facts.response
    values = low / 2 + high / 2 + (high / 2 - low / 2) * last
    return labelled(table, values, bound=bound, response=facts.response)
