"""NIfTI volumes as time series of the voxels of a public mask (extra ``neuro``)."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np

from dpcape.arrays import AnyArray
from dpcape.errors import InvalidParameter


def masked_series(path: Path, mask: Path | None) -> AnyArray:
    """Return (time points, voxels of the mask) of one volume; the mask's grid must be the volume's."""
    if mask is None:
        raise InvalidParameter(
            'NIfTI files cannot be read because mask is missing in [data]. Write mask = "mask.nii.gz".'
        )
    nibabel = _nibabel()
    volume, chosen = nibabel.load(path), nibabel.load(mask)
    inside = np.asarray(chosen.dataobj) != 0
    if volume.shape[:3] != inside.shape or not np.allclose(volume.affine, chosen.affine, atol=1e-4):
        raise InvalidParameter(
            "A volume must be on the grid of the mask; got a different shape or affine. Resample it to the mask first."
        )
    values = np.asarray(volume.dataobj, dtype=np.float32)
    series: AnyArray = values[inside].T if values.ndim == 4 else values[inside][None, :]
    return series


def whole_series(path: Path) -> AnyArray:
    """Return (time points, voxels) of one volume, all voxels of its grid."""
    values = np.asarray(_nibabel().load(path).dataobj, dtype=np.float32)
    series: AnyArray = values.reshape(-1, values.shape[-1]).T if values.ndim == 4 else values.reshape(1, -1)
    return series


def _nibabel() -> ModuleType:
    try:
        import nibabel
    except ImportError as error:
        raise InvalidParameter(
            "The package nibabel for brain images is not installed. Run: pip install 'dpcape[neuro]'."
        ) from error
    return nibabel
