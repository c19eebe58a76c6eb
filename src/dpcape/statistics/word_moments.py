"""Moments of documents: words, pairs and triples of words, each averaged over all positions of a document.

A document of L words with counts c contributes, for L >= 3,

    words    c / L
    pairs    (c c' - diag c) / (L (L - 1))
    triples  (c (x) c (x) c - 3 Sym(diag c (x) c) + 2 diag3 c) / (L (L - 1) (L - 2)),

the averages of e_i, e_i (x) e_j and e_i (x) e_j (x) e_k over all ordered choices of different positions:
symmetric, so that nothing is released without noise, and using every word. A shorter document contributes zero and
is still counted. A contribution longer than a public ``clip`` is scaled down to it.

Sensitivity. The entries of a contribution are non-negative and add to one, so its Euclidean length is at
most one, and after clipping at most r = min(clip, 1). Two contributions have a non-negative inner product,
so their squared distance is at most r^2 + r^2: the diameter is sqrt(2) r, attained by two documents that
each repeat one word (searched in ``tests/laws``). In public coordinates W'e_i entries have signs, and the
diameter is 2 clip.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from dpcape.core.arrays import FloatArray, IntArray
from dpcape.core.contributions import Cross, Form, Plain, WordOuter, WordSum
from dpcape.core.errors import InvalidParameter
from dpcape.core.extent import UNIT_ROUNDOFF, Extent, cross_error, exact_sums, plain_error, row_error
from dpcape.core.facts import PublicFacts
from dpcape.core.grid import PUBLIC_BITS, PublicColumns, factors_into, on_grid, reach_on_grid, steps_per_unit
from dpcape.core.kernel import Summed
from dpcape.core.statistic import known
from dpcape.core.tiles import Tile
from dpcape.core.word_counts import WordCounts
from dpcape.statistics.cubes import cube_entries, cube_error, cubes, pairs_at_a_time
from dpcape.statistics.packing import (
    pack,
    packed_size,
    packed_tensor_size,
    root_multiplicities,
    triples,
    unpack,
    unpack_tensor,
)
from dpcape.statistics.third_moments import checked_positive, checked_whitener

# A packed tensor of more entries than this is not released whole.
LARGEST_TENSOR = 2**24
# How many times as many numbers are computed together as for other statistics: 32 MiB.
_LARGER_PARTS = 32
# Shorter products of three columns vanish.
_SMALLEST = 1e-140
# A document of fewer words has no triple.
_FEWEST = 3


class _OfDocuments(Summed[FloatArray]):
    """Base class of moments of documents."""

    kinds = frozenset({"documents"})
    units = frozenset({"record"})
    _clip: float

    @property
    def _reach(self) -> float:
        return min(self._clip, 1.0)


def _added_shares(size: float, n_features: float, clip: float, moved: float) -> Extent:
    """Return the extent of non-negative entries that add to one, clipped to length ``clip`` and put on grids.

    Rounding keeps entries non-negative, so two contributions of at most r + e are at most sqrt(2) (r + e) apart, e how
    far a contribution moves: ``moved`` on the grids, and by what its length is computed with. A squared length is added
    up from terms whose absolute values are at most 13 |c|^6, |c|^6 at most (27/6)^2 times it (searched), with
    n_features + 16 roundings each, so the length is off by at most 512 (n_features + 64) u of itself.
    """
    radius = min(clip, 1.0)
    error = moved + 512 * (n_features + 64) * UNIT_ROUNDOFF * radius
    return exact_sums(size, math.sqrt(2) * radius, radius, error=error)


@known
class WordShares(_OfDocuments):
    """Mean over documents of the shares of words, as a plain vector; shares are put on 2^40 steps."""

    name = "word_shares"

    def __init__(self, facts: PublicFacts, clip: float) -> None:
        super().__init__(facts, clip=clip)
        self._clip = checked_positive("clip", clip)

    @staticmethod
    def extent(*, n_features: float, clip: float) -> Extent:
        """Return the extent for a vocabulary of ``n_features`` words and contributions of length at most ``clip``."""
        return _added_shares(n_features, n_features, clip, plain_error(n_features, min(clip, 1.0)))

    @property
    def numbers(self) -> Mapping[str, float]:
        return {"n_features": self.facts.n_features, "clip": self._clip}

    def terms(self, tile: Tile) -> Sequence[Form]:
        of = tile.counts
        shares = _inverse(of.lengths)
        norms = np.sqrt(of.totals(of.counts**2)) * shares
        return [WordSum(of, of.counts * of.each(shares * _factors(norms, self._clip)), self._reach)]

    def packed(self, sums: Sequence[FloatArray]) -> FloatArray:
        return sums[0]


@known
class WordPairs(_OfDocuments):
    """Mean over documents of pairs of words, a symmetric matrix; optionally restricted to some public words.

    With w the factor of c c' - diag c in a contribution, pairs of different words are products of x = sqrt(w) c, on the
    grid of rows, and pairs of one word are w c (c - 1), on 2^40 steps; so nothing is subtracted. |x|^2 is at most 3/2
    of a contribution: with s_k the sum of c^k and m the largest count, s_3 <= m s_2 and

        |c c' - diag c|^2 - 4/9 |c|^4 = 5/9 s_2^2 - 2 s_3 + s_2 >= s_2 (5/9 m^2 - 2 m + 1) = s_2 (5 m - 3) (m - 3) / 9,

    zero or more for m >= 3; for a words that occur twice and b once it is 5/9 (4 a + b)^2 - 12 a - b, positive if there
    are at least three. A vector that were longer would count nothing.
    """

    name = "word_pairs"

    def __init__(self, facts: PublicFacts, clip: float, words: IntArray) -> None:
        super().__init__(facts, clip=clip, words=words)
        self._clip, self._words = checked_positive("clip", clip), checked_words(words, facts)

    @staticmethod
    def extent(*, n_features: float, n_words: float, clip: float) -> Extent:
        """Return the extent for ``n_words`` of ``n_features`` words and contributions of length at most ``clip``."""
        reach = _root_reach(min(clip, 1.0))
        off = row_error(n_words, reach)
        moved = cross_error(reach, reach, off, off) + plain_error(n_words, min(clip, 1.0))
        return _added_shares(packed_size(n_words), n_features, clip, moved)

    @property
    def numbers(self) -> Mapping[str, float]:
        return {"n_features": self.facts.n_features, "n_words": self._words.size, "clip": self._clip}

    @property
    def shape(self) -> tuple[int, ...]:
        return (self._words.size, self._words.size)

    def terms(self, tile: Tile) -> Sequence[Form]:
        of = tile.counts.of_words(self._words, _FEWEST)
        weights = of.each(self._weights(of))
        again = of.counts * (of.counts - 1)
        return [
            WordOuter(of, of.counts * np.sqrt(weights), _root_reach(self._reach)),
            WordSum(of, again * weights, self._reach),
        ]

    def packed(self, sums: Sequence[FloatArray]) -> FloatArray:
        matrix, diagonal = sums
        matrix[np.diag_indices(len(matrix))] = diagonal
        return pack(matrix)

    def _weights(self, of: WordCounts) -> FloatArray:
        """Return the factor of c c' - diag c in each document's contribution."""
        shares = _inverse(of.lengths * (of.lengths - 1))
        squares = of.totals(of.counts**2)
        # |c c' - diag c|_F^2; at least 4/9 of its first term, so nothing cancels.
        norms = np.sqrt(squares**2 - 2 * of.totals(of.counts**3) + squares)
        return shares * _factors(norms * shares, self._clip)

    def unpack(self, packed: FloatArray) -> FloatArray:
        return unpack(packed, self._words.size)


def _root_reach(radius: float) -> float:
    """Return the largest length of sqrt(w) c for contributions of at most ``radius``, a little from above."""
    return math.sqrt(1.5 * radius) * (1 + 2.0**-30)


@known
class WordTriples(_OfDocuments):
    """Mean over documents of triples of words, a symmetric tensor, for small vocabularies.

    With w the factor of the tensor in a contribution, triples of different words are products of x = w^(1/3) c, those
    of two words are w^(2/3) c (c - 1) times w^(1/3) c, and those of one word w c (c - 1) (c - 2), each on grids of its
    own, so nothing is subtracted. The first are of documents of three different words, the second of two: that tells
    how long the vectors can be (:func:`_triple_reaches`). One that were longer would count nothing.
    """

    name = "word_triples"

    def __init__(self, facts: PublicFacts, clip: float, words: IntArray) -> None:
        super().__init__(facts, clip=clip, words=words)
        self._clip, self._words = checked_positive("clip", clip), checked_words(words, facts)
        if self.size > LARGEST_TENSOR:
            subject = "A third moment released in full"
            must = f"have at most {LARGEST_TENSOR} entries"
            remedy = "Use design='whitened', or fewer words."
            raise InvalidParameter(subject, must, f"{self.size} for {self._words.size} words", remedy)

    @staticmethod
    def extent(*, n_features: float, n_words: float, clip: float) -> Extent:
        """Return the extent for ``n_words`` of ``n_features`` words and contributions of length at most ``clip``."""
        radius = min(clip, 1.0)
        different, twice, once = _triple_reaches(radius)
        off = row_error(n_words, different)
        # (x + d)^3 - x^3, and then the pairs.
        cubed = off * (3 * different**2 + 3 * different * off + off**2)
        cubed = cubed + cube_error(n_words, reach_on_grid(different, n_words))
        # Each of these has three permutations.
        crossed = math.sqrt(3) * cross_error(twice, once, row_error(n_words, twice), row_error(n_words, once))
        # These are different entries.
        moved = math.hypot(cubed, crossed) + plain_error(n_words, radius)
        return _added_shares(packed_tensor_size(n_words), n_features, clip, moved)

    @property
    def numbers(self) -> Mapping[str, float]:
        return {"n_features": self.facts.n_features, "n_words": self._words.size, "clip": self._clip}

    @property
    def shape(self) -> tuple[int, ...]:
        return (self._words.size,) * 3

    @property
    def n_entries(self) -> int:
        return pairs_at_a_time(self._words.size)

    def terms(self, tile: Tile) -> Sequence[Form]:
        of = tile.counts.of_words(self._words, _FEWEST)
        weights, different = _triple_weights(of, self._clip), of.totals(np.sign(of.counts))
        c, dense, roots = of.counts, of.filled(of.counts), np.cbrt(weights)[:, np.newaxis]
        three, twice, once = _triple_reaches(self._reach)
        of_two = roots * (different >= 2)[:, np.newaxis]
        rows = on_grid(dense * (roots * (different >= 3)[:, np.newaxis]), three)
        left, right = on_grid(dense * (dense - 1) * (of_two * of_two), twice), on_grid(dense * of_two, once)
        return [
            WordSum(of, c * (c - 1) * (c - 2) * of.each(weights), self._reach),
            Cross(left, right),
            *cubes(rows),
        ]

    def packed(self, sums: Sequence[FloatArray]) -> FloatArray:
        n = self._words.size
        i, j, k = triples(n)
        entries = cube_entries(sums[2:], n)
        first, second = i == j, j == k
        entries[first] = sums[1][j[first], k[first]]
        entries[second] = sums[1][j[second], i[second]]
        every = first & second
        entries[every] = sums[0][i[every]]
        packed: FloatArray = entries * root_multiplicities(n)
        return packed

    def unpack(self, packed: FloatArray) -> FloatArray:
        return unpack_tensor(packed, self._words.size)


@known
class WhitenedWordTriples(_OfDocuments):
    """Mean over documents of triples of words in public coordinates W'e_i, each document clipped to ``clip``.

    Every document's tensor of n_components^3 / 6 numbers is formed, clipped and put on 2^40 steps: the terms of the sum
    are themselves in the ball, whatever they were computed from. Words whose row of W is zero do not enter the
    coordinates but count as words of the document.
    """

    name = "whitened_word_triples"

    def __init__(self, facts: PublicFacts, clip: float, words: IntArray, whitener: FloatArray) -> None:
        super().__init__(facts, clip=clip, words=words, whitener=whitener)
        self._clip, self._words = checked_positive("clip", clip), checked_words(words, facts)
        matrix = checked_whitener(whitener, facts, n_rows=self._words.size)
        self._width = int(matrix.shape[1])
        # A power of two is taken out, so that products neither overflow nor vanish.
        _, self._exponent = np.frexp(np.abs(matrix).max())
        scaled = np.ldexp(matrix, -self._exponent)
        self._columns, self._triples = PublicColumns(scaled), PublicTriples(scaled)
        self._pairs = PublicColumns((scaled[:, :, None] * scaled[:, None, :]).reshape(len(scaled), -1))

    @staticmethod
    def extent(*, n_features: float, n_components: float, clip: float) -> Extent:
        """Return the extent for ``n_components`` coordinates and contributions of length at most ``clip``."""
        size = packed_tensor_size(n_components)
        return exact_sums(size, 2 * clip, clip, error=plain_error(size, clip))

    @property
    def numbers(self) -> Mapping[str, float]:
        return {"n_features": self.facts.n_features, "n_components": self._width, "clip": self._clip}

    @property
    def shape(self) -> tuple[int, ...]:
        return (self._width,) * 3

    @property
    def n_entries(self) -> int:
        # Public products are computed for each part, so that a part has more documents than other statistics have rows.
        return self.size // _LARGER_PARTS

    def terms(self, tile: Tile) -> Sequence[Form]:
        tensors = self._tensors(tile.counts.of_words(self._words, _FEWEST))
        tensors *= root_multiplicities(self._width)
        tensors = np.ldexp(tensors, 3 * self._exponent)
        tensors *= factors_into(tensors, self._clip)[:, np.newaxis]
        return [Plain(tensors, self._clip)]

    def _tensors(self, of: WordCounts) -> FloatArray:
        """Return each document's average over ordered triples of its words, (documents, packed entries)."""
        # With q = c / L and z = W'q: L^2 z z z - L 3 Sym(A z) + 2 B over (L - 1)(L - 2), A = sum q W W', B = sum
        # q W W W.
        n, lengths = self._width, of.lengths[:, np.newaxis, np.newaxis]
        common = np.where(lengths > 0, 1 / np.maximum((lengths - 1) * (lengths - 2), 1), 0.0)
        scores = _products(of, self._columns)
        squares = _products(of, self._pairs).reshape(-1, n, n)
        result = np.empty((len(of), packed_tensor_size(n)))
        start = 0
        for j in range(n):
            stop = start + (j + 1) * (n - j)
            low, middle, high = scores[:, : j + 1, None], scores[:, j, None, None], scores[:, None, j:]
            block = lengths**2 * low * middle * high
            once = low * squares[:, j, None, j:] + middle * squares[:, : j + 1, j:]
            once += high * squares[:, : j + 1, j, None]
            block -= lengths * once
            thrice = of.products(self._triples.ints(j))
            thrice *= 2 * self._triples.units(j)
            block += thrice.reshape(block.shape)
            result[:, start:stop] = (block * common).reshape(len(block), -1)
            start = stop
        return result

    def packed(self, sums: Sequence[FloatArray]) -> FloatArray:
        return sums[0]

    def unpack(self, packed: FloatArray) -> FloatArray:
        return unpack_tensor(packed, self._width)


class PublicTriples:
    """Products of three columns of a public matrix as integers, computed whenever they are asked for.

    There are many: entries a <= j <= b, by the middle index j, then a, then b.

    Parameters
    ----------
    matrix : (D, K) array
        Numbers of at most 1 in absolute value.
    """

    def __init__(self, matrix: FloatArray) -> None:
        self._matrix = matrix
        self._steps = [self._steps_of(self._products(j)) for j in range(matrix.shape[1])]

    def ints(self, middle: int) -> FloatArray:
        """Return the products with one middle index; each column is at most 2^32 long."""
        products = self._products(middle)
        products *= self._steps[middle]
        np.rint(products, out=products)
        return products

    def units(self, middle: int) -> FloatArray:
        """Return the length of one step of each column."""
        return 1 / self._steps[middle]

    def _products(self, middle: int) -> FloatArray:
        low, high = self._matrix[:, : middle + 1], self._matrix[:, middle:]
        products = (low * self._matrix[:, middle, np.newaxis])[:, :, np.newaxis] * high[:, np.newaxis]
        return np.reshape(products, (len(products), -1))

    def _steps_of(self, products: FloatArray) -> FloatArray:
        # From above, and so coarse that all libraries agree on them.
        lengths = np.sqrt(np.einsum("ij,ij->j", products, products)) * (1 + len(products) * 2.0**-50)
        fractions, exponents = np.frexp(np.maximum(lengths, _SMALLEST))
        above: FloatArray = np.ldexp((np.floor(fractions * 2.0**20) + 1) * 2.0**-20, exponents)
        return steps_per_unit(PUBLIC_BITS, len(products)) / above


def _products(of: WordCounts, columns: PublicColumns) -> FloatArray:
    """Return the shares of words times public columns."""
    found = of.products(columns.ints)
    for unit in columns.units:
        found *= unit
    return found


def checked_words(words: IntArray, facts: PublicFacts) -> IntArray:
    """Return public positions of words, distinct and ascending, or raise."""
    array = np.asarray(words)
    fits = array.dtype == np.int64 and array.ndim == 1 and array.size >= 1
    if not fits or array[0] < 0 or array[-1] >= facts.n_features or not bool((np.diff(array) > 0).all()):
        must = f"be distinct ascending positions below {facts.n_features}, as a vector of int64"
        raise InvalidParameter("words", must, f"shape {array.shape} of {array.dtype}", "Use np.unique(words).")
    return array


def _triple_weights(of: WordCounts, clip: float) -> FloatArray:
    """Return the factor of the triples' tensor in each document's contribution."""
    lengths = of.lengths
    shares = _inverse(lengths * (lengths - 1) * (lengths - 2))
    c = of.counts
    twice, thrice = c * (c - 1), c * (c - 1) * (c - 2)
    squares, fourths = of.totals(c**2), of.totals(c**4)
    # All different, two equal (three places for the odd one), all equal: squares of non-negative entries.
    different = squares**3 - 3 * squares * fourths + 2 * of.totals(c**6)
    equal = of.totals(twice**2) * squares - of.totals((twice * c) ** 2)
    norms = np.sqrt(np.maximum(different, 0) + 3 * np.maximum(equal, 0) + of.totals(thrice**2))
    return shares * _factors(norms * shares, clip)


def _triple_reaches(radius: float) -> tuple[float, float, float]:
    """Return how long the vectors that triples are products of can be, for contributions of at most ``radius``.

    With t the tensor of a document, |c|^3 / |t| is at most 2.1214 for three different words or more (equal for three
    words), and for two or more |c (c - 1)|^(3/2) / |t| is at most 1.3094 (four times one word and another), and
    |c|^3 / |t| 3.2275 (twice one word and another); not proved, but searched through all documents of up to
    20 words (tests/laws). No guarantee rests on it: a longer vector counts nothing, and a contribution is then shorter.
    """
    return (2.13 * radius) ** (1 / 3), (1.32 * radius) ** (2 / 3), (3.24 * radius) ** (1 / 3)


def _inverse(values: FloatArray) -> FloatArray:
    """Return 1 / values, zero where there is no document."""
    return np.divide(1.0, values, out=np.zeros_like(values), where=values > 0)


def _factors(norms: FloatArray, clip: float) -> FloatArray:
    """Return the factors that bring lengths to at most ``clip``."""
    factors: FloatArray = clip / np.maximum(norms, clip)
    return factors


def word_shares(facts: PublicFacts, *, clip: float) -> WordShares:
    """Mean over documents of the shares of words."""
    return WordShares(facts, clip=clip)


def word_pairs(facts: PublicFacts, *, clip: float, words: IntArray | None = None) -> WordPairs:
    """Mean over documents of ordered pairs of words."""
    return WordPairs(facts, clip=clip, words=_all_or(words, facts))


def word_triples(facts: PublicFacts, *, clip: float, words: IntArray | None = None) -> WordTriples:
    """Mean over documents of ordered triples of words."""
    return WordTriples(facts, clip=clip, words=_all_or(words, facts))


def whitened_word_triples(
    facts: PublicFacts, whitener: FloatArray, *, clip: float, words: IntArray | None = None
) -> WhitenedWordTriples:
    """Mean over documents of ordered triples of words in public coordinates."""
    return WhitenedWordTriples(facts, clip=clip, words=_all_or(words, facts), whitener=whitener)


def _all_or(words: IntArray | None, facts: PublicFacts) -> IntArray:
    return np.arange(facts.n_features, dtype=np.int64) if words is None else words
