"""Clipping rows to a public Euclidean norm, so that the bound holds exactly and not just nearly.

Every guarantee divides by the bound, so a row that exceeds it by one unit in the last place makes the
guarantee false. Rows are therefore scaled to slightly less than the bound. Let u = 2^-53, D the number of
columns, and

    target = bound * (1 - (D + 16) * 2^-52).

*Ordinary rows* (computed sum of squares finite). Whatever the order of summation, with or without fused
multiply-add, the computed sum of squares is s (1 + a) + b, s the exact one, |a| <= D u / (1 - D u), and b at
most D 2^-1022 from products that underflow (also if the processor flushes subnormal numbers to zero). A row
is left as it is if its computed norm is at most `target`. Then its exact norm is at most target * (1 + (D/2 +
2) u) if the computed norm is above 1e-140, where b is below 1e-27 D relative to s and lost in the rounding of
the other terms; and otherwise it is below 1e-139 sqrt(D), far below any accepted bound. A row whose computed
norm is larger is multiplied by target / norm: one rounding for the square root, one for the quotient, one per
product, so the exact norm of what is emitted is at most target * (1 + (D/2 + 4) u) plus sqrt(D) 2^-1074 from
products that underflow, which is below u * bound / 1e100. Because target <= bound * (1 - (2 D + 32) u) (1 +
u), in both cases the result stays below bound for every D below 2^40.

*Huge rows* (computed sum of squares overflows; the norm is above 2^511). The row is first multiplied by
2^-600. That is exact except where the product underflows, and what underflows adds at most D 2^-2148 to a sum
of squares above 2^-178. Its norm now lies between 2^-89 and 2^(424 + log2(D)/2), nothing can overflow, and it
is scaled to `target` as above.

*Single precision*, for bounds from 2^-20 to 2^20 and at most 2^16 columns. Let w = 2^-24. A sum of squares computed
in single precision, in any order, is s (1 + a) + b with |a| <= D w / (1 - D w) and b at most D 2^-126. If it is
at most (t (1 - (D + 16) 2^-23))^2, t = bound * (1 - 2^-23), then s <= t^2 and the row is left as it is: the square of
the bracket is below 1 - (3 D + 48) w, and b is below D 2^-84 relative to t^2. A block with a longer row is clipped in
double precision to t as above, then rounded: each entry grows by at most w relative to itself, or 2^-150, so the norm
is at most t (1 + w) + sqrt(D) 2^-150, which is below the bound.

Bounds are accepted between 1e-40 and 1e40, so no quotient above can overflow or lose digits, and neither can squares of
the noise of third moments, which grow with the sixth power of the bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from numbers import Real

import numpy as np

from dpcape.core.arrays import FloatArray, SingleArray, shorten_rows
from dpcape.core.errors import InvalidParameter
from dpcape.core.facts import LARGEST_BOUND, SMALLEST_BOUND
from dpcape.schema.column import check_finite

STRIP_ENTRIES = 1 << 17
"""Entries handled together: 1 MiB of float64, so that norms and scaling find them in the cache."""


SHRINK_SINGLE = 1 - 2.0**-23
"""Factor applied to the bound before rows are rounded to single precision."""

_NONE = np.empty(0, dtype=np.intp)

# Bounds and columns for which sums of squares in single precision neither overflow nor underflow, and stay accurate.
_SINGLE_BOUNDS, _SINGLE_COLUMNS = (2.0**-20, 2.0**20), 2**16


def checked_bound(bound: object, *, subject: str = "bound") -> float:
    """Return a public bound as a float."""
    number = isinstance(bound, Real) and not isinstance(bound, bool)
    if not number or not SMALLEST_BOUND <= bound <= LARGEST_BOUND:  # type: ignore[operator]  # a number by now
        must = f"be a positive number between {SMALLEST_BOUND:g} and {LARGEST_BOUND:g}"
        raise InvalidParameter(subject, must, repr(bound), "Choose it from public knowledge, never from the records.")
    return float(bound)  # type: ignore[arg-type]  # a number by now


def longest_row(n_columns: int) -> float:
    """Return the length that no row exceeds whose columns all have public ranges or levels.

    A column with a range becomes one entry in [-1, 1], a column with levels at most one entry of 1, so a row is at most
    the root of their number long. A little more, so that clipping leaves the longest row as it is.
    """
    return math.sqrt(n_columns) * (1 + 1e-9)


def clip_rows(block: FloatArray, *, bound: float, out: FloatArray, factors: FloatArray | None = None) -> None:
    """Write every row, multiplied by min(1, bound / norm), into `out`, which may be `block`; `block` is used up.

    The exact Euclidean norm of every row of `out` is at most `bound`; see the top of this file. The factors, in
    [0, 1], are written into `factors` if it is given.
    """
    target = bound * (1 - (block.shape[1] + 16) * 2.0**-52)
    with np.errstate(over="ignore", invalid="ignore"):
        norms = np.sqrt(np.vecdot(block, block))
    longest = float(norms.max())  # NaN if any entry is NaN.
    huge = np.flatnonzero(~np.isfinite(norms)) if not math.isfinite(longest) else _NONE
    if huge.size:
        check_finite(block[huge], subject="records")  # The caller may have changed them since the first check.
        if factors is not None:
            largest = np.abs(block[huge]).max(axis=1)
            lengths = np.linalg.norm(block[huge] / largest[:, np.newaxis], axis=1)
            factors[huge] = target / lengths / largest
        block[huge], norms[huge] = _scaled_huge_rows(block[huge], target), target
        longest = float(norms.max())
    if factors is not None:
        ordinary = np.ones(len(norms), dtype=np.bool_)
        ordinary[huge] = False
        np.copyto(factors, target / np.maximum(norms, target), where=ordinary)
    if out is not block:
        np.copyto(out, block)
    if longest > target:
        shorten_rows(out, norms, target)


def certainly_short(block: SingleArray, *, bound: float) -> bool:
    """Return whether every single-precision row is within the bound, by norms computed in single precision."""
    largest = bound * SHRINK_SINGLE * (1 - (block.shape[1] + 16) * 2.0**-23)
    with np.errstate(over="ignore", invalid="ignore"):
        longest = float(np.vecdot(block, block).max())
    # NaN compares false with everything, so a block with NaN is not certainly short.
    return bool(longest <= largest**2)


def is_single(precision: str | None, holds_single: bool, bound: float, n_columns: int) -> bool:
    """Return whether products of rows are summed in single precision.

    Parameters
    ----------
    precision : str or None
        "single" or "double"; None for single precision where the rows are held in it and it can be used.
    holds_single : bool
        Whether the rows are held in single precision.
    bound : float
        Largest norm of a row.
    n_columns : int
        Columns of a row.
    """
    if precision not in (None, "single", "double"):
        remedy = "Leave it out to sum in the precision of the array."
        raise InvalidParameter("precision", "be 'single', 'double' or None", repr(precision), remedy)
    least, most = _SINGLE_BOUNDS
    usable = least <= bound <= most and n_columns <= _SINGLE_COLUMNS
    if precision == "single" and not usable:
        must = f"be 'double' for bounds outside {least:.2g} to {most:.2g} and for more than {_SINGLE_COLUMNS} columns"
        remedy = "Change the units of the columns, or leave precision out."
        raise InvalidParameter("precision", must, "'single'", remedy)
    return usable and (precision == "single" or (precision is None and holds_single))


def strips(n_rows: int, n_columns: int, *, n_entries: int = STRIP_ENTRIES) -> Iterator[slice]:
    """Yield consecutive slices of rows with about `n_entries` entries each."""
    step = max(1, n_entries // n_columns)
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def _scaled_huge_rows(rows: FloatArray, target: float) -> FloatArray:
    """Scale rows whose squares overflow to norm `target`."""
    smaller = rows * 2.0**-600
    norms = np.sqrt(np.vecdot(smaller, smaller))
    scaled: FloatArray = smaller * (target / norms)[:, np.newaxis]
    return scaled
