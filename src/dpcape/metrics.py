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
