"""NIfTI volumes as time series of the voxels of a public mask (extra ``neuro``)."""

from __future__ import annotations

import hashlib
import zlib
from pathlib import Path
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from dpcape.core.arrays import AnyArray, FloatArray
from dpcape.core.errors import DamagedFile, InvalidParameter
from dpcape.core.lazy import extra_module


def masked_series(path: Path, mask: Path | None) -> AnyArray:
    """Return (time points, voxels of the mask) of one volume; the mask's grid must be the volume's."""
    if mask is None:
        raise InvalidParameter("mask", "be given in [data] for NIfTI files", "none", 'Write mask = "mask.nii.gz".')
    nibabel, (inside, affine) = _nibabel(), _inside(mask)
    try:
        volume = nibabel.load(path)
        is_same = volume.shape[:3] == inside.shape and np.allclose(volume.affine, affine, atol=1e-4)
        values = np.asarray(volume.dataobj, dtype=np.float32)
    except (OSError, EOFError, ValueError, zlib.error, nibabel.filebasedimages.ImageFileError) as error:
        raise DamagedFile(f"The image {path.name} could not be read", remedy="Check the image.") from error
    if not is_same:
        remedy = "Resample it to the mask first."
        raise InvalidParameter("A volume", "be on the grid of the mask", "a different shape or affine", remedy)
    series: AnyArray = values[inside].T if values.ndim == 4 else values[inside][None, :]
    return series


def n_voxels(mask: Path) -> int:
    """Return the number of voxels of a mask."""
    count = int(np.count_nonzero(_inside(mask)[0]))
    if not count:
        raise DamagedFile(f"The mask {mask.name} is empty: every voxel is 0", remedy="Check the image.")
    return count


def voxel_names(mask: Path) -> list[str]:
    """Return voxel names that depend on the mask, so that sites with different masks are refused."""
    inside, affine = _inside(mask)
    shape = np.asarray(inside.shape, dtype="<i8").tobytes()
    grid = shape + np.packbits(inside).tobytes() + np.round(affine, 4).tobytes()
    digest = hashlib.sha256(grid).hexdigest()[:12]
    return [f"mask {digest} voxel {index}" for index in range(int(inside.sum()))]


def _inside(mask: Path) -> tuple[NDArray[np.bool_], FloatArray]:
    """Return which voxels are in a mask, and its affine."""
    nibabel = _nibabel()
    try:
        image = nibabel.load(mask)
        return np.asarray(image.dataobj) != 0, np.asarray(image.affine, dtype=np.float64)
    except (OSError, nibabel.filebasedimages.ImageFileError) as error:
        remedy = "Correct the path."
        raise DamagedFile(f"The mask {mask.name} could not be read", "it is not a NIfTI image", remedy) from error


def whole_series(path: Path) -> AnyArray:
    """Return (time points, voxels) of one volume, all voxels of its grid."""
    values = np.asarray(_nibabel().load(path).dataobj, dtype=np.float32)
    series: AnyArray = values.reshape(-1, values.shape[-1]).T if values.ndim == 4 else values.reshape(1, -1)
    return series


def _nibabel() -> ModuleType:
    return extra_module("nibabel", "The package nibabel for brain images", "neuro")
