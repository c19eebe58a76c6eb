"""DP-CCA (poster) and capeCCA as published, and the epsilon their noise really has. For comparison only.

Noise and its accounting are those of second moments: `dpcape_papers.published.pca`. What differs is the
sensitivity, sqrt(2)/n in the poster (right) and 1/n in the paper on capeCCA and chapter 7 (wrong), which sites may
collude, and that records were repeated.
"""

from __future__ import annotations

import math

import numpy as np

from dpcape.arrays import FloatArray

POSTER_SENSITIVITY = math.sqrt(2)
CAPECCA_SENSITIVITY = 1.0

# Least numbers of honest sites: "at least two" (capeCCA, section 3); ceil(S/3) - 1 colluding (theorem 7.1).
CAPECCA_HONEST = 2


def canonical_directions(moment: FloatArray, width: int, n_components: int) -> tuple[FloatArray, FloatArray]:
    """Return directions of both views (columns) of a noisy moment, as printed: eigenvectors of products of inverses.

    U holds those of Cxx^-1 Cxy Cyy^-1 Cyx, V those of Cyy^-1 Cyx Cxx^-1 Cxy, by size of eigenvalue. Noise can make the
    blocks indefinite and eigenvalues complex; of a conjugate pair the real and the imaginary part are taken.
    """
    xx, xy, yy = moment[:width, :width], moment[:width, width:], moment[width:, width:]
    from_y, from_x = np.linalg.solve(xx, xy), np.linalg.solve(yy, xy.T)
    return _leading(from_y @ from_x, n_components), _leading(from_x @ from_y, n_components)


def _leading(product: FloatArray, n_components: int) -> FloatArray:
    values, vectors = np.linalg.eig(product)
    # Conjugates follow each other in LAPACK's order, and a stable sort keeps them together.
    order = np.argsort(-np.abs(values), kind="stable")[:n_components]
    chosen = np.where(values[order].imag < 0, vectors[:, order].imag, vectors[:, order].real)
    result: FloatArray = chosen / np.maximum(np.linalg.norm(chosen, axis=0), 1e-300)
    return result
