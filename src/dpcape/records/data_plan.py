"""What the records of every site are, in public, and how raw values become records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from numpy.typing import NDArray

from dpcape.errors import InvalidParameter
from dpcape.records import Records, documents, labelled, rows, subjects, views
from dpcape.records.schema import Schema


@dataclass(frozen=True)
class Columns:
    """One table of raw columns: their number, names and public preparation.

    Attributes
    ----------
    names : tuple of str
        Of the columns in a file; empty if columns have no names.
    n_columns : int
        How many raw columns.
    ranges : Schema or tuple[tuple[float, float], ...] or None
        Public ranges and levels, or None for numbers taken as they are.
    missing : object
        What stands for missing values.
    array : str or None
        Name of the array in an ``.npz`` file, or None for the only one.
    """

    names: tuple[str, ...]
    n_columns: int
    ranges: Schema | tuple[tuple[float, float], ...] | None = None
    missing: Any = None
    array: str | None = None

    @property
    def options(self) -> dict[str, Any]:
        """Keywords for the constructors of records."""
        return {"ranges": self.ranges, "missing": self.missing, "feature_names": self.names or None}

    def is_text(self, name: str) -> bool:
        """Tell whether a column holds text: its public levels do."""
        if not isinstance(self.ranges, Schema):
            return False
        levels = next((column.levels for column in self.ranges.columns if column.name == name), None)
        return levels is not None and isinstance(levels[0], str)


class Holding(Protocol):
    """Raw values of one site: read from a file, or made up for a rehearsal."""

    def table(self, columns: Columns) -> Any:
        """Return the raw columns: an array, or a mapping from name to column."""

    def vector(self, name: str, *, text: bool) -> NDArray[Any]:
        """Return one column, as text or as numbers."""

    def counts(self, columns: Columns) -> Any:
        """Return word counts, sparse or dense."""

    def series(self, columns: Columns, subject: str | None) -> Sequence[Any]:
        """Return one array per subject."""


@dataclass(frozen=True)
class DataPlan:
    """What the records of every site are: kind, columns, bounds, response; all of it public."""

    kind: str
    tables: tuple[Columns, ...]
    bounds: tuple[float, ...] = ()
    target: str = ""
    response: tuple[float, float] | None = None
    classes: tuple[Any, ...] | None = None
    outside: str = "clip"
    unit: str = "record"
    subject: str | None = None
    rows_per_subject: int | None = None
    mask: Path | None = None
    invalid: str = "zero"
    files: tuple[Path, ...] = field(default=(), compare=False)

    def records(self, holding: Holding) -> Records:
        """Build the records of one site from its raw values."""
        first = self.tables[0]
        if self.kind == "rows":
            return rows(holding.table(first), bound=self.bounds[0], invalid=self.invalid, **first.options)
        if self.kind == "documents":
            return documents(holding.counts(first), feature_names=first.names or None, invalid=self.invalid)
        if self.kind == "subjects":
            series = holding.series(first, self.subject)
            return subjects(series, unit=self.unit, **self._subject_options())
        return self._pairs(holding)

    def _pairs(self, holding: Holding) -> Records:
        if self.kind == "views":
            first, second = self.tables
            return views(
                holding.table(first),
                holding.table(second),
                bounds=(self.bounds[0], self.bounds[1]),
                ranges=(first.ranges, second.ranges),
                missing=(first.missing, second.missing),
                feature_names=(first.names or None, second.names or None),
                invalid=self.invalid,
            )
        options: dict[str, Any] = {"response": self.response, "outside": self.outside, "classes": self.classes}
        options["invalid"] = self.invalid
        is_text = self.classes is not None and isinstance(self.classes[0], str)
        values = holding.vector(self.target, text=is_text)
        only = self.tables[0]
        return labelled(holding.table(only), values, bound=self.bounds[0], **options, **only.options)

    def _subject_options(self) -> dict[str, Any]:
        columns = self.tables[0]
        return {
            "bound": self.bounds[0],
            "missing": columns.missing,
            "rows_per_subject": self.rows_per_subject,
            "invalid": self.invalid,
            "feature_names": columns.names or None,
        }


KINDS = ("rows", "views", "labelled", "documents", "subjects")


def checked_shape(array: NDArray[Any], columns: Columns, *, subject: str) -> NDArray[Any]:
    """Return an array as rows of the declared width; trailing axes, such as those of images, are joined."""
    flat = array.reshape(len(array), -1) if array.ndim > 2 else array
    if flat.ndim != 2 or flat.shape[1] != columns.n_columns:
        raise InvalidParameter(
            f"{subject} must have the {columns.n_columns} columns the study declares; got shape {array.shape[1:]} "
            "per record. Check the study's [data] table against the file."
        )
    return flat


def selected(available: Mapping[str, Any] | Sequence[str], columns: Columns, *, subject: str) -> tuple[str, ...]:
    """Return the declared columns, all of which must be available."""
    if not columns.names:
        raise InvalidParameter(
            f"columns of the study must have names to be found in {subject}; got features = {columns.n_columns}. "
            "List them as columns = [...] in [data]."
        )
    absent = [name for name in columns.names if name not in available]
    if absent:
        raise InvalidParameter(f"{subject} must have every column of the study; got none named {absent[0]!r}.")
    return columns.names
