"""The planner's page and Python plan the same: random public numbers, computed by both in one run."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpcape.analyses.description import Noise
from dpcape.analyses.registry import variants
from dpcape.core.errors import DpcapeError
from dpcape.core.protocols.registry import make_protocol, plannable
from dpcape.planning.consortium import Consortium
from dpcape.planning.declared import Declared
from dpcape.planning.measures import measure_of
from dpcape.planning.page.planner_page import write_planner
from dpcape.planning.page.schedule_script import schedule_script
from dpcape.planning.planned import facts_of, options_of, parameters_of, plans_of, releases_of, start_of
from dpcape.planning.study_plan import _release_entry, plan_study, terms_of

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="node, which runs the page's scripts, is missing")
N_CASES = 24
# Powers, hypot, exponentials and logarithms are rounded by libraries that differ in the last digits.
RELATIVE = 1e-9
ROUNDED = re.compile(r"\*\*|hypot|poissonLoss")
DECLARED = Declared(decay=0.7)
NUMBERS = (
    "times", "share", "mu", "sensitivity", "own_scale", "shared_scale", "aggregate_scale",
    "aggregate_scale_at_minimum", "pooled_scale", "noise_ratio", "entries",
)  # fmt: skip
LARGEST_PAGE = 600_000

# Functions are known before the first statement runs, and constants stand before what needs a document.
RUNNER = """
const fs = require("fs"), vm = require("vm");
const context = vm.createContext({ console });
try { vm.runInContext(fs.readFileSync("page.js", "utf8"), context); } catch (error) { void error; }
const plan = (one) => { context.one = one; return vm.runInContext("planStudy(one)", context); };
const measure = (one, scales) => {
  Object.assign(context, { one, scales, declared: DECLARED });
  return vm.runInContext("measureOf(one, declared)(scales)", context);
};
const found = JSON.parse(fs.readFileSync("cases.json", "utf8")).map((one) => {
  try {
    const made = plan(one);
    return [[made.mu, made.n_releases],
            ...made.releases.map((entry) => [entry.statistic, entry.known, ...NUMBERS.map((key) => entry[key])])];
  } catch (error) { return error.message; }
});
const measured = JSON.parse(fs.readFileSync("cases.json", "utf8")).map((one) => {
  // As a text, so that an infinite one is kept.
  try { return String(measure(one, one.scales)).replace("Infinity", "inf"); } catch (error) { return error.message; }
});
fs.writeFileSync("measured.json", JSON.stringify(measured));
fs.writeFileSync("found.json", JSON.stringify(found));
"""


def _options(start: dict[str, Any], n_features: int, generator: np.random.Generator) -> dict[str, Any]:
    """Draw options of a variant; some are out of their range, and must be refused by both."""

    def whole(least: float, most: float) -> int:
        return round(math.exp(generator.uniform(math.log(least), math.log(max(most, least)))))

    n_components = whole(1, min(n_features, 40) * 1.1)
    n_basis = None if generator.random() < 0.4 else whole(n_components, n_features * 1.1)
    drawn = {
        "n_components": n_components,
        "n_basis": n_basis,
        "n_x_basis": n_basis,
        "n_y_basis": None if generator.random() < 0.5 else whole(n_components, n_features),
        "n_groups": whole(1, 100),
        "n_sites": whole(1, 100),
        "n_covariates": whole(1, 20),
        "fit_intercept": bool(generator.integers(2)),
        "n_iter": whole(1, 300),
        "n_classes": whole(2, 12),
        "n_hidden": int(generator.choice([0, 1, 20, 300])),
        "clip": float(10 ** generator.uniform(-2, 1)),
        "n_clusters": whole(1, 40),
        "n_words": None if generator.random() < 0.5 else whole(3, n_features * 1.1),
        "document_length": None if generator.random() < 0.5 else whole(2, 200),
        "noise_variance": float(10 ** generator.uniform(-4, 1)),
        "n_timepoints": whole(2, 1000),
    }
    # Other options are as a plan begins.
    return {name: drawn.get(name, start[name]) for name in start}


def _cases() -> list[dict[str, Any]]:
    generator, found = np.random.default_rng(20), []
    for name, (analysis, variant) in variants().items():
        start = start_of(analysis, variant)
        for _ in range(N_CASES):
            n_views = 1 if analysis.records != "views" else 2 if analysis.most_views == 2 else generator.integers(2, 6)
            widths = [int(10 ** generator.uniform(0, 3.3)) for _ in range(n_views)]
            n_sites = int(generator.integers(3, 12))
            protocol = {
                "name": str(generator.choice(list(plannable()))),
                "colluding": int(generator.integers(0, n_sites - 1)),
                "minimum": None if generator.random() < 0.5 else int(generator.integers(1, n_sites + 1)),
                "ratio": float(10 ** generator.uniform(0, 3)),
            }
            case = {
                "analysis": name,
                "widths": widths,
                "bounds": [float(10 ** generator.uniform(-2, 2)) for _ in range(n_views)],
                "options": _options(start, min(widths) if n_views > 1 else sum(widths), generator),
                "sizes": [int(10 ** generator.uniform(1, 5)) for _ in range(n_sites)],
                "protocol": protocol,
                "epsilon": float(10 ** generator.uniform(-1, 1)),
                "delta": float(10 ** generator.uniform(-9, -4)),
                "scales": (10 ** generator.uniform(-4, 0, size=8)).tolist(),
            }
            try:
                case["options"] = options_of(name, case["options"])
            except DpcapeError:
                # The page's controls give options of the right kind.
                continue
            found.append(case)
    return found


def _by_python(case: dict[str, Any]) -> Any:
    asked, epsilon, delta = case["protocol"], case["epsilon"], case["delta"]
    sizes = {f"site-{index + 1:02}": number for index, number in enumerate(case["sizes"])}
    try:
        protocol = make_protocol(
            asked["name"],
            n_colluding=asked["colluding"],
            minimum_sites=asked["minimum"],
            cancelling_ratio=asked["ratio"],
        )
        setting = Consortium(sizes, protocol, epsilon, delta)
        planned = releases_of(case["analysis"], case["widths"], case["bounds"], case["options"], setting=setting)
        terms = terms_of(planned, sizes, protocol, epsilon, delta)
        plans = plans_of(planned, terms, protocol)
        mu = plan_study(releases=planned, sizes=sizes, protocol=protocol, epsilon=epsilon, delta=delta)["mu"]
    except DpcapeError as error:
        return str(error)
    rows: list[list[Any]] = [[mu, len(terms.shares)]]
    for release, noise in zip(planned, plans, strict=True):
        numbers: Any = _release_entry(release, noise, terms)
        rows.append([release.statistic.name, release.known, *(numbers[key] for key in NUMBERS)])
    return rows


def _by_page(cases: list[dict[str, Any]], folder: Path) -> list[Any]:
    page = (folder / "plan.html").read_text(encoding="utf-8")
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    (folder / "page.js").write_text("\n".join(scripts), encoding="utf-8")
    (folder / "cases.json").write_text(json.dumps(cases), encoding="utf-8")
    runner = RUNNER.replace("NUMBERS", json.dumps(NUMBERS)).replace("DECLARED", json.dumps(vars(DECLARED)))
    (folder / "run.js").write_text(runner, encoding="utf-8")
    subprocess.run(["node", "run.js"], cwd=folder, check=True)
    return list(json.loads((folder / "found.json").read_text(encoding="utf-8")))


def _numbers(plan: list[list[Any]]) -> list[float]:
    """Return all numbers of a plan in order; what is missing counts as -1."""
    found: list[float] = []
    for row in plan:
        for value in row:
            if not isinstance(value, str):
                entries = value if isinstance(value, list) else [value]
                found += [-1.0 if entry is None else float(entry) for entry in entries]
    return found


def _measured(case: dict[str, Any]) -> float:
    """Return the expected error, or the size of the noise, for the drawn scales."""
    analysis, chosen = variants()[case["analysis"]][0], {**case["options"]}
    facts = facts_of(case["analysis"], case["widths"], case["bounds"], chosen)
    measure = measure_of(analysis, facts, parameters_of(case["analysis"], chosen), DECLARED)
    assert measure is not None
    return measure.value(case["scales"])


def test_the_page_measures_noise_as_python_does(tmp_path: Path) -> None:
    """What is generated computes the same bits, unless a library rounds a step of it."""
    write_planner(tmp_path / "plan.html")
    cases, n_equal = _cases(), 0
    planned = _by_page(cases, tmp_path)
    measured = json.loads((tmp_path / "measured.json").read_text(encoding="utf-8"))
    script = schedule_script()
    generated = dict(re.findall(r'^  "([\w-]+)": \(p, scales\) => (.*),$', script, re.MULTILINE))
    assert set(generated) == {name for name, (entry, _) in variants().items() if isinstance(entry.measure, Noise)}
    for case, plan, page in zip(cases, planned, measured, strict=True):
        if isinstance(plan, str):
            # Refused by both, as the other test finds.
            continue
        formula = generated.get(case["analysis"], "**")
        if ROUNDED.search(formula):
            # An energy share is compared as a share: what is lost is one minus it.
            assert float(page) == pytest.approx(_measured(case), rel=RELATIVE, abs=1e-12), case
        else:
            assert float(page) == _measured(case), case
            n_equal += 1
    assert n_equal >= 200


def test_the_page_computes_what_python_computes(tmp_path: Path) -> None:
    write_planner(tmp_path / "plan.html")
    assert (tmp_path / "plan.html").stat().st_size <= LARGEST_PAGE
    cases = _cases()
    planned = dict.fromkeys(variants(), 0)
    for case, page in zip(cases, _by_page(cases, tmp_path), strict=True):
        python = _by_python(case)
        if isinstance(page, str) or isinstance(python, str):
            assert isinstance(page, str), (case, python)
            assert isinstance(python, str), (case, page)
            assert "not defined" not in page, page
            continue
        planned[case["analysis"]] += 1
        assert [row[:2] for row in page[1:]] == [row[:2] for row in python[1:]], case
        np.testing.assert_allclose(_numbers(page), _numbers(python), rtol=RELATIVE, atol=0, err_msg=str(case))
    assert min(planned.values()) >= 3, planned
