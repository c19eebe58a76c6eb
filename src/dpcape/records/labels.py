"""Responses and class labels: the second half of a labelled record."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from dpcape.core.arrays import FloatArray
from dpcape.core.errors import InvalidParameter
from dpcape.schema.column import Column, check_finite, checked_range, map_to_unit, middle_and_half
from dpcape.schema.table import is_missing, to_numbers, vector


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

    def __init__(self, data: object, *, response: object, n_rows: int, outside: str, invalid: str = "zero") -> None:
        if outside not in ("clip", "refuse"):
            raise InvalidParameter("outside", "be 'clip' or 'refuse'", repr(outside), "Choose one of them.")
        self.range = checked_range(response, subject="response")
        lenient, self._clips = invalid == "zero", outside == "clip"
        self._refuses = not lenient
        self._values = to_numbers(
            vector(data, subject="y", n_rows=n_rows, lenient=lenient), subject="y", lenient=lenient
        )
        low, high = self.range
        self.n_invalid = 0
        if lenient:
            self.n_invalid = int(np.count_nonzero(~self.valid(0, n_rows)))
            return
        check_finite(self._values, subject="y")
        if outside == "refuse" and bool(((self._values < low) | (self._values > high)).any()):
            remedy = "Widen the range from public knowledge, or use outside='clip'."
            raise InvalidParameter("y", f"lie in the public range {self.range}", "a value outside", remedy)

    def read(self, start: int, stop: int) -> FloatArray:
        """Return responses `start` to `stop`, in [-1, 1]."""
        block = self._values[start:stop].astype(np.float64)
        # The caller may have changed it since it was checked; what is not valid is left out by `valid`.
        if self._refuses:
            check_finite(block, subject="y")
        block[~np.isfinite(block)] = self.range[0]
        middle, half_width = middle_and_half(self.range)
        map_to_unit(block, middle=middle, half_width=half_width, out=block)
        return block

    def valid(self, start: int, stop: int) -> npt.NDArray[np.bool_]:
        """Tell which responses `start` to `stop` are finite numbers, and inside the range where that is asked for."""
        block = self._values[start:stop].astype(np.float64)
        low, high = self.range
        inside = np.isfinite(block)
        return inside if self._clips else inside & (block >= low) & (block <= high)


class Codes:
    """Class labels as positions in a public list of classes."""

    def __init__(self, data: object, *, classes: object, n_rows: int, invalid: str = "zero") -> None:
        labels = _checked_classes(classes)
        lenient = invalid == "zero"
        values = vector(data, subject="y", n_rows=n_rows, lenient=lenient)
        missing = _are_missing(values)
        if missing.any() and not lenient:
            check_finite(np.array([np.nan]), subject="y")
        if missing.any():
            # An object array, because a numeric array cannot hold a text label.
            values = values.astype(object)
            values[missing] = labels[0]
        self._codes = Column(name="y", levels=labels).codes(values, lenient=lenient)
        self._codes[missing] = -1
        self.classes = tuple(str(label) for label in labels)
        self.labels_are = _kind_of(labels)
        self.n_invalid = int(np.count_nonzero(self._codes < 0))
        if self.n_invalid and not lenient:
            must = "contain only labels listed in classes"
            remedy = "Add it to classes at every site, or leave such records out by a public rule."
            raise InvalidParameter("y", must, "at least one other (not shown: labels are private)", remedy)

    def read(self, start: int, stop: int) -> npt.NDArray[np.intp]:
        """Return the codes of records `start` to `stop`; -1 where a label is not valid."""
        return self._codes[start:stop].copy()

    def valid(self, start: int, stop: int) -> npt.NDArray[np.bool_]:
        """Tell which labels `start` to `stop` are in the public list."""
        valid: npt.NDArray[np.bool_] = self._codes[start:stop] >= 0
        return valid


def _are_missing(values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Tell which labels are missing."""
    if values.dtype.kind == "f":
        missing: npt.NDArray[np.bool_] = np.isnan(values)
        return missing
    if values.dtype.kind in "biuUS":
        return np.zeros(len(values), dtype=np.bool_)
    return np.array([is_missing(value) for value in values.tolist()], dtype=np.bool_)


def _kind_of(labels: tuple[Any, ...]) -> str | msgspec.UnsetType:
    """Return what labels are, so that a model predicts them as they are at the sites; unset for text."""
    if all(isinstance(label, bool | np.bool_) for label in labels):
        return "booleans"
    if all(isinstance(label, int | np.integer) and not isinstance(label, bool) for label in labels):
        return "integers"
    return msgspec.UNSET if isinstance(labels[0], str) else "numbers"


def _checked_classes(classes: object) -> tuple[Any, ...]:
    """Return the public list of at least two classes."""
    if not isinstance(classes, list | tuple | range | np.ndarray) or len(classes) < 2:
        remedy = "List every public class once."
        raise InvalidParameter("classes", "be a list of at least two labels", repr(classes), remedy)
    return tuple(classes.tolist() if isinstance(classes, np.ndarray) else classes)
