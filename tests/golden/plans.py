"""Plans of every planned analysis under every protocol."""

from __future__ import annotations

import itertools
from typing import Any

from .places import PLANNED, Setting, errors, make_protocol, plan_study, releases_of, start_of

Study = tuple[str, list[int], list[float], dict[str, Any]]


# For each analysis that can be planned: of others than these, as a plan begins.
STUDIES: list[Study] = [
    ("mean", [40], [2.0], {}),
    ("uncentred-pca", [40], [2.0], {"n_components": 1}),
    ("pca", [40], [2.0], {"n_components": 1}),
    ("summary", [1], [1.0], {"n_groups": 1}),
    ("kaplan-meier", [1], [1.0], {"n_groups": 1}),
    ("log-rank", [30], [1.0], {"n_groups": 12}),
    ("cox", [1], [1.0], {"n_covariates": 12}),
    ("harmonise", [45], [1.0], {"n_sites": 15}),
    ("heterogeneity", [45], [1.0], {"n_sites": 15}),
    ("group-contrast", [1], [1.0], {"n_sites": 4, "n_covariates": 2}),
    ("mass-univariate", [1000], [1.0], {"n_sites": 1, "n_covariates": 0}),
    ("site-adjusted-pca", [12], [3.0], {"n_components": 3}),
    ("site-adjusted-cca", [3, 9], [1.0, 2.5], {"n_components": 1}),
    ("uncentred-cca", [3, 9], [1.0, 2.5], {"n_components": 1}),
    ("cca", [3, 9], [1.0, 2.5], {"n_components": 1}),
    ("scaled-cca", [3, 9], [1.0, 2.5], {"n_components": 1}),
    ("pls", [3, 9], [1.0, 2.5], {"n_components": 1}),
    ("scaled-pls", [3, 9], [1.0, 2.5], {"n_components": 1}),
    ("wide-pca", [76800], [1.25], {"n_components": 20, "n_basis": 891}),
    ("wide-pca-maps", [76800], [1.25], {"n_components": 20, "n_basis": 891}),
    ("wide-cca", [76800, 76800], [1.25, 1.0], {"n_components": 3, "n_x_basis": 600, "n_y_basis": 300}),
    ("wide-cca-maps", [76800, 76800], [1.25, 1.0], {"n_components": 3, "n_x_basis": 600, "n_y_basis": 300}),
    ("correlation", [12], [3.0], {}),
    ("correlation-as-given", [12], [3.0], {}),
    ("uncentred-multi-cca", [30, 5, 2, 9], [1.0, 2.5, 0.1, 4.0], {"n_components": 1}),
    ("multi-cca", [30, 5, 2, 9], [1.0, 2.5, 0.1, 4.0], {"n_components": 1}),
    ("scaled-multi-cca", [30, 5, 2, 9], [1.0, 2.5, 0.1, 4.0], {"n_components": 1}),
    ("linear-regression", [6], [4.0], {"fit_intercept": False}),
    ("logistic-regression", [6], [4.0], {"fit_intercept": False}),
    ("linear-regression-scaled", [6], [4.0], {"fit_intercept": False}),
    ("linear-regression-prediction", [6], [4.0], {"fit_intercept": False, "n_iter": 7}),
    ("logistic-regression-scaled", [6], [4.0], {"fit_intercept": False}),
    ("logistic-regression-prediction", [6], [4.0], {"fit_intercept": False, "n_iter": 7}),
    ("gaussian-model", [1], [0.5], {}),
    ("logistic-model", [1], [0.5], {}),
    ("poisson-model", [1], [0.5], {}),
    ("gamma-model", [1], [0.5], {}),
    ("multinomial-model", [20], [1.0], {"n_classes": 7}),
    ("polynomial-loss", [3], [0.05], {}),
    ("network-classifier", [30], [1.0], {"n_hidden": 10, "n_iter": 15, "clip": 0.5}),
    ("kmeans", [1], [0.3], {"n_clusters": 1, "n_iter": 1}),
    ("topic-model", [30], [1.0], {"n_components": 10, "document_length": 12}),
    ("whitened-topic-model", [30], [1.0], {"n_components": 10, "document_length": 12}),
    ("mixture-model", [40], [2.5], {"n_components": 40, "noise_variance": 3.0}),
    ("whitened-mixture-model", [40], [2.5], {"n_components": 40, "noise_variance": 3.0}),
    ("joint-ica", [900], [1.0], {"n_components": 20, "n_basis": 20}),
    ("joint-ica-maps", [900], [1.0], {"n_components": 20, "n_basis": 20}),
    ("infomax-joint-ica", [900], [1.0], {"n_components": 20, "n_basis": 20, "n_iter": 50}),
    ("subject-joint-ica", [900], [1.0], {"n_components": 20, "n_basis": 20, "n_timepoints": 120}),
    ("subject-infomax-joint-ica", [900], [1.0], {"n_components": 20, "n_basis": 20, "n_timepoints": 40, "n_iter": 30}),
]
SHAPES = {"views": ([3, 9], [1.0, 2.5]), "table": ([6], [1.0])}
STUDIES += [
    (name, *SHAPES.get(analysis.records, ([12], [3.0])), start_of(analysis, variant))
    for name, (analysis, variant) in PLANNED.items()
    if name not in {study[0] for study in STUDIES}
]

EQUAL, UNEQUAL = [6000] * 10, [900, 20000, 350, 4000, 51]
# One for each protocol: its name, sites that may collude, least sites and ratio; sizes of sites, epsilon and delta.
SETTINGS: list[tuple[tuple[str, int, int | None, float], list[int], float, float]] = [
    (("cape", 3, None, 100.0), EQUAL, 1.0, 1e-5),
    (("secure-sum", 2, 7, 100.0), EQUAL, 8.0, 1e-3),
    (("independent", 0, 2, 100.0), [900, 20000, 350], 0.05, 1e-9),
    (("dealer", 1, None, 100.0), [700] * 4, 0.4, 1e-6),
]
# Refused whatever the analysis, or nearly so; tried with one analysis.
ODD_SETTINGS: list[tuple[tuple[str, int, int | None, float], list[int], float, float]] = [
    (("cape", 0, None, 100.0), [10, 10], 1.0, 1e-5),
    (("secure-sum", 0, None, 100.0), [10, 10], 1.0, 1e-5),
    (("cape", 3, None, 100.0), [10] * 4, 1.0, 1e-5),
    (("cape", 1, 3, 100.0), [10] * 6, 1.0, 1e-5),
    (("secure-sum", 0, 7, 100.0), [10] * 6, 1.0, 1e-5),
    (("dealer", 0, None, 100.0), [10], 1.0, 1e-5),
    (("dealer", 3, None, 100.0), [10] * 3, 1.0, 1e-5),
    (("dealer", 0, 2, 100.0), [10] * 3, 1.0, 1e-5),
    (("independent", 0, 4, 100.0), [10] * 3, 1.0, 1e-5),
    (("cape", 0, None, 100.0), [10**9] * 10, 150.0, 1e-5),
    (("cape", 0, None, 100.0), [10] * 10, 230.0, 1e-5),
    (("cape", 0, None, 100.0), [10] * 10, 1.0, 1.5),
    (("cape", 0, None, 100.0), [10] * 10, -1.0, 1e-5),
]


def cases() -> dict[str, tuple[Study, Any]]:
    """Return every study in every setting, by a name that says both."""
    chosen = [
        *itertools.product(STUDIES, SETTINGS),
        *itertools.product([("pca", [100], [1.0], {})], ODD_SETTINGS),
    ]
    named = {}
    for study, setting in chosen:
        name, widths, bounds, options = study
        (protocol, colluding, minimum, ratio), sizes, epsilon, delta = setting
        about = ",".join(f"{key}={value}" for key, value in options.items())
        where = f"{sizes[0]}x{len(sizes)}" if len(set(sizes)) == 1 else "+".join(map(str, sizes))
        label = f"{name} {widths} {bounds} {about} | {protocol} c{colluding} m{minimum} r{ratio:g} {where}"
        named[f"{label} {epsilon:g} {delta:g}"] = (study, setting)
    assert len(named) == len(chosen)
    assert {study[0] for study, _ in chosen} == set(PLANNED)
    return named


def plans() -> dict[str, Any]:
    """Return, per case, the releases and the plan, or the class of the refusal and its words."""
    return {label: _plan(study, setting) for label, (study, setting) in cases().items()}


def _plan(study: Study, setting: Any) -> Any:
    name, widths, bounds, options = study
    (kind, colluding, minimum, ratio), numbers, epsilon, delta = setting
    sizes = {f"site-{index + 1:02}": number for index, number in enumerate(numbers)}
    try:
        protocol = make_protocol(kind, n_colluding=colluding, minimum_sites=minimum, cancelling_ratio=ratio)
        planned = releases_of(name, widths, bounds, options, setting=Setting(sizes, protocol, epsilon, delta))
        whole = plan_study(releases=planned, sizes=sizes, protocol=protocol, epsilon=epsilon, delta=delta)
    except errors.DpcapeError as error:
        return {"refused": type(error).__name__, "text": str(error)}
    # Words are recorded elsewhere; what the settings say is in the name of the case.
    said = {"against", "assumptions", "protocol", "n_sites", "n_colluding", "epsilon", "delta"}
    plan = {key: value for key, value in whole.items() if key not in said}
    if "releases" in plan:
        plan["releases"] = [list(entry.values()) for entry in plan["releases"]]
    return {"releases": [_listed(entry) for entry in planned], "plan": list(plan.values())}


def _listed(entry: Any) -> list[Any]:
    statistic = entry.statistic
    sensitivities = [statistic.sensitivity(n) for n in (1, 1024, 123457)]
    bounds = [statistic.diameter, statistic.radius, *sensitivities]
    return [statistic.name, statistic.released_size, *map(float, bounds), entry.share, entry.times, entry.known]


def plan_words() -> dict[str, Any]:
    """Return the words a plan says about each protocol, and the keys of its entries."""
    words = {}
    for (kind, colluding, minimum, ratio), numbers, epsilon, delta in SETTINGS:
        protocol = make_protocol(kind, n_colluding=colluding, minimum_sites=minimum, cancelling_ratio=ratio)
        sizes = {f"site-{index + 1:02}": number for index, number in enumerate(numbers)}
        setting = Setting(sizes, protocol, epsilon, delta)
        planned = releases_of("whitened-topic-model", [700], [1.0], {}, setting=setting)
        plan = plan_study(releases=planned, sizes=sizes, protocol=protocol, epsilon=epsilon, delta=delta)
        words[f"{kind} c{colluding} m{minimum} of {len(sizes)}"] = {
            "against": plan["against"],
            "assumptions": plan["assumptions"],
            "keys": list(plan),
            "keys of releases": [list(entry) for entry in plan["releases"]],
        }
    return {"protocols": words}
