"""Report section about the coefficients of a regression, with intervals and p-values where there are some."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpcape.core.arrays import FloatArray
from dpcape.report.coefficient_plots import coefficient_plot
from dpcape.report.loading_sections import FittedModel, figure_of, names_of, weights_section
from dpcape.report.page import Picture, ReportSection, Table

THESE_SITES = "They are for these sites; Heterogeneity gives intervals for the wider population of sites."
"""Whom intervals of means and coefficients are about."""
DRAWN = 30
"""Largest number of coefficients or means that one picture draws."""
_SHOWN = 60


def level_of(model: FittedModel) -> str:
    """Return the probability with which intervals cover, in per cent."""
    return f"{100 * model.confidence:g}%"


def caption_of(model: FittedModel, count: int, *, has_interval: bool) -> str:
    """Return a caption: what the intervals cover, and how many entries are drawn."""
    counted = ""
    if has_interval:
        counted = f"{level_of(model)} intervals; they cover sampling and privacy noise. {THESE_SITES}"
    drawn = f"The {DRAWN} largest of {count} are drawn." if count > DRAWN else ""
    return f"{counted} {drawn}".strip() or "In the order of the columns."


def coefficients(model: FittedModel, names: Sequence[str]) -> ReportSection | None:
    """Return the section that draws coefficients; None if the model has none."""
    values, interval = getattr(model, "coef_", None), getattr(model, "interval_", None)
    if values is None:
        return None
    if np.ndim(values) != 1 and interval is None:
        return weights_section(np.asarray(values), names, "Coefficients", row="class")
    labels, ends = _labels(model, names), None if interval is None else np.asarray(interval).reshape(2, -1)
    label = "coefficient" if ends is None else f"coefficient, with {level_of(model)} interval"
    axes = coefficient_plot(np.ravel(values), ends, labels, largest=DRAWN, label=label)
    caption = caption_of(model, np.size(values), has_interval=ends is not None)
    picture = Picture(figure_of(axes), f"Coefficients of {np.shape(values)[-1]} features.", caption)
    return ReportSection("Coefficients", pictures=[picture], tables=[_table(model, labels, ends)])


def _labels(model: FittedModel, names: Sequence[str]) -> list[str]:
    """Return the names of all coefficients: of the features, or of the features for each class."""
    columns = [str(name) for name in names_of(names, np.shape(model.coef_)[-1])]
    if np.ndim(model.coef_) == 1:
        return columns
    return [f"{label}: {name}" for label in model.classes_[1:] for name in columns]


def _table(model: FittedModel, labels: Sequence[str], ends: FloatArray | None) -> Table:
    rows = [[name, f"{value:.4g}"] for name, value in zip(labels, np.ravel(model.coef_), strict=True)]
    header = ["feature", "coefficient"]
    constants = _intercepts(model)
    rows += [[name, f"{value:.4g}"] for name, value in constants]
    if ends is not None:
        header.append(f"{level_of(model)} interval")
        own = np.reshape(model.intercept_interval_, (2, -1)) if constants else np.empty((2, 0))
        for row, low, high in zip(rows, *np.hstack([ends, own]), strict=True):
            row.append(f"{low:.4g} to {high:.4g}")
    if ends is not None and hasattr(model, "p_values_"):
        header.append("p-value")
        # Nothing is tested of an offset.
        levels = ["" if np.isnan(value) else f"{value:.2g}" for value in np.ravel(model.p_values_)]
        levels += [""] * len(constants)
        for row, level in zip(rows, levels, strict=True):
            row.append(level)
    n_slopes = len(labels)
    return Table(header, rows[: min(n_slopes, _SHOWN)] + rows[n_slopes:])


def _intercepts(model: FittedModel) -> list[tuple[str, float]]:
    if not hasattr(model, "intercept_"):
        return []
    values = np.ravel(model.intercept_)
    names = ["intercept"] if len(values) == 1 else [f"{label}: intercept" for label in model.classes_[1:]]
    return [(name, float(value)) for name, value in zip(names, values, strict=True)]
