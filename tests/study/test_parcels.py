"""Images to columns and back; skipped where the extra ``neuro`` is not installed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dpcape.core.errors import InvalidParameter
from dpcape.neuro import parcel_columns, write_parcels

nibabel = pytest.importorskip("nibabel", reason="the extra 'neuro' is not installed")

SHAPE = (4, 3, 2)
LABELS = np.arange(24).reshape(SHAPE) // 8 * 5


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    nibabel.save(nibabel.Nifti1Image(LABELS.astype(np.int16), np.eye(4)), tmp_path / "parcels.nii.gz")
    (tmp_path / "people").mkdir()
    for index in range(3):
        volume = np.random.default_rng(index).normal(size=SHAPE)
        if index == 2:
            volume[LABELS == 10] = np.nan
        nibabel.save(nibabel.Nifti1Image(volume, np.eye(4)), tmp_path / "people" / f"sub{index}.nii.gz")
    return tmp_path


def test_means_over_parcels_are_columns(folder: Path) -> None:
    columns = parcel_columns(folder / "people", parcels=folder / "parcels.nii.gz")
    assert list(columns) == ["parcel 5", "parcel 10"]
    first = np.random.default_rng(0).normal(size=SHAPE)
    np.testing.assert_allclose(columns["parcel 5"][0], first[LABELS == 5].mean())
    assert np.isnan(columns["parcel 10"]).tolist() == [False, False, True]


def test_one_image_changes_one_row(folder: Path) -> None:
    before = parcel_columns(folder / "people", parcels=folder / "parcels.nii.gz")
    nibabel.save(nibabel.Nifti1Image(np.full(SHAPE, 7.0), np.eye(4)), folder / "people" / "sub1.nii.gz")
    after = parcel_columns(folder / "people", parcels=folder / "parcels.nii.gz")
    for name in before:
        np.testing.assert_array_equal(before[name][[0, 2]], after[name][[0, 2]])
        assert after[name][1] == 7.0


def test_numbers_are_painted_on_their_parcels(folder: Path) -> None:
    path = folder / "d.nii.gz"
    write_parcels(["parcel 10"], np.array([0.25]), path, parcels=folder / "parcels.nii.gz")
    painted = np.asarray(nibabel.load(path).dataobj)
    assert (painted[LABELS == 10] == 0.25).all()
    assert np.isnan(painted[LABELS == 5]).all()
    assert (painted[LABELS == 0] == 0).all()


def test_what_does_not_fit_is_refused(folder: Path) -> None:
    with pytest.raises(InvalidParameter, match="names must be 1 columns of parcels"):
        write_parcels(["parcel 6"], np.zeros(1), folder / "d.nii.gz", parcels=folder / "parcels.nii.gz")
    with pytest.raises(InvalidParameter, match="whole numbers"):
        parcel_columns(folder / "people", parcels=folder / "people" / "sub0.nii.gz")
    nibabel.save(nibabel.Nifti1Image(np.zeros((2, 2, 2)), np.eye(4)), folder / "people" / "sub3.nii.gz")
    with pytest.raises(InvalidParameter, match="on the grid of the parcels"):
        parcel_columns(folder / "people", parcels=folder / "parcels.nii.gz")
