"""What every fitted estimator can be written as: its result in every format, and a paragraph on methods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np

from dpcape.charts import Weights
from dpcape.core.arrays import AnyArray, BoolArray, FloatArray
from dpcape.estimators.fitted import require_fitted
from dpcape.estimators.units import Units
from dpcape.results import LARGEST, Estimates, Result, Section
from dpcape.schema.schema import Schema
from dpcape.tables import largest_weights

THESE_SITES = "Intervals are for these sites; Heterogeneity gives intervals for the wider population of sites."
"""Population that intervals of means and coefficients are for."""
CENSORING = "leaving follow-up tells nothing about the time of the event"
"""What every analysis of times to an event assumes."""


class Reported:
    """Base class of what can be written to files that people open."""

    _fitted: ClassVar[tuple[str, ...]]
    schemas_in_: tuple[Schema | None, ...]
    widths_in_: tuple[int, ...]
    assumptions_: list[str]

    def result(self) -> Result:
        """Return the result: figures with intervals, noise and meaning, computed from the fitted attributes.

        Returns
        -------
        Result
            The figures, with ``rows``, ``to_csv``, ``to_list``, ``to_text``, ``to_markdown`` and ``to_latex``.
        """
        require_fitted(self)
        result = self._result()
        return replace(result, assumptions=(*result.assumptions, *self.assumptions_))

    def _result(self) -> Result:
        """Return the result; unless a subclass describes it, all numeric fitted arrays."""
        arrays = {name: array for name, array in self.fitted_arrays().items() if array.dtype.kind in "biuf"}
        parts = [
            Estimates(
                quantity=name.strip("_"), estimand=f"{name} of {type(self).__name__}, as it is documented", value=array
            )
            for name, array in arrays.items()
        ]
        return Result((Section(title="Fitted arrays", estimates=tuple(parts)),))

    def fitted_arrays(self) -> dict[str, AnyArray]:
        """Return the fitted arrays by name, as a file of the model holds them."""
        return {name: np.asarray(getattr(self, name)) for name in self._fitted if hasattr(self, name)}

    def to_text(self) -> str:
        """Return the result as plain text."""
        return self.result().to_text()

    def to_markdown(self) -> str:
        """Return the result as Markdown."""
        return self.result().to_markdown()

    def to_latex(self) -> str:
        """Return the result as LaTeX, for the package booktabs."""
        return self.result().to_latex()

    def to_csv(self, path: str | Path | None = None) -> str:
        """Return all figures as CSV, one per line, and write them to a file if one is named.

        Parameters
        ----------
        path : str or Path or None
            File to write; None writes none.
        """
        text = self.result().to_csv()
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def methods(self) -> str:
        """Return a paragraph on methods for a paper, with the guarantee in full."""
        from dpcape.report.methods import methods_text

        require_fitted(self)
        return methods_text(self)  # type: ignore[arg-type]  # every fitted estimator is one

    def unit_of(self, column: str) -> str:
        """Return the unit of a raw column; empty if none was stated.

        Parameters
        ----------
        column : str
            Name of the column.
        """
        units = {
            entry.name: entry.unit for schema in self.schemas_in_ if schema is not None for entry in schema.columns
        }
        return units.get(column, "")

    @property
    def units_(self) -> Units:
        """Original units of the prepared columns, of all views together."""
        require_fitted(self)
        return Units(self.schemas_in_, self.widths_in_)

    def _names(self, width: int, first: int = 0) -> list[str]:
        """Return the names of prepared columns from ``first`` on, or their numbers if they have no names."""
        names = [str(name) for name in getattr(self, "feature_names_in_", ())][first:]
        return names[:width] if len(names) >= width else numbered_from_one(width)

    def _grids(
        self,
        quantity: str,
        estimands: tuple[str, str],
        values: tuple[FloatArray, FloatArray],
        row: str,
        *,
        first: int = 0,
        noise: tuple[FloatArray | None, FloatArray | None] = (None, None),
    ) -> tuple[list[str], tuple[Estimates, ...]]:
        """Return names of columns, and rows of weights in prepared and, if these are known, in original units."""
        names, units = self._names(values[0].shape[1], first), self.units_
        parts = [grid(quantity, estimands[0], values[0], names, row, noise=noise[0])]
        if units.known:
            unit = units.names[first : first + len(names)]
            original = f"{quantity}, original units"
            parts.append(grid(original, estimands[1], values[1], names, row, noise=noise[1], unit=unit))
        return names, tuple(parts)


def numbered_from_one(width: int) -> list[str]:
    """Return the numbers of columns without names."""
    return [str(at) for at in range(1, width + 1)]


def weights_section(
    title: str,
    parts: tuple[Estimates, ...],
    values: FloatArray,
    names: list[str],
    row: str,
    *,
    inside: BoolArray | None = None,
    may_be_image: bool = False,
    notes: tuple[str, ...] = (),
) -> Section:
    """Return a section about rows of weights: a picture and, unless columns are voxels, the largest of each row.

    Parameters
    ----------
    title : str
        Heading.
    parts : tuple of Estimates
        The figures.
    values : array of shape (rows, columns)
        The weights.
    names : list of str
        Names of the columns.
    row : str
        What the rows are.
    inside : array of bool or None
        Voxels of an image that the columns are, if that follows from the analysis.
    may_be_image : bool
        Whether columns are pixels if the study says that records are images.
    notes : tuple of str
        What must be said besides.
    """
    is_image = inside is not None and inside.ndim > 1
    by_number = not names or names[0].isdigit()
    return Section(
        title=title,
        estimates=parts,
        tables=() if is_image else (largest_weights(values, names, row, by_number=by_number),),
        charts=(Weights(values=values, names=names, row=row, inside=inside, may_be_image=may_be_image),),
        notes=notes,
    )


def grid(
    quantity: str,
    estimand: str,
    values: FloatArray,
    names: Sequence[str],
    row: str,
    *,
    noise: FloatArray | None = None,
    unit: Sequence[str] = (),
) -> Estimates:
    """Return the figures of a matrix, one per row and column.

    Parameters
    ----------
    quantity, estimand : str
        As of :class:`Estimates`.
    values : array of shape (rows, columns)
        The figures.
    names : sequence of str
        Names of the columns.
    row : str
        What the rows are, such as "component"; they are numbered from 1.
    noise : array of shape (rows, columns) or None
        Standard deviations of the noise.
    unit : sequence of str
        Units of the columns; empty for none.
    """
    count, width = values.shape
    if values.size > LARGEST:
        # Not listed: voxels need no names.
        return Estimates(quantity=quantity, estimand=estimand, value=values, noise=noise)
    return Estimates(
        quantity=quantity,
        estimand=estimand,
        value=values,
        names=[*names] * count,
        parts=[f"{row} {at}" for at in range(1, count + 1) for _ in range(width)],
        noise=noise,
        unit=[*unit] * count if unit else "",
    )
