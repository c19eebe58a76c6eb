"""Readers of one site's files: CSV, Parquet, NumPy arrays, folders of series. Only columns of the study are kept."""

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
from types import ModuleType
from typing import IO, Any, cast

import numpy as np

from dpcape.arrays import AnyArray
from dpcape.errors import InvalidParameter
from dpcape.records.data_plan import Columns, DataPlan, Holding, checked_shape, selected
from dpcape.records.readers.columnar import csv_columns, parquet_columns

# What table programs write for a value that is not there.
_MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "."})
SPARSE_ARRAYS = {"data", "indices", "indptr", "shape"}
"""Arrays of a sparse matrix stored by rows, as SciPy writes it."""


def open_file(path: str | Path, plan: DataPlan) -> Holding:
    """Return a reader for a file, or for a folder with one file per subject."""
    where = Path(path)
    suffixes = "".join(where.suffixes).lower()
    if where.is_dir() or any(mark in where.name for mark in "*?["):
        return SeriesFolder(where, plan)
    if not where.is_file():
        raise InvalidParameter(f"The data file {str(path)!r} does not exist. Correct the path.")
    if suffixes.endswith((".csv", ".csv.gz", ".tsv", ".tsv.gz")):
        return CsvFile(where)
    if suffixes.endswith((".parquet", ".pq")):
        return ParquetFile(where)
    if suffixes.endswith((".npz", ".npy")):
        return ArrayFile(where)
    if suffixes.endswith((".nii", ".nii.gz")):
        return SeriesFolder(where, plan)
    raise unknown_suffix(where)


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
    def _read(self, texts: Mapping[str, bool]) -> dict[str, AnyArray]:
        """Return the columns in ``texts``, which maps each name to whether it holds text."""

    def table(self, columns: Columns) -> Any:
        """Return the raw columns: one array of numbers, or a mapping if some are text."""
        names = selected(self._names(), columns, subject=self._path.name)
        texts = {name: columns.is_text(name) for name in names}
        found = self._read(texts)
        if any(texts.values()):
            return {name: found[name] for name in names}
        return np.column_stack([found[name] for name in names])

    def vector(self, name: str, *, text: bool) -> AnyArray:
        """Return one column."""
        selected(self._names(), Columns((name,), 1), subject=self._path.name)
        return self._read({name: text})[name]

    def counts(self, columns: Columns) -> object:
        """Return word counts, one column per word."""
        return self.table(columns)

    def series(self, columns: Columns, subject: str | None) -> Sequence[AnyArray]:
        """Return one array per subject; ``subject`` names the column that identifies subjects."""
        if subject is None:
            raise InvalidParameter(
                f"{self._path.name} cannot be split by subject because subject is missing in [data]. "
                "Name the column that identifies subjects, or keep one file per subject."
            )
        owners = self.vector(subject, text=True)
        if any(owner is None for owner in owners):
            raise InvalidParameter(
                f"Column {subject!r} must identify the subject of every row; got rows without an entry. Complete it, "
                "or leave such rows out by a public rule."
            )
        table = self.table(columns)
        return [table[owners == owner] for owner in sorted(set(owners.tolist()))]

    @abstractmethod
    def _names(self) -> Sequence[str]:
        """Return the names of all columns."""


class CsvFile(_ByColumn):
    """A table with a header line, separated by commas (or by tabs if its name says .tsv), maybe gzipped."""

    @property
    def _delimiter(self) -> str:
        return "\t" if ".tsv" in self._path.name.lower() else ","

    def _lines(self, stream: IO[str]) -> Iterator[list[str]]:
        return csv.reader(stream, delimiter=self._delimiter)

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
            raise InvalidParameter(f"Column names in {self._path.name} must be unique; got duplicates. Rename them.")
        return names

    def texts(self) -> dict[str, AnyArray]:
        """Return all columns as text."""
        return self._read(dict.fromkeys(self._names(), True))

    def _read(self, texts: Mapping[str, bool]) -> dict[str, AnyArray]:
        names = self._names()
        whole = csv_columns(self._path, names, texts, delimiter=self._delimiter, missing=_MISSING)
        return self._by_cell(names, texts) if whole is None else whole

    def _by_cell(self, names: Sequence[str], texts: Mapping[str, bool]) -> dict[str, AnyArray]:
        """Read cell by cell, as Python reads CSV and numbers: what counts in every case of doubt."""
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

    def texts(self) -> dict[str, AnyArray]:
        """Return all columns as text."""
        return self._read(dict.fromkeys(self._names(), True))

    def _read(self, texts: Mapping[str, bool]) -> dict[str, AnyArray]:
        found = parquet_columns(self._path, texts)
        if found is None:
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

    def vector(self, name: str, *, text: bool) -> AnyArray:
        """Return one array."""
        values = self._named(name)
        return values.astype(str) if text else values

    def counts(self, columns: Columns) -> object:
        """Return word counts: a sparse matrix stored by rows, or a dense array."""
        if not set(self._arrays) >= SPARSE_ARRAYS:
            return self.table(columns)
        from scipy.sparse import csr_array

        data, indices, indptr = (np.asarray(self._arrays[key]) for key in ("data", "indices", "indptr"))
        shape = tuple(int(side) for side in self._arrays["shape"])
        if len(shape) != 2 or shape[1] != columns.n_columns:
            raise InvalidParameter(
                f"counts must have the {columns.n_columns} words the study declares; got shape {shape}. "
                "Check the study's [data] table against the file."
            )
        return csr_array((data.astype(np.int64), indices.astype(np.int64), indptr.astype(np.int64)), shape=shape)

    def series(self, columns: Columns, subject: str | None) -> Sequence[AnyArray]:
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
                f"{self._path.name} cannot be split by subject because subject is missing in [data]. "
                "Name the array of offsets at which subjects start, or store a (subject, time, feature) array."
            )
        else:
            parts = _between(values, np.asarray(self._named(subject)))
        return [checked_shape(part, columns, subject="the series of a subject") for part in parts]

    def _named(self, name: str) -> AnyArray:
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
        self._files = series_files(path, hidden=not path.is_dir())
        if not self._files:
            raise InvalidParameter(f"No files of subjects were found in {str(path)!r}. Correct the path.")

    def series(self, columns: Columns, subject: str | None) -> Sequence[AnyArray]:
        """Return one array per file, in the order of their names."""
        return [self._one(path, columns) for path in self._files]

    def _one(self, path: Path, columns: Columns) -> AnyArray:
        if path.name.lower().endswith((".nii", ".nii.gz")):
            from dpcape.records.readers.nifti import masked_series

            return checked_shape(masked_series(path, self._plan.mask), columns, subject="a masked volume")
        return cast("AnyArray", open_file(path, self._plan).table(columns))

    def table(self, columns: Columns) -> Any:
        """Refuse: a folder holds series."""
        raise _series_only()

    def vector(self, name: str, *, text: bool) -> AnyArray:
        """Refuse: a folder holds series."""
        raise _series_only()

    def counts(self, columns: Columns) -> object:
        """Refuse: a folder holds series."""
        raise _series_only()


def mapped_arrays(path: Path) -> dict[str, AnyArray]:
    """Return the arrays of a file, memory-mapped where they are stored uncompressed."""
    try:
        if path.suffix.lower() == ".npy":
            return {"X": np.load(path, mmap_mode="r", allow_pickle=False)}
        with zipfile.ZipFile(path) as archive:
            return {
                member.filename.removesuffix(".npy"): _member(path, archive, member) for member in archive.infolist()
            }
    except (ValueError, OSError, zipfile.BadZipFile, EOFError) as error:
        raise InvalidParameter(
            f"{path.name} could not be read because it is not a NumPy file, or holds Python objects. "
            "Save arrays of numbers or text with numpy.save or numpy.savez."
        ) from error


def _member(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> AnyArray:
    with archive.open(member) as stream:
        if member.compress_type != zipfile.ZIP_STORED:
            loaded: AnyArray = np.lib.format.read_array(stream, allow_pickle=False)
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
    """Return where a stored member's bytes begin: after its local header, whose lengths differ from the directory's."""
    with path.open("rb") as stream:
        stream.seek(member.header_offset)
        local = stream.read(30)
    return member.header_offset + 30 + int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little")


def _between(values: AnyArray, offsets: AnyArray) -> list[AnyArray]:
    good = offsets.ndim == 1 and offsets.dtype.kind in "iu" and len(offsets) > 1 and offsets[0] == 0
    if not good or offsets[-1] != len(values) or not (np.diff(offsets.astype(np.int64)) > 0).all():
        raise InvalidParameter(
            "Offsets of subjects must be whole numbers that rise from 0 to the number of rows; got different ones "
            "(not shown: they are private). Correct the array that subject names."
        )
    return [values[start:stop] for start, stop in pairwise(offsets.tolist())]


def is_missing(text: str) -> bool:
    """Tell whether a cell stands for a value that is not there."""
    return text.strip().lower() in _MISSING


def _cell(cell: str, is_text: bool, name: str) -> str | float | None:
    """Return one cell; an error names the column and shows nothing of the cell."""
    stripped = cell.strip()
    if is_missing(stripped):
        return None if is_text else float("nan")
    if is_text:
        return stripped
    try:
        return float(stripped)
    except ValueError as error:
        raise InvalidParameter(
            f"Column {name!r} must hold numbers; got text. Correct the file, or declare the column's levels."
        ) from error


def _array(values: Any, is_text: bool) -> AnyArray:
    return np.array(values, dtype=object) if is_text else np.frombuffer(values, dtype=np.float64)


def _parquet_column(name: str, values: AnyArray | Sequence[object], is_text: bool) -> AnyArray:
    if isinstance(values, np.ndarray):
        return values
    if is_text:
        return np.array([None if value is None else str(value) for value in values], dtype=object)
    return _array(array("d", (_cell("" if value is None else str(value), False, name) for value in values)), False)


def _polars() -> ModuleType:
    try:
        import polars
    except ImportError as error:
        raise InvalidParameter(
            "The package pyarrow for Parquet files is not installed. Run: pip install 'dpcape[parquet]'."
        ) from error
    return polars


def unknown_suffix(path: Path) -> InvalidParameter:
    """Return the error for a file of a kind that cannot be read."""
    return InvalidParameter(
        f"A data file must be .csv, .csv.gz, .tsv, .parquet, .npz, .npy or .nii(.gz); got {path.name!r}. "
        "Convert it to one of these."
    )


def _malformed(path: Path) -> InvalidParameter:
    return InvalidParameter(
        f"{path.name} could not be read because it is not a UTF-8 table with a header and the same number of cells in "
        "every line. Export it again."
    )


def _series_only() -> InvalidParameter:
    return InvalidParameter(
        'A folder or pattern of files must be read as kind = "subjects"; got a study of another kind. '
        "Name one file instead."
    )
