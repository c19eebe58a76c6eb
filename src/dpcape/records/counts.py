"""Word counts of documents, read as sparse blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, issparse

from dpcape.core.arrays import FloatArray
from dpcape.core.errors import InvalidParameter
from dpcape.records.clip import strips
from dpcape.schema.table import NUMERIC_KINDS, checked_names, kind_of, read_table

MINIMUM_WORDS = 3
"""Topic models use ordered triples of words: a shorter document has none."""

LARGEST_COUNT = 2.0**31
"""Sums of counts below this are exact in float64 for any vocabulary up to 2^22 words."""

SparseBlock: TypeAlias = "csr_array[np.float64, tuple[int, int]]"


class Counts:
    """Counts of words in documents, one row per document, sparse or dense.

    Parameters
    ----------
    data : object
        SciPy sparse array or matrix, or any table. A sparse one in row format is kept as it is.
    feature_names : sequence of str or None
        The vocabulary, one word per column.
    invalid : str
        Policy for documents with entries that are not counts: "zero" or "refuse".
    """

    def __init__(self, data: object, *, feature_names: Sequence[str] | None = None, invalid: str = "zero") -> None:
        self._refuses = invalid == "refuse"
        self.n_invalid = 0
        self._counts = (
            _own_sparse(data) if issparse(data) else read_table(data, subject="counts", lenient=not self._refuses)
        )
        self.shape: tuple[int, int] = (self._counts.shape[0], self._counts.shape[1])
        if 0 in self.shape:
            remedy = "Leave a site without documents out of the federation."
            raise InvalidParameter("counts", "have at least one document and one word", f"shape {self.shape}", remedy)
        words = getattr(self._counts, "names", ()) if feature_names is None else feature_names
        self.names = checked_names(words, n_columns=self.shape[1], subject="counts") if len(words) else ()
        for rows in strips(*self.shape):
            self.n_invalid += int(np.count_nonzero(self._summed(rows.start, rows.stop)[1]))

    def read(self, start: int, stop: int) -> SparseBlock:
        """Return documents `start` to `stop`, checked, those with too few words as rows of zeros."""
        return self.marked(start, stop)[0]

    def marked(self, start: int, stop: int) -> tuple[SparseBlock, npt.NDArray[np.bool_]]:
        """Return the same, and which of them are rows of zeros because they hold an entry that is not a count."""
        block, bad = self._summed(start, stop)
        short = block.sum(axis=1) < MINIMUM_WORDS
        block.data[np.repeat(short, np.diff(block.indptr))] = 0.0
        block.eliminate_zeros()
        return block, bad

    def _summed(self, start: int, stop: int) -> tuple[SparseBlock, npt.NDArray[np.bool_]]:
        """Return a sparse float64 copy of some rows, with one entry per word, and which were bad and are zero now.

        Entries of one word are added in an order that depends on the other documents. So each of them must be a count
        already: sums of these are exact in any order.
        """
        rows = slice(start, stop)
        if isinstance(self._counts, csr_array):
            block = self._counts[rows].astype(np.float64, copy=True)
        else:
            block = csr_array(np.array(self._counts.numbers(rows), dtype=np.float64))
        bad = self._without_bad(block)
        block.sum_duplicates()
        bad |= self._without_bad(block)
        return block, bad

    def _without_bad(self, block: SparseBlock) -> npt.NDArray[np.bool_]:
        """Set documents that hold an entry that is not a count to zero, and tell which."""
        bad = self._bad(block)
        block.data[np.repeat(bad, np.diff(block.indptr))] = 0.0
        return bad

    def _bad(self, block: SparseBlock) -> npt.NDArray[np.bool_]:
        """Tell which documents hold an entry that is not a count, or refuse them."""
        good = _are_counts(block.data)
        if self._refuses:
            _check_counts(block.data)
        bad = np.zeros(block.shape[0], dtype=np.bool_)
        bad[np.repeat(np.arange(block.shape[0]), np.diff(block.indptr))[~good]] = True
        return bad


def _own_sparse(data: Any) -> csr_array[Any, tuple[int, int]]:
    """Return our own row-format array; it shares the caller's numbers if they are in that format."""
    if data.ndim != 2 or data.dtype.kind not in NUMERIC_KINDS:
        must, remedy = "be a two-dimensional array of numbers", "Give one row per document and one column per word."
        raise InvalidParameter("counts", must, f"shape {data.shape} of {kind_of(data)}", remedy)
    counts: csr_array[Any, tuple[int, int]] = csr_array(data)
    try:
        counts.check_format(full_check=True)
    except ValueError as error:
        raise InvalidParameter(
            "counts", "be a well-formed sparse array", "indices that do not fit", "Build it again from the counts."
        ) from error
    return counts


def _are_counts(numbers: FloatArray) -> npt.NDArray[np.bool_]:
    """Return which numbers are valid counts."""
    with np.errstate(invalid="ignore"):
        counts: npt.NDArray[np.bool_] = (numbers >= 0) & (numbers < LARGEST_COUNT) & (numbers == np.floor(numbers))
    return counts


def _check_counts(numbers: FloatArray) -> None:
    """Refuse entries that are not counts; the message gives neither position nor value."""
    if not bool(_are_counts(numbers).all()):
        must = "be whole numbers from 0 to 2147483647"
        remedy = "Pass how often each word occurs, not weights or frequencies."
        raise InvalidParameter("counts", must, "at least one other (not shown: counts are private)", remedy)
