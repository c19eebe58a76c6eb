"""A site's check of its own data for a study: out-of-range and missing values, their codes, clipping, duplicates.

Everything here depends on records and is for the site only: it is returned to a command or page at the site, and
nothing that answers the coordinator imports this file.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from dpcape.core.arrays import AnyArray, BoolArray, FloatArray
from dpcape.core.errors import InvalidParameter, UtilityWarning
from dpcape.records.data_plan import Columns, DataPlan, Holding
from dpcape.records.kinds import Records
from dpcape.records.policy import MOST_INVALID
from dpcape.records.readers.tables import ByColumn
from dpcape.schema.column import Column
from dpcape.schema.dates import to_days
from dpcape.schema.schema import Schema

SENTINELS = (-9999, -999, -99, -88, -77, -9, -8, -7, 77, 88, 99, 777, 888, 999, 7777, 8888, 9999, 99999)
"""Numbers that data collections commonly use as missing-value codes."""

PERSON_NAMES = (
    "person", "person_id", "personid", "participant", "participant_id", "subject", "subject_id", "subjectid", "sub_id",
    "subid", "patient", "patient_id", "patientid", "record_id", "mrn", "eid",
)  # fmt: skip
"""Lower-case column names that usually identify a person."""

# Shares above which a study would be meaningless, or its guarantee weaker than it appears.
MOST_OUTSIDE, MOST_UNLISTED, MOST_CODES = 0.10, 0.05, 0.01
MOST_MISSING, MOST_CLIPPED, MOST_TWICE = 0.50, 0.50, 0.01
# Number of columns to show individually; if there are more, the worst are shown.
MOST_SHOWN = 40
# A number inside the range counts as a missing-value code if it is this many times as frequent as its neighbours.
_STANDS_OUT, _LEAST_SHARE, _LEAST_COUNT, _NEAR = 3, 0.005, 3, 0.05


@dataclass(frozen=True)
class ColumnCheck:
    """Counts of one column.

    Attributes
    ----------
    name : str
        Name of the column.
    n : int
        Number of entries.
    missing, outside, unlisted : int
        Missing entries, entries outside the public range, and entries not on the list of levels.
    codes : dict of float to int
        Entries equal to a common missing-value code.
    is_constant : bool
        Whether all entries map to the same number.
    """

    name: str
    n: int
    missing: int = 0
    outside: int = 0
    unlisted: int = 0
    codes: dict[float, int] = field(default_factory=dict)
    is_constant: bool = False

    @property
    def n_codes(self) -> int:
        """Number of entries that look like a code for a missing value."""
        return sum(self.codes.values())

    @property
    def alarms(self) -> list[str]:
        """Sentences on what would make a study meaningless."""
        texts = []
        if self.n_codes > MOST_CODES * self.n:
            codes = ", ".join(f"{code:g}" for code in self.codes)
            texts.append(f"{self._share(self.n_codes)} are {codes}, which often stands for a missing value")
        if self.outside > MOST_OUTSIDE * self.n:
            texts.append(f"{self._share(self.outside)} are outside the public range and are moved to its ends")
        if self.unlisted > MOST_UNLISTED * self.n:
            texts.append(f"{self._share(self.unlisted)} are not on the public list of levels")
        if self.missing > MOST_MISSING * self.n:
            texts.append(f"{self._share(self.missing)} are missing")
        if self.is_constant:
            texts.append("all values become the same number")
        return [f"Column {self.name!r}: {text}." for text in texts]

    def _share(self, count: int) -> str:
        return share_text(count, self.n)


@dataclass(frozen=True)
class OwnCheck:
    """What a site finds in its own data.

    Attributes
    ----------
    n_records, n_invalid : int
        Protected units, and those that cannot be read and contribute zero.
    columns : tuple of ColumnCheck
        Each column, or the worst ones.
    n_rows, clipped : int
        Rows, and those longer than the bound.
    twice : int or None
        Duplicate rows; None if unknown.
    person : str
        Column that identifies the person of a row; empty if unknown.
    several : int
        People with several rows.
    alarms : tuple of str
        Why the study would be meaningless here, or protect less than it seems; empty if nothing was found.
    """

    n_records: int
    n_invalid: int
    columns: tuple[ColumnCheck, ...]
    n_rows: int
    clipped: int
    twice: int | None
    person: str
    several: int
    alarms: tuple[str, ...]

    def facts(self) -> list[tuple[str, str]]:
        """Return the findings that concern no single column, as names and values."""
        shown = [("records", str(self.n_records)), ("cannot be read", share_text(self.n_invalid, self.n_records))]
        shown.append(("rows longer than the bound", share_text(self.clipped, self.n_rows)))
        if self.twice is not None:
            shown.append(("rows that are there twice", share_text(self.twice, self.n_rows)))
        people = f"{self.several} (column {self.person!r})" if self.person else "unknown: no column names people"
        return [*shown, ("people with several rows", people)]


def share_text(count: int, total: int) -> str:
    """Return a count with its share; a small share is not rounded to zero."""
    share = 100 * count / max(total, 1)
    percent = "0%" if not count else "below 0.1%" if share < 0.1 else f"{share:.1f}%"
    return f"{count} of {total} ({percent})"


def check_own(holding: Holding, plan: DataPlan, person: str | None = None) -> OwnCheck:
    """Check a site's data against a study's plan.

    Parameters
    ----------
    holding : Holding
        Reader of the site's data.
    plan : DataPlan
        Public description of the records.
    person : str or None
        Column that identifies the person of a row; None looks for a common name.
    """
    with warnings.catch_warnings():
        # Invalid records are counted below.
        warnings.simplefilter("ignore", UtilityWarning)
        records = plan.records(holding)
    columns = tuple(_columns(holding, plan)) if plan.kind not in ("documents", "subjects") else ()
    n_rows, clipped = _clipped(holding, plan, records)
    owner, several = _several(holding, person or plan.subject)
    check = OwnCheck(
        n_records=records.n_records,
        n_invalid=records.n_invalid,
        columns=_worst(columns),
        n_rows=n_rows,
        clipped=clipped,
        twice=_twice(holding),
        person=owner,
        several=several,
        alarms=(),
    )
    general = _alarms(check, is_per_person=plan.kind == "subjects")
    return OwnCheck(**{**vars(check), "alarms": (*general, *(text for entry in columns for text in entry.alarms))})


def _alarms(check: OwnCheck, *, is_per_person: bool) -> list[str]:
    """Return sentences on problems that concern all columns."""
    texts = []
    if check.n_invalid > MOST_INVALID * check.n_records:
        texts.append(
            f"{share_text(check.n_invalid, check.n_records)} records cannot be read and contribute zero. Correct them, "
            "or ask for a public fill (missing)."
        )
    if check.clipped > MOST_CLIPPED * check.n_rows:
        texts.append(
            f"{share_text(check.clipped, check.n_rows)} rows are longer than the bound and are shortened to it. The "
            "bound is too small, or columns are in other units."
        )
    if check.twice is not None and check.twice > MOST_TWICE * check.n_rows:
        texts.append(f"{share_text(check.twice, check.n_rows)} rows are there more than once.")
    if check.several and not is_per_person:
        texts.append(
            f"{check.several} people have several rows (column {check.person!r}): the study protects one row, and a "
            "person with k rows less, mu being up to k times larger. Keep one row per person by a public rule."
        )
    return texts


def _worst(columns: Sequence[ColumnCheck]) -> tuple[ColumnCheck, ...]:
    if len(columns) <= MOST_SHOWN:
        return tuple(columns)
    by_problems = sorted(columns, key=lambda entry: -(entry.outside + entry.unlisted + entry.missing + entry.n_codes))
    return tuple(by_problems[:MOST_SHOWN])


def _columns(holding: Holding, plan: DataPlan) -> Iterator[ColumnCheck]:
    for columns in plan.tables:
        specs = _described(columns)
        table = holding.table(columns)
        for at, spec in enumerate(specs):
            values = table[spec.name] if isinstance(table, Mapping) else np.asarray(table)[:, at]
            yield check_column(spec, values)
    if plan.kind == "labelled":
        is_text = plan.classes is not None and isinstance(plan.classes[0], str)
        spec = (
            Column(name=plan.target, range=plan.response)
            if plan.classes is None
            else Column(name=plan.target, levels=plan.classes)  # type: ignore[arg-type]  # labels are levels
        )
        yield check_column(spec, holding.vector(plan.target, text=is_text))


def _described(columns: Columns) -> list[Column]:
    if isinstance(columns.ranges, Schema):
        return list(columns.ranges.columns)
    names = columns.names or tuple(f"column {number + 1}" for number in range(columns.n_columns))
    ranges = columns.ranges or (None,) * columns.n_columns
    return [Column(name=name, range=pair) for name, pair in zip(names, ranges, strict=True)]


def check_column(spec: Column, values: AnyArray) -> ColumnCheck:
    """Return the counts of one column of raw values.

    Parameters
    ----------
    spec : Column
        Its public description.
    values : AnyArray
        Numbers with NaN, or objects with None, where one is missing.
    """
    if spec.levels is not None:
        return _check_levels(spec, values)
    numbers = to_days(values) if spec.dates else np.asarray(values, dtype=np.float64)
    absent = np.isnan(numbers)
    there = numbers[~absent]
    low, high = spec.range if spec.range is not None else (-np.inf, np.inf)
    outside = (there < low) | (there > high) | ~np.isfinite(there)
    clipped = np.clip(there, low, high)
    return ColumnCheck(
        name=spec.name,
        n=len(numbers),
        missing=int(absent.sum()),
        outside=int(outside.sum()),
        codes={} if spec.dates else _codes(there, outside, (low, high)),
        is_constant=bool(there.size > 1 and (clipped == clipped[0]).all()),
    )


def _check_levels(spec: Column, values: AnyArray) -> ColumnCheck:
    cells = [None if value is None or value != value else value for value in values.tolist()]
    levels = spec.levels or ()
    there = [value for value in cells if value is not None]
    unlisted = [value for value in there if value not in levels]
    known = Counter(value for value in there if value in levels)
    codes = Counter(number for value in unlisted if (number := _as_code(value)) is not None)
    return ColumnCheck(
        name=spec.name,
        n=len(cells),
        missing=len(cells) - len(there),
        unlisted=len(unlisted),
        codes=dict(codes),
        is_constant=len(there) > 1 and not unlisted and len(known) == 1,
    )


def _as_code(value: object) -> float | None:
    try:
        number = float(str(value))
    except ValueError:
        return None
    # Outside a public list of levels, 7, 8 and 9 are common missing-value codes too.
    return number if number in (*SENTINELS, 7, 8, 9) else None


def _codes(there: FloatArray, outside: BoolArray, ends: tuple[float, float]) -> dict[float, int]:
    """Return the common missing-value codes that occur in a column.

    Outside the range each one counts. Inside it, or without a range, a number is taken for a code only if it stands out
    from the values near it: 88 is an age too.
    """
    codes = {}
    for code in SENTINELS:
        equal = there == code
        count = int(equal.sum())
        if count and (bool(outside[equal].any()) or _stands_out(there, code, count, ends)):
            codes[float(code)] = count
    return codes


def _stands_out(there: FloatArray, code: float, count: int, ends: tuple[float, float]) -> bool:
    if count < max(_LEAST_COUNT, _LEAST_SHARE * there.size):
        return False
    others = there[(there != code) & np.isfinite(there)]
    if not others.size:
        return True
    width = ends[1] - ends[0]
    reach = _NEAR * (width if np.isfinite(width) else float(np.subtract(*np.quantile(others, [0.95, 0.05]))))
    near = others[np.abs(others - code) <= reach]
    most = int(np.unique(near, return_counts=True)[1].max()) if near.size else 1
    return count >= _STANDS_OUT * most


def _clipped(holding: Holding, plan: DataPlan, records: Records) -> tuple[int, int]:
    """Return the number of rows, and of those that are longer than the bound."""
    if plan.kind in ("documents", "table"):
        return records.n_records, 0
    if plan.kind == "subjects":
        width, given = plan.tables[0].n_columns, holding.series(plan.tables[0], plan.subject)
        arrays = [np.asarray(rows, dtype=np.float64) for rows in given]
        # The rest belongs to people who are invalid.
        series = [rows for rows in arrays if rows.shape[1:] == (width,)]
        longer = [np.linalg.norm(np.nan_to_num(rows), axis=1) > plan.bounds[0] for rows in series]
        return sum(len(rows) for rows in series), int(sum(rows.sum() for rows in longer))
    shortened = sum(int((factors < 1).sum()) for _, factors in records.shortened_blocks(4096))
    return records.n_records, shortened


def _twice(holding: Holding) -> int | None:
    """Return how many rows repeat an earlier one in all columns of the file."""
    if not isinstance(holding, ByColumn):
        return None
    columns = [holding.vector(name, text=True) for name in holding.names()]
    seen = Counter(zip(*(column.tolist() for column in columns), strict=True))
    return sum(count - 1 for count in seen.values())


def _several(holding: Holding, person: str | None) -> tuple[str, int]:
    """Return the column that identifies people, and how many of them have several rows."""
    if not isinstance(holding, ByColumn):
        return "", 0
    names = {name.strip().lower(): name for name in holding.names()}
    if person is not None and person not in holding.names():
        raise InvalidParameter("--person", "name a column of the data", repr(person), "Check the name.")
    chosen = person or next((names[name] for name in PERSON_NAMES if name in names), "")
    if not chosen:
        return "", 0
    owners = Counter(owner for owner in holding.vector(chosen, text=True).tolist() if owner is not None)
    return chosen, sum(1 for count in owners.values() if count > 1)
