"""Read whole columns with pyarrow; return None where the result could differ from reading cell by cell."""

from __future__ import annotations

import codecs
import gzip
import itertools
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypeAlias, cast

import numpy as np

from dpcape.core.arrays import AnyArray

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as pads

    Column: TypeAlias = pa.ChunkedArray

_SCAN_BYTES = 2**20

LARGE_BYTES = 2**30
"""Size, as numbers of eight bytes, from which Parquet files are read window by window instead of whole."""


def csv_columns(
    path: Path, names: Sequence[str], texts: Mapping[str, bool], *, delimiter: str, missing: frozenset[str]
) -> dict[str, AnyArray] | None:
    """Return columns of a CSV file, or None if it must be read cell by cell.

    Parameters
    ----------
    path : Path
        The file, maybe gzipped.
    names : sequence of str
        All columns, as its header has them.
    texts : mapping
        The columns to read, each with whether it holds text.
    delimiter : str
        What separates cells.
    missing : frozenset of str
        Lower-case cells that mean a missing value.
    """
    try:
        arrow, reader = import_module("pyarrow"), import_module("pyarrow.csv")
    except ImportError:
        return None
    content = _scanned(path)
    if content is None:
        return None
    words = arrow.dictionary(arrow.int32(), arrow.string())
    convert = reader.ConvertOptions(
        column_types={name: words if is_text else arrow.float64() for name, is_text in texts.items()},
        include_columns=list(texts),
        null_values=sorted(spelling for word in missing for spelling in _spellings(word)),
        strings_can_be_null=False,
    )
    # Only quoted cells can contain line breaks, and looking for line breaks inside cells is slow.
    parse = reader.ParseOptions(delimiter=delimiter, newlines_in_values=content.has_quotes)
    try:
        with arrow.input_stream(str(path), compression="gzip" if _is_gzipped(path) else None) as stream:
            header = reader.open_csv(stream, parse_options=parse).schema.names
        if list(header) != list(names):
            return None
        with arrow.input_stream(str(path), compression="gzip" if _is_gzipped(path) else None) as stream:
            table = reader.read_csv(stream, parse_options=parse, convert_options=convert)
    except (arrow.ArrowException, OSError):
        return None
    columns: dict[str, AnyArray] = {}
    for name, is_text in texts.items():
        column = _words(table[name], missing) if is_text else _numbers(table[name])
        if column is None:
            return None
        columns[name] = column
    return columns


def parquet_columns(path: Path, texts: Mapping[str, bool]) -> dict[str, AnyArray | list[object]] | None:
    """Return columns of a Parquet file, as arrays where all cells are alike and as lists of cells otherwise.

    None if pyarrow is not installed.
    """
    try:
        arrow, reader = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError:
        return None
    kinds, schema = arrow.types, reader.read_schema(path)
    words = [name for name, is_text in texts.items() if is_text and kinds.is_string(schema.field(name).type)]
    return by_type(reader.read_table(path, columns=list(texts), read_dictionary=words), texts)


def parquet_set(path: Path) -> pads.Dataset | None:
    """Return a folder of Parquet files, perhaps divided by values of columns, as one; None without pyarrow."""
    try:
        sets, systems = import_module("pyarrow.dataset"), import_module("pyarrow.fs")
    except ImportError:
        return None
    # A local path, even if its name looks like a URL.
    local = systems.LocalFileSystem()
    return sets.dataset(str(path.absolute()), format="parquet", partitioning="hive", filesystem=local)


def large_set(path: Path) -> pads.Dataset | None:
    """Return a Parquet file, or a folder of them, as a data set if reading it whole would take much memory.

    None if it would not, if there are no such files, or without pyarrow.
    """
    if path.is_dir() and next(path.rglob("*.parquet"), None) is None:
        return None
    dataset = parquet_set(path) if path.exists() else None
    if dataset is None:
        return None
    n_entries = dataset.count_rows() * len(dataset.schema.names)
    return dataset if n_entries * 8 > LARGE_BYTES else None


def set_columns(dataset: pads.Dataset, texts: Mapping[str, bool]) -> dict[str, AnyArray | list[object]]:
    """Return columns of a folder of Parquet files, as `parquet_columns` does of one file."""
    return by_type(dataset.to_table(columns=list(texts)), texts)


def by_type(table: pa.Table, texts: Mapping[str, bool]) -> dict[str, AnyArray | list[object]]:
    """Return columns as arrays where all cells are alike, and as lists of cells otherwise."""
    kinds = import_module("pyarrow").types
    columns: dict[str, AnyArray | list[object]] = {}
    for name, is_text in texts.items():
        column = table[name]
        if not is_text and (kinds.is_integer(column.type) or kinds.is_floating(column.type)):
            columns[name] = np.asarray(column.to_numpy(), dtype=np.float64)
        elif is_text and kinds.is_dictionary(column.type) and kinds.is_string(column.type.value_type):
            columns[name] = _cells(column, str)
        else:
            columns[name] = column.to_pylist()
    return columns


class _Content:
    """Properties of a file's bytes."""

    def __init__(self) -> None:
        self.has_quotes = False


def _scanned(path: Path) -> _Content | None:
    """Return what a file holds, or None if it is not UTF-8 throughout or holds zero bytes."""
    content, decoder = _Content(), codecs.getincrementaldecoder("utf-8")()
    try:
        with cast("IO[bytes]", gzip.open(path)) if _is_gzipped(path) else path.open("rb") as stream:
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


def _is_gzipped(path: Path) -> bool:
    return path.suffix.lower() == ".gz"


def _spellings(word: str) -> list[str]:
    """Return a word in every mixture of lower and upper case."""
    return ["".join(letters) for letters in itertools.product(*({letter, letter.upper()} for letter in word))]


def _numbers(column: Column) -> AnyArray | None:
    values = np.asarray(column.to_numpy(), dtype=np.float64)
    # More NaNs than nulls: the file spells NaN in a form that Arrow does not treat as missing.
    return values if int(np.isnan(values).sum()) == column.null_count else None


def _words(column: Column, missing: frozenset[str]) -> AnyArray:
    def read(word: str) -> str | None:
        stripped = word.strip()
        return None if stripped.lower() in missing else stripped

    return _cells(column, read)


def _cells(column: Column, read: Callable[[str], str | None]) -> AnyArray:
    """Return ``read`` of each cell, None where one is missing; each distinct value of a chunk is converted once."""
    chunks = []
    for chunk in column.chunks:
        words = [read(word) for word in chunk.dictionary.to_pylist()]
        # Index -1, for a missing cell, selects the appended last entry.
        cells = np.array([*words, None], dtype=object)
        chunks.append(cells[chunk.indices.fill_null(-1).to_numpy(zero_copy_only=False)])
    return np.concatenate(chunks) if chunks else np.empty(0, dtype=object)
