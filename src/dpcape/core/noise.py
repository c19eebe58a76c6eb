r"""Noise sources: the only code that draws protective randomness.

A *noise source* draws exact samples of the discrete Gaussian on the integers,

.. math:: P(k) \propto \exp(-k^2 / (2\,scale^2)), \qquad |k| \le 32\,scale,

from the keystream of AES-256-CTR. `OsNoise` keys every draw afresh from the operating system; `Replay`
derives its keys from a seed, for tests and experiments, and gives no protection.

The sampler is rejection from a histogram: a finite step function above the bell curve, proposed exactly from
one 64-bit word, accepted with a probability that is decided exactly from another. Almost every decision is
made by comparing the word with a floating-point value; when the two are closer than a guard band that is
many orders of magnitude wider than the rounding error, the word is extended by further random bits and
compared with an interval around the exact value. Rounding therefore never changes the distribution. Proof:
``docs/noise.md``.
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from dpcape.core.arrays import BoolArray, FloatArray, IntArray
from dpcape.core.errors import InvalidParameter

CUTOFF = 32
"""Largest magnitude of a draw, in standard deviations; the guarantee counts the cut-off (docs/noise.md, section 2)."""

SMALLEST_SCALE = 1.0
LARGEST_SCALE = 2.0**50

# Word layout of a proposal: 1 sign bit, 14 bits for the cell, then spare bits above the offset in the block.
_CELL_BITS = 14
_N_CELLS = 1 << _CELL_BITS
_CELL_SHIFT = 63 - _CELL_BITS
# A block is between 1/32 and 1/16 of the scale wide (1 step for scales below 32).
_BLOCKS_PER_SCALE_BITS = 4
# Half-width of the band in which floating point is not trusted. Its error is below 2^-40 (docs/noise.md,
# section 1.3); this band is wide enough even for an exponential accurate to single precision only.
_GUARD = 2.0**-24
# Proposals per pass: the handful of arrays of 128 kB stays in the second-level cache.
_CHUNK = 1 << 14


class NoiseSource(ABC):
    """Source of the randomness that a protocol needs.

    Attributes
    ----------
    replayable : bool
        Whether anyone who knows a seed can repeat the draws. A result obtained with a replayable source is not
        protected and must say so.
    """

    replayable: ClassVar[bool]

    @abstractmethod
    def child(self, *labels: str | int) -> NoiseSource:
        """Return an independent source for a purpose named by labels, such as (site, release, "own")."""

    @abstractmethod
    def _stream(self) -> _Stream:
        """Return a keystream that no other call uses."""

    def integer_gaussian(self, scale: float, size: int) -> IntArray:
        """Draw exact discrete Gaussians.

        Parameters
        ----------
        scale : float
            Standard deviation in grid steps, taken as an exact rational number, from 1 to 2^50.
        size : int
            Number of independent draws.

        Returns
        -------
        ndarray of int64, shape (size,)
            Draws k with probability proportional to exp(-k^2 / (2 scale^2)) on ``abs(k) <= CUTOFF * scale``.

        Privacy
        -------
        The distribution is exact; nothing is rounded. ``privacy/integer_gap.py`` computes what the integers and the
        cut-off cost against the ideal Gaussian.

        Edge cases
        ----------
        ======================================  ====================
        ``size == 0``                           empty array
        scale outside [1, 2^50], NaN, not real  `InvalidParameter`
        size negative or not an integer         `InvalidParameter`
        ======================================  ====================

        Examples
        --------
        >>> Replay(7).integer_gaussian(1000.0, 3).dtype
        dtype('int64')
        """
        envelope = _envelope(_checked_scale(scale))
        return _fill(envelope, _checked_count("size", size), self._stream())

    def token(self, n_bytes: int) -> bytes:
        """Return uniformly random bytes, for identifiers and keys."""
        return self._stream().take(_checked_count("n_bytes", n_bytes))


class OsNoise(NoiseSource):
    """Noise that nobody can repeat: every call uses 32 fresh key bytes from the operating system.

    It has no state, so copies, forks and pickles share nothing.
    """

    replayable = False

    def __repr__(self) -> str:
        return "OsNoise()"

    def child(self, *labels: str | int) -> OsNoise:
        """Return this source: all its draws are independent already."""
        _encoded(labels)
        return self

    def _stream(self) -> _Stream:
        return _Stream(os.urandom(32))


class Replay(NoiseSource):
    """Repeatable noise, for tests and experiments only. It protects nothing.

    The draws of a source depend on the seed, its labels and how often *this* source was used before; not on the use
    of other sources. Two children with the same labels repeat each other, so give different labels to draws that must
    be independent. ``child("a", 1)`` equals ``child("a").child(1)``.

    Parameters
    ----------
    seed : int
        Any non-negative integer.

    Examples
    --------
    >>> one, two = Replay(7).child("lyon", 0), Replay(7).child("lyon", 0)
    >>> bool((one.integer_gaussian(50.0, 4) == two.integer_gaussian(50.0, 4)).all())
    True
    """

    replayable = True

    def __init__(self, seed: int) -> None:
        self.seed = _checked_count("seed", seed)
        self.labels: tuple[str | int, ...] = ()
        self._key = _derived(b"dpcape replay", str(self.seed).encode())
        self._n_calls = 0

    def __repr__(self) -> str:
        labels = f".child({', '.join(map(repr, self.labels))})" if self.labels else ""
        return f"Replay({self.seed}){labels}"

    def child(self, *labels: str | int) -> Replay:
        """Return the source for these labels; the same labels give the same draws."""
        source = Replay(self.seed)
        source.labels = self.labels + labels
        source._key = self._key
        for encoded in _encoded(labels):
            source._key = _derived(source._key, b"child" + encoded)
        return source

    def _stream(self) -> _Stream:
        self._n_calls += 1
        return _Stream(_derived(self._key, b"draw" + str(self._n_calls).encode()))


class _Stream:
    """Keystream of AES-256-CTR under a key that is used once."""

    def __init__(self, key: bytes) -> None:
        self._encryptor = Cipher(AES(key), CTR(bytes(16))).encryptor()

    def take(self, n_bytes: int) -> bytes:
        """Return the next bytes."""
        return self._encryptor.update(bytes(n_bytes))

    def uniform_words(self, n_words: int) -> NDArray[np.uint64]:
        """Return the next bytes as 64-bit words, little-endian on every machine."""
        words = np.frombuffer(self.take(8 * n_words), dtype="<u8")
        return words.astype(np.uint64, copy=False)


@dataclass(frozen=True, eq=False)
class _CoveringHistogram:
    """Histogram above the bell curve, in units of cells; block j holds magnitudes from j w to (j + 1) w.

    With counts n_j and height K it satisfies n_j >= K exp(-(j w)^2 / (2 scale^2)), hence a value of magnitude
    m in block j can be kept with probability K exp(-m^2 / (2 scale^2)) / n_j, which is at most 1.
    """

    scale: float
    limit: int  # largest magnitude kept, floor(CUTOFF * scale)
    width_bits: int  # w = 2^width_bits
    height: int  # K
    counts: IntArray  # n_j, summing to _N_CELLS
    block_of_cell: NDArray[np.uint16]
    ceilings: FloatArray  # K / n_j
    sure: NDArray[np.uint64]  # a word below sure[j] keeps every value of block j


@lru_cache(maxsize=256)
def _envelope(scale: float) -> _CoveringHistogram:
    """Build the histogram of a scale."""
    limit = math.floor(CUTOFF * Fraction(scale))
    width_bits = max(0, int(scale).bit_length() - 1 - _BLOCKS_PER_SCALE_BITS)
    n_blocks = (limit >> width_bits) + 1
    peaks = _peaks(scale, width_bits, n_blocks)
    # Each ceil below adds less than one, so that the counts sum to at most _N_CELLS.
    height = ((_N_CELLS - n_blocks) << 64) // sum(peaks)
    counts = np.array([-(-height * peak >> 64) for peak in peaks], dtype=np.int64)
    counts[0] += _N_CELLS - counts.sum()  # spare cells widen the first block, which costs speed only
    ceilings = height / counts
    return _CoveringHistogram(
        scale=scale,
        limit=limit,
        width_bits=width_bits,
        height=height,
        counts=counts,
        block_of_cell=np.repeat(np.arange(n_blocks, dtype=np.uint16), counts),
        ceilings=ceilings,
        sure=_sure_words(scale, limit, width_bits, ceilings),
    )


def _peaks(scale: float, width_bits: int, n_blocks: int) -> list[int]:
    """Return, per block j, an integer not below 2^64 exp(-(j w)^2 / (2 scale^2)), alike on every machine."""
    # With q = exp(-w^2 / (2 scale^2)): f_(j+1) = f_j q^(2j+1). Rounding up keeps every bound above.
    one = 1 << 128
    ratio = math.ceil(one * _exponential_bounds(_exponent(1 << width_bits, scale), digits=50)[1])
    peak, factor, peaks = one, ratio, []
    for _ in range(n_blocks):
        peaks.append(-(-peak >> 64))
        peak = -(-peak * factor >> 128)
        factor = -(-factor * ratio * ratio >> 256)
    return peaks


def _sure_words(scale: float, limit: int, width_bits: int, ceilings: FloatArray) -> NDArray[np.uint64]:
    """Return, per block, a word below which acceptance needs no exponential."""
    ends = (np.arange(len(ceilings), dtype=np.int64) + 1) << width_bits
    least = ceilings * np.exp(-0.5 * (ends / scale) ** 2) - _GUARD
    least[ends > limit] = 0.0  # the last block reaches beyond the cut-off
    return np.asarray(np.maximum(least, 0.0) * 2.0**64, dtype=np.uint64)


def _fill(envelope: _CoveringHistogram, size: int, stream: _Stream) -> IntArray:
    """Collect accepted proposals, in order, until there are enough."""
    draws = np.empty(size, dtype=np.int64)
    n_filled = 0
    while n_filled < size:
        n_missing = size - n_filled
        accepted = _accepted(envelope, min(_CHUNK, n_missing + n_missing // 8 + 16), stream)
        accepted = accepted[:n_missing]
        draws[n_filled : n_filled + len(accepted)] = accepted
        n_filled += len(accepted)
    return draws


def _accepted(envelope: _CoveringHistogram, n_proposals: int, stream: _Stream) -> IntArray:
    """Propose from the histogram and keep each proposal with its exact probability."""
    proposals = stream.uniform_words(n_proposals).view(np.int64)
    words = stream.uniform_words(n_proposals)
    blocks = envelope.block_of_cell.take((proposals >> _CELL_SHIFT) & (_N_CELLS - 1))
    # The offset comes from the low bits, the sign from the top bit; a negative sign maps m to -1 - m, so that
    # every integer has exactly one code and no second zero needs to be thrown away.
    values = proposals & ((1 << envelope.width_bits) - 1)
    values |= blocks.astype(np.int64) << envelope.width_bits
    values ^= proposals >> 63
    keep = words < envelope.sure.take(blocks)
    open_cases = np.flatnonzero(~keep)
    keep[open_cases] = _settle(envelope, values[open_cases], blocks[open_cases], words[open_cases], stream)
    return values[keep]


def _settle(
    envelope: _CoveringHistogram,
    values: IntArray,
    blocks: NDArray[np.uint16],
    words: NDArray[np.uint64],
    stream: _Stream,
) -> BoolArray:
    """Return which proposals to keep: by floating point where that is safe, else exactly."""
    magnitudes = np.abs(values)
    ratios = envelope.ceilings[blocks] * np.exp(-0.5 * (magnitudes / envelope.scale) ** 2)
    differences = words * 2.0**-64 - ratios
    keep = differences < 0.0
    for i in np.flatnonzero(np.abs(differences) <= _GUARD):
        keep[i] = _settle_exactly(envelope, int(magnitudes[i]), int(blocks[i]), int(words[i]), stream)
    keep &= magnitudes <= envelope.limit
    return keep


def _settle_exactly(envelope: _CoveringHistogram, magnitude: int, block: int, word: int, stream: _Stream) -> bool:
    """Compare a uniform real, known to 64 bits and extended as needed, with the acceptance probability."""
    exponent = _exponent(magnitude, envelope.scale)
    ceiling = Fraction(envelope.height, int(envelope.counts[block]))
    n_bits, digits = 64, 40
    while True:
        low, high = _exponential_bounds(exponent, digits=digits)
        if Fraction(word + 1, 1 << n_bits) <= ceiling * low:
            return True
        if Fraction(word, 1 << n_bits) >= ceiling * high:
            return False
        word = (word << 64) | int(stream.uniform_words(1)[0])
        n_bits, digits = n_bits + 64, digits + 20


def _exponent(magnitude: int, scale: float) -> Fraction:
    """Return magnitude^2 / (2 scale^2), exactly."""
    return Fraction(magnitude) ** 2 / (2 * Fraction(scale) ** 2)


def _exponential_bounds(exponent: Fraction, *, digits: int) -> tuple[Fraction, Fraction]:
    """Return rationals below and above exp(-exponent), for exponents up to 1000.

    The quotient is off by at most half a unit of its last digit, which moves the exponential by a factor
    within 1 +- 5.1e3 x 10^-digits; `decimal` rounds the exponential correctly; 10^(4 - digits) covers both.
    """
    if exponent == 0:
        return Fraction(1), Fraction(1)
    context = Context(prec=digits, rounding=ROUND_HALF_EVEN, Emin=-999_999, Emax=999_999, traps=[])
    quotient = context.divide(Decimal(-exponent.numerator), Decimal(exponent.denominator))
    value = Fraction(context.exp(quotient))
    slack = Fraction(1, 10 ** (digits - 4))
    return value * (1 - slack), value * (1 + slack)


def _derived(key: bytes, label: bytes) -> bytes:
    """Derive a key by HKDF-SHA-256."""
    return HKDF(algorithm=SHA256(), length=32, salt=b"dpcape.noise", info=label).derive(key)


def _encoded(labels: tuple[str | int, ...]) -> list[bytes]:
    """Encode labels so that different lists of labels give different lists of codes."""
    if not labels:
        raise InvalidParameter("labels", "name a purpose", "an empty list", "Pass a site, a release number or a word.")
    for label in labels:
        if isinstance(label, bool) or not isinstance(label, str | int):
            raise InvalidParameter("labels", "be strings or integers", repr(label), "Use str(label).")
    return [("s" if isinstance(label, str) else "i").encode() + str(label).encode() for label in labels]


def _checked_scale(scale: float) -> float:
    """Return the scale as a float, or raise."""
    is_number = isinstance(scale, int | float | np.integer | np.float32) and not isinstance(scale, bool)
    if not is_number or not SMALLEST_SCALE <= scale <= LARGEST_SCALE:
        must = "be a number of grid steps from 1 to 2^50"
        raise InvalidParameter("scale", must, repr(scale), "Change the grid step.")
    return float(scale)


def _checked_count(name: str, count: int) -> int:
    """Return a non-negative integer, or raise."""
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 0:
        raise InvalidParameter(name, "be a non-negative integer", repr(count), "Pass an int.")
    return int(count)
