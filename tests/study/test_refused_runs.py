"""A refused run leaves no folder; images are drawn as images; one range serves all columns."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

from dpcape import PCA, Exact, Federation, Replay, Schema, in_process, rows, views
from dpcape.core.errors import DpcapeError, DpcapeWarning, InvalidParameter, ProtocolError
from dpcape.runs.folder import RunFolder
from dpcape.runs.in_process import run_in_process
from dpcape.study.study import Study

TEXT = """\
[study]
name = "first"
analysis = "pca"
n_components = 3
epsilon = 2.0
delta = 1e-5
[protocol]
kind = "cape"
n_colluding = 1
[sites.lima]
data = "lima.npz"
[sites.lyon]
data = "lyon.npz"
[sites.oslo]
data = "{last}.npz"
[data]
kind = "rows"
features = 12
ranges = [0, 255]
{more}
"""

VIEWS = """\
[study]
name = "pairs"
analysis = "cca"
n_components = 1
basis = [{basis}, []]
maps = true
epsilon = 5.0
delta = 1e-5
[protocol]
kind = "cape"
n_colluding = 1
[sites.lima]
data = "lima.npz"
[sites.lyon]
data = "lyon.npz"
[sites.oslo]
data = "oslo.npz"
[data]
kind = "views"
{data}
"""


def study_in(folder: Path, *, last: str = "oslo", more: str = "") -> Study:
    source = np.random.default_rng(0)
    for name in ("lima", "lyon", "oslo"):
        np.savez(folder / f"{name}.npz", X=source.uniform(0, 255, (60, 12)))
    np.savez(folder / "wrong.npz", X=source.uniform(0, 255, (60, 5)))
    (folder / "study.toml").write_text(TEXT.format(last=last, more=more), encoding="utf-8")
    return Study.load(folder / "study.toml")


def ran(study: Study, out: Path) -> RunFolder:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DpcapeWarning)
        return run_in_process(study, out, noise=Replay(1))


def test_a_refused_run_leaves_no_folder(tmp_path: Path) -> None:
    for last in ("absent", "wrong"):
        with pytest.raises(DpcapeError):
            ran(study_in(tmp_path, last=last), tmp_path / "runs" / "first")
        assert not (tmp_path / "runs").exists()
    assert ran(study_in(tmp_path), tmp_path / "runs" / "first").is_finished


def test_the_folder_of_a_run_that_another_process_has_is_left_alone(tmp_path: Path) -> None:
    study = study_in(tmp_path)
    run = RunFolder.begin(tmp_path / "run", study)
    with run.locked(), pytest.raises(ProtocolError, match="another process"):
        ran(study, tmp_path / "run")
    assert (tmp_path / "run" / "study.toml").exists()


def test_the_folder_of_a_charged_run_stays(tmp_path: Path) -> None:
    run = RunFolder.begin(tmp_path / "run", study_in(tmp_path))
    run.log("charging", site="lima")
    run.discard_if_refused()
    assert (tmp_path / "run" / "log.jsonl").exists()


def test_columns_with_a_shape_are_drawn_as_images(tmp_path: Path) -> None:
    run = ran(study_in(tmp_path, more="shape = [3, 4]"), tmp_path / "run")
    page = (run.path / "report.html").read_text(encoding="utf-8")
    assert "Images of 3 components of 3." in page
    assert "Heat map: weights" not in page
    assert len(run.model().plot_components((3, 4)).images) == 1
    with pytest.raises(InvalidParameter, match="one pixel per column"):
        run.model().plot_components((2, 4))


@pytest.mark.parametrize("shape", ["[3, 5]", "[12]", "[-3, -4]", '"3x4"', "[3.0, 4.0]"])
def test_a_shape_that_does_not_fit_is_refused(shape: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="shape"):
        study_in(tmp_path, more=f"shape = {shape}")


def test_one_range_serves_all_columns() -> None:
    data = np.random.default_rng(0).uniform(0, 255, (50, 7))
    one, many = rows(data, ranges=(0, 255)), rows(data, ranges=[(0, 255)] * 7)
    assert one.facts() == many.facts()
    two = views(data, data[:, :2], ranges=((0, 255), (0, 300)))
    assert two.facts().schemas == (one.facts().schemas[0], rows(data[:, :2], ranges=[(0, 300)] * 2).facts().schemas[0])
    with pytest.raises(InvalidParameter, match="one range"):
        Schema.of((0, 255))


def test_rows_without_a_bound_explain_how_to_choose_one() -> None:
    with pytest.raises(InvalidParameter, match=r"ranges=\(0, 255\).*typical row.*square root"):
        rows(np.zeros((5, 3)))


def test_maps_of_voxels_are_written_as_images(tmp_path: Path) -> None:
    nibabel = pytest.importorskip("nibabel")
    inside = np.zeros((3, 4, 2), dtype=np.uint8)
    inside.ravel()[::2] = 1
    nibabel.save(nibabel.Nifti1Image(inside, np.eye(4)), tmp_path / "mask.nii.gz")
    source = np.random.default_rng(0)
    for name in ("lima", "lyon", "oslo"):
        np.savez(tmp_path / f"{name}.npz", X=source.laplace(size=(2, 200, 12)) * 0.2)
    text = TEXT.format(last="oslo", more='unit = "record"\nbound = 1.0\nmask = "mask.nii.gz"')
    text = text.replace('kind = "rows"', 'kind = "subjects"').replace("ranges = [0, 255]\n", "")
    (tmp_path / "study.toml").write_text(text, encoding="utf-8")
    run = ran(Study.load(tmp_path / "study.toml"), tmp_path / "run")
    maps = nibabel.load(run.path / "maps.nii.gz")
    assert maps.shape == (3, 4, 2, 3)
    written = np.asarray(maps.dataobj)
    assert np.allclose(written[inside != 0], run.model().components_.T, atol=1e-6)
    assert not written[inside == 0].any()
    drawn = "Slices of the mask with the maps of 3 components, on an image of 3 x 4 x 2 voxels."
    assert drawn in (run.path / "report.html").read_text(encoding="utf-8")


def test_loadings_of_a_view_of_voxels_are_written_as_images(tmp_path: Path) -> None:
    nibabel = pytest.importorskip("nibabel")
    inside = np.ones((3, 4, 2), dtype=np.uint8)
    inside[0, 0, 0] = 0
    affine = np.diag([2.0, 2.0, 3.0, 1.0])
    nibabel.save(nibabel.Nifti1Image(inside, affine), tmp_path / "mask.nii.gz")
    source = np.random.default_rng(0)
    for name in ("lima", "lyon", "oslo"):
        shared = source.normal(size=(400, 1))
        image = 0.1 * source.normal(size=(400, 23)) + 0.1 * shared
        np.savez(tmp_path / f"{name}.npz", x=image, y=0.3 * shared + 0.1 * source.normal(size=(400, 2)))
    basis = '["cosines", [3, 4, 2], [2, 2, 1], [1, 23]]'
    more = 'bounds = [1.0, 1.0]\n[data.x]\narray = "x"\nmask = "mask.nii.gz"\n[data.y]\narray = "y"\nfeatures = 2'
    text = VIEWS.format(basis=basis, data=more)
    (tmp_path / "study.toml").write_text(text, encoding="utf-8")
    run = ran(Study.load(tmp_path / "study.toml"), tmp_path / "run")
    maps = nibabel.load(run.path / "x_maps.nii.gz")
    assert maps.shape == (3, 4, 2, 1)
    assert np.allclose(maps.affine, affine)
    loadings = run.model().x_loadings_
    assert np.allclose(np.asarray(maps.dataobj)[inside != 0], loadings, atol=1e-6)
    assert not (run.path / "y_maps.nii.gz").exists()
    page = (run.path / "report.html").read_text(encoding="utf-8")
    assert "maps of 1 pairs, on an image of 3 x 4 x 2 voxels." in page
    (tmp_path / "study.toml").write_text(text.replace('mask.nii.gz"', 'mask.nii.gz"\nfeatures = 22'), encoding="utf-8")
    with pytest.raises(InvalidParameter, match="as many voxels inside as there are columns"):
        Study.load(tmp_path / "study.toml")


def test_exact_components_of_images() -> None:
    data = np.random.default_rng(1).uniform(0, 255, (80, 12))
    model = PCA(2, epsilon=1.0, delta=1e-6, center=True).fit(
        Federation(in_process({"here": rows(data, ranges=(0, 255))}), protocol=Exact())
    )
    assert np.allclose(model.original_mean_, data.mean(axis=0))
