"""NIfTI in, maps out; skipped where the extra ``neuro`` is not installed."""

from __future__ import annotations

import numpy as np
import pytest

from dpcape import PCA, Atlas, Cosines, Exact, Federation, JointICA, in_process
from dpcape.core.errors import InvalidParameter, UtilityWarning
from dpcape.neuro import mask_labels, nifti_subjects, read_mask, write_maps

nibabel = pytest.importorskip("nibabel", reason="the extra 'neuro' is not installed")
pytest.importorskip("nilearn", reason="the extra 'neuro' is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")

SHAPE = (4, 3, 2)


@pytest.fixture
def folder(tmp_path):
    generator = np.random.default_rng(0)
    inside = np.ones(SHAPE, dtype=np.int8)
    inside[0, 0, 0] = 0
    nibabel.save(nibabel.Nifti1Image(inside, np.eye(4)), tmp_path / "mask.nii.gz")
    (tmp_path / "people").mkdir()
    mixing = generator.standard_normal((24, 2))
    for index in range(6):
        volume = (generator.laplace(size=(80, 2)) @ mixing.T).T.reshape(*SHAPE, 80)
        image = nibabel.Nifti1Image(volume.astype(np.float32), np.eye(4))
        nibabel.save(image, tmp_path / "people" / f"sub{index}.nii.gz")
    return tmp_path


def read(folder, unit="subject", **options):
    return nifti_subjects(
        folder / "people", mask=folder / "mask.nii.gz", bound=50.0, unit=unit, **{"rows_per_subject": 500, **options}
    )


def test_images_become_maps_and_images_again(folder):
    records = read(folder, standardize="zscore_sample")
    assert (records.n_records, records.n_features) == (6, 23)
    model = JointICA(2, epsilon=1.0, delta=1e-5, n_timepoints=80).fit(
        Federation(in_process({"lyon": records}), protocol=Exact())
    )
    write_maps(model.mixing_, folder / "maps.nii.gz", mask=folder / "mask.nii.gz")
    maps = np.asarray(nibabel.load(folder / "maps.nii.gz").dataobj)
    assert maps.shape == (*SHAPE, 2)
    inside = np.asarray(nibabel.load(folder / "mask.nii.gz").dataobj) != 0
    np.testing.assert_allclose(maps[inside], model.mixing_, rtol=1e-5, atol=1e-6)
    assert not maps[0, 0, 0].any()


def test_mixing_time_points_is_refused_at_the_record_unit(folder):
    assert read(folder, unit="record").n_records == 480
    assert read(folder, unit="record", smoothing_fwhm=2.0, detrend=False).n_records == 480
    refused = (
        {"standardize": "zscore_sample"},
        {"detrend": True},
        {"low_pass": 0.1},
        {"high_variance_confounds": True},
        {"clean_args": {"detrend": True}},
    )
    for options in refused:
        with pytest.raises(InvalidParameter, match=r"must not combine time points.*unit='subject'"):
            read(folder, unit="record", **options)


def test_sites_with_other_masks_are_refused(folder):
    other = np.ones(SHAPE, dtype=np.int8)
    other[3, 2, 1] = 0
    nibabel.save(nibabel.Nifti1Image(other, np.eye(4)), folder / "other.nii.gz")
    elsewhere = nifti_subjects(
        folder / "people", mask=folder / "other.nii.gz", bound=50.0, unit="subject", rows_per_subject=500
    )
    with pytest.raises(InvalidParameter, match="feature_names must be the same at all sites"):
        Federation(in_process({"lyon": read(folder), "oslo": elsewhere}), protocol=Exact())


def test_other_grids_and_empty_folders_are_refused(folder):
    nibabel.save(nibabel.Nifti1Image(np.ones((2, 2, 2, 5), dtype=np.float32), np.eye(4)), folder / "small.nii")
    moved = nibabel.Nifti1Image(np.ones((*SHAPE, 5), dtype=np.float32), np.diag([2.0, 2, 2, 1]))
    nibabel.save(moved, folder / "moved.nii")
    options = {"mask": folder / "mask.nii.gz", "bound": 1.0}
    for name, words in (("small.nii", "4D on the mask's grid"), ("moved.nii", "mask's affine")):
        with pytest.raises(InvalidParameter, match=words):
            nifti_subjects([folder / name], unit="record", **options)
        # One person's image must not make the site refuse.
        with pytest.warns(UtilityWarning, match="1 of 1 records cannot be read"):
            found = nifti_subjects([folder / name], unit="subject", rows_per_subject=500, **options)
        assert found.n_records == found.n_invalid == 1
    (folder / "empty").mkdir()
    with pytest.raises(InvalidParameter, match="at least one NIfTI file"):
        nifti_subjects(folder / "empty", mask=folder / "mask.nii.gz", bound=1.0, unit="subject", rows_per_subject=500)
    with pytest.raises(InvalidParameter, match="one row per voxel of the mask"):
        write_maps(np.ones((5, 2)), folder / "maps.nii.gz", mask=folder / "mask.nii.gz")


def test_masks_and_atlases_become_bases_of_wide_rows(folder):
    inside = read_mask(folder / "mask.nii.gz")
    parcels = np.arange(24).reshape(SHAPE) // 6
    nibabel.save(nibabel.Nifti1Image(parcels.astype(np.int16), np.eye(4)), folder / "parcels.nii.gz")
    labels = mask_labels(folder / "parcels.nii.gz", mask=folder / "mask.nii.gz")
    np.testing.assert_array_equal(labels, parcels[inside])
    federation = Federation(in_process({"lyon": read(folder, unit="record")}), protocol=Exact())
    for basis in (Cosines(inside, (2, 2, 2)), Atlas(labels)):
        model = PCA(2, epsilon=1.0, delta=1e-5, basis=basis, maps=True, center=False).fit(federation)
        write_maps(model.components_.T, folder / "maps.nii.gz", mask=folder / "mask.nii.gz")
        maps = np.asarray(nibabel.load(folder / "maps.nii.gz").dataobj)
        np.testing.assert_allclose(maps[inside], model.components_.T, rtol=1e-5, atol=1e-6)
    nibabel.save(nibabel.Nifti1Image(parcels[:2].astype(np.int16), np.eye(4)), folder / "few.nii.gz")
    with pytest.raises(InvalidParameter, match="on the grid of the mask"):
        mask_labels(folder / "few.nii.gz", mask=folder / "mask.nii.gz")
    with pytest.raises(InvalidParameter, match="3D image"):
        read_mask(folder / "maps.nii.gz")
