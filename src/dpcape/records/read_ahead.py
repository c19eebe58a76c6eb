"""Reading ahead: one thread reads and converts while another computes, so that two cores are used."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")

AHEAD = 3
"""Items that wait at most; with the one being made and the one in use, this bounds the memory."""

# Seconds to wait on a full queue before checking whether the consumer has stopped.
_PATIENCE = 0.1


class _End:
    """Marks the end of the items; holds the error if one ended them."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error


def read_ahead(items: Iterator[T]) -> Iterator[T]:
    """Yield the items of an iterator that a thread works through ahead of the caller; errors are raised here."""
    reader = _Reader(items)
    reader.thread.start()
    try:
        while not isinstance(item := reader.waiting.get(), _End):
            yield item
        if item.error is not None:
            raise item.error
    finally:
        # Runs even if the caller stops early, so that the thread does not block for ever.
        reader.is_left.set()
        reader.thread.join()


class _Reader(Generic[T]):
    def __init__(self, items: Iterator[T]) -> None:
        self._items = items
        self.waiting: queue.Queue[T | _End] = queue.Queue(maxsize=AHEAD)
        self.is_left = threading.Event()
        self.thread = threading.Thread(target=self._read, name="dpcape reads ahead", daemon=True)

    def _read(self) -> None:
        try:
            for item in self._items:
                if not self._put(item):
                    return
        except BaseException as error:  # raised where the items are used
            self._put(_End(error))
        else:
            self._put(_End())

    def _put(self, item: T | _End) -> bool:
        """Put an item on the queue; return whether the consumer still reads."""
        while not self.is_left.is_set():
            try:
                self.waiting.put(item, timeout=_PATIENCE)
            except queue.Full:
                continue
            return True
        return False
