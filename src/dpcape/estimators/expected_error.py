"""Bounds on what noise takes away from principal components, for a declared spectrum."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dpcape.analyses.parameters import shown
from dpcape.core.arrays import FloatArray
from dpcape.core.errors import InvalidParameter
from dpcape.postprocessing.eigen import noise_norm


@dataclass(frozen=True)
class ExpectedError:
    """Bounds on the error due to noise; all hold except with probability ``failure``.

    Attributes
    ----------
    energy_loss : float
        Upper bound on the captured energy lost, at most 2 K eta.
    energy_share : float
        Lower bound on the captured energy, as a share of the optimum.
    subspace_distance : float
        Upper bound on the operator norm between projectors, eta / (gap - eta); 1 when the gap is too small.
    approximation : float
        Upper bound on the operator norm of A minus its private rank-K approximation, lambda_{K+1} + 2 eta.
    noise : float
        Eta, the bound on the operator norm of the noise.
    failure : float
        Probability with which the noise may exceed ``noise``.
    """

    energy_loss: float
    energy_share: float
    subspace_distance: float
    approximation: float
    noise: float
    failure: float


def checked_spectrum(spectrum: ArrayLike, largest: int) -> FloatArray:
    """Return a declared spectrum as an array, or refuse it."""
    try:
        values = np.asarray(spectrum, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.full((), np.nan)
    # Computed eigenvalues may be slightly negative by rounding; comparisons with NaN are false.
    is_list = values.ndim == 1 and 1 <= values.size <= largest
    if not is_list or not (values > -1e-12).all() or (np.diff(values) > 0).any():
        must = f"be 1 to {largest} nonnegative numbers in descending order"
        raise InvalidParameter("spectrum", must, shown(spectrum), "List the largest eigenvalue first.")
    return values


def energy_bounds(values: FloatArray, n_components: int, scale: float, failure: float) -> ExpectedError:
    """Return the bounds for a declared spectrum, one longer than there are columns, under noise of this scale."""
    eta = noise_norm(scale, values.size - 1, failure)
    energy = float(values[:n_components].sum())
    # No subspace captures less than the smallest eigenvalues do.
    loss = min(2 * n_components * eta, energy - float(values[:-1][-n_components:].sum()))
    gap = float(values[n_components - 1] - values[n_components])
    return ExpectedError(
        energy_loss=loss,
        energy_share=1 - loss / energy if energy > 0 else 0.0,
        subspace_distance=min(1.0, eta / (gap - eta)) if gap > eta else 1.0,
        approximation=float(values[n_components]) + 2 * eta,
        noise=eta,
        failure=failure,
    )
