"""Readers of tables with named columns: CSV, Parquet, and columns that are in memory."""

from __future__ import annotations

import csv
import gzip
import io
from abc import ABC, abstractmethod
from array import array
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import IO, Any

import numpy as np

from dpcape.core.arrays import AnyArray
from dpcape.core.errors import DpcapeError, InvalidParameter
from dpcape.core.lazy import extra_module
from dpcape.records.data_plan import Columns, selected
from dpcape.records.readers import csv_mistakes
from dpcape.records.readers.columnar import csv_columns, large_set, parquet_columns, parquet_set, set_columns

# Spellings of missing values in common software.
_MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "."})
_NO_NUMBER = object()


class ByColumn(ABC):
    """A file of named columns; subclasses read some of them."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @abstractmethod
    def _read(self, texts: Mapping[str, bool]) -> dict[str, AnyArray]:
        """Return the columns in ``texts``, which maps each name to whether it holds text."""

    def table(self, columns: Columns) -> Any:
        """Return the raw columns: one array of numbers, or a mapping if some are text."""
        names = selected(self.names(), columns, subject=self._path.name)
        texts = {name: columns.is_text(name) for name in names}
        values = self._read(texts)
        if any(texts.values()):
            return {name: values[name] for name in names}
        return np.column_stack([values[name] for name in names])

    def vector(self, name: str, *, text: bool) -> AnyArray:
        """Return one column."""
        selected(self.names(), Columns((name,), 1), subject=self._path.name)
        return self._read({name: text})[name]

    def counts(self, columns: Columns) -> object:
        """Return word counts, one column per word."""
        return self.table(columns)

    def series(self, columns: Columns, subject: str | None) -> Sequence[AnyArray]:
        """Return one array per subject; ``subject`` names the column that identifies subjects."""
        if subject is None:
            must = f"be given in [data] to split {self._path.name} by subject"
            remedy = "Name the column that identifies subjects, or keep one file per subject."
            raise InvalidParameter("subject", must, "none", remedy)
        owners = self.vector(subject, text=True)
        if any(owner is None for owner in owners):
            must, remedy = "identify the subject of every row", "Complete it, or leave such rows out by a public rule."
            raise InvalidParameter(f"Column {subject!r}", must, "rows without an entry", remedy)
        table = self.table(columns)
        return [table[owners == owner] for owner in sorted(set(owners.tolist()))]

    @abstractmethod
    def names(self) -> Sequence[str]:
        """Return the names of all columns."""

    def texts(self) -> dict[str, AnyArray]:
        """Return all columns as text."""
        return self._read(dict.fromkeys(self.names(), True))

    def large(self) -> object | None:
        """Return files that would take much memory as a data set, to be read window by window; None for others."""
        return None


class CsvFile(ByColumn):
    """A table with a header line, separated by commas (or by tabs if its name says .tsv), maybe gzipped."""

    @property
    def _delimiter(self) -> str:
        return "\t" if ".tsv" in self._path.name.lower() else ","

    @property
    def _is_gzipped(self) -> bool:
        return self._path.suffix.lower() == ".gz"

    def _open(self) -> IO[str]:
        if self._is_gzipped:
            return io.TextIOWrapper(gzip.open(self._path), encoding="utf-8-sig", newline="")
        return self._path.open(encoding="utf-8-sig", newline="")

    def names(self) -> Sequence[str]:
        """Return the names of all columns, as the header has them."""
        with self._open() as stream:
            try:
                names = next(csv.reader(stream, delimiter=self._delimiter), [])
            except (UnicodeDecodeError, csv.Error) as error:
                raise self._mistake(error, 1) from error
        csv_mistakes.check_header(self._path, names, self._delimiter)
        return names

    def _mistake(self, error: Exception, line: int) -> DpcapeError:
        if not isinstance(error, UnicodeDecodeError):
            return csv_mistakes.malformed(self._path, line)
        if self._is_gzipped:
            return csv_mistakes.not_utf8(self._path, io.BytesIO(gzip.decompress(self._path.read_bytes())))
        with self._path.open("rb") as stream:
            return csv_mistakes.not_utf8(self._path, stream)

    def _read(self, texts: Mapping[str, bool]) -> dict[str, AnyArray]:
        names = self.names()
        columns = csv_columns(self._path, names, texts, delimiter=self._delimiter, missing=_MISSING)
        return self._by_cell(names, texts) if columns is None else columns

    def _by_cell(self, names: Sequence[str], texts: Mapping[str, bool]) -> dict[str, AnyArray]:
        """Read cell by cell with Python's csv and float: the reference for the faster readers."""
        positions = {name: names.index(name) for name in texts}
        cells: dict[str, Any] = {name: [] if is_text else array("d") for name, is_text in texts.items()}
        with self._open() as stream:
            lines = csv.reader(stream, delimiter=self._delimiter)
            try:
                next(lines)
                for row in lines:
                    if len(row) != len(names):
                        if not row:
                            continue
                        raise csv_mistakes.wrong_length(self._path, lines.line_num, len(row), len(names))
                    for name, position in positions.items():
                        cell = _cell(row[position], texts[name])
                        if cell is _NO_NUMBER:
                            raise csv_mistakes.no_number(self._path, lines.line_num, name, row[position].strip())
                        cells[name].append(cell)
            except (UnicodeDecodeError, csv.Error) as error:
                raise self._mistake(error, lines.line_num) from error
        return {
            name: np.array(values, dtype=object) if texts[name] else np.frombuffer(values, dtype=np.float64)
            for name, values in cells.items()
        }


class _Parquet(ByColumn):
    """Parquet files, read with pyarrow, or with polars where that is what is installed."""

    def large(self) -> object | None:
        """Return files that would take much memory as a data set."""
        return large_set(self._path)


class ParquetFile(_Parquet):
    """A Parquet file."""

    def _read(self, texts: Mapping[str, bool]) -> dict[str, AnyArray]:
        columns = parquet_columns(self._path, texts)
        if columns is None:
            columns = _polars().read_parquet(self._path, columns=list(texts)).to_dict(as_series=False)
        return {name: column_of(name, columns[name], is_text) for name, is_text in texts.items()}

    def names(self) -> Sequence[str]:
        """Return the names of all columns."""
        try:
            return list(import_module("pyarrow.parquet").read_schema(self._path).names)
        except ImportError:
            return list(_polars().read_parquet_schema(self._path))


class ParquetSet(_Parquet):
    """A folder of Parquet files that are one table, perhaps divided into folders named COLUMN=VALUE."""

    def _read(self, texts: Mapping[str, bool]) -> dict[str, AnyArray]:
        dataset = parquet_set(self._path)
        if dataset is None:
            cells = _polars().read_parquet(self._pattern, columns=list(texts), hive_partitioning=True)
            columns = cells.to_dict(as_series=False)
        else:
            columns = set_columns(dataset, texts)
        return {name: column_of(name, columns[name], is_text) for name, is_text in texts.items()}

    def names(self) -> Sequence[str]:
        """Return the names of all columns, those in names of folders included."""
        dataset = parquet_set(self._path)
        if dataset is not None:
            return list(dataset.schema.names)
        return list(_polars().scan_parquet(self._pattern, hive_partitioning=True).collect_schema())

    @property
    def _pattern(self) -> str:
        return str(self._path / "**" / "*.parquet")


class ColumnsInMemory(ByColumn):
    """Columns already in memory, such as the result of a query.

    Parameters
    ----------
    title : str
        What messages call them.
    columns : mapping
        Name to array of numbers (NaN where one is missing) or of objects (None).
    """

    def __init__(self, title: str, columns: Mapping[str, AnyArray]) -> None:
        super().__init__(Path(title))
        self._columns = dict(columns)

    def _read(self, texts: Mapping[str, bool]) -> dict[str, AnyArray]:
        columns = {}
        for name, is_text in texts.items():
            column = self._columns[name]
            if column.dtype.kind in "biuf" and not is_text:
                columns[name] = column.astype(np.float64)
            else:
                columns[name] = column_of(name, [_as_cell(value) for value in column.tolist()], is_text)
        return columns

    def names(self) -> Sequence[str]:
        """Return the names of all columns."""
        return list(self._columns)


def _as_cell(value: object) -> object:
    """Return a value as a CSV file would hold it: a whole number without a point, None where one is missing.

    It depends on the value alone: text elsewhere in the column must not change how its numbers are written.
    """
    if not isinstance(value, float):
        return value
    if value != value:
        return None
    return int(value) if value.is_integer() else value


def is_missing(text: str) -> bool:
    """Return whether a cell means a missing value."""
    return text.strip().lower() in _MISSING


def _cell(cell: str, is_text: bool) -> object:
    """Return one cell, or raise an error if it is not a number."""
    stripped = cell.strip()
    if is_missing(stripped):
        return None if is_text else float("nan")
    if is_text:
        return stripped
    try:
        return float(stripped)
    except ValueError:
        return _NO_NUMBER


def column_of(name: str, values: AnyArray | Sequence[object], is_text: bool) -> AnyArray:
    """Return a column that came as cells of any type, or as an array that is right already."""
    if isinstance(values, np.ndarray):
        return values
    if is_text:
        return np.array([None if value is None else str(value) for value in values], dtype=object)
    cells = [_cell("" if value is None else str(value), False) for value in values]
    if any(cell is _NO_NUMBER for cell in cells):
        remedy = "Correct the file, or declare the column's levels."
        raise InvalidParameter(f"Column {name!r}", "hold numbers", "text", remedy)
    return np.array(cells, dtype=np.float64)


def _polars() -> ModuleType:
    return extra_module("polars", "The package pyarrow for Parquet files", "parquet")
