"""Cases of the statistics of joint ICA: reduced time points, and whole subjects."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcape import subjects

from .statistic_case import Case

Vector = NDArray[np.float64]

_PROJECTION = np.array([[1.0, 0.2], [0.1, -0.9], [0.3, 0.4]])
_INNER = np.array([[1.1, 0.2], [0.2, 0.8]])
_TURN = np.array([[0.8, 0.6], [-0.6, 0.8]])
_STEPS = 6


def _time_points(parameters: Vector) -> Any:
    return subjects([parameters], bound=3.0, unit="record")


def _people(parameters: Vector) -> Any:
    return subjects(
        list(parameters.reshape(len(parameters), _STEPS, 3)),
        bound=3.0,
        unit="subject",
        rows_per_subject=_STEPS,
        n_features=3,
    )


def _reduced(parameters: Vector, clip: float) -> Vector:
    norms = np.linalg.norm(parameters, axis=1, keepdims=True)
    z = parameters * np.minimum(1.0, 3.0 / np.maximum(norms, 1e-300)) @ _PROJECTION
    lengths = np.linalg.norm(z, axis=1, keepdims=True)
    return z * np.minimum(1.0, clip / np.maximum(lengths, 1e-300))


def _second(parameters: Vector) -> Vector:
    z = _reduced(parameters, 1.3)
    return (z.T @ z / len(z)).ravel()


def _fourth(parameters: Vector) -> Vector:
    # Packed: entries 1111, 1112, 1122, 1222, 2222 with 1, 4, 6, 4, 1 permutations.
    a, b = _reduced(parameters, 1.2).T
    powers = np.array([a**4, a**3 * b, a**2 * b**2, a * b**3, b**4]).mean(axis=1)
    return powers * np.sqrt([1, 4, 6, 4, 1])


_REDUCED = {"projection": _PROJECTION}
_WHITE = {"projection": _PROJECTION, "whitener": _INNER}
_STEP = {"unmixing": _TURN, "bias": np.array([0.1, -0.2])}
_N = 3 * _STEPS

CASES = [
    Case("reduced_second_moment", "2d", 3, _time_points, {**_REDUCED, "clip": 1.3}, expected=_second),
    Case("fourth_moment", "2d", 3, _time_points, {**_REDUCED, "clip": 1.2}, expected=_fourth),
    # G = (I + y z') W has the public part W, so two gradients are never opposite: the ball's diameter is not attained.
    Case("infomax_scores", "2d", 3, _time_points, {**_REDUCED, **_STEP, "clip": 1.0, "bias_clip": 0.5}, reaches=0.5),
    Case("subject_projector", "1 of 3", _N, _people, {"basis": np.eye(3), "n_components": 1}),
    Case("subject_log_covariance", "2d", _N, _people, {**_WHITE, "clip": 0.5}),
    Case("subject_covariance", "2d", _N, _people, {**_WHITE, "clip": 0.4}),
    Case("subject_tensor", "2d", _N, _people, _WHITE, reaches=0.99),
    Case("subject_polish", "2d", _N, _people, {**_WHITE, "rotation": _TURN}, reaches=0.7),
    # A whitened subject's gradient keeps the same public part, so opposite ones do not occur here either.
    Case("subject_infomax", "2d", _N, _people, {**_WHITE, **_STEP, "clip": 0.2}, reaches=0.49),
]
