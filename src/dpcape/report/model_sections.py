"""Report sections about a fitted model: its result, what is determined, and what its file holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dpcape.core.arrays import AnyArray, BoolArray
from dpcape.postprocessing.verdicts import Verdict, summary
from dpcape.report.drawing import picture_of
from dpcape.report.page import ReportSection
from dpcape.results import Result
from dpcape.tables import Table

_SHOWN_VERDICTS = 60
_VERDICTS = (
    "Determined: more than noise and sampling would give, at a level of 5%. Not determined: compatible with anything; "
    "do not interpret it. The verdicts follow from what was released and cost no privacy."
)


def result_sections(
    result: Result, *, inside: BoolArray | None = None, shape: Sequence[int] = ()
) -> list[ReportSection]:
    """Return the report sections about a result.

    Parameters
    ----------
    result : Result
        What was found.
    inside : array of bool or None
        Public mask, for maps of voxels.
    shape : sequence of int
        Public shape of the image that the columns form; empty if they form none.
    """
    sections = [
        ReportSection(
            section.title,
            text=section.paragraphs(),
            pictures=[picture_of(chart, inside, shape) for chart in section.charts],
            tables=section.shown(),
        )
        for section in result.shown
    ]
    return [*sections, ReportSection("What figures rest on", text=result.notes)] if result.notes else sections


def verdict_section(verdicts: Sequence[Verdict]) -> list[ReportSection]:
    """Return the section that judges each quantity in one word; none if nothing was judged."""
    if not verdicts:
        return []
    rows = [[entry.quantity, entry.word, entry.reason] for entry in verdicts[:_SHOWN_VERDICTS]]
    text = [summary(verdicts), _VERDICTS]
    if len(verdicts) > len(rows):
        text.append(f"The first {len(rows)} of {len(verdicts)} are listed; model.npz contains all.")
    return [ReportSection("What is determined", text=text, tables=[Table(["quantity", "verdict", "reason"], rows)])]


def arrays_section(arrays: Mapping[str, AnyArray]) -> ReportSection:
    """Return the section that lists the contents of the result file."""
    rows = [[name, _shape(array)] for name, array in arrays.items()]
    text = "model.npz contains these arrays, the parameters and the guarantee; it contains no code."
    return ReportSection("Contents of the result file", text=[text], tables=[Table(["array", "shape or value"], rows)])


def _shape(array: AnyArray) -> str:
    if np.ndim(array) == 0:
        return f"{array.item():.6g}" if array.dtype.kind in "iuf" else str(array.item())
    return " x ".join(map(str, array.shape))
