"""Counts of words in the documents of a tile, sparse; what is computed of a document is computed of it alone."""

from __future__ import annotations

from functools import cached_property
from typing import TypeAlias

import numpy as np
from scipy.sparse import csr_array

from dpcape.core.arrays import FloatArray, IntArray

SparseCounts: TypeAlias = "csr_array[np.float64, tuple[int, int]]"
"""Word counts of some documents, one row each."""

# Documents of up to 2^19 words are multiplied as they are; longer ones are divided by a power of two, and then rounded.
_LENGTH_BITS = 19


class WordCounts:
    """Documents as counts of those words that occur in them.

    Parameters
    ----------
    matrix : (N, V) sparse array
        Counts by document, words in ascending order; a document that contributes nothing is a row of zeros.
    """

    def __init__(self, matrix: SparseCounts) -> None:
        self.matrix = matrix

    def __len__(self) -> int:
        return int(self.matrix.shape[0])

    @property
    def n_words(self) -> int:
        """Number of words in the vocabulary."""
        return int(self.matrix.shape[1])

    @property
    def counts(self) -> FloatArray:
        """How often each word of each document occurs, one document after another."""
        return self.matrix.data

    @cached_property
    def words(self) -> IntArray:
        """Which words these are."""
        return self.matrix.indices.astype(np.int64, copy=False)

    @cached_property
    def documents(self) -> IntArray:
        """Which documents they are of."""
        return np.repeat(np.arange(len(self)), np.diff(self.matrix.indptr))

    @cached_property
    def lengths(self) -> FloatArray:
        """Number of words of each document, exact."""
        return self.totals(self.counts)

    def totals(self, values: FloatArray) -> FloatArray:
        """Return sums over the words of each document, added one after another in their order, and so of it alone."""
        # Without a word at all it would count in integers.
        return np.bincount(self.documents, weights=values, minlength=len(self)).astype(np.float64, copy=False)

    def each(self, numbers: FloatArray) -> FloatArray:
        """Return the number of its document for every word."""
        return numbers[self.documents]

    def filled(self, values: FloatArray) -> FloatArray:
        """Return values of the words of documents as an (N, V) array."""
        full = np.zeros(self.matrix.shape)
        full[self.documents, self.words] = values
        return full

    def replaced(self, values: FloatArray) -> SparseCounts:
        """Return a sparse array with other values in the same places."""
        return csr_array((values, self.matrix.indices, self.matrix.indptr), shape=self.matrix.shape)

    def products(self, ints: FloatArray) -> FloatArray:
        """Return the products of documents, each divided by its length, with the public columns of whole numbers.

        Columns are at most 2^32 long, and counts 2^20, after division and rounding too: the absolute values add up to
        at most 2^52, so every sum is exact in any order.
        """
        found: FloatArray = np.asarray(self._shortened @ ints)
        found *= np.divide(self._divisors, self.lengths, out=np.zeros(len(self)), where=self.lengths > 0)[:, np.newaxis]
        return found

    @cached_property
    def _divisors(self) -> FloatArray:
        _, exponents = np.frexp(self.lengths)
        divisors: FloatArray = np.ldexp(1.0, np.maximum(exponents - _LENGTH_BITS, 0))
        return divisors

    @cached_property
    def _shortened(self) -> SparseCounts:
        return self.replaced(np.rint(self.counts / self.each(self._divisors)))

    def of_words(self, words: IntArray, fewest: int) -> WordCounts:
        """Return the counts of some public words; a document with fewer than ``fewest`` of them becomes zero."""
        if words.size == self.n_words:
            return self
        some = WordCounts(csr_array(self.matrix[:, words]))
        return WordCounts(some.replaced(some.counts * some.each((some.lengths >= fewest).astype(np.float64))))

    def chosen(self, which: IntArray | slice[int, int, None]) -> WordCounts:
        """Return some of the documents."""
        return WordCounts(csr_array(self.matrix[which]))


def zero_counts(n_documents: int, n_words: int) -> WordCounts:
    """Return documents without words."""
    return WordCounts(csr_array((n_documents, n_words), dtype=np.float64))
