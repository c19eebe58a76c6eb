"""Records that are read window by window for every release: data sets larger than memory, and data on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np
from scipy.sparse import issparse

from dpcape.core.arrays import BoolArray, FloatArray
from dpcape.core.errors import InvalidParameter
from dpcape.core.tiles import Tile
from dpcape.records.kinds import Records, checked_size
from dpcape.records.read_ahead import read_ahead
from dpcape.records.recipes import OfLabelled, OfViews, Recipe
from dpcape.records.sources import as_table, is_source
from dpcape.records.streams import Raw, Stream, n_rows_of

T = TypeVar("T")

# Numbers per window: 4 MiB, so that a window converted by one core is still in the cache for the other.
_WINDOW_ENTRIES = 2**19


class Streamed(Records):
    """Records of a source that is read again for every release, and never held whole.

    Blocks are the same as if all records were in memory: they begin at the same records.

    Parameters
    ----------
    stream : Stream
        The source.
    recipe : Recipe
        How raw values become records.
    progress : bool
        Whether to show a bar on standard error while the source is read.
    """

    def __init__(self, stream: Stream, recipe: Recipe, *, progress: bool = False) -> None:
        self._stream, self._shows = stream, progress
        named = recipe.named(stream.names)
        refuses = recipe.invalid == "refuse"
        try:
            scan = stream.scan(named, self._windows(1, None))
        except InvalidParameter:
            # What the source says names file and line.
            stream.tell(refuses=refuses)
            raise
        stream.tell(refuses=refuses)
        super().__init__(scan.facts)
        self._recipe, self._n_invalid, self._unusable = named.checked(), scan.n_invalid, scan.unusable

    def blocks(self, size: int = 1024) -> Iterator[Any]:
        """Return an iterator over blocks of at most `size` records, as the kind of records has them."""
        return (block for window in self._window_records(size) for block in window.blocks(size))

    def all_blocks(self, size: int = 1024) -> Iterator[Any]:
        """Return the same as `blocks`, those without a valid record included."""
        return (block for window in self._window_records(size) for block in window.all_blocks(size))

    def feature_blocks(self, size: int = 1024) -> Iterator[FloatArray]:
        """Return an iterator over clipped rows, (at most `size`, n_features)."""
        return (block for window in self._window_records(size) for block in window.feature_blocks(size))

    def shortened_blocks(self, size: int = 1024) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Return an iterator over (clipped rows, factors by which they were shortened)."""
        return (block for window in self._window_records(size) for block in window.shortened_blocks(size))

    def tiles(self) -> Iterator[tuple[Tile, BoolArray | None]]:
        """Return an iterator over tiles of every window, and which of their records are dropped."""
        return (entry for window in self._window_records(1) for entry in window.tiles())

    def _window_records(self, size: int) -> Iterator[Any]:
        """Yield the records of each window; windows are whole numbers of blocks."""
        for raw in self._windows(checked_size(size), self.n_records):
            yield self._recipe.records(*raw)

    def _windows(self, size: int, n_records: int | None) -> Iterator[Raw]:
        """Yield windows that a thread reads ahead; show a bar of how far they are, if that is asked for."""
        n_rows = size * max(1, _WINDOW_ENTRIES // self._stream.n_columns // size)
        windows = read_ahead(self._stream.windows(n_rows))
        return _with_bar(windows, n_records) if self._shows else windows

    @property
    def n_invalid(self) -> int:
        """Number of records that cannot be read and contribute zero, as counted at the first reading."""
        return self._n_invalid

    @property
    def unusable(self) -> Mapping[str, int]:
        """Entries per column of a table that count as missing, as counted at the first reading."""
        return self._unusable

    @property
    def computed_on(self) -> str:
        """Where totals are computed, if not in the site's own process."""
        return self._stream.computed_on

    def check_unchanged(self) -> None:
        """Raise an error if the source no longer holds what was read first."""
        self._stream.check_unchanged()

    def each_part(self, function: Callable[[Records], T]) -> Iterator[T] | None:
        """Return what a function gives for each part, computed where the parts are; None for this process."""
        return self._stream.each_part(self._recipe, function)

    def __repr__(self) -> str:
        facts = self.facts()
        return (
            f"Streamed(kind={facts.kind!r}, n_records={facts.n_records}, widths={facts.widths}, "
            f"bounds={facts.bounds}, unit={facts.unit!r})"
        )


def is_streamed(data: object) -> bool:
    """Tell whether data are read window by window: on a cluster, batches, or a file or query that is large."""
    kind = type(data)
    if is_source(data):
        return (source := as_table(data)) is not None and source.is_large()
    if isinstance(data, list | tuple):
        return bool(data) and type(data[0]).__module__.partition(".")[0] == "pyarrow"
    if isinstance(data, Mapping | np.ndarray | memoryview) or issparse(data) or hasattr(kind, "collect"):
        return False
    if is_on_cluster(data):
        return True
    if hasattr(kind, "iloc") or hasattr(kind, "get_columns"):
        return False
    if hasattr(kind, "__arrow_c_stream__") or hasattr(kind, "to_batches"):
        return True
    if hasattr(kind, "__array__") or hasattr(kind, "__array_interface__") or hasattr(kind, "__getitem__"):
        return False
    return callable(data) or hasattr(kind, "__iter__")


def is_on_cluster(data: object) -> bool:
    """Tell whether data are a collection of Dask."""
    return hasattr(type(data), "__dask_graph__")


def stream_records(recipe: Recipe, *data: object, progress: bool = False) -> Streamed:
    """Return records of one source: a stream of batches, or a collection of Dask.

    Parameters
    ----------
    recipe : Recipe
        How raw values become records.
    *data : object
        Tables, then the target if there is one, as `rows`, `views` or `labelled` got them.
    progress : bool
        Whether to show a bar on standard error while the source is read.
    """
    if any(map(is_on_cluster, data)):
        from dpcape.records.dask_stream import DaskStream

        return Streamed(DaskStream(recipe, data), recipe, progress=progress)
    from dpcape.records.readers.arrow import arrow_source
    from dpcape.records.source_stream import SourceStream

    tables = data[:-1] if isinstance(recipe, OfLabelled) else data
    if isinstance(recipe, OfViews) and any(table is not tables[0] and table != tables[0] for table in tables):
        must = "be columns of the same one, so that rows belong together"
        remedy = "Pass it for each view, with other columns in ranges or feature_names."
        raise InvalidParameter("All views of a stream", must, "several streams", remedy)
    source = (as_table(tables[0]) if is_source(tables[0]) else None) or arrow_source(tables[0])
    return Streamed(SourceStream(source, recipe, data[-1]), recipe, progress=progress)


def _with_bar(windows: Iterator[Raw], n_records: int | None) -> Iterator[Raw]:
    """Yield windows and show how far they are; without a bar's end where the number of records is not known yet."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading records", total=n_records)
        for raw in windows:
            yield raw
            bar.advance(task, n_rows_of(raw[0]))
