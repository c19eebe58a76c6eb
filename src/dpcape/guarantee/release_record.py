"""Record of one release that was made."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ReleaseRecord:
    """Record of one release that was made.

    Attributes
    ----------
    number, n_releases : int
        Position of the release, from 0, and number of releases of the allowance.
    statistic : str
        Name of the statistic.
    scale : float
        Standard deviation of the noise in the mean, per packed coordinate (on a matrix: at the diagonal).
    survivors : tuple of str
        Sites whose contribution counts.
    n_records : int
        Number of records at these sites.
    mus : dict
        Exposure of each site's records, as mu.
    size : int
        Number of values released.
    length : float or None
        Euclidean norm of the packed values; noise alone has about ``scale * sqrt(size)``.
    """

    number: int
    n_releases: int
    statistic: str
    scale: float
    survivors: tuple[str, ...]
    n_records: int
    mus: dict[str, float]
    size: int = 0
    length: float | None = None
