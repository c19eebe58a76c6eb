"""Tables of typed columns: what counts as missing, dates, times to an event, and that no value can break the codes."""

from __future__ import annotations

import datetime
import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcape import Schema, rows, table
from dpcape.core.errors import InvalidParameter, UtilityWarning
from dpcape.core.facts import PublicColumn
from dpcape.statistics.cells import encoding
from dpcape.statistics.grouped_counts import grouped_counts

COLUMNS: dict[str, Any] = {
    "age": (20, 80),
    "sex": ["F", "M"],
    "stage": {"levels": [1, 2, 3]},
    "seen": {"range": ["2020-01-01", "2021-01-01"]},
    "survival": {"time": "days", "event": "died", "range": [0, 1000]},
}
PEOPLE: dict[str, Any] = {
    "age": [50.0, 95.0, None],
    "sex": ["M", None, "F"],
    "stage": [3.0, 1.0, None],
    "seen": ["2020-07-02", None, "2020-01-01"],
    "days": [500.0, 2000.0, None],
    "died": [1.0, 0.0, None],
}
CODED = np.array(
    [[0.0, 1.0, 2.0, 0.0, 0.0, 1.0], [1.0, np.nan, 0.0, np.nan, 1.0, 0.0], [np.nan, 0.0, np.nan, -1.0, np.nan, np.nan]]
)


def coded(data: Any, columns: Any = COLUMNS) -> Any:
    return np.vstack([block.copy() for block in table(data, columns=columns).blocks(2)])


def _as_pandas() -> Any:
    frame = pd.DataFrame(PEOPLE)
    frame["seen"] = pd.to_datetime(frame["seen"])
    return frame


def _as_polars() -> Any:
    return pl.DataFrame(PEOPLE, strict=False).with_columns(pl.col("seen").str.to_date())


@pytest.mark.parametrize(
    "make",
    [
        lambda: PEOPLE,
        _as_pandas,
        lambda: _as_pandas().astype({"sex": "category", "stage": "Int64"}),
        lambda: pd.DataFrame(PEOPLE),
        _as_polars,
        lambda: {**PEOPLE, "seen": np.array(["2020-07-02", "NaT", "2020-01-01"], dtype="datetime64[D]")},
    ],
    ids=["mapping", "pandas", "pandas-types", "pandas-text", "polars", "datetime64"],
)
def test_the_same_people_give_the_same_codes_however_they_are_held(make: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UtilityWarning)
        np.testing.assert_allclose(coded(make()), CODED, atol=1e-12)


def test_public_facts_say_what_is_agreed_and_nothing_else() -> None:
    facts = table(PEOPLE, columns=COLUMNS).facts()
    kinds = {column.name: column.kind for column in facts.columns}
    assert kinds == {
        "age": "number", "sex": "category", "stage": "category", "seen": "date", "days": "number", "died": "category",
    }  # fmt: skip
    assert facts.columns[3].low == (datetime.date(2020, 1, 1) - datetime.date(1970, 1, 1)).days
    assert [(entry.name, entry.time, entry.event, entry.occurred) for entry in facts.events] == [
        ("survival", "days", "died", "1")
    ]
    other = table({name: values[::-1] for name, values in PEOPLE.items()}, columns=COLUMNS).facts()
    assert other == facts


def test_what_cannot_be_used_counts_as_missing_and_is_said_locally() -> None:
    people = {
        **PEOPLE,
        "sex": ["M", "X", "F"],
        "age": [50.0, float("inf"), "old"],
        "seen": ["soon", None, "2020-01-01"],
    }
    with pytest.warns(UtilityWarning, match=r"age: 2, sex: 1, seen: 1.*stay here"):
        records = table({name: np.array(values, dtype=object) for name, values in people.items()}, columns=COLUMNS)
    assert records.n_invalid == 0
    assert records.unusable == {"age": 2, "sex": 1, "seen": 1}
    block = next(records.blocks())
    assert np.isnan(block[1:, 0]).all()
    assert np.isnan(block[1, 1])
    assert np.isnan(block[0, 3])


def test_a_fill_replaces_missing_values_only() -> None:
    columns = {"age": {"range": (20, 80), "missing": 50}, "sex": {"levels": ["F", "M"], "missing": "M"}}
    with pytest.warns(UtilityWarning):
        found = coded({"age": [None, float("inf")], "sex": [None, "X"]}, columns)
    np.testing.assert_array_equal(found, [[0.0, 1.0], [np.nan, np.nan]])


def test_rows_take_dates_too() -> None:
    ranges = {"seen": {"range": ["2020-01-01", "2021-01-01"], "missing": "2020-07-02"}, "age": (20, 80)}
    records = rows({"seen": ["2020-01-01", None], "age": [20, 80]}, ranges=ranges)
    np.testing.assert_allclose(next(records.blocks()), [[-1.0, -1.0], [0.0, 1.0]])


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"seen": {"range": ["soon", "later"]}}, "must be a date such as"),
        ({"s": {"time": "days", "event": "died"}}, "must have time, event and range"),
        ({"s": {"time": "days", "event": "days", "range": [0, 5]}}, "must name two columns"),
        ({"s": {"time": "days", "event": "died", "range": [1, 5]}}, "must begin at 0"),
        ({"s": {"time": "days", "event": "died", "range": [0, 5], "occurred": 7}}, "must be one of its levels"),
        ({"s": {"time": "days", "event": "died", "range": [0, 5], "levels": [1]}}, "at least two values"),
        ([(0, 1)], "named columns"),
        ({"weight": (0, 1)}, "must have the column 'weight'"),
    ],
)
def test_columns_that_cannot_be_used_are_refused_in_words(columns: Any, words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        table(PEOPLE, columns=columns)


def test_a_table_gives_out_no_rows_of_bounded_length() -> None:
    with pytest.raises(InvalidParameter, match="got a table"):
        table(PEOPLE, columns=COLUMNS).feature_blocks()


def test_equal_descriptions_have_equal_digests_and_others_do_not() -> None:
    digest = Schema.of(COLUMNS).digest()
    assert Schema.of({**COLUMNS, "seen": (datetime.date(2020, 1, 1), datetime.date(2021, 1, 1))}).digest() == digest
    days = next(column.range for column in Schema.of(COLUMNS).columns if column.name == "seen")
    changed = [
        {**COLUMNS, "seen": days},
        {**COLUMNS, "survival": {**COLUMNS["survival"], "occurred": 0}},
        {**COLUMNS, "seen": {"range": ["2020-01-01", "2021-01-02"]}},
    ]
    assert len({digest, *(Schema.of(entry).digest() for entry in changed)}) == 4


ANYTHING = st.one_of(
    st.none(), st.floats(), st.integers(-(10**30), 10**30), st.text(max_size=3), st.booleans(), st.binary(max_size=2),
    st.dates(), st.datetimes(), st.lists(st.integers(), max_size=2), st.sampled_from(["F", "M", 1, 2, 3, 30.0]),
)  # fmt: skip


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(ANYTHING, min_size=2, max_size=2))
def test_two_records_are_no_farther_apart_than_the_diameter_whatever_they_hold(values: list[Any]) -> None:
    cells = np.empty(2, dtype=object)
    cells[:] = values
    data = {name: cells for name in ("age", "sex", "stage", "seen")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UtilityWarning)
        columns = {name: COLUMNS[name] for name in data}
        records = [table({name: part[at : at + 1] for name, part in data.items()}, columns=columns) for at in (0, 1)]
    statistic = grouped_counts(records[0].facts(), columns=[0, 2, 3], by=[1], weights=[1.0, 2.0, 1.0], n_bins=7)
    first, second = (statistic.total(entry) for entry in records)
    assert np.linalg.norm(first - second) <= statistic.sensitivity(1)
    assert np.isfinite(first).all()


@pytest.mark.parametrize("bins", [1, 2, 3, 7, 32, 256])
def test_rows_of_an_encoding_have_the_lengths_and_distances_of_the_proof(bins: int) -> None:
    found = encoding(PublicColumn("x", "number", 0.0, 1.0), bins)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), np.sqrt(0.5), rtol=1e-12)
    apart = np.linalg.norm(found[:, np.newaxis] - found, axis=2)
    assert apart.max() <= 1 + 1e-12
    # Otherwise some noise would be for nothing.
    assert apart.max() >= 1 - 1e-12


def test_an_encoding_exists_for_the_largest_number_of_bins() -> None:
    found = encoding(PublicColumn("x", "number", 0.0, 1.0), 1024)
    assert np.linalg.norm(found, axis=1).max() <= np.sqrt(0.5) * (1 + 1e-12)


@pytest.mark.parametrize(
    "public",
    [
        {"columns": [0, 0]},
        {"columns": [9]},
        {"columns": [-1]},
        {"columns": []},
        {"columns": [1], "by": [1]},
        {"by": [0]},
        {"weights": [0.0]},
        {"weights": [np.nan]},
        {"weights": [1.0, 1.0]},
        {"n_bins": 0},
        {"n_bins": 10**6},
    ],
)
def test_public_values_outside_the_proof_are_refused(public: dict[str, Any]) -> None:
    facts = table(PEOPLE, columns=COLUMNS).facts()
    usual: dict[str, Any] = {"columns": [3], "by": [1], "weights": [1.0], "n_bins": 4}
    with pytest.raises(InvalidParameter):
        grouped_counts(facts, **{**usual, **public})


@pytest.mark.filterwarnings("ignore::dpcape.core.errors.UtilityWarning")
@pytest.mark.parametrize("size", [3, 7, 64])
def test_large_tables_have_the_codes_and_the_counts_of_small_ones(monkeypatch: Any, size: int) -> None:
    # Of a large table numbers are not kept, and several blocks are read together.
    source = np.random.default_rng(0)
    age = source.normal(50, 40, 100)
    age[[3, 50]], age[[7, 99]] = np.inf, np.nan
    people = {
        "age": age,
        "long": np.append(age[1:], 1e4000 * np.longdouble(1)).astype(np.longdouble),
        "whole": source.integers(0, 99, 100),
        "stage": source.choice([1, 2, 3, 9], 100),
        "site": np.full(100, 2),
        "sex": source.choice(np.array(["F", "M", None, "?"], dtype=object), 100),
    }
    kinds = {"stage": {"levels": [1, 2, 3]}, "site": {"levels": [3, 2]}, "sex": ["F", "M"]}
    columns = {**dict.fromkeys(("age", "long", "whole"), (20, 80)), **kinds}
    found = []
    for most, together in ((1 << 20, 1 << 16), (0, 1 << 16), (0, 1)):
        monkeypatch.setattr("dpcape.records.typed_table.KEPT_ENTRIES", most)
        monkeypatch.setattr("dpcape.records.typed_table._READ_TOGETHER", together)
        records = table(people, columns=columns)
        blocks = [block.copy() for block in records.blocks(size)]
        assert [len(block) for block in blocks] == [min(size, 100 - start) for start in range(0, 100, size)]
        found.append((np.vstack(blocks), records.unusable))
    for codes, unusable in found:
        np.testing.assert_array_equal(codes, found[0][0])
        assert unusable == found[0][1]
    assert found[0][1]["age"] == 2
    assert (found[0][0][:, 4] == 1).all()
