"""What an analysis found: figures with interval, noise and meaning, and every table that is made of them.

An estimator's ``result()`` returns a :class:`Result`. Its rows are the only source of ``results.csv``,
``results.json``, of tables on the console, in Markdown, LaTeX and HTML, and of what ``methods.md`` says about figures
and intervals.
"""

from __future__ import annotations

import csv
import datetime
import io
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from dpcape.charts import Chart
from dpcape.tables import Table, interval, short, tex

NAN = math.nan
LARGEST = 20_000
"""Largest number of figures of one kind that are listed."""
SHOWN = 60
"""Largest number of rows of a table; files have all figures."""
EACH, TOGETHER = "each by itself", "all of them together"
"""Whether the confidence of intervals holds for each of them, or for all of a kind together."""
SAMPLING_AND_NOISE = "sampling and the noise of privacy"
NOISE_ALONE = "the noise of privacy alone: they are about these records, not about a population"
LOG = "log"
"""Scale of the standard errors of ratios."""
Words: TypeAlias = str | Sequence[str]
_LEFT_OUT = f"More than {LARGEST:,} figures of one kind are not listed; model.npz contains all."


@dataclass(frozen=True, kw_only=True)
class Row:
    """One figure of a result, a line of ``results.csv``; NaN or an empty text where nothing is known.

    The attributes are those of :class:`Estimates`, which documents them.
    """

    quantity: str
    name: str
    part: str
    group: str
    estimate: float | str
    low: float | str
    high: float | str
    noise_sd: float
    p_value: float
    adjusted_p_value: float
    unit: str
    standard_error: float
    scale: str
    confidence: float
    multiplicity: str
    covers: str
    n_records: float
    estimand: str


@dataclass(frozen=True, kw_only=True)
class Estimates:
    """Figures of one kind, with what a reader must know to use them.

    Attributes
    ----------
    quantity : str or sequence of str
        What the figures are, in a word: "mean", "coefficient", "eigenvalue" and so on.
    estimand : str or sequence of str
        What is estimated, in words of the field; clipping and ranges included where they change it.
    value : array_like
        The figures.
    low, high : array_like or None
        Ends of their intervals; None where there are none.
    standard_error : array_like or None
        Standard errors, on the ``scale``.
    noise : array_like or None
        Standard deviations of the noise of privacy, to first order where a figure is not linear in what was released.
    p_value, adjusted : array_like or None
        P-values, and those adjusted for the number of tests, or rates of false discoveries.
    names : str or sequence of str
        Column, outcome or component.
    parts : str or sequence of str
        Level, quantile, time or second column.
    groups : str or sequence of str
        Group of records.
    unit : str or sequence of str
        Unit.
    scale : str
        "log" for ratios, whose standard errors are those of their logarithm; else empty.
    confidence : float
        Probability of the intervals.
    multiplicity : str
        ``EACH`` or ``TOGETHER``: whether it holds for each interval or for all of them together.
    covers : str or sequence of str
        What intervals cover.
    n : float
        Number of records analysed, as released; NaN if it is not part of the result.
    dates : sequence of bool
        Which figures are days since 1970, shown in ISO form; empty for none.
    """

    quantity: Words
    estimand: Words
    value: ArrayLike
    low: ArrayLike | None = None
    high: ArrayLike | None = None
    standard_error: ArrayLike | None = None
    noise: ArrayLike | None = None
    p_value: ArrayLike | None = None
    adjusted: ArrayLike | None = None
    names: Words = ""
    parts: Words = ""
    groups: Words = ""
    unit: Words = ""
    scale: str = ""
    confidence: float = NAN
    multiplicity: str = EACH
    covers: Words = SAMPLING_AND_NOISE
    n: float = NAN
    dates: Sequence[bool] = ()

    def __len__(self) -> int:
        return int(np.size(self.value))

    @property
    def is_inferred(self) -> bool:
        """Whether there are intervals or tests."""
        return any(entry is not None for entry in (self.low, self.p_value, self.adjusted))

    def rows(self) -> Iterator[Row]:
        """Yield the figures one by one."""
        count = len(self)
        words = (self.quantity, self.names, self.parts, self.groups, self.unit, self.covers, self.estimand)
        ends = (self.value, self.low, self.high)
        others = (self.noise, self.p_value, self.adjusted, self.standard_error)
        texts = zip(*(_words(entry, count) for entry in words), strict=True)
        unknown = np.full(count, NAN)
        columns = (np.ravel(np.asarray(unknown if entry is None else entry, float)) for entry in (*ends, *others))
        figures = zip(*(column.tolist() for column in columns), strict=True)
        for text, (value, low, high, noise, p, q, error), is_date in zip(
            texts, figures, self.dates or [False] * count, strict=True
        ):
            quantity, name, part, group, unit, covers, estimand = text
            shown = iso_date if is_date else float
            has_interval = not math.isnan(low)
            yield Row(
                quantity=quantity,
                name=name,
                part=part,
                group=group,
                estimate=shown(value),
                low=shown(low),
                high=shown(high),
                noise_sd=noise,
                p_value=p,
                adjusted_p_value=q,
                unit=unit,
                standard_error=error,
                scale=self.scale,
                confidence=self.confidence if has_interval else NAN,
                multiplicity=self.multiplicity if has_interval else "",
                covers=covers if has_interval else "",
                n_records=self.n,
                estimand=estimand,
            )

    def meanings(self) -> list[str]:
        """Say what the figures are, and what their intervals hold for and cover."""
        kinds = dict.fromkeys(zip(*(_words(entry, len(self)) for entry in (self.quantity, self.estimand)), strict=True))
        part = f", {self.parts}" if isinstance(self.parts, str) and self.parts else ""
        texts = [f"{_capitalised(quantity)}{part}: {estimand}." for quantity, estimand in kinds]
        if self.low is not None:
            level = f"{100 * self.confidence:g}% intervals"
            covers = dict.fromkeys([self.covers] if isinstance(self.covers, str) else self.covers)
            if len(covers) == 1:
                texts.append(f"{level} hold {self.multiplicity} and cover {next(iter(covers))}.")
            else:
                of = {
                    text: dict.fromkeys(q for q, c in zip(self.quantity, self.covers, strict=True) if c == text)
                    for text in covers
                }
                texts += [f"{level} of {', '.join(names)} cover {text}." for text, names in of.items()]
        if not math.isnan(self.n):
            texts.append(f"About {self.n:.0f} records were analysed.")
        return texts


@dataclass(frozen=True, kw_only=True)
class Section:
    """Figures that belong together, with the tables and pictures that show them.

    Attributes
    ----------
    title : str
        Heading.
    estimates : tuple of Estimates
        The figures, in the order of ``results.csv``.
    tables : tuple of Table or None
        Tables in an arrangement of their own, such as Table 1; None for one table per kind of figure.
    charts : tuple of Chart
        What is drawn of them.
    notes : tuple of str
        What must be said besides what the figures are.
    """

    title: str
    estimates: tuple[Estimates, ...] = ()
    tables: tuple[Table, ...] | None = None
    charts: tuple[Chart, ...] = ()
    notes: tuple[str, ...] = ()

    def shown(self) -> list[Table]:
        """Return the tables."""
        if self.tables is not None:
            return list(self.tables)
        return [table_of(list(kind.rows())) for kind in self.estimates if 0 < len(kind) <= LARGEST]

    def meanings(self) -> list[str]:
        """Return what the figures are, each kind once."""
        return list(dict.fromkeys(text for kind in self.estimates for text in kind.meanings()))

    def paragraphs(self) -> list[str]:
        """Return what is said below the tables: what the figures are, in one paragraph, and the notes."""
        return list(filter(None, [" ".join(self.meanings()), *self.notes]))


@dataclass(frozen=True)
class Result:
    """Everything an analysis found.

    Attributes
    ----------
    sections : tuple of Section
        The figures; what is printed first comes first.
    assumptions : tuple of str
        What intervals and p-values rest on, a sentence each without its full stop.
    """

    sections: tuple[Section, ...]
    assumptions: tuple[str, ...] = ()

    @property
    def _estimates(self) -> list[Estimates]:
        return [kind for section in self.sections for kind in section.estimates]

    @property
    def rows(self) -> list[Row]:
        """Return all figures; kinds with more than 20,000 are left out."""
        return [row for kind in self._estimates if len(kind) <= LARGEST for row in kind.rows()]

    @property
    def notes(self) -> list[str]:
        """Return what must be said below all tables: figures that are left out, and assumptions."""
        left_out = [_LEFT_OUT] if any(len(kind) > LARGEST for kind in self._estimates) else []
        return left_out + [f"Assumed: {text}." for text in self.assumptions]

    def meanings(self) -> list[str]:
        """Return what figures with intervals or tests are, for a paragraph on methods; without any, what all are."""
        kinds = [kind for kind in self._estimates if kind.is_inferred] or self._estimates
        return list(dict.fromkeys(text for kind in kinds for text in kind.meanings()))

    @property
    def shown(self) -> list[Section]:
        """Return the sections that are shown; figures of others are in files alone."""
        return [section for section in self.sections if section.shown() or section.charts or section.notes]

    def to_text(self) -> str:
        """Return tables and texts as plain text."""
        blocks = []
        for section in self.shown:
            title = [section.title] if len(self.shown) > 1 else []
            texts = [*map(Table.text, section.shown()), "\n".join([*section.meanings(), *section.notes])]
            blocks += [*title, *texts] if any(texts) else []
        return "\n\n".join(filter(None, [*blocks, "\n".join(self.notes)]))

    def to_markdown(self) -> str:
        """Return tables and texts as Markdown."""
        return "\n\n".join(self._written(Table.markdown, "## {}".format, str))

    def to_latex(self) -> str:
        """Return tables and texts as LaTeX, for the package booktabs."""
        lines = self._written(
            Table.latex, lambda title: rf"\paragraph{{{tex(title)}}}", lambda text: rf"\par {tex(text)}"
        )
        return "\n".join(lines)

    def _written(
        self, table: Callable[[Table], str], heading: Callable[[str], str], text: Callable[[str], str]
    ) -> Iterator[str]:
        """Yield headings, unless there is only one section, tables and texts."""
        for section in self.shown:
            written = [*map(table, section.shown()), *map(text, section.paragraphs())]
            if len(self.shown) > 1 and written:
                yield heading(section.title)
            yield from written
        yield from map(text, self.notes)

    def to_csv(self) -> str:
        """Return all figures as CSV with the columns of :class:`Row`; what is not known is empty."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(entry.name for entry in fields(Row))
        writer.writerows([_cell(value) for value in asdict(row).values()] for row in self.rows)
        return out.getvalue()

    def to_list(self) -> list[dict[str, object]]:
        """Return all figures as plain values for JSON; what is not known is None, and an infinite end a text."""
        return [{key: _plain(value) for key, value in asdict(row).items()} for row in self.rows]


def table_of(rows: Sequence[Row]) -> Table:
    """Return figures as a table, without columns that are empty; of very many, the first."""
    shown = rows[:SHOWN]
    quantity = shown[0].quantity if len({row.quantity for row in shown}) == 1 and all(map(_name, shown)) else ""
    level = f"{100 * shown[0].confidence:g}% interval"
    columns = {
        "": [_name(row) if quantity else ": ".join(filter(None, (row.quantity, _name(row)))) for row in shown],
        quantity or "estimate": [short(row.estimate) for row in shown],
        level: [interval(row.low, row.high) for row in shown],
        "noise SD": [short(row.noise_sd, 2) for row in shown],
        "p-value": [short(row.p_value, 2) for row in shown],
        "adjusted p-value": [short(row.adjusted_p_value, 2) for row in shown],
        "unit": [row.unit for row in shown],
    }
    filled = {title: cells for title, cells in columns.items() if any(cells) or not title}
    cut = f"The first {len(shown)} of {len(rows):,} figures; results.csv has all." if len(rows) > len(shown) else ""
    return Table(list(filled), list(map(list, zip(*filled.values(), strict=True))), cut)


def _name(row: Row) -> str:
    return ", ".join(filter(None, (row.name, row.part, row.group)))


def _capitalised(quantity: str) -> str:
    """Return a quantity as the beginning of a sentence; symbols such as d stay as they are."""
    return quantity if len(quantity) < len("mean") else quantity[0].upper() + quantity[1:]


def _words(words: Words, count: int) -> list[str]:
    return [words] * count if isinstance(words, str) else [str(word) for word in words]


def iso_date(days: float) -> str:
    """Return days since 1970 as a date in ISO form."""
    return (datetime.date(1970, 1, 1) + datetime.timedelta(days=math.floor(days))).isoformat()


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
