"""Files and queries in place of arrays: what `rows` and the others take besides a table in memory."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

from dpcape.core.errors import InvalidParameter
from dpcape.schema.schema import Ranges, Schema

if TYPE_CHECKING:
    from dpcape.records.data_plan import Columns, DataPlan, Holding
    from dpcape.records.readers.array_files import ArrayFile
    from dpcape.records.readers.cells import Batch, Wanted
    from dpcape.records.readers.tables import ByColumn

SchemaOrPath: TypeAlias = "Ranges | str | Path"
"""Ranges and levels, or the path of a schema file that holds them."""


Stamp: TypeAlias = tuple[tuple[str, int, int], ...]
"""Names, sizes and times of files."""

LARGE_BYTES = 2**30
"""Size, as numbers of eight bytes, from which tables are read window by window instead of whole.

What fits is decided here, not by the study: results are the same, and memory is the site's own.
"""


class Source(ABC):
    """A table with named columns that can be read again and again: a file, a query, a stream of Arrow batches.

    Types of columns come from who reads them, who knows the public schema, never from what the cells hold.
    """

    @abstractmethod
    def names(self) -> Sequence[str]:
        """Return the names of all columns."""

    @abstractmethod
    def batches(self, wanted: Sequence[Wanted], n_rows: int) -> Iterator[Batch]:
        """Yield all rows, from the first on, in batches of any length.

        Parameters
        ----------
        wanted : sequence of Wanted
            The columns to read, each with whether it is read as text.
        n_rows : int
            About how many rows a batch should have, where that can be chosen.
        """

    @abstractmethod
    def tell(self, *, refuses: bool) -> None:
        """Tell the site's own user what could not be read the last time; raise it where such records are refused."""

    def stamp(self) -> Stamp | None:
        """Return what changes when files do; None where there are no files."""
        return None

    def is_large(self) -> bool:
        """Return whether the table is to be read window by window."""
        return True


def is_much(n_bytes: int) -> bool:
    """Return whether so many bytes are read window by window."""
    return n_bytes > LARGE_BYTES


def is_source(data: object) -> TypeGuard[str | os.PathLike[str] | Source]:
    """Tell whether data are a path or a query, and not the values themselves."""
    return isinstance(data, str | os.PathLike | Source)


def described(schema: SchemaOrPath | None, ranges: Ranges | None) -> Ranges | None:
    """Return what `schema` or `ranges` says, whichever is given."""
    if schema is None:
        return ranges
    if ranges is not None:
        raise InvalidParameter("Either schema or ranges", "be given", "both", "They are two names of the same.")
    return Schema.from_toml(schema) if isinstance(schema, str | Path) else schema


def as_table(data: str | os.PathLike[str] | Source) -> Source | None:
    """Return a path or query as a table with named columns; None for a file of arrays."""
    holding = _opened(data, _plan("rows"))
    return holding if isinstance(holding, Source) else None


def raw_table(
    data: object,
    ranges: Ranges | None,
    names: Sequence[str] | None = None,
    *,
    besides: str | None = None,
    invalid: str = "zero",
) -> tuple[Any, Sequence[str] | None]:
    """Return the columns of a source that are described or named, all of them if none is; values as they are.

    With them, the names of columns that are one array; None for a table that has its own.

    Parameters
    ----------
    data : object
        Path, query, or values.
    ranges : Ranges or None
        A mapping or a schema chooses columns.
    names : sequence of str or None
        Columns to choose.
    besides : str or None
        A column that is not read unless it is described or named.
    invalid : str
        What happens to records that cannot be read.
    """
    if not is_source(data):
        return data, names
    holding = _opened(data, _plan("rows"))
    if not _is_by_column(holding):
        return _array_file(holding, data).only_array(), names
    from dpcape.records.data_plan import Columns

    schema = Schema.of(ranges) if isinstance(ranges, Mapping | Schema) else None
    if schema is not None:
        wanted = tuple(column.name for column in schema.columns)
    else:
        wanted = tuple(names or (name for name in holding.names() if name != besides))
    values = holding.table(Columns(wanted, len(wanted), ranges=schema))
    holding.tell(refuses=invalid == "refuse")
    return values, None if isinstance(values, Mapping) else wanted


def raw_target(data: object, y: object, *, text: bool, invalid: str) -> object:
    """Return the response or the labels: values, or the column of a source that `y` names."""
    if not (is_source(data) and isinstance(y, str)):
        return y
    holding = _opened(data, _plan("rows"))
    values = holding.vector(y, text=text)
    if isinstance(holding, Source):
        holding.tell(refuses=invalid == "refuse")
    return values


def raw_counts(data: object, names: Sequence[str] | None, invalid: str) -> tuple[Any, Sequence[str] | None]:
    """Return word counts of a source, a sparse matrix or columns, and the names of columns of an array."""
    if not is_source(data):
        return data, names
    holding = _opened(data, _plan("rows"))
    if _is_by_column(holding):
        return raw_table(data, None, names, invalid=invalid)
    from dpcape.records.data_plan import Columns

    return holding.counts(Columns((), _array_file(holding, data).n_words())), names


def raw_series(
    data: object,
    *,
    mask: str | Path | None,
    pattern: str | None,
    subject: str | None,
    names: Sequence[str] | None,
    width: int | None,
    by_subject: bool,
    invalid: str,
) -> tuple[object, Sequence[str] | None, int | None]:
    """Return one array per subject, the names of their columns, and the width of a file that holds all subjects.

    Parameters
    ----------
    data : object
        Arrays; or a list of paths, one per subject; or a file, a folder, or a pattern of files.
    mask : str or Path or None
        Public mask of NIfTI images.
    pattern : str or None
        Pattern of names in a folder.
    subject : str or None
        Column that identifies the subject of a row, or array of offsets.
    names : sequence of str or None
        Columns to choose, or names of columns.
    width : int or None
        Public number of columns, if it was stated.
    by_subject : bool
        Whether whole people are protected; what the file of one person says of its columns is then not public.
    invalid : str
        What happens to people whose file cannot be read.
    """
    if not is_source(data) and not _are_paths(data):
        if mask is not None or pattern is not None or subject is not None:
            raise InvalidParameter("mask, pattern and subject", "be left out for arrays", "one", "Pass paths.")
        return data, names, None
    plan = _plan(
        "subjects",
        subject=subject,
        mask=None if mask is None else Path(mask),
        pattern=pattern,
        unit="subject" if by_subject else "record",
        invalid=invalid,
    )
    from dpcape.records.data_plan import Columns
    from dpcape.records.readers.files import SeriesFolder

    if _are_paths(data):
        holding: Holding = SeriesFolder([Path(entry) for entry in data], plan)
    else:
        assert is_source(data)
        holding = _opened(data, plan)
    if mask is not None:
        from dpcape.records.readers.nifti import voxel_names

        voxels = voxel_names(Path(mask))
        return holding.series(Columns((), len(voxels)), subject), voxels, len(voxels)
    if isinstance(holding, SeriesFolder) and by_subject:
        holding.first()  # Images need a mask.
        columns = Columns(tuple(names or ()), len(names) if names else width or 0)
        return holding.series(columns, subject) if columns.n_columns else (), names, None
    columns = _series_columns(holding, subject, names)
    return holding.series(columns, subject), columns.names or None, columns.n_columns


def _series_columns(holding: Holding, subject: str | None, names: Sequence[str] | None) -> Columns:
    """Return the columns of a subject's series: those named, or all but the one that names the subject."""
    from dpcape.records.data_plan import Columns
    from dpcape.records.readers.array_files import ArrayFile
    from dpcape.records.readers.files import SeriesFolder

    if _is_by_column(holding):
        wanted = tuple(names or (name for name in holding.names() if name != subject))
        return Columns(wanted, len(wanted))
    if isinstance(holding, ArrayFile):
        return Columns(tuple(names or ()), holding.width())
    assert isinstance(holding, SeriesFolder)
    return _series_columns(holding.first(), subject, names)


def _are_paths(data: object) -> TypeGuard[Sequence[str | os.PathLike[str]]]:
    return isinstance(data, list | tuple) and bool(data) and all(isinstance(entry, str | os.PathLike) for entry in data)


def _plan(kind: str, **options: object) -> DataPlan:
    from dpcape.records.data_plan import DataPlan

    return DataPlan(kind=kind, tables=(), **options)  # type: ignore[arg-type]  # typed by the callers here


def _opened(data: str | os.PathLike[str] | Source, plan: DataPlan) -> Holding:
    from dpcape.records.readers.files import open_file

    return open_file(data if isinstance(data, Source) else Path(data), plan)


def _is_by_column(holding: object) -> TypeGuard[ByColumn]:
    from dpcape.records.readers.tables import ByColumn

    return isinstance(holding, ByColumn)


def _array_file(holding: object, data: object) -> ArrayFile:
    from dpcape.records.readers.array_files import ArrayFile

    if not isinstance(holding, ArrayFile):
        remedy = "Use subjects() for images and folders."
        raise InvalidParameter("A file of rows", "be a table or a NumPy array", repr(str(data)), remedy)
    return holding
