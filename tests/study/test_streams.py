"""Records read window by window: equal to those in memory, bounded in memory, refused when the source changes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest

from dpcape import PCA, Cape, Federation, Ledger, Replay, in_process, labelled, rows, views
from dpcape.core.errors import InvalidParameter, ProtocolError, UtilityWarning
from dpcape.core.site import Site
from dpcape.records import sources
from dpcape.records.kinds import Records
from dpcape.records.read_ahead import read_ahead
from dpcape.records.streamed import Streamed
from dpcape.statistics.moments import second_moment
from dpcape.study.study import Study

from .test_sources import same
from .texts import HEAD

N = 2200
RANGES = {"age": (18, 90), "sex": ["F", "M"], "height": {"range": (1.2, 2.2), "missing": 1.7}}


def people(n: int = N) -> pa.Table:
    """Numbers and text with missing values, and two outcomes."""
    draw = np.random.default_rng(5)
    age = draw.uniform(10, 95, n)
    age[draw.integers(0, n, 4)] = np.nan
    return pa.table(
        {
            "age": age,
            "sex": pa.array(np.where(draw.random(n) < 0.3, "M", "F"), mask=draw.random(n) < 0.002),
            "height": pa.array(draw.normal(1.7, 0.1, n), mask=draw.random(n) < 0.02),
            "visits": pa.array(draw.integers(0, 9, n), pa.int32()),
            "outcome": draw.normal(0, 2, n),
            "group": np.array(["a", "b"])[draw.integers(0, 2, n)],
        }
    )


class Again:
    """An iterable that can be gone through again."""

    def __init__(self, batches: list[pa.RecordBatch]) -> None:
        self.batches = batches

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return iter(self.batches)


def uneven(table: pa.Table) -> list[pa.RecordBatch]:
    """Batches of uneven lengths, one of them empty."""
    ends = [0, 1, 1, 700, 1724, 1725, table.num_rows]
    return [whole_batch(table.slice(start, stop - start)) for start, stop in pairwise(ends)]


def whole_batch(table: pa.Table) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([table[name].combine_chunks() for name in table.column_names], table.column_names)


def as_dataset(table: pa.Table, place: Path) -> pads.Dataset:
    for number, start in enumerate(range(0, table.num_rows, 1000)):
        pq.write_table(table.slice(start, 1000), place / f"part{number}.parquet", row_group_size=400)
    return pads.dataset(str(place), format="parquet")


SOURCES: dict[str, Callable[[pa.Table, Path], object]] = {
    "data set": as_dataset,
    "batches": lambda table, place: uneven(table),
    "iterable": lambda table, place: Again(uneven(table)),
    "function": lambda table, place: lambda: pa.Table.from_batches(uneven(table)).to_reader(),
    "table": lambda table, place: table,
    "duckdb": lambda table, place: _relation(table),
}


# Older versions of DuckDB close a connection that nobody refers to, though a relation needs it.
_LINES: list[duckdb.DuckDBPyConnection] = []


def _relation(table: pa.Table) -> object:
    line = duckdb.connect()
    _LINES.append(line)
    line.register("people", table)
    return line.sql("SELECT * FROM people")


def columns(table: pa.Table, *names: str) -> dict[str, np.ndarray]:
    """Columns as a file reader gives them: NaN where a number is missing, None where a text is."""
    return {
        name: np.array(table[name].to_pylist(), dtype=object)
        if pa.types.is_string(table[name].type)
        else np.asarray(table[name].to_numpy(), dtype=np.float64)
        for name in names
    }


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.filterwarnings("ignore::dpcape.core.errors.UtilityWarning")
def test_a_stream_gives_the_blocks_of_the_same_values_in_memory(kind: str, tmp_path: Path, monkeypatch: Any) -> None:
    # Many windows, whose ends are not those of batches.
    monkeypatch.setattr("dpcape.records.streamed._WINDOW_ENTRIES", 2000)
    table = people()
    source = SOURCES[kind](table, tmp_path)
    numbers, described = columns(table, "age", "height", "visits"), columns(table, *RANGES)
    with_labels = {"bound": 1.5, "ranges": RANGES}
    pairs: list[tuple[Records, Records]] = [
        (rows(source, bound=2.0, feature_names=list(numbers)), rows(numbers, bound=2.0)),
        (rows(source, ranges=RANGES), rows(described, ranges=RANGES)),
        (
            labelled(source, "group", classes=["a", "b"], **with_labels),
            labelled(described, columns(table, "group")["group"], classes=["a", "b"], **with_labels),
        ),
        (
            labelled(source, "outcome", response=(-1, 1), outside="refuse", **with_labels),
            labelled(described, table["outcome"].to_numpy(), response=(-1, 1), outside="refuse", **with_labels),
        ),
        (
            views(source, source, ranges=[RANGES, {"visits": (0, 8)}]),
            views(described, columns(table, "visits"), ranges=[RANGES, {"visits": (0, 8)}]),
        ),
    ]
    for stream, memory in pairs:
        assert isinstance(stream, Streamed)
        assert stream.facts() == memory.facts()
        assert stream.n_invalid == memory.n_invalid > 0
        compare(stream.blocks(1024), memory.blocks(1024))
        compare(stream.all_blocks(100), memory.all_blocks(100))
        compare(stream.shortened_blocks(333), memory.shortened_blocks(333))
    compare(pairs[0][0].feature_blocks(7), pairs[0][1].feature_blocks(7))


def compare(one: Iterator[Any], other: Iterator[Any]) -> None:
    for left, right in zip(one, other, strict=True):
        for mine, theirs in zip(_tuple(left), _tuple(right), strict=True):
            np.testing.assert_array_equal(mine, theirs)


def _tuple(block: Any) -> tuple[Any, ...]:
    return block if isinstance(block, tuple) else (block,)


def test_a_whole_analysis_of_a_stream_is_bit_for_bit_that_in_memory(tmp_path: Path) -> None:
    X = np.random.default_rng(2).normal(size=(7000, 4))
    source = as_dataset(pa.table({f"x{at}": X[:, at] for at in range(4)}), tmp_path)

    names = [f"x{at}" for at in range(4)]
    held = rows(X, bound=2.0, feature_names=names)

    def fitted(first: Records) -> PCA:
        sites = in_process({"a": first, "b": held, "c": held}, noise=Replay(3))
        model = PCA(n_components=2, epsilon=1.0, delta=1e-6, center=True)
        return model.fit(Federation(sites, protocol=Cape(n_colluding=1)))

    one, other = fitted(rows(source, bound=2.0)), fitted(held)
    np.testing.assert_array_equal(one.components_, other.components_)
    assert str(one.guarantee_) == str(other.guarantee_)


# --- what changes is refused -----------------------------------------------------------------------------------------


def numbers(n: int = 3000) -> pa.Table:
    draw = np.random.default_rng(9)
    return pa.table({"a": draw.normal(size=n), "b": draw.normal(size=n)})


def _changed(table: pa.Table, how: str) -> pa.Table:
    a, b = (table[name].to_numpy().copy() for name in ("a", "b"))
    if how == "one value":
        b[1234] = np.nextafter(b[1234], 9)
    elif how == "another order":
        a[[5, 2500]], b[[5, 2500]] = a[[2500, 5]], b[[2500, 5]]
    elif how == "a row more":
        a, b = np.append(a, 0.5), np.append(b, 0.5)
    elif how == "a row less":
        a, b = a[:-1], b[:-1]
    return pa.table({"a": a, "b": b})


CHANGES = ("one value", "another order", "a row more", "a row less")


def fit(records: Records, ledger: Ledger) -> None:
    others = {name: rows(np.eye(2), bound=1.0, feature_names=["a", "b"]) for name in ("b", "c")}
    sites = in_process({"here": records, **others}, ledgers={"here": ledger})
    PCA(n_components=1, epsilon=1.0, delta=1e-6, center=False).fit(Federation(sites, protocol=Cape(n_colluding=1)))


@pytest.mark.parametrize("how", CHANGES)
def test_a_source_that_changed_before_the_run_is_refused_and_nothing_is_charged(how: str) -> None:
    source, ledger = Again(uneven_numbers(numbers())), Ledger()
    records = rows(source, bound=1.0)
    source.batches = uneven_numbers(_changed(numbers(), how))
    with pytest.raises(ProtocolError, match=r"not those that were read first.*Nothing was charged"):
        fit(records, ledger)
    assert not ledger.charges


def uneven_numbers(table: pa.Table) -> list[pa.RecordBatch]:
    return table.to_batches(max_chunksize=701)


@pytest.mark.parametrize("how", [*CHANGES, "nothing"])
def test_files_that_were_written_again_are_refused_unless_they_hold_the_same(how: str, tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    pq.write_table(numbers(), path)
    _age(path, 60)
    records, ledger = rows(pads.dataset(str(path), format="parquet"), bound=1.0), Ledger()
    pq.write_table(_changed(numbers(), how), path)
    if how == "nothing":
        fit(records, ledger)
        assert len(ledger.charges) == 1
        return
    with pytest.raises(ProtocolError, match="Nothing was charged"):
        fit(records, ledger)
    assert not ledger.charges


def test_files_as_young_as_the_first_reading_are_compared_by_value(tmp_path: Path) -> None:
    """A file system that tells seconds would give the same time to a file that is written twice in one."""
    path = tmp_path / "table.parquet"
    pq.write_table(numbers(), path)
    records = rows(pads.dataset(str(path), format="parquet"), bound=1.0)
    kept = path.stat()
    pq.write_table(_changed(numbers(), "one value"), path)
    os.utime(path, ns=(kept.st_atime_ns, kept.st_mtime_ns))
    assert path.stat().st_size == kept.st_size
    with pytest.raises(ProtocolError, match="not those that were read first"):
        records.check_unchanged()


def _age(path: Path, seconds: int) -> None:
    then = time.time_ns() - seconds * 10**9
    os.utime(path, ns=(then, then))


@pytest.mark.parametrize("how", CHANGES)
def test_a_source_that_changes_after_the_charge_gives_no_release(how: str, monkeypatch: Any) -> None:
    source, ledger = Again(uneven_numbers(numbers())), Ledger()
    records = rows(source, bound=1.0)
    unchanged = Site._check_unchanged

    def then_change(site: Site) -> None:
        unchanged(site)
        if site.name == "here":
            source.batches = uneven_numbers(_changed(numbers(), how))

    monkeypatch.setattr(Site, "_check_unchanged", then_change)
    with pytest.raises(ProtocolError, match="the site failed; its own log says why"):
        fit(records, ledger)
    # Other sites had agreed and the release had begun: the charge stands, as for any run that fails.
    assert len(ledger.charges) == 1


def test_files_that_change_while_they_are_read_give_no_total(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("dpcape.records.streamed._WINDOW_ENTRIES", 64)
    path = tmp_path / "table.parquet"
    pq.write_table(numbers(), path)
    _age(path, 60)
    records = rows(pads.dataset(str(path), format="parquet"), bound=1.0)
    blocks = records.feature_blocks(16)
    next(blocks)
    # A few windows are read ahead, not all of them.
    pq.write_table(numbers(), path)
    with pytest.raises((ProtocolError, OSError)):
        for _ in blocks:
            pass


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (lambda: numbers().to_reader(), "can be read once"),
        (lambda: iter(numbers().to_batches()), "can be read once"),
        (lambda: (batch for batch in numbers().to_batches()), "can be read once"),
        (lambda: Again([]), "without batches"),
        (lambda: numbers(0), "without rows|without batches"),
        (lambda: Again([[1.0, 2.0]]), "record batches of pyarrow; got list"),
        (lambda: Again([numbers(3).to_batches()[0], pa.table({"a": [1.0]}).to_batches()[0]]), "not those"),
        (lambda: pa.Table.from_arrays([pa.array([1.0]), pa.array([2.0])], names=["a", "a"]), "unique"),
    ],
)
def test_what_is_no_stream_of_records_is_refused_in_words(source: Callable[[], object], words: str) -> None:
    with pytest.raises((InvalidParameter, ProtocolError), match=words):
        rows(source(), bound=1.0)


@pytest.mark.filterwarnings("ignore:.* records cannot be read and contribute zero")
def test_arguments_are_checked_as_for_values_in_memory() -> None:
    table = people()
    with pytest.raises(InvalidParameter, match=r"The column 'wieght' of the study is not in the stream|wieght"):
        rows(table, ranges={"wieght": (0, 1)})
    with pytest.raises(InvalidParameter, match="y must be the name of a column"):
        labelled(table, np.zeros(N), ranges=RANGES, response=(0, 1))
    with pytest.raises(InvalidParameter, match="All views of a stream"):
        views(table, people(), ranges=[RANGES, RANGES])
    with pytest.raises(InvalidParameter, match="the stream, record 1: column 'group' must hold numbers"):
        rows(table, bound=1.0, feature_names=["age", "group"], invalid="refuse")
    with pytest.warns(UtilityWarning, match="the stream, record 1: column 'group' must hold numbers"):
        assert rows(table, bound=1.0, feature_names=["age", "group"]).n_invalid == N
    with pytest.raises(InvalidParameter):
        rows(table, bound=1.0, feature_names=["age", "height"], invalid="refuse")
    with pytest.warns(UtilityWarning, match="records cannot be read and contribute zero"):
        rows(table, bound=1.0, feature_names=["age", "height"])


# --- reading ahead, memory -----------------------------------------------------------------------------------------


def test_a_reader_that_stops_early_leaves_no_thread() -> None:
    before = threading.active_count()
    ahead = read_ahead(iter(range(1000)))
    assert next(ahead) == 0
    assert threading.active_count() == before + 1
    ahead.close()  # type: ignore[attr-defined]  # a generator
    assert threading.active_count() == before


def test_errors_of_the_reading_thread_are_raised_where_items_are_used() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        list(read_ahead(items()))


_MEASURED = """
import resource, sys
import pyarrow.dataset
from dpcape import rows
from dpcape.statistics import second_moment
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
def total(name):
    records = rows(pyarrow.dataset.dataset(name, format="parquet"), bound=1.0)
    return second_moment(records.facts()).total(records)
total(sys.argv[1])
before = peak()
total(sys.argv[2])
print(peak() - before)
"""


def test_memory_does_not_grow_with_the_data_set(tmp_path: Path) -> None:
    """A data set of 205 MB is read within 64 MB more than a small one takes."""
    n_columns, n_rows = 16, 100_000
    draw = np.random.default_rng(0)
    values = draw.normal(size=(n_rows, n_columns))
    table = pa.table({f"x{at}": values[:, at] for at in range(n_columns)})
    one, small, large = (tmp_path / name for name in ("one.parquet", "small", "large"))
    pq.write_table(table, one, row_group_size=25_000, use_dictionary=False)
    for folder, n_files in ((small, 1), (large, 16)):
        folder.mkdir()
        for number in range(n_files):
            (folder / f"{number}.parquet").hardlink_to(one)
    ran = subprocess.run(
        [sys.executable, "-c", _MEASURED, str(small), str(large)], capture_output=True, text=True, check=True
    )
    assert int(ran.stdout) < 64 * 2**20 < 16 * values.nbytes / 3


# --- large files ---------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::dpcape.core.errors.UtilityWarning")
def test_large_parquet_files_are_streamed_and_equal_those_read_whole(tmp_path: Path, monkeypatch: Any) -> None:
    as_dataset(people(), tmp_path)
    one = tmp_path / "part0.parquet"

    def made() -> list[Records]:
        return [
            rows(tmp_path, ranges=RANGES),
            rows(one, bound=1.0, feature_names=["age", "height"]),
            labelled(str(tmp_path), "outcome", ranges=RANGES, response=(-5, 5)),
            views(tmp_path, tmp_path, ranges=[RANGES, {"visits": (0, 8)}]),
        ]

    whole = made()
    assert not any(isinstance(records, Streamed) for records in whole)
    monkeypatch.setattr(sources, "LARGE_BYTES", 0)
    for stream, memory in zip(made(), whole, strict=True):
        assert isinstance(stream, Streamed)
        same(stream, memory)


@pytest.mark.filterwarnings("ignore::dpcape.core.errors.UtilityWarning")
@pytest.mark.parametrize("kind", ["rows", "labelled", "views"])
def test_a_study_streams_large_parquet_files_of_a_site(kind: str, tmp_path: Path, monkeypatch: Any) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    as_dataset(people(), folder)
    study = Study.load(_study(kind, tmp_path))
    whole = study.records_for("lyon", folder)
    monkeypatch.setattr(sources, "LARGE_BYTES", 0)
    stream = study.records_for("lyon", folder)
    assert isinstance(stream, Streamed)
    assert not isinstance(whole, Streamed)
    same(stream, whole)


def _study(kind: str, place: Path) -> Path:
    described = 'columns = { age = [18, 90], sex = ["F", "M"] }'
    data = {
        "rows": f'kind = "rows"\n{described}',
        "labelled": f'kind = "labelled"\ntarget = "outcome"\nresponse = [-5, 5]\n{described}',
        "views": f'kind = "views"\n[data.x]\n{described}\n[data.y]\ncolumns = {{ visits = [0, 9] }}',
    }[kind]
    analysis, parameters = {
        "rows": ("pca", "n_components = 2"),
        "labelled": ("linear_regression", ""),
        "views": ("cca", "n_components = 1"),
    }[kind]
    path = place / "study.toml"
    path.write_text(HEAD.format(analysis=analysis, parameters=parameters, data=data))
    return path


def test_a_bar_is_shown_where_it_is_asked_for(capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    records = rows(numbers(), bound=1.0, progress=True)
    assert "reading records" in capsys.readouterr().err
    second_moment(records.facts()).total(records)
    shown = capsys.readouterr()
    assert "reading records" in shown.err
    assert not shown.out
    list(rows(numbers(), bound=1.0).blocks())
    assert not capsys.readouterr().err
