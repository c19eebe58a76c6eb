"""Files of one site: CSV, Parquet, NumPy arrays, folders of time series. Only what the study names is kept."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import zipfile
from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from dpcape.errors import InvalidParameter
from dpcape.records.data_plan import Columns, DataPlan, Holding, checked_shape, selected

# What table programs write for a value that is not there.
_MISSING = {"", "na", "n/a", "nan", "null", "none", "."}
_SPARSE = {"data", "indices", "indptr", "shape"}


def open_file(path: str | Path, plan: DataPlan) -> Holding:
    """Return a reader for a file, or for a folder with one file per subject."""
    where = Path(path)
    suffixes = "".join(where.suffixes).lower()
    if where.is_dir() or any(mark in where.name for mark in "*?["):
        return SeriesFolder(where, plan)
    if not where.is_file():
        raise InvalidParameter(f"a data file must exist; got {str(path)!r}. Correct the path.")
    if suffixes.endswith((".csv", ".csv.gz", ".tsv", ".tsv.gz")):
        return CsvFile(where)
    if suffixes.endswith((".parquet", ".pq")):
        return ParquetFile(where)
    if suffixes.endswith((".npz", ".npy")):
        return ArrayFile(where)
    if suffixes.endswith((".nii", ".nii.gz")):
        return SeriesFolder(where, plan)
    raise InvalidParameter(
        f"a data file must be .csv, .csv.gz, .tsv, .parquet, .npz, .npy or .nii(.gz); got {where.name!r}. "
        "Convert it to one of these."
    )


def fingerprint(path: Path) -> str:
    """Return a digest of a data set's content, to notice the same one under another name; stays at the site."""
    total = hashlib.sha256()
    for file in series_files(path, hidden=True):
        with file.open("rb") as stream:
            total.update(hashlib.file_digest(stream, "sha256").digest())
    return total.hexdigest()


def series_files(path: Path, *, hidden: bool = False) -> list[Path]:
    """Return the files of a data set: one, those of a folder, or those of a pattern."""
    found = [path] if path.is_file() else sorted(path.iterdir() if path.is_dir() else path.parent.glob(path.name))
    return [file for file in found if file.is_file() and (hidden or file.name[0] != ".")]


class _ByColumn(ABC):
    """A file of named columns; subclasses read some of them."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @abstractmethod
    def _read(self, texts: Mapping[str, bool]) -> dict[str, NDArray[Any]]:
        """Return columns by name; ``texts`` tells which are wanted and whether each is text."""

    def table(self, columns: Columns) -> Any:
        """Return the raw columns: one array of numbers, or a mapping if some are text."""
        names = selected(self._names(), columns, subject=self._path.name)
        texts = {name: columns.is_text(name) for name in names}
        found = self._read(texts)
        if any(texts.values()):
            return {name: found[name] for name in names}
        return np.column_stack([found[name] for name in names])

    def vector(self, name: str, *, text: bool) -> NDArray[Any]:
        """Return one column."""
        selected(self._names(), Columns((name,), 1), subject=self._path.name)
        return self._read({name: text})[name]

    def counts(self, columns: Columns) -> Any:
        """Return word counts, one column per word."""
        return self.table(columns)

    def series(self, columns: Columns, subject: str | None) -> Sequence[Any]:
        """Return one array per subject; ``subject`` names the column that tells whose row it is."""
        if subject is None:
            raise InvalidParameter(
                "subject of [data] must name the column that tells whose row it is; got none. "
                f"Name it, or keep one file per subject instead of {self._path.name}."
            )
        owners = self.vector(subject, text=True)
        if any(owner is None for owner in owners):
            raise InvalidParameter(
                f"column {subject!r} must tell whose row it is; got rows that do not. Complete it, or leave such rows "
                "out by a public rule."
            )
        table = self.table(columns)
        return [table[owners == owner] for owner in sorted(set(owners.tolist()))]

    @abstractmethod
    def _names(self) -> Sequence[str]:
        """Return the names of all columns."""


class CsvFile(_ByColumn):
    """A table with a header line, separated by commas (or by tabs if its name says .tsv), maybe gzipped."""

    def _lines(self, stream: IO[str]) -> Iterator[list[str]]:
        return csv.reader(stream, delimiter="\t" if ".tsv" in self._path.name.lower() else ",")

    def _open(self) -> IO[str]:
        if self._path.suffix.lower() == ".gz":
            return io.TextIOWrapper(gzip.open(self._path), encoding="utf-8-sig", newline="")
        return self._path.open(encoding="utf-8-sig", newline="")

    def _names(self) -> Sequence[str]:
        with self._open() as stream:
            try:
                names = next(self._lines(stream), [])
            except (UnicodeDecodeError, csv.Error) as error:
                raise _malformed(self._path) from error
        if len(set(names)) != len(names):
            raise InvalidParameter(f"the header of {self._path.name} must name every column once; got duplicates.")
        return names

    def texts(self) -> dict[str, NDArray[Any]]:
        """Return all columns as text."""
        return self._read(dict.fromkeys(self._names(), True))

    def _read(self, texts: Mapping[str, bool]) -> dict[str, NDArray[Any]]:
        names = self._names()
        places = {name: names.index(name) for name in texts}
        kept: dict[str, Any] = {name: [] if is_text else array("d") for name, is_text in texts.items()}
        with self._open() as stream:
            try:
                lines = self._lines(stream)
                next(lines)
                for line in lines:
                    if len(line) != len(names):
                        if not line:
                            continue
                        raise _malformed(self._path)
                    for name, place in places.items():
                        kept[name].append(_cell(line[place], texts[name], name))
            except (UnicodeDecodeError, csv.Error) as error:
                raise _malformed(self._path) from error
        return {name: _array(values, texts[name]) for name, values in kept.items()}


class ParquetFile(_ByColumn):
    """A Parquet file, read with pyarrow, or with polars where that is what is installed."""

    def texts(self) -> dict[str, NDArray[Any]]:
        """Return all columns as text."""
        return self._read(dict.fromkeys(self._names(), True))

    def _read(self, texts: Mapping[str, bool]) -> dict[str, NDArray[Any]]:
        try:
            found = import_module("pyarrow.parquet").read_table(self._path, columns=list(texts)).to_pydict()
        except ImportError:
            found = _polars().read_parquet(self._path, columns=list(texts)).to_dict(as_series=False)
        return {name: _parquet_column(name, found[name], is_text) for name, is_text in texts.items()}

    def _names(self) -> Sequence[str]:
        try:
            return list(import_module("pyarrow.parquet").read_schema(self._path).names)
        except ImportError:
            return list(_polars().read_parquet_schema(self._path))


class ArrayFile:
    """A ``.npy`` file or the arrays of an ``.npz`` file; uncompressed ones stay mapped, nothing is unpickled."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._arrays = mapped_arrays(path)

    def table(self, columns: Columns) -> Any:
        """Return the array the study names, or the only one with rows."""
        name = columns.array
        if name is None:
            candidates = [key for key, value in self._arrays.items() if value.ndim >= 2]
            name = candidates[0] if len(candidates) == 1 else "X"
        return checked_shape(self._named(name), columns, subject=f"the array {name!r}")

    def vector(self, name: str, *, text: bool) -> NDArray[Any]:
        """Return one array."""
        values = self._named(name)
        return values.astype(str) if text else values

    def counts(self, columns: Columns) -> Any:
        """Return word counts: a sparse matrix stored by rows, or a dense array."""
        if not set(self._arrays) >= _SPARSE:
            return self.table(columns)
        from scipy.sparse import csr_array

        data, indices, indptr = (np.asarray(self._arrays[key]) for key in ("data", "indices", "indptr"))
        shape = tuple(int(side) for side in self._arrays["shape"])
        if len(shape) != 2 or shape[1] != columns.n_columns:
            raise InvalidParameter(f"counts must have the {columns.n_columns} words the study declares; got {shape}.")
        return csr_array((data.astype(np.int64), indices.astype(np.int64), indptr.astype(np.int64)), shape=shape)

    def series(self, columns: Columns, subject: str | None) -> Sequence[Any]:
        """Return one array per subject: slices at the offsets ``subject`` names, or entries of a 3-d array."""
        name = columns.array
        if name is None:
            candidates = [key for key, value in self._arrays.items() if value.ndim in (2, 3)]
            name = candidates[0] if len(candidates) == 1 else "X"
        values = self._named(name)
        if values.ndim == 3:
            parts = list(values)
        elif subject is None:
            raise InvalidParameter(
                "subject of [data] must name the array of offsets at which subjects start; got none. "
                "Or store a (subject, time, feature) array."
            )
        else:
            parts = _between(values, np.asarray(self._named(subject)))
        return [checked_shape(part, columns, subject="the series of a subject") for part in parts]

    def _named(self, name: str) -> NDArray[Any]:
        if name not in self._arrays:
            raise InvalidParameter(
                f"{self._path.name} must have an array {name!r}; got {sorted(self._arrays)}. "
                "Name the array in the study's [data] table."
            )
        return self._arrays[name]


class SeriesFolder:
    """One file per subject: a folder or a pattern of .npy, .csv or NIfTI files."""

    def __init__(self, path: Path, plan: DataPlan) -> None:
        self._plan = plan
        if path.is_file():
            self._files = [path]
        elif path.is_dir():
            self._files = sorted(entry for entry in path.iterdir() if entry.is_file() and entry.name[0] != ".")
        else:
            self._files = sorted(path.parent.glob(path.name))
        if not self._files:
            raise InvalidParameter(f"a folder of subjects must hold files; got none in {str(path)!r}.")

    def series(self, columns: Columns, subject: str | None) -> Sequence[Any]:
        """Return one array per file, in the order of their names."""
        return [self._one(path, columns) for path in self._files]

    def _one(self, path: Path, columns: Columns) -> NDArray[Any]:
        if path.name.lower().endswith((".nii", ".nii.gz")):
            from dpcape.records.readers.nifti import masked_series

            return checked_shape(masked_series(path, self._plan.mask), columns, subject="a masked volume")
        table: NDArray[Any] = open_file(path, self._plan).table(columns)
        return table

    def table(self, columns: Columns) -> Any:
        """Refuse: a folder holds series."""
        raise _series_only()

    def vector(self, name: str, *, text: bool) -> NDArray[Any]:
        """Refuse: a folder holds series."""
        raise _series_only()

    def counts(self, columns: Columns) -> Any:
        """Refuse: a folder holds series."""
        raise _series_only()


def mapped_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of a file, memory-mapped where they are stored uncompressed."""
    try:
        if path.suffix.lower() == ".npy":
            return {"X": np.load(path, mmap_mode="r", allow_pickle=False)}
        with zipfile.ZipFile(path) as archive:
            return {
                member.filename.removesuffix(".npy"): _member(path, archive, member) for member in archive.infolist()
            }
    except (ValueError, OSError, zipfile.BadZipFile, EOFError) as error:
        raise InvalidParameter(f"{path.name} must be a NumPy file without objects; got another.") from error


def _member(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    with archive.open(member) as stream:
        if member.compress_type != zipfile.ZIP_STORED:
            loaded: NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
            return loaded
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, in_columns, dtype = read(stream)
        header = stream.tell()
    if dtype.hasobject:
        raise ValueError("objects are not read")
    if 0 in shape or not shape:
        with archive.open(member) as stream:
            return np.asarray(np.lib.format.read_array(stream, allow_pickle=False))
    start = _start_of(path, member) + header
    return np.memmap(path, dtype=dtype, mode="r", offset=start, shape=shape, order="F" if in_columns else "C")


def _start_of(path: Path, member: zipfile.ZipInfo) -> int:
    """Return where a stored member's bytes begin: after its local header, whose two lengths differ from the list's."""
    with path.open("rb") as stream:
        stream.seek(member.header_offset)
        local = stream.read(30)
    return member.header_offset + 30 + int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little")


def _between(values: NDArray[Any], offsets: NDArray[Any]) -> list[NDArray[Any]]:
    good = offsets.ndim == 1 and offsets.dtype.kind in "iu" and len(offsets) > 1 and offsets[0] == 0
    if not good or offsets[-1] != len(values) or not (np.diff(offsets.astype(np.int64)) > 0).all():
        raise InvalidParameter("offsets of subjects must rise from 0 to the number of rows; got others.")
    return [values[start:stop] for start, stop in pairwise(offsets.tolist())]


def is_missing(text: str) -> bool:
    """Tell whether a cell stands for a value that is not there."""
    return text.strip().lower() in _MISSING


def _cell(cell: str, is_text: bool, name: str) -> Any:
    """Return one cell; the message names the column and nothing of the cell."""
    stripped = cell.strip()
    if is_missing(stripped):
        return None if is_text else float("nan")
    if is_text:
        return stripped
    try:
        return float(stripped)
    except ValueError as error:
        raise InvalidParameter(
            f"column {name!r} must hold numbers; got text. Correct the file, or declare the column's levels."
        ) from error


def _array(values: Any, is_text: bool) -> NDArray[Any]:
    return np.array(values, dtype=object) if is_text else np.frombuffer(values, dtype=np.float64)


def _parquet_column(name: str, values: list[Any], is_text: bool) -> NDArray[Any]:
    if is_text:
        return np.array([None if value is None else str(value) for value in values], dtype=object)
    return _array(array("d", (_cell("" if value is None else str(value), False, name) for value in values)), False)


def _polars() -> Any:
    try:
        import polars
    except ImportError as error:
        raise InvalidParameter(
            "a Parquet file must have a reader; got none installed. Install dpcape[parquet]."
        ) from error
    return polars


def _malformed(path: Path) -> InvalidParameter:
    return InvalidParameter(
        f"{path.name} must be a table in UTF-8 with a header and as many cells in every line; got another."
    )


def _series_only() -> InvalidParameter:
    return InvalidParameter("a folder or pattern of files must hold subjects; got another kind. Name one file instead.")
