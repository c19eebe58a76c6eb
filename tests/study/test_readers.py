"""Files become records: the same records whatever the format, and nothing but what the study names."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpcape import rows
from dpcape.core.errors import DamagedFile, DpcapeError, InvalidParameter
from dpcape.records.kinds import Records
from dpcape.records.readers.array_files import mapped_arrays
from dpcape.study.study import Study

from .texts import HEAD, TABLE

rng = np.random.default_rng(5)
X = rng.normal(size=(40, 3)) * 0.4


def study_of(data: str, folder: Path, analysis: str = "mean", parameters: str = "") -> Study:
    text = HEAD.format(analysis=analysis, parameters=parameters, data=data)
    return Study.parse(text, path=folder / "study.toml")


def content(records: Records) -> Any:
    return [np.copy(block) if isinstance(block, np.ndarray) else block for block in records.blocks(16)]


def write_csv(path: Path, table: np.ndarray, names: str = "a,b,c") -> Path:
    np.savetxt(path, table, delimiter=",", header=names, comments="", fmt="%.17g")
    return path


NAMED = 'kind = "rows"\nbound = 1.0\ncolumns = ["a", "b", "c"]'


def test_every_format_gives_the_same_records(tmp_path: Path) -> None:
    import polars

    study = study_of(NAMED, tmp_path)
    expected = rows(X, bound=1.0, feature_names=["a", "b", "c"])
    plain = write_csv(tmp_path / "x.csv", X)
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(plain.read_bytes()))
    (tmp_path / "x.tsv").write_bytes(plain.read_bytes().replace(b",", b"\t"))
    polars.DataFrame({name: X[:, at] for at, name in enumerate("abc")}).write_parquet(tmp_path / "x.parquet")
    np.save(tmp_path / "x.npy", X)
    np.savez(tmp_path / "x.npz", X=X)
    np.savez_compressed(tmp_path / "y.npz", X=X, other=np.arange(3))
    for name in ("x.csv", "x.csv.gz", "x.tsv", "x.parquet", "x.npy", "x.npz", "y.npz"):
        records = study.records_for("lyon", tmp_path / name)
        assert records.facts() == expected.facts()
        assert np.array_equal(np.concatenate(content(records)), np.concatenate(content(expected))), name


def test_columns_are_chosen_by_name_and_order(tmp_path: Path) -> None:
    wide = write_csv(tmp_path / "x.csv", np.column_stack([X, X[:, 0]]), "c,b,id,a")
    study = study_of(NAMED, tmp_path)
    records = study.records_for("lyon", wide)
    assert np.array_equal(np.concatenate(content(records)), np.concatenate(content(rows(X[:, [0, 1, 0]], bound=1.0))))


def test_ranges_levels_and_missing_values(tmp_path: Path) -> None:
    study = study_of(
        'kind = "rows"\nbound = 2.0\n[data.columns]\nage = { range = [0, 100], missing = 50 }\nsex = ["F", "M"]',
        tmp_path,
    )
    (tmp_path / "x.csv").write_text("age,sex\n75,M\n,F\nNA,x\n200, M \n", encoding="utf-8")
    block = np.concatenate(content(study.records_for("lyon", tmp_path / "x.csv")))
    assert np.array_equal(block, [[0.5, 0, 1], [0, 1, 0], [0, 0, 0], [1, 0, 1]])
    assert study.facts().feature_names == ("age", "sex=F", "sex=M")
    (tmp_path / "x.csv").write_text("age,sex\n75,\n", encoding="utf-8")
    strict = study_of(
        'kind = "rows"\nbound = 2.0\ninvalid = "refuse"\n[data.columns]\nage = { range = [0, 100], missing = 50 }\n'
        'sex = ["F", "M"]',
        tmp_path,
    )
    with pytest.raises(InvalidParameter, match=r"column 'sex' .*missing values"):
        strict.records_for("lyon", tmp_path / "x.csv")


def test_one_range_for_all_columns_and_images(tmp_path: Path) -> None:
    study = study_of('kind = "rows"\nbound = 3.0\nfeatures = 4\nranges = [0, 255]\narray = "train"', tmp_path)
    images = rng.integers(0, 256, size=(10, 2, 2)).astype(np.uint8)
    np.savez(tmp_path / "x.npz", train=images, test=images[:2])
    block = np.concatenate(content(study.records_for("lyon", tmp_path / "x.npz")))
    assert np.allclose(block, images.reshape(10, 4) / 127.5 - 1)


def test_labels_and_responses(tmp_path: Path) -> None:
    write_csv(tmp_path / "x.csv", X)
    study = study_of(
        'kind = "labelled"\nbound = 1.0\ncolumns = ["a", "b"]\ntarget = "c"\nresponse = [-1, 1]',
        tmp_path,
        "linear_regression",
    )
    block, target = next(study.records_for("lyon", tmp_path / "x.csv").blocks(64))
    assert np.allclose(target, np.clip(X[:, 2], -1, 1))
    assert block.shape == (40, 2)
    text = "a,b,label\n0.1,0.2,case\n0.3,0.1,control\n"
    (tmp_path / "y.csv").write_text(text, encoding="utf-8")
    labels = study_of(
        'kind = "labelled"\nbound = 1.0\ncolumns = ["a", "b"]\ntarget = "label"\nclasses = ["control", "case"]',
        tmp_path,
        "logistic_regression",
    )
    assert next(labels.records_for("lyon", tmp_path / "y.csv").blocks(8))[1].tolist() == [1, 0]


def test_two_views_from_one_file(tmp_path: Path) -> None:
    study = study_of(
        'kind = "views"\nbounds = [1.0, 2.0]\n[data.x]\ncolumns = ["a"]\n[data.y]\ncolumns = ["c", "b"]',
        tmp_path,
        "cca",
        "n_components = 1",
    )
    records = study.records_for("lyon", write_csv(tmp_path / "x.csv", X))
    assert records.facts().widths == (1, 2)
    assert records.facts().feature_names == ("a", "c", "b")


def test_three_views_from_one_file(tmp_path: Path) -> None:
    text = 'kind = "views"\nviews = ["p", "q", "r"]\nbounds = [1.0, 2.0, 9.0]\n'
    named = [f'[data.{view}]\ncolumns = ["{column}"]' for view, column in (("p", "a"), ("q", "c"), ("r", "b"))]
    study = study_of(text + "\n".join(named), tmp_path, "multi_cca", "n_components = 1")
    records = study.records_for("lyon", write_csv(tmp_path / "x.csv", X))
    assert records.facts().widths == (1, 1, 1)
    assert records.facts().bounds == (1.0, 2.0, 9.0)
    assert records.facts().feature_names == ("a", "c", "b")
    with pytest.raises(InvalidParameter, match=r"bounds of .data. must be 3 positive numbers, one per view"):
        study_of(text.replace(", 9.0", "") + "\n".join(named), tmp_path, "multi_cca", "n_components = 1")


def test_word_counts_sparse_and_dense(tmp_path: Path) -> None:
    from scipy.sparse import csr_array

    counts = rng.integers(0, 4, size=(6, 5))
    sparse = csr_array(counts)
    np.savez(tmp_path / "s.npz", data=sparse.data, indices=sparse.indices, indptr=sparse.indptr, shape=np.array([6, 5]))
    np.savez(tmp_path / "d.npz", X=counts)
    study = study_of('kind = "documents"\nfeatures = 5', tmp_path, "topic_model", "n_components = 2")
    blocks = [
        np.concatenate([block.toarray() for block in study.records_for("lyon", tmp_path / name).blocks()])
        for name in ("s.npz", "d.npz")
    ]
    assert np.array_equal(blocks[0], blocks[1])
    wrong = study_of('kind = "documents"\nfeatures = 7', tmp_path, "topic_model", "n_components = 2")
    with pytest.raises(InvalidParameter, match="7 words the study declares"):
        wrong.records_for("lyon", tmp_path / "s.npz")


def test_series_by_offsets_by_subject_column_by_file_and_in_a_block(tmp_path: Path) -> None:
    data = 'kind = "subjects"\nbound = 1.0\nunit = "record"\ncolumns = ["a", "b", "c"]'
    parts = [X[:10], X[10:25], X[25:]]
    np.savez(tmp_path / "o.npz", Z=X, offsets=np.array([0, 10, 25, 40]))
    (tmp_path / "many").mkdir()
    for at, part in enumerate(parts):
        np.save(tmp_path / "many" / f"sub-{at}.npy", part)
    owners = np.repeat([0, 1, 2], [10, 15, 15])
    write_csv(tmp_path / "x.csv", np.column_stack([X, owners]), "a,b,c,who")
    for extra, path in (
        ('\narray = "Z"\nsubject = "offsets"', "o.npz"),
        ('\nsubject = "who"', "x.csv"),
        ("", "many"),
        ("", "many/sub-*.npy"),
    ):
        study = study_of(data + extra, tmp_path, "joint_ica", "n_components = 2")
        records = study.records_for("lyon", tmp_path / path)
        assert records.n_records == 40
        assert np.array_equal(np.concatenate(content(records)), np.concatenate(content(rows(X, bound=1.0))))
    (tmp_path / "gap.csv").write_text("a,b,c,who\n1,2,3,x\n1,2,3,\n", encoding="utf-8")
    study = study_of(data + '\nsubject = "who"', tmp_path, "joint_ica", "n_components = 2")
    with pytest.raises(InvalidParameter, match=r"'who'.*Complete it"):
        study.records_for("lyon", tmp_path / "gap.csv")
    np.save(tmp_path / "block.npy", X[:39].reshape(3, 13, 3))
    assert study.records_for("lyon", tmp_path / "block.npy").n_records == 39
    for offsets in ([0, 10], [1, 40], [0, 25, 10, 40], [0.0, 40.0]):
        np.savez(tmp_path / "o.npz", Z=X, offsets=np.array(offsets))
        study = study_of(data + '\narray = "Z"\nsubject = "offsets"', tmp_path, "joint_ica", "n_components = 2")
        with pytest.raises(InvalidParameter, match="rise from 0 to the number of rows"):
            study.records_for("lyon", tmp_path / "o.npz")


def test_stored_arrays_stay_on_disk(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", X=X, F=np.asfortranarray(X), empty=np.empty((0, 3)), one=np.float64(3))
    arrays = mapped_arrays(tmp_path / "x.npz")
    assert isinstance(arrays["X"], np.memmap)
    assert isinstance(arrays["F"], np.memmap)
    assert np.array_equal(arrays["X"], X)
    assert np.array_equal(arrays["F"], X)
    assert arrays["empty"].shape == (0, 3)
    assert arrays["one"] == 3.0
    np.savez(tmp_path / "o.npz", X=np.array([{}], dtype=object))
    with pytest.raises(DamagedFile, match="Python objects"):
        mapped_arrays(tmp_path / "o.npz")
    (tmp_path / "bad.npz").write_bytes(b"PK no")
    with pytest.raises(DamagedFile, match="Python objects"):
        mapped_arrays(tmp_path / "bad.npz")


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("x.csv", "a,b\n1,2\n", "'c'"),
        ("x.csv", "a,a,c\n1,2,3\n", "Rename them"),
        ("x.csv", "a,b,c\n1,2\n", "same number of cells"),
        ("x.csv", "a,b,c\n1,secret,3\n", "'b' must hold numbers"),
        ("x.csv", "a,b,c\n1,,3\n", "missing values"),
        ("x.csv", "a,b,c\n1,inf,3\n", "must be finite"),
        ("x.csv", "a,b,c\n", "at least one row"),
        ("x.csv", "", "must name the columns"),
        ("x.txt", "a", "must be .csv"),
        ("x.npz", "a", "NumPy file"),
    ],
)
def test_bad_files_are_refused_without_a_word_of_their_content(
    tmp_path: Path, name: str, text: str, words: str
) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(DpcapeError) as caught:
        study_of(f'{NAMED}\ninvalid = "refuse"', tmp_path).records_for("lyon", tmp_path / name)
    assert words in str(caught.value)
    assert "secret" not in str(caught.value)


def test_files_and_sites_that_do_not_exist(tmp_path: Path) -> None:
    study = study_of(NAMED, tmp_path)
    with pytest.raises(DamagedFile, match="Correct the path"):
        study.records_for("lyon", tmp_path / "nowhere.csv")
    with pytest.raises(InvalidParameter, match="must be one of lima, lyon, oslo"):
        study.records_for("rome", tmp_path / "x.csv")
    np.savez(tmp_path / "x.npz", X=X[:, :2])
    with pytest.raises(InvalidParameter, match="the 3 columns the study declares"):
        study.records_for("lyon", tmp_path / "x.npz")


@pytest.mark.parametrize("module", ["pyarrow", "polars"])
def test_parquet_with_text_and_nulls(tmp_path: Path, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import polars

    if module == "pyarrow":
        pytest.importorskip("pyarrow")
    else:
        monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    frame = polars.DataFrame({"age": [75.0, None], "sex": ["M", "F"], "other": [1, 2]})
    frame.write_parquet(tmp_path / "x.parquet")
    study = study_of(
        'kind = "rows"\nbound = 2.0\n[data.columns]\nage = { range = [0, 100], missing = 50 }\nsex = ["F", "M"]',
        tmp_path,
    )
    block = np.concatenate(content(study.records_for("lyon", tmp_path / "x.parquet")))
    assert np.array_equal(block, [[0.5, 0, 1], [0, 1, 0]])


def test_nifti_needs_a_mask_and_its_extra(tmp_path: Path) -> None:
    data = 'kind = "subjects"\nbound = 1.0\nunit = "record"\nfeatures = 3'
    (tmp_path / "sub.nii.gz").write_bytes(b"")
    study = study_of(data, tmp_path, "joint_ica", "n_components = 2")
    with pytest.raises(InvalidParameter, match="Write mask"):
        study.records_for("lyon", tmp_path / "sub.nii.gz")


def test_nifti_series_of_a_mask(tmp_path: Path) -> None:
    nibabel = pytest.importorskip("nibabel", reason="extra neuro")
    mask = np.zeros((2, 2, 2), dtype=np.uint8)
    mask[0, 0, 0] = mask[1, 0, 1] = mask[1, 1, 1] = 1
    volume = rng.normal(size=(2, 2, 2, 7)).astype(np.float32)
    nibabel.save(nibabel.Nifti1Image(mask, np.eye(4)), tmp_path / "mask.nii.gz")
    nibabel.save(nibabel.Nifti1Image(volume, np.eye(4)), tmp_path / "sub.nii.gz")
    data = 'kind = "subjects"\nbound = 9.0\nunit = "record"\nfeatures = 3\nmask = "mask.nii.gz"'
    study = study_of(data, tmp_path, "joint_ica", "n_components = 2")
    block = np.concatenate(content(study.records_for("lyon", tmp_path / "sub.nii.gz")))
    assert np.allclose(block, volume[mask > 0].T)
    nibabel.save(nibabel.Nifti1Image(volume, 2 * np.eye(4)), tmp_path / "sub.nii.gz")
    with pytest.raises(InvalidParameter, match="on the grid of the mask"):
        study.records_for("lyon", tmp_path / "sub.nii.gz")


def test_a_typed_table_is_the_same_from_every_format(tmp_path: Path) -> None:
    import polars

    from dpcape import table

    people = {
        "age": [50.5, None, 20.0],
        "sex": ["M", None, "F"],
        "seen": ["2020-07-02", "2023-01-01", None],
        "arm": ["new", "old", "old"],
        "days": [100.0, 2500.0, 0.0],
        "died": [1.0, 0.0, None],
        "name": ["not", "in the", "study"],
    }
    study = study_of(TABLE, tmp_path, "summary", 'by = ["arm"]')
    frame = polars.DataFrame(people)
    frame.write_csv(tmp_path / "x.csv")
    frame.write_csv(tmp_path / "x.tsv", separator="\t")
    frame.write_parquet(tmp_path / "x.parquet")
    frame.with_columns(polars.col("seen").str.to_date()).write_parquet(tmp_path / "dates.parquet")
    columns = study.data.tables[0].ranges
    assert columns is not None
    expected = table(frame, columns=columns)
    assert expected.facts().shape_facts() == study.facts()
    for name in ("x.csv", "x.tsv", "x.parquet", "dates.parquet"):
        records = study.records_for("lyon", tmp_path / name)
        assert records.facts() == expected.facts()
        np.testing.assert_array_equal(np.concatenate(content(records)), np.concatenate(content(expected)))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ('kind = "table"\nfeatures = 3', "a table from name to range or levels"),
        ('kind = "table"\ncolumns = ["age"]', "a table from name to range or levels"),
        ('kind = "table"\ninvalid = "refuse"\n[data.columns]\nage = { range = [0, 9] }', "counts as missing"),
        ('kind = "table"\nbound = 1.0\n[data.columns]\nage = { range = [0, 9] }', "bound"),
        ('kind = "table"\n[data.columns]\nage = { range = ["x", "y"] }', "must be a date"),
    ],
)
def test_a_table_is_described_by_ranges_and_levels_and_nothing_else(tmp_path: Path, data: str, words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        study_of(data, tmp_path, "summary")
