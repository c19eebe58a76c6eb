"""Report sections about a fitted model, as its description names them: eigenvalues, coefficients, maps and so on."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import cast

import numpy as np

from dpcape.core.arrays import BoolArray, FloatArray
from dpcape.postprocessing.verdicts import Verdict, summary
from dpcape.report.coefficient_plots import coefficient_plot, within
from dpcape.report.coefficient_sections import DRAWN, caption_of, coefficients, level_of
from dpcape.report.component_plots import correlation_map, strengths
from dpcape.report.contrast_table import HEADER, FittedContrasts, contrast_notes, contrast_rows
from dpcape.report.loading_sections import (
    FittedModel,
    Maker,
    components,
    directions,
    figure_of,
    images,
    loading_section,
    maps,
    names_of,
    topics,
    view_directions,
    view_loadings,
    weights_section,
)
from dpcape.report.page import Picture, ReportSection, Table
from dpcape.report.plots import bars, scree
from dpcape.report.site_sections import heterogeneity, sites
from dpcape.report.survival_sections import hazard_ratios, log_rank, survival_curves
from dpcape.report.table_one import FittedSummary, compact_rows, interval_rows, notes

_SHOWN_MEANS, _SHOWN_VERDICTS = 60, 60
_VERDICTS = (
    "Determined: more than noise and sampling would give, at a level of 5%. Not determined: compatible with anything; "
    "do not interpret it. The verdicts follow from what was released and cost no privacy."
)
MAPS = "maps"
# Sections about rows of weights that are images where columns are pixels: the array, whether maps are its columns, and
# what a map is of.
_IMAGES = {
    MAPS: ("mixing_", True, "source"),
    "components": ("components_", False, "component"),
    "centres": ("cluster_centers_", False, "cluster"),
    "component_means": ("means_", False, "component"),
}


def model_sections(
    model: FittedModel, feature_names: Sequence[str], *, inside: BoolArray | None = None, shape: Sequence[int] = ()
) -> list[ReportSection]:
    """Return the report sections about a fitted model.

    Parameters
    ----------
    model : FittedModel
        Fitted estimator.
    feature_names : sequence of str
        Names of the prepared columns; may be empty.
    inside : array of bool or None
        Public mask, for maps of voxels.
    shape : sequence of int
        Public shape of the image that the columns form; empty if they form none.
    """
    names = list(feature_names)
    described = model.analysis
    # A model without a description gets every section for which it has the attributes.
    wanted = [*SECTIONS, MAPS] if described is None else described.sections
    found = {name: maps(model, names, inside) if name == MAPS else SECTIONS[name](model, names) for name in wanted}
    for name, (attribute, by_column, row) in _IMAGES.items():
        section = found.get(name)
        if section is not None:
            array = np.asarray(getattr(model, attribute))
            section.pictures = images(array.T if by_column else array, inside, shape, row=row) or section.pictures
    return [section for section in found.values() if section is not None]


def verdict_section(verdicts: Sequence[Verdict]) -> list[ReportSection]:
    """Return the section that judges each quantity in one word; none if nothing was judged."""
    if not verdicts:
        return []
    rows = [[entry.quantity, entry.word, entry.reason] for entry in verdicts[:_SHOWN_VERDICTS]]
    text = [summary(verdicts), _VERDICTS]
    if len(verdicts) > len(rows):
        text.append(f"The first {len(rows)} of {len(verdicts)} are listed; model.npz contains all.")
    return [ReportSection("What is determined", text=text, tables=[Table(["quantity", "verdict", "reason"], rows)])]


def arrays_section(model: FittedModel) -> ReportSection:
    """Return the section that lists the contents of the result file."""
    rows = [[name, _shape(getattr(model, name))] for name in model._fitted if hasattr(model, name)]
    text = "model.npz contains these arrays, the parameters and the guarantee; it contains no code."
    return ReportSection("Contents of the result file", text=[text], tables=[Table(["array", "shape or value"], rows)])


def _spectrum(model: FittedModel, names: Sequence[str]) -> ReportSection | None:
    if not (hasattr(model, "explained_variance_") and hasattr(model, "noise_norm_")):
        return None
    values, noise = np.asarray(model.explained_variance_), float(model.noise_norm_)
    picture = Picture(
        figure_of(scree(values, noise)),
        f"Eigenvalues of {len(values)} components, largest {values[0]:.3g}; norm of the noise {noise:.3g}.",
        "Eigenvalues near the dashed line may be noise; the test of each component says whether they are.",
    )
    return ReportSection("Strength of the components", pictures=[picture], tables=_spectrum_tables(model, values))


def _spectrum_tables(model: FittedModel, values: FloatArray) -> list[Table]:
    """Return the eigenvalues with intervals and tests, where the model has them."""
    if not hasattr(model, "p_values_"):
        return []
    rows = [
        [str(number), f"{value:.4g}", f"{low:.4g} to {high:.4g}", f"{p_value:.3g}"]
        for number, (value, low, high, p_value) in enumerate(
            zip(values, *np.asarray(model.interval_), np.asarray(model.p_values_), strict=True), start=1
        )
    ]
    caption = "Intervals are at 95% for all eigenvalues together, of the sample's clipped rows."
    if getattr(model, "basis", None) is not None:
        caption += (
            f" They are wider by what the basis leaves out, {float(model.left_out_):.4g} on average; "
            f"{int(model.n_kept_)} columns of it are used."
        )
    return [Table(["component", "eigenvalue", "interval", "p-value"], rows[:_SHOWN_MEANS], caption)]


def _correlations(model: FittedModel, names: Sequence[str]) -> ReportSection | None:
    values = np.atleast_1d(np.asarray(getattr(model, "correlations_", [])))
    if not values.size:
        return None
    noise = float(getattr(model, "noise_level_", 0.0))
    axes = bars(values, "canonical correlation", noise_level=noise)
    axes.set_xlabel("pair")
    axes.set_ylim(0, 1)
    listed = ", ".join(f"{value:.2f}" for value in values)
    text = "Scores of individual records are not drawn, because they were not released."
    caption = "Correlation of each pair."
    if noise > 0:
        listed += f"; noise alone reaches {noise:.2f}"
        caption += " Of unrelated views, the first correlation is above the dashed line in 5% of studies."
    picture = Picture(figure_of(axes), f"Bars of the canonical correlations: {listed}.", caption)
    tested = np.atleast_1d(np.asarray(getattr(model, "p_values_", [])))
    rows = [
        [str(number), f"{value:.3g}", f"{p_value:.3g}"]
        for number, (value, p_value) in enumerate(zip(values, tested, strict=False), start=1)
    ]
    tables = [Table(["pair", "correlation", "p-value"], rows[:_SHOWN_MEANS])] if rows else []
    return ReportSection("Canonical correlations", text=[text], pictures=[picture], tables=tables)


def _covariances(model: FittedModel, names: Sequence[str]) -> ReportSection | None:
    if not hasattr(model, "covariances_"):
        return None
    values, noise = np.atleast_1d(np.asarray(model.covariances_)), float(model.noise_level_)
    axes = bars(values, "covariance", noise_level=noise)
    axes.set_xlabel("pair")
    listed = ", ".join(f"{value:.3g}" for value in values)
    caption = "Of unrelated views, the first covariance is above the dashed line in 5% of studies."
    picture = Picture(figure_of(axes), f"Bars of the covariances: {listed}; noise alone reaches {noise:.3g}.", caption)
    rows = [
        [str(number), f"{value:.4g}", f"{p_value:.3g}"]
        for number, (value, p_value) in enumerate(zip(values, np.atleast_1d(model.p_values_), strict=True), start=1)
    ]
    table = Table(["pair", "covariance", "p-value"], rows[:_SHOWN_MEANS])
    return ReportSection("Covariances of the scores", pictures=[picture], tables=[table])


def _shared_correlations(model: FittedModel, names: Sequence[str]) -> ReportSection | None:
    if not hasattr(model, "pair_correlations_"):
        return None
    values, noise = np.atleast_1d(np.asarray(model.correlations_)), float(model.noise_level_)
    axes = bars(values, "mean correlation", noise_level=noise)
    axes.set_ylim(0, 1)
    listed = ", ".join(f"{value:.2f}" for value in values)
    picture = Picture(
        figure_of(axes),
        f"Bars of the mean correlations: {listed}; noise alone reaches {noise:.2f}.",
        "Mean correlation of the variates of each component. Of unrelated views, the first is above the dashed line in "
        "5% of studies.",
    )
    text = [
        f"A pair of views whose absolute correlation is above {float(model.pair_noise_level_):.2f} is related: "
        "noise and sampling give one as large for any pair in 5% of studies of unrelated views.",
        "Scores of individual records are not drawn, because they were not released.",
    ]
    pairs = list(combinations(range(len(model.widths_)), 2))
    rows = [
        [str(number), f"{value:.3g}", f"{p_value:.3g}", *(f"{matrix[pair]:.2f}" for pair in pairs)]
        for number, (value, p_value, matrix) in enumerate(
            zip(values, np.atleast_1d(model.p_values_), np.asarray(model.pair_correlations_), strict=True), start=1
        )
    ]
    header = ["component", "mean correlation", "p-value", *(f"views {a + 1} and {b + 1}" for a, b in pairs)]
    return ReportSection(
        "Correlations of the views", text=text, pictures=[picture], tables=[Table(header, rows[:_SHOWN_MEANS])]
    )


def _correlation_matrix(model: FittedModel, names: Sequence[str]) -> ReportSection | None:
    if not hasattr(model, "adjusted_p_values_"):
        return None
    values, adjusted = np.asarray(model.correlations_), np.asarray(model.adjusted_p_values_)
    labels = [str(name) for name in names_of(getattr(model, "columns_", names), len(values))]
    tested = [pair for pair in combinations(range(len(values)), 2) if not np.isnan(adjusted[pair])]
    pairs = sorted(tested, key=lambda pair: (adjusted[pair], -abs(values[pair])))
    low, high = np.asarray(model.interval_)
    rows = [
        [
            f"{labels[pair[0]]} and {labels[pair[1]]}",
            f"{values[pair]:.2f}",
            f"{low[pair]:.2f} to {high[pair]:.2f}",
            f"{adjusted[pair]:.3g}",
        ]
        for pair in pairs[:_SHOWN_MEANS]
    ]
    picture = Picture(
        figure_of(correlation_map(values, adjusted, labels)),
        f"Heat map of the correlations of {len(values)} columns.",
        "Red is positive, blue negative. A dot marks a pair whose adjusted p-value is at most 0.05.",
        wide=True,
    )
    text = [
        "Correlations of the rows as they were clipped. P-values are adjusted for the number of pairs (Holm); "
        "intervals are not.",
        *_complete_records(model),
        *([f"The first {len(rows)} of {len(pairs)} pairs are listed."] if len(pairs) > len(rows) else []),
    ]
    header = ["columns", "correlation", f"{level_of(model)} interval", "adjusted p-value"]
    return ReportSection("Correlations", text=text, pictures=[picture], tables=[Table(header, rows)])


def _complete_records(model: FittedModel) -> list[str]:
    share = float(getattr(model, "complete_", 1.0))
    if share >= 1:
        return []
    return [f"They are of {100 * share:.3g}% of the records, as released: those without a missing value in a column."]


def _strengths(model: FittedModel, names: Sequence[str]) -> ReportSection | None:
    if not (hasattr(model, "strengths_") and hasattr(model, "noise_level_")):
        return None
    values, noise = np.atleast_1d(np.asarray(model.strengths_)), float(model.noise_level_)
    shares = np.atleast_1d(np.asarray(model.weights_))
    strong = Picture(
        figure_of(strengths(values, noise)),
        f"Strengths of {len(values)} components; the level of noise alone is {noise:.3g}.",
        "The dashed line is the level of noise alone; a component that is not twice as strong may be noise.",
    )
    axes = bars(shares, "share")
    weights = Picture(figure_of(axes), "Bars: the weights of the components.", "Weights of the components.")
    return ReportSection("Strength of the components", pictures=[strong, weights])


def _mean(model: FittedModel, names: Sequence[str]) -> ReportSection | None:
    interval = getattr(model, "original_interval_", None)
    if not hasattr(model, "mean_") or interval is None:
        return None
    means = np.asarray(model.original_mean_)
    labels = [str(name) for name in names_of(names, len(means))]
    rows = [
        [label, f"{value:.4g}", f"{low:.4g} to {high:.4g}"]
        for label, value, low, high in zip(labels, means, *interval, strict=True)
    ]
    label = f"mean, with {level_of(model)} interval"
    axes = coefficient_plot(means, np.asarray(interval), labels, largest=DRAWN, label=label)
    caption = caption_of(model, len(rows), has_interval=True)
    picture = Picture(figure_of(axes), f"Means of {len(rows)} features with intervals.", caption)
    table = Table(["feature", "mean", f"{level_of(model)} interval"], rows[:_SHOWN_MEANS])
    return ReportSection("Means", text=_about_means(model), pictures=[picture], tables=[table])


def _about_means(model: FittedModel) -> list[str]:
    """Say what the intervals of means are about."""
    if str(model.about_) == "the mean":
        return [
            "In original units. The intervals contain the mean of the records, within their public ranges; they are "
            "wider by what clipping to the bound may have taken away."
        ]
    return [
        "In units of the prepared records. There are no public ranges, so the intervals are about the mean of the rows "
        "as they were clipped to the bound."
    ]


def _sizes(model: FittedModel, names: Sequence[str]) -> ReportSection | None:
    if not hasattr(model, "shares_"):
        return None
    axes = bars(np.asarray(model.shares_), "share of records")
    axes.set_xlabel("cluster")
    listed = ", ".join(f"{100 * share:.1f}%" for share in model.shares_)
    picture = Picture(figure_of(axes), f"Bars: {listed}.", "Share of the records in each cluster, with noise.")
    return ReportSection("Sizes of the clusters", pictures=[picture])


def _network(model: FittedModel, names: Sequence[str]) -> ReportSection | None:
    if not hasattr(model, "hidden_") or not len(model.hidden_):
        return None
    hidden = np.asarray(model.hidden_)
    mapped = getattr(model, "features", None) is not None
    labels = [*names_of([] if mapped else names, hidden.shape[1] - 1), "bias"]
    return weights_section(hidden, labels, "Weights of the hidden units", row="unit")


def _table_one(model: FittedModel, names: Sequence[str]) -> ReportSection | None:
    if not (hasattr(model, "rows_") and hasattr(model, "groups_") and hasattr(model, "table_")):
        return None
    fitted = cast("FittedSummary", model)
    tables = [
        Table(*compact_rows(fitted)),
        Table(*interval_rows(fitted), f"All figures with {level_of(model)} intervals."),
    ]
    return ReportSection("Table 1", text=notes(fitted), tables=tables)


def _contrasts(model: FittedModel, names: Sequence[str]) -> ReportSection | None:
    if not (hasattr(model, "d_interval_") and hasattr(model, "outcomes_")):
        return None
    fitted = cast("FittedContrasts", model)
    label = f"d, with {level_of(model)} interval"
    ends = within(fitted.d_interval_, fitted.d_, 3.0)
    axes = coefficient_plot(fitted.d_, ends, [str(name) for name in fitted.outcomes_], largest=DRAWN, label=label)
    discoveries = int(np.count_nonzero(fitted.q_ <= 0.05))
    picture = Picture(
        figure_of(axes),
        f"Forest plot of {len(fitted.d_)} differences; {discoveries} are discoveries at q of at most 0.05.",
        "Intervals cover sampling and noise; an arrow says that one goes on. Of many outcomes, those with the "
        "largest d are drawn.",
    )
    rows = contrast_rows(fitted, most=_SHOWN_MEANS)
    return ReportSection(
        "Adjusted differences", text=contrast_notes(fitted), pictures=[picture], tables=[Table(HEADER, rows)]
    )


def _shape(value: object) -> str:
    array = np.asarray(value)
    if array.ndim == 0:
        return f"{array.item():.6g}" if array.dtype.kind in "iuf" else str(array.item())
    return " x ".join(map(str, array.shape))


SECTIONS: dict[str, Maker] = {
    "spectrum": _spectrum,
    "correlations": _correlations,
    "correlation_matrix": _correlation_matrix,
    "covariances": _covariances,
    "shared_correlations": _shared_correlations,
    "view_directions": view_directions,
    "topics": topics,
    "coefficients": coefficients,
    "means": _mean,
    "sizes": _sizes,
    "components": components,
    "component_means": loading_section("means_", "Means of the components"),
    "centres": loading_section("cluster_centers_", "Centres of the clusters", row="cluster"),
    "x_directions": directions("x_weights_", "Directions in the first view", second=False),
    "y_directions": directions("y_weights_", "Directions in the second view", second=True),
    "x_loadings": view_loadings("x_loadings_", "Loadings of the first view", second=False),
    "y_loadings": view_loadings("y_loadings_", "Loadings of the second view", second=True),
    "hidden_units": _network,
    "strengths": _strengths,
    "table_one": _table_one,
    "contrasts": _contrasts,
    "survival_curves": survival_curves,
    "log_rank": log_rank,
    "hazard_ratios": hazard_ratios,
    "sites": sites,
    "heterogeneity": heterogeneity,
}
