"""Simulated fMRI as in the papers: smooth maps, and time courses with bursts of volatility (GARCH).

For examples, tests and reproductions. Callers pass the random generator and so choose the seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator  # simulated data: nothing is protected by it
from numpy.typing import NDArray

from dpcape.core.arrays import FloatArray
from dpcape.core.errors import InvalidParameter

KINDS = ("garch", "laplace", "heterogeneous")


@dataclass(frozen=True)
class SimulatedFmri:
    """Simulated subjects that share maps and have individual time courses.

    Attributes
    ----------
    mixing : array of shape (voxels, components)
        The true maps, one per column.
    shape : tuple of int
        Height and width of the image.
    arrays : list of array
        One array of shape (time points, voxels) per subject: its sources times the transposed ``mixing``.
    """

    mixing: FloatArray
    shape: tuple[int, int]
    arrays: list[NDArray[np.float32]]


def simulated_fmri(
    rng: Generator,
    *,
    n_subjects: int,
    n_components: int = 20,
    shape: tuple[int, int] = (30, 30),
    n_timepoints: int = 250,
    kind: str = "garch",
) -> SimulatedFmri:
    """Return simulated subjects (dissertation, section 6.5: 20 components, 30 x 30 voxels, 250 time points).

    Arrays are float32, so that 1,024 subjects take 0.9 GB.

    Parameters
    ----------
    rng : numpy.random.Generator
        Random generator.
    n_subjects : int
        Number of subjects.
    n_components : int
        Number of maps.
    shape : tuple of int
        Height and width of the image.
    n_timepoints : int
        Time points per subject.
    kind : str
        Time courses: "garch", "laplace", or "heterogeneous" (GARCH with strengths that differ between subjects).

    Examples
    --------
    >>> import numpy as np
    >>> simulated_fmri(np.random.default_rng(0), n_subjects=2).arrays[0].shape
    (250, 900)
    """
    if kind not in KINDS:
        raise InvalidParameter("kind", f"be one of {', '.join(KINDS)}", repr(kind))
    mixing = smooth_maps(rng, n_components, shape)
    courses = sources(rng, n_subjects=n_subjects, n_components=n_components, n_timepoints=n_timepoints, kind=kind)
    return SimulatedFmri(mixing, shape, [(series @ mixing.T).astype(np.float32) for series in courses])


def smooth_maps(rng: Generator, n_components: int, shape: tuple[int, int]) -> FloatArray:
    """Return maps as columns of norm one, each with a main blob and a weaker one, spread over the image."""
    rows, columns = np.mgrid[0 : shape[0], 0 : shape[1]].reshape(2, -1, 1)
    centres = _spread_centres(rng, n_components, shape)
    others = rng.permutation(centres)
    widths = rng.uniform(2.2, 3.4, (2, n_components)) * min(shape) / 30
    weak = rng.uniform(-0.5, 0.5, n_components)

    def blob(at: FloatArray, width: FloatArray) -> FloatArray:
        distance = (rows - at[:, 0]) ** 2 + (columns - at[:, 1]) ** 2
        bump: FloatArray = np.exp(-distance / (2 * width**2))
        return bump

    maps = blob(centres, widths[0]) + weak * blob(others, widths[1])
    normed: FloatArray = maps / np.linalg.norm(maps, axis=0)
    return normed


def _spread_centres(rng: Generator, n_components: int, shape: tuple[int, int]) -> FloatArray:
    """Return jittered centres on a grid, so that maps overlap but are distinct."""
    n_rows = int(np.floor(np.sqrt(n_components)))
    n_columns = -(-n_components // n_rows)
    grid = np.stack(np.meshgrid(np.arange(n_rows), np.arange(n_columns), indexing="ij"), axis=-1).reshape(-1, 2)
    cells = np.array([shape[0] / n_rows, shape[1] / n_columns])
    chosen = rng.permutation(grid)[:n_components]
    centres: FloatArray = (chosen + 0.5 + rng.uniform(-0.2, 0.2, (n_components, 2))) * cells - 0.5
    return centres


def sources(
    rng: Generator, *, n_subjects: int, n_components: int, n_timepoints: int, kind: str = "garch"
) -> Iterator[FloatArray]:
    """Yield the time courses of each subject, (time points, components), with expected variance one."""
    for _ in range(n_subjects):
        if kind == "laplace":
            yield rng.laplace(scale=np.sqrt(0.5), size=(n_timepoints, n_components))
            continue
        series = garch(rng, n_timepoints, n_components)
        if kind == "heterogeneous":
            # Components differ in strength from person to person.
            series = series * np.exp(0.4 * rng.standard_normal(n_components))
        yield series


def garch(rng: Generator, n_timepoints: int, n_components: int) -> FloatArray:
    """Return GARCH(1, 1) series (Bollerslev 1986), one per column, after a burn-in of 50.

    Reaction .15-.35 and persistence .4-.6 give a median sample excess kurtosis of about 1.2 in 250 time points.
    """
    reaction = rng.uniform(0.15, 0.35, n_components)
    persistence = rng.uniform(0.4, 0.6, n_components)
    base = 1 - reaction - persistence
    shocks = rng.standard_normal((n_timepoints + 50, n_components))
    series = np.empty_like(shocks)
    variance = np.ones(n_components)
    for step, shock in enumerate(shocks):
        series[step] = np.sqrt(variance) * shock
        variance = base + reaction * series[step] ** 2 + persistence * variance
    return series[50:]


def autocorrelation(series: FloatArray, n_lags: int) -> FloatArray:
    """Return the sample autocorrelation of each column at lags 0 to ``n_lags``: (n_lags + 1, columns)."""
    moved = series - series.mean(axis=0)
    variance = (moved**2).mean(axis=0)
    lags = [(moved[lag:] * moved[: len(moved) - lag]).sum(axis=0) / len(moved) for lag in range(n_lags + 1)]
    result: FloatArray = np.stack(lags) / np.where(variance > 0, variance, 1.0)
    return result
