"""What topic and mixture models share: choosing a design, decomposing, saying when noise has won."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcape.analyses.parameters import check_choice, check_whole, is_number, shown
from dpcape.errors import InvalidParameter, UtilityWarning
from dpcape.postprocessing.tensor_power import (
    Coordinates,
    Whitening,
    multilinear,
    noise_strength,
    power_method,
)

Array = NDArray[np.float64]

DESIGNS = ("auto", "full", "whitened")
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

    strengths: Array
    halves: Array
    noise_level: float


def decompose(released: Array, coordinates: Coordinates, *, scale: float) -> Decomposition:
    """Return the components of a third moment released in these coordinates with noise of this scale."""
    n_components = coordinates.backward.shape[1]
    values, vectors = power_method(multilinear(released, coordinates.inner), n_components)
    return Decomposition(values, (coordinates.backward @ vectors).T, noise_strength(scale, coordinates.inner))


def check_number(n_components: int, largest: int) -> int:
    """Return the number of components, which must be given."""
    return check_whole("n_components", n_components, 1, largest)


def check_design(design: str) -> str:
    """Return one of the designs."""
    return check_choice("design", design, DESIGNS)


def second_moment_share(share: float | str, *, n_features: int, n_components: int) -> float:
    """Return the part of mu^2 for the second moment; "auto" follows measurements (experiments/topics).

    The second moment fixes n_features x n_components numbers and the third n_components^3: the more columns,
    the more the second moment matters.
    """
    if isinstance(share, str) and share == "auto":
        columns_each = n_features / n_components
        return 0.45 if columns_each < 4 else 0.6 if columns_each < 20 else 0.75
    if not is_number(share) or not 0.01 <= float(share) <= 0.99:
        raise InvalidParameter(
            f"second_moment_share must be 'auto' or a number from 0.01 to 0.99; got {shown(share)}. The papers use 0.5."
        )
    return float(share)


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
