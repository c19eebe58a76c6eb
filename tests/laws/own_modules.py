"""A network of somebody else, written in NumPy: tests of laws need no PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from dpcape.statistics.modules import _MODULES, NetworkModule, register_module

Vector = NDArray[np.float64]


class Bent(NetworkModule):
    """Softmax of W tanh(x), biases last; a record whose first column is above 0.99 has no gradient."""

    name = "test bent"

    def n_weights(self, n_features: int, n_classes: int) -> int:
        return n_classes * (n_features + 1)

    def start(self, n_features: int, n_classes: int, seed: int) -> Vector:
        return 0.1 * np.random.default_rng(seed).standard_normal(self.n_weights(n_features, n_classes))

    def outputs(self, weights: Vector, rows: Vector, n_classes: int) -> Vector:
        return self._entering(rows) @ weights.reshape(n_classes, -1).T

    def gradients(self, weights: Vector, rows: Vector, codes: Any, n_classes: int) -> Vector:
        errors = softmax(self.outputs(weights, rows, n_classes), axis=1) - np.eye(n_classes)[codes]
        found = (errors[:, :, None] * self._entering(rows)[:, None, :]).reshape(len(rows), -1)
        found[rows[:, 0] > 0.99] = np.inf
        return found

    def _entering(self, rows: Vector) -> Vector:
        return np.column_stack([np.tanh(rows), np.ones(len(rows))])


if Bent.name not in _MODULES:
    register_module(Bent())
