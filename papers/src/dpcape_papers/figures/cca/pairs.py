"""Pairs of views for the CCA figures, prepared with public values only.

The papers centre, project and scale the records by values computed from them, which no epsilon covers. Here centre and
principal directions come from separate rows (the test set of MNIST, every fourth utterance, a second simulated cohort).
Each view of each record is scaled to norm 1/sqrt(2), so that the stacked record has norm one as in the papers.
Simulated fMRI and EEG are scaled by one public number per view and clipped instead, to preserve their correlations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from dpcape.core.arrays import FloatArray
from dpcape_papers.experiments.data import DataFolder
from dpcape_papers.experiments.fusion import simulated_fusion

FILES = {"MNIST": "mnist.npz", "MOCHA-TIMIT": "mocha_timit_two_view.npz"}
VIEW_BOUND = math.sqrt(0.5)


@dataclass(frozen=True)
class Pairs:
    """Two views of the same records; each row of a view has norm at most 1/sqrt(2).

    ``groups`` contains the class of each record, and ``correlations`` the true correlations of simulated profiles.
    """

    name: str
    x: FloatArray
    y: FloatArray
    groups: NDArray[np.intp]
    n_clusters: int
    n_components: int
    correlations: FloatArray | None = None

    def draw(self, n_records: int, seed: Sequence[int]) -> Pairs:
        """Return ``n_records`` records, equally many of each group, in random order."""
        rng = np.random.default_rng(seed)  # protects nothing
        names = np.unique(self.groups)
        sizes = [n_records // names.size + (index < n_records % names.size) for index in range(names.size)]
        chosen = np.concatenate(
            [
                rng.choice(np.flatnonzero(self.groups == name), size, replace=False)
                for name, size in zip(names, sizes, strict=True)
            ]
        )
        chosen = rng.permutation(chosen)
        return Pairs(
            self.name, self.x[chosen], self.y[chosen], self.groups[chosen], self.n_clusters, self.n_components,
            self.correlations,
        )  # fmt: skip


@cache
def clustered(data: DataFolder, name: str) -> Pairs:
    """Return MNIST, MOCHA-TIMIT or the Synthetic mixture; simulated records of the same shape if a file is missing."""
    if name == "Synthetic":
        return _mixture("Synthetic", n_features=20, n_clusters=5, n_components=4, n_records=60000)
    if name == "MNIST":
        return _mnist(data) if data.has(FILES[name]) else _mixture(f"simulated stand-in for {name}", 50, 10, 25, 60000)
    if data.has(FILES[name]):
        return _speech(data)
    return _mixture("simulated stand-in for XRMB", 25, 2, 10, 90000)


def fusion_pairs(n_people: int, seed: Sequence[int]) -> Pairs:
    """Return simulated people, with each modality reduced to five principal directions of a second cohort."""
    # The generator protects nothing.
    people, others = (simulated_fusion(np.random.default_rng([*seed, index]), n_people=n_people) for index in range(2))
    views = []
    # Only the profiles of the second cohort are used. The maps are public, like a template.
    for profiles, spare, components in (
        (people.fmri_profiles, others.fmri_profiles, people.maps),
        (people.eeg_profiles, others.eeg_profiles, people.potentials),
    ):
        mixing = _reduced(spare, components)
        bound = float(np.linalg.norm(spare @ mixing, axis=1).max())
        views.append(_clipped(profiles @ mixing * (VIEW_BOUND / bound)))
    n_components = people.correlations.size
    groups = np.zeros(n_people, dtype=np.intp)
    return Pairs("simulated fMRI+EEG", views[0], views[1], groups, 1, n_components, people.correlations)


def _reduced(profiles: FloatArray, components: FloatArray) -> FloatArray:
    """Return the components in the principal directions of profiles @ components, without forming that product."""
    within = np.linalg.qr(components.T)[1].T
    turn = np.linalg.svd(profiles @ within, full_matrices=False)[2]
    mixing: FloatArray = within @ turn.T
    return mixing


def _clipped(rows: FloatArray) -> FloatArray:
    result: FloatArray = rows * np.minimum(
        1.0, VIEW_BOUND / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)
    )
    return result


def _scaled(rows: FloatArray) -> FloatArray:
    """Return rows scaled to norm 1/sqrt(2), which depends only on the record itself."""
    result: FloatArray = rows * (VIEW_BOUND / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300))
    return result


def _projected(records: FloatArray, public: FloatArray, width: int, *, standardise: bool = False) -> FloatArray:
    centre = public.mean(axis=0)
    spread = np.maximum(public.std(axis=0), 1e-12) if standardise else np.ones(centre.size)
    moved = (public - centre) / spread
    basis = np.linalg.eigh(moved.T @ moved)[1][:, : -width - 1 : -1]
    return _scaled((records - centre) / spread @ basis)


def _mnist(data: DataFolder) -> Pairs:
    """Return the upper and lower halves of the digits, with 50 principal directions each."""
    with np.load(data.file(FILES["MNIST"])) as held:
        train, test, labels = held["X_train"], held["X_test"], held["y_train"].astype(np.intp)
    halves = []
    for rows in (slice(0, 14), slice(14, 28)):
        records, public = (part[:, rows, :].reshape(len(part), -1) / 255.0 for part in (train, test))
        halves.append(_projected(records, public, 50))
    return Pairs("MNIST", halves[0], halves[1], labels, n_clusters=10, n_components=25)


def _speech(data: DataFolder) -> Pairs:
    """Return seven frames of articulators and of acoustics (MFCC, first and second differences), 25 directions each."""
    with np.load(data.file(FILES["MOCHA-TIMIT"])) as held:
        sound, mouth = held["mfcc"].astype(np.float64), held["ema"].astype(np.float64)
        speaker, utterance = held["speaker"].astype(np.intp), held["utterance"].astype(np.intp)
    run = 1000 * speaker + utterance
    inside = np.flatnonzero(run[6:] == run[:-6]) + 3
    differences = _differences(sound, run)
    sound = np.hstack([sound, differences, _differences(differences, run)])
    apart = (np.unique(utterance, return_inverse=True)[1][inside] % 4) == 0
    views = []
    for frames in (mouth, sound):
        stacked = np.hstack([frames[inside + shift].astype(np.float32) for shift in range(-3, 4)])
        public = stacked[apart][::3].astype(np.float64)
        views.append(_projected(stacked[~apart], public, 25, standardise=True))
    name = "MOCHA-TIMIT for XRMB"
    return Pairs(name, views[0], views[1], speaker[inside][~apart], n_clusters=2, n_components=10)


def _differences(frames: FloatArray, run: NDArray[np.intp]) -> FloatArray:
    """Return half the difference of the neighbours, zero at the ends of an utterance."""
    result = np.zeros_like(frames)
    same = run[2:] == run[:-2]
    result[1:-1][same] = (frames[2:] - frames[:-2])[same] / 2
    return result


def _mixture(name: str, n_features: int, n_clusters: int, n_components: int, n_records: int) -> Pairs:
    """Return views that are independent given the cluster, each with noise of its own (Chaudhuri et al. 2009)."""
    rng = np.random.default_rng([7, n_features, n_clusters])  # protects nothing
    groups = rng.integers(n_clusters, size=n_records)
    views = []
    for _ in range(2):
        centres = rng.standard_normal((n_clusters, n_features))
        nuisance = rng.standard_normal((n_features, n_features)) / math.sqrt(n_features)
        rows = centres[groups] + rng.standard_normal((n_records, n_features)) @ nuisance
        views.append(_scaled(rows - centres.mean(axis=0)))
    return Pairs(name, views[0], views[1], groups, n_clusters, n_components)
