"""Memory that an analysis needs, in bytes, from public numbers alone.

Most analyses need a few vectors of the size of their largest release. What a description states as ``workspace`` and
``results`` comes on top; ``experiments/memory/campaign.py`` measures whether all of it together is true.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from dpcape.analyses.description import Analysis, Public
from dpcape.core.extent import BLOCK_ROWS
from dpcape.transport.footprint import Footprint, footprint_of_release, largest

OBJECT_BYTES = 428
"""Quantity of a result with its verdict: Python objects and texts."""
# Requests are held encoded and decoded while they are sent and answered.
_COPIES = 2


class Workspace(NamedTuple):
    """Memory beyond what releases of their size need, in bytes.

    Attributes
    ----------
    public : float
        Public arrays that go with a request: the sites and the coordinator hold them.
    site : float
        What a site needs besides while it reads records.
    """

    public: float = 0.0
    site: float = 0.0


def footprint_of(analysis: Analysis, public: Public) -> Footprint:
    """Return what an analysis needs: its largest release, whichever of its alternatives is chosen, and its results."""
    sizes = analysis.sizes(public)
    needed = _of_releases(analysis, public, sizes)
    results = 0.0 if analysis.results is None else analysis.results(public, sizes)
    return Footprint(needed.site, needed.held, needed.coordinator, needed.postprocessing + results)


def site_footprint(analysis: Analysis, public: Public) -> float:
    """Return what a site needs for an analysis, without loading what only the coordinator computes."""
    return _of_releases(analysis, public, analysis.sizes(public)).at_site


def _of_releases(analysis: Analysis, public: Public, sizes: Sequence[float]) -> Footprint:
    needed = largest(
        footprint_of_release(size, public.n_features, public.n_records, public.n_participants) for size in sizes
    )
    more = Workspace() if analysis.workspace is None else analysis.workspace(public, sizes)
    return Footprint(
        needed.site + more.site + _COPIES * more.public,
        needed.held + more.public,
        needed.coordinator + _COPIES * more.public,
        needed.postprocessing + _COPIES * more.public,
    )


def directions_of_rounds(public: Public, sizes: Sequence[float]) -> Workspace:
    """Return the workspace of rounds that are sent a square matrix of the columns: two vectors of packed moments."""
    return Workspace(public=16 * max(sizes) if len(sizes) > 1 else 0.0)


def whole_tensors(public: Public, sizes: Sequence[float]) -> Workspace:
    """Return the workspace of third moments: a tensor with all its entries, and the positions of those that differ."""
    return Workspace(site=8 * 8 * max(sizes))


def sent_weights(public: Public, sizes: Sequence[float]) -> Workspace:
    """Return the workspace of a network whose weights go with every request."""
    return Workspace(public=8 * max(sizes))


def rows_of_contributions(public: Public, sizes: Sequence[float]) -> Workspace:
    """Return the workspace of a statistic that writes down what every record of a block contributes, and its parts."""
    return Workspace(site=3 * 8 * min(BLOCK_ROWS, public.n_records) * max(sizes))


def of_vectors(count: float) -> Callable[[Public, Sequence[float]], float]:
    """Return the memory of results that are this many vectors of the size of the largest release."""
    return lambda public, sizes: 8 * count * max(sizes)
