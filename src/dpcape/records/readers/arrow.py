"""Arrow record batches that a user's own object gives, each time it is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, cast

from dpcape.core.errors import InvalidParameter
from dpcape.records.readers.cells import Batch, Wanted
from dpcape.records.readers.tables import ArrowSet, ByColumn
from dpcape.records.streams import changed

if TYPE_CHECKING:
    import pyarrow as pa

_TITLE = "the stream"


class ArrowBatches(ByColumn):
    """Record batches.

    Parameters
    ----------
    start : callable
        Function that returns the batches, from the first one on.
    """

    def __init__(self, start: Callable[[], Iterable[pa.RecordBatch]]) -> None:
        super().__init__(_TITLE)
        self._start = start

    def names(self) -> Sequence[str]:
        """Return the names of all columns."""
        for batch in self._checked():
            return list(batch.schema.names)
        remedy = "Leave a site without records out of the federation."
        raise InvalidParameter("X", "have at least one row and one column", "a stream without batches", remedy)

    def _batches(self, wanted: Sequence[Wanted], n_rows: int) -> Iterator[Batch]:
        return self._from_arrow(self._checked(), wanted)

    def _checked(self) -> Iterator[pa.RecordBatch]:
        kind, known = import_module("pyarrow").RecordBatch, None
        for batch in self._start():
            if not isinstance(batch, kind):
                remedy = "Convert each part with pyarrow.RecordBatch.from_pandas or from_pydict."
                raise InvalidParameter("A stream", "give record batches of pyarrow", type(batch).__name__, remedy)
            known = batch.schema if known is None else known
            if not batch.schema.equals(known):
                raise changed()
            yield batch


def arrow_source(data: object) -> ByColumn:
    """Return the source that a data set of pyarrow, or any other repeatable giver of record batches, is.

    Parameters
    ----------
    data : object
        Data set of pyarrow; an object that gives an Arrow stream each time it is asked (``__arrow_c_stream__``); a
        function without arguments that returns record batches; or an iterable of them that can be gone through again.
    """
    sets = import_module("pyarrow.dataset")
    if isinstance(data, sets.Dataset):
        return ArrowSet(_TITLE, data)
    if hasattr(data, "read_next_batch") or (isinstance(data, Iterable) and iter(data) is data):
        must = "be readable again, once for every release"
        remedy = "Give a function that opens it: rows(lambda: connection.execute(query).to_arrow_reader(), ...)."
        raise InvalidParameter("A stream", must, f"{type(data).__name__}, which can be read once", remedy)
    if hasattr(type(data), "__arrow_c_stream__"):
        reader = import_module("pyarrow").RecordBatchReader
        return ArrowBatches(lambda: cast("Iterable[pa.RecordBatch]", reader.from_stream(data)))
    if callable(data):
        return ArrowBatches(cast("Callable[[], Iterable[pa.RecordBatch]]", data))
    return ArrowBatches(lambda: cast("Iterable[pa.RecordBatch]", data))
