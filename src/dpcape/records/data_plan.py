"""Public description of every site's records, and how raw values become records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import numpy as np

from dpcape.core.arrays import AnyArray
from dpcape.core.errors import InvalidParameter, nearest_name
from dpcape.records import labelled, rows, views
from dpcape.records.kinds import Records
from dpcape.records.sources import Source
from dpcape.records.typed_table import table
from dpcape.records.words_and_series import documents, subjects
from dpcape.schema.schema import Schema


@dataclass(frozen=True)
class Columns:
    """One table of raw columns: their number, names and public preparation.

    Attributes
    ----------
    names : tuple of str
        Names of the columns in a file; empty if they have none.
    n_columns : int
        Number of raw columns.
    ranges : Schema or tuple[tuple[float, float], ...] or None
        Public ranges and levels, or None for numbers taken as they are.
    missing : object
        Public replacement for missing values.
    array : str or None
        Name of the array in an ``.npz`` file, or None for the only one.
    mask : Path or None
        Public image whose voxels the columns of rows or of a view are, on which maps of the result are written.
    """

    names: tuple[str, ...]
    n_columns: int
    ranges: Schema | tuple[tuple[float, float], ...] | None = None
    missing: object = None
    array: str | None = None
    mask: Path | None = None

    def is_text(self, name: str) -> bool:
        """Tell whether a column is read as text: its public levels are, or it holds dates."""
        if not isinstance(self.ranges, Schema):
            return False
        column = next((column for column in self.ranges.columns if column.name == name), None)
        if column is None or column.levels is None:
            return column is not None and column.dates
        return isinstance(column.levels[0], str)


class Holding(Protocol):
    """Raw values of one site: read from a file, or synthetic in a rehearsal."""

    def table(self, columns: Columns) -> object:
        """Return the raw columns: an array, or a mapping from name to column."""

    def vector(self, name: str, *, text: bool) -> AnyArray:
        """Return one column, as text or as numbers."""

    def counts(self, columns: Columns) -> object:
        """Return word counts, sparse or dense."""

    def series(self, columns: Columns, subject: str | None) -> Sequence[object]:
        """Return one array per subject."""


@dataclass(frozen=True)
class DataPlan:
    """Public description of every site's records: kind, columns, bounds, response."""

    kind: str
    tables: tuple[Columns, ...]
    bounds: tuple[float, ...] = ()
    target: str = ""
    response: tuple[float, float] | None = None
    classes: tuple[object, ...] | None = None
    outside: str = "clip"
    unit: str = "record"
    subject: str | None = None
    rows_per_subject: int | None = None
    mask: Path | None = None
    shape: tuple[int, ...] = ()
    pattern: str | None = None
    invalid: str = "zero"
    precision: str = "double"
    files: tuple[Path, ...] = field(default=(), compare=False)

    @property
    def masks(self) -> tuple[Path | None, ...]:
        """Public mask of each table, on which maps of the result are written; None where there is none."""
        return (self.mask,) if self.kind == "subjects" else tuple(table.mask for table in self.tables)

    def stating(self, rows_per_subject: int | None) -> DataPlan:
        """Return the plan with the number of records per subject that a site's steward states of a data set.

        Of two numbers the smaller one is enforced in unit "subject", where a longer series is invalid. In unit "record"
        nothing is enforced, so that the larger one counts.
        """
        known = [rows for rows in (rows_per_subject, self.rows_per_subject) if rows is not None]
        if not known:
            return self
        return replace(self, rows_per_subject=min(known) if self.unit == "subject" else max(known))

    def records(self, holding: Holding, *, progress: bool = False) -> Records:
        """Build the records of one site from its raw values.

        Parameters
        ----------
        holding : Holding
            The raw values.
        progress : bool
            Whether to show a bar while large files are read.
        """
        first = self.tables[0]
        if self.kind in ("views", "labelled"):
            return self._pairs(holding, progress)
        if self.kind == "rows":
            return rows(
                _values(holding, first),
                bound=self.bounds[0],
                ranges=first.ranges,
                missing=first.missing,
                feature_names=first.names or None,
                invalid=self.invalid,
                precision=self.precision,
                progress=progress,
            )
        if self.kind == "table":
            assert isinstance(first.ranges, Schema)
            values = _values(holding, first)
            if isinstance(values, np.ndarray):
                values = dict(zip(first.names, values.T, strict=True))
            return table(values, columns=first.ranges, missing=first.missing, progress=progress)
        if self.kind == "documents":
            return documents(holding.counts(first), feature_names=first.names or None, invalid=self.invalid)
        return subjects(
            holding.series(first, self.subject),
            bound=self.bounds[0],
            unit=self.unit,
            missing=first.missing,
            rows_per_subject=self.rows_per_subject,
            n_features=first.n_columns,
            feature_names=first.names or None,
            invalid=self.invalid,
            precision=self.precision,
        )

    def _pairs(self, holding: Holding, progress: bool) -> Records:
        if self.kind == "views":
            first, second, *more = (_values(holding, columns) for columns in self.tables)
            return views(
                first,
                second,
                *more,
                bounds=self.bounds,
                ranges=[columns.ranges for columns in self.tables],
                missing=tuple(columns.missing for columns in self.tables),
                feature_names=[columns.names or None for columns in self.tables],
                invalid=self.invalid,
                precision=self.precision,
                progress=progress,
            )
        is_text = self.classes is not None and isinstance(self.classes[0], str)
        columns = self.tables[0]
        values = _values(holding, columns)
        return labelled(
            values,
            self.target if values is holding else holding.vector(self.target, text=is_text),
            bound=self.bounds[0],
            response=self.response,
            classes=self.classes,
            ranges=columns.ranges,
            missing=columns.missing,
            outside=self.outside,
            feature_names=columns.names or None,
            invalid=self.invalid,
            precision=self.precision,
            progress=progress,
        )


def _values(holding: Holding, columns: Columns) -> object:
    """Return a table with named columns itself, to be read as its size allows, or the values of another holding."""
    return holding if isinstance(holding, Source) and columns.names else holding.table(columns)


KINDS = ("rows", "views", "labelled", "documents", "subjects", "table")


def flattened(array: AnyArray) -> AnyArray:
    """Return an array as rows; trailing axes, such as those of images, are joined."""
    return array.reshape(len(array), -1) if array.ndim > 2 else array


def checked_shape(array: AnyArray, columns: Columns, *, subject: str) -> AnyArray:
    """Return an array as rows of the declared width."""
    flat = flattened(array)
    if flat.ndim != 2 or flat.shape[1] != columns.n_columns:
        must = f"have the {columns.n_columns} columns the study declares"
        remedy = "Check the study's [data] table against the file."
        raise InvalidParameter(subject, must, f"shape {array.shape[1:]} per record", remedy)
    return flat


def selected(available: Sequence[str], columns: Columns, *, subject: str) -> tuple[str, ...]:
    """Return the declared columns, all of which must be available."""
    if not columns.names:
        raise InvalidParameter(
            f"Columns to be read from {subject}",
            "have names in the study",
            f"features = {columns.n_columns}",
            "List them as columns = [...] in [data].",
        )
    absent = [name for name in columns.names if name not in available]
    if absent:
        if all(_is_number(name) for name in available):
            raise InvalidParameter(
                f"The first line of {subject}",
                "name the columns",
                f"numbers alone, and no {absent[0]!r}",
                "Add a line with the names.",
            )
        near = nearest_name(absent[0], available)
        remedy = f"{near} Add it to the file, or correct its name, in a study in the [data] table.".lstrip()
        raise InvalidParameter(subject, f"have the column {absent[0]!r}", "none", remedy)
    return columns.names


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True
