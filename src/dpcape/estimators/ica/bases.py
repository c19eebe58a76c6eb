"""Public bases for maps, determined by the shape of the image."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpcape.core.arrays import BoolArray, FloatArray
from dpcape.core.errors import InvalidParameter


def cosine_basis(shape: Sequence[int], n_cosines: Sequence[int], mask: BoolArray | None = None) -> FloatArray:
    """Return a basis of low-frequency cosines on an image grid, as orthonormal columns (voxels, cosines).

    Smooth maps lie almost in its span. Because it is public, a private PCA can be restricted to that span, which
    reduces the error: it grows with the number of dimensions searched.

    Parameters
    ----------
    shape : sequence of int
        Side lengths of the image; voxels are in C order.
    n_cosines : sequence of int
        Number of cosines along each side.
    mask : array of bool or None
        Public mask of the voxels in use; columns are made orthonormal inside it.

    Examples
    --------
    >>> cosine_basis((30, 30), (12, 12)).shape
    (900, 144)
    """
    if len(shape) != len(n_cosines) or any(not 1 <= few <= side for side, few in zip(shape, n_cosines, strict=False)):
        raise InvalidParameter(
            "n_cosines", "be one number per side, from 1 to its length", f"{tuple(n_cosines)} for {tuple(shape)}"
        )
    full: FloatArray = np.ones((1, 1))
    for side, few in zip(shape, n_cosines, strict=True):
        full = np.asarray(np.kron(full, _cosines(side, few)), dtype=np.float64)
    if mask is None:
        return full
    if mask.shape != tuple(shape) or int(mask.sum()) < full.shape[1]:
        must = f"have the shape {tuple(shape)} and at least {full.shape[1]} voxels inside"
        got = f"shape {mask.shape} and {int(mask.sum())} voxels"
        raise InvalidParameter("mask", must, got, "Use fewer cosines or another mask.")
    return np.linalg.qr(full[mask.ravel()])[0]


def _cosines(side: int, few: int) -> FloatArray:
    """Return the low-frequency cosines of one side as orthonormal columns."""
    angles = np.pi * (np.arange(side) + 0.5) / side
    columns = np.cos(np.outer(angles, np.arange(few)))
    normed: FloatArray = columns / np.linalg.norm(columns, axis=0)
    return normed
