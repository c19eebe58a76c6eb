"""Rebuild a secret from shares of which some may be wrong, given a check for the right secret."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import combinations, islice

from dpcape.core.errors import ProtocolError, SiteLost
from dpcape.core.secure_sum import shamir
from dpcape.core.secure_sum.graph import MaskingGraph

MOST_TRIES = 2_000


def rebuild(
    shares: Mapping[str, bytes], *, dealer: str, graph: MaskingGraph, right: Callable[[bytes], bool]
) -> tuple[bytes, tuple[str, ...]]:
    """Return the secret a dealer shared, and the holders whose shares do not fit it.

    Holders are left out one at a time, then in pairs and so on, until the others rebuild a secret that
    `right` accepts; a single wrong share is always found if there is one share more than the threshold.

    Raises
    ------
    SiteLost
        If there are fewer shares than the threshold.
    ProtocolError
        If no set of holders rebuilds the right secret.
    """
    well_formed = {holder: share for holder, share in shares.items() if _well_formed(share)}
    wrong = tuple(sorted(set(shares) - set(well_formed)))
    threshold = graph.threshold(dealer)
    if len(well_formed) < threshold:
        why = f"only {len(well_formed)} of {threshold} required sites sent a share of site {dealer}"
        raise SiteLost("The round failed", why, "Start a new run when more sites are present.")
    by_index = {graph.index(dealer, holder): share for holder, share in well_formed.items()}
    for tried, chosen in enumerate(_choices(by_index, threshold)):
        secret = _secret(chosen)
        if secret is not None and right(secret):
            # After the first try some shares do not lie on the polynomial of the chosen ones.
            bad = [i for i, share in by_index.items() if tried and not shamir.consistent(chosen, index=i, share=share)]
            return secret, tuple(sorted((*wrong, *(graph.holders(dealer)[i - 1] for i in bad))))
    why = f"no shares of site {dealer} rebuild the secret it committed to"
    raise ProtocolError("The round failed", why, "Exclude that site.")


def _choices(by_index: Mapping[int, bytes], threshold: int) -> Iterator[dict[int, bytes]]:
    """Yield sets of exactly `threshold` shares: the first ones, then the first ones without one, without two ..."""
    indices = sorted(by_index)
    left_out = (set(out) for n in range(len(indices) - threshold + 1) for out in combinations(indices, n))
    for out in islice(left_out, MOST_TRIES):
        chosen = [i for i in indices if i not in out][:threshold]
        yield {i: by_index[i] for i in chosen}


def _secret(chosen: Mapping[int, bytes]) -> bytes | None:
    """Return the secret of a choice of shares, or None if they do not rebuild a 32-byte string."""
    try:
        return shamir.combine(chosen)
    except ProtocolError:
        return None


def _well_formed(share: object) -> bool:
    """Return whether a share is a field element."""
    try:
        shamir.decode(share)
    except ProtocolError:
        return False
    return True
