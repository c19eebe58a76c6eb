"""One release as it happened."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Release:
    """One release as it happened.

    Attributes
    ----------
    number, n_releases : int
        Which of how many.
    statistic : str
        Name of the statistic.
    scale : float
        Standard deviation of the noise in the mean, per packed coordinate (on a matrix: at the diagonal).
    survivors : tuple of str
        Sites whose records are in it.
    n_records : int
        Records in it.
    mus : mapping
        What it cost each site.
    size : int
        How many numbers it holds.
    length : float or None
        Euclidean length of what was released, packed; noise alone has about ``scale * sqrt(size)``.
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
