"""The figures of each kind of result, as rows of one layout."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from dpcape.core.arrays import FloatArray
from dpcape.report.loading_sections import FittedModel, names_of
from dpcape.report.result import LARGEST, MANY, NAN, Figures, Result, floats
from dpcape.report.table_figures import (
    contrasts_figures,
    hazard_ratios_figures,
    heterogeneity_figures,
    log_rank_figures,
    sites_figures,
    survival_figures,
    table_one_figures,
)

_PREPARED = "coefficient of the prepared column"


def _means(model: FittedModel, names: Sequence[str]) -> list[Result]:
    if not hasattr(model, "original_interval_") or not hasattr(model, "variance_"):
        return []
    labels, units = names_of(names, len(model.mean_)), model.units_
    noise = units.steps(np.full(len(labels), getattr(model, "noise_scale_", NAN)))
    # Standard deviations are not listed: noise can hide them, and no interval for them follows from the release.
    return [
        Result(quantity="mean", name=name, estimate=mean, low=low, high=high, noise_sd=sd, unit=unit)
        for name, mean, low, high, sd, unit in zip(
            labels, *floats(model.original_mean_, *model.original_interval_, noise), units.names, strict=True
        )
    ]


def _coefficients(model: FittedModel, names: Sequence[str]) -> list[Result]:
    values = np.asarray(getattr(model, "coef_", ()))
    several = values.ndim == 2 and hasattr(model, "intercept_")
    if values.size == 0 or (values.ndim != 1 and not several):
        return []
    units, labels, shape = model.units_, names_of(names, values.shape[-1]), values.shape
    # One linear predictor, or one for each class but the first.
    groups = [str(label) for label in model.classes_[1:]] if several else [""]
    ends = np.reshape(getattr(model, "interval_", np.full((2, *shape), NAN)), (2, len(groups), -1))
    p_values = np.reshape(getattr(model, "p_values_", np.full(shape, NAN)), (len(groups), -1))
    noises = np.reshape(getattr(model, "coef_noise_scale_", np.full(shape, NAN)), (len(groups), -1))
    rows = []
    for at, (group, slopes) in enumerate(zip(groups, np.atleast_2d(values), strict=True)):
        figures = floats(*(units.slopes(each) for each in (slopes, *ends[:, at], noises[at])), p_values[at])
        for name, value, low, high, sd, p_value, unit in zip(labels, *figures, units.names, strict=True):
            own = {"name": name, "group": group, "unit": f"per {unit}" if unit else ""}
            figure = {"estimate": value, "low": low, "high": high, "noise_sd": sd, "p_value": p_value}
            rows.append(Result(quantity="coefficient", **figure, **own))
        if units.known:
            rows += [
                Result(quantity=_PREPARED, name=name, group=group, estimate=value, low=low, high=high, noise_sd=sd)
                for name, value, low, high, sd in zip(labels, *floats(slopes, *ends[:, at], noises[at]), strict=True)
            ]
    return rows + _intercepts(model, units, groups)


def _intercepts(model: FittedModel, units: Any, groups: Sequence[str]) -> list[Result]:
    """Return the intercepts at the middle of the ranges, with their intervals, and those at zero."""
    if not hasattr(model, "intercept_"):
        return []
    unknown = np.full((2, len(groups)), NAN)
    ends = np.reshape(getattr(model, "intercept_interval_", unknown), (2, len(groups)))
    noises = np.ravel(getattr(model, "intercept_noise_scale_", unknown[0]))
    part = "middle of the ranges" if units.known else ""
    rows = []
    for at, (group, value, low, high, sd) in enumerate(
        zip(groups, *floats(np.ravel(model.intercept_), *ends, noises), strict=True)
    ):
        figure = {"estimate": value, "low": low, "high": high, "noise_sd": sd}
        rows.append(Result(quantity="intercept", part=part, group=group, **figure))
        if units.known:
            zero = float(np.ravel(model.original_intercept_)[at])
            rows.append(Result(quantity="intercept", part="all at 0", group=group, estimate=zero))
    return rows


def _eigenvalues(model: FittedModel, names: Sequence[str]) -> list[Result]:
    if not hasattr(model, "explained_variance_"):
        return []
    count = len(model.explained_variance_)
    ends = np.asarray(getattr(model, "interval_", np.full((2, count), NAN)))
    p_values = np.asarray(getattr(model, "p_values_", np.full(count, NAN)))
    noises = getattr(model, "variance_noise_scale_", np.full(count, getattr(model, "noise_scale_", NAN)))
    return [
        Result(
            quantity="eigenvalue", name=f"component {at}", estimate=value, low=low, high=high, noise_sd=sd, p_value=p
        )
        for at, (value, low, high, sd, p) in enumerate(
            zip(*floats(model.explained_variance_, *ends, noises, p_values), strict=True), start=1
        )
    ]


def _pairs(attribute: str, quantity: str, kind: str = "pair") -> Figures:
    """Return a maker of tested strengths: correlations or covariances of pairs of directions."""

    def make(model: FittedModel, names: Sequence[str]) -> list[Result]:
        values = getattr(model, attribute, None)
        if values is None or np.ndim(values) != 1:
            return []
        p_values = np.asarray(getattr(model, "p_values_", np.full(len(values), NAN)))
        rows = [
            Result(quantity=quantity, name=f"{kind} {at}", estimate=value, p_value=p)
            for at, (value, p) in enumerate(zip(*floats(values, p_values), strict=True), start=1)
        ]
        return rows + _level(model, "noise_level_", quantity)

    return make


def _level(model: FittedModel, attribute: str, quantity: str) -> list[Result]:
    """Return how strong noise and sampling alone may look, where that is known."""
    if not hasattr(model, attribute):
        return []
    return [Result(quantity=f"{quantity}, of noise alone", estimate=float(getattr(model, attribute)))]


def _view_pairs(model: FittedModel, names: Sequence[str]) -> list[Result]:
    if not hasattr(model, "pair_correlations_"):
        return []
    rows = [
        Result(
            quantity="correlation of two views",
            name=f"component {at}",
            part=f"{first + 1} and {second + 1}",
            estimate=float(matrix[first, second]),
        )
        for at, matrix in enumerate(np.asarray(model.pair_correlations_), start=1)
        for first, second in combinations(range(len(model.widths_)), 2)
    ]
    return rows + _level(model, "pair_noise_level_", "correlation of two views")


def _correlation_matrix(model: FittedModel, names: Sequence[str]) -> list[Result]:
    if not hasattr(model, "adjusted_p_values_"):
        return []
    values, adjusted = np.asarray(model.correlations_), np.asarray(model.adjusted_p_values_)
    labels = names_of(getattr(model, "columns_", names), len(values))
    if len(values) * (len(values) - 1) // 2 > LARGEST:
        return MANY
    low, high = np.asarray(model.interval_)
    noises = getattr(model, "correlation_noise_scale_", np.full(values.shape, NAN))
    return [
        Result(
            quantity="correlation",
            name=labels[pair[0]],
            part=labels[pair[1]],
            estimate=float(values[pair]),
            low=float(low[pair]),
            high=float(high[pair]),
            noise_sd=float(noises[pair]),
            p_value=float(model.p_values_[pair]),
            adjusted_p_value=float(adjusted[pair]),
        )
        for pair in combinations(range(len(values)), 2)
        if not np.isnan(adjusted[pair])
    ]


def _weights(
    attribute: str, quantity: str, row: str, *, by_column: bool = False, original: str = "", noise: str = ""
) -> Figures:
    """Return a maker of weights: one figure per row and column, in prepared and in original units."""

    def make(model: FittedModel, names: Sequence[str]) -> list[Result]:
        array = getattr(model, attribute, None)
        if array is None or np.ndim(array) != 2:
            return []
        weights = np.asarray(array).T if by_column else np.asarray(array)
        if weights.size > LARGEST:
            return MANY
        own = _own_names(attribute, model, names)
        noises = getattr(model, noise, None)
        rows = _grid(weights, own, quantity, row, noises=noises)
        if original and model.units_.known:
            changed = np.asarray(getattr(model, original))
            units = _own_names(attribute, model, model.units_.names)
            scaled = None if noises is None else model.units_.steps(noises)
            changed = changed.T if by_column else changed
            rows += _grid(changed, own, f"{quantity}, original units", row, units, noises=scaled)
        return rows

    return make


def _own_names(attribute: str, model: FittedModel, names: Sequence[str]) -> Sequence[str]:
    """Return the names of the view that an array is about."""
    if not attribute.startswith(("x_", "y_")):
        return names
    width = len(model.x_weights_)
    return names[:width] if attribute.startswith("x_") else names[width:]


def _grid(
    values: FloatArray,
    names: Sequence[str],
    quantity: str,
    row: str,
    units: Sequence[str] | None = None,
    noises: FloatArray | None = None,
) -> list[Result]:
    labels = names_of(names, values.shape[1])
    unit_of = units or [""] * values.shape[1]
    known = np.full(values.shape, NAN) if noises is None else noises
    return [
        Result(quantity=quantity, name=label, part=f"{row} {at}", estimate=value, noise_sd=sd, unit=unit)
        for at, (line, scales) in enumerate(zip(*floats(values, known), strict=True), start=1)
        for label, value, sd, unit in zip(labels, line, scales, unit_of, strict=True)
    ]


def _list(attribute: str, quantity: str, row: str) -> Figures:
    """Return a maker of one figure per component, cluster or topic."""

    def make(model: FittedModel, names: Sequence[str]) -> list[Result]:
        values = getattr(model, attribute, None)
        if values is None or np.ndim(values) != 1:
            return []
        if len(values) > LARGEST:
            return MANY
        return [
            Result(quantity=quantity, name=f"{row} {at}", estimate=value)
            for at, value in enumerate(floats(values)[0], start=1)
        ]

    return make


FIGURES: dict[str, Figures] = {
    "means": _means,
    "coefficients": _coefficients,
    "eigenvalues": _eigenvalues,
    "canonical_correlations": _pairs("correlations_", "canonical correlation"),
    "covariances": _pairs("covariances_", "covariance of the scores"),
    "mean_correlations": _pairs("correlations_", "mean correlation", "component"),
    "view_pairs": _view_pairs,
    "correlation_matrix": _correlation_matrix,
    "loadings": _weights(
        "components_", "loading", "component", original="original_components_", noise="component_noise_scale_"
    ),
    "x_weights": _weights("x_weights_", "weight, first view", "pair", by_column=True, original="original_x_weights_"),
    "y_weights": _weights("y_weights_", "weight, second view", "pair", by_column=True, original="original_y_weights_"),
    "x_loadings": _weights("x_loadings_", "loading, first view", "pair", by_column=True),
    "y_loadings": _weights("y_loadings_", "loading, second view", "pair", by_column=True),
    "view_weights": _weights("weights_", "weight", "component", by_column=True, original="original_weights_"),
    "shares": _list("shares_", "share of records", "cluster"),
    "centres": _weights("cluster_centers_", "centre", "cluster", original="original_cluster_centers_"),
    "component_means": _weights("means_", "mean of the component", "component", original="original_means_"),
    "component_weights": _list("weights_", "weight of the component", "component"),
    "topics": _weights("topics_", "probability of the word", "topic"),
    "maps": _weights("mixing_", "map", "source", by_column=True),
    "hidden_units": _weights("hidden_", "weight of the hidden unit", "unit"),
    "output_units": _weights("output_", "weight of the output", "output"),
    "module_weights": _list("weights_", "weight of the module", "weight"),
    "table_one": table_one_figures,
    "contrasts": contrasts_figures,
    "survival": survival_figures,
    "log_rank": log_rank_figures,
    "sites": sites_figures,
    "hazard_ratios": hazard_ratios_figures,
    "heterogeneity": heterogeneity_figures,
}
