"""DP-CCA (poster) and capeCCA as published, and the epsilon their noise really provides. For comparison only.

The noise and its accounting are those of second moments: `dpcape_papers.published.pca`. Three things differ: the
sensitivity, which is sqrt(2)/n in the poster (right) and 1/n in the capeCCA paper and in chapter 7 (wrong); how many
sites may collude; and that records were repeated.
"""

from __future__ import annotations

import math

import numpy as np

from dpcape.core.arrays import FloatArray

POSTER_SENSITIVITY = math.sqrt(2)
CAPECCA_SENSITIVITY = 1.0

# Smallest number of honest sites: "at least two" (capeCCA, section 3); ceil(S/3) - 1 colluding (theorem 7.1).
CAPECCA_HONEST = 2


def canonical_directions(moment: FloatArray, width: int, n_components: int) -> tuple[FloatArray, FloatArray]:
    """Return the directions of both views as columns, computed from a noisy moment as printed.

    U has the eigenvectors of Cxx^-1 Cxy Cyy^-1 Cyx and V those of Cyy^-1 Cyx Cxx^-1 Cxy, ordered by the magnitude of
    the eigenvalues. Noise can make the blocks indefinite and the eigenvalues complex; of a conjugate pair, the real and
    the imaginary part are used.
    """
    xx, xy, yy = moment[:width, :width], moment[:width, width:], moment[width:, width:]
    from_y, from_x = np.linalg.solve(xx, xy), np.linalg.solve(yy, xy.T)
    return _leading(from_y @ from_x, n_components), _leading(from_x @ from_y, n_components)


def _leading(product: FloatArray, n_components: int) -> FloatArray:
    values, vectors = np.linalg.eig(product)
    # LAPACK returns conjugates one after the other, and a stable sort keeps them together.
    order = np.argsort(-np.abs(values), kind="stable")[:n_components]
    chosen = np.where(values[order].imag < 0, vectors[:, order].imag, vectors[:, order].real)
    result: FloatArray = chosen / np.maximum(np.linalg.norm(chosen, axis=0), 1e-300)
    return result
