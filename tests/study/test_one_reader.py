"""One reader: blocks and validity of every kind of records are those in memory, to the bit, from every source."""

from __future__ import annotations

import gzip
import sqlite3
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpcape import documents, labelled, rows, sql, subjects, table, views
from dpcape.core.errors import InvalidParameter, ProtocolError, UtilityWarning
from dpcape.records import source_stream, sources
from dpcape.records.kinds import Records
from dpcape.records.read_ahead import AHEAD, read_ahead
from dpcape.records.readers.tables import CsvFile
from dpcape.records.recipes import OfRows
from dpcape.records.source_stream import SourceStream
from dpcape.records.streamed import Streamed
from dpcape.records.typed_table import TypedTable
from dpcape.study.study import Study

from .texts import HEAD

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
feather = pytest.importorskip("pyarrow.feather")
pads = pytest.importorskip("pyarrow.dataset")
duckdb = pytest.importorskip("duckdb")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")
dask = pytest.importorskip("dask")

N = 500
RANGES = {
    "age": (18, 90),
    "sex": ["F", "M"],
    "dose": {"range": (0, 20), "missing": 5},
    "seen": {"range": ["2020-01-01", "2024-12-31"]},
    "visits": (0, 8),
}
# Cells of a column of numbers in a file, and the same in memory.
DOSES = {"7": 7.0, " 7.25 ": 7.25, "NA": None, "abc": "abc", "1,5": "1,5", "1e400": np.inf, "-0.0": -0.0, "": None}


def people() -> tuple[dict[str, list[Any]], dict[str, np.ndarray]]:
    """Columns as files hold them, and as memory does: missing values, text among numbers, infinity."""
    draw = np.random.default_rng(12)
    age = draw.uniform(10, 95, N)
    age[[3, 200, N - 1]], age[[4, 300]] = np.nan, np.inf
    sex = np.where(draw.random(N) < 0.4, "M", "F").astype(object)
    sex[draw.random(N) < 0.01], sex[draw.random(N) < 0.01] = None, "X"
    doses = draw.choice(np.array(list(DOSES), dtype=object), N, p=[0.965, *[0.005] * 7])
    seen = np.array([f"20{draw.integers(19, 26)}-0{month}-11" for month in draw.integers(1, 10, N)], dtype=object)
    seen[[1, 280]], seen[[2, 281]] = None, "soon"
    visits, outcome = draw.integers(0, 10, N), draw.normal(0, 2, N)
    group = draw.choice(np.array(["a", "b", "c"], dtype=object), N, p=[0.5, 0.48, 0.02])
    held = {"age": age, "sex": sex, "seen": seen, "visits": visits, "outcome": outcome, "group": group}
    filed = {name: [None if cell != cell else cell for cell in column.tolist()] for name, column in held.items()}
    memory = {name: column.astype(np.float64) if column.dtype.kind in "if" else column for name, column in held.items()}
    memory["dose"] = np.array([DOSES[cell] for cell in doses], dtype=object)
    return {**filed, "dose": doses.tolist()}, memory


FILED, MEMORY = people()


def arrow() -> Any:
    return pa.table(FILED)


def uneven() -> list[Any]:
    batches: list[Any] = []
    for start, stop in ((0, 1), (1, 1), (1, 230), (230, 231), (231, N)):
        part = arrow().slice(start, stop - start).combine_chunks()
        batches += part.to_batches() or [part.schema.empty_table().to_batches()[0]] if stop > start else []
    return batches


def written(path: Path) -> Path:
    if path.name.endswith(".parquet"):
        pq.write_table(arrow(), path, row_group_size=130)
    elif path.name.endswith(".arrow"):
        feather.write_feather(arrow(), path, chunksize=111)
    elif path.name.endswith(".sqlite"):
        with closing(sqlite3.connect(path)) as line, line:
            line.execute(f"CREATE TABLE people ({', '.join(map(repr, FILED))})")
            marks = ", ".join("?" * len(FILED))
            line.executemany(f"INSERT INTO people VALUES ({marks})", list(zip(*FILED.values(), strict=True)))
    else:
        mark = "\t" if ".tsv" in path.name else ","
        lines = [mark.join(FILED)]
        for cells in zip(*FILED.values(), strict=True):
            shown = ["" if cell is None else repr(cell) if isinstance(cell, float) else str(cell) for cell in cells]
            lines.append(mark.join(f'"{cell}"' if "," in cell else cell for cell in shown))
        text = "\n".join(lines).encode()
        path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def relation(place: Path) -> Any:
    line = duckdb.connect()
    line.register("people", arrow())
    _LINES.append(line)
    return line.sql("SELECT * FROM people")


_LINES: list[Any] = []


def on_dask(place: Path) -> Any:
    frame = pd.DataFrame({name: pd.Series(column) for name, column in MEMORY.items()})
    with dask.config.set({"dataframe.convert-string": False}):
        return dd.from_pandas(frame, npartitions=3)


def parts(place: Path) -> Path:
    (place / "set").mkdir()
    for number, start in enumerate(range(0, N, 200)):
        pq.write_table(arrow().slice(start, 200), place / "set" / f"{number}.parquet")
    return place / "set"


SOURCES: dict[str, Callable[[Path], Any]] = {
    "parquet": lambda place: written(place / "x.parquet"),
    "folder of parquet": parts,
    "arrow file": lambda place: written(place / "x.arrow"),
    "arrow table": lambda place: arrow(),
    "batches": lambda place: uneven(),
    "data set": lambda place: pads.dataset(str(written(place / "x.parquet")), format="parquet"),
    "duckdb relation": relation,
    "query over files": lambda place: sql("SELECT * FROM t", tables={"t": written(place / "x.parquet")}),
    "query in a database": lambda place: sql("SELECT * FROM people", database=written(place / "x.sqlite")),
    "csv": lambda place: written(place / "x.csv"),
    "csv.gz": lambda place: written(place / "x.csv.gz"),
    "tsv": lambda place: written(place / "x.tsv"),
    "dask": on_dask,
}
FILES = ("parquet", "folder of parquet", "arrow file", "query over files", "query in a database", "csv", "csv.gz")
CHOSEN = ["dose", "age", "visits"]
VIEWS = [{name: RANGES[name] for name in ("age", "sex")}, {name: RANGES[name] for name in ("dose", "visits")}]
OF_ROWS = {name: spec for name, spec in RANGES.items() if name != "seen"}
KINDS: dict[str, Callable[[Any, Any], Records]] = {
    "rows": lambda X, of: rows(X, bound=9.0, feature_names=CHOSEN) if of is None else rows(of(CHOSEN), bound=9.0),
    "rows in ranges": lambda X, of: rows(X, ranges=RANGES),
    "labelled": lambda X, of: labelled(
        X, "group" if of is None else MEMORY["group"], ranges=OF_ROWS, classes=["a", "b"]
    ),
    "response": lambda X, of: labelled(
        X, "outcome" if of is None else MEMORY["outcome"], ranges=OF_ROWS, response=(-1, 1), outside="refuse"
    ),
    "text among responses": lambda X, of: labelled(
        X, "dose" if of is None else MEMORY["dose"], ranges=VIEWS[0], response=(0, 9)
    ),
    "views": lambda X, of: views(X, X, ranges=VIEWS),
    "table": lambda X, of: table(X, columns=RANGES),
}


def columns_of_memory(names: list[str]) -> dict[str, np.ndarray]:
    return {name: MEMORY[name] for name in names}


def same_bits(one: Iterator[Any], other: Iterator[Any]) -> None:
    for left, right in zip(one, other, strict=True):
        for mine, theirs in zip(*(part if isinstance(part, tuple) else (part,) for part in (left, right)), strict=True):
            assert mine.dtype == theirs.dtype
            assert mine.shape == theirs.shape
            assert np.ascontiguousarray(mine).tobytes() == np.ascontiguousarray(theirs).tobytes()


@pytest.mark.filterwarnings("ignore::dpcape.core.errors.UtilityWarning")
@pytest.mark.parametrize(
    ("kind", "how"), [*((kind, "streamed") for kind in SOURCES), *((kind, "whole") for kind in FILES)]
)
def test_every_source_gives_the_blocks_of_memory_to_the_bit(
    kind: str, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpcape.records.streamed._WINDOW_ENTRIES", 700)
    if how == "streamed":
        monkeypatch.setattr(sources, "LARGE_BYTES", 0)
    source = SOURCES[kind](tmp_path)
    with dask.config.set(scheduler="synchronous"):
        for make in KINDS.values():
            found, memory = make(source, None), make(MEMORY, columns_of_memory)
            assert isinstance(found, Streamed) or how == "whole"
            assert found.facts() == memory.facts()
            assert found.n_invalid == memory.n_invalid
            assert found.n_invalid > 0 or memory.kind == "table"
            assert getattr(found, "unusable", {}) == getattr(memory, "unusable", {})
            same_bits(found.blocks(128), memory.blocks(128))
            if memory.kind == "table":
                same_bits(found.blocks(1024), memory.blocks(1024))  # type: ignore[attr-defined]  # tables
            else:
                same_bits(found.all_blocks(100), memory.all_blocks(100))
                same_bits(found.shortened_blocks(333), memory.shortened_blocks(333))


def test_tables_in_memory_have_what_is_tested() -> None:
    with pytest.warns(UtilityWarning, match="count as missing"):
        memory = table(MEMORY, columns=RANGES)
    assert isinstance(memory, TypedTable)
    assert set(memory.unusable) == {"age", "sex", "dose", "seen"}


@pytest.mark.filterwarnings("ignore::dpcape.core.errors.UtilityWarning")
@pytest.mark.parametrize("name", ["x.csv", "x.csv.gz", "x.parquet", "x.arrow"])
def test_a_text_cell_in_a_column_of_numbers_makes_its_own_record_invalid(name: str, tmp_path: Path) -> None:
    """Two neighbouring files: nobody but the site can tell from a refusal or from other records which one it has."""
    counts = [["1", "2", "0"], ["4", "0", "3"], ["2", "2", "2"]]
    for at, cell in ((None, ""), (1, "abc"), (1, "-3"), (2, "inf")):
        filed = [list(row) for row in counts]
        if at is not None:
            filed[at][1] = cell
        cells = dict(zip("abc", zip(*filed, strict=True), strict=True))
        path = tmp_path / name
        if path.suffix in (".csv", ".gz"):
            text = "\n".join(["a,b,c", *(",".join(row) for row in filed)]).encode()
            path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
        else:
            (pq.write_table if path.suffix == ".parquet" else feather.write_feather)(pa.table(cells), path)
        found, valid = documents(path), [number for number in range(3) if number != at]
        assert found.n_records == 3
        assert found.n_invalid == (at is not None)
        dense = np.concatenate([block.toarray() for block in found.blocks()])
        np.testing.assert_array_equal(dense[valid], np.array(counts, dtype=float)[valid])


# --- windows that wait -----------------------------------------------------------------------------------------------


def test_windows_that_wait_are_not_overwritten_while_a_slow_statistic_reads(tmp_path: Path) -> None:
    """As many arrays as windows that wait, are made and are in use; one less, and the one in use is filled again."""
    n_rows, n_windows = 50, 4 * (AHEAD + 2)
    values = np.arange(2.0 * n_rows * n_windows).reshape(-1, 2)
    path = tmp_path / "x.csv"
    path.write_text("a,b\n" + "".join(f"{a!r},{b!r}\n" for a, b in values.tolist()))
    recipe = OfRows(bound=1.0, ranges=None, missing=None, feature_names=None, invalid="zero")

    def slowly_read() -> np.ndarray:
        seen = []
        for raw in read_ahead(SourceStream(CsvFile(path), recipe).windows(n_rows)):
            time.sleep(0.02)
            seen.append(np.array(raw[0]))
        return np.concatenate(seen)

    np.testing.assert_array_equal(slowly_read(), values)
    # The test sees the fault it is for.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source_stream, "AHEAD", AHEAD - 1)
        assert not np.array_equal(slowly_read(), values)


def test_a_slow_reader_of_a_table_gets_the_blocks_of_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpcape.records.streamed._WINDOW_ENTRIES", 64)
    monkeypatch.setattr(sources, "LARGE_BYTES", 0)
    columns = {"age": (18, 90), "visits": (0, 8)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UtilityWarning)
        found, memory = table(written(tmp_path / "x.parquet"), columns=columns), table(MEMORY, columns=columns)

    def slowly(blocks: Iterator[Any]) -> Iterator[Any]:
        for number, block in enumerate(blocks):
            if number < 30:
                time.sleep(0.01)
            yield block

    same_bits(slowly(found.blocks(16)), memory.blocks(16))


def test_arrow_does_not_run_ahead_of_a_slow_statistic(tmp_path: Path) -> None:
    """Its own threads would decode up to 1 GiB that nobody has asked for."""
    values = np.random.default_rng(0).normal(size=(8, 2**16))
    part = pa.table({f"x{at}": column for at, column in enumerate(values)})
    with pq.ParquetWriter(tmp_path / "x.parquet", part.schema, use_dictionary=False) as writer:
        for _ in range(64):
            writer.write_table(part)
    records = rows(pads.dataset(str(tmp_path / "x.parquet"), format="parquet"), bound=1.0)
    assert records.n_records * 8 * 8 == 2**28
    before, most = pa.total_allocated_bytes(), 0
    for _ in records.blocks(2**15):
        time.sleep(0.01)
        most = max(most, pa.total_allocated_bytes() - before)
    assert most < 2**26


@pytest.mark.filterwarnings("ignore::dpcape.core.errors.UtilityWarning")
@pytest.mark.parametrize("name", ["x.csv", "x.csv.gz", "x.parquet", "x.arrow", "x.sqlite"])
def test_a_file_that_changed_between_passes_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "LARGE_BYTES", 0)
    path = written(tmp_path / name)
    source = sql("SELECT * FROM people", database=path) if path.suffix == ".sqlite" else path
    records = [rows(source, ranges=OF_ROWS), table(source, columns=RANGES)]
    for entry in records:
        entry.check_unchanged()
    changed = FILED["sex"][:]
    changed[77] = "M" if changed[77] == "F" else "F"
    monkeypatch.setitem(FILED, "sex", changed)
    path.unlink()
    written(path)
    for entry in records:
        with pytest.raises(ProtocolError, match="not those that were read first"):
            entry.check_unchanged()
        with pytest.raises(ProtocolError, match="not those that were read first"):
            list(entry.blocks())
    path.unlink()
    for entry in records:
        with pytest.raises((ProtocolError, OSError)):
            list(entry.blocks())


# --- series of people ------------------------------------------------------------------------------------------------


def folder_of(place: Path, form: str, odd: str) -> Path:
    """Five people, the third of whom has a file like no other."""
    draw = np.random.default_rng(3)
    folder = place / f"{form} {odd}"
    folder.mkdir()
    for person in range(5):
        series = draw.normal(size=(6, 3)).round(3)
        if person == 2:
            series = {"width": series[:, :2], "wide": np.c_[series, series], "flat": series[:, 0]}.get(odd, series)
        path = folder / f"p{person}.{form}"
        if form == "npy":
            np.save(path, series)
            if person == 2 and odd == "damaged":
                path.write_bytes(path.read_bytes()[:40])
        else:
            names = [f"c{at}" for at in range(np.atleast_2d(series).shape[1] if series.ndim > 1 else 1)]
            shown = [",".join(map(str, np.atleast_1d(line).tolist())) for line in series]
            if person == 2 and odd == "text":
                shown[1] = "abc,1,2"
            path.write_text("\n".join([",".join(names), *shown]))
    return folder


@pytest.mark.parametrize(
    ("form", "odd"),
    [("npy", "width"), ("npy", "wide"), ("npy", "flat"), ("npy", "damaged"), ("csv", "width"), ("csv", "text")],
)
@pytest.mark.filterwarnings("ignore:.*must hold numbers")
def test_one_person_s_file_of_another_shape_makes_that_person_invalid(form: str, odd: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"bound": 2.0, "unit": "subject", "rows_per_subject": 6, "n_features": 3}
    if form == "csv":
        options["feature_names"] = ["c0", "c1", "c2"]
    usual = subjects(folder_of(tmp_path, form, "nothing"), **options)
    assert usual.n_invalid == 0
    with pytest.warns(UtilityWarning, match="1 of 5 records cannot be read"):
        found = subjects(folder_of(tmp_path, form, odd), **options)
    assert found.facts() == usual.facts()
    assert found.n_invalid == 1
    expected = [series.copy() for number, series in enumerate(usual.each_subject()) if number != 2]
    for left, right in zip(found.each_subject(), expected, strict=True):
        np.testing.assert_array_equal(left, right)


def test_a_study_counts_a_person_s_file_of_another_width_as_an_invalid_person(tmp_path: Path) -> None:
    text = HEAD.format(
        analysis="joint_ica",
        parameters="n_components = 2\nn_timepoints = 6\ninsist = true",
        data='kind = "subjects"\nbound = 2.0\nunit = "subject"\nrows_per_subject = 6\nfeatures = 3',
    )
    study = Study.parse(text, path=tmp_path / "study.toml")
    usual = study.records_for("lyon", folder_of(tmp_path, "npy", "nothing"))
    with pytest.warns(UtilityWarning, match="1 of 5 records cannot be read"):
        found = study.records_for("lyon", folder_of(tmp_path, "npy", "width"))
    assert found.facts() == usual.facts()
    (tmp_path / "npy wide").mkdir()
    (tmp_path / "npy wide" / "notes.txt").write_text("not a person")
    with pytest.raises(InvalidParameter, match=r"A data file must be \.csv"):
        study.records_for("lyon", tmp_path / "npy wide")


@pytest.mark.parametrize("odd", ["width", "wide"])
def test_time_points_of_another_width_count_and_are_invalid(odd: str, tmp_path: Path) -> None:
    usual = subjects(folder_of(tmp_path, "npy", "nothing"), bound=2.0, unit="record", n_features=3)
    with pytest.warns(UtilityWarning, match="6 of 30 records cannot be read"):
        found = subjects(folder_of(tmp_path, "npy", odd), bound=2.0, unit="record", n_features=3)
    assert found.facts() == usual.facts()
    expected = np.concatenate([block.copy() for block in usual.blocks(6)])
    np.testing.assert_array_equal(np.concatenate(list(found.blocks(30))), np.delete(expected, range(12, 18), axis=0))
