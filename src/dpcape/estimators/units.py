"""Prepared columns and original units: of points, of steps and of weights per step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpcape.core.arrays import FloatArray
from dpcape.core.facts import PublicRange
from dpcape.schema.schema import Schema

_AS_IT_IS = PublicRange(0.0, 1.0, 0.0, 1.0)


class Units:
    """How prepared columns relate to original units; columns taken as they are stay as they are.

    Parameters
    ----------
    schemas : sequence of Schema or None
        Public schema of each view.
    widths : sequence of int
        Number of prepared columns of each view.

    Attributes
    ----------
    names : tuple of str
        Unit of each prepared column, empty where none was stated.
    known : bool
        Whether all columns have public ranges or levels.
    """

    def __init__(self, schemas: Sequence[Schema | None], widths: Sequence[int]) -> None:
        ranges: list[PublicRange] = []
        names: list[str] = []
        for schema, width in zip(schemas, widths, strict=True):
            # The columns of a typed table are not spread over features.
            own = schema if schema is not None and len(schema.feature_names) == width else None
            ranges += [_AS_IT_IS] * width if own is None else own.ranges or [_AS_IT_IS] * width
            columns = () if own is None else own.columns
            names += [column.unit for column in columns for _ in column.feature_names] or [""] * width
        self.names = tuple(names)
        self.known = bool(schemas) and all(schema is not None and schema.ranges for schema in schemas)
        self._low, self._least = (np.array([getattr(entry, end) for entry in ranges]) for end in ("low", "least"))
        width_of = [(entry.high / 2 - entry.low / 2) / (entry.most / 2 - entry.least / 2) for entry in ranges]
        self.step = np.array(width_of)

    def points(self, values: FloatArray) -> FloatArray:
        """Return values of prepared columns, (..., D), in original units."""
        return np.asarray(self._low + (values - self._least) * self.step, dtype=np.float64)

    def steps(self, values: FloatArray) -> FloatArray:
        """Return differences between prepared columns, (..., D), in original units."""
        return np.asarray(values * self.step, dtype=np.float64)

    def slopes(self, values: FloatArray) -> FloatArray:
        """Return weights of prepared columns, (..., D), per original unit."""
        return np.asarray(values / self.step, dtype=np.float64)

    def at_zero(self, intercept: float, slopes: FloatArray) -> float:
        """Return the intercept where all original values are 0, from that where all prepared ones are."""
        return float(intercept - slopes @ (self.points(np.zeros(len(self.step))) / self.step))
