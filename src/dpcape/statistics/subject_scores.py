"""Scores of a rotation, one per subject: refinement of subject-level ICA, and infomax per subject."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dpcape.core.arrays import FloatArray
from dpcape.core.extent import Extent
from dpcape.core.facts import PublicFacts
from dpcape.core.statistic import known
from dpcape.statistics.packing import packed_size
from dpcape.statistics.reduced import checked_matrix, checked_positive
from dpcape.statistics.subject_moments import InBall, extent_in_ball, whitened

_DECAY = 0.7


@known
class SubjectPolish(InBall[tuple[FloatArray, FloatArray]]):
    """Mean of each subject's score of small rotations, with its curvature, divided by its length.

    With y the sources at the current rotation, v the two-sided exponential mean of y^2 without the present and
    phi = 1/(.5 + .3 y^2 + .7 v): A_ij = <y_i y_j (phi_i - phi_j)> is the score of rotating i towards j, and
    c_i = <phi_i - phi_i y_i^2 - .6 phi_i^2 y_i^2> gives its slope c_i + c_j. The contribution (A_ij i<j, c_i/2) has
    length one, so the diameter is 2.
    """

    name = "subject_polish"
    _fills = True

    def __init__(self, facts: PublicFacts, projection: FloatArray, whitener: FloatArray, rotation: FloatArray) -> None:
        matrix = checked_matrix("projection", projection, (facts.n_features, None))
        width = int(matrix.shape[1])
        inner = checked_matrix("whitener", whitener, (width, width))
        turn = checked_matrix("rotation", rotation, (width, width))
        super().__init__(facts, projection=matrix, whitener=inner, rotation=turn)
        self._projection, self._whitener, self._rotation, self._width = matrix, inner, turn, width

    @staticmethod
    def extent(*, n_components: float) -> Extent:
        """Return the extent for rotations of ``n_components`` sources and scores of length one."""
        return extent_in_ball(packed_size(n_components), 1.0)

    @property
    def numbers(self) -> Mapping[str, float]:
        return {"n_components": self._width}

    def _contribution(self, series: FloatArray) -> FloatArray:
        sources = whitened(series) @ self._rotation.T
        squares = sources**2
        phi = 1 / (0.5 + 0.3 * squares + 0.7 * _surroundings(squares))
        moments = (sources * phi).T @ sources / len(sources)
        scores = moments - moments.T
        slopes = (phi - phi * squares - 0.6 * phi**2 * squares).mean(axis=0)
        return np.concatenate([scores[np.triu_indices(self._width, 1)], slopes / 2])

    def unpack(self, packed: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return (antisymmetric scores, slopes)."""
        n_scores = self.size - self._width
        scores = np.zeros((self._width, self._width))
        scores[np.triu_indices(self._width, 1)] = packed[:n_scores]
        return scores - scores.T, 2 * packed[n_scores:]


def _surroundings(squares: FloatArray) -> FloatArray:
    """Return the exponentially weighted mean of each entry's past and future, without the present."""
    # Imported here: the import takes half of the start-up time of a command or site, and few analyses need it.
    from scipy.signal import lfilter

    stacked = np.stack([squares, squares[::-1]])
    sums = lfilter([0.0, 1.0], [1.0, -_DECAY], stacked, axis=1)
    steps = np.arange(len(squares))
    weights = (1 - _DECAY**steps) / (1 - _DECAY)
    total = weights + weights[::-1]
    result: FloatArray = (sums[0] + sums[1][::-1]) / np.maximum(total, 1e-300)[:, np.newaxis]
    return result


@known
class SubjectInfomax(InBall[tuple[FloatArray, FloatArray]]):
    """Mean of each subject's own mean infomax gradient (G, h), stacked and clipped to ``clip``.

    The gradient at a time point is G = (I + y z') W and h = y with z = W x + b and y = 1 - 2 g(z) (dissertation,
    algorithm 6.1, steps 6 to 9); averaging within a subject costs no privacy, and a ball of radius ``clip`` has
    diameter 2 clip.
    """

    name = "subject_infomax"

    def __init__(
        self,
        facts: PublicFacts,
        projection: FloatArray,
        whitener: FloatArray,
        unmixing: FloatArray,
        bias: FloatArray,
        clip: float,
    ) -> None:
        matrix = checked_matrix("projection", projection, (facts.n_features, None))
        width = int(matrix.shape[1])
        inner = checked_matrix("whitener", whitener, (width, width))
        turn = checked_matrix("unmixing", unmixing, (width, width))
        shift = checked_matrix("bias", bias, (width,))
        super().__init__(
            facts, projection=matrix, whitener=inner, unmixing=turn, bias=shift, clip=checked_positive("clip", clip)
        )
        self._projection, self._whitener, self._unmixing, self._bias = matrix, inner, turn, shift
        self._width, self._clip = width, float(clip)

    @staticmethod
    def extent(*, n_components: float, clip: float) -> Extent:
        """Return the extent for ``n_components`` sources and gradients of length at most ``clip``."""
        return extent_in_ball(n_components * (n_components + 1), clip)

    @property
    def numbers(self) -> Mapping[str, float]:
        return {"n_components": self._width, "clip": self._clip}

    def _contribution(self, series: FloatArray) -> FloatArray:
        sources = whitened(series) @ self._unmixing.T + self._bias
        scores = -np.tanh(sources / 2)
        gradient = (np.eye(self._width) + scores.T @ sources / len(sources)) @ self._unmixing
        return np.concatenate([gradient.ravel(), scores.mean(axis=0)])

    def unpack(self, packed: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return (G, h)."""
        return packed[: self._width**2].reshape(self._width, self._width), packed[self._width**2 :]


def subject_polish(
    facts: PublicFacts, projection: FloatArray, whitener: FloatArray, *, rotation: FloatArray
) -> SubjectPolish:
    """Mean of the subjects' normalised scores at a rotation."""
    return SubjectPolish(facts, projection, whitener, rotation)


def subject_infomax(
    facts: PublicFacts,
    projection: FloatArray,
    whitener: FloatArray,
    *,
    unmixing: FloatArray,
    bias: FloatArray,
    clip: float,
) -> SubjectInfomax:
    """Mean of the subjects' clipped infomax gradients."""
    return SubjectInfomax(facts, projection, whitener, unmixing, bias, clip)
