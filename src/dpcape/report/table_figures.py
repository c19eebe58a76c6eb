"""The figures of analyses that are tables: Table 1, differences, survival, hazard ratios and sites."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import cast

import numpy as np

from dpcape.report.loading_sections import FittedModel
from dpcape.report.result import NAN, Result, floats
from dpcape.report.table_one import FittedSummary, shown_figure


def table_one_figures(model: FittedModel, names: Sequence[str]) -> list[Result]:
    """Return the figures of Table 1."""
    if not (hasattr(model, "rows_") and hasattr(model, "groups_") and hasattr(model, "table_")):
        return []
    fitted = cast("FittedSummary", model)
    in_units = ("quantile", "mean", "sd")
    noises = getattr(model, "noise_scales_", np.full(fitted.table_.shape, NAN))
    rows = []
    for row, (variable, statistic, level) in enumerate(fitted.rows_):
        unit = model.unit_of(str(variable)) if statistic in in_units else ""
        for at, group in enumerate(fitted.groups_):
            figures = (fitted.table_[row, at], *fitted.intervals_[:, row, at])
            value, low, high = (shown_figure(fitted, row, float(figure)) for figure in figures)
            rows.append(
                Result(
                    quantity=str(statistic),
                    name=str(variable),
                    part=str(level),
                    group=str(group),
                    estimate=value,
                    low=low,
                    high=high,
                    noise_sd=float(noises[row, at]),
                    unit=unit,
                )
            )
    return rows


def contrasts_figures(model: FittedModel, names: Sequence[str]) -> list[Result]:
    """Return adjusted differences, in original units and as d."""
    if not (hasattr(model, "d_interval_") and hasattr(model, "outcomes_")):
        return []
    rows: list[Result] = []
    unknown = np.full((2, len(model.outcomes_)), NAN)
    noises = getattr(model, "noise_scales_", unknown)
    for quantity, values, ends, noise in (
        ("difference", model.effect_, model.effect_interval_, noises[0]),
        ("d", model.d_, model.d_interval_, noises[1]),
    ):
        figures = floats(values, *ends, noise, model.p_, model.q_)
        for name, value, low, high, sd, p, q in zip(model.outcomes_, *figures, strict=True):
            unit = model.unit_of(str(name)) if quantity == "difference" else ""
            rows.append(
                Result(
                    quantity=quantity,
                    name=str(name),
                    part=str(model.contrast_),
                    estimate=value,
                    low=low,
                    high=high,
                    noise_sd=sd,
                    p_value=p,
                    adjusted_p_value=q,
                    unit=unit,
                )
            )
    return rows


def survival_figures(model: FittedModel, names: Sequence[str]) -> list[Result]:
    """Return survival, numbers at risk and medians."""
    if not (hasattr(model, "survival_") and hasattr(model, "times_")):
        return []
    unit = model.unit_of(str(getattr(model, "time_", "")))
    rows: list[Result] = []
    unknown = np.full(model.survival_.shape, NAN)
    for at, group in enumerate(model.groups_):
        for quantity, values, ends, noises in (
            ("survival", model.survival_, model.interval_, getattr(model, "survival_noise_scale_", unknown)),
            ("at risk", model.at_risk_, model.at_risk_interval_, getattr(model, "at_risk_noise_scale_", unknown)),
        ):
            figures = floats(model.times_, values[:, at], *ends[:, :, at], noises[:, at])
            rows += [
                Result(
                    quantity=quantity,
                    part=f"{time:.10g}",
                    group=str(group),
                    estimate=value,
                    low=low,
                    high=high,
                    noise_sd=sd,
                )
                for time, value, low, high, sd in zip(*figures, strict=True)
            ]
        median, low, high = (float(model.median_[at]), *(float(end) for end in model.median_interval_[:, at]))
        rows.append(Result(quantity="median", group=str(group), estimate=median, low=low, high=high, unit=unit))
    return rows


def log_rank_figures(model: FittedModel, names: Sequence[str]) -> list[Result]:
    """Return the log-rank test."""
    if hasattr(model, "log_rank_"):
        statistic, freedom, p_value = (float(value) for value in model.log_rank_)
        if math.isnan(p_value):
            return []
        return [Result(quantity="log-rank chi2", part=f"{freedom:.0f} df", estimate=statistic, p_value=p_value)]
    if not (hasattr(model, "observed_") and hasattr(model, "p_value_")):
        return []
    rows = [
        Result(quantity=f"{kind} events", group=str(name), estimate=value)
        for kind, values in (("observed", model.observed_), ("expected", model.expected_))
        for name, value in zip(model.groups_, floats(values)[0], strict=True)
    ]
    unit = model.unit_of(str(getattr(model, "time_", "")))
    test = Result(
        quantity="log-rank chi2",
        part=f"{int(model.freedom_)} df",
        estimate=float(model.statistic_),
        p_value=float(model.p_value_),
    )
    return [*rows, test, Result(quantity="compared until", estimate=float(model.compared_until_), unit=unit)]


def sites_figures(model: FittedModel, names: Sequence[str]) -> list[Result]:
    """Return location and scale of every site."""
    if not (hasattr(model, "location_") and hasattr(model, "sites_")):
        return []
    return [
        *_of_sites(model),
        Result(quantity="variance between sites over that within", part="before", estimate=float(model.between_)),
        Result(
            quantity="variance between sites over that within",
            part="after, upper limit",
            estimate=float(model.left_),
        ),
    ]


def _of_sites(model: FittedModel) -> Iterator[Result]:
    for site, size, locations, scales in zip(model.sites_, model.sizes_, model.location_, model.scale_, strict=True):
        yield Result(quantity="complete records", group=str(site), estimate=float(size))
        for name, location, scale in zip(model.columns_, *floats(locations, scales), strict=True):
            unit = model.unit_of(str(name))
            yield Result(quantity="location", name=str(name), group=str(site), estimate=location, unit=unit)
            yield Result(quantity="scale", name=str(name), group=str(site), estimate=scale)


def hazard_ratios_figures(model: FittedModel, names: Sequence[str]) -> list[Result]:
    """Return hazard ratios, per unit of a number or of a level against the first one."""
    if not hasattr(model, "hazard_ratio_"):
        return []
    figures = floats(model.hazard_ratio_, *model.hazard_ratio_interval_, model.p_)
    return [
        Result(quantity="hazard ratio", name=str(name), estimate=value, low=low, high=high, p_value=p)
        for name, value, low, high, p in zip(model.names_, *figures, strict=True)
    ]


def heterogeneity_figures(model: FittedModel, names: Sequence[str]) -> list[Result]:
    """Return random effects over sites, and means of the sites."""
    if not (hasattr(model, "tau_") and hasattr(model, "prediction_")):
        return []
    rows: list[Result] = []
    pooled = getattr(model, "pooled_noise_scale_", np.full(len(model.columns_), NAN))
    of_sites = getattr(model, "site_noise_scale_", np.full(model.site_means_.shape, NAN))
    for at, name in enumerate(map(str, model.columns_)):
        unit = model.unit_of(name)
        for quantity, part, values, ends, own in (
            ("mean", "these sites", model.pooled_, model.pooled_interval_, unit),
            ("mean", "wider population", model.mean_, model.interval_, unit),
            ("mean", "a further site", model.mean_, model.prediction_, unit),
            ("SD between sites", "", model.tau_, model.tau_interval_, unit),
            ("I^2", "", model.i2_, model.i2_interval_, ""),
        ):
            value, low, high = (float(values[at]), *(float(end) for end in ends[:, at]))
            sd = float(pooled[at]) if part == "these sites" else NAN
            rows.append(
                Result(
                    quantity=quantity,
                    name=name,
                    part=part,
                    estimate=value,
                    low=low,
                    high=high,
                    noise_sd=sd,
                    unit=own,
                )
            )
        figures = floats(model.site_means_[:, at], *model.site_intervals_[:, :, at], of_sites[:, at])
        rows += [
            Result(
                quantity="mean", name=name, group=str(site), estimate=value, low=low, high=high, noise_sd=sd, unit=unit
            )
            for site, value, low, high, sd in zip(model.sites_, *figures, strict=True)
        ]
    return rows
