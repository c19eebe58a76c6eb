"""RETRY: one masked vector per site and attempt; no secret is ever revealed.

y_i = x_i + sum_{j > i} PRG(k_ij) - sum_{j < i} PRG(k_ij)  modulo 2^64.

If every site of the roster answers, the masks cancel in the sum. If one does not, the attempt is lost: a new
attempt has a smaller roster, new masks and *freshly drawn* inputs, because the difference of two sums of the
same inputs would reveal the lost site's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dpcape.core.errors import InvalidMessage, InvalidParameter, ProtocolError, SiteLost
from dpcape.core.secure_sum.fixed_point import check_words
from dpcape.core.secure_sum.keystream import masked
from dpcape.core.secure_sum.links import Links
from dpcape.core.secure_sum.sealed import Sealed
from dpcape.core.secure_sum.transcript import digest

LARGEST_NUMBER = 2**63 - 1


class Retry(Sealed):
    """State of a site for RETRY: the last (round, attempt) it masked for.

    Numbers only increase, so a pair that was used once, or skipped, cannot be used again.
    """

    __slots__ = ("_last", "_links", "_seen")

    def __init__(self, links: Links) -> None:
        self._links = links
        self._last = (-1, -1)
        self._seen: set[bytes] = set()

    def mask(
        self,
        vector: NDArray[np.uint64],
        *,
        round: int,
        attempt: int,
        roster: Sequence[str],
        context: bytes | None = None,
    ) -> NDArray[np.uint64]:
        """Return a masked copy of `vector` for this roster; (round, attempt) is used up before anything else."""
        check_words(vector, "vector")
        check_number(round, "round")
        check_number(attempt, "attempt")
        try:
            check_context(context)
            self._burn(round, attempt)
            names = self._checked(roster)
            self._refuse_repeated(vector)
        except ProtocolError:
            self._last = max(self._last, (round, LARGEST_NUMBER))  # no further attempt of this round
            raise
        context_parts = (int(context is not None), context or b"")
        bound = digest("retry", self._links.session_id, round, attempt, vector.size, *context_parts, *names)
        present = set(names)
        peers = [peer for peer in self._links.graph.neighbours(self._links.name) if peer in present]
        keys = {peer: self._links.key(peer, bound) for peer in peers}
        return add_pairs(vector, keys, name=self._links.name)

    def _checked(self, roster: Sequence[str]) -> tuple[str, ...]:
        """Return the sorted roster, or raise unless it consists of agreed sites, this one included."""
        names = self._links.config.check_roster(roster, within=self._links.config.sites)
        if self._links.name not in names:
            what = f"A roster must name the site it is sent to; {self._links.name} is missing"
            raise ProtocolError(what, remedy="The aggregator is at fault.")
        self._links.graph.check_connected(names)
        return names

    def _burn(self, round: int, attempt: int) -> None:
        """Refuse numbers that do not increase, and remember these."""
        if (round, attempt) <= self._last:
            got = f"({round}, {attempt}) after {self._last}"
            raise InvalidMessage("(round, attempt)", "increase", got, "A mask serves once: start a new run.")
        if round != self._last[0]:
            self._seen.clear()
        self._last = (round, attempt)

    def _refuse_repeated(self, vector: NDArray[np.uint64]) -> None:
        """Refuse the input of an earlier attempt of the round.

        A sample of the entries is enough: this detects a caller who forgot to draw again, not a dishonest one.
        """
        sample = np.ascontiguousarray(vector[:: 1 + vector.size // 4096])
        mark = hashlib.sha256(sample.tobytes()).digest()
        if mark in self._seen:
            got = "the vector of an earlier attempt"
            raise InvalidMessage("vector", "be a fresh draw for each attempt", got, "Draw again.")
        self._seen.add(mark)


def check_number(number: object, subject: str) -> None:
    """Refuse anything but an integer in [0, 2^63)."""
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= LARGEST_NUMBER:
        raise InvalidMessage(subject, "be an integer in [0, 2^63)", f"{number!r:.80}", "Pass an int.")


def check_context(context: object) -> None:
    """Refuse a context that is neither bytes nor None."""
    if context is not None and not isinstance(context, bytes):
        raise InvalidMessage("context", "be bytes", type(context).__name__, "Pass a digest.")


def add_pairs(vector: NDArray[np.uint64], keys: Mapping[str, bytes], *, name: str) -> NDArray[np.uint64]:
    """Return `vector` plus the pair masks of later names, minus those of earlier names."""
    plus = [key for peer, key in keys.items() if peer > name]
    minus = [key for peer, key in keys.items() if peer < name]
    return masked(vector, plus=plus, minus=minus)


def retry_sum(roster: Sequence[str], vectors: Mapping[str, NDArray[np.uint64]]) -> NDArray[np.uint64]:
    """Return the sum of the masked vectors of a roster, in which the masks cancel (at the aggregator).

    Raises
    ------
    SiteLost
        If a site of the roster sent no vector: begin a new attempt with a smaller roster and fresh draws.
    ProtocolError
        If a vector has the wrong sender, type or length.
    """
    if not set(vectors) <= set(roster):
        raise ProtocolError("The sum was refused", "a vector's sender is not in the roster", "Ignore that vector.")
    missing = sorted(set(roster) - set(vectors))
    if missing:
        remedy = "Begin a new attempt without them, with fresh draws."
        raise SiteLost("The sum failed", f"{', '.join(missing)} sent no vector", remedy)
    return add_up(vectors)


def add_up(vectors: Mapping[str, NDArray[np.uint64]]) -> NDArray[np.uint64]:
    """Return the sum modulo 2^64 of vectors of one length, by sender."""
    total: NDArray[np.uint64] | None = None
    for sender, vector in vectors.items():
        words = received(vector, sender=sender)
        if total is None:
            total = words.copy()
        elif words.size != total.size:
            got = f"{words.size} from site {sender}"
            raise InvalidMessage("All vectors", f"have {total.size} words", got, "Treat the site as lost.")
        else:
            np.add(total, words, out=total)
    if total is None:
        raise InvalidMessage("vectors", "not be empty", "0 vectors", "Begin a new attempt.")
    return total


def received(vector: object, *, sender: str) -> NDArray[np.uint64]:
    """Return another site's vector; a wrong type or shape raises `ProtocolError`."""
    try:
        return check_words(vector, f"the vector of site {sender}")
    except InvalidParameter as error:
        raise ProtocolError(str(error)) from None
