"""Readers of NumPy arrays; uncompressed ones stay mapped, and nothing is unpickled."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from dpcape.core.arrays import AnyArray
from dpcape.core.errors import DamagedFile, InvalidParameter
from dpcape.records.data_plan import Columns, checked_shape, flattened

SPARSE_ARRAYS = {"data", "indices", "indptr", "shape"}
"""Arrays of a sparse matrix stored by rows, as SciPy writes it."""


class ArrayFile:
    """A ``.npy`` file or the arrays of an ``.npz`` file; uncompressed ones stay mapped, nothing is unpickled."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._arrays = mapped_arrays(path)

    def table(self, columns: Columns) -> Any:
        """Return the array the study names, or the only one with rows."""
        name = self._of_rows() if columns.array is None else columns.array
        return checked_shape(self._named(name), columns, subject=f"the array {name!r}")

    def one_series(self, columns: Columns) -> AnyArray:
        """Return the same as the series of one subject, whatever its width: another one makes it invalid."""
        return flattened(self._named(self._of_rows() if columns.array is None else columns.array))

    def only_array(self) -> AnyArray:
        """Return the only array with rows, as it is."""
        return flattened(self._named(self._of_rows()))

    def _of_rows(self, most: float = math.inf) -> str:
        """Return the name of the only array with rows, or the usual one."""
        candidates = [key for key, value in self._arrays.items() if 2 <= value.ndim <= most]
        return candidates[0] if len(candidates) == 1 else "X"

    def n_words(self) -> int:
        """Return the number of columns of word counts, sparse or dense."""
        is_sparse = set(self._arrays) >= SPARSE_ARRAYS
        return int(self._arrays["shape"][1]) if is_sparse else int(self.only_array().shape[1])

    def width(self) -> int:
        """Return the number of columns of a series."""
        return int(self._named(self._of_rows(3)).shape[-1])

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
            must = f"have the {columns.n_columns} words the study declares"
            raise InvalidParameter("counts", must, f"shape {shape}", "Check the study's [data] table against the file.")
        return csr_array((data.astype(np.int64), indices.astype(np.int64), indptr.astype(np.int64)), shape=shape)

    def series(self, columns: Columns, subject: str | None) -> Sequence[AnyArray]:
        """Return one array per subject: slices at the offsets ``subject`` names, or entries of a 3-d array."""
        name = self._of_rows(3) if columns.array is None else columns.array
        values = self._named(name)
        if values.ndim == 3:
            series = list(values)
        elif subject is None:
            must = f"be given in [data] to split {self._path.name} by subject"
            remedy = "Name the array of offsets at which subjects start, or store a (subject, time, feature) array."
            raise InvalidParameter("subject", must, "none", remedy)
        else:
            series = _between(values, np.asarray(self._named(subject)))
        return [checked_shape(one, columns, subject="the series of a subject") for one in series]

    def _named(self, name: str) -> AnyArray:
        if name not in self._arrays:
            remedy = "Name the array in the study's [data] table."
            raise InvalidParameter(self._path.name, f"have an array {name!r}", sorted(self._arrays), remedy)
        return self._arrays[name]


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
        what, why = f"{path.name} could not be read", "it is not a NumPy file, or holds Python objects"
        raise DamagedFile(what, why, "Save arrays of numbers or text with numpy.save or numpy.savez.") from error


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
        must = "be whole numbers that rise from 0 to the number of rows"
        remedy = "Correct the array that subject names."
        raise InvalidParameter("Offsets of subjects", must, "different ones (not shown: they are private)", remedy)
    return [values[start:stop] for start, stop in pairwise(offsets.tolist())]
