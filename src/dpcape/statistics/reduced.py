"""Dimension reduction of rows and subjects: projection by a public matrix, then clipping to a ball.

The matrices used here (projections, whiteners, unmixings) come from the aggregator. No statistic trusts them: every
contribution is clipped to its ball after the last multiplication, so a wrong matrix costs accuracy, never privacy.
"""

from __future__ import annotations

import hashlib
import math
import operator
from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike

from dpcape.core.arrays import BoolArray, FloatArray
from dpcape.core.contributions import ROUND
from dpcape.core.errors import InvalidParameter
from dpcape.core.facts import PublicFacts
from dpcape.core.grid import GridRows, PublicColumns, clipped, steps_for
from dpcape.core.record_blocks import TiledRecords
from dpcape.core.tiles import Tile, tile_rows

MOST_REDUCED = 1e6
"""Largest norm of a kept row, and largest entry of an unmixing: whitened rows have norms near sqrt(components)."""

# Cache of reduced data, per records: later rounds of one analysis use the same projection.
_KEPT: WeakKeyDictionary[object, tuple[bytes, list[Any]]] = WeakKeyDictionary()  # type: ignore[explicit-any]
T = TypeVar("T")


def checked_matrix(name: str, matrix: ArrayLike, shape: tuple[int | None, ...], *, most: float = np.inf) -> FloatArray:
    """Return a public array as float64, or raise unless it is finite and of this shape (None: any positive length)."""
    array = np.asarray(matrix, dtype=np.float64)
    fits = array.ndim == len(shape) and all(
        have > 0 and want in (None, have) for have, want in zip(array.shape, shape, strict=True)
    )
    if not fits or not np.isfinite(array).all():
        wanted = " x ".join("any" if side is None else str(side) for side in shape)
        problem = "NaN or infinity" if fits else f"shape {array.shape}"
        raise InvalidParameter(name, f"be a finite array of shape {wanted}", problem, "Compute it again.")
    largest = float(np.abs(array).max())
    if largest > most:
        remedy = "Lower the learning rate."
        raise InvalidParameter(name, f"have entries of at most {most:g} in absolute value", f"{largest:g}", remedy)
    return array


def checked_positive(name: str, value: float) -> float:
    """Return a public positive finite number, or raise."""
    number = isinstance(value, int | float | np.floating | np.integer) and not isinstance(value, bool)
    if not number or not 0 < value < np.inf:
        raise InvalidParameter(name, "be a positive finite number", repr(value), "Write for example 1.0.")
    return float(value)


def public_products(vector: FloatArray, matrix: FloatArray) -> FloatArray:
    """Return the products of a public vector with the columns of a public matrix, the same on every machine."""
    # Powers of two first, so that no sum overflows before the last step.
    _, exponent = np.frexp(np.abs(vector).max())
    _, exponents = np.frexp(np.abs(matrix).max(axis=0))
    entries, columns = np.ldexp(vector, -exponent).tolist(), np.ldexp(matrix, -exponents).T.tolist()
    sums = np.array([math.fsum(map(operator.mul, entries, column)) for column in columns])
    with np.errstate(all="ignore"):
        products: FloatArray = np.ldexp(sums, exponent + exponents)
    return products


def reduced_rows(
    rows: GridRows, projection: PublicColumns, clip: float, *, origin: FloatArray | float = 0.0
) -> GridRows:
    """Return rows times a public matrix, minus a public vector, clipped to a ball and on the grid.

    For any public arrays: rows that overflow are not finite and become zero.
    """
    steps = steps_for(projection.ints.shape[1], (clip,))
    # By column: there are few, and what is computed of them goes from column to column.
    reduced = rows.products_by_column(projection, steps).T
    with np.errstate(all="ignore"):
        reduced -= steps * origin
    return clipped(reduced, reduced.shape[1:], (clip,))[0]


def into_ball(vector: FloatArray, radius: float, *, fill: bool = False) -> FloatArray:
    """Return a contribution of length at most ``radius`` (with ``fill`` that length, unless it is zero).

    A vector that is not finite becomes zero: a site must answer whatever its records are. The target allows for the
    rounding of the norm.
    """
    target = radius * (1 - (vector.size + 16) * 2.0**-52)
    with np.errstate(over="ignore", invalid="ignore"):
        norm = float(np.sqrt(np.vecdot(vector, vector)))
    if not np.isfinite(norm) or norm < 1e-140:
        return np.zeros_like(vector)
    if not fill and norm <= target:
        return vector
    scaled: FloatArray = vector * (target / norm)
    return scaled


def reduced_reach(facts: PublicFacts, projection: FloatArray) -> float:
    """Return how long rows times a public matrix may be; at most :data:`MOST_REDUCED`."""
    with np.errstate(all="ignore"):
        longest = float(np.linalg.norm(projection)) * math.hypot(*facts.bounds)
    if not longest < MOST_REDUCED:
        return MOST_REDUCED
    fraction, exponent = math.frexp(longest)
    # From above, and so coarse that all libraries agree on it.
    return min(MOST_REDUCED, math.ldexp(math.floor(fraction * 16) + 1, max(exponent, -64) - 4))


def kept_tiles(
    records: TiledRecords, projection: FloatArray, reduced: Callable[[Tile], GridRows]
) -> list[tuple[GridRows, BoolArray | None]]:
    """Return the reduced rows of all tiles, and which to drop, cached for the next round (N x R numbers)."""

    def compute() -> list[tuple[GridRows, BoolArray | None]]:
        found: list[tuple[GridRows, BoolArray]] = []
        for tile, gone in records.tiles():
            rows = reduced(tile)
            dropped = np.zeros(len(rows), dtype=np.bool_) if gone is None else gone
            # Reduced rows are narrow, so more of them fit into a tile.
            if found and len(found[-1][0]) + len(rows) <= tile_rows(rows.width, ROUND):
                before, dropped_before = found.pop()
                rows = GridRows(np.concatenate([before.ints, rows.ints]), rows.steps)
                dropped = np.concatenate([dropped_before, dropped])
            found.append((rows, dropped))
        return [(rows, dropped if dropped.any() else None) for rows, dropped in found]

    return _kept(records, projection, compute)


def centred(series: FloatArray) -> FloatArray:
    """Return a series minus its mean over time and divided by its largest entry, so that powers cannot overflow."""
    moved = series - series.mean(axis=0)
    largest = float(np.abs(moved).max())
    if not np.isfinite(largest) or largest == 0.0:
        return np.zeros_like(moved)
    result: FloatArray = moved / largest
    return result


def key_of(projection: FloatArray) -> bytes:
    """Return what stands for a projection where its products are kept."""
    return hashlib.sha256(np.ascontiguousarray(projection).tobytes()).digest()


def _kept(records: object, projection: FloatArray, compute: Callable[[], list[T]]) -> list[T]:
    key = key_of(projection)
    known = _KEPT.get(records)
    if known is None or known[0] != key:
        known = (key, compute())
        _KEPT[records] = known
    return known[1]
