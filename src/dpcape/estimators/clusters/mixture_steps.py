"""Means and weights of a mixture after a noisy step of expectation-maximisation."""

from __future__ import annotations

import numpy as np

from dpcape.core.arrays import FloatArray
from dpcape.statistics.mixture_steps import StepMeans

# A weight is kept above this share of an average one, so that noise cannot make a component vanish.
_LEAST_SHARE = 0.1


def moved(means: FloatArray, weights: FloatArray, step: StepMeans, *, scale: float) -> tuple[FloatArray, FloatArray]:
    """Return means and weights after a step with noise of this scale.

    Moves within the span of the present means are taken as they are. Moves out of it are shrunk by the share of their
    squared length that noise explains (James and Stein 1961): from accurate moments little is left to move there.

    Parameters
    ----------
    means : array of shape (n_components, n_features)
        Present means.
    weights : array of shape (n_components,)
        Present weights, which add up to one.
    step : StepMeans
        Released changes.
    scale : float
        Standard deviation of the noise on each entry of ``step.moves``.
    """
    n_components, n_features = means.shape
    raised = np.maximum(weights + step.weights, _LEAST_SHARE / n_components)
    changed = raised / raised.sum()
    moves = step.moves / changed[:, np.newaxis]
    inside = np.linalg.qr(means.T)[0]
    along = moves @ inside @ inside.T
    outwards = moves - along
    noise = float(np.sum((scale / changed) ** 2)) * max(n_features - n_components, 0)
    length = float(np.sum(outwards**2))
    shrinkage = max(0.0, 1 - noise / length) if length > 0 else 0.0
    return means + along + shrinkage * outwards, changed


def within_ball(means: FloatArray, bound: float) -> FloatArray:
    """Return means shortened to the bound of the records, which no mean of records exceeds."""
    lengths = np.linalg.norm(means, axis=1)
    shortened: FloatArray = means * (bound / np.maximum(lengths, bound))[:, np.newaxis]
    return shortened
