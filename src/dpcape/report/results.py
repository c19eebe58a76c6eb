"""Results in one tidy layout for every analysis: one figure per row, with its interval, noise, p-value and unit."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields

from dpcape.report.assumptions import assumption_lines, assumptions_of
from dpcape.report.loading_sections import FittedModel
from dpcape.report.result import LARGEST, MANY, Result
from dpcape.report.result_figures import FIGURES

HEADER = tuple(entry.name for entry in fields(Result))
_SHOWN = 20
_LEFT_OUT = f"More than {LARGEST:,} weights are not listed; model.npz contains all."


@dataclass(frozen=True)
class Results:
    """All figures of a fitted model.

    Attributes
    ----------
    rows : tuple of Result
        The figures, one each.
    notes : tuple of str
        What readers must know, such as that long arrays are left out.
    assumptions : tuple of str
        What the figures rest on besides the guarantee.
    """

    rows: tuple[Result, ...]
    notes: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()

    def to_csv(self) -> str:
        """Return the figures as CSV with the columns of :class:`Result`; what is not known is empty."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(HEADER)
        writer.writerows([_cell(value) for value in asdict(row).values()] for row in self.rows)
        return out.getvalue()

    def to_list(self) -> list[dict[str, object]]:
        """Return the figures as plain values for JSON; what is not known is None, and an infinite end a text."""
        return [{key: _plain(value) for key, value in asdict(row).items()} for row in self.rows]

    def to_text(self, *, most: int = _SHOWN) -> str:
        """Return the first figures as a table in plain text, without columns that are empty, and what they rest on.

        Parameters
        ----------
        most : int
            Number of figures.
        """
        shown = self.rows[:most]
        columns = [_column(name, shown) for name in ("quantity", "name", "part", "group")]
        columns += [["estimate", *(_short(row.estimate) for row in shown)], ["interval", *map(_interval, shown)]]
        for title, name in (("noise sd", "noise_sd"), ("p", "p_value"), ("adjusted p", "adjusted_p_value")):
            columns.append([title, *(_short(getattr(row, name)) for row in shown)])
        columns.append(_column("unit", shown))
        text = _aligned([column for column in columns if any(column[1:])])
        if len(self.rows) > len(shown):
            text += f"\n... and {len(self.rows) - len(shown):,} more figures, in results.csv"
        return "\n".join([text, *assumption_lines(self.assumptions)])


def results_of(model: FittedModel, feature_names: Sequence[str]) -> Results:
    """Return the figures of a fitted model, as its description names them.

    Parameters
    ----------
    model : FittedModel
        Fitted estimator.
    feature_names : sequence of str
        Names of the prepared columns; may be empty.
    """
    described = model.analysis
    wanted = () if described is None else described.results
    rows: list[Result] = []
    left_out = False
    # A model whose description names none gets all for which it has the attributes.
    for name in wanted or FIGURES:
        found = FIGURES[name](model, list(feature_names))
        if found is MANY:
            left_out = True
        else:
            rows += found
    return Results(tuple(rows), (_LEFT_OUT,) if left_out else (), assumptions_of(model))


def _column(name: str, rows: Iterable[Result]) -> list[str]:
    return [name, *(str(getattr(row, name)) for row in rows)]


def _aligned(columns: Sequence[Sequence[str]]) -> str:
    """Return columns of text side by side: words to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in columns]
    words = [column[0] in ("quantity", "name", "part", "group", "unit") for column in columns]
    lines: Iterator[tuple[str, ...]] = zip(*columns, strict=True)
    return "\n".join(
        "  ".join(
            cell.ljust(width) if is_word else cell.rjust(width)
            for cell, width, is_word in zip(line, widths, words, strict=True)
        ).rstrip()
        for line in lines
    )


def _interval(row: Result) -> str:
    low, high = _short(row.low), _short(row.high)
    return f"{low} to {high}" if low and high else ""


def _short(value: str | float) -> str:
    if isinstance(value, str):
        return value
    return "" if math.isnan(value) else f"{value:.4g}"


def _cell(value: object) -> object:
    """Return a value for CSV: an empty text for what is not known."""
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.10g}"
    return value


def _plain(value: object) -> object:
    """Return a value for JSON, which has neither NaN nor infinity."""
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return value
