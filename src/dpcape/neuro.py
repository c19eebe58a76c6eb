"""Reading and writing of brain images (NIfTI) with a public mask; needs the extra ``neuro`` (nibabel and nilearn)."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpcape.core.arrays import BoolArray, FloatArray, IntArray
from dpcape.core.errors import InvalidParameter
from dpcape.core.lazy import extra_module
from dpcape.records.kinds import Subjects
from dpcape.records.readers.nifti import voxel_names
from dpcape.records.words_and_series import subjects

Untyped: TypeAlias = Any
"""Object of nibabel or nilearn, which have no types."""

# Options under which a time point's row depends on that time point only. This is a list of allowed options, because
# future options of nilearn may combine time points, as removing confounds estimated from the series does.
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
    **masker_options: object,
) -> Subjects:
    """Return subjects from 4D images, one per person: rows are time points, columns the voxels of a public mask.

    Parameters
    ----------
    images : str or Path or sequence of str or Path
        Paths of 4D NIfTI files, or a folder whose ``*.nii`` and ``*.nii.gz`` files are read in order of name.
    mask : str or Path
        Path of a public mask, the same at all sites; sites with a different mask or affine are refused when the
        federation is formed.
    bound : float
        Public maximum norm of a time point, as in :func:`dpcape.subjects`.
    unit : str
        Unit of protection, "record" (one time point) or "subject".
    rows_per_subject : int or None
        As in :func:`dpcape.subjects`.
    **masker_options
        Options of nilearn's ``NiftiMasker``, for example ``smoothing_fwhm=6`` or ``standardize="zscore_sample"``.

    Privacy
    -------
    Standardising, detrending, filtering or removing confounds over time makes every row depend on all others, so
    replacing one recorded time point changes them all. That is allowed for unit "subject". For unit "record", only
    options that are known not to combine time points are accepted.
    """
    mixing = sorted(
        name
        for name, value in masker_options.items()
        if name not in _WITHIN_TIME_POINTS and not (value is None or value is False)
    )
    if unit == "record" and mixing:
        remedy = "Use unit='subject'."
        raise InvalidParameter("Options for unit='record'", "not combine time points", ", ".join(mixing), remedy)
    paths = _paths(images)
    mask_image = _nibabel().load(str(mask))
    # Since version 0.13 nilearn expects None instead of False for no standardising.
    version = tuple(int(number) for number in import_module("nilearn").__version__.split(".")[:2])
    options = {"standardize": None if version >= (0, 13) else False, **masker_options}
    masker = _extra("nilearn.maskers").NiftiMasker(mask_img=mask_image, **options).fit()
    arrays = [_series(masker, path, mask_image, unit) for path in paths]
    names = voxel_names(Path(mask))
    return subjects(arrays, bound=bound, unit=unit, rows_per_subject=rows_per_subject, feature_names=names)


def read_mask(mask: str | Path) -> BoolArray:
    """Return a public mask as an array of Booleans, for :class:`dpcape.Cosines`.

    Parameters
    ----------
    mask : str or Path
        Path of the mask, a 3D NIfTI image.
    """
    image = np.asarray(_nibabel().load(str(mask)).dataobj)
    if image.ndim != 3:
        raise InvalidParameter("mask", "be a 3D image", f"shape {image.shape}", "Use one volume.")
    inside: BoolArray = image != 0
    return inside


def mask_labels(parcels: str | Path, *, mask: str | Path) -> IntArray:
    """Return the number of the parcel of each voxel of a mask, for :class:`dpcape.Atlas`.

    Parameters
    ----------
    parcels : str or Path
        Path of a public image of whole numbers on the grid of the mask, 0 outside.
    mask : str or Path
        Path of the mask.
    """
    atlas, inside = _nibabel().load(str(parcels)), read_mask(mask)
    _parcel_numbers(atlas)
    if atlas.shape != inside.shape:
        remedy = "Resample them first."
        raise InvalidParameter("parcels", f"be on the grid of the mask, {inside.shape}", atlas.shape, remedy)
    return np.asarray(atlas.dataobj)[inside].astype(np.int64)


def write_maps(mixing: FloatArray, path: str | Path, *, mask: str | Path) -> None:
    """Write maps as one 4D NIfTI image.

    Parameters
    ----------
    mixing : array of shape (voxels, components)
        Maps, such as ``JointICA.mixing_`` or ``PCA.components_.T``.
    path : str or Path
        File to write.
    mask : str or Path
        Mask with which the maps were fitted.
    """
    nibabel = _nibabel()
    mask_image = nibabel.load(str(mask))
    inside = np.asarray(mask_image.dataobj) != 0
    if mixing.ndim != 2 or mixing.shape[0] != int(inside.sum()):
        must = f"have one row per voxel of the mask ({int(inside.sum())})"
        raise InvalidParameter("mixing", must, f"shape {mixing.shape}", "Use the mask of the fit.")
    volume = np.zeros((*inside.shape, mixing.shape[1]), dtype=np.float32)
    volume[inside] = mixing
    nibabel.save(nibabel.Nifti1Image(volume, mask_image.affine), str(path))


def parcel_columns(images: Sequence[str | Path] | str | Path, *, parcels: str | Path) -> dict[str, FloatArray]:
    """Return the mean of every person's image over public parcels: columns of a table, one row per image.

    Each row depends on one image alone. Put the columns into a table with the covariates, with public ranges.

    Parameters
    ----------
    images : str or Path or sequence of str or Path
        Paths of 3D NIfTI files, one per person, or a folder whose ``*.nii`` and ``*.nii.gz`` files are read in order
        of name.
    parcels : str or Path
        Path of a public image of whole numbers, the same at all sites: 0 outside, the number of its parcel elsewhere.

    Returns
    -------
    dict
        ``"parcel 1"`` and so on, to the means; NaN where an image has no finite value in a parcel.
    """
    atlas = _nibabel().load(str(parcels))
    numbers = _parcel_numbers(atlas)
    labels = np.asarray(atlas.dataobj).astype(np.int64).ravel()
    inside = labels > 0
    codes = np.searchsorted(numbers, labels[inside])
    rows = [_parcel_means(path, atlas, inside, codes, len(numbers)) for path in _paths(images)]
    return {f"parcel {number}": column for number, column in zip(numbers, np.array(rows).T, strict=True)}


def write_parcels(names: Sequence[str], values: FloatArray, path: str | Path, *, parcels: str | Path) -> None:
    """Paint one number per parcel, such as ``MassUnivariate.d_``, and write it as a NIfTI image.

    Parameters
    ----------
    names : sequence of str
        Names of columns as :func:`parcel_columns` returns them, such as ``MassUnivariate.outcomes_``.
    values : array of shape (V,)
        One number per column; parcels without a column are NaN.
    path : str or Path
        File to write.
    parcels : str or Path
        The image of the parcels.
    """
    nibabel = _nibabel()
    atlas = nibabel.load(str(parcels))
    numbers, labels = _parcel_numbers(atlas), np.asarray(atlas.dataobj).astype(np.int64)
    known = {f"parcel {number}": number for number in numbers}
    foreign = [str(name) for name in names if str(name) not in known]
    if foreign or len(names) != len(values):
        must = f"be {len(values)} columns of parcels of this image"
        raise InvalidParameter("names", must, f"{len(names)}, with {foreign[:3]}", "Use the parcels of the fit.")
    volume = np.zeros(labels.shape, dtype=np.float32)
    volume[labels > 0] = np.nan
    for name, value in zip(names, values, strict=True):
        volume[labels == known[str(name)]] = value
    nibabel.save(nibabel.Nifti1Image(volume, atlas.affine), str(path))


def _parcel_numbers(atlas: Untyped) -> NDArray[np.int64]:
    """Return the numbers of the parcels in order; refuse an image that has none."""
    values = np.unique(np.asarray(atlas.dataobj))
    if not np.isfinite(values).all() or not (values == np.round(values)).all() or values.min() < 0 or values.max() < 1:
        remedy = "Use a label image."
        raise InvalidParameter("parcels", "be an image of whole numbers, 0 outside", "fractions or negatives", remedy)
    return values[values > 0].astype(np.int64)


def _parcel_means(
    path: Path, atlas: Untyped, inside: NDArray[np.bool_], codes: NDArray[np.int64], n_parcels: int
) -> FloatArray:
    """Return the means of one image over the parcels; refuse an image on a different grid."""
    image = _nibabel().load(str(path))
    if image.shape != atlas.shape or not np.allclose(image.affine, atlas.affine, atol=1e-4):
        must, remedy = f"be on the grid of the parcels, {atlas.shape}", "Resample it to the parcels' space first."
        raise InvalidParameter("Images", must, f"shape {image.shape} in {path.name}, or another affine", remedy)
    values = np.asarray(image.dataobj, dtype=np.float64).ravel()[inside]
    is_finite = np.isfinite(values)
    sums = np.bincount(codes[is_finite], weights=values[is_finite], minlength=n_parcels)
    counts = np.bincount(codes[is_finite], minlength=n_parcels)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def _series(masker: Untyped, path: Path, mask_image: Untyped, unit: str) -> NDArray[np.float32] | None:
    """Return one person's series; an image on a different grid is not resampled.

    Where whole people are protected, such a person is invalid: a refusal would tell others of this person.
    """
    image = _nibabel().load(str(path))
    must, got = "", ""
    if len(image.shape) != 4 or image.shape[:3] != mask_image.shape[:3]:
        must, got = f"be 4D on the mask's grid {mask_image.shape[:3]}", f"shape {image.shape} in {path.name}"
    elif not np.allclose(image.affine, mask_image.affine, atol=1e-4):
        must, got = "have the mask's affine", f"a different one in {path.name}"
    if must and unit == "subject":
        return None
    if must:
        raise InvalidParameter("Images", must, got, "Resample it to the mask's space first.")
    return np.asarray(masker.transform(image), dtype=np.float32)


def _paths(images: Sequence[str | Path] | str | Path) -> list[Path]:
    if isinstance(images, str | Path):
        folder = Path(images)
        paths = sorted(path for path in folder.glob("*.nii*") if path.name.endswith((".nii", ".nii.gz")))
    else:
        paths = [Path(path) for path in images]
    if not paths:
        raise InvalidParameter("images", "contain at least one NIfTI file", "0 files", "Check the folder.")
    return paths


def _nibabel() -> ModuleType:
    return _extra("nibabel")


def _extra(name: str) -> ModuleType:
    return extra_module(name, f"The package {name.partition('.')[0]!r} for brain images", "neuro")
