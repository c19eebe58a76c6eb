"""Adjusted contrasts in words: of a fitted model, as rows of text or Markdown."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from dpcape.core.arrays import AnyArray, FloatArray


class FittedContrasts(Protocol):
    """What the texts are made from: the fitted arrays of a contrast."""

    outcomes_: AnyArray
    effect_: FloatArray
    effect_interval_: FloatArray
    d_: FloatArray
    d_interval_: FloatArray
    se_: FloatArray
    p_: FloatArray
    q_: FloatArray
    contrast_: str
    n_complete_: float
    noise_part_: float
    farthest_: float
    confidence: float
    assumed_effect: float


_OF_MANY = {False: "", True: "s of the outcomes (root mean square)"}
HEADER = ["outcome", "difference", "d", "interval of d", "p", "q"]


def contrast_rows(model: FittedContrasts, *, most: int | None = None) -> list[list[str]]:
    """Return one row per outcome: difference in original units, d with its interval, p and q.

    Parameters
    ----------
    model : FittedContrasts
        Fitted contrast.
    most : int or None
        Largest number of rows: those of the smallest p-values, in the order of the columns.
    """
    places = np.arange(len(model.outcomes_))
    if most is not None and len(places) > most:
        places = np.sort(np.argsort(model.p_, kind="stable")[:most])
    return [
        [
            str(model.outcomes_[at]),
            _number(model.effect_[at]),
            _number(model.d_[at]),
            _interval(model.d_interval_[:, at]),
            _p_value(model.p_[at]),
            _p_value(model.q_[at]),
        ]
        for at in places
    ]


def contrast_notes(model: FittedContrasts) -> list[str]:
    """Return what must be said below the table."""
    level, many = f"{100 * model.confidence:g}%", len(model.outcomes_) > 1
    return [
        f"{model.contrast_}; about {model.n_complete_:.0f} complete records. d is in standard deviations of the "
        f"outcome; its {level} intervals cover sampling and noise. q is the rate of false discoveries (Benjamini and "
        "Hochberg).",
        f"Noise of privacy is {100 * model.noise_part_:.0f}% of the variance. It leaves a little of sites and "
        f"covariates in the comparison: intervals and tests assume that each of them moves an outcome by "
        f"{model.assumed_effect:g} standard deviations at most (assumed_effect).",
        f"Records more than {model.farthest_:.2g} standard deviations from the mean{_OF_MANY[many]} weigh less: what "
        "only a few extreme records differ by is estimated too small.",
    ]


def contrast_text(model: FittedContrasts) -> str:
    """Return the table as plain text in columns."""
    lines = [HEADER, *contrast_rows(model)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(HEADER))]
    table = ["  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]).rstrip() for line in lines]
    return "\n".join([*table, "", *contrast_notes(model)])


def contrast_markdown(model: FittedContrasts) -> str:
    """Return the table as Markdown."""
    lines = [HEADER, ["---", *["---:"] * (len(HEADER) - 1)], *contrast_rows(model)]
    table = "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)
    return "\n\n".join([table, *contrast_notes(model)]) + "\n"


def _number(value: float) -> str:
    return f"{value:.3g}"


def _interval(ends: FloatArray) -> str:
    low, high = (f"{end:.2f}" if np.isfinite(end) else "" for end in ends)
    if low and high:
        return f"{low} to {high}"
    return f"{low} or more" if low else f"{high} or less" if high else "anything"


def _p_value(value: float) -> str:
    if value < 1e-4:
        return f"{value:.0e}" if value > 0 else "0"
    return f"{value:.{2 if value > 0.01 else 1 + math.ceil(-math.log10(value))}f}"
