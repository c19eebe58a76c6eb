"""What the figures of a result rest on besides its guarantee: what intervals assume, and which mean is subtracted.

Every place that prints figures prints this list: console, ``results.json``, the report and the paragraph on methods.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpcape.report.loading_sections import FittedModel
from dpcape.report.page import ReportSection


def assumptions_of(model: FittedModel) -> tuple[str, ...]:
    """Return what the figures of a fitted model rest on, each in words; empty if nothing is known."""
    return tuple(getattr(model, "assumptions_", ()))


def assumption_lines(texts: Sequence[str]) -> list[str]:
    """Return such texts as lines below a table in plain text."""
    return [f"rests on: {text}" for text in texts]


def assumption_sentence(model: FittedModel) -> str:
    """Return them as a sentence of a paragraph; empty if there are none."""
    texts = assumptions_of(model)
    return f"The figures rest on: {'; '.join(texts)}." if texts else ""


def assumption_section(model: FittedModel) -> list[ReportSection]:
    """Return them as a section of a report; none if there are none."""
    texts = [f"{text[0].upper()}{text[1:]}." for text in assumptions_of(model)]
    return [ReportSection("What the figures rest on", text=texts)] if texts else []
