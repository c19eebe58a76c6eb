"""Attacks on a factor release by someone who knows the full features of m released subjects.

The attacker sees every released factor row, has m records linked to their rows, and learns the map from
factors to features from them by ridge regression. Regression does not care about the unknown rotation of
the factors, and neither loadings nor the model need be known. All features are in standard units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcape.core.arrays import FloatArray

Rows = NDArray[np.intp]

_PENALTIES = np.logspace(-4, 3, 22)


@dataclass(frozen=True)
class LearntMap:
    """Factors to features, learnt from leaked records."""

    factor_centre: FloatArray
    feature_centre: FloatArray
    slopes: FloatArray  # K x p

    def rebuild(self, factors: FloatArray) -> FloatArray:
        """Return the attacker's guess of the features behind factor rows."""
        return np.asarray(self.feature_centre + (factors - self.factor_centre) @ self.slopes)


def learn_map(factors: FloatArray, features: FloatArray) -> LearntMap:
    """Fit ridge with an intercept, one penalty for all features, chosen by exact leave-one-out."""
    Y = features - features.mean(axis=0)
    return _map(factors, features, _penalty(factors, Y @ Y.T)[0])


def learn_best_map(candidates: Sequence[FloatArray], features: FloatArray, known: Rows) -> tuple[LearntMap, int]:
    """Learn a map from each candidate table of predictors and return the best with its position.

    Parameters
    ----------
    candidates : sequence of ndarray
        Tables with one row per released person.
    features : ndarray
        Features of the same people; only the rows ``known`` are used.
    known : ndarray of int
        People whose records the adversary has. Their leave-one-out error decides between the candidates.
    """
    Y = features[known] - features[known].mean(axis=0)
    gram = Y @ Y.T
    choices = [_penalty(table[known], gram) for table in candidates]
    best = min(range(len(choices)), key=lambda i: choices[i][1])
    return _map(candidates[best][known], features[known], choices[best][0]), best


def _penalty(factors: FloatArray, gram: FloatArray) -> tuple[float, float]:
    """Return the penalty with the smallest leave-one-out error, and that error."""
    U, values, _ = np.linalg.svd(factors - factors.mean(axis=0), full_matrices=False)
    penalties = _PENALTIES * max(float(np.mean(values**2)), 1e-300)
    errors = [_loo(U, values, gram, float(penalty)) for penalty in penalties]
    best = int(np.argmin(errors))
    return float(penalties[best]), errors[best]


def _map(factors: FloatArray, features: FloatArray, penalty: float) -> LearntMap:
    factor_centre, feature_centre = factors.mean(axis=0), features.mean(axis=0)
    U, values, Vt = np.linalg.svd(factors - factor_centre, full_matrices=False)
    shrink = values / (values**2 + penalty)
    slopes = Vt.T @ (shrink[:, None] * (U.T @ (features - feature_centre)))
    return LearntMap(factor_centre, feature_centre, slopes)


def _loo(U: FloatArray, values: FloatArray, gram: FloatArray, penalty: float) -> float:
    """Leave-one-out error summed over features; (I - H) Y enters through Y Y' only."""
    m = len(U)
    keep = np.eye(m) - np.full((m, m), 1.0 / m) - (U * (values**2 / (values**2 + penalty))) @ U.T
    squares = np.sum((keep @ gram) * keep, axis=1)
    return float(np.sum(squares / np.maximum(np.diag(keep), 1e-9) ** 2))


def reconstruction_r2(rebuilt: FloatArray, features: FloatArray) -> float:
    """Return 1 - error / spread, pooled over features; zero is what the subjects' own mean would reach."""
    spread = float(np.sum((features - features.mean(axis=0)) ** 2))
    return 1.0 - float(np.sum((features - rebuilt) ** 2)) / spread


def reconstruction_ceiling(factors: FloatArray, features: FloatArray) -> float:
    """Return the R^2 of the best linear map, the limit as all records leak."""
    F = np.column_stack([np.ones(len(factors)), factors])
    slopes = np.linalg.lstsq(F, features, rcond=None)[0]
    return reconstruction_r2(F @ slopes, features)


def distances(known: FloatArray, rebuilt: FloatArray) -> FloatArray:
    """Return squared distances, targets x candidates, over the columns the attacker knows of the targets."""
    cross = known @ rebuilt.T
    return np.asarray(np.sum(known**2, axis=1)[:, None] - 2.0 * cross + np.sum(rebuilt**2, axis=1)[None, :])


def top_one_rate(known: FloatArray, rebuilt: FloatArray) -> float:
    """Return how often the nearest candidate is the target itself (row i of both is the same subject)."""
    nearest = np.argmin(distances(known, rebuilt), axis=1)
    return float(np.mean(nearest == np.arange(len(known))))


def membership_scores(known: FloatArray, rebuilt: FloatArray) -> FloatArray:
    """Score targets by how near the nearest released row is, compared with the released rows in general."""
    squared = distances(known, rebuilt)
    return np.asarray(np.log(squared.mean(axis=1)) - np.log(np.maximum(squared.min(axis=1), 1e-300)))


def area_under_curve(inside: FloatArray, outside: FloatArray) -> float:
    """Return P(score inside > score outside), ties half: 0.5 is chance."""
    difference = inside[:, None] - outside[None, :]
    return float(np.mean((difference > 0) + 0.5 * (difference == 0)))
