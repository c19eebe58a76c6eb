"""Every statistic of rows, tables and documents at 24 columns: sums so long that their order can matter."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcape import documents, labelled, rows, table, views
from dpcape.core.facts import PublicColumn, PublicEvent, PublicFacts, TypedColumns
from dpcape.records.from_numbers import schema_of, table_values
from dpcape.statistics.bases import Template
from dpcape.statistics.basis_moments import of_basis
from dpcape.statistics.gradients import n_weights
from dpcape.statistics.third_moments import whitened_radius

from .statistic_case import Case

Vector = NDArray[np.float64]

D = 24
VIEWS = (9, 15)
MISSING = 25.0
"""Stands for a missing value in a table."""

_DRAW = np.random.default_rng(20241117)
_CENTRE = _DRAW.normal(scale=0.1, size=D)
_SCALE = _DRAW.uniform(0.3, 3.0, size=D)
_CENTRES = _DRAW.normal(scale=0.3, size=(5, D))
_PROJECTION = _DRAW.normal(scale=0.3, size=(D, 4))
_BASIS = of_basis(Template(np.linalg.qr(_DRAW.normal(size=(D, 4)))[0]))
_MAPS = {"kept": np.array([3]), "scores": _DRAW.normal(size=(3, 2)), "offset": np.zeros((1, 2))}
_LINE = _DRAW.normal(size=D + 1)
_TURN = _DRAW.normal(size=(D + 1, D + 1))
_ONE = {"centre": _CENTRE, "scale": _SCALE, "radius": np.array([0.8])}
_TWO = {"centre": _CENTRE, "scale": _SCALE, "radius": np.array([0.5, 0.7])}
_LINEAR = {"intercept": True, "coefficients": _LINE}
_SEVERAL = {"intercept": True, "coefficients": np.tile(_LINE, 2)}
# Nearly a jump: who is on which side decides.
_STEEP = {"intercept": True, "coefficients": 1e12 * _LINE}


def _rows(p: Vector) -> Any:
    return rows(p, bound=2.0)


def _views(p: Vector) -> Any:
    return views(p[:, : VIEWS[0]], p[:, VIEWS[0] :], bounds=(1.0, 0.5))


def _with_response(p: Vector) -> Any:
    return labelled(p[:, :-1], p[:, -1], bound=2.0, response=(-1, 1))


def _with_counts(p: Vector) -> Any:
    return labelled(p[:, :-1], 5 + 5 * p[:, -1], bound=2.0, response=(0, 10))


def _with_classes(n_classes: int) -> Any:
    def make(p: Vector) -> Any:
        codes = np.argmax(np.nan_to_num(p[:, -n_classes:]), axis=1)
        return labelled(p[:, :-n_classes], codes, bound=2.0, classes=list(range(n_classes)))

    return make


_NUMBERS = tuple(PublicColumn(f"x{at}", "number", -1.0, 1.0) for at in range(D))
_SITE = PublicColumn("site", "category", levels=("a", "b", "c"))
_TIME = PublicColumn("days", "number", 0.0, 100.0)
_DIED = PublicColumn("died", "category", levels=("no", "yes"))
FACTS = PublicFacts(
    kind="table",
    unit="record",
    n_records=1,
    widths=(D + 3,),
    bounds=(1.0,),
    typed=TypedColumns((*_NUMBERS, _SITE, _TIME, _DIED), (PublicEvent("survival", "days", "died", "yes"),)),
)
_COLUMNS = np.arange(D)


def _table(p: Vector) -> Any:
    return table(table_values(FACTS, p), columns=schema_of(FACTS))


def _documents(p: Vector) -> Any:
    return documents(np.floor(np.abs(np.clip(p, -3, 3)) * 2))


_HAZARDS = {
    "event": 0,
    "design": _COLUMNS,
    "centre": _CENTRE,
    "scale": _SCALE,
    "coefficients": _DRAW.normal(scale=0.3, size=D),
    "edges": np.array([0.0, 0.3, 0.6, 0.95]),
    "hazards": np.array([0.9, 2.0, 1.0]),
    "trend": np.array([-0.5, 0.0, 0.7]),
    "limit": 1.5,
}
_DESIGN = {"outcomes": _COLUMNS[:10], "design": _COLUMNS[10:], "site": D}


def _case(name: str, records: Any, public: dict[str, Any] | None = None, *, more: int = 0, label: str = "wide") -> Case:
    n_parameters = D + 3 if records is _table else D + more
    return Case(name, label, n_parameters, records, {} if public is None else public)


def _hidden(*widths: int) -> Vector:
    return np.random.default_rng(3).normal(scale=0.5, size=n_weights((D, *widths)))


WIDE = [
    _case("first_moments", _rows),
    _case("second_moment", _rows),
    _case("centred_moments", _views, {"mean_weight": 0.5}, label="views"),
    _case("site_centred_moments", _rows, {"n_sites": 3}),
    _case("clipped_means", _rows, {"clipping_weight": 0.5}),
    _case("histogram", _with_classes(3), more=3),
    _case("absolute_deviations", _rows, {"centre": _CENTRE}),
    _case("radius_histogram", _rows, {"centre": _CENTRE, "scale": _SCALE, "top": np.array([7.0])}),
    _case(
        "radius_histogram", _rows, {"centre": 0 * _CENTRE, "scale": np.ones(D), "top": np.array([2.0])}, label="plain"
    ),
    _case("radius_histogram", _views, {"centre": _CENTRE, "scale": _SCALE, "top": np.array([3.0, 9.0])}, label="views"),
    _case("scaled_first_moments", _rows, _ONE),
    _case("scaled_clipped_means", _rows, {**_ONE, "clipping_weight": 1.0}),
    _case("scaled_second_moment", _views, _TWO, label="views"),
    # Squares of lengths come near the largest number: whether they exceed it is a matter of rounding.
    _case("scaled_second_moment", _rows, {**_ONE, "radius": np.array([1.9e-154])}, label="overflow"),
    _case("scaled_centred_moments", _rows, {**_ONE, "mean_weight": 0.5}),
    _case("scaled_site_centred_moments", _views, {**_TWO, "n_sites": 2}, label="views"),
    _case("cluster_sums", _rows, {"centres": _CENTRES}),
    _case("scaled_cluster_sums", _views, {**_TWO, "centres": _CENTRES}, label="views"),
    _case("recentred_cluster_sums", _rows, {"centre": _CENTRE, "centres": _CENTRES, "clip": 0.7}),
    _case(
        "reduced_cluster_sums",
        _rows,
        {"centre": _CENTRE, "projection": _PROJECTION, "centres": _CENTRES[:, :4], "clip": 0.3},
    ),
    _case("reduced_second_moment", _rows, {"projection": _PROJECTION, "clip": 0.3}),
    _case("fourth_moment", _rows, {"projection": _PROJECTION, "clip": 0.3}),
    _case(
        "infomax_scores",
        _rows,
        {"projection": _PROJECTION, "unmixing": _TURN[:4, :4], "bias": _LINE[:4], "clip": 1.0, "bias_clip": 0.5},
    ),
    _case(
        "mixture_step",
        _rows,
        {
            "means": _CENTRES[:3],
            "weights": np.full(3, 1 / 3),
            # So narrow that a record belongs to one component or another.
            "noise_variance": 1e-18,
            "clip": 0.3,
            "count_weight": 0.1,
        },
    ),
    _case("third_moment", _rows, {"noise_variance": 0.1}),
    _case(
        "whitened_third_moment",
        _rows,
        {
            "whitener": _PROJECTION,
            "clip": 0.5,
            "noise_variance": 0.0,
            "radius": 1.001 * whitened_radius(_PROJECTION, clip=0.5, noise_variance=0.0),
        },
    ),
    _case("basis_moments", _rows, _BASIS),
    _case("centred_basis_moments", _rows, {**_BASIS, "mean_weight": 0.5}),
    _case("residual_maps", _rows, {**_BASIS, **_MAPS, "residual_scale": np.array([0.5])}),
    _case("scaled_basis_moments", _rows, {**_ONE, **_BASIS}),
    _case("scaled_centred_basis_moments", _rows, {**_ONE, **_BASIS, "mean_weight": 0.5}),
    _case("scaled_residual_maps", _rows, {**_ONE, **_BASIS, **_MAPS, "residual_scale": np.array([0.5])}),
    _case("regression_moment", _with_response, {"response_weight": 0.7, "intercept_weight": 0.5}, more=1),
    _case("weighted_regression_moment", _with_response, {"intercept": True}, more=1),
    _case("residual_gradient", _with_response, {**_LINEAR, "preconditioner": _TURN}, more=1),
    _case("residual_spread", _with_response, {**_LINEAR, "directions": _TURN, "square": 0.3}, more=1),
    _case("logistic_scores", _with_classes(2), _STEEP, more=2),
    _case("count_scores", _with_counts, {**_LINEAR, "level": 2.0}, more=1),
    _case("ratio_scores", _with_counts, _LINEAR, more=1),
    _case("class_scores", _with_classes(3), {**_SEVERAL, "coefficients": 1e9 * np.tile(_LINE, 2)}, more=3),
    _case("scaled_weighted_regression_moment", _with_response, {**_ONE, "intercept": True}, more=1),
    _case("scaled_residual_gradient", _with_response, {**_ONE, **_LINEAR, "preconditioner": _TURN}, more=1),
    _case("scaled_residual_spread", _with_response, {**_ONE, **_LINEAR, "directions": _TURN, "square": 0.3}, more=1),
    _case("scaled_logistic_scores", _with_classes(2), {**_ONE, **_STEEP}, more=2),
    _case("scaled_count_scores", _with_counts, {**_ONE, **_LINEAR, "level": 2.0}, more=1),
    _case("scaled_ratio_scores", _with_counts, {**_ONE, **_LINEAR}, more=1),
    _case(
        "scaled_class_scores", _with_classes(3), {**_ONE, "intercept": True, "coefficients": np.tile(_LINE, 2)}, more=3
    ),
    # Coefficients of degree two are many, and its diameter is searched when it is built.
    Case("polynomial_coefficients", "nine", 9 + 1, _with_counts, {"loss": "poisson"}),
    _case(
        "linear_gradient",
        _with_classes(3),
        {"output": _TURN[:3], "clip": 0.05, "input_scale": 1.5},
        more=3,
    ),
    _case(
        "network_gradient",
        _with_classes(2),
        {"hidden": _TURN[:8], "output": _TURN[:1, :9], "clip": 0.5, "input_scale": 1.5},
        more=2,
    ),
    _case(
        "deep_gradient",
        _with_classes(3),
        {"widths": np.array([9, 5]), "weights": _hidden(9, 5, 3), "clip": 0.5, "input_scale": 1.5},
        more=3,
    ),
    Case(
        "network_gradient",
        "hog",
        64 + 2,
        _with_classes(2),
        {
            "hidden": _DRAW.normal(size=(8, 33)),
            "output": _TURN[:1, :9],
            "clip": 0.5,
            "input_scale": 1.0,
            "features": "hog",
        },
    ),
    _case("complete_first_moments", _table, {"columns": _COLUMNS}),
    _case("complete_absolute_deviations", _table, {"columns": _COLUMNS, "centre": _CENTRE}),
    _case(
        "complete_radius_histogram",
        _table,
        {"columns": _COLUMNS, "centre": _CENTRE, "scale": _SCALE, "top": np.array([9.0])},
    ),
    _case("complete_scaled_centred_moments", _table, {"columns": _COLUMNS, **_ONE, "mean_weight": 0.5}),
    _case("design_moments", _table, _DESIGN),
    _case(
        "residual_products",
        _table,
        {
            **_DESIGN,
            "coefficients": _CENTRE[10:],
            "offsets": np.zeros(3),
            "site_weights": np.ones(3),
            "centre": _CENTRE[:10],
            "scale": _SCALE[:10],
        },
    ),
    _case("site_moments", _table, {"columns": _COLUMNS, "site": D, "centre": _CENTRE, "scale": _SCALE}),
    _case("followed_columns", _table, {"event": 0, "design": _COLUMNS}),
    _case("hazard_scores", _table, _HAZARDS),
    _case(
        "event_counts",
        _table,
        {"event": 0, "by": np.array([D]), "horizon": 60.0, "n_bins": 6, "crowding": 3.0},
    ),
    _case(
        "grouped_counts",
        _table,
        {"columns": _COLUMNS[:9], "by": np.array([D]), "weights": np.full(9, 1 / 3), "n_bins": 5},
    ),
    _case("word_shares", _documents, {"clip": 0.3}),
    _case("word_pairs", _documents, {"clip": 0.1, "words": _COLUMNS}),
    _case("word_triples", _documents, {"clip": 0.1, "words": _COLUMNS[:9]}),
    _case("whitened_word_triples", _documents, {"clip": 0.1, "words": _COLUMNS, "whitener": _PROJECTION}),
]
"""Cases that are wide enough; the diameters are those of ``cases_*.py`` and are not searched again here."""
