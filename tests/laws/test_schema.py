"""What must hold for schemas: columns to features."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dpcape.core.errors import DamagedFile, DpcapeError, InvalidParameter
from dpcape.records import rows
from dpcape.schema.column import Column, _code
from dpcape.schema.schema import Schema

TOML = """
[columns.age]
range = [0, 100]
missing = 40

[columns.sex]
levels = ["F", "M"]

[columns.grade]
levels = [1, 2, 3]
missing = 2
"""
SPEC = {
    "age": {"range": (0, 100), "missing": 40},
    "sex": ["F", "M"],
    "grade": {"levels": [1, 2, 3], "missing": 2},
}
FEATURES = ("age", "sex=F", "sex=M", "grade=1", "grade=2", "grade=3")
SECRET = 98765.4321

finite = st.floats(allow_nan=False, allow_infinity=False)


@pytest.fixture
def toml_file(tmp_path):
    def write(text):
        path = tmp_path / "schema.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_file_and_mapping_describe_the_same_schema(toml_file):
    read = Schema.from_toml(toml_file(TOML))
    assert read == Schema.of(SPEC)
    assert read.digest() == Schema.of(SPEC).digest()
    assert read.feature_names == FEATURES
    assert [column.name for column in read.columns] == ["age", "sex", "grade"]


def table(kind):
    raw = {"age": [25, None, 250], "sex": ["M", "X", "F"], "grade": [None, 3, 9], "extra": ["no", "no", "no"]}
    if kind == "pandas":
        return pd.DataFrame(raw)
    if kind == "nullable":
        return pd.DataFrame(raw).astype({"age": "Int64", "grade": "Int64", "sex": "category"})
    if kind == "polars":
        return pl.DataFrame(raw)
    if kind == "mapping":
        return raw
    return [np.array([25, np.nan, 250]), np.array(raw["sex"]), np.array([np.nan, 3, 9])]


@pytest.mark.parametrize("kind", ["pandas", "nullable", "polars", "mapping", "columns"])
def test_every_kind_of_table_gives_the_same_features(kind):
    features = Schema.of(SPEC).apply(table(kind))
    expected = [[-0.5, 0, 1, 0, 1, 0], [-0.2, 0, 0, 0, 0, 1], [1, 1, 0, 0, 0, 0]]
    assert features.dtype == np.float64
    assert np.allclose(features, expected, rtol=1e-15)


def test_records_read_a_table_as_the_schema_does_whatever_the_block():
    generator = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "sex": generator.choice(["F", "M", "X"], 500),
            "age": generator.uniform(-10, 120, 500),
            "n": range(500),
        }
    )
    schema = Schema.of({"age": (0, 100), "sex": ["F", "M"]})
    expected = schema.apply(frame)
    for size in (1, 33, 1000):
        records = rows(frame, bound=2.0, ranges=schema)
        assert np.array_equal(np.concatenate([block.copy() for block in records.blocks(size)]), expected)
        assert records.facts().preparation == schema.digest()
        assert records.facts().feature_names == schema.feature_names


@settings(max_examples=300, deadline=None)
@given(st.lists(finite, min_size=1, max_size=20), finite, finite)
def test_ranges_are_mapped_to_the_unit_interval_in_order_and_clamped(values, low, high):
    assume(high / 2 - low / 2 >= 1e-300)
    schema = Schema.of([(low, high)])
    features = schema.apply(np.sort(np.array(values))[:, np.newaxis])[:, 0]
    assert (np.abs(features) <= 1).all()
    assert (np.diff(features) >= 0).all()
    # Between ends that are a few units in the last place apart, there is no number in the middle.
    assume(high / 2 - low / 2 >= 1e-6 * max(abs(low), abs(high)))
    ends = schema.apply(np.array([[low], [high], [low / 2 + high / 2]]))[:, 0]
    assert np.allclose(ends, [-1, 1, 0], atol=1e-9)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(finite, st.sampled_from(["a", "b", "zzz"])), min_size=1, max_size=20))
def test_blocks_and_columns_agree_with_one_value_at_a_time(records):
    schema = Schema.of({"number": (-3, 5), "letter": ["a", "b"]})
    numbers, letters = [number for number, _ in records], [letter for _, letter in records]
    features = schema.apply({"letter": letters, "number": numbers})
    for feature, number, letter in zip(features, numbers, letters, strict=True):
        clamped = min(max(number, -3), 5)
        assert math.isclose(feature[0], (clamped - 1) / 4, abs_tol=1e-12)
        assert np.array_equal(feature[1:], [letter == "a", letter == "b"])


def test_whole_blocks_and_single_columns_are_mapped_alike():
    X = np.random.default_rng(2).normal(size=(40, 3)) * 10
    X[3, 1] = np.nan
    schema = Schema.of([(-5, 5), (0, 1), (-100, 3)]).with_missing({1: 0.25})
    assert np.array_equal(schema.apply(X), schema.apply([X[:, 0], X[:, 1], X[:, 2]]))
    assert np.array_equal(schema.apply(X[:3]), schema.apply(X[:3].tolist()))  # lists are rows, also three of three


def test_apply_leaves_its_input_alone_and_writes_where_told():
    X = np.array([[np.nan, 7.0]])
    out = np.empty((1, 2))
    assert Schema.of([(0, 10), (0, 10)]).with_missing(5).apply(X, out=out) is out
    assert np.array_equal(X, [[np.nan, 7.0]], equal_nan=True)
    assert np.allclose(out, [[0.0, 0.4]])


def test_numbers_match_numeric_levels_whatever_their_type():
    column = Column(name="c", levels=(1, 2))
    for values in (
        np.array([1, 2, 3]),
        np.array([1.0, 2.0, 3.5]),
        np.array([True, 2, Decimal(3)], dtype=object),
    ):
        assert np.array_equal(column.codes(values), [0, 1, -1])


def test_digest_is_fixed_and_moves_with_every_part():
    base = {"a": {"range": (0, 1), "missing": 0.5}, "b": {"levels": ["x", "y"]}}
    digest = Schema.of(base).digest()
    # The canonical text is fixed: if it changed, sites with different versions could not be compared.
    text = '["dpcape schema 1",[["a",[0.0,1.0],null,0.5],["b",null,["x","y"],null]]]'
    assert Schema.of({"a": {"range": [0.0, 1.0], "missing": 0.5}, "b": ["x", "y"]}).digest() == digest
    assert digest == hashlib.sha256(text.encode()).hexdigest()
    others = [
        {"a": {"range": (0, 2), "missing": 0.5}, "b": ["x", "y"]},
        {"a": {"range": (0, 1), "missing": 0.25}, "b": ["x", "y"]},
        {"a": (0, 1), "b": ["x", "y"]},
        {"a": {"range": (0, 1), "missing": 0.5}, "b": ["y", "x"]},
        {"a": {"range": (0, 1), "missing": 0.5}, "b": {"levels": ["x", "y"], "missing": "x"}},
        {"b": ["x", "y"], "a": {"range": (0, 1), "missing": 0.5}},
        {"A": {"range": (0, 1), "missing": 0.5}, "b": ["x", "y"]},
    ]
    assert len({digest, *(Schema.of(other).digest() for other in others)}) == len(others) + 1


def test_schema_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Schema.of(SPEC).columns = ()


REFUSED = {
    "list of two numbers": lambda: Schema.of({"a": [0, 100]}),
    "no description": lambda: Schema.of({}),
    "number for a range": lambda: Schema.of({"a": 5}),
    "text for levels": lambda: Schema.of({"a": "FM"}),
    "text for levels in a mapping": lambda: Schema.of({"a": {"levels": "FM"}}),
    "reversed range": lambda: Schema.of({"a": (1, 0)}),
    "empty range": lambda: Schema.of({"a": (1, 1)}),
    "infinite range": lambda: Schema.of({"a": (0, math.inf)}),
    "NaN range": lambda: Schema.of([(math.nan, 1)]),
    "three ends": lambda: Schema.of([(0, 1, 2)]),
    "text ends": lambda: Schema.of([("0", "1")]),
    "boolean ends": lambda: Schema.of([(False, True)]),
    "narrow range": lambda: Schema.of([(0, 5e-324)]),
    "no levels": lambda: Schema.of({"a": {"levels": []}}),
    "repeated level": lambda: Schema.of({"a": ["x", "x"]}),
    "equal numbers": lambda: Schema.of({"a": [1, 1.0, 2]}),
    "mixed levels": lambda: Schema.of({"a": ["x", 1, 2]}),
    "NaN level": lambda: Schema.of({"a": [1.0, math.nan, 2.0]}),
    "fill not a level": lambda: Schema.of({"a": {"levels": ["x", "y"], "missing": "z"}}),
    "fill outside": lambda: Schema.of({"a": {"range": (0, 1), "missing": 2}}),
    "text fill": lambda: Schema.of({"a": {"range": (0, 1), "missing": "2"}}),
    "unknown key": lambda: Schema.of({"a": {"rang": (0, 1)}}),
    "both": lambda: Schema.of({"a": {"range": (0, 1), "levels": ["x"]}}),
    "neither": lambda: Schema.of({"a": {"missing": 1}}),
    "clashing features": lambda: Schema.of({"a": ["x"], "a=x": (0, 1)}),
    "range and nothing": lambda: Schema((Column(name="a", range=(0, 1)), Column(name="b"))),
    "fill of unknown column": lambda: Schema.of({"a": (0, 1)}).with_missing({"b": 1}),
    "absent column": lambda: Schema.of({"a": (0, 1)}).apply({"b": [SECRET]}),
    "wrong width": lambda: Schema.of({"a": (0, 1)}).apply(np.full((3, 2), SECRET)),
    "unequal columns": lambda: Schema.of({"a": (0, 1), "b": ["x", "y"]}).apply({"a": [1.0], "b": ["x", "y"]}),
    "two-dimensional column": lambda: Schema.of({"a": (0, 1), "b": ["x"]}).apply([np.ones((2, 2)), np.ones((2, 2))]),
    "missing number": lambda: Schema.of({"a": (0, 1)}).apply({"a": [SECRET, math.nan]}),
    "missing number in a block": lambda: Schema.of({"a": (0, 1)}).apply(np.array([[SECRET], [math.nan]])),
    "missing level": lambda: Schema.of({"a": ["x", "y"]}).apply({"a": ["98765", None]}),
    "missing numeric level": lambda: Schema.of({"a": [1, 2, 3]}).apply({"a": [SECRET, math.nan]}),
    "infinite number": lambda: Schema.of({"a": (0, 1)}).apply({"a": [SECRET, math.inf]}),
    "infinite number, filled": lambda: Schema.of({"a": (0, 1)}).with_missing(0).apply(np.array([[math.inf]])),
    "text in a range": lambda: Schema.of({"a": (0, 1)}).apply({"a": ["98765.4321"]}),
    "text among objects": lambda: Schema.of({"a": (0, 1)}).apply({"a": np.array([1, "98765"], dtype=object)}),
    "numbers for text levels": lambda: Schema.of({"a": ["1", "2"]}).apply({"a": [SECRET]}),
    "text for numeric levels": lambda: Schema.of({"a": [1, 2, 3]}).apply({"a": ["98765"]}),
    "object array": lambda: Schema.of({"a": (0, 1)}).apply(np.array([[SECRET]], dtype=object)),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_descriptions_and_values_are_refused_in_house_form_without_data(case):
    with pytest.raises(InvalidParameter, match=r"^.+( must .+; got |is not in ).+\. .+\.$") as caught:
        REFUSED[case]()
    assert "98765" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "columns = 5",
        "[columns]\nage = [0, 100]",
        "[column.age]\nrange = [0, 100]",
        "title = 'x'\n[columns.age]\nrange = [0, 100]",
        "[columns.age]\nrange = [0, 100",
        "[columns.age]\nrange = [0, 100]\nunits = 'years'",
        "[columns.age]\nrange = [0, nan]",
        "",
    ],
)
def test_bad_files_are_refused(toml_file, text):
    with pytest.raises(DpcapeError, match=r"(must .+; got|because) .+\. "):
        Schema.from_toml(toml_file(text))


def test_absent_file_is_refused(tmp_path):
    with pytest.raises(DamagedFile, match=r"absent.toml.*missing"):
        Schema.from_toml(tmp_path / "absent.toml")


@pytest.mark.parametrize("levels", [(0, 1), (2, 0, 1), (True, False), (0.5, 1.5, -1.0), (0.1, 0.2), (2**60, 2**60 + 1)])
@pytest.mark.parametrize(
    "values",
    [
        np.arange(-1, 4),
        np.array([True, False]),
        np.array([0.5, 1.5, -1.0, 0.1, 7.0, np.inf]),
        np.array([0.1, 0.2], dtype=np.float32),
        np.array([2**60, 2**60 + 1, 2**60 + 2]),
        np.array([2**63 + 5, 1], dtype=np.uint64),
    ],
    ids=str,
)
def test_codes_of_whole_columns_are_those_of_single_values(levels, values):
    column = Column(name="y", levels=levels)
    where = {level: code for code, level in enumerate(levels)}
    assert column.codes(values).tolist() == [_code(value, where, "y") for value in values.tolist()]
