"""What every fitted estimator can be written as: figures in one layout, and a paragraph on methods."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from sklearn.utils.validation import check_is_fitted

from dpcape.schema.schema import Schema

if TYPE_CHECKING:
    from dpcape.report.loading_sections import FittedModel
    from dpcape.report.results import Results


class Reported:
    """Base class of what can be written to files that people open."""

    if TYPE_CHECKING:
        schemas_in_: tuple[Schema | None, ...]

    def results(self) -> Results:
        """Return all figures in one layout: estimate, interval, noise, p-value and unit of each.

        Returns
        -------
        Results
            The figures, with ``rows``, ``to_csv``, ``to_list`` and ``to_text``.
        """
        from dpcape.report.results import results_of

        check_is_fitted(self, "guarantee_")
        names = [str(name) for name in getattr(self, "feature_names_in_", [])]
        return results_of(cast("FittedModel", self), names)

    def to_csv(self, path: str | Path | None = None) -> str:
        """Return all figures as CSV, one per line, and write them to a file if one is named.

        Parameters
        ----------
        path : str or Path or None
            File to write; None writes none.
        """
        text = self.results().to_csv()
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def methods(self) -> str:
        """Return a paragraph on methods for a paper, with the guarantee in full."""
        from dpcape.report.methods import methods_text

        check_is_fitted(self, "guarantee_")
        return methods_text(cast("FittedModel", self))

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
