"""The public description of all raw columns.

Everything in a schema is public and agreed before anyone looks at records. A column is a number with a
public range, mapped to [-1, 1] with values outside clamped to it, or one of a public list of levels, spread
over one 0/1 feature per level. A value that is not on the list gives zeros in all of them. Missing values are
refused unless the schema names a constant, or a level, that replaces them.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from dpcape.core.arrays import AnyArray, FloatArray, ForEachRow
from dpcape.core.errors import DamagedFile, InvalidParameter, nearest_name
from dpcape.core.facts import PublicEvent, PublicRange, PublicSchema
from dpcape.schema.column import Column, check_finite, column_of, map_to_unit, middle_and_half
from dpcape.schema.events import event_of
from dpcape.schema.table import ArrayTable, read_table
from dpcape.schema.transformer import SchemaTransformer


@dataclass(frozen=True)
class Schema(SchemaTransformer):
    """The public description of all raw columns, in the order of the features.

    It is also a scikit-learn transformer, for the first step of a pipeline whose last step predicts.

    Parameters
    ----------
    columns : tuple of Column
        The columns: all with a range or levels, or all taken as they are.
    named : bool
        Whether columns are found in a table by name; if not, they are taken in order.
    events : tuple of PublicEvent
        Pairs of columns that are a time to an event.

    Edge cases
    ----------
    =============================================  ==========================================
    situation                                      outcome
    =============================================  ==========================================
    value outside its range                        clamped to the range
    value not on the list of levels                zero in every feature of that column
    missing value, fill declared                   treated as the fill
    missing value, no fill                         refused, naming the column
    infinite value of a column with a range        refused, naming the column
    text where levels are numbers, or vice versa   refused, naming the column
    column absent from the table                   refused, naming the column
    column of the table not in the schema          ignored
    =============================================  ==========================================

    Examples
    --------
    >>> schema = Schema.of({"age": {"range": (0, 100), "missing": 40}, "sex": ["F", "M"]})
    >>> schema.feature_names
    ('age', 'sex=F', 'sex=M')
    >>> schema.apply({"age": [25.0, float("nan")], "sex": ["M", "unknown"]})
    array([[-0.5,  0. ,  1. ],
           [-0.2,  0. ,  0. ]])
    """

    columns: tuple[Column, ...]
    named: bool = True
    events: tuple[PublicEvent, ...] = ()

    def __post_init__(self) -> None:
        names = self.feature_names
        if not names or len(set(names)) != len(names):
            must = "give at least one feature, each with its own name"
            raise InvalidParameter("Columns of a schema", must, f"{len(names)} features", "Describe every column once.")
        plain = [column.range is None and column.levels is None for column in self.columns]
        if any(plain) and not all(plain):
            must, remedy = "have a range or levels, as others do", "Describe every column that is used."
            raise InvalidParameter(f"Column {self.columns[plain.index(True)].name!r}", must, "neither", remedy)

    @classmethod
    def from_toml(cls, path: str | Path) -> Schema:
        """Read a schema file: ``[columns.NAME]`` tables with ``range`` or ``levels``, perhaps ``missing``."""
        import tomllib  # Slow to import, and most schemas are not read from files.

        try:
            content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            why = f"it is missing or not valid TOML ({error})"
            raise DamagedFile(f"The schema file {str(path)!r} could not be read", why, "Correct it.") from error
        columns = content.get("columns")
        described = isinstance(columns, dict) and all(isinstance(spec, dict) for spec in columns.values())
        if set(content) != {"columns"} or not described:
            subject, remedy = "A schema file", "Write for example [columns.age] and below it range = [0, 100]."
            raise InvalidParameter(subject, "hold [columns.NAME] tables and nothing else", sorted(content), remedy)
        return cls.of(content["columns"])

    @classmethod
    def of(cls, ranges: Ranges, *, names: Sequence[str] = ()) -> Schema:
        """Build a schema from what `ranges` may be in the constructors of records.

        Parameters
        ----------
        ranges : Ranges
            Mapping from column name to (low, high), to a list of levels, or to a mapping with "range" or "levels" and
            perhaps "missing"; or one (low, high) pair per column, in order; or a schema. A range may be of two dates. A
            mapping with "time", "event" and "range" stands for two columns that are a time to an event.
        names : sequence of str
            Column names, used with pairs only.
        """
        if isinstance(ranges, Schema):
            return ranges
        if isinstance(ranges, Mapping):
            return _of_mapping(ranges)
        if isinstance(ranges, tuple) and len(ranges) == 2 and all(isinstance(end, Real) for end in ranges):
            remedy = "Write one (low, high) per column, or give rows() the one range for all."
            raise InvalidParameter("ranges of a schema", "name every column", f"one range, {ranges!r}", remedy)
        if isinstance(ranges, str) or not isinstance(ranges, Sequence | np.ndarray):
            must = "be a list of (low, high) pairs, a mapping from column name, or a Schema"
            remedy = "Take ranges from public knowledge, never from the records."
            raise InvalidParameter("ranges", must, repr(ranges), remedy)
        labels = names or positional_names(len(ranges))
        if len(labels) != len(ranges):
            remedy = "List every column, or use a mapping from column name to range."
            raise InvalidParameter("ranges", f"be one (low, high) pair per column ({len(labels)})", len(ranges), remedy)
        # Entries of an array become Python numbers.
        plain = (pair.tolist() if isinstance(pair, np.ndarray) else pair for pair in ranges)
        pairs: zip[tuple[str, Any]] = zip(labels, plain, strict=True)
        return cls(tuple(Column(name=name, range=pair) for name, pair in pairs), named=bool(names))

    @cached_property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features, one per level for categorical columns."""
        return tuple(name for column in self.columns for name in column.feature_names)

    @cached_property
    def categorical(self) -> bool:
        """Whether some column is not of numbers: it has levels, or holds dates."""
        return any(column.levels is not None or column.dates for column in self.columns)

    @cached_property
    def ranges(self) -> tuple[PublicRange, ...]:
        """Public range of every feature; empty if columns are taken as they are."""
        ranges = []
        for column in self.columns:
            if column.range is not None:
                ranges.append(PublicRange(*column.range, -1.0, 1.0))
            elif column.levels is not None:
                ranges += [PublicRange(0.0, 1.0, 0.0, 1.0)] * len(column.levels)
        return tuple(ranges)

    def digest(self) -> str:
        """Return a hexadecimal SHA-256 digest of the content, equal for equal schemas on every machine."""
        content: list[object] = ["dpcape schema 1", [column.content() for column in self.columns]]
        if self.events:
            content.append([[entry.name, entry.time, entry.event, entry.occurred] for entry in self.events])
        text = json.dumps(content, ensure_ascii=True, separators=(",", ":"))
        return hashlib.sha256(text.encode("ascii")).hexdigest()

    def public(self) -> PublicSchema:
        """Return the schema as a public fact, which can be sent and saved with a model."""
        return PublicSchema(tuple(column.described() for column in self.columns), self.named)

    @classmethod
    def from_public(cls, facts: PublicSchema) -> Schema:
        """Return the schema that a public fact describes."""
        columns = (
            Column(
                name=entry.name,
                range=entry.range,
                levels=entry.levels,
                missing=entry.missing,
                unit=entry.unit,
                dates=entry.dates,
            )
            for entry in facts.columns
        )
        return cls(tuple(columns), named=facts.named)

    def with_missing(self, missing: object) -> Schema:
        """Return the schema with fill values added.

        Parameters
        ----------
        missing : object
            None for no change; a constant for every column that has neither levels nor a fill; or a mapping from column
            name, or position if columns have no names, to constant.
        """
        if missing is None:
            return self
        if not isinstance(missing, Mapping):
            numeric = (column.name for column in self.columns if column.levels is None and column.missing is None)
            return self._filled(dict.fromkeys(numeric, missing))
        if not self.named:
            names = dict(enumerate(column.name for column in self.columns))
            return self._filled({names.get(key, key): fill for key, fill in missing.items()})
        return self._filled(missing)

    def positions(self, names: Sequence[str], *, subject: str) -> list[int]:
        """Return the positions of the schema's columns among the columns `names` of a table."""
        position_of = {name: position for position, name in enumerate(names)}
        absent = [column.name for column in self.columns if column.name not in position_of]
        if absent:
            near = nearest_name(absent[0], names)
            remedy = f"{near} Add the column, or take it out of the schema at every site.".lstrip()
            raise InvalidParameter(subject, f"have the column {absent[0]!r} of the schema", "none", remedy)
        return [position_of[column.name] for column in self.columns]

    def apply(self, block: object, *, out: FloatArray | None = None) -> FloatArray:
        """Turn raw columns into features.

        Parameters
        ----------
        block : object
            Pandas or polars table, or mapping, with the schema's columns; or a two-dimensional array or list of rows in
            the order of the schema; or a list of one-dimensional arrays, one per column.
        out : ndarray or None
            Where to put the features; a new array if None.

        Returns
        -------
        FloatArray
            Features, (rows, len(feature_names)), every number finite. `block` is not changed.
        """
        if isinstance(block, np.ndarray) and not self.categorical:
            return self._apply_numbers(block, out)
        columns = self._columns_of(block)
        features = np.empty((len(columns[0]), len(self.feature_names))) if out is None else out
        position = 0
        for column, values in zip(self.columns, columns, strict=True):
            width = len(column.feature_names)
            column.fill_features(values, features[:, position : position + width])
            position += width
        return features

    def _apply_numbers(self, block: AnyArray, out: FloatArray | None) -> FloatArray:
        """Map a whole block of numbers at once."""
        numbers = ArrayTable(block, subject="block").numbers(slice(None))
        if numbers.shape[1] != len(self.columns):
            raise self._wrong_number(numbers.shape)
        features = np.empty(numbers.shape) if out is None else out
        with np.errstate(over="ignore"):  # Extended precision may overflow; infinities are refused below.
            np.copyto(features, numbers, casting="same_kind")
        if self._fills is not None:
            np.copyto(features, self._fills, where=np.isnan(features))
        if not np.isfinite(features).all():
            for column, values in zip(self.columns, features.T, strict=True):
                check_finite(values, subject=f"column {column.name!r}")
        if self._middles_and_half_widths is not None:
            middles, half_widths = self._middles_and_half_widths
            n_rows = len(features)
            map_to_unit(features, middle=middles.of(n_rows), half_width=half_widths.of(n_rows), out=features)
        return features

    def _columns_of(self, block: object) -> list[AnyArray]:
        """Return the schema's columns of a block, in the schema's order."""
        if isinstance(block, list | tuple):
            columns = self._columns_of_list(block)
        elif isinstance(block, Mapping):
            names = tuple(block)
            columns = [np.asarray(block[names[at]]) for at in self.positions(names, subject="block")]
        else:
            table = read_table(block, subject="block")
            is_array = isinstance(table, ArrayTable)
            positions = range(table.shape[1]) if is_array else self.positions(table.names, subject="block")
            columns = [table.values(slice(0, table.shape[0]), position) for position in positions]
        lengths = {column.shape for column in columns}
        if len(columns) != len(self.columns) or len(lengths) != 1 or columns[0].ndim != 1:
            raise self._wrong_number(tuple(len(column) for column in columns))
        return columns

    def _columns_of_list(self, block: Sequence[Any]) -> list[AnyArray]:
        """Return the columns of a list: arrays are columns, lists are rows, as everywhere."""
        if block and all(isinstance(entry, np.ndarray) for entry in block):
            return list(block)
        if not block or any(isinstance(entry, str) or not isinstance(entry, Sequence | np.ndarray) for entry in block):
            raise self._wrong_number(())
        widths = {len(row) for row in block}
        if widths != {len(self.columns)}:
            raise self._wrong_number(tuple(sorted(widths)))
        return [np.asarray(values) for values in zip(*block, strict=True)]

    @cached_property
    def _fills(self) -> FloatArray | None:
        """Fill values per column, NaN where missing values are refused; None if all are."""
        fills = [math.nan if column.missing is None else float(column.missing) for column in self.columns]
        return None if all(map(math.isnan, fills)) else np.array(fills)

    @cached_property
    def _middles_and_half_widths(self) -> tuple[ForEachRow, ForEachRow] | None:
        """Middle and half width of every range; None if columns are taken as they are."""
        both = np.array([middle_and_half(column.range) for column in self.columns if column.range is not None])
        return (ForEachRow(both[:, 0]), ForEachRow(both[:, 1])) if both.size else None

    def _filled(self, missing: Mapping[object, Any]) -> Schema:
        """Return the schema with the fills of a mapping from column name."""
        unknown = set(missing) - {column.name for column in self.columns}
        if unknown:
            remedy = "Use the names of the columns, or their positions if they have no names."
            raise InvalidParameter("missing", "name columns that are used", repr(sorted(map(str, unknown))[0]), remedy)
        columns = (
            replace(column, missing=missing[column.name]) if column.name in missing else column
            for column in self.columns
        )
        return replace(self, columns=tuple(columns))

    def _wrong_number(self, got: tuple[int, ...]) -> InvalidParameter:
        """Say that the columns do not fit."""
        must = f"have the {len(self.columns)} columns of the schema, equally long"
        remedy = "Pass the schema's columns in order, or a table with named columns."
        return InvalidParameter("block", must, got, remedy)


Ranges: TypeAlias = Mapping[str, object] | Sequence[object] | Schema
"""What users may write for ranges: see `Schema.of`."""


def _of_mapping(ranges: Mapping[str, object]) -> Schema:
    """Return the schema of a mapping from column name; a time to an event stands for its two columns."""
    columns: list[Column] = []
    events: list[PublicEvent] = []
    for name, spec in ranges.items():
        if isinstance(spec, Mapping) and "event" in spec:
            event, pair = event_of(str(name), spec)
            columns += pair
            events.append(event)
        else:
            columns.append(column_of(str(name), spec))
    return Schema(tuple(columns), events=tuple(events))


def positional_names(n_columns: int) -> tuple[str, ...]:
    """Return the names used in messages for columns that have none."""
    return tuple(f"x{position}" for position in range(n_columns))


def as_it_is(names: Sequence[str], *, n_columns: int) -> Schema:
    """Return a schema that leaves numbers unchanged; with fills it replaces missing values."""
    labels = names or positional_names(n_columns)
    return Schema(tuple(Column(name=name) for name in labels), named=bool(names))
