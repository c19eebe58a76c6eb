"""One cohort has one budget: its records are recognised in another file, order or encoding, for every kind of file."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import nibabel
import numpy as np
import polars
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array, save_npz

from dpcape.cli import main
from dpcape.core.errors import DpcapeError, InvalidParameter
from dpcape.records.readers.row_fingerprints import overlap, row_fingerprints
from dpcape.site.cohorts import LARGEST_OVERLAP
from dpcape.site.folder import SiteFolder
from dpcape.steward.pages import Pages

KEY = b"k" * 32
N_ROWS = 80
RNG = np.random.default_rng(8)
NUMBERS = RNG.normal(size=(N_ROWS, 3))
TABLE = polars.DataFrame(
    {
        "id": [f"P{number:03}" for number in range(N_ROWS)],
        "age": RNG.integers(20, 90, N_ROWS),
        "score": np.where(RNG.random(N_ROWS) < 0.1, np.nan, RNG.normal(size=N_ROWS)),
        "treated": RNG.random(N_ROWS) < 0.5,
    }
).with_columns(polars.col("score").fill_nan(None))


@pytest.fixture
def place(tmp_path: Path) -> SiteFolder:
    return SiteFolder.create(tmp_path / "lyon", name="lyon")


def add(place: SiteFolder, name: str, path: Path, **more: bool) -> None:
    place.add_data(name, path, epsilon=1.0, delta=1e-5, **more)


def shared(one: Path, other: Path) -> float:
    return overlap(row_fingerprints(one, KEY), row_fingerprints(other, KEY))


def as_csv(path: Path) -> None:
    TABLE.write_csv(path)


def as_tsv(path: Path) -> None:
    TABLE.write_csv(path, separator="\t")


def as_gzip(path: Path) -> None:
    path.write_bytes(gzip.compress(TABLE.write_csv().encode()))


def reordered(path: Path) -> None:
    TABLE.sample(fraction=1.0, shuffle=True, seed=1).select("treated", "score", "id", "age").write_parquet(path)


def renamed(path: Path) -> None:
    TABLE.rename({"score": "a score"}).write_csv(path)


def in_single_precision(path: Path) -> None:
    TABLE.with_columns(polars.col("score").cast(polars.Float32), polars.col("age").cast(polars.Float64)).write_parquet(
        path
    )


def with_other_words(path: Path) -> None:
    """The missing value, the truth values and the blanks as another program writes them."""
    text = TABLE.write_csv(null_value="NA").replace("true", "True").replace("false", "False").replace(",", ", ")
    path.write_text("\ufeff" + text.replace("id, age, score, treated", "id,age,score,treated"), encoding="utf-8")


TABLES: dict[str, tuple[str, Callable[[Path], None]]] = {
    "Parquet": ("b.parquet", TABLE.write_parquet),
    "TSV": ("b.tsv", as_tsv),
    "gzip": ("b.csv.gz", as_gzip),
    "rows and columns in another order": ("b.parquet", reordered),
    "a column renamed": ("b.csv", renamed),
    "single precision": ("b.parquet", in_single_precision),
    "other words": ("b.csv", with_other_words),
}


@pytest.mark.parametrize("how", TABLES)
def test_the_same_table_in_another_file_has_no_second_budget(place: SiteFolder, tmp_path: Path, how: str) -> None:
    name, write = TABLES[how]
    as_csv(tmp_path / "a.csv")
    write(tmp_path / name)
    assert shared(tmp_path / "a.csv", tmp_path / name) == 1.0
    add(place, "cohort", tmp_path / "a.csv")
    rows = place.chain.entries()
    with pytest.raises(InvalidParameter, match=r"shares 100% of its rows with 'cohort'.*--accept-overlap"):
        add(place, "again", tmp_path / name)
    assert place.chain.entries() == rows
    assert list(place.data_sets()) == ["cohort"]
    # Under its own name it goes on with its spending.
    add(place, "cohort", tmp_path / name)
    # What the name stood for before does not come back either.
    if how != "a column renamed":
        as_tsv(tmp_path / "c.tsv")
        with pytest.raises(InvalidParameter, match="one budget"):
            add(place, "third", tmp_path / "c.tsv")


def columns(path: Path) -> None:
    np.savetxt(path, NUMBERS, delimiter=",", header="a,b,c", comments="", fmt="%.17g")


def volumes(folder: Path, suffix: str, order: list[int]) -> None:
    folder.mkdir()
    series = np.arange(2 * 2 * 2 * 5 * 3, dtype=np.float32).reshape(3, 2, 2, 2, 5) + 1
    for place, number in enumerate(order):
        nibabel.save(nibabel.Nifti1Image(series[number], np.eye(4)), folder / f"{place}{suffix}")


def series(folder: Path, write: Callable[[Path, np.ndarray], None], suffix: str) -> None:
    folder.mkdir()
    for number in range(4):
        write(folder / f"s{number}{suffix}", NUMBERS[20 * number : 20 * number + 20])


def one_csv(path: Path, table: np.ndarray) -> None:
    np.savetxt(path, table, delimiter=",", header="a,b,c", comments="", fmt="%.17g")


def pairs(tmp_path: Path) -> dict[str, tuple[Path, Path]]:
    """Return two files of the same records for every kind of file that a site can register."""
    made = {name: tmp_path / name for name in ("a.csv", "a.npy", "b.npz", "c.npy", "d.npz", "e.npz", "f.csv", "g.npz")}
    columns(made["a.csv"])
    np.save(made["a.npy"], NUMBERS[::-1].astype(np.float32))
    np.savez_compressed(made["b.npz"], X=NUMBERS, y=np.arange(N_ROWS))
    np.save(made["c.npy"], NUMBERS.reshape(4, 20, 3))
    np.savez(made["d.npz"], X=NUMBERS, offsets=np.array([0, 30, 80]))
    counts = RNG.poisson(0.4, size=(50, 12)) + np.eye(50, 12, dtype=int)
    save_npz(made["e.npz"], csr_array(counts))
    np.savetxt(made["f.csv"], counts, delimiter=",", header=",".join("abcdefghijkl"), comments="", fmt="%d")
    np.savez(made["g.npz"], a=NUMBERS[:, 0], b=NUMBERS[:, 1], c=NUMBERS[:, 2])
    volumes(tmp_path / "nii", ".nii", [0, 1, 2])
    volumes(tmp_path / "gz", ".nii.gz", [2, 0, 1])
    series(tmp_path / "npys", np.save, ".npy")
    series(tmp_path / "csvs", one_csv, ".csv")
    return {
        "CSV and npy": (made["a.csv"], made["a.npy"]),
        "npy and npz": (made["a.npy"], made["b.npz"]),
        "CSV and npz of columns": (made["a.csv"], made["g.npz"]),
        "subjects: 3-d npy and npz with offsets": (made["c.npy"], made["d.npz"]),
        "subjects: 3-d npy and a folder of CSV": (made["c.npy"], tmp_path / "csvs"),
        "folders of npy and of CSV": (tmp_path / "npys", tmp_path / "csvs"),
        "a folder and a pattern": (tmp_path / "npys", tmp_path / "csvs" / "s*.csv"),
        "documents: sparse and dense": (made["e.npz"], made["f.csv"]),
        "NIfTI, compressed or not": (tmp_path / "nii", tmp_path / "gz"),
    }


KINDS = (
    "CSV and npy", "npy and npz", "CSV and npz of columns", "subjects: 3-d npy and npz with offsets",
    "subjects: 3-d npy and a folder of CSV", "folders of npy and of CSV", "a folder and a pattern",
    "documents: sparse and dense", "NIfTI, compressed or not",
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_file_is_recognised(place: SiteFolder, tmp_path: Path, kind: str) -> None:
    one, other = pairs(tmp_path)[kind]
    assert shared(one, other) == 1.0
    add(place, "cohort", one)
    with pytest.raises(InvalidParameter, match="one budget"):
        add(place, "again", other)


def with_rows(path: Path, start: int, stop: int) -> Path:
    np.save(path, np.random.default_rng(9).normal(size=(2000, 3))[start:stop])
    return path


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.integers(0, 60), st.integers(1, 60), st.integers(0, 60), st.integers(1, 60))
def test_overlap_is_the_share_of_the_smaller_set(
    tmp_path_factory: pytest.TempPathFactory, start: int, length: int, other_start: int, other_length: int
) -> None:
    folder = tmp_path_factory.mktemp("share")
    one = with_rows(folder / "a.npy", start, start + length)
    other = with_rows(folder / "b.npy", other_start, other_start + other_length)
    common = len(set(range(start, start + length)) & set(range(other_start, other_start + other_length)))
    assert shared(one, other) == pytest.approx(common / min(length, other_length))
    assert shared(one, other) == shared(other, one)


def test_rows_that_repeat_count_as_often_as_both_have_them(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.repeat([[1.0, 2.0], [3.0, 4.0]], [9, 1], axis=0))
    np.save(tmp_path / "b.npy", np.repeat([[1.0, 2.0], [5.0, 6.0]], [1, 9], axis=0))
    assert shared(tmp_path / "a.npy", tmp_path / "b.npy") == 0.1
    # Rows of zeros and missing values say nothing about whose they are.
    np.save(tmp_path / "c.npy", np.zeros((10, 2)))
    np.save(tmp_path / "d.npy", np.full((10, 2), np.nan))
    assert shared(tmp_path / "c.npy", tmp_path / "c.npy") == shared(tmp_path / "c.npy", tmp_path / "d.npy") == 0.0


def test_the_stated_share_is_the_limit(place: SiteFolder, tmp_path: Path) -> None:
    assert LARGEST_OVERLAP == 0.01
    add(place, "cohort", with_rows(tmp_path / "a.npy", 0, 1000))
    add(place, "registry", with_rows(tmp_path / "b.npy", 990, 1990), different_people=True)
    with pytest.raises(InvalidParameter, match=r"shares 1\.1% of its rows with 'cohort' \(allowed: 1%\)"):
        add(place, "third", with_rows(tmp_path / "c.npy", 989, 1989))


def test_acceptance_is_a_row_and_is_shown(place: SiteFolder, tmp_path: Path) -> None:
    add(place, "cohort", with_rows(tmp_path / "a.npy", 0, 100))
    path = with_rows(tmp_path / "b.npy", 50, 150)
    words = ["site", "add", "second", str(path), "--epsilon", "1", "--delta", "1e-5", "--folder", str(place.path)]
    refused = CliRunner().invoke(main, words)
    assert refused.exit_code != 0
    assert "50% of its rows with 'cohort'" in refused.output
    assert CliRunner().invoke(main, [*words, "--accept-overlap"]).exit_code == 0
    row = next(entry for entry in place.chain.entries() if entry.kind == "overlap")
    assert row.body == {"data": "second", "other": "cohort", "share": "0.5"}
    place.chain.verify()
    page = Pages(place, prefix="here", stamp=lambda action: "stamp").ledger("", 0, releases=False)
    assert "second shares 50% of its rows with cohort; you accepted two budgets for them." in page
    # What was accepted need not be accepted again; more than that must.
    add(place, "second", path)
    with pytest.raises(InvalidParameter, match="60%"):
        add(place, "second", with_rows(tmp_path / "b.npy", 40, 140))


def test_rows_added_to_a_registered_file_are_recognised(place: SiteFolder, tmp_path: Path) -> None:
    add(place, "cohort", with_rows(tmp_path / "a.npy", 0, 100))
    with_rows(tmp_path / "a.npy", 0, 300)
    with pytest.raises(InvalidParameter, match="100% of its rows"):
        add(place, "new", with_rows(tmp_path / "b.npy", 200, 300))


def test_fingerprints_are_keyed_and_private(place: SiteFolder, tmp_path: Path) -> None:
    path = with_rows(tmp_path / "a.npy", 0, 50)
    add(place, "cohort", path)
    kept = sorted((place.path / "rows").iterdir())
    assert len(kept) == 1
    assert kept[0].stat().st_mode & 0o077 == 0
    assert (place.path / "rows").stat().st_mode & 0o077 == 0
    assert overlap(row_fingerprints(path, KEY), row_fingerprints(path, b"x" * 32)) == 0.0
    with np.load(kept[0]) as stored:
        assert not np.array_equal(stored["columns"], row_fingerprints(path, KEY)["columns"])
    # Nothing of them is in the ledger.
    assert "rows" not in json.dumps([entry.body for entry in place.chain.entries() if entry.kind != "ceiling"])


@pytest.mark.parametrize(
    ("name", "content"), [("a.parquet", b"no"), ("a.nii", b"no"), ("a.npy", b"no"), ("a.txt", b"1")]
)
def test_a_file_that_cannot_be_read_is_refused(place: SiteFolder, tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DpcapeError, match=r"must be|could not be read"):
        add(place, "cohort", tmp_path / name)
    assert place.data_sets() == {}
