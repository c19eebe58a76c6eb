"""Responses and class labels: the second half of a labelled record."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dpcape.arrays import FloatArray
from dpcape.errors import InvalidParameter
from dpcape.records.schema.column import Column, check_finite, checked_range, map_to_unit, middle_and_half
from dpcape.records.schema.table import is_missing, to_numbers, vector


class Response:
    """A numeric response with a public range, mapped to [-1, 1].

    Parameters
    ----------
    data : object
        One number per record.
    response : object
        Public (low, high).
    outside : str
        "clip" to move responses outside the range to its ends, "refuse" to raise.
    """

    def __init__(self, data: object, *, response: object, n_rows: int, outside: str) -> None:
        if outside not in ("clip", "refuse"):
            raise InvalidParameter(f"outside must be 'clip' or 'refuse'; got {outside!r}. Choose one of them.")
        self.range = checked_range(response, subject="response")
        self._values = to_numbers(vector(data, subject="y", n_rows=n_rows), subject="y")
        check_finite(self._values, subject="y")
        low, high = self.range
        if outside == "refuse" and bool(((self._values < low) | (self._values > high)).any()):
            raise InvalidParameter(
                f"y must lie in the public range {self.range}; got a value outside. "
                "Widen the range from public knowledge, or use outside='clip'."
            )

    def read(self, start: int, stop: int) -> FloatArray:
        """Return responses `start` to `stop`, in [-1, 1]."""
        block = self._values[start:stop].astype(np.float64)
        check_finite(block, subject="y")  # The caller may have changed it since it was checked.
        middle, half = middle_and_half(self.range)
        map_to_unit(block, middle=middle, half=half)
        return block


class Codes:
    """Class labels as positions in a public list of classes."""

    def __init__(self, data: object, *, classes: object, n_rows: int) -> None:
        labels = _checked_classes(classes)
        values = vector(data, subject="y", n_rows=n_rows)
        if any(is_missing(value) for value in values.tolist()):
            check_finite(np.array([np.nan]), subject="y")
        self._codes = Column(name="y", levels=labels).codes(values)
        self.classes = tuple(str(label) for label in labels)
        if bool((self._codes < 0).any()):
            raise InvalidParameter(
                "every label must be one of the public classes; got another. "
                "Add it to classes at every site, or leave such records out by a public rule."
            )

    def read(self, start: int, stop: int) -> npt.NDArray[np.intp]:
        """Return the codes of records `start` to `stop`."""
        return self._codes[start:stop].copy()


def _checked_classes(classes: object) -> tuple[Any, ...]:
    """Return the public list of at least two classes."""
    if not isinstance(classes, list | tuple | range | np.ndarray) or len(classes) < 2:
        raise InvalidParameter(
            f"classes must be a list of at least two labels; got {classes!r}. List every public class once."
        )
    return tuple(classes.tolist() if isinstance(classes, np.ndarray) else classes)
