"""Report sections about survival: curves with bands, numbers at risk, the test of groups, and hazard ratios."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from dpcape.report.hazard_table import HEADER, FittedHazards, hazard_notes, hazard_rows
from dpcape.report.loading_sections import FittedModel, figure_of
from dpcape.report.page import Picture, ReportSection, Table
from dpcape.report.survival_plots import ratio_plot, survival_plot
from dpcape.report.survival_tables import (
    FittedCurves,
    FittedTest,
    at_risk_rows,
    curve_rows,
    log_rank_line,
    log_rank_rows,
    shown_times,
)


def survival_curves(model: FittedModel, names: Sequence[str]) -> ReportSection | None:
    """Return the section that draws survival curves; None if the model has none."""
    if not (hasattr(model, "survival_") and hasattr(model, "at_risk_")):
        return None
    fitted = cast("FittedCurves", model)
    times, level = shown_times(fitted), f"{100 * fitted.confidence:g}%"
    text = [
        f"Bands are {level} intervals at one time, of the population that the records come from. They cover "
        "noise, sampling, and where within a bin of time follow-up ended. Numbers at risk have noise.",
    ]
    listed = "; ".join(
        f"{name}: {100 * share:.0f}%" for name, share in zip(model.groups_, model.survival_[-1], strict=True)
    )
    picture = Picture(
        figure_of(survival_plot(fitted)),
        f"Survival curves with bands; shares without the event at {model.times_[-1]:.4g}: {listed}.",
        "Shares without the event, with numbers at risk below.",
    )
    tables = [
        Table(*curve_rows(fitted, times), f"Shares without the event, with {level} intervals."),
        Table(*at_risk_rows(fitted, times), "Numbers at risk, with noise."),
    ]
    return ReportSection("Survival", text=text, pictures=[picture], tables=tables)


def log_rank(model: FittedModel, names: Sequence[str]) -> ReportSection | None:
    """Return the section about the log-rank test; None if there is no test."""
    about = (
        "The p-value includes the noise. It holds if leaving follow-up tells nothing about the time of the event, "
        "wherever within a bin of time it happened."
    )
    if hasattr(model, "observed_") and hasattr(model, "p_value_"):
        fitted = cast("FittedTest", model)
        line = log_rank_line(fitted.statistic_, fitted.freedom_, fitted.p_value_)
        until = f"Groups are compared up to {fitted.compared_until_:.5g}."
        return ReportSection("Log-rank test", text=[f"{line}.", until, about], tables=[Table(*log_rank_rows(fitted))])
    tested = np.asarray(getattr(model, "log_rank_", [np.nan]))
    if np.isnan(tested).any():
        return None
    return ReportSection("Log-rank test", text=[f"{log_rank_line(*tested.tolist())}.", about])


def hazard_ratios(model: FittedModel, names: Sequence[str]) -> ReportSection | None:
    """Return the section about hazard ratios; None if the model has none."""
    if not hasattr(model, "hazard_ratio_"):
        return None
    fitted = cast("FittedHazards", model)
    listed = "; ".join(f"{name}: {ratio:.3g}" for name, ratio in zip(fitted.names_, fitted.hazard_ratio_, strict=True))
    picture = Picture(
        figure_of(ratio_plot(fitted)),
        f"Forest plot of hazard ratios: {listed}.",
        "Hazard ratios, of numbers per standard deviation; to the right of the line hazards are higher.",
    )
    table = Table(HEADER, hazard_rows(fitted))
    return ReportSection("Hazard ratios", text=hazard_notes(fitted), pictures=[picture], tables=[table])
