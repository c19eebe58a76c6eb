"""Integers on a release's grid, as words of the ring of integers modulo 2^64.

Every addend is an int64 on the grid (docs/decisions/0003). The secure sum adds their uint64 views; as long as
the true sum fits into int64, the result, viewed as int64 again, is exact. `check_range` refuses configurations
in which it might not fit.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpcape.core.errors import InvalidParameter

LARGEST = 2**63 - 1
WORD_BYTES, SHORT_BYTES = 8, 6


def check_range(bound_steps: int, n_sites: int) -> None:
    """Refuse a configuration whose sum could wrap around.

    Parameters
    ----------
    bound_steps : int
        Largest absolute value, in grid steps, of any entry that one site may contribute.
    n_sites : int
        Number of addends.

    Edge cases
    ----------
    =================================  ================
    n_sites * bound_steps = 2^63 - 1   accepted
    n_sites * bound_steps = 2^63       InvalidParameter
    bound_steps = 0                    accepted
    =================================  ================

    Examples
    --------
    >>> check_range(2**60, 7)
    >>> check_range(2**60, 8)
    Traceback (most recent call last):
    dpcape.core.errors.InvalidParameter: n_sites * bound_steps must be at most 2^63 - 1; got 8 sites with ...
    """
    if not _is_int(bound_steps) or bound_steps < 0:
        raise InvalidParameter("bound_steps", "be an integer of at least 0", repr(bound_steps), "Pass an int.")
    if not _is_int(n_sites) or n_sites < 1:
        raise InvalidParameter("n_sites", "be a positive integer", repr(n_sites), "Pass an int.")
    if n_sites * bound_steps > LARGEST:
        got, remedy = f"{n_sites} sites with {bound_steps} steps", "Use a coarser grid or a smaller bound."
        raise InvalidParameter("n_sites * bound_steps", "be at most 2^63 - 1", got, remedy)


def to_ring(values: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return a view of grid integers as ring elements; the memory is shared, and the secure sum only reads it."""
    _check(values, np.dtype(np.int64), "values")
    return values.view(np.uint64)


def from_ring(words: NDArray[np.uint64], word_bytes: int = WORD_BYTES) -> NDArray[np.int64]:
    """Return ring elements as grid integers, of which the lowest ``8 * word_bytes`` bits are known.

    Reduction modulo 2^64 and then modulo 2^48 is reduction modulo 2^48, so sites may mask modulo 2^64 and send the low
    48 bits alone: the sum of these, as a signed number of 48 bits, is exact if it lies in [-2^47, 2^47).
    Whole words are returned as a view, whose memory is shared.

    Examples
    --------
    >>> import numpy as np
    >>> sent = np.array([2**64 - 5, 3], dtype=np.uint64) & np.uint64(2**48 - 1)
    >>> from_ring(sent, 6).tolist()
    [-5, 3]
    """
    _check(words, np.dtype(np.uint64), "words")
    unknown = 64 - 8 * word_bytes
    if not unknown:
        return words.view(np.int64)
    values = (words << np.uint64(unknown)).view(np.int64)
    values >>= unknown
    return values


def packed(words: NDArray[np.uint64]) -> bytes:
    """Return the low 48 bits of words: 32 bits of all of them, then the next 16 bits of all of them.

    In this order they are packed and unpacked in a few operations on whole vectors.
    """
    contiguous = np.ascontiguousarray(words, dtype="<u8")
    return contiguous.view("<u4")[::2].tobytes() + contiguous.view("<u2")[2::4].tobytes()


def unpacked(data: bytes) -> NDArray[np.uint64]:
    """Return the words of which `packed` kept the low 48 bits; the others are zero."""
    size = len(data) // SHORT_BYTES
    words = np.zeros(size, dtype="<u8")
    words.view("<u4")[::2] = np.frombuffer(data, dtype="<u4", count=size)
    words.view("<u2")[2::4] = np.frombuffer(data, dtype="<u2", offset=4 * size, count=size)
    words.flags.writeable = False
    return words.astype(np.uint64, copy=False)


def zero_sum_share(total: NDArray[np.int64], n_sites: int, *, rank: int) -> NDArray[np.int64]:
    """Return the part of the agreed total that the site of this rank subtracts from its draw.

    floor(T / n) + [rank < T mod n]: over all ranks the parts sum to T exactly, so the remainders of the draws
    sum to exactly zero.

    Parameters
    ----------
    total : NDArray[int64]
        Sum of all the sites' draws, any shape.
    n_sites : int
        Number of sites in that sum.
    rank : int
        Position of this site in the sorted roster, from 0.

    Examples
    --------
    >>> import numpy as np
    >>> total = np.array([7, -7, 0])
    >>> [zero_sum_share(total, 3, rank=k).tolist() for k in range(3)]
    [[3, -2, 0], [2, -2, 0], [2, -3, 0]]
    """
    _check(total, np.dtype(np.int64), "total")
    if not _is_int(n_sites) or n_sites < 1:
        raise InvalidParameter("n_sites", "be a positive integer", repr(n_sites), "Pass an int.")
    if not _is_int(rank) or not 0 <= rank < n_sites:
        raise InvalidParameter("rank", f"be an integer in [0, {n_sites})", repr(rank), "Ranks start at 0.")
    # Computed from the quotient, because np.divmod by a scalar is slow.
    share = np.floor_divide(total, np.int64(n_sites))
    remainder = share * np.int64(n_sites)
    np.subtract(total, remainder, out=remainder)
    share += remainder > rank
    return share


def check_words(vector: object, subject: str) -> NDArray[np.uint64]:
    """Return `vector`, or raise unless it is a non-empty one-dimensional uint64 array in native byte order."""
    array = _check(vector, np.dtype(np.uint64), subject)
    if array.ndim != 1 or array.size == 0:
        raise InvalidParameter(subject, "be one-dimensional and not empty", f"shape {array.shape}", "Use ravel().")
    return array


def _check(values: object, dtype: np.dtype[np.generic], subject: str) -> NDArray[np.uint64]:  # type: ignore[explicit-any]
    """Return `values`, or raise unless it is a plain array of exactly this dtype; the message never shows entries."""
    if type(values) is not np.ndarray:
        raise InvalidParameter(subject, "be a plain NumPy array", type(values).__name__, "Use np.asarray().")
    if values.dtype != dtype:
        must = f"have dtype {dtype.name} in native byte order"
        raise InvalidParameter(subject, must, values.dtype.str, "Use astype().")
    return values


def _is_int(value: object) -> bool:
    """Return whether value is a Python integer and not a Boolean."""
    return isinstance(value, int) and not isinstance(value, bool)
