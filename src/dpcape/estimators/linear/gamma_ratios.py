"""What cutting off positive responses at a multiple of their mean loses, for gamma distributions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammainc, gammaincc

from dpcape.core.arrays import FloatArray
from dpcape.statistics.family_scores import LARGEST_EXCESS, RATIO_CLIP, RatioScoreMeans

_SURE = 2.0


@dataclass(frozen=True)
class RatioFigures:
    """Mean square of the residuals, mean of the ratios that were not cut off, and how wrong they may be (two SD)."""

    square: float
    uncut: float
    square_error: float
    uncut_error: float

    def squares(self, change: float) -> tuple[float, float, float]:
        """Return the mean square, and its least and largest value where the predictor still changes by ``change``."""
        room = self.square_error + 2 * LARGEST_EXCESS * min(change, 1.0)
        return self.square, self.square - room, self.square + room


def ratio_figures(scores: RatioScoreMeans, scale: float, share: float, reach: float) -> RatioFigures:
    """Return the figures of one release, whose entries have noise of this scale.

    Parameters
    ----------
    scores : RatioScoreMeans
        What was released.
    scale : float
        Standard deviation of its noise.
    share : float
        One over the number of records.
    reach : float
        Largest length of v.
    """
    width = math.sqrt(len(scores.moment))
    trace = max(float(np.trace(scores.moment)), scale * width)
    # Deviation of a mean weighted by |v|^2: the largest variance of a bounded number, and the heaviest weight.
    sampling = math.sqrt(share) * reach / math.sqrt(trace) / 2
    square, uncut = max(scores.square / trace, 1e-6), min(max(scores.uncut / trace, 0.05), 1.2)
    of_square = math.hypot(LARGEST_EXCESS**2 * scale, square * width * scale) / trace + LARGEST_EXCESS**2 * sampling
    of_uncut = math.hypot(RATIO_CLIP * scale, uncut * width * scale) / trace + RATIO_CLIP * sampling
    return RatioFigures(square, uncut, _SURE * of_square, _SURE * of_uncut)


def gamma_shift(square: float) -> float:
    """Return the logarithm of the mean of a gamma variable over the centre at which cut-off residuals vanish.

    The centre m has a mean of min(y / m, 2.5) of 1; ``square`` is the mean of its squared deviations from 1, which
    grows with the shape's inverse.
    """
    squares, shifts = _table()
    return float(np.interp(square, squares, shifts))


@lru_cache(maxsize=1)
def _table() -> tuple[FloatArray, FloatArray]:
    """Return mean squared residuals and shifts for shapes from 1e4 to 1e-1."""
    squares, shifts = [], []
    for shape in np.logspace(4, -1, 160):
        factor = brentq(lambda t, a=float(shape): _cut(t, a, 1) - 1, 1.0 - 1e-9, 1e6)
        squares.append(_cut(factor, float(shape), 2) - 1)
        shifts.append(math.log(factor))
    return np.array(squares), np.array(shifts)


def _cut(t: float, shape: float, power: int) -> float:
    """Return the mean of min(t g, 2.5) to a power, g of a gamma distribution of mean 1."""
    end = RATIO_CLIP * shape / t
    moment = t if power == 1 else t * t * (shape + 1) / shape
    return float(moment * gammainc(shape + power, end) + RATIO_CLIP**power * gammaincc(shape, end))
