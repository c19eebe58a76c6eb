"""Memory that releases need, in bytes, from public numbers alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dpcape.core.limits import site_bytes

# Vectors of a release's size that exist at once. `experiments/memory/campaign.py` measures them, with those of a site
# (`core.limits`).
COORDINATOR_VECTORS, VECTORS_PER_SITE = 3.0, 2.0
"""At the coordinator: what it sends and the sum; for each site, its reply as bytes and as numbers."""
HELD_VECTORS = 2.0
"""At each site between its answers: its draws."""
RESULT_VECTORS = 12.0
"""At the coordinator after a release: the mean, the matrix that it is unpacked to, and its decomposition."""
_GIGABYTE = 2**30


@dataclass(frozen=True)
class Footprint:
    """Memory that an analysis needs, in bytes.

    Attributes
    ----------
    site : float
        At a site, while it answers.
    held : float
        At a site, between its answers.
    coordinator : float
        At the coordinator, while it gathers a release.
    postprocessing : float
        At the coordinator, while it computes results from releases.
    """

    site: float
    held: float
    coordinator: float
    postprocessing: float

    @property
    def at_site(self) -> float:
        """What a site needs: while it answers, it may hold what an earlier answer left."""
        return self.site + self.held

    @property
    def at_coordinator(self) -> float:
        """What the coordinator needs: results are computed when a release has been gathered."""
        return max(self.coordinator, self.postprocessing)

    def in_one_process(self, n_sites: int) -> float:
        """Return what all sites and the coordinator need in one process, where sites answer one after the other."""
        return n_sites * self.held + max(self.coordinator + self.site, self.postprocessing)

    def __str__(self) -> str:
        site, coordinator = _shown(self.at_site), _shown(self.at_coordinator)
        if site == coordinator:
            return f"{site} at a site and at the coordinator"
        return f"{site} at a site, {coordinator} at the coordinator"


def footprint_of_release(size: float, n_features: float, n_records: float, n_sites: int) -> Footprint:
    """Return what one release of so many numbers needs."""
    return Footprint(
        site=site_bytes(size, n_features, n_records),
        held=8 * HELD_VECTORS * size,
        coordinator=8 * (COORDINATOR_VECTORS + VECTORS_PER_SITE * n_sites) * size,
        postprocessing=8 * RESULT_VECTORS * size,
    )


def largest(footprints: Iterable[Footprint]) -> Footprint:
    """Return what releases need that follow each other."""
    found = list(footprints)
    return Footprint(
        *(max(getattr(entry, name) for entry in found) for name in ("site", "held", "coordinator", "postprocessing"))
    )


def _shown(n_bytes: float) -> str:
    return "less than 0.1 GB" if n_bytes < 0.1 * _GIGABYTE else f"about {n_bytes / _GIGABYTE:.1f} GB"
