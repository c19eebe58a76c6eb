"""Hazard ratios in words: as rows, plain text or Markdown."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from dpcape.core.arrays import AnyArray, FloatArray


class FittedHazards(Protocol):
    """What texts and plots are made from: the fitted arrays of a Cox regression."""

    names_: AnyArray
    coef_: FloatArray
    interval_: FloatArray
    se_: FloatArray
    hazard_ratio_: FloatArray
    hazard_ratio_interval_: FloatArray
    p_: FloatArray
    sd_: FloatArray
    n_complete_: float
    event_share_: float
    noise_part_: float
    confidence: float


HEADER = ["column", "hazard ratio", "interval", "p"]


def hazard_rows(model: FittedHazards) -> list[list[str]]:
    """Return one row per coefficient: the ratio per unit or against the first level, its interval and p."""
    return [
        [str(name), f"{model.hazard_ratio_[at]:.4g}", _interval(model.hazard_ratio_interval_[:, at]), _p(model.p_[at])]
        for at, name in enumerate(model.names_)
    ]


def hazard_notes(model: FittedHazards) -> list[str]:
    """Return what must be said below the table."""
    notes = [
        f"Ratios are per unit of a number, or of a level against the first one; about {model.n_complete_:.0f} complete "
        f"records, of which {100 * model.event_share_:.3g}% have their event. {100 * model.confidence:g}% intervals "
        "cover sampling and noise. They hold if hazards are proportional, and if leaving follow-up tells nothing about "
        "the time of the event.",
    ]
    if math.isnan(model.noise_part_):
        return [*notes, "Noise of privacy hides how much the records tell: nothing is known, and intervals are open."]
    return [*notes, f"Noise of privacy is {100 * model.noise_part_:.0f}% of the variance."]


def hazard_text(model: FittedHazards) -> str:
    """Return the table as plain text in columns."""
    lines = [HEADER, *hazard_rows(model)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(HEADER))]
    table = ["  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]).rstrip() for line in lines]
    return "\n".join([*table, "", *hazard_notes(model)])


def hazard_markdown(model: FittedHazards) -> str:
    """Return the table as Markdown."""
    lines = [HEADER, ["---", *["---:"] * (len(HEADER) - 1)], *hazard_rows(model)]
    table = "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)
    return "\n\n".join([table, *hazard_notes(model)]) + "\n"


def _interval(ends: FloatArray) -> str:
    if not np.isfinite(ends).all():
        return "anything"
    return f"{ends[0]:.4g} to {ends[1]:.4g}"


def _p(value: float) -> str:
    return f"{value:.2g}"
