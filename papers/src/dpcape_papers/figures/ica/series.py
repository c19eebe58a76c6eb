"""The fMRI series of chapter 6's figures: simulated as in the papers, and ABIDE for the data that are not public."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpcape.arrays import FloatArray
from dpcape.datasets import simulated_fmri
from dpcape_papers.experiments.data import DataFolder

Arrays = list[NDArray[np.float32]]

N_SITES, N_COLLUDING = 4, 1  # S_C = ceil(S/3) - 1
ABIDE = "abide_cc200_timeseries.npz"
# Least number of time points of a person in ABIDE; equal lengths make equal sites.
_ABIDE_TIMEPOINTS = 116


@dataclass(frozen=True)
class PeopleSeries:
    """People's series, all of one length.

    Attributes
    ----------
    name : str
        What the data are, for titles.
    arrays : Arrays
        (time points, voxels) per person; a multiple of four people.
    bound : float
        Public norm of a time point.
    mixing : ndarray or None
        The true maps, None for real data.
    """

    name: str
    arrays: Arrays
    bound: float
    mixing: FloatArray | None

    @property
    def n_timepoints(self) -> int:
        """Time points of one person."""
        return len(self.arrays[0])

    @property
    def truth(self) -> FloatArray:
        """The true maps, of simulated people."""
        if self.mixing is None:
            raise ValueError(f"the true maps must be known; got {self.name}.")
        return self.mixing

    def sites(self) -> list[Arrays]:
        """Return the people of the four sites."""
        return [self.arrays[index::N_SITES] for index in range(N_SITES)]


def seed_of(run: int) -> int:
    """Return the seed of a run's people: the data of seed 0 were used to choose gradient bounds, steps and rounds."""
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
    # Public: sources of variance one in maps of norm one, so norms are near the root of their number.
    return PeopleSeries("simulated fMRI", made.arrays, 1.35 * math.sqrt(n_components), made.mixing)


def real(data: DataFolder) -> PeopleSeries:
    """Return ABIDE's regional series, or simulated ones where the file is missing."""
    if not data.has(ABIDE):
        stand_in = simulated(99, n_subjects=372, n_components=10, side=14, n_timepoints=_ABIDE_TIMEPOINTS)
        return PeopleSeries("simulated stand-in for ABIDE", stand_in.arrays, stand_in.bound, None)
    # Entries are z-scores of 200 regions: norms near the root of 200.
    return PeopleSeries("ABIDE", list(_abide(str(data.file(ABIDE)))), 20.0, None)


@lru_cache(maxsize=1)
def _abide(path: str) -> Sequence[NDArray[np.float32]]:
    with np.load(path) as stored:
        rows, starts = stored["Z"], stored["offsets"][:-1]
        people = [rows[start : start + _ABIDE_TIMEPOINTS].astype(np.float32) for start in starts]
    order = np.random.default_rng(0).permutation(len(people))  # protects nothing
    return [people[index] for index in order[: len(people) // N_SITES * N_SITES]]


def some(series: PeopleSeries, n_subjects: int, seed: int) -> PeopleSeries:
    """Return so many people, drawn at random."""
    chosen = np.random.default_rng(seed).permutation(len(series.arrays))[:n_subjects]  # protects nothing
    return PeopleSeries(series.name, [series.arrays[index] for index in chosen], series.bound, series.mixing)
