"""What topic and mixture models share: choosing a design, decomposing, saying when noise has won."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from dpcape.arrays import FloatArray
from dpcape.errors import UtilityWarning
from dpcape.postprocessing.tensor_power import Coordinates, Whitening, multilinear, noise_strength, power_method

# Beyond this many numbers a third moment is released in few coordinates only, unless asked for.
LARGEST_FULL = 200_000
# A strength below this multiple of what noise alone would reach is worth a warning.
_CLEARLY = 2.0


@dataclass(frozen=True)
class Decomposition:
    """Orthogonal components of a whitened third moment.

    Attributes
    ----------
    strengths : (n_components,)
        w_k^(-1/2), descending.
    halves : (n_components, n_features)
        Rows sqrt(w_k) a_k.
    noise_level : float
        Strength that noise alone would reach.
    """

    strengths: FloatArray
    halves: FloatArray
    noise_level: float


def decompose(released: FloatArray, coordinates: Coordinates, *, scale: float) -> Decomposition:
    """Return the components of a third moment released in these coordinates with noise of this scale."""
    n_components = coordinates.backward.shape[1]
    values, vectors = power_method(multilinear(released, coordinates.inner), n_components)
    return Decomposition(values, (coordinates.backward @ vectors).T, noise_strength(scale, coordinates.inner))


def warn_if_drowned(whitening: Whitening, found: Decomposition) -> None:
    """Warn when released numbers cannot be told from noise; all of them are public."""
    n_components, reasons = len(found.strengths), []
    if whitening.n_drowned:
        reasons.append(
            f"{whitening.n_drowned} of {n_components} directions of the second moment are not clearly above its noise "
            "(those below were raised to its level)"
        )
    n_weak = int(np.sum(found.strengths <= _CLEARLY * found.noise_level))
    if n_weak:
        reasons.append(
            f"{n_weak} of {n_components} components of the third moment are not clearly stronger than its noise "
            f"({found.noise_level:.3g})"
        )
    if reasons:
        text = (
            f"{'; '.join(reasons)}. Expect as many components to be noise. Ask for fewer components or columns, a "
            "larger epsilon, or more records."
        )
        warnings.warn(text, UtilityWarning, stacklevel=4)
