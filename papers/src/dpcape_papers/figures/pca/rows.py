"""Data of the PCA figures, as in the paper but centred and bounded by public values.

The paper centres the records by their own mean and divides by their largest norm, which no epsilon covers. Here both
values come from rows that are not used otherwise (the test set of MNIST, 10,000 rows of Covertype) or from the
simulated distribution. Records beyond the bound are clipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from dpcape.core.arrays import FloatArray
from dpcape_papers.experiments.data import DataFolder

FILES = {"MNIST": "mnist.npz", "Covertype": "covtype_60k.npz"}
_BLOCK = 5000


@dataclass(frozen=True)
class RecordSource:
    """A data set from which records are drawn.

    Attributes
    ----------
    name : str
        The data actually used, for titles.
    records : ndarray
        Raw rows.
    centre : ndarray
        Public centre.
    bound : float
        Public bound on the norm of a centred row.
    moment : ndarray
        Second moment of the centred rows in original units, used to compute captured energy.
    """

    name: str
    records: NDArray[np.float32]
    centre: FloatArray
    bound: float
    moment: FloatArray

    @property
    def n_records(self) -> int:
        """Number of records available."""
        return len(self.records)

    def draw(self, n_records: int, seed: Sequence[int]) -> FloatArray:
        """Return ``n_records`` records drawn without replacement, centred and scaled to norms of at most one."""
        chosen = np.random.default_rng(seed).choice(len(self.records), n_records, replace=False)  # protects nothing
        rows: FloatArray = (self.records[chosen] - self.centre) / self.bound
        rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1.0)
        return rows


@cache
def source(data: DataFolder, name: str, side: int = 28) -> RecordSource:
    """Return Synthetic, MNIST (with images of this side length) or Covertype; simulated rows if the file is missing."""
    if name == "Synthetic":
        return _synthetic()
    if not data.has(FILES[name]):
        return _stand_in(name, (side * side) if name == "MNIST" else 54)
    with np.load(data.file(FILES[name])) as held:
        if name == "MNIST":
            title = name if side == 28 else f"MNIST, {side} x {side} pixels"
            return _prepared(title, _images(held["X_train"], side), _images(held["X_test"], side))
        rows = held["X"].astype(np.float32)
    order = np.random.default_rng(0).permutation(len(rows))  # protects nothing
    return _prepared(name, rows[order[10000:]], rows[order[:10000]])


def _images(pixels: NDArray[np.uint8], side: int) -> NDArray[np.float32]:
    step = 28 // side
    small = pixels.reshape(len(pixels), side, step, side, step).mean(axis=(2, 4), dtype=np.float32)
    result: NDArray[np.float32] = small.reshape(len(pixels), side * side) / np.float32(255)
    return result


def _synthetic(n_features: int = 200, n_strong: int = 50, n_records: int = 60000) -> RecordSource:
    """Return rows of mean zero with a fixed covariance: eigenvalues from 10 down to 1, and 150 below one half.

    The spectrum is that of the authors' public generator (github.com/hafizimtiaz/capePCA).
    """
    rng = np.random.default_rng([4, 1])  # protects nothing
    spectrum = np.concatenate([np.linspace(10, 1, n_strong), 0.5 * rng.random(n_features - n_strong)])
    records, public = (
        (rng.standard_normal((n, n_features)) * np.sqrt(spectrum)).astype(np.float32) for n in (n_records, 10000)
    )
    bound = float(np.linalg.norm(public, axis=1).max())
    return RecordSource("Synthetic", records, np.zeros(n_features), bound, np.diag(spectrum))


def _stand_in(name: str, n_features: int) -> RecordSource:
    """Return simulated rows of the same width, with a spectrum that decays as fast as the original's."""
    rng = np.random.default_rng([4, n_features])  # protects nothing
    decay = 1.3 if name == "MNIST" else 2.5
    spectrum = np.arange(1.0, n_features + 1) ** -decay * (20 if name == "MNIST" else 3e6)
    turn = np.linalg.qr(rng.standard_normal((n_features, n_features)))[0]
    rows = (rng.standard_normal((70000, n_features)) * np.sqrt(spectrum)) @ turn.T
    rows = rows.astype(np.float32)
    return _prepared(f"simulated stand-in for {name}", rows[10000:], rows[:10000])


def _prepared(name: str, records: NDArray[np.float32], public: NDArray[np.float32]) -> RecordSource:
    centre: FloatArray = public.mean(axis=0, dtype=np.float64)
    bound = float(np.linalg.norm(public - centre, axis=1).max())
    moment = np.zeros((centre.size, centre.size))
    for start in range(0, len(records), _BLOCK):
        block = records[start : start + _BLOCK] - centre.astype(np.float32)
        moment += block.T @ block
    return RecordSource(name, records, centre, bound, moment / len(records))
