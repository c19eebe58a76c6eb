"""Arrays and tables as columns of numbers, read a few rows at a time.

A table is a two-dimensional array (also memory-mapped, float32, integers, lists of lists), a mapping from name
to column, or a pandas or polars table. None of them is ever copied whole. pandas and polars are recognised by the
methods they offer and are never imported here. A missing value is NaN in a column of numbers and ``None`` in any
other column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from scipy.sparse import issparse

from dpcape.core.arrays import AnyArray, IntArray
from dpcape.core.errors import InvalidParameter

_LEVELS = "Convert it, or name its public levels in ranges and pass a pandas or polars table."
_NUMBERS = {
    "y": "Convert it, or name the public labels with classes=.",
    "counts": "Count how often each word of a public vocabulary occurs.",
}

NUMERIC_KINDS = "biuf"
"""numpy's letters for boolean, integer, unsigned and floating-point numbers."""


class Words:
    """A column of text as positions in a list of texts: what a text means is then found once, not in every row.

    Parameters
    ----------
    positions : IntArray
        Position of each cell's text.
    texts : AnyArray
        Texts, and None for a missing cell; one may be there several times.
    """

    ndim = 1

    def __init__(self, positions: IntArray, texts: AnyArray) -> None:
        self.positions, self.texts = positions, texts
        self.shape = (len(positions),)

    def __len__(self) -> int:
        return len(self.positions)

    def __getitem__(self, rows: slice) -> Words:
        return Words(self.positions[rows], self.texts)

    def __array__(self, dtype: object = None, copy: bool | None = None) -> AnyArray:
        cells: AnyArray = self.texts[self.positions]
        return cells

    @classmethod
    def joined(cls, parts: Sequence[Words]) -> Words:
        """Return the rows of several columns as one."""
        starts = np.cumsum([0, *(len(part.texts) for part in parts[:-1])])
        positions = [part.positions + start for part, start in zip(parts, starts, strict=True)]
        return cls(np.concatenate(positions), np.concatenate([part.texts for part in parts]))


class ArrayTable:
    """A two-dimensional numeric array and the names of its columns, if any."""

    def __init__(self, data: object, *, subject: str, lenient: bool = False) -> None:
        self.subject = subject
        self._array = _numeric_array(data, subject=subject, lenient=lenient)
        self.shape: tuple[int, int] = (self._array.shape[0], self._array.shape[1])
        self.names: tuple[str, ...] = ()

    def numbers(self, rows: slice, columns: Sequence[int] | None = None) -> AnyArray:
        """Return the chosen rows in the array's own number type, not copied if all columns are asked for."""
        block = self._array[rows]
        return block if columns is None else block[:, list(columns)]

    def values(self, rows: slice, column: int) -> AnyArray:
        """Return one column of the chosen rows."""
        return self._array[rows, column]


class ColumnTable:
    """Columns by name, numbers or objects, as a file reader gives them; recognised as a mapping."""

    def __init__(self, columns: Mapping[str, object], *, subject: str) -> None:
        self.subject = subject
        self._columns = [_own_types(column) for column in columns.values()]
        if len({column.shape for column in self._columns}) > 1 or any(column.ndim != 1 for column in self._columns):
            must, remedy = "be one-dimensional and equally long", "Give every record one entry in each column."
            raise InvalidParameter(f"Columns of {subject}", must, "different shapes", remedy)
        self.shape: tuple[int, int] = (len(self._columns[0]) if self._columns else 0, len(self._columns))
        self.names = tuple(str(name) for name in columns)

    def numbers(self, rows: slice, columns: Sequence[int] | None = None) -> AnyArray:
        """Return the chosen rows as numbers, missing values as NaN."""
        return _side_by_side(self, rows, range(self.shape[1]) if columns is None else columns)

    def values(self, rows: slice, column: int) -> AnyArray:
        """Return one column of the chosen rows: numbers with NaN, or objects with None, where missing."""
        return np.asarray(self._columns[column][rows])

    def words(self, column: int) -> Words | None:
        """Return a whole column of text that came as positions in a list; None for others."""
        values = self._columns[column]
        return values if isinstance(values, Words) else None


class PandasTable:
    """A pandas table, recognised by ``iloc``."""

    def __init__(self, frame: Any, *, subject: str) -> None:
        self.subject = subject
        self._frame = frame
        self.shape: tuple[int, int] = (int(frame.shape[0]), int(frame.shape[1]))
        self.names = tuple(str(name) for name in frame.columns)
        types = tuple(frame.dtypes)
        self._numeric = tuple(dtype.kind in NUMERIC_KINDS for dtype in types)
        self._plain = tuple(isinstance(dtype, np.dtype) for dtype in types)
        # NumPy arrays of numeric columns, not copied: slicing a column in pandas takes longer than reading it.
        self._arrays: dict[int, AnyArray] = {}

    def numbers(self, rows: slice, columns: Sequence[int] | None = None) -> AnyArray:
        """Return the chosen rows as numbers, missing values as NaN."""
        chosen = list(range(self.shape[1]) if columns is None else columns)
        if all(self._plain[column] for column in chosen) or not all(self._numeric[column] for column in chosen):
            return _side_by_side(self, rows, chosen)
        block: AnyArray = self._frame.iloc[rows, chosen].to_numpy(dtype=np.float64, na_value=np.nan)
        return block

    def values(self, rows: slice, column: int) -> AnyArray:
        """Return one column of the chosen rows: numbers with NaN, or objects with None, where missing."""
        if self._numeric[column] and self._plain[column]:
            if column not in self._arrays:
                self._arrays[column] = self._frame.iloc[:, column].to_numpy()
            return self._arrays[column][rows].astype(np.float64, copy=False)
        series = self._frame.iloc[rows, column]
        as_numbers: AnyArray
        if self._numeric[column]:
            as_numbers = series.to_numpy(dtype=np.float64, na_value=np.nan)
        else:
            as_numbers = series.to_numpy(dtype=object, na_value=None)
        return as_numbers


class PolarsTable:
    """A polars table, recognised by ``get_columns``."""

    def __init__(self, frame: Any, *, subject: str) -> None:
        self.subject = subject
        self._frame = frame
        self.shape: tuple[int, int] = (int(frame.shape[0]), int(frame.shape[1]))
        self.names = tuple(str(name) for name in frame.columns)
        self._numeric = tuple(dtype.is_numeric() or str(dtype) == "Boolean" for dtype in frame.dtypes)

    def numbers(self, rows: slice, columns: Sequence[int] | None = None) -> AnyArray:
        """Return the chosen rows as numbers, missing values as NaN."""
        chosen = list(range(self.shape[1]) if columns is None else columns)
        if not all(self._numeric[column] for column in chosen):
            return _side_by_side(self, rows, chosen)
        block: AnyArray = self._frame[rows][:, chosen].cast(float).to_numpy()
        return block

    def values(self, rows: slice, column: int) -> AnyArray:
        """Return one column of the chosen rows: numbers with NaN, or objects with None, where missing."""
        series = self._frame[:, column][rows]
        if self._numeric[column]:
            as_numbers: AnyArray = series.cast(float).to_numpy()
            return as_numbers
        return _objects(series.to_list())


Table = ArrayTable | ColumnTable | PandasTable | PolarsTable


def read_table(
    data: object, *, subject: str, feature_names: Sequence[str] | None = None, lenient: bool = False
) -> Table:
    """Return `data` as a table with at least one row and one column.

    Parameters
    ----------
    data : object
        Two-dimensional array, list of lists, mapping from name to column, pandas or polars table; kept, not copied.
    subject : str
        What error messages call the table, such as "X".
    feature_names : sequence of str or None
        Names of the columns; for a pandas or polars table they replace its own.
    lenient : bool
        Whether rows of lists that hold anything but numbers, or have a different length, become infinite, and so
        invalid as records, instead of an error.
    """
    table = _open(data, subject=subject, lenient=lenient)
    if 0 in table.shape:
        remedy = "Leave a site without records out of the federation."
        raise InvalidParameter(subject, "have at least one row and one column", f"shape {table.shape}", remedy)
    if feature_names is not None:
        table.names = checked_names(feature_names, n_columns=table.shape[1], subject=subject)
    if len(set(table.names)) != len(table.names):
        raise InvalidParameter(f"Column names of {subject}", "be unique", "duplicates", "Rename them.")
    return table


def to_numbers(values: AnyArray, *, subject: str, lenient: bool = False) -> AnyArray:
    """Return a column as numbers with NaN where a value is missing; refuse text, dates and the like.

    If ``lenient``, single values of an object column that are no numbers become infinite instead.
    """
    if values.dtype.kind in NUMERIC_KINDS:
        return values
    if lenient and values.dtype.kind == "O":
        return np.fromiter((_lenient_number(value) for value in values), dtype=np.float64, count=len(values))
    if values.dtype.kind != "O":
        raise _not_numeric(subject, kind_of(values))
    return np.fromiter((_to_number(value, subject) for value in values), dtype=np.float64, count=len(values))


def kind_of(values: AnyArray) -> str:
    """Return what a column holds, in words; NumPy's own name would reveal the length of the longest text."""
    names = {"U": "text", "S": "bytes", "O": "objects", "c": "complex numbers", "M": "dates", "m": "durations"}
    return "numbers" if values.dtype.kind in NUMERIC_KINDS else names.get(values.dtype.kind, "something else")


def is_missing(value: object) -> bool:
    """Tell whether one entry of an object column is a missing value (None, NaN, pandas' NA and NaT)."""
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas' NA has no truth value; a value that cannot be compared with itself is missing too.
        return True


def vector(data: object, *, subject: str, n_rows: int, lenient: bool = False) -> AnyArray:
    """Return a response or label column as a one-dimensional array of `n_rows` values.

    If ``lenient``, a list of mixed values stays one of objects, so that a single text does not make all of them text.
    """
    if isinstance(data, np.ma.MaskedArray):
        raise _masked(subject)
    values = np.asarray(_own_types(data)) if lenient and isinstance(data, list | tuple) else _column_values(data)
    if values.shape != (n_rows,):
        must = f"be one-dimensional with one entry per row of X ({n_rows})"
        raise InvalidParameter(subject, must, f"shape {values.shape}", "Pass a single column in the order of the rows.")
    return values


def _open(data: Any, *, subject: str, lenient: bool = False) -> Table:
    """Choose the reader by what the object offers."""
    kind = type(data)
    if isinstance(data, Mapping):
        return ColumnTable(data, subject=subject)
    if hasattr(kind, "iloc") and hasattr(kind, "columns"):
        return PandasTable(data, subject=subject)
    if hasattr(kind, "get_columns") and hasattr(kind, "height"):
        return PolarsTable(data, subject=subject)
    if hasattr(kind, "collect") or hasattr(kind, "column_names"):
        # Lazy tables would be evaluated per block, and other tables would lose their column names.
        remedy = "Collect or convert it first."
        raise InvalidParameter(subject, "be an array or a pandas or polars table", kind.__name__, remedy)
    return ArrayTable(data, subject=subject, lenient=lenient)


def _numeric_array(data: Any, *, subject: str, lenient: bool = False) -> AnyArray:
    """Return a two-dimensional numeric array, memory maps left mapped."""
    if isinstance(data, np.ma.MaskedArray):
        raise _masked(subject)
    if issparse(data):
        raise InvalidParameter(subject, "be a dense array", "a sparse one", "Use documents() for word counts.")
    if lenient and isinstance(data, list | tuple):
        data = _rows_of_numbers(data)
    try:
        array = np.asarray(data)
    except ValueError as error:
        must = "have rows of equal length"
        raise InvalidParameter(subject, must, "unequal ones", "Give every record the same columns.") from error
    if array.dtype.kind not in NUMERIC_KINDS:
        raise _not_numeric(subject, kind_of(array))
    if array.ndim != 2:
        remedy = "Reshape it so that each record is one row."
        raise InvalidParameter(subject, "have two dimensions, one row per record", f"shape {array.shape}", remedy)
    return array


def _rows_of_numbers(data: Sequence[Any]) -> Any:
    """Return a list of rows in which unreadable rows are infinite; what is no list of rows is returned unchanged."""
    if not data or not all(isinstance(row, list | tuple | np.ndarray) for row in data):
        return data
    lengths = [len(row) for row in data]
    width = max(set(lengths), key=lambda length: (lengths.count(length), -length))
    numbers = [
        row if len(row) == width and all(isinstance(value, Real) for value in row) else _lenient_row(row, width)
        for row in data
    ]
    # An integer too large for NumPy's types would turn the whole array into objects.
    is_plain = np.asarray(numbers).dtype.kind in NUMERIC_KINDS
    return numbers if is_plain else [_lenient_row(row, width) for row in numbers]


def _lenient_row(row: Sequence[object], width: int) -> list[float]:
    """Return a row as numbers: NaN where a value is missing, infinite where it is something else."""
    if len(row) != width:
        return [float("inf")] * width
    return [_lenient_number(value) for value in row]


def _lenient_number(value: object) -> float:
    try:
        return _to_number(value, "")
    except InvalidParameter:
        return float("inf")


def checked_names(names: Sequence[str], *, n_columns: int, subject: str) -> tuple[str, ...]:
    """Return the names as text, one per column."""
    labels = (names,) if isinstance(names, str) else tuple(str(name) for name in names)
    if len(labels) != n_columns:
        must = f"be one name per column ({n_columns})"
        raise InvalidParameter(f"feature_names of {subject}", must, len(labels), "List every column once, in order.")
    return labels


def _side_by_side(table: ColumnTable | PandasTable | PolarsTable, rows: slice, columns: Sequence[int]) -> AnyArray:
    """Return columns of mixed storage as one block of numbers."""
    return np.column_stack(
        [to_numbers(table.values(rows, column), subject=f"column {table.names[column]!r}") for column in columns]
    )


def _column_values(data: Any) -> AnyArray:
    """Return a pandas or polars column, or anything array-like; where values are missing, as NaN or None."""
    kind = type(data)
    if hasattr(kind, "null_count"):
        return _objects(data.to_list()) if data.null_count() else np.asarray(data)
    if hasattr(kind, "iloc") and data.ndim == 1 and data.dtype.kind not in NUMERIC_KINDS:
        values: AnyArray = data.to_numpy(dtype=object, na_value=None)
        return values
    return np.asarray(data)


def _own_types(column: object) -> AnyArray | Words:
    """Return a column in which each entry has the type it came with.

    NumPy finds one type for a whole list: a single text would turn the numbers of all other records into text.
    """
    if isinstance(column, Words):
        return column
    if not isinstance(column, list | tuple):
        return np.asarray(column)
    try:
        array = np.asarray(column)
    except ValueError:  # Some entries are lists.
        return _objects(column)
    is_plain = array.dtype.kind in NUMERIC_KINDS or all(isinstance(value, str) for value in column)
    return array if is_plain or array.ndim != 1 else _objects(column)


def _to_number(value: object, subject: str) -> float:
    """Return one entry of an object column as a float, NaN if missing."""
    if is_missing(value):
        return float("nan")
    if not isinstance(value, Real | Decimal):
        raise _not_numeric(subject, "other values")
    try:
        return float(value)
    except OverflowError:
        return float("inf")  # Refused later, with the same words as any other infinity.


def _objects(values: Sequence[object]) -> AnyArray:
    """Return a one-dimensional object array, also when the entries are sequences."""
    array = np.empty(len(values), dtype=object)
    # One at a time: NumPy would unpack entries that are lists.
    for at, value in enumerate(values):
        array[at] = value
    return array


def _not_numeric(subject: str, got: str) -> InvalidParameter:
    """Say that numbers are needed."""
    return InvalidParameter(subject, "hold numbers", got, _NUMBERS.get(subject, _LEVELS))


def _masked(subject: str) -> InvalidParameter:
    """Refuse masked arrays, whose hidden values would otherwise be read."""
    remedy = "Put NaN where values are missing and declare missing=."
    return InvalidParameter(subject, "be a plain array", "a masked one", remedy)
