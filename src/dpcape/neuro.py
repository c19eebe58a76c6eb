"""Brain images in and out: NIfTI files through a public mask (needs the extra ``neuro``: nibabel and nilearn)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcape.arrays import FloatArray
from dpcape.errors import InvalidParameter
from dpcape.records import Subjects, subjects

# Options under which a time point's row depends on that time point alone. A list of what is allowed: what nilearn may
# add tomorrow (it has regressed out confounds found in the series itself) must not pass unnoticed.
_WITHIN_TIME_POINTS = frozenset(
    {
        "cmap",
        "dtype",
        "memory",
        "memory_level",
        "reports",
        "smoothing_fwhm",
        "t_r",
        "target_affine",
        "target_shape",
        "verbose",
    }
)


def nifti_subjects(
    images: Sequence[str | Path] | str | Path,
    *,
    mask: str | Path,
    bound: float,
    unit: str,
    rows_per_subject: int | None = None,
    **masker_options: Any,
) -> Subjects:
    """Return 4D images, one per person, as records: time points by the voxels of a public mask.

    Parameters
    ----------
    images : Sequence[str or Path] or str or Path
        Paths of 4D NIfTI files, or a folder whose ``*.nii`` and ``*.nii.gz`` files are taken in order of name.
    mask : str or Path
        Path of a public mask, the same at all sites: sites whose mask or affine differ are refused when the federation
        is formed.
    bound, unit, rows_per_subject
        See :func:`dpcape.subjects`.
    masker_options
        Handed to nilearn's ``NiftiMasker``, e.g. ``smoothing_fwhm=6`` or ``standardize="zscore_sample"``.

    Privacy
    -------
    Standardising, detrending, filtering or removing confounds over time makes every row depend on all others, so that
    replacing one recorded time point moves them all: free for unit "subject"; for unit "record" only options that are
    known to leave time points apart are taken.
    """
    mixing = sorted(
        name
        for name, value in masker_options.items()
        if name not in _WITHIN_TIME_POINTS and not (value is None or value is False)
    )
    if unit == "record" and mixing:
        raise InvalidParameter(
            f"time points must be left apart when unit is 'record'; got {', '.join(mixing)}. "
            "Use unit='subject', under which whatever happens inside a person is free."
        )
    paths = _paths(images)
    mask_image = _nibabel().load(str(mask))
    options = {"standardize": None, **masker_options} if _takes_none() else {"standardize": False, **masker_options}
    masker = _maskers().NiftiMasker(mask_img=mask_image, **options).fit()
    arrays = [_series(masker, path, mask_image) for path in paths]
    names = _voxel_names(mask_image)
    return subjects(arrays, bound=bound, unit=unit, rows_per_subject=rows_per_subject, feature_names=names)


def write_maps(mixing: FloatArray, path: str | Path, *, mask: str | Path) -> None:
    """Write maps, (voxels, components), as one 4D NIfTI image inside the mask they were fitted in."""
    nibabel = _nibabel()
    mask_image = nibabel.load(str(mask))
    inside = np.asarray(mask_image.dataobj) != 0
    if mixing.ndim != 2 or mixing.shape[0] != int(inside.sum()):
        raise InvalidParameter(
            f"maps must have one row per voxel of the mask ({int(inside.sum())}); got shape {mixing.shape}."
        )
    volume = np.zeros((*inside.shape, mixing.shape[1]), dtype=np.float32)
    volume[inside] = mixing
    nibabel.save(nibabel.Nifti1Image(volume, mask_image.affine), str(path))


def _series(masker: Any, path: Path, mask_image: Any) -> NDArray[np.float32]:
    """Return one person's series; an image on another grid is refused rather than resampled silently."""
    image = _nibabel().load(str(path))
    if len(image.shape) != 4 or image.shape[:3] != mask_image.shape[:3]:
        raise InvalidParameter(
            f"an image must be 4D on the mask's grid {mask_image.shape[:3]}; got shape {image.shape} in {path.name}. "
            "Resample it to the common space first."
        )
    if not np.allclose(image.affine, mask_image.affine, atol=1e-4):
        raise InvalidParameter(
            f"an image must have the mask's affine; {path.name} has another. Resample it to the common space first."
        )
    return np.asarray(masker.transform(image), dtype=np.float32)


def _paths(images: Sequence[str | Path] | str | Path) -> list[Path]:
    if isinstance(images, str | Path):
        folder = Path(images)
        found = sorted(path for path in folder.glob("*.nii*") if path.name.endswith((".nii", ".nii.gz")))
    else:
        found = [Path(path) for path in images]
    if not found:
        raise InvalidParameter("images must name at least one NIfTI file; got none. Check the folder.")
    return found


def _voxel_names(mask_image: Any) -> list[str]:
    """Return names that differ between masks, so that sites with other masks are told apart."""
    inside = np.asarray(mask_image.dataobj) != 0
    shape = np.asarray(inside.shape, dtype="<i8").tobytes()
    grid = shape + np.packbits(inside).tobytes() + np.round(mask_image.affine, 4).tobytes()
    digest = hashlib.sha256(grid).hexdigest()[:12]
    return [f"mask {digest} voxel {index}" for index in range(int(inside.sum()))]


def _takes_none() -> bool:
    """Tell whether nilearn wants None rather than False for no standardising (since 0.13)."""
    version = tuple(int(part) for part in import_module("nilearn").__version__.split(".")[:2])
    return version >= (0, 13)


def _nibabel() -> Any:
    return _extra("nibabel")


def _maskers() -> Any:
    return _extra("nilearn.maskers")


def _extra(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise InvalidParameter(
            f"the package {name.partition('.')[0]!r} must be installed for brain images; got none. "
            "Install it with: pip install 'dpcape[neuro]'."
        ) from error
