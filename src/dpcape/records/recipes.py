"""How raw values become records of one kind: the public arguments of `rows`, `views`, `labelled` and `table`.

A recipe holds no values, so it can be kept, sent to where the values are, and used for one part of them after another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import msgspec

from dpcape.core.errors import InvalidParameter
from dpcape.records.features import Features, facts_of
from dpcape.records.kinds import Labelled, Rows, Views
from dpcape.records.labels import Codes, Response
from dpcape.records.typed_table import TypedTable
from dpcape.schema.schema import Ranges, Schema

Names: TypeAlias = "Sequence[str] | None"
"""Names of the columns of one table, or None for its own."""


@dataclass(frozen=True)
class OfRows:
    """Arguments of `rows`, checked; `is_checked` says that all values were read before."""

    bound: float | None
    ranges: Ranges | None
    missing: object
    feature_names: Names
    invalid: str
    precision: str | None = None
    is_checked: bool = False

    def features(self, X: object, subject: str = "X") -> Features:
        """Return rows of one table, prepared and clipped."""
        return Features(
            X,
            subject=subject,
            bound=self.bound,
            ranges=self.ranges,
            missing=self.missing,
            feature_names=self.feature_names,
            invalid=self.invalid,
            precision=self.precision,
            is_checked=self.is_checked,
        )

    def records(self, X: object) -> Rows:
        """Return records."""
        features = self.features(X)
        return Rows(features, facts_of("rows", features, invalid=self.invalid))

    @property
    def tables(self) -> tuple[OfRows, ...]:
        """How each table is read: here the only one."""
        return (self,)

    def named(self, names: Sequence[Names]) -> OfRows:
        """Return the same for tables with these names of columns."""
        return replace(self, feature_names=names[0])

    def doubled(self) -> OfRows:
        """Return the same in double precision, unless a precision is stated."""
        return replace(self, precision=self.precision or "double")

    def checked(self) -> OfRows:
        """Return the same for values that were read before."""
        return replace(self, is_checked=True)


@dataclass(frozen=True)
class OfViews:
    """Arguments of `views`, checked: one entry per view."""

    tables: tuple[OfRows, ...]
    invalid: str

    def records(self, *data: object) -> Views:
        """Return records."""
        n_views = len(self.tables)
        subjects = ("X", "Y", *(f"View {number}" for number in range(3, n_views + 1)))
        tables = [
            recipe.features(table, subject) for recipe, table, subject in zip(self.tables, data, subjects, strict=True)
        ]
        if len({features.n_rows for features in tables}) > 1:
            counts = " and ".join(str(features.n_rows) for features in tables)
            named, holder = ("X and Y", "both") if n_views == 2 else ("All views", "each")
            remedy = f"Give each record one row in {holder}."
            raise InvalidParameter(named, "have the same number of rows", counts, remedy)
        return Views(tables, facts_of("views", *tables, invalid=self.invalid))

    def named(self, names: Sequence[Names]) -> OfViews:
        """Return the same for tables with these names of columns."""
        return replace(self, tables=tuple(one.named([own]) for one, own in zip(self.tables, names, strict=True)))

    def doubled(self) -> OfViews:
        """Return the same in double precision, unless a precision is stated."""
        return replace(self, tables=tuple(one.doubled() for one in self.tables))

    def checked(self) -> OfViews:
        """Return the same for values that were read before."""
        return replace(self, tables=tuple(one.checked() for one in self.tables))


@dataclass(frozen=True)
class OfLabelled:
    """Arguments of `labelled`, checked."""

    rows: OfRows
    response: tuple[float, float] | None
    classes: Sequence[object] | None
    outside: str

    def records(self, X: object, y: object) -> Labelled:
        """Return records."""
        features, invalid = self.rows.features(X), self.rows.invalid
        facts = facts_of("labelled", features, invalid=invalid)
        if self.classes is not None:
            codes = Codes(y, classes=self.classes, n_rows=features.n_rows, invalid=invalid)
            labels = {"classes": codes.classes, "labels_are": codes.labels_are}
            return Labelled(features, codes, msgspec.structs.replace(facts, **labels))
        targets = Response(y, response=self.response, n_rows=features.n_rows, outside=self.outside, invalid=invalid)
        return Labelled(features, targets, msgspec.structs.replace(facts, response=targets.range))

    @property
    def tables(self) -> tuple[OfRows, ...]:
        """How each table is read: here the only one."""
        return (self.rows,)

    @property
    def invalid(self) -> str:
        """Policy for records that cannot be read."""
        return self.rows.invalid

    @property
    def is_text(self) -> bool:
        """Whether labels are read as text."""
        return self.classes is not None and all(isinstance(label, str) for label in self.classes)

    def named(self, names: Sequence[Names]) -> OfLabelled:
        """Return the same for tables with these names of columns."""
        return replace(self, rows=self.rows.named(names))

    def doubled(self) -> OfLabelled:
        """Return the same in double precision, unless a precision is stated."""
        return replace(self, rows=self.rows.doubled())

    def checked(self) -> OfLabelled:
        """Return the same for values that were read before."""
        return replace(self, rows=self.rows.checked())


@dataclass(frozen=True)
class OfTable:
    """Arguments of `table`, checked; `is_window` says that what is read is not kept."""

    schema: Schema
    is_window: bool = False
    is_checked: bool = False
    invalid: str = "zero"
    feature_names: Names = None

    def records(self, data: object) -> TypedTable:
        """Return records."""
        return TypedTable(data, self.schema, is_window=self.is_window, is_checked=self.is_checked)

    @property
    def ranges(self) -> Schema:
        """The description of the columns."""
        return self.schema

    @property
    def tables(self) -> tuple[OfTable, ...]:
        """How each table is read: here the only one."""
        return (self,)

    def named(self, names: Sequence[Names]) -> OfTable:
        """Return the same for windows, which have names of their own."""
        return replace(self, is_window=True)

    def doubled(self) -> OfTable:
        """Return the same: columns are always read in double precision."""
        return self

    def checked(self) -> OfTable:
        """Return the same for values that were read before."""
        return replace(self, is_checked=True)


Recipe: TypeAlias = OfRows | OfViews | OfLabelled | OfTable
"""How raw values become records of one kind."""
