"""How good a result is, in the papers' measures. These look at data or truth: for evaluation, not for release."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]


def captured_energy(components: Matrix, moment: Matrix) -> float:
    """Return tr(V' A V), the energy of ``moment`` in the span of orthonormal rows (dissertation, section 4.3)."""
    return float(np.einsum("kd,de,ke->", components, moment, components, optimize=True))


def captured_ratio(components: Matrix, moment: Matrix) -> float:
    """Return captured energy relative to the best subspace of the same dimension."""
    best = np.linalg.eigvalsh(moment)[-components.shape[0] :].sum()
    return captured_energy(components, moment) / float(best)


def squared_loss(response: Matrix, predicted: Matrix) -> float:
    """Return the mean squared error (dissertation, eq. 8.11)."""
    return float(np.mean((response - predicted) ** 2))


def explained_share(response: Matrix, predicted: Matrix) -> float:
    """Return R squared; for a constant response 1 if it is met exactly and 0 otherwise."""
    spread, left = float(np.var(response)), squared_loss(response, predicted)
    if spread == 0:
        return float(left == 0)
    return 1 - left / spread


def log_loss(codes: NDArray[np.intp], probabilities: Matrix) -> float:
    """Return the mean negative log-probability of the true classes, given as columns of ``probabilities``."""
    taken = probabilities[np.arange(len(codes)), codes]
    return float(-np.mean(np.log(np.maximum(taken, 1e-300))))


def coefficient_error(coefficients: Matrix, truth: Matrix) -> float:
    """Return |w - w*| / D (dissertation, section 8.4)."""
    return float(np.linalg.norm(coefficients - truth)) / len(truth)


def gain_index(unmixing: Matrix, mixing: Matrix) -> float:
    """Return the normalised gain index q_NGI of ``unmixing @ mixing``: 0 for a perfect unmixing, at most 1.

    The index of Amari, Cichocki and Yang (1996), divided by its largest value (Nordhausen, Ollila and Oja 2011); up to
    order, sign and scale of the sources. Used in the dissertation, section 6.5.
    """
    gains = np.abs(unmixing @ mixing)
    n = len(gains)
    by_row = (gains / gains.max(axis=1, keepdims=True)).sum() - n
    by_column = (gains / gains.max(axis=0, keepdims=True)).sum() - n
    return float((by_row + by_column) / (2 * n * (n - 1)))


def matched_correlations(estimated: Matrix, true: Matrix) -> Matrix:
    """Return the absolute correlation of each true map (column) with the estimated map matched to it, one to one."""
    from scipy.optimize import linear_sum_assignment

    normed = []
    for maps in (true, estimated):
        moved = maps - maps.mean(axis=0)
        normed.append(moved / np.linalg.norm(moved, axis=0))
    correlations = np.abs(normed[0].T @ normed[1])
    rows, columns = linear_sum_assignment(-correlations)
    matched: Matrix = correlations[rows, columns]
    return matched


def component_error(estimated: Matrix, true: Matrix) -> float:
    """Return q_comp: mean distance of each estimated component (row) to the nearest true one (section 5.4)."""
    distances = _distances(estimated, true)
    return float(np.mean(distances.min(axis=1)))


def match_components(estimated: Matrix, true: Matrix) -> NDArray[np.intp]:
    """Return, for each true component (row), the estimated one matched to it: one to one, least total distance.

    Unlike q_comp this does not let two estimates share one truth.
    """
    from scipy.optimize import linear_sum_assignment

    matched: NDArray[np.intp] = linear_sum_assignment(_distances(true, estimated))[1]
    return matched


def _distances(first: Matrix, second: Matrix) -> Matrix:
    result: Matrix = np.linalg.norm(first[:, None, :] - second[None, :, :], axis=2)
    return result
