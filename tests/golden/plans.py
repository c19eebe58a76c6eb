"""Plans of every planned analysis under every protocol: by Python, and by the planner page's scripts."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
from pathlib import Path
from typing import Any

from .places import PLAN_FUNCTION, PLANNED, Setting, errors, make_protocol, options_of, plan_study, releases_of
from .places import write_planner as write_page

Study = tuple[str, list[int], list[float], dict[str, Any]]


def _studies() -> list[Study]:
    found: list[Study] = []

    def add(name: str, widths: list[int], bounds: list[float], **options: Any) -> None:
        found.append((name, widths, bounds, options))

    for width, bound in ((1, 1.0), (40, 2.0), (784, 0.3)):
        add("mean", [width], [bound])
        add("pca", [width], [bound], n_components=1)
        add("uncentred-pca", [width], [bound], n_components=1)
    add("pca", [100], [1.0])
    for width, groups in ((8, 3), (1, 1), (30, 12)):
        add("summary", [width], [1.0], n_groups=groups)
        add("kaplan-meier", [width], [1.0], n_groups=groups)
        add("log-rank", [width], [1.0], n_groups=groups)
    for covariates in (1, 12):
        add("cox", [1], [1.0], n_covariates=covariates)
    for width, sites in ((1, 4), (45, 15)):
        add("harmonise", [width], [1.0], n_sites=sites)
        add("heterogeneity", [width], [1.0], n_sites=sites)
    for width, sites, covariates in ((1, 4, 2), (68, 20, 3), (1000, 1, 0)):
        variant = "group-contrast" if width == 1 else "mass-univariate"
        add(variant, [width], [1.0], n_sites=sites, n_covariates=covariates)
    add("uncentred-pca", [12], [3.0], n_components=3)
    add("site-adjusted-pca", [12], [3.0], n_components=3)
    add("site-adjusted-cca", [3, 9], [1.0, 2.5], n_components=1)
    for widths, bounds in (([60, 40], [1.0, 1.0]), ([3, 9], [1.0, 2.5]), ([1, 2], [0.1, 7.0])):
        add("cca", widths, bounds, n_components=1)
        add("uncentred-cca", widths, bounds, n_components=1)
        add("scaled-cca", widths, bounds, n_components=1)
        add("pls", widths, bounds, n_components=1)
        add("scaled-pls", widths, bounds, n_components=1)
    for name in ("wide-pca", "wide-pca-maps"):
        add(name, [60], [1.0], n_components=3, n_basis=20)
        add(name, [76_800], [1.25], n_components=20, n_basis=891)
        add(name, [500], [2.0], n_components=2)
        add(name, [30], [1.0], n_components=5, n_basis=4)
    for name in ("wide-cca", "wide-cca-maps"):
        add(name, [60, 4], [1.0, 2.0], n_components=2, n_x_basis=20, n_y_basis=None)
        add(name, [76_800, 76_800], [1.25, 1.0], n_components=3, n_x_basis=600, n_y_basis=300)
        add(name, [500, 3], [2.0, 1.0], n_components=2, n_x_basis=None)
        add(name, [30, 30], [1.0, 1.0], n_components=5, n_x_basis=4)
    for width, bound in ((1, 1.0), (12, 3.0), (90, 0.5)):
        add("correlation", [width], [bound])
        add("correlation-as-given", [width], [bound])
    for widths, bounds in (([8, 8, 8], [1.0, 1.0, 1.0]), ([30, 5, 2, 9], [1.0, 2.5, 0.1, 4.0]), ([3, 9], [1.0, 2.5])):
        add("multi-cca", widths, bounds, n_components=1)
        add("uncentred-multi-cca", widths, bounds, n_components=1)
        add("scaled-multi-cca", widths, bounds, n_components=1)
    for width, bound, intercept in ((20, 1.0, True), (6, 4.0, False), (1, 0.5, True)):
        add("linear-regression", [width], [bound], fit_intercept=intercept)
        add("logistic-regression", [width], [bound], fit_intercept=intercept)
        for name in ("linear-regression", "logistic-regression"):
            add(f"{name}-scaled", [width], [bound], fit_intercept=intercept)
            add(f"{name}-prediction", [width], [bound], fit_intercept=intercept, n_iter=0 if intercept else 7)
    for width, bound in ((20, 1.0), (1, 0.5)):
        for family in ("gaussian", "logistic", "poisson", "gamma"):
            add(f"{family}-model", [width], [bound])
        for classes in (3, 7):
            add("multinomial-model", [width], [bound], n_classes=classes)
    for width, bound in ((4, 1.0), (3, 0.05), (2, 7.0), (60, 1.0)):
        add("polynomial-loss", [width], [bound])
    add("network-classifier", [30], [1.0])
    add("network-classifier", [30], [1.0], n_hidden=10, n_iter=15, clip=0.5)
    add("network-classifier", [5], [2.0], n_hidden=4, n_iter=1, clip=1.25, n_classes=3)
    add("network-classifier", [5], [2.0], n_classes=1)
    for width, bound, clusters, rounds in ((8, 1.0, 4, 6), (1, 0.3, 1, 1), (300, 7.0, 30, 33)):
        add("kmeans", [width], [bound], n_clusters=clusters, n_iter=rounds)
    add("kmeans", [8], [1.0], n_clusters=0)
    for name in ("topic-model", "whitened-topic-model"):
        add(name, [50], [1.0])
        add(name, [30], [1.0], n_components=10, document_length=12)
        add(name, [300], [1.0], n_components=3, n_words=40)
        add(name, [90], [1.0], n_components=3, n_words=20, document_length=50)
        add(name, [700], [1.0], n_components=4, n_words=100, document_length=3)
        add(name, [5000], [1.0], n_components=30)
        add(name, [4], [1.0], n_components=5)
        add(name, [50], [1.0], n_words=51)
        add(name, [50], [1.0], document_length=2)
    for name in ("mixture-model", "whitened-mixture-model"):
        add(name, [12], [1.0], n_components=3)
        add(name, [40], [2.5], n_components=40, noise_variance=3.0)
        add(name, [3], [0.5], n_components=1, noise_variance=0)
        add(name, [600], [1.0], n_components=8, noise_variance=0.001)
        add(name, [2], [1.0], n_components=5)
    for name, more in (
        ("joint-ica", {}),
        ("joint-ica-maps", {}),
        ("infomax-joint-ica", {"n_iter": 50}),
        ("subject-joint-ica", {"n_timepoints": 120}),
        ("subject-infomax-joint-ica", {"n_timepoints": 40, "n_iter": 30}),
    ):
        add(name, [30], [6.0], n_components=5, **more)
        add(name, [900], [1.0], n_components=20, n_basis=20, **more)
        add(name, [500], [2.0], n_components=6, n_basis=40, **more)
        add(name, [2], [1.0], n_components=2, **more)
        add(name, [30], [1.0], n_components=1, **more)
        add(name, [30], [1.0], n_components=5, n_basis=4, **more)
    add("subject-infomax-joint-ica", [25], [1.0], n_components=3, n_timepoints=40, n_iter=2 * 10**6)
    add("subject-joint-ica", [80], [3.0], n_components=20, n_basis=20, n_timepoints=21)
    add("subject-joint-ica", [20], [3.0], n_components=2, n_timepoints=3)
    # What no analysis takes.
    add("pca", [0], [1.0])
    add("pca", [5], [2e-41])
    add("pca", [5], [1.5e41])
    add("mean", [5], [1.0], n_components=2)
    add("mixture-model", [12], [1.0], noise_variance=-1.0)
    return found


EQUAL, UNEQUAL = [6000] * 10, [900, 20000, 350, 4000, 51]
# (protocol, sites that may collude, least sites, ratio), the sizes of the sites, epsilon and delta.
SETTINGS: list[tuple[tuple[str, int, int | None, float], list[int], float, float]] = [
    (("cape", 3, None, 100.0), EQUAL, 1.0, 1e-5),
    (("cape", 1, 4, 1.0), UNEQUAL, 0.4, 1e-6),
    (("secure-sum", 2, 7, 100.0), EQUAL, 8.0, 1e-3),
    (("secure-sum", 0, None, 100.0), UNEQUAL, 1.0, 1e-5),
    (("independent", 0, 2, 100.0), [900, 20000, 350], 0.05, 1e-9),
    (("independent", 0, None, 100.0), [100000], 1.0, 1e-5),
    (("dealer", 1, None, 100.0), [700] * 4, 0.4, 1e-6),
    (("dealer", 0, None, 7.0), UNEQUAL, 3.0, 1e-7),
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
        *itertools.product(_studies(), SETTINGS),
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
    """Return the words a plan says about each protocol, the keys of its entries, and what each analysis is called."""
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
    titles = {
        name: {"title": variant.title, "group": analysis.group, "note": variant.note}
        for name, (analysis, variant) in PLANNED.items()
    }
    return {"protocols": words, "analyses": titles}


NUMBERS = (
    "times", "share", "mu", "sensitivity", "own_scale", "shared_scale", "aggregate_scale",
    "aggregate_scale_at_minimum", "pooled_scale", "noise_ratio", "entries",
)  # fmt: skip

# Functions are known before the first statement runs, and constants stand before what needs a document.
_RUNNER = """
const fs = require("fs"), vm = require("vm");
const context = vm.createContext({ console });
try { vm.runInContext(fs.readFileSync("page.js", "utf8"), context); } catch (error) { void error; }
const plan = (one) => { context.one = one; return vm.runInContext("FUNCTION(one)", context); };
const found = JSON.parse(fs.readFileSync("cases.json", "utf8")).map((one) => {
  try {
    const made = plan(one);
    return [made.mu, made.epsilon, made.output_only, made.n_releases,
            ...made.releases.map((entry) => [entry.statistic, entry.known, ...NUMBERS.map((key) => entry[key])])];
  } catch (error) { return error.message; }
});
fs.writeFileSync("found.json", JSON.stringify({ engine: process.versions.v8, found }));
"""


def script_plans(folder: Path) -> dict[str, Any]:
    """Return what the scripts of the planner page compute for the same cases, by node; null where they refuse."""
    write_page(folder / "plan.html")
    scripts = re.findall(r"<script>(.*?)</script>", (folder / "plan.html").read_text(encoding="utf-8"), re.DOTALL)
    (folder / "page.js").write_text("\n".join(scripts), encoding="utf-8")
    asked = {}
    for label, ((name, widths, bounds, given), setting) in cases().items():
        (kind, colluding, minimum, ratio), sizes, epsilon, delta = setting
        try:
            options = options_of(name, given)
        except errors.DpcapeError:
            # The page's controls give options of the right kind.
            continue
        protocol = {"name": kind, "colluding": colluding, "minimum": minimum, "ratio": ratio}
        asked[label] = {"analysis": name, "widths": widths, "bounds": bounds, "options": options, "sizes": sizes}
        asked[label] |= {"protocol": protocol, "epsilon": epsilon, "delta": delta}
    (folder / "cases.json").write_text(json.dumps(list(asked.values())), encoding="utf-8")
    runner = _RUNNER.replace("FUNCTION", PLAN_FUNCTION).replace("NUMBERS", json.dumps(NUMBERS))
    (folder / "run.js").write_text(runner, encoding="utf-8")
    subprocess.run(["node", "run.js"], cwd=folder, check=True)
    answer = json.loads((folder / "found.json").read_text(encoding="utf-8"))
    found = [None if isinstance(entry, str) else entry for entry in answer["found"]]
    words = [entry for entry in answer["found"] if isinstance(entry, str)]
    assert not any("is not" in text and "defined" in text for text in words), words[0]
    return {"engine": answer["engine"], "plans": dict(zip(asked, found, strict=True))}
