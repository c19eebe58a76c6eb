"""Public bases of wide rows: means over an atlas, templates, and how a basis is read from lists and messages."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dpcape.core.arrays import AnyArray, FloatArray, IntArray
from dpcape.core.errors import InvalidParameter
from dpcape.core.fine_grid import ORTHONORMAL_STEPS, FineRows, whole_columns
from dpcape.core.grid import GridRows
from dpcape.statistics.basis import MOST_COLUMNS, Basis, Listed
from dpcape.statistics.cosines import Cosines, mask_of_runs
from dpcape.statistics.view_bases import KINDS, Columns, SideBySide


class Atlas(Basis):
    """Mean over each parcel of a public atlas: one column per parcel, in the order of their numbers.

    Parameters
    ----------
    labels : array_like of int
        Number of the parcel of each column of a row; 0 for none.

    Examples
    --------
    >>> Atlas([1, 1, 2, 0, 2])
    Atlas(n_features=5, n_columns=2)
    """

    kind: ClassVar[str] = "atlas"

    def __init__(self, labels: ArrayLike) -> None:
        parcels = np.asarray(labels)
        fits = parcels.ndim == 1 and parcels.dtype.kind in "iu" and (parcels >= 0).all() and parcels.any()
        numbers = np.unique(parcels[parcels > 0]) if fits else np.empty(0, dtype=np.int64)
        if not 1 <= len(numbers) <= MOST_COLUMNS:
            must = f"be one whole number per column, 0 outside and at most {MOST_COLUMNS} different ones"
            remedy = "Use the atlas of the voxels of the mask."
            raise InvalidParameter("labels", must, f"{len(numbers)} in an array of shape {parcels.shape}", remedy)
        self._labels: IntArray = parcels.astype(np.int64)
        self.n_features, self.n_columns = len(parcels), len(numbers)
        self._at = np.flatnonzero(parcels > 0)
        self._codes = np.searchsorted(numbers, parcels[self._at])
        self._by_parcel = self._at[np.argsort(self._codes, kind="stable")]
        sizes = np.bincount(self._codes)
        self._starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        self._weights: FloatArray = 1 / np.sqrt(sizes)

    @property
    def sent_array(self) -> IntArray:
        """The labels."""
        return self._labels

    def listed(self) -> Listed:
        """Return the basis as plain lists."""
        return [self.kind, [int(label) for label in self._labels]]

    def coordinates(self, rows: FloatArray) -> FloatArray:
        """Return Q'x of each row."""
        sums: FloatArray = np.add.reduceat(rows[:, self._by_parcel], self._starts, axis=1)
        sums *= self._weights
        return sums

    def expanded(self, coordinates: FloatArray) -> FloatArray:
        """Return Qy of each row of coordinates."""
        result = np.zeros((len(coordinates), self.n_features))
        result[:, self._at] = (coordinates * self._weights)[:, self._codes]
        return result

    def exact_coordinates(self, rows: GridRows) -> FloatArray:
        """Return Q'x of each row of a record: sums of at most 2^20 sqrt(n_features) steps."""
        result = self.coordinates(rows.ints)
        result /= rows.steps
        return result

    def exact_expansion(self, coordinates: FineRows, factor: float = 1.0) -> FloatArray:
        """Return Qy of the coordinates of each record, times a factor: each voxel has one of them."""
        return self.expanded(coordinates.ints * (factor / coordinates.steps))


class Template(Basis):
    """Columns of a public matrix, such as the components of an open data set; the most important first.

    Parameters
    ----------
    columns : array_like
        Orthonormal columns, (n_features, n_columns).

    Examples
    --------
    >>> Template(np.eye(6, 2))
    Template(n_features=6, n_columns=2)
    """

    kind: ClassVar[str] = "template"

    def __init__(self, columns: ArrayLike) -> None:
        try:
            matrix = np.asarray(columns, dtype=np.float64)
        except (TypeError, ValueError):
            matrix = np.full((), np.nan)
        if matrix.ndim != 2 or not 1 <= matrix.shape[1] <= min(MOST_COLUMNS, matrix.shape[0]):
            must = f"be a matrix with at least as many rows (voxels) as columns, at most {MOST_COLUMNS}"
            remedy = "Use a matrix with one row per column of the records."
            raise InvalidParameter("A template", must, f"shape {matrix.shape}", remedy)
        with np.errstate(over="ignore", invalid="ignore"):
            apart = float(np.abs(matrix.T @ matrix - np.eye(matrix.shape[1])).max())
        # The comparison refuses NaN too, which products of huge numbers give.
        if not np.isfinite(matrix).all() or not apart <= 1e-8:
            remedy = "Use numpy.linalg.qr(columns)[0]."
            raise InvalidParameter("A template", "have finite orthonormal columns", "columns that are not", remedy)
        self._columns: FloatArray = np.ascontiguousarray(matrix)
        self.n_features, self.n_columns = matrix.shape

    @property
    def sent_array(self) -> FloatArray:
        """The columns."""
        return self._columns

    def listed(self) -> Listed:
        """Return the basis as plain lists."""
        rows: list[list[float]] = self._columns.tolist()
        return [self.kind, rows]

    def cuts(self, least: int) -> list[int]:
        """Return how many of the first columns may be kept without the others, ascending."""
        return list(range(min(least, self.n_columns), self.n_columns + 1))

    def coordinates(self, rows: FloatArray) -> FloatArray:
        """Return Q'x of each row."""
        found: FloatArray = rows @ self._columns
        return found

    def expanded(self, coordinates: FloatArray) -> FloatArray:
        """Return Qy of each row of coordinates."""
        found: FloatArray = coordinates @ self._columns.T
        return found

    @cached_property
    def _whole(self) -> FloatArray:
        return whole_columns(self._columns)

    def exact_coordinates(self, rows: GridRows) -> FloatArray:
        """Return Q'x of each row of a record, from exact sums."""
        found: FloatArray = rows.ints @ self._whole
        found /= rows.steps * ORTHONORMAL_STEPS
        return found

    def exact_expansion(self, coordinates: FineRows, factor: float = 1.0) -> FloatArray:
        """Return Qy of the coordinates of each record, times a factor, from exact sums."""
        found: FloatArray = coordinates.ints @ self._whole.T
        found *= factor / (coordinates.steps * ORTHONORMAL_STEPS)
        return found


def as_basis(value: object) -> Basis:
    """Return a basis from what a user wrote: a basis, its plain lists, or a matrix of orthonormal columns."""
    if isinstance(value, Basis):
        return value
    if not isinstance(value, list | tuple) or not value or not isinstance(value[0], str):
        return Template(value)  # type: ignore[arg-type]  # refused there if it is no matrix
    kind, *lists = value
    try:
        if kind == "cosines" and len(lists) in (2, 3):
            shape = tuple(int(side) for side in lists[0])
            return Cosines(
                np.ones(shape, dtype=np.bool_) if len(lists) == 2 else mask_of_runs(shape, lists[2]), lists[1]
            )
        if kind == "atlas" and len(lists) == 1:
            return Atlas(lists[0])
        if kind == "template" and len(lists) == 1:
            return Template(lists[0])
        if kind == "columns" and len(lists) == 1 and len(lists[0]) == 1:
            return Columns(int(lists[0][0]))
        if kind == "views":
            return SideBySide([as_basis(entry) for entry in lists])
    except (TypeError, ValueError) as error:
        if isinstance(error, InvalidParameter):
            raise
    raise InvalidParameter(
        "basis",
        "be ['cosines', shape, counts], with the runs of a mask if there is one, ['atlas', labels] or ['template', "
        "columns]",
        f"{kind!r} and {len(lists)} lists",
        "Write what listed() of a basis returns.",
    )


def as_view_bases(entries: object, widths: Sequence[int]) -> SideBySide:
    """Return the bases of views from what a user wrote: for each view a basis, or None or an empty list for none.

    Parameters
    ----------
    entries : object
        One entry per view, in a list or a tuple.
    widths : sequence of int
        Columns of each view.
    """
    if not isinstance(entries, list | tuple) or len(entries) != len(widths):
        many = f" of {len(entries)}" if isinstance(entries, list | tuple) else ""
        must = f"have one entry per view ({len(widths)}), None for a view that needs no basis"
        remedy = "Write for example basis=(Cosines(mask, counts), None)."
        raise InvalidParameter("basis", must, f"{type(entries).__name__}{many}", remedy)
    bases = [
        Columns(width) if is_no_basis(basis) else as_basis(basis) for basis, width in zip(entries, widths, strict=True)
    ]
    if all(basis.is_complete for basis in bases):
        remedy = "Leave basis out, or write for example basis=(Cosines(mask, counts), None)."
        raise InvalidParameter("basis", "have a basis for at least one view", f"{len(bases)} views without one", remedy)
    for number, (basis, width) in enumerate(zip(bases, widths, strict=True), start=1):
        if basis.n_features != width:
            must, remedy = f"have one row per column of the view ({width})", "Use a basis of the voxels of the mask."
            raise InvalidParameter(f"The basis of view {number}", must, basis.n_features, remedy)
    return SideBySide(bases)


def is_no_basis(entry: object) -> bool:
    """Return whether a view has no basis; files write an empty list."""
    return entry is None or (isinstance(entry, list | tuple) and len(entry) == 0)


def basis_from(kind: str, array: AnyArray) -> Basis:
    """Return the basis that a message carries; refuse anything else."""
    sent = np.asarray(array)
    if kind == "views":
        return SideBySide(_sent_bases(sent))
    if kind == "atlas":
        return Atlas(sent)
    if kind == "template":
        return Template(sent)
    if kind not in ("cosines", "columns") or sent.ndim != 1 or sent.dtype.kind not in "iu" or not sent.size:
        remedy = "Install the same version of dpcape everywhere."
        raise InvalidParameter("A basis", "be cosines, an atlas or a template", repr(kind), remedy)
    if kind == "columns":
        return Columns(int(sent[0]))
    n_axes = int(sent[0])
    head = 1 + 2 * max(n_axes, 0)
    shape = tuple(int(side) for side in sent[1 : 1 + n_axes])
    return Cosines(mask_of_runs(shape, sent[head:]), [int(few) for few in sent[1 + n_axes : head]])


def _sent_bases(array: AnyArray) -> list[Basis]:
    """Return the bases of views from the array in which :class:`SideBySide` sends them."""
    unread = np.asarray(array, dtype=np.float64).ravel()
    bases: list[Basis] = []
    while unread.size:
        code, n_axes = (int(number) for number in _whole_numbers(unread[:2], 2))
        shape = _whole_numbers(unread[2 : 2 + n_axes], n_axes)
        start, count = 2 + n_axes, int(np.prod(shape, dtype=np.float64))
        if code >= len(KINDS) or not 1 <= n_axes <= 2 or not 1 <= count <= unread.size - start:
            raise _not_views()
        values = unread[start : start + count]
        content = values.reshape(shape) if KINDS[code] == "template" else _whole_numbers(values, count)
        bases.append(basis_from(KINDS[code], content))
        unread = unread[start + count :]
    return bases


def _whole_numbers(values: FloatArray, count: int) -> IntArray:
    """Return ``count`` nonnegative whole numbers that were sent as real ones."""
    if len(values) != count or not np.isfinite(values).all() or (values < 0).any() or (values > 2.0**53).any():
        raise _not_views()
    integers: IntArray = values.astype(np.int64)
    if (integers != values).any():
        raise _not_views()
    return integers


def _not_views() -> InvalidParameter:
    must, remedy = "be cosines, atlases, templates or columns", "Install the same version of dpcape everywhere."
    return InvalidParameter("The bases of views", must, "an array that is none of them", remedy)
