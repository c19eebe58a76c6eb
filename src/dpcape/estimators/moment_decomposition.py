"""Decomposition of third moments, shared by topic and mixture models, with a warning if noise dominates."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from dpcape.charts import Bars
from dpcape.core.arrays import FloatArray
from dpcape.core.errors import UtilityWarning
from dpcape.postprocessing.tensor_power import Coordinates, Whitening, multilinear, noise_strength, power_method
from dpcape.results import Section

# A strength below this multiple of what noise alone would reach is worth a warning.
_CLEARLY = 2.0


@dataclass(frozen=True)
class Decomposition:
    """Orthogonal components of a whitened third moment.

    Attributes
    ----------
    strengths : array of shape (n_components,)
        w_k^(-1/2), descending.
    halves : array of shape (n_components, n_features)
        Rows sqrt(w_k) a_k.
    noise_level : float
        Strength that noise alone would have.
    """

    strengths: FloatArray
    halves: FloatArray
    noise_level: float


def decompose(released: FloatArray, coordinates: Coordinates, *, scale: float) -> Decomposition:
    """Return the components of a third moment released in these coordinates, with noise of this scale."""
    n_components = coordinates.backward.shape[1]
    values, vectors = power_method(multilinear(released, coordinates.inner), n_components)
    return Decomposition(values, (coordinates.backward @ vectors).T, noise_strength(scale, coordinates.inner))


def warn_if_drowned(whitening: Whitening, decomposition: Decomposition) -> None:
    """Warn when released values are indistinguishable from noise; uses only what was released."""
    n_components, reasons = len(decomposition.strengths), []
    if whitening.n_drowned:
        reasons.append(
            f"{whitening.n_drowned} of {n_components} eigenvalues of the second moment are not clearly above the noise "
            "(those below it were raised to its level)"
        )
    n_weak = int(np.sum(decomposition.strengths <= _CLEARLY * decomposition.noise_level))
    if n_weak:
        reasons.append(
            f"{n_weak} of {n_components} components of the third moment are not clearly stronger than the noise "
            f"({decomposition.noise_level:.3g})"
        )
    if reasons:
        text = (
            f"{'; '.join(reasons)}. As many of the fitted components may be noise. Use fewer components or columns, a "
            "larger epsilon, or more records."
        )
        warnings.warn(text, UtilityWarning, stacklevel=4)


def strength_section(strengths: FloatArray, noise_level: float, weights: FloatArray) -> Section:
    """Return the section with charts of the strengths and weights of components."""
    return Section(
        title="Strength of the components",
        tables=(),
        charts=(
            Bars(
                values=strengths,
                label="strength",
                level=noise_level,
                alt=f"Strengths of {len(strengths)} components; the level of noise alone is {noise_level:.3g}.",
                caption="The dashed line is the level of noise alone; a component that is not twice as strong may be "
                "noise.",
            ),
            Bars(
                values=weights,
                label="share",
                alt="Bars: the weights of the components.",
                caption="Weights of the components.",
            ),
        ),
    )
