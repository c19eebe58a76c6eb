"""Keyed fingerprints of the rows of a data file, to recognise the same records in another file or encoding.

Numbers count as 32-bit floats, text without the blanks around it, so that CSV, Parquet and NumPy files of one table
give the same fingerprints, in any order of rows. A row has one fingerprint by the order of columns in the file and,
where columns have names, one by the order of their names. Fingerprints stay at the site and reveal nothing without its
key.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpcape.core.arrays import AnyArray
from dpcape.records.readers.array_files import SPARSE_ARRAYS, mapped_arrays
from dpcape.records.readers.cells import is_missing
from dpcape.records.readers.files import TABLES, data_files, table_file, unknown_suffix

Fingerprints = dict[str, NDArray[np.uint64]]
Cells = NDArray[np.uint32]

_KINDS = (*TABLES, ".npz", ".npy", ".nii", ".nii.gz")
_BLOCK = 1024
_MISSING = np.uint32(0x7FC00000)
_TRUTH = {"true": 1.0, "false": 0.0}


def row_fingerprints(path: Path, key: bytes) -> Fingerprints:
    """Return the fingerprints of all rows, sorted, by the layout they were taken in.

    Parameters
    ----------
    path : Path
        A file, a folder or a pattern of files; of any kind a site can register.
    key : bytes
        The site's key.
    """
    by_layout: dict[str, list[int]] = {}
    for file in _readable(path):
        for layout, cells in _layouts(file):
            digests = by_layout.setdefault(layout, [])
            # Rows that hold only zeros and missing values occur in all data sets.
            informative = (cells != 0) & (cells != _MISSING)
            for row in cells[informative.any(axis=1)]:
                digests.append(int.from_bytes(hmac.digest(key, row.tobytes(), "sha256")[:8], "big"))
    return {layout: np.sort(np.array(digests, dtype=np.uint64)) for layout, digests in by_layout.items()}


def column_names(path: Path) -> tuple[tuple[str, ...], int]:
    """Return the names of a data set's columns, none if they have no names, and their number."""
    file = _readable(path)[0]
    name = file.name.lower()
    if name.endswith(TABLES):
        names = tuple(table_file(file).names())
        return names, len(names)
    if name.endswith((".npz", ".npy")):
        arrays = mapped_arrays(file)
        if set(arrays) >= SPARSE_ARRAYS:
            return (), int(arrays["shape"][1])
        widths = [int(np.prod(array.shape[1:])) for array in arrays.values() if array.ndim >= 2]
        return ((), max(widths)) if widths else (tuple(arrays), len(arrays))
    return (), next((cells.shape[1] for _, cells in _layouts(file)), 0)


def _readable(path: Path) -> list[Path]:
    """Return the files of a data set that hold records; a folder may hold others beside them."""
    files = [file for file in data_files(path) if file.name[0] != "." or file == path]
    known = [file for file in files if file.name.lower().endswith(_KINDS)]
    return known or files


def overlap(one: Fingerprints, other: Fingerprints) -> float:
    """Return the largest share of the smaller set's rows that the other set has too, over all pairs of layouts."""
    return max((_shared(first, second) for first in one.values() for second in other.values()), default=0.0)


def _shared(first: NDArray[np.uint64], second: NDArray[np.uint64]) -> float:
    smaller = min(first.size, second.size)
    if not smaller:
        return 0.0
    (values, counts), (others, more) = (np.unique(prints, return_counts=True) for prints in (first, second))
    _, mine, theirs = np.intersect1d(values, others, assume_unique=True, return_indices=True)
    return float(np.minimum(counts[mine], more[theirs]).sum() / smaller)


def _layouts(path: Path) -> Iterator[tuple[str, Cells]]:
    """Return blocks of rows with the layout they are in."""
    name = path.name.lower()
    if name.endswith((".npz", ".npy")):
        yield from _of_arrays(mapped_arrays(path))
    elif name.endswith((".nii", ".nii.gz")):
        from dpcape.records.readers.nifti import whole_series

        yield from _of_table("columns", whole_series(path))
    elif name.endswith(TABLES):
        for columns in table_file(path).text_batches():
            yield from _of_columns(columns)
    else:
        raise unknown_suffix(path)


def _of_columns(columns: Mapping[str, AnyArray]) -> Iterator[tuple[str, Cells]]:
    if not columns:
        return
    table = np.column_stack([_cells(values) for values in columns.values()])
    yield "columns", table
    order = sorted(range(len(columns)), key=list(columns).__getitem__)
    if order != list(range(len(columns))):
        yield "names", np.ascontiguousarray(table[:, order])


def _of_arrays(arrays: Mapping[str, AnyArray]) -> Iterator[tuple[str, Cells]]:
    if set(arrays) >= SPARSE_ARRAYS:
        yield from _of_sparse(arrays)
        return
    tables = [array for array in arrays.values() if array.ndim >= 2]
    for table in tables:
        yield from _of_table("columns", table)
        if table.ndim == 3:
            # Subjects are fingerprinted both as one row each and as a series of rows.
            for series in table:
                yield from _of_table("series", series)
    columns = {name: array for name, array in arrays.items() if array.ndim == 1}
    if not tables and len({len(array) for array in columns.values()}) == 1:
        yield from _of_columns(columns)


def _of_sparse(arrays: Mapping[str, AnyArray]) -> Iterator[tuple[str, Cells]]:
    from scipy.sparse import csr_array

    stored = tuple(np.asarray(arrays[key]) for key in ("data", "indices", "indptr"))
    n_rows, width = (int(side) for side in arrays["shape"])
    counts = csr_array(stored, shape=(n_rows, width))
    for start in range(0, n_rows, 64):
        yield from _of_table("columns", counts[start : start + 64].toarray())


def _of_table(layout: str, table: AnyArray) -> Iterator[tuple[str, Cells]]:
    for start in range(0, len(table), _BLOCK):
        block = np.asarray(table[start : start + _BLOCK])
        flat = block.reshape(len(block), -1)
        if flat.dtype.kind in "biuf":
            yield layout, _bits(flat)
        else:
            yield layout, np.column_stack([_cells(column) for column in flat.T])


def _cells(values: AnyArray) -> Cells:
    """Return a column as 32-bit cells: numbers as floats, however they were written; text as a digest."""
    if values.dtype.kind in "biuf":
        return _bits(values)
    cells = np.empty(len(values), dtype=np.uint32)
    known: dict[object, np.uint32] = {}
    for at, value in enumerate(values):
        cell = known.get(value)
        if cell is None:
            cell = known[value] = _cell(value)
        cells[at] = cell
    return cells


def _cell(value: object) -> np.uint32:
    text = "" if value is None else str(value).strip()
    if is_missing(text):
        return _MISSING
    try:
        number = _TRUTH.get(text.lower())
        return np.uint32(_bits(np.array([float(text) if number is None else number]))[0])
    except ValueError:
        # A time of midnight is dropped, so that a date matches however it is stored.
        plain = text.replace("T", " ").removesuffix(" 00:00:00")
        return np.uint32(int.from_bytes(hashlib.sha256(plain.encode("utf-8")).digest()[:4], "big"))


def _bits(values: AnyArray) -> Cells:
    with np.errstate(over="ignore", invalid="ignore"):
        floats = np.asarray(values).astype(np.float32)
    # Adding zero turns -0 into 0, and all NaNs get the same bits.
    floats = floats + np.float32(0)
    cells: Cells = np.where(np.isnan(floats), _MISSING, floats.view(np.uint32))
    return cells
