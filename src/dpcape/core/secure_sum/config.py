"""Configuration of a session, agreed before it begins and signed in every hello."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from dpcape.core.errors import InvalidMessage, InvalidParameter, SiteLost
from dpcape.core.secure_sum.transcript import digest

LEAST_SITES = 3
LARGEST_NAME = 200


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Public configuration of a session: its sites, how many may be lost and how many may collude.

    Parameters
    ----------
    sites : tuple[str, ...]
        Names of all sites, sorted, at least three.
    threshold : int
        Least number of sites whose sum may be opened, and number of shares that rebuild a secret.
    n_colluding : int
        Number of sites that may share everything they know with the aggregator.
    purpose : bytes
        Digest of the study and allowance terms, to which the session is bound.
    n_neighbours : int
        Largest number of sites that a site shares masks with, even and at least 4; 0 for all other sites.

    Edge cases
    ----------
    =========================================  ================
    fewer than three sites                     InvalidParameter
    threshold > number of sites                InvalidParameter
    2 * threshold <= sites + n_colluding       InvalidParameter
    threshold - n_colluding < 2                InvalidParameter
    n_neighbours odd, below 4 or too large     InvalidParameter
    =========================================  ================

    Examples
    --------
    >>> Config(sites=("lima", "lyon", "oslo", "rome"), threshold=3, n_colluding=1, purpose=b"pilot").floor
    3
    """

    sites: tuple[str, ...]
    threshold: int
    n_colluding: int
    purpose: bytes
    n_neighbours: int = 0

    def __post_init__(self) -> None:
        _check_names(self.sites)
        _check_counts(len(self.sites), self.threshold, self.n_colluding)
        if not isinstance(self.purpose, bytes):
            raise InvalidParameter("purpose", "be bytes", type(self.purpose).__name__, "Pass a digest.")
        if self.n_neighbours != 0:
            check_neighbours(self.n_neighbours, len(self.sites))

    @property
    def floor(self) -> int:
        """Least number of addends of any sum: from a sum of two, each site could infer the other's value."""
        return max(self.threshold, LEAST_SITES)

    def digest(self) -> bytes:
        """Return the digest of the configuration."""
        graph = ("sparse config", self.n_neighbours) if self.n_neighbours else ("config",)
        return digest(*graph, self.threshold, self.n_colluding, self.purpose, *self.sites)

    def check_roster(self, roster: Sequence[str], *, within: Sequence[str]) -> tuple[str, ...]:
        """Return the sorted roster, or raise unless its names are distinct, all in `within` and enough."""
        if not isinstance(roster, list | tuple) or any(not isinstance(name, str) for name in roster):
            raise InvalidMessage("A roster", "be a list of site names", type(roster).__name__, "Start a new run.")
        names = tuple(sorted(roster))
        if len(set(names)) != len(names):
            raise InvalidMessage("A roster", "name each site once", "a repeated name", "The aggregator is at fault.")
        if not set(names) <= set(within):
            raise InvalidMessage("A roster", "name only agreed sites", "an unknown site", "The aggregator is at fault.")
        if len(names) < self.floor:
            why = f"only {len(names)} of at least {self.floor} required sites remained"
            raise SiteLost("The run failed", why, "Start a new run when more sites are present.")
        return names


def check_neighbours(n_neighbours: object, n_sites: int) -> int:
    """Return the number of neighbours in a sparse graph, or raise if there is no such graph among `n_sites` sites."""
    if not isinstance(n_neighbours, int) or isinstance(n_neighbours, bool) or n_neighbours % 2 or n_neighbours < 4:
        remedy = "Write for example 20, or leave it out for masks between all sites."
        raise InvalidParameter("n_neighbours", "be an even whole number of at least 4", repr(n_neighbours), remedy)
    if n_neighbours > n_sites - 2:
        must = f"be at most {n_sites - 2} with {n_sites} sites"
        raise InvalidParameter("n_neighbours", must, n_neighbours, "Leave it out for masks between all sites.")
    return n_neighbours


def _check_names(sites: tuple[str, ...]) -> None:
    """Refuse site lists that two parties could read differently."""
    if not isinstance(sites, tuple) or any(not isinstance(name, str) for name in sites):
        raise InvalidParameter("sites", "be a tuple of names", type(sites).__name__, "Use tuple(names).")
    for name in sites:
        if not name or len(name) > LARGEST_NAME or not name.isprintable():
            must = f"be 1 to {LARGEST_NAME} printable characters"
            raise InvalidParameter("A site name", must, f"{name!r:.80}", "Rename the site.")
    if list(sites) != sorted(set(sites)):
        remedy = "Use tuple(sorted(set(names)))."
        raise InvalidParameter("sites", "be sorted and distinct", f"{', '.join(sites):.80}", remedy)
    if len(sites) < LEAST_SITES:
        remedy = "With two, each could infer the other's value: use the Independent protocol."
        raise InvalidParameter("sites", f"be at least {LEAST_SITES}", len(sites), remedy)


def _check_counts(n_sites: int, threshold: int, n_colluding: int) -> None:
    """Refuse thresholds under which two survivor sets could be signed or one honest value opened."""
    if any(not isinstance(n, int) or isinstance(n, bool) or n < 0 for n in (threshold, n_colluding)):
        got = f"{threshold!r} and {n_colluding!r}"
        raise InvalidParameter("threshold and n_colluding", "be non-negative integers", got, "Pass integers.")
    if threshold > n_sites:
        raise InvalidParameter("threshold", f"be at most the number of sites, {n_sites}", threshold, "Lower it.")
    if 2 * threshold <= n_sites + n_colluding:
        least = (n_sites + n_colluding) // 2 + 1
        must = "exceed sites + n_colluding, or two survivor sets could be opened"
        got = f"threshold {threshold} with {n_sites} sites and {n_colluding} colluding"
        raise InvalidParameter("2 * threshold", must, got, f"Raise threshold to {least} or more.")
    if threshold - n_colluding < 2:
        must = "be at least 2, or the sum reveals a single honest value"
        remedy = "Use the Independent protocol if all other sites may collude."
        raise InvalidParameter("threshold - n_colluding", must, f"{threshold} - {n_colluding}", remedy)
