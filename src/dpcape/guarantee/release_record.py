"""One release as it happened."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Release:
    """One release as it happened.

    Attributes
    ----------
    number, n_releases : which of how many.
    statistic : name of the statistic.
    scale : standard deviation of the noise in the mean, per packed coordinate (on a matrix: at the diagonal).
    survivors : sites whose records are in it.
    n_records : records in it.
    mus : what it cost each site.
    size : how many numbers it holds.
    length : Euclidean length of what was released, packed; noise alone has about ``scale * sqrt(size)``.
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
