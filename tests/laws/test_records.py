"""What must hold for every kind of records."""

from __future__ import annotations

import tracemalloc
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse

import dpcape.records
from dpcape.core.arrays import ForEachRow
from dpcape.core.errors import InvalidParameter, UtilityWarning
from dpcape.records.clip import clip_rows

# Everything here is about the policy "refuse"; tests/laws/test_invalid.py is about "zero".
documents, labelled, rows, subjects, views = (
    partial(getattr(dpcape.records, name), invalid="refuse")
    for name in ("documents", "labelled", "rows", "subjects", "views")
)

SECRET = 98765.4321  # Stands for an observed value; no message may contain it.

finite_rows = arrays(
    np.float64,
    st.tuples(st.integers(1, 4), st.integers(1, 7)),
    elements=st.floats(allow_nan=False, allow_infinity=False, width=64),
)
bounds = st.floats(min_value=1e-40, max_value=1e40)


def all_blocks(records, size=1024):
    return np.concatenate([block.copy() for block in records.blocks(size)])


def exact_square(row):
    return sum((Fraction(float(entry)) ** 2 for entry in row), Fraction(0))


def exceeding(block, bound):
    return sum(exact_square(row) > Fraction(bound) ** 2 for row in block)


def hostile_rows(n_columns):
    generator = np.random.default_rng(7)
    ramp = np.arange(1.0, n_columns + 1)
    shapes = [
        np.ones(n_columns),
        ramp,
        -1 / ramp,
        np.eye(n_columns)[0],
        *generator.standard_normal((40, n_columns)),
    ]
    sizes = [
        5e-324,
        1e-310,
        1e-200,
        1e-160,
        1e-100,
        1e-8,
        0.3,
        1.0,
        1.1,
        1e8,
        1e100,
        1e153,
        1e154,
        1e200,
        1e300,
    ]
    with np.errstate(over="ignore"):
        made = np.array([shape * size for shape in shapes for size in sizes])
    mixed = np.where(np.arange(n_columns) % 2, 1e-320, 1.7e308)
    return np.vstack([made[np.isfinite(made).all(axis=1)], np.full(n_columns, np.finfo(float).max), mixed])


# --- the bound ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_columns", [1, 2, 3, 17, 200])
@pytest.mark.parametrize("bound", [1e-40, 0.1, 1.0, 3.0, 1e40])
def test_no_emitted_row_exceeds_the_bound_in_exact_arithmetic(n_columns, bound):
    block = all_blocks(rows(hostile_rows(n_columns), bound=bound))
    assert np.isfinite(block).all()
    assert exceeding(block, bound) == 0


def test_the_exact_check_catches_clipping_without_a_margin():
    X = np.random.default_rng(3).standard_normal((500, 17))
    norms = np.sqrt(np.vecdot(X, X))
    naive = X * np.minimum(1, 1.0 / norms)[:, np.newaxis]
    assert exceeding(naive, 1.0) > 50
    assert exceeding(all_blocks(rows(X, bound=1.0)), 1.0) == 0


@settings(max_examples=300, deadline=None)
@given(finite_rows, bounds)
def test_bound_holds_exactly_for_any_numbers(X, bound):
    assert exceeding(all_blocks(rows(X, bound=bound)), bound) == 0


@settings(max_examples=200, deadline=None)
@given(finite_rows, bounds)
def test_clipping_keeps_direction_and_loses_only_rounding(X, bound):
    block = all_blocks(rows(X, bound=bound))
    for before, after in zip(X, block, strict=True):
        scale = np.abs(before).max()
        if scale == 0:
            assert not after.any()
            continue
        norm = scale * float(np.linalg.norm(before / scale)) if scale < 1e300 else np.inf
        if norm <= bound * (1 - 1e-12):
            assert np.array_equal(before, after)
        else:
            unit = (before / scale) / np.linalg.norm(before / scale)
            assert np.allclose(after / bound, unit, rtol=1e-12, atol=1e-200)


@pytest.mark.parametrize("share", [0.0, 0.05, 0.9, 1.0])
def test_clipping_few_rows_and_many_gives_the_same_bits(share):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 7))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    X[: int(200 * share)] *= 3
    X[rng.integers(0, 200)] *= 1e200
    whole = np.empty_like(X)
    clip_rows(X.copy(), bound=1.5, out=whole)
    for row, expected in zip(X, whole, strict=True):
        alone = row[np.newaxis].copy()
        clip_rows(alone, bound=1.5, out=alone)
        np.testing.assert_array_equal(alone[0], expected)


def test_numbers_for_each_row_are_the_same_however_many_rows_there_are():
    numbers = np.array([1.5, -2.0, 3.0])
    of_rows = ForEachRow(numbers)
    for n_rows in (5, 2, 0, 9, 10_000):
        np.testing.assert_array_equal(np.zeros((n_rows, 3)) + of_rows.of(n_rows), np.tile(numbers, (n_rows, 1)))


@pytest.mark.parametrize("columns", [None, ["c", "a"]])
def test_columns_of_a_table_of_several_types_are_read_as_an_array_is(columns):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "a": rng.integers(-5, 5, 50),
            "b": rng.normal(size=50).astype(np.float32),
            "c": rng.random(50) < 0.5,
            "d": np.arange(50, dtype=np.uint64),
        }
    )
    ranges = {name: (-4, 4) for name in columns or frame.columns}
    X = frame[list(ranges)].to_numpy(dtype=np.float64)
    expected, found = rows(X, ranges=[(-4, 4)] * X.shape[1]), rows(frame, ranges=ranges)
    for block, other in zip(expected.blocks(16), found.blocks(16), strict=True):
        np.testing.assert_array_equal(block, other)


def test_rows_whose_norm_overflows_are_scaled_to_the_bound():
    X = np.array([[1e200, 1e200], [3e307, 4e307], [-1.7e308, 0.0], [1e155, 1e-300]])
    block = all_blocks(rows(X, bound=5.0))
    expected = np.array([[5 / np.sqrt(2)] * 2, [3.0, 4.0], [-5.0, 0.0], [5.0, 0.0]])
    assert np.allclose(block, expected, rtol=1e-13, atol=1e-300)


def test_bound_holds_exactly_after_ranges_levels_and_narrow_types():
    X = np.random.default_rng(5).integers(0, 256, (200, 30), dtype=np.uint8)
    block = all_blocks(rows(X, bound=0.7, ranges=[(0, 255)] * 30))
    assert exceeding(block, 0.7) == 0
    frame = pd.DataFrame({"a": np.linspace(-5, 5, 200), "b": ["u", "v"] * 100})
    assert exceeding(all_blocks(rows(frame, bound=0.7, ranges={"a": (-1, 1), "b": ["u", "v"]})), 0.7) == 0


# --- blocks -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f8", ">f4", "g", "u1", "i1", "i2", "i4", "i8", "u8", "?"])
@pytest.mark.parametrize("layout", ["C", "F", "strided", "reversed"])
def test_number_types_and_layouts_do_not_matter(dtype, layout):
    base = np.random.default_rng(1).integers(0, 2 if dtype == "?" else 100, (50, 9)).astype(dtype)
    X = {
        "C": base,
        "F": np.asfortranarray(base),
        "strided": np.repeat(base, 2, axis=1)[:, ::2],
        "reversed": base[::-1],
    }
    reference = all_blocks(rows(X[layout].astype(np.float64).copy(), bound=30.0))
    assert np.array_equal(all_blocks(rows(X[layout], bound=30.0)), reference)


@pytest.mark.parametrize("size", [1, 7, 100, 101, 5000])
@pytest.mark.parametrize("ahead", [1, 60, 1 << 18])
def test_blocks_are_contiguous_reused_and_cover_every_row_once(monkeypatch, size, ahead):
    monkeypatch.setattr("dpcape.records.kinds._READ_AHEAD", ahead)
    X = np.random.default_rng(2).standard_normal((101, 5))
    whole = next(rows(X, bound=1.0).blocks(101)).copy()
    pieces, addresses = [], set()
    for block in rows(X, bound=1.0).blocks(size):
        assert block.dtype == np.float64
        assert block.flags.c_contiguous
        assert len(block) <= size
        addresses.add(block.ctypes.data)
        pieces.append(block.copy())
    assert np.array_equal(np.concatenate(pieces), whole)
    # As many blocks as are read together have places of their own.
    assert len(addresses) == min(max(1, ahead // (size * 5)), len(pieces))


def test_a_block_that_its_reader_changes_is_the_same_when_it_is_read_again():
    X = np.random.default_rng(3).normal(size=(50, 4))
    for records in (rows(X, bound=1.0), labelled(X, np.arange(50) % 2, bound=1.0, classes=[0, 1])):
        before = np.concatenate([block.copy() for block in records.feature_blocks(16)])
        for block in records.feature_blocks(16):
            block *= 1e6
        np.testing.assert_array_equal(np.concatenate([block.copy() for block in records.feature_blocks(16)]), before)
        assert (np.linalg.norm(before, axis=1) <= 1.0).all()
    for block, factors in records.shortened_blocks(16):
        block[:], factors[:] = 7.0, 7.0
    for block, factors in records.shortened_blocks(16):
        assert (factors <= 1).all()
        assert (np.linalg.norm(block, axis=1) <= 1.0).all()


def test_small_tables_that_are_kept_and_large_ones_that_are_not_have_the_same_rows(monkeypatch):
    X = np.random.default_rng(4).normal(size=(300, 3)) * 1e3
    X[7] = np.nan
    read = []
    for most in (0, 1 << 20):
        monkeypatch.setattr("dpcape.records.features.KEPT_ENTRIES", most)
        with pytest.warns(UtilityWarning, match="1 of 300 records"):
            held = dpcape.records.labelled(X, np.arange(300) % 2, bound=1.0, classes=[0, 1])
        # Rows without ranges are kept when they are read for the second time.
        for _ in range(3):
            read.append([np.concatenate([part[at].copy() for part in held.shortened_blocks(64)]) for at in (0, 1)])
        assert held.n_invalid == 1
    for rows_of, factors in read:
        np.testing.assert_array_equal(rows_of, read[0][0])
        np.testing.assert_array_equal(factors, read[0][1])


def test_wide_rows_are_read_in_strips_with_the_same_result():
    X = np.random.default_rng(2).standard_normal((9, 70_000))
    expected = X / np.linalg.norm(X, axis=1, keepdims=True)
    assert np.allclose(all_blocks(rows(X, bound=1.0), 4), expected, rtol=1e-9)


def test_callers_arrays_are_never_changed():
    X = np.array([[3.0, 4.0], [np.nan, 1e200]])
    y = np.array([5.0, -50.0])
    before = X.copy(), y.copy()
    list(labelled(X, y, bound=1.0, response=(0, 10), missing=7.0).blocks())
    list(rows(X, bound=1.0, ranges=[(0, 1), (0, 2)], missing=0.5).blocks())
    assert np.array_equal(X, before[0], equal_nan=True)
    assert np.array_equal(y, before[1])


def test_memory_does_not_grow_with_the_number_of_rows(tmp_path):
    peaks = []
    for n_rows in (2_000, 20_000):
        X = np.lib.format.open_memmap(tmp_path / f"{n_rows}.npy", mode="w+", dtype=np.float32, shape=(n_rows, 784))
        X[:] = 0.25
        X.flush()
        mapped = np.load(tmp_path / f"{n_rows}.npy", mmap_mode="r")
        tracemalloc.start()
        for block in rows(mapped, bound=1.0).blocks():
            assert block.shape[1] == 784
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 100_000
    assert peaks[1] < 16e6  # A block of 1024 x 784 float64 is 6.4 MB; the whole array would be 125 MB.


@pytest.mark.parametrize("poison", [np.nan, np.inf])
def test_values_that_turn_bad_after_the_check_are_refused_on_reading(poison):
    X = np.ones((5, 3))
    y = np.ones(5)
    records = labelled(X, y, bound=1.0, response=(0, 1))
    X[2, 1] = poison
    with pytest.raises(InvalidParameter):
        list(records.feature_blocks())
    X[2, 1] = 1.0
    y[0] = poison
    with pytest.raises(InvalidParameter):
        list(records.blocks())


@pytest.mark.parametrize("size", [0, -1, 2.5, True, None])
def test_block_size_must_be_a_positive_whole_number(size):
    with pytest.raises(InvalidParameter, match="size must be"):
        rows([[1.0]], bound=1.0).blocks(size)


# --- tables -------------------------------------------------------------------------------------------------


def test_pandas_polars_and_arrays_give_the_same_blocks():
    X = np.random.default_rng(4).standard_normal((60, 4))
    names = list("abcd")
    reference = rows(X, bound=1.0, feature_names=names)
    for table in (pd.DataFrame(X, columns=names), pl.DataFrame(X, schema=names)):
        records = rows(table, bound=1.0)
        assert records.facts() == reference.facts()
        assert np.array_equal(all_blocks(records, 7), all_blocks(reference, 7))


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"a": pd.array([1, None, 3], dtype="Int64"), "b": [True, False, True]}),
        pd.DataFrame({"a": pd.Series([1, None, Decimal(3)], dtype=object), "b": [1.0, 0.0, 1.0]}),
        pd.DataFrame({"a": pd.Series([1, pd.NA, 3], dtype=object), "b": [1, 0, 1]}),
        pl.DataFrame({"a": [1, None, 3], "b": [True, False, True]}),
        pl.DataFrame({"a": [1.0, float("nan"), 3.0], "b": [1, 0, 1]}),
        np.array([[1.0, 1.0], [np.nan, 0.0], [3.0, 1.0]], dtype=np.float32),
    ],
    ids=["nullable", "object", "NA", "polars null", "polars NaN", "array"],
)
def test_missing_values_are_refused_or_filled_by_the_declared_constant(table):
    with pytest.raises(InvalidParameter, match="missing values"):
        rows(table, bound=100.0)
    filled = all_blocks(rows(table, bound=100.0, missing=2.0))
    assert np.array_equal(filled, [[1, 1], [2, 0], [3, 1]])
    column = 0 if isinstance(table, np.ndarray) else "a"
    assert np.array_equal(all_blocks(rows(table, bound=100.0, missing={column: 2.0})), filled)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_given_names_replace_those_of_a_table(make):
    table = make({"a": [1.0, 2.0], "b": ["u", "v"]})
    renamed = rows(
        table, bound=9.0, ranges={"letter": ["v", "u"], "number": (0, 4)}, feature_names=["number", "letter"]
    )
    assert np.allclose(all_blocks(renamed), [[0, 1, -0.5], [1, 0, 0]])
    assert rows(make({"a": [1.0]}), bound=1.0, feature_names=["z"]).facts().feature_names == ("z",)


def test_fills_are_public_and_change_the_preparation():
    X = [[1.0, float("nan")]]
    facts = [rows(X, bound=1.0, missing=fill).facts() for fill in (0, 0.0, 1.0)]
    assert facts[0].preparation == facts[1].preparation != facts[2].preparation
    assert rows([[1.0]], bound=1.0).facts().preparation == ""


def test_a_mapping_selects_and_orders_columns_and_ignores_others():
    frame = pd.DataFrame({"id": ["p", "q"], "weight": [50.0, 100.0], "age": [25, 200], "sex": ["M", "?"]})
    spec = {"age": (0, 100), "sex": ["F", "M"], "weight": {"range": (0, 200), "missing": 70}}
    expected = [[-0.5, 0, 1, -0.5], [1, 0, 0, 0]]
    for table in (frame, pl.from_dict(frame.to_dict("list"))):
        records = rows(table, bound=10.0, ranges=spec)
        assert np.allclose(all_blocks(records), expected)
        assert records.facts().feature_names == ("age", "sex=F", "sex=M", "weight")
        assert records.n_features == 4
    X = np.array([[50.0, 9.0, 25], [100, 9, 200]])
    named = rows(X, bound=10.0, ranges={"age": (0, 100), "weight": (0, 200)}, feature_names=["weight", "no", "age"])
    assert np.allclose(all_blocks(named), [[-0.5, -0.5], [1, 0]])


def test_an_array_without_names_is_not_matched_to_named_columns():
    with pytest.raises(InvalidParameter, match="must have names"):
        rows(np.ones((2, 2)), bound=1.0, ranges={"a": (0, 1), "b": (0, 1)})


def test_a_column_missing_from_the_table_is_named():
    with pytest.raises(InvalidParameter, match=r"'height'.*Add the column"):
        rows(pd.DataFrame({"age": [1.0]}), bound=1.0, ranges={"height": (0, 2)})


# --- refusals -----------------------------------------------------------------------------------------------

REFUSED = {
    "one dimension": lambda: rows([SECRET], bound=1.0),
    "three dimensions": lambda: rows(np.ones((2, 2, 2)), bound=1.0),
    "no rows": lambda: rows(np.ones((0, 3)), bound=1.0),
    "no columns": lambda: rows(np.ones((3, 0)), bound=1.0),
    "ragged": lambda: rows([[SECRET], [1.0, 2.0]], bound=1.0),
    "text": lambda: rows([["98765.4321"]], bound=1.0),
    "long text": lambda: rows([["x" * 98765]], bound=1.0),
    "long label": lambda: labelled([[1.0]], ["x" * 98765], bound=1.0, classes=[1, 2]),
    "text column": lambda: rows(pd.DataFrame({"a": ["98765.4321"]}), bound=1.0),
    "polars text": lambda: rows(pl.DataFrame({"a": ["98765.4321"]}), bound=1.0),
    "object array": lambda: rows(np.array([[SECRET]], dtype=object), bound=1.0),
    "complex": lambda: rows(np.array([[SECRET + 1j]]), bound=1.0),
    "dates": lambda: rows(pd.DataFrame({"a": pd.to_datetime(["2001-02-03"])}), bound=1.0),
    "masked": lambda: rows(np.ma.masked_equal([[1.0, SECRET]], SECRET), bound=1.0),
    "sparse": lambda: rows(sparse.csr_array([[SECRET]]), bound=1.0),
    "lazy": lambda: rows(pl.LazyFrame({"a": [SECRET]}), bound=1.0),
    "NaN": lambda: rows([[SECRET, np.nan]], bound=1.0),
    "infinity": lambda: rows([[SECRET, -np.inf]], bound=1.0),
    "infinity, filled": lambda: rows([[SECRET, np.inf]], bound=1.0, missing=0.0),
    "infinity, ranged": lambda: rows([[SECRET, np.inf]], bound=1.0, ranges=[(0, 1), (0, 1)]),
    "infinity of long double": lambda: rows(np.array([[np.finfo(np.longdouble).max]]), bound=1.0),
    "huge integer object": lambda: rows(pd.DataFrame({"a": pd.Series([10**400], dtype=object)}), bound=1.0),
    "duplicate names": lambda: rows(pd.DataFrame([[1.0, 2.0]], columns=["a", "a"]), bound=1.0),
    "too few names": lambda: rows([[1.0, 2.0]], bound=1.0, feature_names=["a"]),
    "too few ranges": lambda: rows([[1.0, 2.0]], bound=1.0, ranges=[(0, 1)]),
    "fill out of range": lambda: rows([[1.0]], bound=1.0, ranges=[(0, 1)], missing=2),
    "fill not finite": lambda: rows([[1.0]], bound=1.0, missing=np.nan),
    "fill of no column": lambda: rows([[1.0]], bound=1.0, missing={"b": 0}),
    "bound zero": lambda: rows([[1.0]], bound=0),
    "bound negative": lambda: rows([[1.0]], bound=-1.0),
    "bound infinite": lambda: rows([[1.0]], bound=np.inf),
    "bound NaN": lambda: rows([[1.0]], bound=np.nan),
    "bound None": lambda: rows([[1.0]], bound=None),
    "bound text": lambda: rows([[1.0]], bound="max"),
    "bound True": lambda: rows([[1.0]], bound=True),
    "bound too small": lambda: rows([[1.0]], bound=1e-200),
    "one bound for two views": lambda: views([[1.0]], [[1.0]], bounds=1.0),
    "views of unequal length": lambda: views([[1.0]], [[1.0], [2.0]], bounds=(1.0, 1.0)),
    "NaN in second view": lambda: views([[SECRET]], [[np.nan]], bounds=(1.0, 1.0)),
    "response and classes": lambda: labelled([[1.0]], [1], bound=1.0, response=(0, 1), classes=[0, 1]),
    "no response or classes": lambda: labelled([[1.0]], [1], bound=1.0),
    "short y": lambda: labelled([[1.0], [2.0]], [SECRET], bound=1.0, response=(0, 1)),
    "two-dimensional y": lambda: labelled([[1.0]], [[SECRET]], bound=1.0, response=(0, 1)),
    "NaN response": lambda: labelled([[1.0]], [np.nan], bound=1.0, response=(0, 1)),
    "null response": lambda: labelled([[1.0]], pl.Series([None], dtype=pl.Float64), bound=1.0, response=(0, 1)),
    "NA response": lambda: labelled([[1.0]], pd.array([pd.NA], dtype="Int64"), bound=1.0, response=(0, 1)),
    "infinite response": lambda: labelled([[1.0]], [np.inf], bound=1.0, response=(0, 1)),
    "text response": lambda: labelled([[1.0]], ["98765.4321"], bound=1.0, response=(0, 1)),
    "response outside": lambda: labelled([[1.0]], [SECRET], bound=1.0, response=(0, 1), outside="refuse"),
    "unknown rule": lambda: labelled([[1.0]], [1.0], bound=1.0, response=(0, 1), outside="drop"),
    "empty response range": lambda: labelled([[1.0]], [1.0], bound=1.0, response=(1, 1)),
    "unknown label": lambda: labelled([[1.0]], ["98765.4321"], bound=1.0, classes=["a", "b"]),
    "missing label": lambda: labelled([[1.0]], [None], bound=1.0, classes=["a", "b"]),
    "numeric label, text classes": lambda: labelled([[1.0]], [SECRET], bound=1.0, classes=["a", "b"]),
    "repeated class": lambda: labelled([[1.0]], [1], bound=1.0, classes=[1, True]),
    "one class": lambda: labelled([[1.0]], [1], bound=1.0, classes=[1]),
    "classes as text": lambda: labelled([[1.0]], ["a"], bound=1.0, classes="ab"),
    "negative count": lambda: documents([[3, -98765]]),
    "fractional count": lambda: documents([[SECRET, 3.0]]),
    "NaN count": lambda: documents(sparse.csr_array([[np.nan, 3.0]])),
    "infinite count": lambda: documents(np.array([[np.inf, 3.0]])),
    "complex counts": lambda: documents(sparse.csr_array([[1j]])),
    "no documents": lambda: documents(sparse.csr_array((0, 3))),
    "no words": lambda: documents(sparse.csr_array((3, 0))),
    "short vocabulary": lambda: documents([[3, 1]], feature_names=["word"]),
    "no unit": lambda: subjects([np.ones((3, 2))], bound=1.0, unit="person"),
    "no subjects": lambda: subjects([], bound=1.0, unit="subject", rows_per_subject=5, n_features=2),
    "empty subject": lambda: subjects([np.ones((0, 2))], bound=1.0, unit="record"),
    "half a voxel": lambda: subjects([np.ones((3, 2))], bound=1.0, unit="subject", rows_per_subject=5, n_features=0.5),
    "other names": lambda: subjects(
        [np.ones((3, 2))], bound=1.0, unit="subject", rows_per_subject=5, n_features=2, feature_names=["a"]
    ),
    "different voxels": lambda: subjects(
        [np.ones((3, 2)), np.ones((3, 4))],
        bound=1.0,
        unit="subject",
        rows_per_subject=5,
        n_features=2,
        invalid="refuse",
    ),
    "long series": lambda: subjects(
        [np.ones((98765, 1))], bound=1.0, unit="subject", rows_per_subject=5, n_features=1, invalid="refuse"
    ),
    "NaN voxel": lambda: subjects([np.array([[np.nan, SECRET]])], bound=1.0, unit="record"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused_in_house_form_without_data(case):
    with pytest.raises(InvalidParameter, match=r"^.+ must .+; got .+\. .+\.$") as caught:
        REFUSED[case]()
    assert "98765" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bound_has_no_default_without_ranges():
    with pytest.raises(InvalidParameter, match="must have a bound"):
        rows([[1.0]])
    with pytest.raises(TypeError):
        subjects([[[1.0]]], bound=1.0)


# --- kinds --------------------------------------------------------------------------------------------------


def test_views_are_clipped_each_to_its_own_bound():
    generator = np.random.default_rng(6)
    X, Y = generator.standard_normal((90, 5)), 10 * generator.standard_normal((90, 3))
    records = views(X, Y, bounds=(1.0, 2.5))
    block = all_blocks(records, 32)
    assert exceeding(block[:, :5], 1.0) == exceeding(block[:, 5:], 2.5) == 0
    assert np.array_equal(block[:, :5], all_blocks(rows(X, bound=1.0)))
    assert np.array_equal(block[:, 5:], all_blocks(rows(Y, bound=2.5)))
    assert records.facts().widths == (5, 3)
    assert records.facts().bounds == (1.0, 2.5)
    assert np.array_equal(np.concatenate([b.copy() for b in records.feature_blocks(32)]), block)


def test_views_take_pairs_of_ranges_fills_and_names():
    X, Y = [[5.0], [np.nan]], [[1.0], [2.0]]
    records = views(X, Y, bounds=(1.0, 9.0), ranges=([(0, 10)], None), missing=(10, None), feature_names=(["u"], ["v"]))
    assert np.allclose(all_blocks(records), [[0, 1], [1, 2]])
    assert records.facts().feature_names == ("u", "v")
    assert records.facts().preparation.endswith(" none")
    swapped = views(Y, X, bounds=(9.0, 1.0), ranges=(None, [(0, 10)]), missing=(None, 10))
    assert swapped.facts().preparation.startswith("none ")


def test_names_of_one_view_alone_are_not_published_as_names_of_both():
    assert views(pd.DataFrame({"a": [1.0]}), [[1.0]], bounds=(1.0, 1.0)).facts().feature_names == ()


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20),
    st.floats(-1e300, 1e300),
    st.floats(1e-290, 1e300),
)
def test_responses_always_end_in_the_unit_interval(values, low, width):
    high = low + width
    if not high > low:
        return
    records = labelled(np.ones((len(values), 1)), values, bound=1.0, response=(low, high))
    mapped = np.concatenate([y for _, y in records.blocks(3)])
    assert (np.abs(mapped) <= 1).all()
    middle = low / 2 + high / 2
    assert all(np.sign(m) in (0, np.sign(v - middle)) for v, m in zip(values, mapped, strict=True))


@pytest.mark.parametrize("wrap", [list, np.array, pd.Series, pl.Series, lambda y: np.array(y, dtype=np.float32)])
def test_responses_are_mapped_from_any_container(wrap):
    records = labelled(np.eye(3), wrap([0.0, 75.0, 1000.0]), bound=1.0, response=(0, 100))
    (block, y), *rest = records.blocks()
    assert not rest
    assert np.array_equal(y, [-1.0, 0.5, 1.0])
    assert np.allclose(block, np.eye(3))
    assert records.facts().response == (0.0, 100.0)
    assert np.array_equal(next(records.feature_blocks(2)), block[:2])


@pytest.mark.parametrize(
    ("y", "classes", "codes"),
    [
        (["b", "a", "b"], ["a", "b"], [1, 0, 1]),
        (np.array(["b", "a", "b"]), ("a", "b", "c"), [1, 0, 1]),
        (pd.Series(["b", "a", "b"], dtype="category"), ["b", "a"], [0, 1, 0]),
        (pl.Series(["b", "a", "b"]), ["b", "a"], [0, 1, 0]),
        (np.array([7, 3, 7], dtype=np.uint8), range(10), [7, 3, 7]),
        ([1.0, -1.0, 1.0], np.array([-1, 1]), [1, 0, 1]),
        ([True, False, True], [False, True], [1, 0, 1]),
    ],
)
def test_labels_become_positions_in_the_public_list(y, classes, codes):
    records = labelled(np.eye(3), y, bound=1.0, classes=classes)
    found = np.concatenate([block for _, block in records.blocks(2)])
    assert found.dtype == np.intp
    assert np.array_equal(found, codes)
    assert records.facts().classes == tuple(str(label) for label in classes)
    assert records.facts().response is None


COUNTS = np.array([[2, 1, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 3], [1, 1, 1, 5]])


@pytest.mark.parametrize(
    "counts",
    [
        COUNTS,
        COUNTS.astype(np.uint16),
        COUNTS.astype(np.float32),
        COUNTS.tolist(),
        np.asfortranarray(COUNTS),
        sparse.csr_array(COUNTS),
        sparse.csr_matrix(COUNTS),
        sparse.csc_array(COUNTS),
        sparse.coo_array(COUNTS),
        pd.DataFrame(COUNTS),
        pl.DataFrame(COUNTS),
    ],
    ids=str,
)
@pytest.mark.parametrize("size", [1, 2, 5, 100])
def test_short_documents_become_zero_and_stay_counted(counts, size):
    records = documents(counts)
    blocks = list(records.blocks(size))
    dense = np.vstack([block.toarray() for block in blocks])
    assert np.array_equal(dense, COUNTS * (COUNTS.sum(axis=1, keepdims=True) >= 3))
    assert all(block.format == "csr" and block.dtype == np.float64 and (block.data > 0).all() for block in blocks)
    assert records.n_records == 5
    assert records.facts().bounds == (1.0,)
    with pytest.raises(InvalidParameter, match="got documents"):
        next(records.feature_blocks())


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_repeated_sparse_entries_are_added_and_the_callers_array_is_left_alone(dtype):
    counts = sparse.csr_array(
        (np.array([1, 2, 0, 1], dtype=dtype), np.array([1, 1, 0, 0]), np.array([0, 3, 4])), shape=(2, 2)
    )
    arrays_before = counts.data.copy(), counts.indices.copy(), counts.indptr.copy()
    (block,) = documents(counts).blocks()
    assert np.array_equal(block.toarray(), [[0, 3], [0, 0]])
    assert block.nnz == 1
    after = counts.data, counts.indices, counts.indptr
    assert all(np.array_equal(x, y) for x, y in zip(arrays_before, after, strict=True))


def test_malformed_sparse_indices_are_refused():
    counts = sparse.csr_array(np.ones((2, 2), dtype=int))
    counts.indices[0] = 7
    with pytest.raises(InvalidParameter, match="well-formed"):
        documents(counts)


def series():
    generator = np.random.default_rng(8)
    return [generator.standard_normal((length, 4)) for length in (5, 1, 9)]


@pytest.mark.parametrize("size", [1, 4, 6, 100])
def test_time_points_of_all_subjects_are_records_in_unit_record(size):
    arrays = series()
    records = subjects(arrays, bound=1.0, unit="record")
    assert np.array_equal(all_blocks(records, size), all_blocks(rows(np.vstack(arrays), bound=1.0)))
    assert (records.n_records, records.facts().rows_per_unit, records.unit) == (15, 1, "record")
    assert "not a person" in records.facts().owner_note
    with pytest.raises(InvalidParameter, match="'subject'"):
        records.each_subject()


def test_subjects_come_whole_in_unit_subject():
    arrays = series()
    records = subjects(arrays, bound=1.0, unit="subject", rows_per_subject=9, n_features=len(arrays[0][0]))
    found = [block.copy() for block in records.each_subject()]
    assert all(np.array_equal(a, all_blocks(rows(b, bound=1.0))) for a, b in zip(found, arrays, strict=True))
    assert (records.n_records, records.facts().rows_per_unit, records.unit) == (3, 9, "subject")
    for refused in (records.blocks, records.feature_blocks):
        with pytest.raises(InvalidParameter, match="'record'"):
            refused()
    assert (
        subjects(arrays, bound=1.0, unit="subject", rows_per_subject=20, n_features=len(arrays[0][0]))
        .facts()
        .rows_per_unit
        == 20
    )


def test_sites_with_the_same_description_have_the_same_shape_facts():
    one = subjects(series(), bound=1.0, unit="record").facts()
    other = subjects(series()[:1], bound=1, unit="record").facts()
    assert one.n_records != other.n_records
    assert one.shape_facts() == other.shape_facts()


@pytest.mark.parametrize(
    "records",
    [
        rows([[SECRET]], bound=1.0),
        views([[SECRET]], [[SECRET]], bounds=(1.0, 2.0)),
        labelled([[SECRET]], [SECRET], bound=1.0, response=(0, 1)),
        documents([[98765, 1]]),
        subjects([[[SECRET]]], bound=1.0, unit="subject", rows_per_subject=1, n_features=1),
    ],
    ids=lambda records: records.kind,
)
def test_repr_and_facts_show_public_facts_only(records):
    assert "98765" not in repr(records) + repr(records.facts())
    assert records.kind in ("rows", "views", "labelled", "documents", "subjects")
    assert records.n_features == records.facts().n_features
    public = {name for name in dir(records) if not name.startswith("_")}
    allowed = {"facts", "n_records", "n_features", "kind", "unit", "blocks", "feature_blocks", "each_subject"}
    allowed |= {
        "n_invalid",
        "each_alone",
        "longest_series",
        "all_blocks",
        "shortened_blocks",
        "tiles",
    }
    allowed |= {"computed_on", "check_unchanged", "each_part"}
    assert public <= allowed | {"rows_per_subject"}


# --- real data ----------------------------------------------------------------------------------------------


@pytest.mark.shared_data
def test_newsgroups_counts_keep_every_document_and_zero_the_short_ones():
    stored = np.load(shared_data("newsgroups20_bow.npz"))
    parts = stored["data"], stored["indices"].astype(np.int32), stored["indptr"]
    records = documents(sparse.csr_array(parts, shape=tuple(stored["shape"])), feature_names=stored["vocab"])
    filled = sum(int((np.diff(block.indptr) > 0).sum()) for block in records.blocks(2000))
    assert records.n_records == 18_846
    assert filled == 18_258  # Documents with at least three words, as the data's own description counts them.


@pytest.mark.shared_data
def test_communities_with_missing_values_need_a_declared_fill():
    frame = pd.read_csv(shared_data("communities_crime.csv.gz"))
    predictors = list(frame.columns[5:-1])
    spec = {name: (0, 1) for name in predictors}
    options = {"bound": 5.0, "response": (0, 1)}
    with pytest.raises(InvalidParameter, match="missing values"):
        labelled(frame, frame["ViolentCrimesPerPop"], ranges=spec, **options)
    records = labelled(frame, frame["ViolentCrimesPerPop"], ranges=spec, missing=0.5, **options)
    block, responses = next(records.blocks(2000))
    assert block.shape == (1994, 122)
    assert (block[np.isnan(frame[predictors].to_numpy())] == 0).all()
    assert np.allclose(responses, 2 * frame["ViolentCrimesPerPop"] - 1)


def shared_data(name):
    path = Path(__file__).resolve().parents[2].parent / "shared" / "data" / name
    if not path.exists():
        pytest.skip("the data folder is not beside the project")
    return path
