"""Low-frequency cosines on the voxels of a mask, applied side by side instead of as a matrix."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpcape.core.arrays import BoolArray, FloatArray, IntArray
from dpcape.core.errors import InvalidParameter
from dpcape.core.fine_grid import (
    FINE_BITS,
    ORTHONORMAL_STEPS,
    FineRows,
    adapted_rows,
    fine_rows,
    usual_reach,
    whole,
    whole_columns,
)
from dpcape.core.grid import ROW_BITS, GridRows, PublicColumns
from dpcape.statistics.basis import MOST_COLUMNS, Basis, Listed

# A cosine adds nothing inside the mask if less than this share of its energy is orthogonal to the cosines before it.
_LEAST_PIVOT = 1e-6
# Entries of volumes that are transformed together.
_VOLUME_ENTRIES = 1 << 22
_MOST_AXES = 3
# Rows on the grid have 20 bits; after the first product they have 26.
_FINER = 2.0 ** (FINE_BITS - ROW_BITS)


class Cosines(Basis):
    """Low-frequency cosines on the voxels of a public mask, lowest frequency first.

    Inside the mask the products of cosines along the sides are made orthonormal in the order of their frequency, so
    that the first of them span what the first products do. One that adds nothing inside the mask is zero.

    Parameters
    ----------
    mask : array_like of bool
        Public mask of an image of up to three dimensions; columns of a row are its voxels inside, in C order. For a
        whole image ``numpy.ones(shape, bool)``.
    counts : sequence of int
        Number of cosines along each side.

    Examples
    --------
    >>> Cosines(np.ones((10, 12, 10), bool), (3, 4, 3))
    Cosines(n_features=1200, n_columns=36)
    """

    kind: ClassVar[str] = "cosines"

    def __init__(self, mask: ArrayLike, counts: Sequence[int]) -> None:
        inside: BoolArray = np.asarray(mask, dtype=np.bool_)
        if not 1 <= inside.ndim <= _MOST_AXES or not inside.any():
            must, remedy = "have one to three sides and voxels inside", "Use the public mask of the images."
            raise InvalidParameter("mask", must, f"shape {inside.shape} and {inside.sum()} voxels", remedy)
        numbers = np.asarray(counts)
        fits = numbers.shape == (inside.ndim,) and numbers.dtype.kind in "iu" and (numbers >= 1).all()
        if not fits or (numbers > inside.shape).any() or math.prod(map(int, numbers)) > min(MOST_COLUMNS, inside.sum()):
            raise InvalidParameter(
                "counts",
                "be one whole number per side, from 1 to its length, and their product at most "
                f"{min(MOST_COLUMNS, int(inside.sum()))}",
                f"{' '.join(str(counts).split())} for {inside.shape}",
            )
        self._inside = inside
        self._counts = tuple(int(count) for count in numbers)
        self.n_features, self.n_columns = int(inside.sum()), math.prod(self._counts)
        padding = (1,) * (_MOST_AXES - inside.ndim)
        self._sides = padding + inside.shape
        self._axes = [_cosines(side, few) for side, few in zip(self._sides, (*padding, *self._counts), strict=True)]
        self._order = _by_frequency(self._sides, (*padding, *self._counts))

    @property
    def inside(self) -> BoolArray:
        """Mask of the image."""
        return self._inside

    @property
    def sent_array(self) -> IntArray:
        """Number of sides, their lengths, their counts, and the lengths of runs outside and inside the mask."""
        head = [self._inside.ndim, *self._inside.shape, *self._counts]
        return np.concatenate([np.array(head, dtype=np.int64), _runs(self._inside)])

    def listed(self) -> Listed:
        """Return the basis as plain lists; runs are left out where the mask is the whole image."""
        lists: Listed = [self.kind, list(self._inside.shape), list(self._counts)]
        return lists if self._inside.all() else [*lists, [int(run) for run in _runs(self._inside)]]

    @property
    def used(self) -> BoolArray:
        """Which columns are not zero."""
        return np.ones(self.n_columns, dtype=np.bool_) if self._factor is None else self._factor[1]

    def cuts(self, least: int) -> list[int]:
        """Return numbers of the lowest frequencies that may be kept without the others, ascending."""
        smallest = min(max(least, 8), self.n_columns)
        steps = max(1, math.ceil(6 * math.log2(self.n_columns / smallest)))
        return sorted({round(n) for n in np.geomspace(smallest, self.n_columns, steps + 1)})

    @cached_property
    def _factor(self) -> tuple[FloatArray, BoolArray] | None:
        """Inverse of the triangular factor of the cosines' products inside the mask; None for a whole image."""
        if self._inside.all():
            return None
        return _inverse_factor(
            self._sides, tuple(axis.shape[1] for axis in self._axes), np.packbits(self._inside).tobytes()
        )

    def coordinates(self, rows: FloatArray) -> FloatArray:
        """Return Q'x of each row."""
        result = self._analysed(rows, self._axes)
        if self._factor is None:
            return result
        orthonormal: FloatArray = result @ self._factor[0].T
        orthonormal[:, ~self.used] = 0.0
        return orthonormal

    def expanded(self, coordinates: FloatArray) -> FloatArray:
        """Return Qy of each row of coordinates."""
        weights = coordinates if self._factor is None else (coordinates * self.used) @ self._factor[0]
        return self._synthesised(weights, self._axes)

    def exact_coordinates(self, rows: GridRows) -> FloatArray:
        """Return Q'x of each row of a record, from exact sums.

        Products with the cosines of one side make no row longer by more than 1 + 2^-10, so that after each side, and
        rounded, it is at most 2^26 (1 + 2^-7) steps long, and the next sums stay below 2^53.
        """
        result = self._analysed(rows.ints, self._whole_axes, (_FINER / ORTHONORMAL_STEPS, 1 / ORTHONORMAL_STEPS))
        result /= rows.steps * _FINER * ORTHONORMAL_STEPS
        if self._public is None:
            return result
        orthonormal = fine_rows(result, usual_reach(rows)).products(self._public[0])
        orthonormal[:, ~self.used] = 0.0
        return orthonormal

    def exact_expansion(self, coordinates: FineRows, factor: float = 1.0) -> FloatArray:
        """Return Qy of the coordinates of each record, times a factor; sums stay below 2^53 as above."""
        if self._public is not None:
            used = FineRows(coordinates.ints * self.used, coordinates.steps)
            coordinates = adapted_rows(used.products(self._public[1]))
        result = self._synthesised(coordinates.ints, self._whole_axes, 1 / ORTHONORMAL_STEPS)
        result *= factor / (coordinates.steps * ORTHONORMAL_STEPS)
        return result

    @cached_property
    def _whole_axes(self) -> list[FloatArray]:
        """The cosines of each side as whole numbers."""
        return [whole_columns(axis) for axis in self._axes]

    @cached_property
    def _public(self) -> tuple[PublicColumns, PublicColumns] | None:
        """What products with the cosines, and coordinates, are multiplied by inside the mask, as whole numbers."""
        if self._factor is None:
            return None
        inverse = self._factor[0]
        return PublicColumns(inverse.T, FINE_BITS), PublicColumns(inverse, FINE_BITS)

    def _some(self, n_rows: int) -> Iterator[slice[int, int, None]]:
        step = max(1, _VOLUME_ENTRIES // self._inside.size)
        return (slice(start, start + step) for start in range(0, n_rows, step))

    def _volumes(self, rows: FloatArray) -> FloatArray:
        """Return rows as whole images, zero outside the mask."""
        if self._factor is None:
            return np.ascontiguousarray(rows)
        volumes, inside = np.zeros((len(rows), self._inside.size)), self._inside.ravel()
        for volume, row in zip(volumes, rows, strict=True):
            volume[inside] = row
        return volumes

    def _analysed(
        self, rows: FloatArray, axes: Sequence[FloatArray], settled: tuple[float, float] | None = None
    ) -> FloatArray:
        """Return the products of rows with the cosines in order of frequency.

        Parameters
        ----------
        rows : (N, n_features) array
            Rows.
        axes : sequence of array
            Cosines of each side.
        settled : tuple of float or None
            Factors after the last and the middle side, after which products are rounded to whole numbers.
        """
        x, y, z = axes
        result = np.empty((len(rows), self.n_columns))
        for some in self._some(len(rows)):
            volumes = self._volumes(rows[some])
            n = len(volumes)
            along = volumes.reshape(-1, len(z)) @ z
            if settled is not None:
                whole(along, settled[0])
            along = np.matmul(y.T, along.reshape(n * len(x), len(y), -1))
            if settled is not None:
                whole(along, settled[1])
            along = np.matmul(x.T, along.reshape(n, len(x), -1))
            result[some] = along.reshape(n, -1)[:, self._order]
        return result

    def _synthesised(
        self, coordinates: FloatArray, axes: Sequence[FloatArray], settled: float | None = None
    ) -> FloatArray:
        """Return rows from the weights of the cosines; between sides they are rounded if ``settled`` is given."""
        x, y, z = axes
        result = np.empty((len(coordinates), self.n_features))
        for some in self._some(len(coordinates)):
            n = len(coordinates[some])
            weights = np.empty((n, self.n_columns))
            weights[:, self._order] = coordinates[some]
            along = np.matmul(x, weights.reshape(n, x.shape[1], -1))
            if settled is not None:
                whole(along, settled)
            along = np.matmul(y, along.reshape(n * len(x), y.shape[1], -1))
            if settled is not None:
                whole(along, settled)
            along = along.reshape(-1, z.shape[1])
            if self._factor is None:
                np.matmul(along, z.T, out=result[some].reshape(-1, len(z)))
            else:
                np.take((along @ z.T).reshape(n, -1), self._voxels, axis=1, out=result[some])
        return result

    @cached_property
    def _voxels(self) -> NDArray[np.intp]:
        return np.flatnonzero(self._inside)


def mask_of_runs(shape: tuple[int, ...], runs: ArrayLike) -> BoolArray:
    """Return a mask from the lengths of its runs, outside first."""
    lengths = np.asarray(runs)
    fits = lengths.ndim == 1 and lengths.dtype.kind in "iu" and (lengths >= 0).all()
    sides = 1 <= len(shape) <= _MOST_AXES and all(1 <= side <= 1 << 20 for side in shape)
    if not fits or not sides or sum(map(int, lengths)) != math.prod(shape) or math.prod(shape) > 1 << 28:
        must = "be whole numbers that add up to its voxels"
        remedy = "Write what the method listed() of a basis returns."
        raise InvalidParameter("The runs of a mask", must, f"{lengths.size} runs for the shape {shape}", remedy)
    flat: BoolArray = np.repeat(np.arange(lengths.size) % 2 == 1, lengths)
    return flat.reshape(shape)


def _runs(inside: BoolArray) -> IntArray:
    """Return the lengths of the runs of a mask, outside first."""
    flat = inside.ravel()
    changes = np.flatnonzero(np.diff(flat)) + 1
    ends = np.concatenate([[0], changes, [flat.size]])
    lengths = np.diff(ends).astype(np.int64)
    return np.concatenate([np.zeros(1, dtype=np.int64), lengths]) if flat[0] else lengths


def _cosines(side: int, few: int) -> FloatArray:
    """Return the low-frequency cosines of one side as orthonormal columns."""
    columns = np.cos(np.outer(np.pi * (np.arange(side) + 0.5) / side, np.arange(few)))
    normed: FloatArray = np.ascontiguousarray(columns / np.linalg.norm(columns, axis=0))
    return normed


def _by_frequency(sides: Sequence[int], counts: Sequence[int]) -> NDArray[np.intp]:
    """Return the order of products of cosines from the lowest frequency to the highest."""
    squares = [(np.arange(few) / side) ** 2 for side, few in zip(sides, counts, strict=True)]
    total = squares[0][:, None, None] + squares[1][None, :, None] + squares[2][None, None, :]
    return np.argsort(total.ravel(), kind="stable")


@lru_cache(maxsize=8)
def _inverse_factor(sides: tuple[int, ...], counts: tuple[int, ...], mask: bytes) -> tuple[FloatArray, BoolArray]:
    """Return the inverse of the triangular factor of the products inside a mask, and which of them are used."""
    flat = np.unpackbits(np.frombuffer(mask, dtype=np.uint8), count=math.prod(sides)).astype(np.float64)
    pairs = []
    for side, few in zip(sides, counts, strict=True):
        axis = _cosines(side, few)
        pairs.append((axis[:, :, None] * axis[:, None, :]).reshape(side, -1))
    x, y, z = pairs
    along = flat.reshape(-1, sides[2]) @ z
    along = np.matmul(y.T, along.reshape(sides[0], sides[1], -1))
    gram = (x.T @ along.reshape(sides[0], -1)).reshape(*(count for few in counts for count in (few, few)))
    square = gram.transpose(0, 2, 4, 1, 3, 5).reshape(math.prod(counts), -1)
    order = _by_frequency(sides, counts)
    factor, used = _factored(square[np.ix_(order, order)])
    inverse: FloatArray = np.asarray(np.linalg.solve(factor, np.eye(len(factor))), dtype=np.float64)
    inverse.setflags(write=False)
    return inverse, used


def _factored(gram: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Return the triangular factor of a matrix of products; columns that the ones before them contain are unused."""
    n = len(gram)
    factor, used = np.zeros((n, n)), np.ones(n, dtype=np.bool_)
    for j in range(n):
        column = gram[j:, j] - factor[j:, :j] @ factor[j, :j]
        if column[0] > _LEAST_PIVOT * gram[j, j]:
            factor[j:, j] = column / math.sqrt(column[0])
        else:
            used[j], factor[j, :j], factor[j, j] = False, 0.0, 1.0
    return factor, used
