"""New rows for a fitted model: tables in original units, or rows that are prepared already."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, issparse

from dpcape.core.arrays import FloatArray
from dpcape.core.errors import InvalidParameter, UtilityWarning
from dpcape.estimators.fitted import require_fitted
from dpcape.schema.schema import Schema
from dpcape.schema.table import ArrayTable, read_table

# Entries this many times larger than any record's norm suggest that new rows were not prepared as the sites' were.
_FAR_TOO_LONG = 10
_PREPARE = (
    "Pass a table with named columns in original units, or prepare new rows as the sites prepare theirs: "
    "Schema.of(ranges).apply(rows)."
)
_MUST = "be a two-dimensional array of finite numbers"


class TakesRows(Protocol):
    """What is known of a fitted model's columns."""

    schemas_in_: tuple[Schema | None, ...]
    widths_in_: tuple[int, ...]
    bounds_in_: tuple[float, ...]


def checked_rows(model: TakesRows, X: ArrayLike, width: int, first: int) -> FloatArray:
    """Return new data as prepared float64 rows of the fitted width; ``first`` is the first column of the view."""
    require_fitted(model)
    kind = type(model).__name__
    subject = f"Data for {kind}"
    names = [str(name) for name in getattr(model, "feature_names_in_", [])][first : first + width]
    X = _prepared(X, schema_of(model, first, width), names, kind)
    rows = finite_rows(X, subject, _PREPARE)
    if rows.shape[1] != width:
        raise InvalidParameter(subject, f"have the {width} columns the model was fitted with", rows.shape[1], _PREPARE)
    _warn_of_raw_units(model, rows)
    return rows


def finite_rows(X: object, subject: str, remedy: str) -> FloatArray:
    """Return data as a two-dimensional array of finite numbers; anything else is refused, sparse arrays too."""
    if issparse(X) or isinstance(X, np.matrix):
        kind = "a sparse array" if issparse(X) else "a numpy.matrix"
        raise InvalidParameter(subject, _MUST, f"invalid data ({kind})", f"Convert it to an array. {remedy}")
    rows = _numbers(X, subject, remedy)
    _refuse_faults(rows.shape, rows, subject, remedy)
    return rows


def finite_counts(X: Any, subject: str, remedy: str) -> csr_array:
    """Return a sparse array by rows, with finite numbers; anything else is refused."""
    _refuse_faults(X.shape, np.empty(0), subject, remedy)
    stored = csr_array(X)
    values = _numbers(stored.data, subject, remedy)
    _refuse_faults(stored.shape, values, subject, remedy)
    return csr_array((values, stored.indices, stored.indptr), shape=stored.shape)


def _numbers(X: object, subject: str, remedy: str) -> FloatArray:
    try:
        with warnings.catch_warnings():
            # NumPy would drop imaginary parts with a warning.
            warnings.simplefilter("error", np.exceptions.ComplexWarning)
            return np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError, OverflowError, np.exceptions.ComplexWarning) as error:
        reason = str(error).splitlines()[0].rstrip(".:")
        raise InvalidParameter(subject, _MUST, f"invalid data ({reason})", remedy) from error


def _refuse_faults(shape: Sequence[int], values: FloatArray, subject: str, remedy: str) -> None:
    """Refuse what is not two-dimensional, is empty, or has values that are not finite."""
    if len(shape) != 2:
        fault = f"a {len(shape)}D array instead of a 2D array"
    elif 0 in shape:
        fault = f"{shape[0]} sample(s) with {shape[1]} feature(s)"
    elif np.isnan(values).any():
        fault = "it contains NaN"
    elif np.isinf(values).any():
        fault = "it contains infinity"
    else:
        return
    raise InvalidParameter(subject, _MUST, f"invalid data ({fault})", remedy)


def schema_of(model: TakesRows, first: int, width: int) -> Schema | None:
    """Return how raw columns become some of the model's features; None where nothing is known of it."""
    schemas, start = [], 0
    for own, schema in zip(model.widths_in_, model.schemas_in_, strict=True):
        if first <= start and start + own <= first + width:
            schemas.append(schema)
        start += own
    known = [schema for schema in schemas if schema is not None]
    if not known or len(known) < len(schemas):
        return None
    if len(known) == 1:
        return known[0]
    columns = tuple(column for schema in known for column in schema.columns)
    distinct = len({column.name for column in columns}) == len(columns)
    return Schema(columns) if distinct and all(schema.named for schema in known) else None


def _prepared(X: ArrayLike, schema: Schema | None, names: Sequence[str], kind: str) -> ArrayLike:
    """Return a table as prepared rows; an array, whose rows are prepared already, as it is."""
    if not is_table(X):
        return X
    given = names_of(X)
    if schema is None:
        check_names(given, names, subject=f"data for {kind}")
    if schema is None or given == list(names) != _raw_names(schema) or given == _names_out(schema):
        return read_table(X, subject="X").numbers(slice(None))
    _warn_of_values_outside(X, schema, kind)
    return schema.apply(X)


def is_table(X: object) -> bool:
    """Tell whether data has named columns: a pandas or polars table, or a mapping from name to column."""
    return isinstance(X, Mapping) or hasattr(X, "columns")


def names_of(X: object) -> list[str]:
    """Return the names of the columns of a table; none for an array."""
    return [str(name) for name in (X if isinstance(X, Mapping) else getattr(X, "columns", []))]


def _raw_names(schema: Schema) -> list[str]:
    return [column.name for column in schema.columns]


def _names_out(schema: Schema) -> list[str]:
    return [str(name) for name in schema.get_feature_names_out()]


def _warn_of_values_outside(X: object, schema: Schema, kind: str) -> None:
    """Warn of a column no value of which lies in its public range: it may have been prepared already."""
    table = read_table(X, subject="X")
    if isinstance(table, ArrayTable) or not schema.named:
        return
    position_of = dict(zip(table.names, range(table.shape[1]), strict=True))
    for column in schema.columns:
        if column.range is None or column.dates or column.name not in position_of:
            continue
        values = table.values(slice(None), position_of[column.name])
        if values.dtype.kind in "biuf" and not np.any((values >= column.range[0]) & (values <= column.range[1])):
            warnings.warn(
                f"Column {column.name!r} for {kind} must be in original units, from {column.range[0]:g} to "
                f"{column.range[1]:g}; got no value in that range, so results are unreliable. Pass raw values, or an "
                "array of prepared ones.",
                UtilityWarning,
                stacklevel=5,
            )
            return


def _warn_of_raw_units(model: TakesRows, rows: FloatArray) -> None:
    """Warn of rows in raw units (years, kilograms) where the sites mapped theirs to [-1, 1]."""
    bounds = getattr(model, "bounds_in_", ())
    longest = math.hypot(*bounds) if bounds else math.inf
    if float(np.abs(rows).max()) > _FAR_TOO_LONG * longest:
        warnings.warn(
            f"Rows for {type(model).__name__} must be scaled like the sites' rows, whose norm is at most "
            f"{longest:g}; got entries more than {_FAR_TOO_LONG} times as large, so results are unreliable. "
            f"{_PREPARE}",
            UtilityWarning,
            stacklevel=5,
        )


def check_names(given: Sequence[str], names: Sequence[str], *, subject: str) -> None:
    """Refuse a table whose column names or their order differ from the sites'."""
    if names and given and list(given) != list(names):
        pairs = zip(names, [*given, *[""] * len(names)], strict=False)
        position = next((index for index, (name, own) in enumerate(pairs) if own != name), len(names))
        wanted = repr(names[position]) if position < len(names) else "left out"
        got = repr(given[position]) if position < len(given) else "no more columns"
        remedy = "Put columns in the order of feature_names_in_, or pass an array."
        raise InvalidParameter(f"Column {position + 1} of {subject}", f"be {wanted}", got, remedy)
