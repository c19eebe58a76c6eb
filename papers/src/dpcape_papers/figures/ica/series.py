"""The fMRI series of chapter 6's figures: simulated as in the papers, and ABIDE for data that are not public."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpcape.core.arrays import FloatArray
from dpcape.datasets import simulated_fmri
from dpcape_papers.experiments.data import DataFolder

Arrays = list[NDArray[np.float32]]

N_SITES, N_COLLUDING = 4, 1  # S_C = ceil(S/3) - 1
ABIDE = "abide_cc200_timeseries.npz"
# Smallest number of time points of a person in ABIDE; with equal lengths the sites have equal size.
_ABIDE_TIMEPOINTS = 116


@dataclass(frozen=True)
class PeopleSeries:
    """Time series of several people, all of the same length.

    Attributes
    ----------
    name : str
        Name of the data, for titles.
    arrays : list of ndarray
        One array per person, (time points, voxels); the number of people is a multiple of four.
    bound : float
        Public bound on the norm of a time point.
    mixing : ndarray or None
        True maps; None for real data.
    """

    name: str
    arrays: Arrays
    bound: float
    mixing: FloatArray | None

    @property
    def n_timepoints(self) -> int:
        """Number of time points per person."""
        return len(self.arrays[0])

    @property
    def truth(self) -> FloatArray:
        """True maps of simulated people."""
        if self.mixing is None:
            raise ValueError(f"The data must have known true maps; got {self.name}. Use simulated data.")
        return self.mixing

    def sites(self) -> list[Arrays]:
        """Return the arrays of each of the four sites."""
        return [self.arrays[index::N_SITES] for index in range(N_SITES)]


def seed_of(run: int) -> int:
    """Return the data seed of a run; seed 0 is not used, because bounds, steps and rounds were chosen on it."""
    return run + 1


def simulated(seed: int, *, n_subjects: int, n_components: int, side: int, n_timepoints: int) -> PeopleSeries:
    """Return GARCH sources mixed by smooth maps (section 6.5: 20 components, 30 x 30 voxels, 250 time points)."""
    made = simulated_fmri(
        np.random.default_rng(seed),  # protects nothing
        n_subjects=n_subjects,
        n_components=n_components,
        shape=(side, side),
        n_timepoints=n_timepoints,
    )
    # Public: sources have variance one and maps norm one, so norms are near the square root of their number.
    return PeopleSeries("simulated fMRI", made.arrays, 1.35 * math.sqrt(n_components), made.mixing)


def real(data: DataFolder) -> PeopleSeries:
    """Return ABIDE's regional series, or simulated series if the file is missing."""
    if not data.has(ABIDE):
        stand_in = simulated(99, n_subjects=372, n_components=10, side=14, n_timepoints=_ABIDE_TIMEPOINTS)
        return PeopleSeries("simulated stand-in for ABIDE", stand_in.arrays, stand_in.bound, None)
    # Entries are z-scores of 200 regions, so norms are near the square root of 200.
    return PeopleSeries("ABIDE", list(_abide(str(data.file(ABIDE)))), 20.0, None)


@lru_cache(maxsize=1)
def _abide(path: str) -> Sequence[NDArray[np.float32]]:
    with np.load(path) as stored:
        rows, starts = stored["Z"], stored["offsets"][:-1]
        people = [rows[start : start + _ABIDE_TIMEPOINTS].astype(np.float32) for start in starts]
    order = np.random.default_rng(0).permutation(len(people))  # protects nothing
    return [people[index] for index in order[: len(people) // N_SITES * N_SITES]]


def some(series: PeopleSeries, n_subjects: int, seed: int) -> PeopleSeries:
    """Return ``n_subjects`` people drawn at random."""
    chosen = np.random.default_rng(seed).permutation(len(series.arrays))[:n_subjects]  # protects nothing
    return PeopleSeries(series.name, [series.arrays[index] for index in chosen], series.bound, series.mixing)
