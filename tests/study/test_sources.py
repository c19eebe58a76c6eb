"""Paths and queries in place of arrays, in Python and in study files; and what is said where a file is wrong."""

from __future__ import annotations

import gzip
import sqlite3
import warnings
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array, issparse, save_npz

from dpcape import Schema, documents, labelled, rows, sql, subjects, table, views
from dpcape.core.errors import DamagedFile, DpcapeError, InvalidParameter, MissingExtra, UtilityWarning
from dpcape.records.kinds import Records, Subjects
from dpcape.study.study import Study

from .texts import HEAD

RANGES = {"age": (18, 90), "sex": ["F", "M"], "thickness": (1.0, 5.0)}
N = 60


def people() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(8)
    return {
        "id": np.arange(N).astype(float),
        "age": rng.integers(20, 88, N).astype(float),
        "sex": np.array(["F", "M"], dtype=object)[rng.integers(0, 2, N)],
        "thickness": rng.normal(3, 0.4, N).round(3),
        "wave": rng.integers(1, 3, N).astype(float),
    }


def as_csv(columns: dict[str, np.ndarray], mark: str = ",", end: str = "\n") -> str:
    lines = [mark.join(columns), *(mark.join(map(str, line)) for line in zip(*columns.values(), strict=True))]
    return end.join(lines) + end


def content(records: Records) -> list[Any]:
    """Return all values of records, as lists of arrays."""
    if isinstance(records, Subjects):
        return [np.copy(part) for part in records.each_subject()]
    found: list[Any] = []
    for block in records.blocks(16):
        for part in block if isinstance(block, tuple) else (block,):
            found.append(part.toarray() if issparse(part) else np.copy(part))
    return found


def same(one: Records, other: Records) -> None:
    assert one.facts() == other.facts()
    for left, right in zip(content(one), content(other), strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    import polars

    columns = people()
    (tmp_path / "nyu.csv").write_text(as_csv(columns), encoding="utf-8")
    (tmp_path / "nyu.tsv").write_text(as_csv(columns, "\t"), encoding="utf-8")
    (tmp_path / "nyu.csv.gz").write_bytes(gzip.compress(as_csv(columns).encode()))
    frame = polars.DataFrame({name: list(values) for name, values in columns.items()})
    frame.write_parquet(tmp_path / "nyu.parquet")
    for wave in (1, 2):
        part = tmp_path / "set" / f"wave={wave}"
        part.mkdir(parents=True)
        frame.filter(polars.col("wave") == wave).drop("wave").write_parquet(part / "part-0.parquet")
    with closing(sqlite3.connect(tmp_path / "nyu.sqlite")) as line, line:
        line.execute("CREATE TABLE people (id REAL, age REAL, sex TEXT, thickness REAL, wave REAL)")
        line.executemany("INSERT INTO people VALUES (?, ?, ?, ?, ?)", list(zip(*columns.values(), strict=True)))
    return tmp_path


def test_rows_are_the_same_from_every_source(place: Path) -> None:
    pytest.importorskip("duckdb")
    wanted = rows({name: people()[name] for name in RANGES}, ranges=RANGES)
    query = "SELECT thickness, sex, age FROM people ORDER BY id"
    sources = [
        *(place / name for name in ("nyu.csv", "nyu.tsv", "nyu.csv.gz", "nyu.parquet")),
        str(place / "nyu.csv"),
        sql(query, database=place / "nyu.sqlite"),
        *(sql(query, tables={"people": place / name}) for name in ("nyu.csv", "nyu.tsv", "nyu.parquet", "set")),
    ]
    for source in sources:
        same(rows(source, schema=RANGES), wanted)
        same(rows(source, schema=Schema.of(RANGES)), wanted)
    (place / "schema.toml").write_text(
        '[columns.age]\nrange = [18, 90]\n[columns.sex]\nlevels = ["F", "M"]\n[columns.thickness]\nrange = [1.0, 5.0]\n'
    )
    same(rows(place / "nyu.csv", schema=place / "schema.toml"), wanted)
    with pytest.raises(InvalidParameter, match="Either schema or ranges"):
        rows(place / "nyu.csv", schema=RANGES, ranges=RANGES)


@pytest.mark.parametrize("module", ["pyarrow", "polars"])
def test_a_parquet_data_set_is_one_table_with_the_columns_of_its_folders(
    place: Path, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if module == "polars":
        monkeypatch.setitem(__import__("sys").modules, "pyarrow.dataset", None)
    found = rows(place / "set", ranges={"age": (18, 90), "wave": (1, 2)})
    columns = people()
    order = np.argsort(columns["wave"], kind="stable")
    same(
        found, rows({name: columns[name][order] for name in ("age", "wave")}, ranges={"age": (18, 90), "wave": (1, 2)})
    )


@pytest.mark.filterwarnings("ignore:.* records cannot be read and contribute zero")
def test_rows_without_a_schema_are_all_columns_or_those_named(place: Path) -> None:
    found = rows(place / "nyu.parquet", bound=1.0, feature_names=["thickness", "age"])
    assert found.facts().feature_names == ("thickness", "age")
    with pytest.raises(InvalidParameter, match=r"nyu\.csv, line 2: column 'sex' must hold numbers"):
        rows(place / "nyu.csv", bound=1.0, invalid="refuse")
    with pytest.warns(UtilityWarning, match=r"nyu\.csv, line 2: column 'sex' must hold numbers"):
        assert rows(place / "nyu.csv", bound=1.0).n_invalid == N
    np.save(place / "x.npy", np.eye(4))
    same(rows(place / "x.npy", bound=1.0), rows(np.eye(4), bound=1.0))


def test_labelled_views_documents_and_tables(place: Path) -> None:
    columns, numbers = people(), {"age": (18, 90), "thickness": (1.0, 5.0)}
    raw = {name: columns[name] for name in numbers}
    path = place / "nyu.csv"
    same(
        labelled(path, "sex", schema=numbers, classes=["F", "M"]),
        labelled(raw, columns["sex"], ranges=numbers, classes=["F", "M"]),
    )
    same(
        labelled(path, "wave", schema=numbers, classes=[1, 2]),
        labelled(raw, columns["wave"], ranges=numbers, classes=[1, 2]),
    )
    both = sql("SELECT age, thickness, wave FROM people", database=place / "nyu.sqlite")
    same(
        labelled(both, "thickness", bound=100.0, response=(1, 5)),
        labelled({name: columns[name] for name in ("age", "wave")}, columns["thickness"], bound=100.0, response=(1, 5)),
    )
    specs = [{"age": (18, 90)}, {"thickness": (1.0, 5.0), "sex": ["F", "M"]}]
    same(views(path, path, ranges=specs), views(columns, columns, ranges=specs))
    same(table(path, schema=RANGES), table({name: columns[name] for name in RANGES}, columns=RANGES))
    words = np.random.default_rng(1).poisson(2, (10, 3))
    (place / "words.csv").write_text(as_csv(dict(zip("abc", words.T, strict=True))))
    same(documents(place / "words.csv"), documents(words, feature_names=["a", "b", "c"]))
    save_npz(place / "words.npz", csr_array(words))
    same(documents(place / "words.npz"), documents(words))
    with pytest.raises(InvalidParameter, match="columns must describe"):
        table(path)


def test_subjects_from_a_table_a_folder_a_pattern_and_a_list(place: Path) -> None:
    rng = np.random.default_rng(2)
    series = {f"s{number}": rng.normal(size=(5 + number, 2)).round(4) for number in range(4)}
    stacked = np.concatenate(list(series.values()))
    owners = np.concatenate([[name] * len(values) for name, values in series.items()])
    (place / "all.csv").write_text(as_csv({"who": owners, "a": stacked[:, 0], "b": stacked[:, 1]}))
    (place / "each").mkdir()
    for name, values in series.items():
        np.save(place / "each" / f"{name}.npy", values)
    options: dict[str, Any] = {"bound": 1.0, "unit": "subject", "rows_per_subject": 9, "n_features": 2}
    wanted = subjects(list(series.values()), **options)
    same(subjects(place / "each", **options), wanted)
    same(subjects(place / "each" / "s*.npy", **options), wanted)
    same(subjects([place / "each" / f"{name}.npy" for name in series], **options), wanted)
    same(
        subjects(place / "all.csv", subject="who", **options),
        subjects(list(series.values()), feature_names=["a", "b"], **options),
    )
    with pytest.raises(DamagedFile, match=r"s9\.npy' does not exist"):
        subjects([place / "each" / "s9.npy"], **options)
    with pytest.raises(InvalidParameter, match="left out for arrays"):
        subjects(list(series.values()), subject="who", **options)


def volumes(place: Path, names: list[str], seed: int = 3) -> Path:
    nibabel = pytest.importorskip("nibabel")
    rng = np.random.default_rng(seed)
    inside = np.zeros((3, 3, 2), dtype=np.int8)
    inside[1:, 1:, :] = 1
    nibabel.save(nibabel.Nifti1Image(inside, np.eye(4)), place / "mask.nii.gz")
    for name in names:
        path = place / "fmriprep" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        nibabel.save(nibabel.Nifti1Image(rng.normal(size=(3, 3, 2, 5)).astype(np.float32), np.eye(4)), path)
    return place / "fmriprep"


BIDS = "sub-{0}/func/sub-{0}_task-rest_space-MNI_desc-preproc_bold.nii.gz"
PATTERN = "sub-*_task-rest_*_bold.nii.gz"
SCANS: dict[str, Any] = {"bound": 9.0, "unit": "subject", "rows_per_subject": 5}


def test_a_bids_folder_is_read_by_pattern_and_a_mask_implies_its_voxels(tmp_path: Path) -> None:
    names = [BIDS.format(label) for label in ("01", "02", "03")]
    folder = volumes(tmp_path, [*names, "sub-01/anat/sub-01_T1w.nii.gz", "sub-02/func/sub-02_task-nback_bold.nii.gz"])
    mask = tmp_path / "mask.nii.gz"
    found = subjects(folder, pattern=PATTERN, mask=mask, **SCANS)
    assert (found.n_records, found.n_features) == (3, 8)
    same(found, subjects([folder / name for name in names], mask=mask, **SCANS))
    # In a study file too, where the mask replaces the number of columns.
    text = HEAD.format(
        analysis="joint_ica",
        parameters="n_components = 2\nn_timepoints = 5\ninsist = true",
        data='kind = "subjects"\nbound = 9.0\nunit = "subject"\nrows_per_subject = 5\nmask = "mask.nii.gz"\n'
        f'pattern = "{PATTERN}"',
    )
    study = Study.parse(text, path=tmp_path / "study.toml")
    assert study.data.tables[0].n_columns == 8
    records = study.records_for("lyon", folder)
    for left, right in zip(content(records), content(found), strict=True):
        np.testing.assert_array_equal(left, right)
    with pytest.raises(InvalidParameter, match=r"line \d+, column \d+: pattern of \[data\]"):
        Study.parse(text.replace(PATTERN, "../*.nii"), path=tmp_path / "study.toml")
    with pytest.raises(InvalidParameter, match="mask must be given"):
        subjects(folder, pattern=PATTERN, **SCANS)
    with pytest.raises(DamagedFile, match="or the pattern"):
        subjects(folder, pattern="sub-*_task-motor_bold.nii.gz", mask=mask, **SCANS)


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        (
            "sub-02/func/sub-02_ses-2_task-rest_space-MNI_desc-preproc_bold.nii.gz",
            "two for sub-02.* differ in ses",
        ),
        ("sub-04/func/sub-04_task-rest_space-T1w_desc-preproc_bold.nii.gz", "the same space; got MNI, T1w"),
        ("sub-04/func/sub-05_task-rest_space-MNI_desc-preproc_bold.nii.gz", "in the folder of its subject; got sub-04"),
        ("sub-04/func/sub-04_task-rest_MNI_bold.nii.gz", "as BIDS has it"),
        ("sub-04/func/sub-04_task-rest_task-rest_bold.nii.gz", "every entity once"),
    ],
)
def test_entities_that_disagree_are_refused(tmp_path: Path, extra: str, words: str) -> None:
    folder = volumes(tmp_path, [*(BIDS.format(label) for label in ("01", "02")), extra])
    with pytest.raises(InvalidParameter, match=words):
        subjects(folder, pattern=PATTERN, mask=tmp_path / "mask.nii.gz", **SCANS)


def test_subjects_without_a_file_are_counted_locally(tmp_path: Path) -> None:
    folder = volumes(tmp_path, [BIDS.format("01"), "sub-02/anat/sub-02_T1w.nii.gz"])
    with pytest.warns(UtilityWarning, match="1 subjects of fmriprep have a folder and no file"):
        subjects(folder, pattern=PATTERN, mask=tmp_path / "mask.nii.gz", **SCANS)


@pytest.mark.parametrize("make", [rows, table], ids=["rows", "table"])
def test_names_that_are_not_there_are_answered_with_the_nearest(place: Path, make: Callable[..., Any]) -> None:
    with pytest.raises(InvalidParameter, match=r"'Thicknes'.*Did you mean 'thickness'?"):
        make(place / "nyu.csv", schema={"Thicknes": (1, 5)})
    with pytest.raises(InvalidParameter, match=r"'AGE' .*Did you mean 'age'?"):
        make({"age": [1.0]}, schema={"AGE": (1, 5)})
    with pytest.raises(InvalidParameter, match=r"nyu\.csv must have the column 'zzz'; got none\. Add"):
        make(place / "nyu.csv", schema={"zzz": (1, 5)})


WRONG = [
    (as_csv(people(), ";").encode(), "nyu.csv, line 1: cells must be separated by commas; got semicolons"),
    (b"", "nyu.csv, line 1: the first line must name the columns; got an empty line or file"),
    (b"20,3\n31,2\n", "The first line of nyu.csv must name the columns; got numbers alone"),
    (
        as_csv(people(), "\t").encode(),
        "nyu.csv, line 1: cells must be separated by commas; got tabs. Name the file .tsv",
    ),
    (as_csv(people(), "|").encode(), "nyu.csv, line 1: cells must be separated by commas; got vertical bars"),
    ("age,sex,thickness\n30,F,2\n".encode("utf-16"), "nyu.csv, line 1: the file must be encoded in UTF-8; got UTF-16"),
    (b"age,sex,age\n30,F,2\n", "Column names in nyu.csv must be unique"),
]


@pytest.mark.parametrize(("data", "words"), WRONG, ids=[words[9:60] for _, words in WRONG])
@pytest.mark.parametrize("zipped", [False, True], ids=["plain", "gzipped"])
def test_what_is_wrong_with_a_file_is_named_with_its_line(
    tmp_path: Path, data: bytes, words: str, zipped: bool
) -> None:
    path = written(tmp_path, data, zipped)
    with pytest.raises(InvalidParameter) as caught:
        rows(path, schema=RANGES)
    assert words.replace("nyu.csv", path.name) in str(caught.value)


def written(place: Path, data: bytes, zipped: bool) -> Path:
    path = place / ("nyu.csv.gz" if zipped else "nyu.csv")
    path.write_bytes(gzip.compress(data) if zipped else data)
    return path


# The second of three records cannot be read as it should: words, and whether it is invalid.
RECORDS = [
    (b"31,M\xe9,2", "nyu.csv, line 3: the file must be encoded in UTF-8; got another", False),
    (b'31,M,"3,25"', "nyu.csv, line 3: column 'thickness' must hold numbers with a decimal point", True),
    (b"31,M,3,25", "nyu.csv, line 3: every line must have the same number of cells", True),
    (b"31,M", "nyu.csv, line 3: every line must have the same number of cells", True),
    (b"secret,M,2", "nyu.csv, line 3: column 'age' must hold numbers; got text", True),
]


@pytest.mark.parametrize(("line", "words", "is_invalid"), RECORDS, ids=[words[9:60] for _, words, _ in RECORDS])
@pytest.mark.parametrize("zipped", [False, True], ids=["plain", "gzipped"])
def test_a_line_that_cannot_be_read_concerns_its_own_record_alone(
    tmp_path: Path, line: bytes, words: str, is_invalid: bool, zipped: bool
) -> None:
    """A refusal would tell everybody of this record."""
    path = written(tmp_path, b"age,sex,thickness\n30,F,2\n" + line + b"\n50,M,4\n", zipped)
    with pytest.raises(InvalidParameter) as caught:
        rows(path, schema=RANGES, invalid="refuse")
    with pytest.warns(UtilityWarning) as warned:
        records = rows(path, schema=RANGES)
    for said in (str(caught.value), str(warned[0].message)):
        assert words.replace("nyu.csv", path.name) in said
        assert not any(secret in said for secret in ("secret", "3,25", "M\xe9"))
    assert records.n_records == 3
    assert records.n_invalid == is_invalid
    others = rows({"age": [30.0, 50.0], "sex": ["F", "M"], "thickness": [2.0, 4.0]}, schema=RANGES)
    found = np.concatenate(content(records))
    np.testing.assert_array_equal(found[[0, -1]], np.concatenate(content(others)))
    assert len(found) == 3 - is_invalid


STEALING = [
    "COPY people TO '{0}/stolen.csv'",
    "SELECT * FROM read_csv('{0}/other.csv')",
    "SELECT * FROM '{0}/other.csv'",
    "SELECT * FROM read_text('{0}/other.csv')",
    "SELECT * FROM glob('{0}/*')",
    "ATTACH '{0}/new.db'",
    "EXPORT DATABASE '{0}/stolen'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SELECT * FROM 'https://127.0.0.1:9/x.csv'",
    "SET enable_external_access = true",
    "RESET lock_configuration",
    "SELECT * FROM secret_array",
    "CREATE TABLE t AS SELECT 1",
    "DROP TABLE people",
    "SELECT 1 AS age; SELECT 2 AS age",
    "PRAGMA database_list",
]


@pytest.mark.parametrize("query", STEALING)
def test_a_query_over_files_reaches_nothing_else(place: Path, query: str) -> None:
    pytest.importorskip("duckdb")
    secret_array = np.arange(3)  # noqa: F841  # what DuckDB would find by its name
    (place / "other.csv").write_text("age\n77\n")
    before = sorted(path.name for path in place.rglob("*"))
    with pytest.raises(DpcapeError, match=r"The query failed|one SELECT"):
        rows(sql(query.format(place), tables={"people": place / "nyu.csv"}), bound=1.0)
    assert sorted(path.name for path in place.rglob("*")) == before
    # The tables it was given are there.
    rows(sql("SELECT age FROM people", tables={"people": place / "nyu.csv"}), bound=1.0)


@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM people",
        "INSERT INTO people SELECT * FROM people",
        "ATTACH '{0}/new.db' AS other",
        "PRAGMA journal_mode = WAL",
        "SELECT load_extension('x')",
        "CREATE TABLE t (a)",
        "VACUUM INTO '{0}/stolen.db'",
        "SELECT 1; DELETE FROM people",
        "SELECT name FROM pragma_database_list",
    ],
)
def test_a_query_in_a_database_only_reads(place: Path, query: str) -> None:
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    with pytest.raises(DpcapeError, match=r"The query failed|one SELECT"):
        rows(sql(query.format(place), database=place / "nyu.sqlite"), bound=1.0)
    assert {path: path.read_bytes() for path in place.rglob("*") if path.is_file()} == before


def test_what_a_query_returns_becomes_numbers_text_and_dates(place: Path) -> None:
    pytest.importorskip("duckdb")
    (place / "visits.csv").write_text("id,seen,score,group\n1,2020-01-02,1.5,01\n2,NA,,02\n3,2021-05-06,7,\n")
    columns = {"seen": {"range": ["2020-01-01", "2021-12-31"]}, "score": (0, 10), "who": [1, 2, 3]}
    found = table(
        sql("SELECT seen, score, id AS who FROM visits ORDER BY id", tables={"visits": place / "visits.csv"}),
        columns=columns,
    )
    plain = {"seen": ["2020-01-02", None, "2021-05-06"], "score": [1.5, np.nan, 7.0], "who": [1.0, 2.0, 3.0]}
    same(
        found,
        table(
            {name: np.array(values, dtype=object if name == "seen" else float) for name, values in plain.items()},
            columns=columns,
        ),
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "Either tables or database must be given; got neither"),
        ({"tables": {"a": "nyu.csv"}, "database": "nyu.sqlite"}, "got both"),
        ({"tables": {"a": "nowhere.csv"}}, "does not exist"),
        ({"tables": {"a": "nyu.sqlite"}}, "must be .csv, .tsv or .parquet"),
        ({"database": "nyu.csv"}, "The query failed because file is not a database"),
    ],
)
def test_mistakes_in_a_query(
    place: Path, arguments: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("duckdb")
    monkeypatch.chdir(place)
    with pytest.raises(DpcapeError, match=words):
        rows(sql("SELECT age FROM a", **arguments), bound=1.0)


def test_a_query_without_its_package_says_what_to_install(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "duckdb", None)
    with pytest.raises(MissingExtra, match=r"dpcape\[sql\]"):
        rows(sql("SELECT age FROM a", tables={"a": place / "nyu.csv"}), bound=1.0)


def test_a_study_names_a_query_instead_of_a_file(place: Path) -> None:
    from dpcape.runs.in_process import run_in_process

    query = '{ query = "SELECT age, thickness FROM people WHERE wave = 1", database = "nyu.sqlite" }'
    text = HEAD.format(
        analysis="mean",
        parameters="",
        data='kind = "rows"\n[data.columns]\nage = [18, 90]\nthickness = [1, 5]',
    )
    for site in ("lima", "lyon", "oslo"):
        text = text.replace(f"[sites.{site}]", f"[sites.{site}]\ndata = {query}")
    (place / "study.toml").write_text(text)
    study = Study.load(place / "study.toml")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UtilityWarning)
        folder = run_in_process(study, place / "run")
    assert folder is not None
    wave = people()["wave"]
    participants = (place / "run").rglob("participants.json")
    assert f'"records": {int((wave == 1).sum())}' in next(participants).read_text()
    for wrong, words in (
        ('{ query = "SELECT 1" }', "tables of .sites.lima.data. must be given if database is not"),
        ('{ query = "SELECT 1", tables = { a = 1 } }', "a table from name to file"),
        ('{ database = "x" }', "query of .sites.lima.data. must be a string"),
        ('{ query = "SELECT 1", database = "x", tabels = 1 }', "Did you mean 'tables'?"),
    ):
        with pytest.raises(InvalidParameter, match=f"line \\d+, column \\d+: .*{words}"):
            Study.parse(text.replace(query, wrong))


def test_how_a_query_writes_a_number_does_not_depend_on_other_rows(tmp_path: Path) -> None:
    path = tmp_path / "cohort.sqlite"
    with closing(sqlite3.connect(path)) as line, line:
        line.execute("CREATE TABLE people (grade)")
        line.executemany("INSERT INTO people VALUES (?)", [(1.0,), (2,), (2.0,), ("x",)])
    chosen = {"grade": ["1", "2"]}
    apart = [
        rows(sql(f"SELECT grade FROM people {where}", database=path), ranges=chosen)
        for where in ("WHERE grade < 9", "")
    ]
    first, second = (np.vstack(list(records.feature_blocks())) for records in apart)
    np.testing.assert_array_equal(first, [[1, 0], [0, 1], [0, 1]])
    np.testing.assert_array_equal(second[:3], first)
