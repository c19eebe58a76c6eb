"""RETRY: one masked vector per site and attempt, nothing ever revealed.

y_i = x_i + sum_{j > i} PRG(k_ij) - sum_{j < i} PRG(k_ij)  modulo 2^64.

If every site of the roster answers, the masks cancel in the sum. If one does not, the attempt is lost: a new
attempt has a smaller roster, new masks and *freshly drawn* inputs, because the difference of two sums of the
same inputs would show the lost site's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dpcape.errors import InvalidParameter, ProtocolError, SiteLost
from dpcape.secure_sum.fixed_point import check_words
from dpcape.secure_sum.keystream import masked
from dpcape.secure_sum.links import Links
from dpcape.secure_sum.sealed import Sealed
from dpcape.secure_sum.transcript import digest

LARGEST_NUMBER = 2**63 - 1


class Retry(Sealed):
    """A site's state for RETRY: the last (round, attempt) it masked for.

    Numbers only grow, so a pair that was used once, or skipped, is burned for good.
    """

    __slots__ = ("_last", "_links", "_seen")

    def __init__(self, links: Links) -> None:
        self._links = links
        self._last = (-1, -1)
        self._seen: set[bytes] = set()

    def mask(
        self, vector: NDArray[np.uint64], *, round: int, attempt: int, roster: Sequence[str]
    ) -> NDArray[np.uint64]:
        """Masked copy of `vector` for this roster; burns (round, attempt) before anything is computed."""
        check_words(vector, "vector")
        check_number(round, "round")
        check_number(attempt, "attempt")
        try:
            self._burn(round, attempt)
            names = self._checked(roster)
            self._refuse_repeated(vector)
        except ProtocolError:
            self._last = max(self._last, (round, LARGEST_NUMBER))  # no further attempt of this round
            raise
        context = digest("retry", self._links.session_id, round, attempt, vector.size, *names)
        keys = {peer: self._links.key(peer, context) for peer in names if peer != self._links.name}
        return add_pairs(vector, keys, name=self._links.name)

    def _checked(self, roster: Sequence[str]) -> tuple[str, ...]:
        """Sorted roster of agreed sites, this one among them."""
        names = self._links.config.check_roster(roster, within=self._links.config.sites)
        if self._links.name not in names:
            raise ProtocolError(f"a roster must name the site it is sent to; got one without {self._links.name}.")
        return names

    def _burn(self, round: int, attempt: int) -> None:
        """Refuse numbers that do not grow, and remember these."""
        if (round, attempt) <= self._last:
            raise ProtocolError(
                f"(round, attempt) must grow; got ({round}, {attempt}) after {self._last}. Masks serve once."
            )
        if round != self._last[0]:
            self._seen.clear()
        self._last = (round, attempt)

    def _refuse_repeated(self, vector: NDArray[np.uint64]) -> None:
        """Refuse the input of an earlier attempt of the round.

        A sample of the entries is enough: this finds a caller who forgot to draw again, not a liar.
        """
        sample = np.ascontiguousarray(vector[:: 1 + vector.size // 4096])
        mark = hashlib.sha256(sample.tobytes()).digest()
        if mark in self._seen:
            raise ProtocolError("a new attempt must carry a fresh draw; got the vector of an earlier attempt.")
        self._seen.add(mark)


def check_number(number: object, subject: str) -> None:
    """Refuse anything but an integer in [0, 2^63)."""
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= LARGEST_NUMBER:
        raise ProtocolError(f"{subject} must be an integer in [0, 2^63); got something else.")


def add_pairs(vector: NDArray[np.uint64], keys: Mapping[str, bytes], *, name: str) -> NDArray[np.uint64]:
    """Add the pair masks of later names and take off those of earlier names."""
    plus = [key for peer, key in keys.items() if peer > name]
    minus = [key for peer, key in keys.items() if peer < name]
    return masked(vector, plus=plus, minus=minus)


def retry_sum(roster: Sequence[str], vectors: Mapping[str, NDArray[np.uint64]]) -> NDArray[np.uint64]:
    """Sum of the masked vectors of a roster, in which the masks cancel (aggregator).

    Raises
    ------
    SiteLost
        If a site of the roster sent nothing: begin a new attempt with a smaller roster and fresh draws.
    ProtocolError
        If a vector has a wrong sender, type or length.
    """
    if not set(vectors) <= set(roster):
        raise ProtocolError("masked vectors must come from the roster only; got another sender.")
    missing = sorted(set(roster) - set(vectors))
    if missing:
        raise SiteLost(f"every site of the roster must send its vector; got none from {', '.join(missing)}.")
    return add_up(vectors)


def add_up(vectors: Mapping[str, NDArray[np.uint64]]) -> NDArray[np.uint64]:
    """Sum modulo 2^64 of vectors of one length, by sender."""
    total: NDArray[np.uint64] | None = None
    for sender, vector in vectors.items():
        words = received(vector, sender=sender)
        if total is None:
            total = words.copy()
        elif words.size != total.size:
            raise ProtocolError(f"vectors must have one length; got another from site {sender}.")
        else:
            np.add(total, words, out=total)
    if total is None:
        raise ProtocolError("a sum must have addends; got none.")
    return total


def received(vector: object, *, sender: str) -> NDArray[np.uint64]:
    """Vector of another site, refused as a protocol error when its type or shape is wrong."""
    try:
        return check_words(vector, f"the vector of site {sender}")
    except InvalidParameter as error:
        raise ProtocolError(str(error)) from None
