"""A table, its public preparation and its bound: the only way from raw values to rows an analysis may see."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from numbers import Real
from typing import Any, NamedTuple, cast

import msgspec
import numpy as np
import numpy.typing as npt

from dpcape.core.arrays import AnyArray, FloatArray, SingleArray
from dpcape.core.errors import InvalidParameter
from dpcape.core.facts import PublicFacts
from dpcape.records.clip import SHRINK_SINGLE, STRIP_ENTRIES, certainly_short, clip_rows, is_single, longest_row, strips
from dpcape.schema.column import Column, check_finite
from dpcape.schema.schema import Ranges, Schema, as_it_is
from dpcape.schema.table import ArrayTable, Table, read_table

Mask = npt.NDArray[np.bool_]

TABLE_ENTRIES = 1 << 20
"""Entries read together from a pandas or polars table: 8 MiB of float64."""
KEPT_ENTRIES = 1 << 20
"""Up to this many entries, 8 MiB of float64, rows are prepared and clipped once, and kept for further releases.

Rows that are only clipped are kept when they are read for the second time: new memory costs more than clipping.
"""


class _Kept(NamedTuple):
    """All rows of a small table, prepared and clipped, their factors of clipping, and which of them are valid."""

    rows: FloatArray
    factors: FloatArray
    valid: Mask


class Features:
    """Rows of one table, mapped by a public schema and clipped to a public bound.

    Parameters
    ----------
    data : array-like
        Array, list of lists, pandas or polars table; kept, never changed, and copied whole only if it is small.
    subject : str
        What error messages call the table.
    bound : float or None
        Largest Euclidean norm of a row, already checked; None for the largest that the ranges allow.
    ranges : Ranges or None
        See `dpcape.schema.schema.Schema.of`; None takes the numbers as they are.
    missing : object
        See `dpcape.schema.schema.Schema.with_missing`.
    feature_names : sequence of str or None
        Names of the raw columns.
    invalid : str
        "zero" leaves out rows that cannot be read, "refuse" raises.
    precision : str or None
        "single" or "double"; None for "single" where the table is an array of single precision, taken as it is.
    is_checked : bool
        Whether all rows were read before; those that cannot be read are then not counted again.
    """

    def __init__(
        self,
        data: object,
        *,
        subject: str,
        bound: float | None,
        ranges: Ranges | None = None,
        missing: object = None,
        feature_names: Sequence[str] | None = None,
        invalid: str = "zero",
        precision: str | None = None,
        is_checked: bool = False,
    ) -> None:
        self._refuses = invalid == "refuse"
        self._kept: _Kept | None = None
        self._n_readings = 0
        self._table = read_table(data, subject=subject, feature_names=feature_names, lenient=not self._refuses)
        self._schema = _schema_for(self._table, ranges, missing)
        self._columns = _selection(self._table, self._schema)
        self.bound = _capped(bound, self._schema, subject)
        self.n_rows = self._table.shape[0]
        self.names, self.n_features = _names_and_width(self._table, self._schema)
        self._holds_single = self._schema is None and _holds_single(self._table)
        self.is_single = is_single(precision, self._holds_single, self.bound, self.n_features)
        self.n_invalid = 0
        self.preparation = "" if self._schema is None else self._schema.digest()
        self.ranges = () if self._schema is None else self._schema.ranges
        self.schema = None if self._schema is None else self._schema.public()
        # Only meaningful if all columns have ranges.
        self.longest = 0.0 if self._schema is None else longest_row(len(self._schema.columns))
        if not is_checked:
            self._check()

    def fill(self, start: int, stop: int, out: FloatArray, factors: FloatArray | None = None) -> Mask:
        """Write rows `start` to `stop`, prepared and clipped, into `out`; return which of them are valid.

        The factors by which rows were shortened are written into `factors` if it is given.
        """
        if self.n_rows * self.n_features > KEPT_ENTRIES:
            return self._filled(start, stop, out, factors)
        self._n_readings += start == 0
        if self._schema is None and self._n_readings == 1:
            return self._filled(start, stop, out, factors)
        if self._kept is None:
            rows, row_factors = np.empty((self.n_rows, self.n_features)), np.ones(self.n_rows)
            self._kept = _Kept(rows, row_factors, self._filled(0, self.n_rows, rows, row_factors))
        # Copied: a statistic that reads a block may change it.
        np.copyto(out, self._kept.rows[start:stop])
        if factors is not None:
            np.copyto(factors, self._kept.factors[start:stop])
        return self._kept.valid[start:stop].copy()

    def _filled(self, start: int, stop: int, out: FloatArray, factors: FloatArray | None) -> Mask:
        """Read, prepare and clip rows `start` to `stop`."""
        valid = np.ones(stop - start, dtype=np.bool_)
        for rows in self._strips(stop - start):
            some = None if factors is None else factors[rows]
            self._fill_strip(start + rows.start, start + rows.stop, out[rows], valid[rows], some)
        return valid

    def fill_single(self, start: int, stop: int, out: SingleArray) -> Mask:
        """Write rows `start` to `stop` in single precision, as :meth:`fill` does in double precision.

        No row becomes longer than the bound (see ``records/clip.py``), and what a row becomes depends on that row and
        its place only: whether a row is left unchanged does not depend on the other rows.
        """
        valid = np.ones(stop - start, dtype=np.bool_)
        for rows in self._strips(stop - start, entry_bytes=4):
            goal, first, last = out[rows], start + rows.start, start + rows.stop
            if self._holds_single:
                # As in `_fill_strip`: copied before lengths are taken.
                np.copyto(goal, cast("AnyArray", self._read(first, last)))
                if certainly_short(goal, bound=self.bound):
                    continue
            strip = np.empty(goal.shape)
            self._fill_strip(first, last, strip, valid[rows], shrink=SHRINK_SINGLE)
            np.copyto(goal, strip, casting="same_kind")
        return valid

    def emptied(self) -> Features:
        """Return the same columns with no row that is valid."""
        empty = copy.copy(self)
        empty.n_rows, empty._kept = 0, None
        return empty

    def _fill_strip(
        self,
        start: int,
        stop: int,
        goal: FloatArray,
        valid: Mask,
        factors: FloatArray | None = None,
        shrink: float = 1.0,
    ) -> None:
        """Write some rows; those that cannot be read become zero and are marked, unless they are refused."""
        # Copied before the norm is taken: whatever happens to the caller's array meanwhile, the bound holds.
        try:
            self._prepare(self._read(start, stop), goal)
            clip_rows(goal, bound=self.bound * shrink, out=goal, factors=factors)
        except InvalidParameter:
            if self._refuses:
                raise
            if stop - start == 1:
                goal[:], valid[:] = 0.0, False
                return
            if self._fill_beside_invalid(start, stop, goal, valid, factors, shrink):
                return
            # Halve until each invalid row is by itself.
            middle = (stop - start) // 2
            before, after = (None, None) if factors is None else (factors[:middle], factors[middle:])
            self._fill_strip(start, start + middle, goal[:middle], valid[:middle], before, shrink)
            self._fill_strip(start + middle, stop, goal[middle:], valid[middle:], after, shrink)

    def _fill_beside_invalid(
        self, start: int, stop: int, goal: FloatArray, valid: Mask, factors: FloatArray | None, shrink: float
    ) -> bool:
        """Write the rows with others in place of those that lack a value; tell whether all the rest could be read."""
        try:
            block = self._read(start, stop)
            columns = [None] * self._table.shape[1] if self._schema is None else self._schema.columns
            invalid, rest = beside_invalid(block, columns)
            self._prepare(rest, goal)
            clip_rows(goal, bound=self.bound * shrink, out=goal, factors=factors)
        except InvalidParameter:
            return False
        goal[invalid], valid[invalid] = 0.0, False
        return True

    def _prepare(self, block: AnyArray | list[AnyArray], out: FloatArray) -> None:
        """Write raw rows as float64 features, not yet clipped, into `out`."""
        if self._schema is not None:
            self._schema.apply(block, out=out)
            return
        # An extended number too large for float64 becomes infinite, which clipping refuses.
        with np.errstate(over="ignore"):
            np.copyto(out, cast("AnyArray", block), casting="same_kind")

    def _read(self, start: int, stop: int) -> AnyArray | list[AnyArray]:
        """Return raw rows: one block of numbers, or a list of columns if some have levels."""
        rows = slice(start, stop)
        if self._schema is None or not self._schema.categorical:
            return self._table.numbers(rows, self._columns)
        columns = range(self._table.shape[1]) if self._columns is None else self._columns
        return [self._table.values(rows, column) for column in columns]

    def _strips(self, n_rows: int, *, entry_bytes: int = 8) -> Iterator[slice]:
        """Return slices of rows to be read together: fewer from a table, where each column costs a call."""
        n_entries = STRIP_ENTRIES * 8 // entry_bytes if isinstance(self._table, ArrayTable) else TABLE_ENTRIES
        return strips(n_rows, self.n_features, n_entries=n_entries)

    def _check(self) -> None:
        """Read everything once, so that bad values are refused, or counted, before any analysis starts."""
        scratch = np.empty((0, self.n_features))
        if not self._refuses:
            for rows in self._strips(self.n_rows):
                if self._is_clean(rows.start, rows.stop):
                    continue
                filled = np.empty((rows.stop - rows.start, self.n_features))
                self.n_invalid += int(np.count_nonzero(~self.fill(rows.start, rows.stop, filled)))
            return
        for rows in self._strips(self.n_rows):
            block = self._read(rows.start, rows.stop)
            if self._schema is None:
                check_finite(cast("AnyArray", block), subject=self._table.subject)
                continue
            n_rows = rows.stop - rows.start
            if len(scratch) < n_rows:
                scratch = np.empty((n_rows, self.n_features))
            self._schema.apply(block, out=scratch[:n_rows])

    def _is_clean(self, start: int, stop: int) -> bool:
        """Tell, without preparing or clipping them, whether rows hold finite numbers only; not of rows with levels."""
        if self._schema is not None and self._schema.categorical:
            return False
        try:
            check_finite(cast("AnyArray", self._read(start, stop)), subject=self._table.subject)
        except InvalidParameter:
            return False
        return True


def beside_invalid(
    block: AnyArray | list[AnyArray], columns: Sequence[Column | None]
) -> tuple[Mask, AnyArray | list[AnyArray]]:
    """Return which raw rows lack a value that has no public fill, or have an infinite one; and rows without these.

    Rows keep their places: those that are invalid get values that can be read.

    Parameters
    ----------
    block : AnyArray or list of AnyArray
        Rows of numbers, or columns.
    columns : sequence of Column or None
        Public description of each column; None for numbers taken as they are.
    """
    filled = np.array([column is not None and column.missing is not None for column in columns])
    if isinstance(block, np.ndarray):
        bad = np.isinf(block) | (np.isnan(block) & ~filled)
        invalid: Mask = bad.any(axis=1)
        return invalid, np.where(invalid[:, np.newaxis], block.dtype.type(0), block)
    masks = [_lacking(values, is_filled) for values, is_filled in zip(block, filled, strict=True)]
    invalid = np.any(masks, axis=0)
    rest = []
    for values, column in zip(block, columns, strict=True):
        usable = values.copy()
        if values.dtype != object:
            usable[invalid] = 0
        elif column is not None:
            usable[invalid] = "1970-01-01" if column.levels is None else column.levels[0]
        rest.append(usable)
    return invalid, rest


def _lacking(values: AnyArray, is_filled: bool) -> Mask:
    """Tell which entries of a column are infinite, or missing without a public fill."""
    if values.dtype.kind == "f":
        lacking: Mask = np.isinf(values) if is_filled else ~np.isfinite(values)
        return lacking
    if values.dtype != object or is_filled:
        return np.zeros(len(values), dtype=np.bool_)
    return np.array([value is None for value in values.tolist()], dtype=np.bool_)


def _holds_single(table: Table) -> bool:
    return isinstance(table, ArrayTable) and table.numbers(slice(0, 0)).dtype == np.float32


def _capped(bound: float | None, schema: Schema | None, subject: str) -> float:
    """Return the bound, or the length that no row exceeds by its public ranges where that is less."""
    if schema is None or any(column.range is None and column.levels is None for column in schema.columns):
        if bound is None:
            must = "have a bound where not all columns have public ranges"
            remedy = (
                "State ranges for all columns, such as ranges=(0, 255), and leave the bound out. Or choose a bound "
                "from public knowledge, near the length of a typical row: the usual size of an entry times the square "
                "root of the number of columns. Longer rows are scaled down, and noise grows with the bound."
            )
            raise InvalidParameter(subject, must, "a table without both", remedy)
        return bound
    cap = longest_row(len(schema.columns))
    return cap if bound is None else min(bound, cap)


def _schema_for(table: Table, ranges: Ranges | None, missing: object) -> Schema | None:
    """Return the schema that ranges and fills describe, or None if numbers are taken as they are."""
    if ranges is None and missing is None:
        return None
    if ranges is None:
        schema = as_it_is(table.names, n_columns=table.shape[1])
    else:
        # One (low, high) stands for all columns.
        is_one = isinstance(ranges, tuple) and len(ranges) == 2 and all(isinstance(end, Real) for end in ranges)
        pairs = [ranges] * table.shape[1] if is_one else ranges
        schema = Schema.of(pairs, names=() if isinstance(pairs, Mapping | Schema) else table.names)
    return schema.with_missing(missing)


def _selection(table: Table, schema: Schema | None) -> list[int] | None:
    """Return which columns of the table are used; None for all of them, in order."""
    if schema is None:
        return None
    n_columns = table.shape[1]
    if not schema.named or not table.names:
        _check_unnamed(table, schema)
        return None
    columns = schema.positions(table.names, subject=table.subject)
    return None if columns == list(range(n_columns)) else columns


def _check_unnamed(table: Table, schema: Schema) -> None:
    """Refuse to match columns by name where there are no names, and pairs that are not one per column."""
    if schema.named:
        must, remedy = "have names, to be found in the schema", "Pass feature_names=, or a pandas or polars table."
        raise InvalidParameter(f"Columns of {table.subject}", must, "an array without names", remedy)
    if len(schema.columns) != table.shape[1]:
        must = f"be one (low, high) pair per column of {table.subject} ({table.shape[1]})"
        raise InvalidParameter("ranges", must, len(schema.columns), "List every column, in order.")


def _names_and_width(table: Table, schema: Schema | None) -> tuple[tuple[str, ...], int]:
    """Return the names of the features, empty if columns have none, and their number."""
    if schema is None:
        return table.names, table.shape[1]
    return (schema.feature_names if schema.named else ()), len(schema.feature_names)


def one_per_view(value: Any, subject: str, n_views: int) -> tuple[Any, ...]:
    """Return one entry per view; None means None for all."""
    if value is None:
        return (None,) * n_views
    if not isinstance(value, tuple | list) or len(value) != n_views:
        wanted, example = ("a pair", "(of_X, of_Y)") if n_views == 2 else (f"{n_views} values", "(of_X, of_Y, ...)")
        raise InvalidParameter(subject, f"be {wanted}, one entry per view", repr(value), f"Write {example}.")
    return tuple(value)


def facts_of(kind: str, *features: Features, invalid: str) -> PublicFacts:
    """Return the public facts of one or more tables."""
    names = tuple(name for table in features for name in table.names)
    widths = tuple(table.n_features for table in features)
    preparations = [table.preparation for table in features]
    is_ranged = all(table.ranges for table in features)
    return PublicFacts(
        kind=kind,
        unit="record",
        n_records=features[0].n_rows,
        widths=widths,
        bounds=tuple(table.bound for table in features),
        feature_names=names if len(names) == sum(widths) else (),
        preparation=" ".join(digest or "none" for digest in preparations) if any(preparations) else "",
        ranges=tuple(entry for table in features for entry in table.ranges) if is_ranged else (),
        longest=tuple(table.longest for table in features) if is_ranged else (),
        invalid=invalid,
        schemas=tuple(table.schema for table in features) if any(preparations) else msgspec.UNSET,
        precision="single" if all(table.is_single for table in features) else msgspec.UNSET,
    )
