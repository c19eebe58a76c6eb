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

Bounds are accepted between 1e-40 and 1e40, so no quotient above can overflow or lose digits, and neither can squares of
the noise of third moments, which grow with the sixth power of the bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from numbers import Real

import numpy as np

from dpcape.core.arrays import FloatArray, shorten_rows
from dpcape.core.errors import InvalidParameter
from dpcape.core.facts import LARGEST_BOUND, SMALLEST_BOUND
from dpcape.schema.column import check_finite

STRIP_ENTRIES = 1 << 17
"""Entries handled together: 1 MiB of float64, so that norms and scaling find them in the cache."""

_NONE = np.empty(0, dtype=np.intp)


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
