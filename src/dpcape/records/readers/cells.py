"""What one cell of a file or query becomes: it depends on that cell alone, and on whether text is expected there.

A missing number is NaN, a missing text None. What should be a number and is none becomes infinite, which makes its own
record invalid and no other: a refusal, or a type that is found from all cells, would tell others of one record.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from decimal import Decimal
from importlib import import_module
from numbers import Real
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dpcape.core.arrays import AnyArray, FloatArray
from dpcape.schema.table import Words

if TYPE_CHECKING:
    import pyarrow as pa

Wanted: TypeAlias = tuple[str, bool]
"""Name of a column, and whether it is read as text."""

Batch: TypeAlias = "dict[Wanted, AnyArray | Words]"
"""Consecutive rows: numbers as float64, text as objects or as positions in a list."""

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "."})
"""Spellings of missing values in common software, in lower case."""


def is_missing(text: str) -> bool:
    """Return whether a cell means a missing value."""
    return text.strip().lower() in MISSING


def number_of(value: object) -> float:
    """Return a cell as a number: NaN where it is missing, infinite where it is no number."""
    if value is None:
        return math.nan
    if isinstance(value, str):
        if is_missing(value):
            return math.nan
        value = value.strip()
    elif not isinstance(value, Real | Decimal):
        return math.inf
    try:
        return float(value)
    except (ValueError, OverflowError):
        return math.inf


def is_no_number(value: object) -> bool:
    """Tell whether a cell that is present is no number, not even an infinite one."""
    if isinstance(value, str):
        try:
            float(value)
        except ValueError:
            return not is_missing(value)
        return False
    return value is not None and not isinstance(value, Real | Decimal)


def text_of(value: object) -> str | None:
    """Return a cell that came with a type as text; None where it is missing."""
    return None if value is None else str(value)


def stripped(text: str) -> str | None:
    """Return a cell of a text file; None where it means a missing value."""
    return None if is_missing(text) else text.strip()


def column_of(values: Iterable[object], is_text: bool, text: Callable[[Any], object] = text_of) -> AnyArray:
    """Return a column that came as cells of any type.

    Parameters
    ----------
    values : iterable of object
        The cells.
    is_text : bool
        Whether text is expected.
    text : callable
        What a text becomes.
    """
    if not is_text:
        return np.array([number_of(value) for value in values], dtype=np.float64)
    cells = [None if value is None else text(value) for value in values]
    return np.array(cells, dtype=object)


def arrow_column(column: pa.Array, is_text: bool, text: Callable[[Any], object] = text_of) -> AnyArray | Words:
    """Return a column of a record batch; each distinct cell that is no number is converted once.

    Parameters
    ----------
    column : pa.Array
        The column, of any type.
    is_text : bool
        Whether text is expected.
    text : callable
        What a text becomes.
    """
    kinds = import_module("pyarrow").types
    if not is_text and kinds.is_boolean(column.type):
        column = column.cast("uint8")
    if not is_text and (kinds.is_integer(column.type) or kinds.is_floating(column.type)):
        return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)
    try:
        coded = column if kinds.is_dictionary(column.type) else column.dictionary_encode()
    except NotImplementedError:  # lists and the like
        return column_of(column.to_pylist(), is_text, text)
    cells = column_of([*coded.dictionary.to_pylist(), None], is_text, text)
    # The last entry is for missing cells.
    indices = coded.indices.cast("int64").fill_null(len(cells) - 1)
    words = Words(indices.to_numpy(zero_copy_only=False), cells)
    return words if is_text else np.asarray(words)


def arrow_numbers(texts: pa.Array) -> FloatArray:
    """Return texts as numbers; one by one where Arrow and Python might disagree about one of them."""
    compute, arrow = import_module("pyarrow.compute"), import_module("pyarrow")
    try:
        numbers = compute.cast(compute.ascii_trim_whitespace(texts), arrow.float64())
    except arrow.ArrowInvalid:
        return column_of(texts.to_pylist(), False)
    values: FloatArray = numbers.to_numpy(zero_copy_only=False)
    # More NaNs than nulls: some are spelled in a form that Python may not read.
    is_certain = int(np.isnan(values).sum()) == texts.null_count
    return values if is_certain else column_of(texts.to_pylist(), False)
