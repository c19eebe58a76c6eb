"""One raw column, described in public, and the features it becomes."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcape.core.arrays import AnyArray, FloatArray, all_finite
from dpcape.core.errors import InvalidParameter
from dpcape.core.facts import PublicColumn, SchemaColumn
from dpcape.schema.dates import day_of, is_date_like, to_days
from dpcape.schema.table import NUMERIC_KINDS, is_missing, to_numbers

Level = str | int | float

# Codes of entries that are missing, and of those that are not on the list of levels.
_ABSENT, _UNLISTED = -1, -2

_LONGEST_UNIT = 40

NARROWEST_HALF_WIDTH = 1e-300
"""Smallest half-width of a range; dividing by a smaller one could overflow."""


@dataclass(frozen=True, kw_only=True)
class Column:
    """The public description of one raw column.

    Attributes
    ----------
    name : str
        Name of the column.
    range : tuple[float, float] or None
        Public (low, high), or None if the column has levels or is taken as it is. Two dates make it a column of dates,
        which are numbers of days since 1970 from there on.
    levels : tuple of Level or None
        Public list of values of a categorical column, or None.
    missing : Level or None
        Replacement for a missing value, in the column's own units or levels; None refuses them.
    dates : bool
        Whether the column holds dates.
    unit : str
        Unit of a number, such as "years", for results.
    """

    name: str
    range: tuple[float, float] | None = None
    levels: tuple[Level, ...] | None = None
    missing: Level | None = None
    dates: bool = False
    unit: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.range, tuple | list) and self.range and all(is_date_like(end) for end in self.range):
            _take_dates(self)
        if self.range is not None and self.levels is not None:
            raise InvalidParameter(f"Column {self.name!r}", "have a range or levels", "both", "Keep one of them.")
        if self.range is not None:
            object.__setattr__(self, "range", checked_range(self.range, subject=f"range of column {self.name!r}"))
        if self.levels is not None:
            _check_levels(self)
        elif self.missing is not None:
            object.__setattr__(self, "missing", _checked_fill(self))
        _check_unit(self)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features this column becomes."""
        if self.levels is None:
            return (self.name,)
        return tuple(f"{self.name}={level}" for level in self.levels)

    def fill_features(self, values: AnyArray, out: FloatArray) -> None:
        """Write the features of one column of raw values into `out`, (rows, len(feature_names))."""
        if self.levels is not None:
            codes = self.codes(values)
            np.equal(codes[:, np.newaxis], np.arange(len(self.levels)), out=out, casting="unsafe")
            return
        subject = f"column {self.name!r}"
        out[:, 0] = to_days(values) if self.dates else to_numbers(values, subject=subject)
        if self.missing is not None:
            out[np.isnan(out[:, 0]), 0] = self.missing
        check_finite(out, subject=subject)
        if self.range is not None:
            middle, half_width = middle_and_half(self.range)
            map_to_unit(out, middle=middle, half_width=half_width, out=out)

    def fill_codes(self, values: AnyArray, out: FloatArray) -> int:
        """Write one column of a table into `out`: its place in the range, from -1 to 1, or the position of its level.

        What is missing, is not on the list of levels or cannot be read is NaN.

        Returns
        -------
        int
            Number of entries that are present but unusable: for the site's steward, never sent.
        """
        if self.levels is not None:
            codes = self._lenient_codes(values)
            np.copyto(out, codes)
            out[codes < 0] = math.nan
            return int(np.count_nonzero(codes == _UNLISTED))
        assert self.range is not None
        middle, half_width = middle_and_half(self.range)
        if values.dtype == np.float64 and not self.dates and np.isfinite(values).all():
            map_to_unit(values, middle=middle, half_width=half_width, out=out)
            return 0
        out[:] = to_days(values) if self.dates else _lenient_numbers(values)
        unusable = np.isinf(out)
        out[unusable] = math.nan
        if self.missing is not None:
            out[np.isnan(out) & ~unusable] = self.missing
        map_to_unit(out, middle=middle, half_width=half_width, out=out)
        return int(np.count_nonzero(unusable))

    def _lenient_codes(self, values: AnyArray) -> npt.NDArray[np.intp]:
        """Return the position of every value among the levels, or why it has none."""
        levels = self.levels or ()
        absent = _ABSENT if self.missing is None else levels.index(self.missing)
        if values.dtype.kind in NUMERIC_KINDS:
            text = isinstance(levels[0], str)
            return _codes_of_numbers(values, [] if text else [float(level) for level in levels], absent)
        code_of: dict[object, int] = {level: code for code, level in enumerate(levels)}
        code_of[None] = absent
        entries = values.tolist()
        try:
            return np.fromiter(map(code_of.__getitem__, entries), dtype=np.intp, count=len(entries))
        except (KeyError, TypeError):  # Some entry is not listed, or cannot be looked up.
            listed = (code_of.get(value, _UNLISTED) if _is_plain(value) else _UNLISTED for value in entries)
            codes = np.fromiter(listed, dtype=np.intp, count=len(entries))
        for at in np.flatnonzero(codes == _UNLISTED):
            if is_missing(values[at]):
                codes[at] = absent
        return codes

    def public(self) -> PublicColumn:
        """Return the description as a public fact of a table."""
        if self.levels is not None:
            return PublicColumn(self.name, "category", levels=tuple(str(level) for level in self.levels))
        assert self.range is not None
        return PublicColumn(self.name, "date" if self.dates else "number", *self.range)

    def described(self) -> SchemaColumn:
        """Return the whole description in a form that can be sent and saved."""
        levels = None if self.levels is None else tuple(_plain(level) for level in self.levels)
        missing = None if self.missing is None else _plain(self.missing)
        return SchemaColumn(self.name, self.range, levels, missing, self.unit, self.dates)

    def codes(self, values: AnyArray, *, lenient: bool = False) -> npt.NDArray[np.intp]:
        """Return the position of every value among the levels, -1 if it is not one of them.

        Text where levels are numbers, and a number where they are text, is refused unless ``lenient``: it then is not
        one of them. The code of an entry depends on that entry alone.
        """
        levels = self.levels or ()
        text = isinstance(levels[0], str)
        code_of: dict[object, int] = {level: code for code, level in enumerate(levels)}
        if self.missing is not None:
            code_of[None] = code_of[self.missing]
        if values.dtype.kind in "biuf" and all(map(_is_exact, levels)) and not np.isnan(values).any():
            return np.maximum(_codes_of_numbers(values, [float(level) for level in levels], _ABSENT), _ABSENT)
        if values.dtype.kind == "U" and text:
            return np.fromiter((code_of.get(value, -1) for value in values.tolist()), dtype=np.intp, count=len(values))
        entries = values.tolist()
        if not lenient and any(_is_other_type(value, text) for value in entries):
            must = f"hold {'text' if text else 'numbers'}, like its public levels"
            remedy = "Convert the column, or write the levels as the column has them."
            raise InvalidParameter(f"Column {self.name!r}", must, "numbers" if text else "text", remedy)
        codes = (_code(value, code_of, self.name) for value in entries)
        return np.fromiter(codes, dtype=np.intp, count=len(values))

    def content(self) -> list[object]:
        """Return the description in a form that is the same for equal descriptions, as of 0 and 0.0."""
        more: list[object] = [*(["dates"] if self.dates else []), *([{"unit": self.unit}] if self.unit else [])]
        return [self.name, _canonical(self.range), _canonical(self.levels), _canonical(self.missing), *more]


def column_of(name: str, spec: object) -> Column:
    """Return the column a user's short form describes: (low, high), a list of levels, or a mapping."""
    if isinstance(spec, Mapping):
        return _column_of_mapping(name, spec)
    if not isinstance(spec, list | tuple | np.ndarray):
        remedy = "Take both from public knowledge, never from the records."
        raise InvalidParameter(f"Column {name!r}", "have a (low, high) range or a list of levels", repr(spec), remedy)
    if len(spec) == 2 and all(isinstance(entry, datetime.date) for entry in spec):
        return Column(name=name, range=tuple(spec))
    pair_of_numbers = len(spec) == 2 and all(isinstance(entry, Real) for entry in spec)
    if pair_of_numbers and not isinstance(spec, tuple):
        must = "say whether its two numbers are a range or levels"
        remedy = "Write a range as a tuple (low, high), and two numeric levels as {'levels': [first, second]}."
        raise InvalidParameter(f"Column {name!r}", must, "a list", remedy)
    if pair_of_numbers:
        return Column(name=name, range=(spec[0], spec[1]))
    return Column(name=name, levels=tuple(spec))


def checked_range(pair: Any, *, subject: str) -> tuple[float, float]:
    """Return (low, high) as floats if it is a range that values can be mapped from."""
    try:
        low, high = pair
        numbers = all(isinstance(end, Real) and not isinstance(end, bool) for end in (low, high))
    except (TypeError, ValueError):
        numbers = False
    if not numbers or not (math.isfinite(low) and math.isfinite(high) and low < high):
        remedy = "Take them from public knowledge, never from the records."
        raise InvalidParameter(subject, "be (low, high), two finite numbers with low below high", repr(pair), remedy)
    if middle_and_half((float(low), float(high)))[1] < NARROWEST_HALF_WIDTH:
        raise InvalidParameter(subject, "be wider than 1e-300", repr(pair), "Measure in smaller units.")
    return float(low), float(high)


def middle_and_half(ends: tuple[float, float]) -> tuple[float, float]:
    """Return the middle and half the width of a range; halving first keeps both finite."""
    low, high = ends
    return low / 2 + high / 2, high / 2 - low / 2


def map_to_unit(
    values: FloatArray, *, middle: FloatArray | float, half_width: FloatArray | float, out: FloatArray
) -> None:
    """Map ranges to [-1, 1], into `out`, which may be `values`; what lies outside, however far, is clamped."""
    with np.errstate(over="ignore"):
        np.subtract(values, middle, out=out)
        np.divide(out, half_width, out=out)
    np.clip(out, -1.0, 1.0, out=out)


def check_finite(values: AnyArray, *, subject: str) -> None:
    """Refuse missing and infinite values, without saying where or how many."""
    if values.dtype.kind != "f":
        return
    if values.itemsize > 8:
        with np.errstate(over="ignore"):  # An extended number too large for float64 counts as infinite.
            values = values.astype(np.float64)
    if all_finite(values):
        return
    if np.isnan(values).any():
        # The response, called y in messages, is never filled in.
        fill = "Leave" if subject == "y" else "Declare a public constant for them with missing=, or leave"
        remedy = f"{fill} such records out by a public rule."
        raise InvalidParameter(subject, "not have missing values", "at least one", remedy)
    remedy = "Correct it, or make it NaN and declare missing=."
    raise InvalidParameter(subject, "be finite", "an infinite value", remedy)


def _column_of_mapping(name: str, spec: Mapping[str, Any]) -> Column:
    """Return the column described by "range" or "levels", and perhaps "missing" and "unit"."""
    if not set(spec) <= {"range", "levels", "missing", "unit"} or ("range" in spec) == ("levels" in spec):
        must = "have range or levels, and may have missing and unit"
        raise InvalidParameter(f"Column {name!r}", must, sorted(map(str, spec)), "Write for example range = [0, 100].")
    levels = spec.get("levels")
    if levels is not None and not isinstance(levels, list | tuple):
        raise InvalidParameter(f"levels of column {name!r}", "be a list", repr(levels), "Write them in brackets.")
    return Column(
        name=name,
        range=spec.get("range"),
        levels=None if levels is None else tuple(levels),
        missing=spec.get("missing"),
        unit=spec.get("unit", ""),
    )


def _take_dates(column: Column) -> None:
    """Turn a range of dates, and the fill, into numbers of days."""
    subject = f"range of column {column.name!r}"
    days = tuple(day_of(end, subject=subject) for end in column.range or ())
    object.__setattr__(column, "range", days)
    object.__setattr__(column, "dates", True)
    if is_date_like(column.missing):
        object.__setattr__(column, "missing", day_of(column.missing, subject=f"missing of column {column.name!r}"))


def _codes_of_numbers(values: AnyArray, levels: list[float], absent: int) -> npt.NDArray[np.intp]:
    """Return the position of numbers among numeric levels."""
    numbers = values.astype(np.float64, copy=False)
    if not levels:
        return np.where(np.isnan(numbers), absent, _UNLISTED)
    if len(numbers) > 1 and (numbers == numbers[0]).all():
        # Fast path for a single level, as the site column usually has.
        return np.repeat(_codes_of_numbers(numbers[:1], levels, absent), len(numbers))
    order = np.argsort(levels)
    ordered = np.array(levels)[order]
    at = np.minimum(np.searchsorted(ordered, numbers), len(levels) - 1)
    matches = np.where(ordered[at] == numbers, order[at], _UNLISTED)
    codes: npt.NDArray[np.intp] = np.where(np.isnan(numbers), absent, matches).astype(np.intp)
    return codes


def _is_exact(level: Level) -> bool:
    """Return whether a level is a number that converts to a float exactly, so that no other number equals it."""
    return isinstance(level, bool | int | float | np.integer | np.floating | np.bool_) and abs(level) < 2**53


def _lenient_numbers(values: AnyArray) -> AnyArray:
    """Return a column as numbers: NaN where one is missing, infinite where an entry is no number."""
    if values.dtype.kind in NUMERIC_KINDS:
        return values
    return to_numbers(values.astype(object), subject="", lenient=True)


def _is_plain(value: object) -> bool:
    """Return whether a value can be looked up among levels; other values need not be hashable."""
    return value is None or isinstance(value, str | Real | Decimal)


def _check_levels(column: Column) -> None:
    """Check that levels are distinct, all text or all numbers, and that the fill is one of them."""
    levels = column.levels or ()
    text = all(isinstance(level, str) for level in levels)
    numbers = all(_is_finite(level) for level in levels)
    if not levels or not (text or numbers) or len(set(levels)) != len(levels):
        must, remedy = "be distinct, all text or all finite numbers", "List every public level once."
        raise InvalidParameter(f"levels of column {column.name!r}", must, repr(list(levels)), remedy)
    if column.missing is not None and column.missing not in levels:
        must, remedy = "be one of its levels", "Add a level for missing values at every site."
        raise InvalidParameter(f"missing of column {column.name!r}", must, repr(column.missing), remedy)


def _check_unit(column: Column) -> None:
    """Refuse a unit that is not a short text, and one of a column that has no numbers."""
    unit = column.unit
    if not isinstance(unit, str) or len(unit) > _LONGEST_UNIT or not unit.isprintable():
        must = f"be a text of at most {_LONGEST_UNIT} letters"
        raise InvalidParameter(f"unit of column {column.name!r}", must, repr(unit), "Write for example 'years'.")
    if unit and (column.dates or column.levels is not None):
        subject = f"unit of column {column.name!r}"
        raise InvalidParameter(subject, "be left out for levels and dates", repr(unit), "Remove it.")


def _checked_fill(column: Column) -> float:
    """Return the fill as a number inside the range."""
    fill = column.missing
    if fill is None or isinstance(fill, bool | str) or not _is_finite(fill):
        subject = f"missing of column {column.name!r}"
        raise InvalidParameter(subject, "be a finite number", repr(fill), "Choose a constant.")
    if column.range is not None and not column.range[0] <= fill <= column.range[1]:
        must, remedy = f"lie in its range {column.range}", "Give it in the column's own units."
        raise InvalidParameter(f"missing of column {column.name!r}", must, repr(fill), remedy)
    return float(fill)


def _is_other_type(value: object, text: bool) -> bool:
    """Tell whether a value is a number where levels are text, or text where they are numbers."""
    return isinstance(value, Real | Decimal) and not is_missing(value) if text else isinstance(value, str)


def _code(value: object, code_of: Mapping[object, int], name: str) -> int:
    """Return the position of one value among the levels."""
    if is_missing(value):
        if None not in code_of:
            check_finite(np.array([math.nan]), subject=f"column {name!r}")
        return code_of[None]
    return code_of.get(value, -1) if isinstance(value, str | Real | Decimal) else -1


def _is_finite(value: object) -> bool:
    """Tell whether something is a finite real number (numpy's included)."""
    return isinstance(value, Real) and math.isfinite(value)


def _plain(value: Level) -> Level:
    """Return a level as a Python value."""
    plain: Level = value.item() if isinstance(value, np.generic) else value
    return plain


def _canonical(value: object) -> object:
    """Return numbers as floats and sequences as lists."""
    if isinstance(value, tuple | list):
        return [_canonical(entry) for entry in value]
    return float(value) + 0.0 if isinstance(value, Real) else value  # -0.0 + 0.0 is 0.0.
