"""Readers of tables with named columns, batch by batch: CSV, Parquet and Arrow files."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import itertools
import os
import warnings
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import IO, TYPE_CHECKING, Any, cast

import numpy as np

from dpcape.core.arrays import AnyArray
from dpcape.core.errors import InvalidParameter, UtilityWarning
from dpcape.core.lazy import extra_module
from dpcape.records.data_plan import Columns, selected
from dpcape.records.readers import csv_mistakes
from dpcape.records.readers.cells import (
    MISSING,
    Batch,
    Wanted,
    arrow_column,
    arrow_numbers,
    column_of,
    is_no_number,
    stripped,
)
from dpcape.records.sources import Source, Stamp, is_much
from dpcape.schema.table import Words

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as pads

_SCAN_BYTES = 2**20
# Bytes of a CSV file that are parsed together, and at least this many per cell of a line.
_BLOCK_BYTES, _CELL_BYTES = 2**22, 2**8
# Numbers per batch: 4 MiB. Batches and files decoded ahead; they bound the memory for any size.
BATCH_ENTRIES = 2**19
_BATCHES_AHEAD, _FILES_AHEAD = 1, 1
# How much smaller a gzipped table usually is.
_GZIP = 4


class ByColumn(Source):
    """A source of named columns, read batch by batch, or whole.

    Parameters
    ----------
    title : str
        What messages call it.
    """

    def __init__(self, title: str) -> None:
        self.title = title
        self._first_mistake: InvalidParameter | None = None
        self._n_mistakes = 0
        self._is_told = False

    @abstractmethod
    def _batches(self, wanted: Sequence[Wanted], n_rows: int) -> Iterator[Batch]:
        """Yield batches of about ``n_rows`` rows."""

    def batches(self, wanted: Sequence[Wanted], n_rows: int) -> Iterator[Batch]:
        """Yield all rows in batches of any length, from the first on; see :class:`~dpcape.records.sources.Source`."""
        self._first_mistake, self._n_mistakes = None, 0
        return self._batches(wanted, n_rows)

    def _mistaken(self, mistake: InvalidParameter) -> None:
        """Remember a cell or line that makes a record invalid."""
        self._first_mistake = self._first_mistake or mistake
        self._n_mistakes += 1

    def tell(self, *, refuses: bool) -> None:
        """Tell the site's own user, once, what could not be read; raise it where such records are refused."""
        if self._first_mistake is None:
            return
        if refuses:
            raise self._first_mistake
        if self._is_told:
            return
        self._is_told = True
        warnings.warn(
            f"{self._first_mistake} Entries of this kind: {self._n_mistakes}. Each makes its own record invalid, or "
            "counts as missing in a table. This message stays here.",
            UtilityWarning,
            stacklevel=4,
        )

    def _read(self, texts: Mapping[str, bool]) -> dict[str, AnyArray]:
        """Return whole columns; ``texts`` maps each name to whether it is read as text."""
        wanted = tuple(texts.items())
        parts = list(self.batches(wanted, max(1, BATCH_ENTRIES // max(1, len(wanted)))))
        if not parts:
            return {name: np.empty(0, dtype=object if is_text else np.float64) for name, is_text in wanted}
        # Each part gives up its column, so that only one column is there twice.
        return {key[0]: np.concatenate([np.asarray(part.pop(key)) for part in parts]) for key in wanted}

    def table(self, columns: Columns) -> Any:
        """Return the raw columns: one array of numbers, or a mapping if some are text."""
        names = selected(self.names(), columns, subject=self.title)
        texts = {name: columns.is_text(name) for name in names}
        values = self._read(texts)
        if any(texts.values()):
            return {name: values[name] for name in names}
        return np.column_stack([values[name] for name in names])

    def vector(self, name: str, *, text: bool) -> AnyArray:
        """Return one column."""
        selected(self.names(), Columns((name,), 1), subject=self.title)
        return self._read({name: text})[name]

    def counts(self, columns: Columns) -> object:
        """Return word counts, one column per word."""
        return self.table(columns)

    def series(self, columns: Columns, subject: str | None) -> Sequence[AnyArray]:
        """Return one array per subject; ``subject`` names the column that identifies subjects."""
        if subject is None:
            must = f"be given in [data] to split {self.title} by subject"
            remedy = "Name the column that identifies subjects, or keep one file per subject."
            raise InvalidParameter("subject", must, "none", remedy)
        owners = self.vector(subject, text=True)
        if any(owner is None for owner in owners):
            must, remedy = "identify the subject of every row", "Complete it, or leave such rows out by a public rule."
            raise InvalidParameter(f"Column {subject!r}", must, "rows without an entry", remedy)
        table = self.table(columns)
        return [table[owners == owner] for owner in sorted(set(owners.tolist()))]

    def text_batches(self) -> Iterator[dict[str, AnyArray]]:
        """Yield all columns as text, some rows at a time."""
        wanted = [(name, True) for name in self.names()]
        for batch in self.batches(wanted, max(1, BATCH_ENTRIES // len(wanted))):
            yield {name: np.asarray(values) for (name, _), values in batch.items()}

    def _from_arrow(self, batches: Iterable[pa.RecordBatch], wanted: Sequence[Wanted]) -> Iterator[Batch]:
        """Yield record batches as arrays; each cell is converted by itself."""
        start = 0
        for batch in batches:
            columns: Batch = {}
            for name, is_text in wanted:
                cells = batch.column(name)
                values = columns[name, is_text] = arrow_column(cells, is_text)
                self._look_at(name, cells, values, start)
            yield columns
            start += batch.num_rows

    def _look_at(self, name: str, cells: pa.Array | list[object], numbers: AnyArray | Words, start: int) -> None:
        """Remember cells that should be numbers and are none."""
        if isinstance(numbers, Words) or numbers.dtype == object or not np.isinf(numbers).any():
            return
        for at in np.flatnonzero(np.isinf(numbers)).tolist():
            if is_no_number(cells[at] if isinstance(cells, list) else cells[at].as_py()):
                self._mistaken(csv_mistakes.no_number(f"{self.title}, record {start + at + 1}", name, ""))


class CsvFile(ByColumn):
    """A table with a header line, separated by commas (or by tabs if its name says .tsv), maybe gzipped."""

    def __init__(self, path: Path) -> None:
        super().__init__(path.name)
        self._path = path
        self._checked: tuple[Stamp, _Content | None] | None = None

    @property
    def _delimiter(self) -> str:
        return "\t" if ".tsv" in self._path.name.lower() else ","

    @property
    def _is_gzipped(self) -> bool:
        return self._path.suffix.lower() == ".gz"

    def _bytes(self) -> IO[bytes]:
        return cast("IO[bytes]", gzip.open(self._path)) if self._is_gzipped else self._path.open("rb")

    def _open(self) -> IO[str]:
        # Bytes that are not UTF-8 make their own cell unusable; see `_rows`.
        return io.TextIOWrapper(self._bytes(), encoding="utf-8-sig", errors="surrogateescape", newline="")

    def stamp(self) -> Stamp:
        """Return name, size and time of the file."""
        return stamp_of([self._path])

    def is_large(self) -> bool:
        """Return whether the file would take much memory."""
        return is_much(self._path.stat().st_size * (_GZIP if self._is_gzipped else 1))

    def names(self) -> Sequence[str]:
        """Return the names of all columns, as the header has them."""
        with self._open() as stream:
            try:
                names = next(csv.reader(stream, delimiter=self._delimiter), [])
            except (csv.Error, OSError, EOFError) as error:
                raise csv_mistakes.malformed(self._path, 1) from error
        if not all(map(_is_utf8, names)):
            raise self._not_utf8()
        csv_mistakes.check_header(self._path, names, self._delimiter)
        return names

    def _not_utf8(self) -> InvalidParameter:
        with self._bytes() as stream:
            return csv_mistakes.not_utf8(self._path, stream)

    def _batches(self, wanted: Sequence[Wanted], n_rows: int) -> Iterator[Batch]:
        names, content = self.names(), self._content()
        if content is None:
            yield from self._by_cell(names, wanted, n_rows)
            return
        start = 0
        for batch in self._parsed(content, names, sorted({name for name, _ in wanted})):
            columns: Batch = {}
            for name, is_text in wanted:
                cells = batch.column(name)
                if is_text:
                    columns[name, is_text] = arrow_column(cells, True, stripped)
                    continue
                numbers = columns[name, is_text] = arrow_numbers(cells)
                for at in np.flatnonzero(np.isinf(numbers)).tolist():
                    self._look_at_cell(name, cells[at].as_py(), start + at)
            yield columns
            start += batch.num_rows

    def _look_at_cell(self, name: str, cell: str, row: int) -> None:
        if not is_no_number(cell):
            return
        # Only the first mistake is shown, and finding its line takes time.
        line = 0 if self._first_mistake is not None else self._line_of(row)
        self._mistaken(csv_mistakes.no_number(f"{self.title}, line {line}", name, cell.strip()))

    def _line_of(self, row: int) -> int:
        """Return the line in which a record stands."""
        with self._open() as stream:
            lines = csv.reader(stream, delimiter=self._delimiter)
            records = (lines.line_num for cells in lines if cells)
            return next(itertools.islice(records, row + 1, None), 0)

    def _content(self) -> _Content | None:
        """Return what must be known to have Arrow divide the file into cells; None if Python must do it."""
        stamp = self.stamp()
        if self._checked is None or self._checked[0] != stamp:
            self._checked = stamp, self._looked_through()
        return self._checked[1]

    def _looked_through(self) -> _Content | None:
        try:
            arrow = import_module("pyarrow")
        except ImportError:
            return None
        content = _scanned(self._bytes)
        if content is None:
            return None
        names = self.names()
        try:
            # Lines of another length, and quotation marks that Arrow does not read, are found before a row is used.
            for _ in self._parsed(content, names, [names[0]]):
                pass
        except (arrow.ArrowException, OSError):
            return None
        return content

    def _parsed(self, content: _Content, names: Sequence[str], chosen: list[str]) -> Iterator[pa.RecordBatch]:
        """Yield batches of cells as text, null where they mean a missing value."""
        arrow, reader = import_module("pyarrow"), import_module("pyarrow.csv")
        convert = reader.ConvertOptions(
            column_types=dict.fromkeys(chosen, arrow.string()),
            include_columns=chosen,
            null_values=sorted(spelling for word in MISSING for spelling in _spellings(word)),
            strings_can_be_null=True,
        )
        # Only quoted cells can contain line breaks, and looking for line breaks inside cells is slow.
        parse = reader.ParseOptions(delimiter=self._delimiter, newlines_in_values=content.has_quotes)
        block = reader.ReadOptions(block_size=max(_BLOCK_BYTES, _CELL_BYTES * len(names)), column_names=list(names))
        with arrow.input_stream(str(self._path), compression="gzip" if self._is_gzipped else None) as stream:
            batches = reader.open_csv(stream, read_options=block, parse_options=parse, convert_options=convert)
            # With names given, the header is the first row.
            for number, batch in enumerate(batches):
                yield batch if number else batch.slice(1)

    def _by_cell(self, names: Sequence[str], wanted: Sequence[Wanted], n_rows: int) -> Iterator[Batch]:
        """Yield batches read with Python's csv and float: the reference for Arrow's."""
        with self._open() as stream:
            rows = self._rows(stream, len(names))
            while part := list(itertools.islice(rows, n_rows)):
                columns: Batch = {}
                for name, is_text in wanted:
                    at = names.index(name)
                    cells = [None if row is None else row[at] for _, row in part]
                    values = columns[name, is_text] = column_of(cells, is_text, stripped)
                    if is_text:
                        continue
                    for number, (line, row) in enumerate(part):
                        if row is None:
                            values[number] = np.inf
                        elif is_no_number(row[at]):
                            where = f"{self.title}, line {line}"
                            self._mistaken(csv_mistakes.no_number(where, name, row[at].strip()))
                yield columns

    def _rows(self, stream: IO[str], n_columns: int) -> Iterator[tuple[int, list[str] | None]]:
        """Yield the line and the cells of each record; no cells where there are more or fewer than names."""
        lines = csv.reader(stream, delimiter=self._delimiter)
        try:
            next(lines, None)
            for row in lines:
                if not row:
                    continue
                if len(row) != n_columns:
                    self._mistaken(csv_mistakes.wrong_length(self._path, lines.line_num, len(row), n_columns))
                    yield lines.line_num, None
                    continue
                if not all(map(_is_utf8, row)):
                    self._mistaken(self._not_utf8() if self._first_mistake is None else self._first_mistake)
                    row = [_replaced(cell) for cell in row]
                yield lines.line_num, row
        except (csv.Error, OSError, EOFError) as error:
            raise csv_mistakes.malformed(self._path, lines.line_num) from error


class ArrowSet(ByColumn):
    """A data set of pyarrow."""

    def __init__(self, title: str, data: pads.Dataset) -> None:
        super().__init__(title)
        self._data = data

    def names(self) -> Sequence[str]:
        """Return the names of all columns, those in names of folders included."""
        return list(self._data.schema.names)

    def _batches(self, wanted: Sequence[Wanted], n_rows: int) -> Iterator[Batch]:
        columns = sorted({name for name, _ in wanted})
        sets, options = import_module("pyarrow.dataset"), {}
        if isinstance(getattr(self._data, "format", None), sets.ParquetFileFormat):
            # Otherwise several row groups are in memory at a time, each of them whole.
            options["fragment_scan_options"] = sets.ParquetFragmentScanOptions(
                pre_buffer=False, use_buffered_stream=True
            )
        batches = self._data.to_batches(
            columns=columns,
            batch_size=n_rows,
            batch_readahead=_BATCHES_AHEAD,
            fragment_readahead=_FILES_AHEAD,
            # Arrow's own threads would decode up to 1 GiB ahead of a slow statistic; dpcape reads ahead by itself.
            use_threads=False,
            **options,
        )
        return self._from_arrow(batches, wanted)

    def stamp(self) -> Stamp | None:
        """Return names, sizes and times of the files; None where there are none."""
        files, system = getattr(self._data, "files", None), getattr(self._data, "filesystem", None)
        if not files or system is None:
            return None
        return tuple((entry.path, entry.size or 0, entry.mtime_ns or 0) for entry in system.get_file_info(files))


class TableFiles(ArrowSet):
    """Parquet or Arrow files: one, or a folder of them, perhaps divided into folders named COLUMN=VALUE."""

    def __init__(self, path: Path, form: str = "parquet") -> None:
        ByColumn.__init__(self, path.name)
        self._path, self._form = path, form

    @cached_property
    def _data(self) -> pads.Dataset:
        sets, systems = import_module("pyarrow.dataset"), import_module("pyarrow.fs")
        # A local path, even if its name looks like a URL.
        local = systems.LocalFileSystem()
        partitioning = "hive" if self._path.is_dir() else None
        return sets.dataset(str(self._path.absolute()), format=self._form, partitioning=partitioning, filesystem=local)

    def is_large(self) -> bool:
        """Return whether the files would take much memory, as numbers of eight bytes."""
        if not self._has_arrow:
            return False
        return is_much(int(self._data.count_rows()) * len(self._data.schema.names) * 8)

    @property
    def _has_arrow(self) -> bool:
        try:
            import_module("pyarrow.dataset")
        except ImportError:
            return False
        return True

    def names(self) -> Sequence[str]:
        """Return the names of all columns, those in names of folders included."""
        return super().names() if self._has_arrow else list(self._scan().collect_schema())

    def _batches(self, wanted: Sequence[Wanted], n_rows: int) -> Iterator[Batch]:
        if self._has_arrow:
            yield from super()._batches(wanted, n_rows)
            return
        frame = self._scan().select(sorted({name for name, _ in wanted})).collect()
        for part in frame.iter_slices(n_rows):
            yield {(name, is_text): column_of(part[name].to_list(), is_text) for name, is_text in wanted}

    def _scan(self) -> Any:
        """Return the files as polars has them, where that is what is installed."""
        pattern = self._path / "**" / "*.parquet" if self._path.is_dir() else self._path
        return _polars().scan_parquet(str(pattern), hive_partitioning=self._path.is_dir())

    def stamp(self) -> Stamp | None:
        """Return names, sizes and times of the files."""
        return super().stamp() if self._has_arrow else None


class _Content:
    """Properties of a file's bytes."""

    def __init__(self) -> None:
        self.has_quotes = False


def _scanned(open_bytes: Any) -> _Content | None:
    """Return what a file holds, or None if it is not UTF-8 throughout or holds zero bytes."""
    content, decoder = _Content(), codecs.getincrementaldecoder("utf-8")()
    try:
        with open_bytes() as stream:
            while block := stream.read(_SCAN_BYTES):
                if b"\0" in block:
                    return None
                content.has_quotes = content.has_quotes or b'"' in block
                if not block.isascii() or decoder.getstate()[0]:
                    decoder.decode(block)
        decoder.decode(b"", final=True)
    except (UnicodeDecodeError, OSError, EOFError):
        return None
    return content


def stamp_of(paths: Iterable[Path]) -> Stamp:
    """Return names, sizes and times of files."""
    return tuple((str(path), state.st_size, state.st_mtime_ns) for path in paths for state in [os.stat(path)])


def _is_utf8(cell: str) -> bool:
    """Tell whether all bytes of a cell were UTF-8; others are surrogates here."""
    return cell.isascii() or not any("\udc80" <= sign <= "\udcff" for sign in cell)


def _replaced(cell: str) -> str:
    """Return a cell with a sign that no number and no level has in place of bytes that are not UTF-8."""
    return cell.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _spellings(word: str) -> list[str]:
    """Return a word in every mixture of lower and upper case."""
    return ["".join(letters) for letters in itertools.product(*({letter, letter.upper()} for letter in word))]


def _polars() -> ModuleType:
    return extra_module("polars", "The package pyarrow for Parquet files", "parquet")
