"""Public bases for maps: fixed by the shape of the image alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpcape.arrays import BoolArray, FloatArray
from dpcape.errors import InvalidParameter


def cosine_basis(shape: Sequence[int], n_cosines: Sequence[int], mask: BoolArray | None = None) -> FloatArray:
    """Return the lowest cosines of an image grid as orthonormal columns, (voxels, cosines).

    Smooth maps lie almost inside it, and it is public, so a private PCA needs to search only there: the error of a
    private subspace grows with the number of dimensions searched.

    Parameters
    ----------
    shape : sequence of int
        Side lengths of the image, voxels in C order.
    n_cosines : sequence of int
        Cosines kept along each side.
    mask : ndarray or None
        Public mask of the voxels in use; columns are made orthonormal again inside it.

    Examples
    --------
    >>> cosine_basis((30, 30), (12, 12)).shape
    (900, 144)
    """
    if len(shape) != len(n_cosines) or any(not 1 <= few <= side for side, few in zip(shape, n_cosines, strict=False)):
        raise InvalidParameter(
            f"n_cosines must be one number per side, at most its length; got {tuple(n_cosines)} for {tuple(shape)}."
        )
    full: FloatArray = np.ones((1, 1))
    for side, few in zip(shape, n_cosines, strict=True):
        full = np.asarray(np.kron(full, _cosines(side, few)), dtype=np.float64)
    if mask is None:
        return full
    if mask.shape != tuple(shape) or int(mask.sum()) < full.shape[1]:
        raise InvalidParameter(
            f"mask must have the image's shape {tuple(shape)} and at least {full.shape[1]} voxels; "
            f"got shape {mask.shape}. Keep fewer cosines."
        )
    orthonormal: FloatArray = np.linalg.qr(full[mask.ravel()])[0]
    return orthonormal


def _cosines(side: int, few: int) -> FloatArray:
    """Return the lowest cosines of one side, orthonormal."""
    places = np.pi * (np.arange(side) + 0.5) / side
    columns = np.cos(np.outer(places, np.arange(few)))
    normed: FloatArray = columns / np.linalg.norm(columns, axis=0)
    return normed
