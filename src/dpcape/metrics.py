"""Evaluation metrics of the papers. They use data or ground truth, so their values are not protected."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpcape.core.arrays import FloatArray
from dpcape.core.errors import InvalidParameter


def captured_energy(components: FloatArray, moment: FloatArray) -> float:
    """Return q_CE = tr(V' A V), the energy of ``moment`` in the span of orthonormal rows (dissertation, 4.3)."""
    return float(np.einsum("kd,de,ke->", components, moment, components, optimize=True))


def captured_ratio(components: FloatArray, moment: FloatArray) -> float:
    """Return the captured energy divided by that of the best subspace of the same dimension."""
    best = np.linalg.eigvalsh(moment)[-components.shape[0] :].sum()
    return captured_energy(components, moment) / float(best)


def correlation_error(true: ArrayLike, estimated: ArrayLike) -> float:
    """Return err_corr = |r* - r| / K of the K correlations between modalities (capeCCA; dissertation, section 7.3)."""
    difference = np.asarray(true, dtype=float) - np.asarray(estimated, dtype=float)
    return float(np.linalg.norm(difference) / difference.size)


def calinski_harabasz(rows: ArrayLike, clusters: ArrayLike) -> float:
    """Return the Calinski-Harabasz index CH: variance between clusters over variance within (dissertation, 7.3).

    Larger is better. It is defined for 2 to n - 1 clusters of n rows; 1 if every row lies at its cluster's centre, as
    in scikit-learn.
    """
    points = np.asarray(rows, dtype=float)
    names, codes = np.unique(np.asarray(clusters), return_inverse=True)
    n, k = len(points), len(names)
    if codes.shape != (n,) or not 2 <= k < n:
        raise InvalidParameter("clusters", "assign n rows to 2 to n - 1 groups", f"{k} groups of {n} rows")
    members = (codes[:, None] == np.arange(k)).astype(float)
    sizes = members.sum(axis=0)
    centres = members.T @ points / sizes[:, None]
    between = float(np.sum(sizes[:, None] * (centres - points.mean(axis=0)) ** 2))
    within = float(np.sum((points - centres[codes]) ** 2))
    return between * (n - k) / (within * (k - 1)) if within > 0 else 1.0


def accuracy(labels: ArrayLike, predicted: ArrayLike) -> float:
    """Return acc, the share of correct labels, between 0 and 1 (in per cent in the dissertation, section 3.4)."""
    return float(np.mean(np.asarray(labels) == np.asarray(predicted)))


def empirical_loss(coefficients: FloatArray, rows: FloatArray, response: FloatArray) -> float:
    """Return f_D(w) = |y - X w|^2 / N (dissertation, eq. 8.11)."""
    return squared_loss(response, rows @ coefficients)


def squared_loss(response: FloatArray, predicted: FloatArray) -> float:
    """Return MSE, the mean squared error; for predictions X w this is f_D(w) (dissertation, eq. 8.11)."""
    return float(np.mean((response - predicted) ** 2))


def explained_share(response: FloatArray, predicted: FloatArray) -> float:
    """Return R squared; for a constant response, 1 if the predictions are exact and 0 otherwise."""
    spread, error = float(np.var(response)), squared_loss(response, predicted)
    if spread == 0:
        return float(error == 0)
    return 1 - error / spread


def log_loss(codes: NDArray[np.intp], probabilities: FloatArray) -> float:
    """Return the mean negative log-probability of the true classes; ``codes`` are columns of ``probabilities``."""
    taken = probabilities[np.arange(len(codes)), codes]
    return float(-np.mean(np.log(np.maximum(taken, 1e-300))))


def coefficient_error(coefficients: FloatArray, truth: FloatArray) -> float:
    """Return err_w = |w - w*| / D (dissertation, section 8.4)."""
    return float(np.linalg.norm(coefficients - truth)) / len(truth)


def gain_index(unmixing: FloatArray, mixing: FloatArray) -> float:
    """Return the normalised gain index q_NGI of ``unmixing @ mixing``: 0 for a perfect unmixing, at most 1.

    This is the index of Amari, Cichocki and Yang (1996) divided by its maximum (Nordhausen, Ollila and Oja 2011). It
    ignores order, sign and scale of the sources. Used in the dissertation, section 6.5.
    """
    gains = np.abs(unmixing @ mixing)
    n = len(gains)
    by_row = (gains / gains.max(axis=1, keepdims=True)).sum() - n
    by_column = (gains / gains.max(axis=0, keepdims=True)).sum() - n
    return float((by_row + by_column) / (2 * n * (n - 1)))


def matched_correlations(estimated: FloatArray, true: FloatArray) -> FloatArray:
    """Return the absolute correlation of each true map (column) with its estimated map, matched one to one."""
    from scipy.optimize import linear_sum_assignment

    normed = []
    for maps in (true, estimated):
        moved = maps - maps.mean(axis=0)
        normed.append(moved / np.linalg.norm(moved, axis=0))
    correlations = np.abs(normed[0].T @ normed[1])
    rows, columns = linear_sum_assignment(-correlations)
    matched: FloatArray = correlations[rows, columns]
    return matched


def component_error(estimated: FloatArray, true: FloatArray) -> float:
    """Return q_comp, the mean distance of each estimated component (row) to the nearest true one (section 5.4)."""
    distances = _distances(estimated, true)
    return float(np.mean(distances.min(axis=1)))


def match_components(estimated: FloatArray, true: FloatArray) -> NDArray[np.intp]:
    """Return the index of the estimated component matched to each true one (row), with the least total distance.

    The matching is one to one; in q_comp two estimates may share a true component.
    """
    from scipy.optimize import linear_sum_assignment

    matched: NDArray[np.intp] = linear_sum_assignment(_distances(true, estimated))[1]
    return matched


def _distances(first: FloatArray, second: FloatArray) -> FloatArray:
    result: FloatArray = np.linalg.norm(first[:, None, :] - second[None, :, :], axis=2)
    return result
