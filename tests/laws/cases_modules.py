"""Cases of gradients of registered networks."""

from __future__ import annotations

from typing import Any

import numpy as np

from .cases_regression import _with_classes
from .own_modules import Bent
from .statistic_case import Case


def _bent(n_features: int, n_classes: int, clip: float, factor: float = 1.0) -> dict[str, Any]:
    weights = factor * np.random.default_rng(3).standard_normal(n_classes * (n_features + 1))
    return {"module": Bent.name, "weights": weights, "clip": clip}


CASES = [
    Case("module_gradient", "two-classes", 5, _with_classes(2), _bent(3, 2, 0.05)),
    Case("module_gradient", "three-classes", 6, _with_classes(3), _bent(3, 3, 0.05), reaches=0.8),
    Case("module_gradient", "large-weights", 5, _with_classes(2), _bent(3, 2, 0.05, 1e5), reaches=0.0),
]
