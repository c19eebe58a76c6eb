"""Rebuild a secret from shares of which some may be wrong, with a check that tells the right secret."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import combinations, islice

from dpcape.errors import ProtocolError, SiteLost
from dpcape.secure_sum import shamir
from dpcape.secure_sum.config import Config

MOST_TRIES = 2_000


def rebuild(
    shares: Mapping[str, bytes], *, dealer: str, config: Config, right: Callable[[bytes], bool]
) -> tuple[bytes, tuple[str, ...]]:
    """The secret a dealer shared, and the holders whose shares do not fit it.

    Holders are left out one at a time, then in pairs and so on, until the others rebuild a secret that
    `right` accepts; a single wrong share is always found when one more than the threshold came in.

    Raises
    ------
    SiteLost
        If fewer shares than the threshold came in.
    ProtocolError
        If no set of holders rebuilds the right secret.
    """
    well_formed = {holder: share for holder, share in shares.items() if _well_formed(share)}
    wrong = tuple(sorted(set(shares) - set(well_formed)))
    if len(well_formed) < config.threshold:
        raise SiteLost(
            f"at least {config.threshold} sites must send a share of site {dealer}; got {len(well_formed)}. "
            "The run ends without a result."
        )
    by_index = {config.index(holder): share for holder, share in well_formed.items()}
    for tried, chosen in enumerate(_choices(by_index, config.threshold)):
        secret = _secret(chosen)
        if secret is not None and right(secret):
            bad = _misfits(chosen, by_index) if tried else []
            return secret, tuple(sorted((*wrong, *(config.sites[i - 1] for i in bad))))
    raise ProtocolError(f"the shares of site {dealer} must rebuild what it signed; got none that do.")


def _misfits(chosen: Mapping[int, bytes], by_index: Mapping[int, bytes]) -> list[int]:
    """Indices of the shares that do not lie on the polynomial of the chosen ones."""
    return [i for i, share in by_index.items() if not shamir.consistent(chosen, index=i, share=share)]


def _choices(by_index: Mapping[int, bytes], threshold: int) -> Iterator[dict[int, bytes]]:
    """Sets of exactly `threshold` shares: the first ones, then the first ones without one, without two ..."""
    indices = sorted(by_index)
    left_out = (set(out) for n in range(len(indices) - threshold + 1) for out in combinations(indices, n))
    for out in islice(left_out, MOST_TRIES):
        kept = [i for i in indices if i not in out][:threshold]
        yield {i: by_index[i] for i in kept}


def _secret(chosen: Mapping[int, bytes]) -> bytes | None:
    """Secret of a choice of shares, or None where they rebuild no 32-byte string."""
    try:
        return shamir.combine(chosen)
    except ProtocolError:
        return None


def _well_formed(share: object) -> bool:
    """Whether a share is a field element at all."""
    try:
        shamir.decode(share)
    except ProtocolError:
        return False
    return True
