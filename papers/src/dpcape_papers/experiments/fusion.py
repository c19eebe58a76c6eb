"""Simulated fMRI and EEG of the same people: components mixed by profiles that are correlated across modalities.

After Correa et al., *Canonical correlation analysis for feature-based fusion of biomedical imaging modalities*, IEEE
J. Sel. Topics Signal Process. 2(6), 2008, in the sizes of the paper on capeCCA. The maps replace those of simTB, the
potentials replace those of EEGIFT; both are smooth and localised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator  # simulated data: nothing is protected by it

from dpcape.core.arrays import FloatArray
from dpcape.datasets import smooth_maps

CORRELATIONS = (0.9, 0.7, 0.5, 0.3, 0.1)


@dataclass(frozen=True)
class Fusion:
    """Two modalities of the same people.

    Attributes
    ----------
    maps : ndarray
        Components of the fMRI, (components, pixels).
    potentials : ndarray
        Components of the EEG, (components, time points).
    fmri_profiles, eeg_profiles : ndarray
        Modulation profiles, (people, components), of variance one and orthogonal within a modality. Column k of one
        has correlation ``correlations[k]`` with column k of the other, and none with the other columns.
    correlations : ndarray
        One correlation per component.
    """

    maps: FloatArray
    potentials: FloatArray
    fmri_profiles: FloatArray
    eeg_profiles: FloatArray
    correlations: FloatArray

    @property
    def fmri(self) -> FloatArray:
        """One image per person, (people, pixels)."""
        return self.fmri_profiles @ self.maps

    @property
    def eeg(self) -> FloatArray:
        """One segment per person, (people, time points)."""
        return self.eeg_profiles @ self.potentials


def simulated_fusion(
    rng: Generator,
    *,
    n_people: int,
    correlations: Sequence[float] = CORRELATIONS,
    shape: tuple[int, int] = (50, 50),
    n_timepoints: int = 6360,
) -> Fusion:
    """Return simulated people; the defaults are the papers' five components, 50 x 50 pixels and 6,360 time points.

    Examples
    --------
    >>> import numpy as np
    >>> people = simulated_fusion(np.random.default_rng(0), n_people=40)
    >>> people.fmri.shape, people.eeg.shape
    ((40, 2500), (40, 6360))
    """
    strength = np.asarray(correlations, dtype=np.float64)
    maps = smooth_maps(rng, strength.size, shape).T
    waves = potentials(rng, strength.size, n_timepoints)
    fmri_profiles, eeg_profiles = modulation_profiles(rng, n_people, strength)
    return Fusion(maps, waves, fmri_profiles, eeg_profiles, strength)


def modulation_profiles(rng: Generator, n_people: int, correlations: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return profiles of both modalities with exactly these correlations between corresponding columns."""
    count = correlations.size
    draws = rng.standard_normal((n_people, 2 * count))
    basis = np.linalg.qr(draws - draws.mean(axis=0))[0] * np.sqrt(n_people)
    first, rest = basis[:, :count], basis[:, count:]
    return first, first * correlations + rest * np.sqrt(1 - correlations**2)


def potentials(rng: Generator, n_components: int, n_timepoints: int) -> FloatArray:
    """Return event-related potentials of norm one: three deflections each, later ones slower, signs alternating."""
    time = np.linspace(0.0, 1.0, n_timepoints)
    waves = np.zeros((n_components, n_timepoints))
    for wave in waves:
        latencies = np.sort(rng.uniform(0.05, 0.9, 3))
        for number, latency in enumerate(latencies):
            width = 0.02 + 0.08 * latency
            wave += (-1) ** number * rng.uniform(0.5, 1.0) * np.exp(-((time - latency) ** 2) / (2 * width**2))
    normed: FloatArray = waves / np.linalg.norm(waves, axis=1, keepdims=True)
    return normed
