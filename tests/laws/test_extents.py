"""The extent of every statistic: the same from public numbers as from a statistic built with arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from dpcape import labelled, rows
from dpcape.core import statistic as base
from dpcape.core.errors import InvalidParameter
from dpcape.core.facts import PublicFacts
from dpcape.core.kernel import Summed
from dpcape.core.statistic import Statistic, extent_of, statistic_class
from dpcape.statistics.bases import basis_from
from dpcape.statistics.gradients import network_gradient, outputs_for
from dpcape.statistics.moments import centred_moments
from dpcape.statistics.polynomials import loss_numbers
from dpcape.statistics.regression_moment import regression_moment
from dpcape.statistics.third_moments import whitened_third_moment

from .statistic_case import Case, all_cases

CASES = all_cases()
each_case = pytest.mark.parametrize("case", CASES, ids=str)
N_RECORDS = (1, 7, 1000, 1024, 1025, 10**6, 10**9)

Public = Mapping[str, Any]


def _row(facts: PublicFacts, public: Public) -> dict[str, Any]:
    return {"n_features": facts.n_features, "bound": math.hypot(*facts.bounds)}


def _scaled(facts: PublicFacts) -> dict[str, Any]:
    return {"n_features": facts.n_features, "bound": math.hypot(*[1.0 for _ in facts.widths])}


def _reduced(width: str, *names: str) -> Callable[[PublicFacts, Public], dict[str, Any]]:
    def numbers(facts: PublicFacts, public: Public) -> dict[str, Any]:
        found = {"n_features": facts.n_features, width: public["projection"].shape[1]}
        return found | {name: public[name] for name in names}

    return numbers


def _subjects(facts: PublicFacts, public: Public) -> dict[str, Any]:
    found = {"n_components": public["projection"].shape[1]}
    return found | ({"clip": public["clip"]} if "clip" in public else {})


def _words(facts: PublicFacts, public: Public) -> dict[str, Any]:
    return {"n_features": facts.n_features, "n_words": len(public["words"]), "clip": public["clip"]}


def _in_basis(facts: PublicFacts, public: Public) -> dict[str, Any]:
    return {
        "n_features": facts.n_features,
        "n_columns": basis_from(public["basis"], public["columns"]).n_columns,
        "n_parts": len(basis_from(public["basis"], public["columns"]).parts),
    }


def _mapped(facts: PublicFacts, public: Public) -> dict[str, Any]:
    parts = basis_from(public["basis"], public["columns"]).parts
    return {
        "n_features": facts.n_features,
        "n_components": public["scores"].shape[1],
        "n_mapped": sum(part.n_features for part in parts if not part.is_complete),
    }


def _enclosed(facts: PublicFacts, public: Public) -> dict[str, Any]:
    return {name: public[name] for name in ("size", "radius", "block")}


def _shortened(facts: PublicFacts, public: Public) -> dict[str, Any]:
    n_clusters, n_columns = public["centres"].shape
    found = {"n_features": facts.n_features, "n_columns": n_columns, "n_clusters": n_clusters}
    return found | {"clip": public["clip"]}


def _grouped(facts: PublicFacts, public: Public) -> dict[str, Any]:
    cells = [
        len(facts.columns[at].levels) + 1 if facts.columns[at].levels else public["n_bins"] + 2
        for at in public["columns"]
    ]
    n_groups = math.prod(len(facts.columns[at].levels) + 1 for at in public["by"])
    length = math.sqrt(math.fsum(weight**2 for weight in public["weights"]))
    return {"n_cells": n_groups * sum(cells), "length": length, "most_cells": max(cells)}


def _contrasted(facts: PublicFacts, public: Public) -> dict[str, Any]:
    levels = [len(facts.columns[at].levels) for at in public["design"]]
    return {
        "n_columns": len(levels),
        "width": sum(max(count - 1, 1) for count in levels),
        "n_sites": 1 if public["site"] < 0 else len(facts.columns[public["site"]].levels),
        "n_outcomes": len(public["outcomes"]),
    }


def _complete(facts: PublicFacts, public: Public) -> dict[str, Any]:
    levels = [len(facts.columns[at].levels) for at in public["columns"]]
    return {"n_features": sum(count if count > 2 else 1 for count in levels), "bound": math.sqrt(len(levels))}


def _residual(facts: PublicFacts, public: Public) -> dict[str, Any]:
    found = _contrasted(facts, public)
    return {name: found[name] for name in ("n_outcomes", "width")}


# What a plan knows of a statistic before there are any arrays, from facts and public values.
NUMBERS: dict[str, Callable[[PublicFacts, Public], dict[str, Any]]] = {
    "first_moments": _row,
    "clipped_means": lambda facts, public: _row(facts, public) | {"clipping_weight": public["clipping_weight"]},
    "second_moment": _row,
    "grouped_counts": lambda facts, public: _grouped(facts, public),
    "complete_first_moments": lambda facts, public: _complete(facts, public),
    "complete_absolute_deviations": lambda facts, public: {"n_features": _complete(facts, public)["n_features"]},
    "complete_radius_histogram": lambda facts, public: {
        "n_features": _complete(facts, public)["n_features"],
        "n_views": 1,
    },
    "complete_scaled_centred_moments": lambda facts, public: (
        _complete(facts, public) | {"bound": 1.0, "mean_weight": public["mean_weight"]}
    ),
    "design_moments": _contrasted,
    "site_moments": lambda facts, public: {
        "n_columns": len(public["columns"]),
        "n_sites": 1 if public["site"] < 0 else len(facts.columns[public["site"]].levels),
    },
    "residual_products": _residual,
    "event_counts": lambda facts, public: {
        "n_groups": math.prod(len(facts.columns[at].levels) + 1 for at in public["by"]),
        "n_bins": public["n_bins"],
    },
    "followed_columns": lambda facts, public: {
        "n_columns": len(public["design"]),
        "width": sum(max(len(facts.columns[at].levels) - 1, 1) for at in public["design"]),
        "n_numbers": sum(not facts.columns[at].levels for at in public["design"]),
    },
    "hazard_scores": lambda facts, public: {"width": len(public["centre"])},
    "centred_moments": lambda facts, public: _row(facts, public) | {"mean_weight": public["mean_weight"]},
    "site_centred_moments": lambda facts, public: _row(facts, public) | {"n_sites": public["n_sites"]},
    "scaled_site_centred_moments": lambda facts, public: _scaled(facts) | {"n_sites": public["n_sites"]},
    "sampled": _enclosed,
    "record_by_record": _enclosed,
    "histogram": lambda facts, public: {"n_features": facts.n_features, "n_classes": len(facts.classes)},
    "cluster_sums": lambda facts, public: _row(facts, public) | {"n_clusters": len(public["centres"])},
    "recentred_cluster_sums": lambda facts, public: _shortened(facts, public),
    "reduced_cluster_sums": lambda facts, public: _shortened(facts, public),
    "regression_moment": lambda facts, public: (
        _row(facts, public) | {"intercept": public["intercept_weight"] > 0} | public
    ),
    "linear_gradient": lambda facts, public: {
        "n_features": public["output"].shape[1] - 1,
        "n_outputs": outputs_for(len(facts.classes)),
        "clip": public["clip"],
    },
    "network_gradient": lambda facts, public: {
        "n_features": facts.n_features,
        "n_hidden": len(public["hidden"]),
        "n_outputs": outputs_for(len(facts.classes)),
        "clip": public["clip"],
    },
    "deep_gradient": lambda facts, public: {
        "size": len(public["weights"]),
        "n_units": facts.n_features + int(sum(public["widths"])) + outputs_for(len(facts.classes)),
        "clip": public["clip"],
    },
    "module_gradient": lambda facts, public: {
        "size": len(facts.classes) * (facts.n_features + 1),
        "clip": public["clip"],
    },
    "polynomial_coefficients": lambda facts, public: loss_numbers(facts, loss=public["loss"]),
    "third_moment": lambda facts, public: _row(facts, public) | public,
    "whitened_third_moment": lambda facts, public: {
        "n_features": facts.n_features,
        "n_components": public["whitener"].shape[1],
        "clip": public["clip"],
        "noise_variance": public["noise_variance"],
        "radius": public["radius"],
    },
    "basis_moments": lambda facts, public: _in_basis(facts, public) | {"bound": math.hypot(*facts.bounds)},
    "centred_basis_moments": lambda facts, public: (
        _in_basis(facts, public) | {"bound": math.hypot(*facts.bounds), "mean_weight": public["mean_weight"]}
    ),
    "scaled_basis_moments": lambda facts, public: _in_basis(facts, public) | {"bound": math.sqrt(len(facts.widths))},
    "scaled_centred_basis_moments": lambda facts, public: (
        _in_basis(facts, public) | {"bound": math.sqrt(len(facts.widths)), "mean_weight": public["mean_weight"]}
    ),
    "residual_maps": _mapped,
    "scaled_residual_maps": _mapped,
    "absolute_deviations": lambda facts, public: {"n_features": facts.n_features},
    "radius_histogram": lambda facts, public: {"n_features": facts.n_features, "n_views": len(facts.widths)},
    "scaled_first_moments": lambda facts, public: _scaled(facts),
    "scaled_clipped_means": lambda facts, public: _scaled(facts) | {"clipping_weight": public["clipping_weight"]},
    "scaled_second_moment": lambda facts, public: _scaled(facts),
    "scaled_centred_moments": lambda facts, public: _scaled(facts) | {"mean_weight": public["mean_weight"]},
    "scaled_cluster_sums": lambda facts, public: _scaled(facts) | {"n_clusters": len(public["centres"])},
    "mixture_step": lambda facts, public: (
        _row(facts, public)
        | {"n_components": len(public["means"]), "clip": public["clip"], "count_weight": public["count_weight"]}
    ),
    **{
        f"{scaled}{name}": (
            lambda facts, public, scaled=scaled: {
                "n_features": facts.n_features,
                "bound": 1.0 if scaled else facts.bounds[0],
                "intercept": public["intercept"],
            }
        )
        for name in (
            "weighted_regression_moment",
            "residual_gradient",
            "residual_spread",
            "logistic_scores",
            "count_scores",
            "ratio_scores",
        )
        for scaled in ("", "scaled_")
    },
    **{
        f"{scaled}class_scores": (
            lambda facts, public, scaled=scaled: {
                "n_features": facts.n_features,
                "bound": 1.0 if scaled else facts.bounds[0],
                "intercept": public["intercept"],
                "n_classes": len(facts.classes),
            }
        )
        for scaled in ("", "scaled_")
    },
    "word_shares": lambda facts, public: {"n_features": facts.n_features, "clip": public["clip"]},
    "word_pairs": _words,
    "word_triples": _words,
    "whitened_word_triples": lambda facts, public: {
        "n_features": facts.n_features,
        "n_components": public["whitener"].shape[1],
        "clip": public["clip"],
    },
    "reduced_second_moment": _reduced("n_columns", "clip"),
    "fourth_moment": _reduced("n_components", "clip"),
    "infomax_scores": _reduced("n_components", "clip", "bias_clip"),
    "subject_projector": lambda facts, public: {
        "n_columns": public["basis"].shape[1],
        "n_components": public["n_components"],
    },
    "subject_log_covariance": _subjects,
    "subject_covariance": _subjects,
    "subject_tensor": _subjects,
    "subject_polish": _subjects,
    "subject_infomax": _subjects,
    **{case.name: case.numbers for case in CASES if case.numbers is not None},
}

# Size, diameter, radius and rounding(1000) as they were computed by a property each, before extents were functions.
RECORDED = {
    "sampled-block1": (3, 3.0, 1.5, 3.543832188142914e-10),
    "record_by_record-block4": (3, 3.0, 1.5, 3.543832188142914e-10),
    "grouped_counts-one-group": (24, 1.7320508075688772, 1.224744871391589, 1.3609093318722573e-08),
    "grouped_counts-weights": (48, 2.29128784747792, 1.6201851746019649, 1.798587008310931e-08),
    "event_counts-one-group": (18, 1.0, 0.7071067811865475, 2.624095526198193e-09),
    "event_counts-by-two": (594, 1.0, 0.7071067811865475, 2.6542413014049213e-09),
    "design_moments-sites": (16, 6.324555320336759, 4.795831523312719, 4.64397881775697e-09),
    "complete_first_moments-levels": (11, 3.4641016151377544, 2.8062430400804557, 5.598647492963868e-10),
    "complete_absolute_deviations-levels": (6, 2.23606797749979, 1.7677669529663689, 6.462594337721649e-10),
    "complete_radius_histogram-levels": (33, 1.4142135623730951, 1.2247448713915892, 2.890370402533341e-10),
    "complete_scaled_centred_moments-levels": (21, 1.590990257669732, 1.375, 3.231554157364186e-10),
    "residual_products-covariates": (5, 2.0615528128088303, 1.25, 1.2148615446960775e-09),
    "site_moments-sites": (15, 2.0, 1.4142135623730951, 1.3694346424639887e-09),
    "site_centred_moments-three-sites": (18, 11.048543456039804, 8.838834764831844, 2.5376619363476515e-09),
    "scaled_site_centred_moments-rows": (18, 1.7677669529663687, 1.4142135623730951, 4.0602590981562426e-10),
    "ratio_scores-positive": (16, 3.952847075210475, 2.7950849718747377, 8.024791650371812e-10),
    "scaled_ratio_scores-positive": (16, 3.952847075210475, 2.7950849718747377, 8.024791650371812e-10),
    "class_scores-three": (44, 1.1785125000000003, 0.8068750000000001, 2.3165677709435786e-10),
    "scaled_class_scores-three": (44, 1.1785125000000003, 0.8068750000000001, 2.3165677709435786e-10),
    "count_scores-counts": (15, 3.952847075210475, 2.5000000000000004, 7.177591854201638e-10),
    "scaled_count_scores-counts": (15, 3.952847075210475, 2.5000000000000004, 7.177591854201638e-10),
    "followed_columns-levels": (5, 2.8284271247461903, 2.509980079602227, 2.4327346909078164e-09),
    "hazard_scores-usual": (14, 2.2293496809607953, 1.3038404810405297, 1.3019298180070887e-09),
    "first_moments-3x2.5": (6, 5.0, 2.7950849718747373, 8.02479165037181e-10),
    "clipped_means-ranges": (7, 1.788854381999832, 1.2000000000000002, 3.4452440900167863e-10),
    "scaled_clipped_means-rows": (7, 2.23606797749979, 1.5, 4.306555112520982e-10),
    "scaled_first_moments-views": (8, 2.8284271247461903, 1.5811388300841898, 4.5535510087439816e-10),
    "first_moments-two-views": (8, 2.23606797749979, 1.2500000000000002, 3.5998981573470706e-10),
    "second_moment-3x2.5": (6, 8.838834764831844, 6.25, 1.7943979635504093e-09),
    "centred_moments-3x2.5-weight0.50": (9, 9.943689110435825, 6.987712429686843, 2.0061979125929523e-09),
    "centred_moments-3x2.5-weight1.41": (9, 17.677669529663685, 10.825317547305485, 3.1079884418674357e-09),
    "basis_moments-cosines": (4, 4.087077195258244, 2.8899999999999997, 8.348632896115759e-10),
    "centred_basis_moments-template": (6, 4.597961844665525, 3.231118227487196, 9.334055337452889e-10),
    "residual_maps-template": (6, 2.0, 1.0, 2.871036741680655e-10),
    "scaled_basis_moments-rows": (4, 1.4142135623730951, 1.0, 2.8888003100746573e-10),
    "scaled_centred_basis_moments-rows": (6, 1.590990257669732, 1.118033988749895, 3.2297769333747024e-10),
    "scaled_residual_maps-rows": (6, 2.0, 1.0, 2.871036741680655e-10),
    "histogram-three-classes": (3, 1.4142135623730951, 1.0, 2.871036741680655e-10),
    "cluster_sums-three-clusters": (12, 4.0, 2.8284271247461903, 8.120518196312485e-10),
    "regression_moment-bound1-constant0": (10, 2.107178207935912, 1.49, 4.2778447451041757e-10),
    "regression_moment-bound2-constant1": (15, 9.842926394116741, 6.96, 1.9982415722097358e-09),
    "regression_moment-bound0.5-constant3": (15, 4.326661530556788, 9.26, 2.6585800227962864e-09),
    "linear_gradient-two-classes": (4, 0.1, 0.05, 1.439959262938828e-11),
    "network_gradient-two-classes": (26, 0.1, 0.05, 1.4621637234313312e-11),
    "network_gradient-three-classes": (38, 0.1, 0.05, 1.4710455076283324e-11),
    "deep_gradient-two-classes": (49, 0.1, 0.05, 1.4799272918253337e-11),
    "module_gradient-two-classes": (8, 0.1, 0.05, 1.4221956945448255e-11),
    "polynomial_coefficients-poisson": (14, 3.388955307316992, 1.9610037197666568, 3.3676179109044132e-09),
    "third_moment-plain": (10, 2.0, 1.0, 2.871036741680655e-10),
    "third_moment-corrected": (10, 1.4832396974191324, 0.7416198487095662, 3.982984490368533e-10),
    "third_moment-one-column": (1, 0.7999999999999998, 0.3999999999999999, 4.565237077258644e-10),
    "third_moment-strong-noise": (4, 10.583005244258363, 5.291502622129181, 5.26416264928502e-09),
    "whitened_third_moment-clip0.8-variance0.05": (4, 0.9495306970615189, 0.47476534853075947, 4.303010382789623e-10),
    "absolute_deviations-rows": (3, 1.7320508075688772, 0.8660254037844386, 4.972781506987896e-10),
    "radius_histogram-views": (64, 2.0, 1.4142135623730951, 4.0728198378257126e-10),
    "scaled_second_moment-views": (10, 2.8284271247461907, 2.0, 5.759837051755313e-10),
    "scaled_centred_moments-rows": (9, 1.590990257669732, 1.118033988749895, 3.209916660148724e-10),
    "scaled_cluster_sums-rows": (8, 2.0, 1.4142135623730951, 4.0602590981562426e-10),
    "recentred_cluster_sums-three-clusters": (12, 1.4, 0.9899494936611665, 2.868558922015257e-10),
    "reduced_cluster_sums-two-coordinates": (9, 1.4, 0.9899494936611665, 2.859766404246628e-10),
    "mixture_step-two-components": (8, 0.6, 0.3, 6.355360682164246e-10),
    "weighted_regression_moment-bound2": (15, 9.899494936611669, 7.000000000000002, 2.0097257191764588e-09),
    "residual_gradient-response": (4, 0.4, 0.2, 5.7420734833613096e-11),
    "residual_spread-response": (4, 282.842712474619, 200.0, 5.7420734833613096e-08),
    "logistic_scores-weak": (14, 0.6250000000000001, 0.3544125000000001, 1.0175313092108953e-10),
    "scaled_weighted_regression_moment-response": (15, 2.4748737341529172, 1.7500000000000004, 5.024314297941147e-10),
    "scaled_residual_gradient-response": (4, 0.4, 0.2, 5.7420734833613096e-11),
    "scaled_residual_spread-response": (4, 282.842712474619, 200.0, 5.7420734833613096e-08),
    "scaled_logistic_scores-strong": (14, 0.6250000000000001, 0.3544125000000001, 1.0175313092108953e-10),
    "word_shares-clipped": (3, 0.7071067811865476, 0.5, 1.4355183708403274e-09),
    "word_pairs-clipped": (6, 0.4242640687119285, 0.3, 8.613110225041964e-10),
    "word_pairs-two-of-three-words": (3, 1.4142135623730951, 1.0, 2.871036741680655e-09),
    "word_triples-clipped": (10, 0.28284271247461906, 0.2, 5.74207348336131e-10),
    "whitened_word_triples-unclipped": (4, 16.96953694123679, 8.484768470618395, 2.443544190631654e-09),
    "reduced_second_moment-2d": (3, 2.390020920410531, 1.6900000000000002, 4.852052093440307e-10),
    "fourth_moment-2d": (5, 2.93251324293685, 2.0736, 5.953381787549005e-10),
    "infomax_scores-2d": (6, 2.23606797749979, 1.118033988749895, 1.476561663668413e-07),
    "subject_projector-1 of 3": (6, 1.4142135623730951, 1.0, 2.3647750424515834e-10),
    "subject_log_covariance-2d": (3, 1.0, 0.5, 1.1812772982011666e-10),
    "subject_covariance-2d": (3, 0.8, 0.4, 9.450218385609332e-11),
    "subject_tensor-2d": (5, 2.0, 1.0, 2.362554596402333e-10),
    "subject_polish-2d": (3, 2.0, 1.0, 2.362554596402333e-10),
    "subject_infomax-2d": (6, 0.4, 0.2, 4.725109192804666e-11),
    **{str(case): case.extent for case in CASES if case.extent is not None},
}


def _facts(case: Case) -> PublicFacts:
    return case.records(np.zeros((1, case.n_parameters))).facts()


def test_every_known_statistic_has_an_extent() -> None:
    base.load_all()
    own = {name for name, kind in base._KNOWN.items() if base.is_own(kind)}
    assert set(NUMBERS) == own, "say in a Case what the extent of a new statistic follows from (numbers)"
    for name in NUMBERS:
        assert callable(statistic_class(name).extent), f"write the static method extent of {name}"
        for read in ("size", "diameter", "radius", "rounding", "sensitivity"):
            # A formula stands once: what a statistic is asked for is read from its extent.
            assert getattr(statistic_class(name), read) is getattr(Statistic, read), f"{name}.{read}"


@each_case
def test_an_extent_from_public_numbers_is_that_of_the_statistic(case: Case) -> None:
    statistic, numbers = case.statistic(), NUMBERS[case.name](_facts(case), case.public)
    extent = extent_of(case.name, **numbers)
    assert dict(statistic.numbers) == numbers
    assert (extent.size, extent.diameter, extent.radius) == (statistic.size, statistic.diameter, statistic.radius)
    for n_records in N_RECORDS:
        assert extent.rounding(n_records) == statistic.rounding(n_records)
        assert extent.sensitivity(n_records) == statistic.sensitivity(n_records)
        differing = extent.changed(n_records)
        assert differing <= extent.rounding(n_records) * (1 + 1e-12)
        assert extent.sensitivity(n_records) == max(statistic.diameter, statistic.radius) + 2 * differing


@each_case
def test_a_size_is_the_length_of_a_total(case: Case) -> None:
    extent = extent_of(case.name, **NUMBERS[case.name](_facts(case), case.public))
    assert isinstance(extent.size, int)
    assert case.total(np.full((2, case.n_parameters), 0.4)).shape == (extent.size,)


@pytest.mark.parametrize("case", [case for case in CASES if str(case) in RECORDED], ids=str)
def test_extents_are_what_the_proofs_say_on_the_grid(case: Case) -> None:
    """Recorded are those of exact arithmetic; a grid of 2^20 steps adds less than a part in 10^4."""
    extent = extent_of(case.name, **NUMBERS[case.name](_facts(case), case.public))
    size, diameter, radius = RECORDED[str(case)][:3]
    assert extent.size == size
    for found, recorded in ((extent.diameter, diameter), (extent.radius, radius)):
        # Interpolation and eigenvalues differ in the last digits between machines.
        assert recorded * (1 - 1e-12) <= found <= recorded * (1 + 3e-5)
    for n_records in (1, 1000, 10**6) if isinstance(case.statistic(), Summed) else ():
        assert extent.sensitivity(n_records) <= max(diameter, radius) * (1 + 1e-4)


def test_every_statistic_has_a_recorded_extent() -> None:
    found = {case.name for case in CASES if str(case) in RECORDED}
    assert found == set(NUMBERS), "give the Case of a new statistic its extent"


def _same(name: str, numbers: dict[str, Any], statistic: Any) -> None:
    extent = extent_of(name, **numbers)
    found = (extent.size, extent.diameter, extent.radius, extent.sensitivity(1000))
    assert found == (statistic.size, statistic.diameter, statistic.radius, statistic.sensitivity(1000))


@pytest.mark.parametrize("bound", [1.0, 0.37, 12.5])
def test_numbers_left_out_are_those_of_the_public_rules(bound: float) -> None:
    data, numbers = np.zeros((1, 4)), {"n_features": 4, "bound": bound}
    plain, two = rows(data, bound=bound).facts(), labelled(data, [0], bound=bound, classes=[0, 1]).facts()
    _same("centred_moments", numbers, centred_moments(plain))
    for intercept in (True, False):
        _same("regression_moment", numbers | {"intercept": intercept}, regression_moment(two, intercept=intercept))
    for clip, variance in ((1.0, 0.0), (1.0, 0.2), (0.7, 0.3)):
        few = {"n_features": 4, "n_components": 2, "clip": clip, "noise_variance": variance}
        whitened = whitened_third_moment(plain, np.eye(4, 2), clip=clip, noise_variance=variance)
        _same("whitened_third_moment", few, whitened)


@pytest.mark.parametrize(("n_classes", "n_outputs"), [(2, 1), (3, 3), (10, 10)])
def test_two_classes_need_one_output(n_classes: int, n_outputs: int) -> None:
    assert outputs_for(n_classes) == n_outputs
    facts = labelled(np.zeros((1, 3)), [0], bound=1.0, classes=list(range(n_classes))).facts()
    layers = {"hidden": np.zeros((5, 4)), "output": np.zeros((n_outputs, 6))}
    assert network_gradient(facts, **layers, clip=1.0, input_scale=1.0).numbers["n_outputs"] == n_outputs


def test_third_moments_are_longest_inside_where_noise_is_strong() -> None:
    """Where the end of the interval is not the longest, a root of the derivative is: compared with a fine grid."""
    for width, bound, variance in ((1, 1.0, 0.2), (1, 1.0, 0.4), (2, 2.0, 1.1), (3, 1.0, 0.15), (1, 0.5, 0.06)):
        q = np.linspace(0, bound**2, 200_001)
        squares = q**3 - 6 * variance * q**2 + (3 * width + 6) * variance**2 * q
        radius = extent_of("third_moment", n_features=width, bound=bound, noise_variance=variance).radius
        # Rows on the grid are longer by a few steps of 2^-20.
        assert 1 <= radius / math.sqrt(squares.max()) < 1 + 2e-5


def test_names_and_numbers_that_do_not_exist_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="one of"):
        extent_of("no_such_statistic", n_features=1)
    with pytest.raises(TypeError, match="no_such_number"):
        extent_of("second_moment", n_features=1, bound=1.0, no_such_number=2)
