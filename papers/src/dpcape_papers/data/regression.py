"""Synthetic data of chapter 8 and section 3.4, and real data sets with their public schemas."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from dpcape import Schema, labelled
from dpcape.core.arrays import FloatArray, IntArray
from dpcape.records.kinds import Records
from dpcape_papers.experiments.data import DataFolder

SCHEMAS = Path(__file__).parent / "schemas"

LOBES = {
    "frontal": (1, 28),
    "insula": (29, 30),
    "cingulum": (31, 36),
    "medial_temporal": (37, 42),
    "occipital": (43, 56),
    "parietal": (57, 70),
    "subcortical": (71, 78),
    "temporal": (79, 90),
    "cerebellum": (91, 116),
}
"""First and last region of each lobe in the order of the AAL atlas."""


class TargetOptions(TypedDict, total=False):
    """Arguments of :func:`dpcape.labelled` that describe the target: a public range, or the public classes."""

    response: tuple[float, float]
    classes: list[int]


@dataclass(frozen=True)
class PreparedStudy:
    """A data set divided among sites, prepared by public rules.

    Attributes
    ----------
    features : ndarray
        Prepared rows; the sites clip them to ``bound``.
    target : ndarray
        Responses or class codes.
    sites : mapping
        Row positions of each site's records.
    bound : float
        Public bound on the norm of a row.
    options : mapping
        Arguments of :func:`dpcape.labelled` that describe the target.
    truth : ndarray or None
        True coefficients of simulated data; None for real data.
    """

    features: FloatArray
    target: FloatArray | IntArray
    sites: Mapping[str, NDArray[np.intp]]
    bound: float
    options: TargetOptions
    truth: FloatArray | None = None

    def records(self, names: tuple[str, ...] | None = None) -> dict[str, Records]:
        """Return the records of all sites, or of the named ones."""
        chosen = self.sites if names is None else {name: self.sites[name] for name in names}
        return {name: self._records(rows) for name, rows in chosen.items()}

    def pooled(self) -> dict[str, Records]:
        """Return all records as those of a single site."""
        return {"all": self._records(np.concatenate(list(self.sites.values())))}

    def _records(self, rows: NDArray[np.intp]) -> Records:
        return labelled(self.features[rows], self.target[rows], bound=self.bound, **self.options)


def linear(width: int, n_records: int, *, n_sites: int = 5, seed: int = 0) -> PreparedStudy:
    """Return rows of norm 1 and a response with mean square 0.047, of which 0.0025 is noise."""
    generator = np.random.default_rng(seed)  # protects nothing
    X = _unit_rows(generator, n_records, width)
    direction = generator.standard_normal(width)
    signal = X @ direction
    y = 0.211 * signal / signal.std() + 0.05 * generator.standard_normal(n_records)
    truth = 0.211 * direction / signal.std()
    return PreparedStudy(X, np.clip(y, -1, 1), split(n_records, n_sites), 1.0, {"response": (-1, 1)}, truth)


def logistic(width: int, n_records: int, *, n_sites: int = 5, seed: int = 0) -> PreparedStudy:
    """Return Gaussian rows of norm about 1, and classes with log-odds of standard deviation 2.5."""
    generator = np.random.default_rng(seed)  # protects nothing
    X = generator.standard_normal((n_records, width)) / np.sqrt(width)
    direction = generator.standard_normal(width)
    odds = 2.5 * np.sqrt(width) * (X @ direction) / np.linalg.norm(direction)
    labels = (generator.random(n_records) < 1 / (1 + np.exp(-odds))).astype(int)
    return PreparedStudy(X, labels, split(n_records, n_sites), 1.3, {"classes": [0, 1]})


def two_gaussians(n_records: int, *, n_sites: int = 4, width: int = 50, seed: int = 0) -> PreparedStudy:
    """Return the network's data (section 3.4): two unit Gaussians whose means are at distance 1."""
    generator = np.random.default_rng(seed)  # protects nothing
    labels = generator.integers(0, 2, n_records)
    X = generator.standard_normal((n_records, width)) + (labels[:, None] - 0.5) / np.sqrt(width)
    # A row of D standard normals has norm sqrt(D), plus or minus about 1.
    return PreparedStudy(X, labels, split(n_records, n_sites), np.sqrt(width) + 1, {"classes": [0, 1]})


def crime(folder: DataFolder, *, n_sites: int = 5) -> PreparedStudy:
    """Return Communities and Crime: violent crimes per population from 99 predictors."""
    with gzip.open(folder.file("communities_crime.csv.gz"), "rt", newline="") as lines:
        table = list(csv.DictReader(lines))
    schema = Schema.from_toml(SCHEMAS / "communities_crime.toml")
    columns = {column.name: np.array([float(row[column.name] or "nan") for row in table]) for column in schema.columns}
    y = np.array([float(row["ViolentCrimesPerPop"]) for row in table])
    features = schema.apply(columns)
    return PreparedStudy(features, y, split(len(y), n_sites), _uniform_bound(features.shape[1]), {"response": (0, 1)})


def blog(folder: DataFolder, *, n_sites: int = 5) -> PreparedStudy:
    """Return BlogFeedback: comments in the next 24 hours; replaces the Twitter data, whose rows are not available."""
    stored = np.load(folder.file("blogfeedback_test.npz"))
    schema = Schema.from_toml(SCHEMAS / "blogfeedback.toml")
    positions = [int(column.name.removeprefix("attribute_")) - 1 for column in schema.columns]
    features = schema.apply(stored["X"][:, positions].astype(np.float64))
    y = stored["y"].astype(np.float64)
    # Two indicators of weekdays are 1, and the counts of a typical post are far below their ranges.
    return PreparedStudy(features, y, split(len(y), n_sites), 2.0, {"response": (0, 100)})


def abide(folder: DataFolder) -> PreparedStudy:
    """Return ABIDE: age from connectivity between lobes, at the consortium's own sites."""
    edges = np.load(folder.file("abide_aal_fc.npz"))["F"].astype(np.float64)
    with folder.file("abide_phenotypes.csv").open(newline="") as lines:
        people = list(csv.DictReader(lines))
    schema = Schema.from_toml(SCHEMAS / "abide_lobes.toml")
    features = schema.apply(_between_lobes(edges))
    y = np.array([float(row["AGE_AT_SCAN"]) for row in people])
    names = np.array([row["SITE_ID"] for row in people])
    sites = {str(name): np.flatnonzero(names == name) for name in np.unique(names)}
    return PreparedStudy(features, y, sites, _uniform_bound(features.shape[1]), {"response": (6, 65)})


def covertype(folder: DataFolder, *, n_sites: int = 5, binary: bool) -> PreparedStudy:
    """Return Covertype: lodgepole pine against all other types, or all seven types."""
    stored = np.load(folder.file("covtype_60k.npz"))
    schema = Schema.from_toml(SCHEMAS / "covertype.toml")
    features = schema.apply(stored["X"].astype(np.float64))
    kinds = stored["y"].astype(int)
    target, classes = ((kinds == 2).astype(int), [0, 1]) if binary else (kinds, list(range(1, 8)))
    # Ten numeric columns, one wilderness area and one soil type per row.
    bound = float(np.sqrt(10 / 3 + 2))
    return PreparedStudy(features, target, split(len(kinds), n_sites), bound, {"classes": classes})


def split(n_records: int, n_sites: int) -> dict[str, NDArray[np.intp]]:
    """Return the row positions of sites of equal size, in a fixed random order."""
    order = np.random.default_rng(0).permutation(n_records)  # protects nothing
    return {f"site{number}": np.sort(part) for number, part in enumerate(np.array_split(order, n_sites), start=1)}


def _unit_rows(generator: np.random.Generator, n_records: int, width: int) -> FloatArray:
    X = generator.standard_normal((n_records, width))
    rows: FloatArray = X / np.linalg.norm(X, axis=1, keepdims=True)
    return rows


def _uniform_bound(width: int) -> float:
    """Return the root mean square norm of rows with entries uniform over [-1, 1], used as a public bound."""
    return float(np.sqrt(width / 3))


def _between_lobes(edges: FloatArray) -> FloatArray:
    """Return the mean of the edges between each pair of lobes."""
    lobe = np.zeros(116, dtype=int)
    for number, (first, last) in enumerate(LOBES.values()):
        lobe[first - 1 : last] = number
    starts, ends = np.triu_indices(116, 1)
    low, high = np.minimum(lobe[starts], lobe[ends]), np.maximum(lobe[starts], lobe[ends])
    pairs = [(a, b) for a in range(len(LOBES)) for b in range(a, len(LOBES))]
    return np.stack([edges[:, (low == a) & (high == b)].mean(axis=1) for a, b in pairs], axis=1)
