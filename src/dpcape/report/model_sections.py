"""A fitted model as sections of a page, chosen by what it has: eigenvalues, correlations, coefficients, maps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from dpcape.report.coefficient_plots import coefficient_plot
from dpcape.report.page import Picture, Section, Table
from dpcape.report.plots import bars, scree

Matrix = NDArray[np.float64]
_SHOWN_ROWS, _SHOWN_FEATURES = 12, 6


def model_sections(model: Any, feature_names: Sequence[str]) -> list[Section]:
    """Return the sections a model gives rise to; a table of its arrays always."""
    sections = [make(model, list(feature_names)) for make in _MAKERS]
    return [section for section in sections if section is not None] + [_arrays(model)]


def _spectrum(model: Any, names: Sequence[str]) -> Section | None:
    if not (hasattr(model, "explained_") and hasattr(model, "noise_norm_")):
        return None
    figure = _figure(scree(np.asarray(model.explained_), float(model.noise_norm_)))
    caption = "Eigenvalues above the dashed line stand out of the noise."
    return Section("Strength of the components", pictures=[Picture(figure, "Eigenvalues and noise", caption)])


def _bars(attribute: str, title: str, label: str) -> Callable[[Any, Sequence[str]], Section | None]:
    def make(model: Any, names: Sequence[str]) -> Section | None:
        values = np.atleast_1d(np.asarray(getattr(model, attribute, [])))
        if values.ndim != 1 or not values.size or values.dtype.kind != "f":
            return None
        return Section(title, pictures=[Picture(_figure(bars(values, label)), f"Bars: {label}", f"{title}.")])

    return make


def _coefficients(model: Any, names: Sequence[str]) -> Section | None:
    values, interval = getattr(model, "coef_", None), getattr(model, "interval_", None)
    if values is None or interval is None or np.ndim(values) != 1:
        return None
    labels = names if len(names) == len(values) else None
    figure = _figure(coefficient_plot(np.asarray(values), np.asarray(interval), labels))
    caption = "Coefficients with intervals that count sampling and privacy noise; the largest ones if there are many."
    return Section("Coefficients", pictures=[Picture(figure, "Coefficients with intervals", caption)])


def _mean(model: Any, names: Sequence[str]) -> Section | None:
    interval = getattr(model, "interval_", None)
    if not hasattr(model, "mean_") or interval is None or hasattr(model, "coef_"):
        return None
    labels = _labels(names, len(model.mean_))
    rows = [
        [label, f"{value:.4g}", f"{low:.4g} to {high:.4g}"]
        for label, value, low, high in zip(labels, model.mean_, *interval, strict=True)
    ]
    table = Table(["feature", "mean", "interval"], rows[: 5 * _SHOWN_ROWS])
    return Section("Means", text=["In the units of the prepared records."], tables=[table])


def _loadings(attribute: str, title: str, *, by_column: bool = False) -> Callable[[Any, Sequence[str]], Section | None]:
    """Return a maker of a table with the features that weigh most in each row (or column) of an array."""

    def make(model: Any, names: Sequence[str]) -> Section | None:
        array = getattr(model, attribute, None)
        if array is None or np.ndim(array) != 2:
            return None
        weights = np.asarray(array).T if by_column else np.asarray(array)
        labels = _labels(names, weights.shape[1])
        rows = [[str(at + 1), _largest(row, labels)] for at, row in enumerate(weights[:_SHOWN_ROWS])]
        return Section(title, tables=[Table(["number", "features that weigh most"], rows)])

    return make


def _largest(row: Matrix, labels: Sequence[str]) -> str:
    order = np.argsort(-np.abs(row), kind="stable")[:_SHOWN_FEATURES]
    return ", ".join(f"{labels[at]} ({row[at]:+.3g})" for at in order)


def _labels(names: Sequence[str], width: int) -> Sequence[str]:
    return names if len(names) == width else [str(at + 1) for at in range(width)]


def _arrays(model: Any) -> Section:
    rows = [[name, _shape(getattr(model, name))] for name in model._fitted]
    text = "model.npz holds these arrays, the parameters and the guarantee; it holds no code."
    return Section("What the result file holds", text=[text], tables=[Table(["array", "shape or value"], rows)])


def _shape(value: Any) -> str:
    array = np.asarray(value)
    if array.ndim == 0:
        return f"{array.item():.6g}" if array.dtype.kind in "iuf" else str(array.item())
    return " x ".join(map(str, array.shape))


def _figure(axes: Axes) -> Figure:
    return cast("Figure", axes.figure)


_MAKERS: tuple[Callable[[Any, Sequence[str]], Section | None], ...] = (
    _spectrum,
    _bars("correlations_", "Canonical correlations", "correlation"),
    _bars("eigenvalues_", "Eigenvalues of the released moment", "eigenvalue"),
    _bars("weights_", "Weights of the components", "weight"),
    _bars("shares_", "Sizes of the clusters", "share of records"),
    _coefficients,
    _mean,
    _loadings("components_", "Components"),
    _loadings("topics_", "Topics"),
    _loadings("means_", "Means of the components"),
    _loadings("cluster_centers_", "Centres of the clusters"),
    _loadings("mixing_", "Maps of the sources", by_column=True),
    _loadings("x_weights_", "Directions in the first view", by_column=True),
    _loadings("y_weights_", "Directions in the second view", by_column=True),
)
