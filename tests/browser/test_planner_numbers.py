"""The planner's scripts against Python, in the browser: every number it shows is the one dpcape computes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import erfcx

from dpcape.analyses.registry import variants
from dpcape.core.errors import InvalidParameter
from dpcape.core.privacy.gaussian import delta_of, epsilon_of, mu_of
from dpcape.core.privacy.ledger import Charge, spent_epsilon
from dpcape.core.privacy.terms import DELTA_RESERVE, epsilon_reserve, tail_reserve
from dpcape.core.protocols.registry import make_protocol
from dpcape.guarantee.guarantee import guarantee_of
from dpcape.pages.numbers import round_up
from dpcape.planning.consortium import Consortium as Setting
from dpcape.planning.curves import scenarios
from dpcape.planning.declared import Declared
from dpcape.planning.kept_energy import kept_energy
from dpcape.planning.measures import expected_word, measure_of
from dpcape.planning.page.planner_page import write_planner
from dpcape.planning.planned import facts_of, options_of, parameters_of, plans_of, releases_of
from dpcape.planning.study_plan import plan_study, terms_of

pytestmark = pytest.mark.browser
RELATIVE = 1e-9


@pytest.fixture
def run(open_file: Any, tmp_path: Path) -> Callable[..., Any]:
    """Evaluate an expression of the page's scripts."""
    write_planner(tmp_path / "plan.html")
    page = open_file(tmp_path / "plan.html")
    return lambda expression, value=None: page.evaluate(expression, value)


def close(got: Any, wanted: Any, relative: float = RELATIVE, absolute: float = 0.0) -> None:
    assert np.allclose(np.array(got, dtype=float), np.array(wanted, dtype=float), rtol=relative, atol=absolute), (
        got,
        wanted,
    )


def test_error_function(run: Any) -> None:
    points = [*np.linspace(0, 6, 601).tolist(), *np.logspace(0.5, 6, 200).tolist()]
    close(run("points => points.map(erfcx)", points), erfcx(points), 4e-15)


def test_gaussian_functions(run: Any) -> None:
    epsilons, deltas, mus = np.logspace(-3, 2.5, 34), np.logspace(-15, -0.5, 16), np.logspace(-3, 1.5, 30)
    pairs = [(float(a), float(b)) for a, b in itertools.product(epsilons, deltas)]
    close(run("pairs => pairs.map(([e, d]) => muOf(e, d))", pairs), [mu_of(e, d) for e, d in pairs])
    pairs = [(float(a), float(b)) for a, b in itertools.product(deltas, mus)]
    close(run("pairs => pairs.map(([d, m]) => epsilonOf(d, m))", pairs), [epsilon_of(d, m) for d, m in pairs])
    pairs = [(float(a), float(b)) for a, b in itertools.product(epsilons, mus)]
    wanted = [delta_of(e, m) for e, m in pairs]
    close(run("pairs => pairs.map(([e, m]) => deltaOf(e, m))", pairs), wanted, absolute=1e-17)


def test_numbers_are_written_alike(run: Any) -> None:
    values = [0.1, 1.0, 3.0, 1e-5, 1.5e-7, 0.00012345, 123456.0, 1e16, 0.9999995, 1.00001, 12345.678, 2.5e22]
    assert run("values => values.map(pyNumber)", values) == [repr(value) for value in values]
    assert run("values => values.map((value) => general(value, 3))", values) == [f"{value:.3g}" for value in values]
    assert run("values => values.map((value) => roundUp(value))", values) == [round_up(value) for value in values]


def test_ledger(run: Any) -> None:
    cases = list(itertools.product([0, 1, 2, 7, 40], [0.05, 1.0, 6.0, 60.0], [1e-9, 1e-5], [1e-9, 1e-6, 1e-4]))
    got = run(
        "cases => cases.map((one) => { const s = spentEpsilon(...one); return Number.isFinite(s) ? s : -1; })", cases
    )
    wanted = []
    for studies, epsilon, delta, at in cases:
        mu = mu_of(epsilon - epsilon_reserve(epsilon), delta * (1 - DELTA_RESERVE))
        charge = Charge(allowance="", mu=mu, gap=epsilon_reserve(epsilon), tail=tail_reserve(delta), n_releases=1)
        spent = spent_epsilon([charge] * studies, at)
        wanted.append(spent if math.isfinite(spent) else -1)
    assert -1 in wanted
    close(got, wanted)


def test_kept_energy(run: Any) -> None:
    cases = []
    for size, kept, shape, scale in itertools.product(
        [3, 20, 300], [1, 2], ["power", "geometric", "flat"], [-5, -3, -2, -1, 0]
    ):
        spectrum = Declared(shape=shape, decay=0.7).spectrum(size)
        cases.append((spectrum.tolist(), kept, 10.0**scale))
    cases.append(([0.4, 0.3, 0.0, 0.0, 0.0], 2, 0.05))
    got = run("cases => cases.map((one) => keptEnergy(...one))", cases)
    wanted = [kept_energy(np.array(spectrum), kept, scale) for spectrum, kept, scale in cases]
    close(got, wanted)
    # Losses are what is shown.
    close(1 - np.array(got), 1 - np.array(wanted), 1e-6, 1e-12)


def words(n_components: int, *, n_words: int | None = None, document_length: int | None = None) -> dict[str, Any]:
    return {"n_components": n_components, "n_words": n_words, "document_length": document_length}


def mixture(n_components: int, noise_variance: float) -> dict[str, Any]:
    return {"n_components": n_components, "noise_variance": noise_variance}


def series(n_components: int, *, n_basis: int | None = None, **more: int) -> dict[str, Any]:
    return {"n_components": n_components, "n_basis": n_basis, **more}


# One entry per analysis or more; the later ones of each are unusual.
STUDIES: list[dict[str, Any]] = [
    {"analysis": "summary", "widths": [6], "bounds": [1.0], "options": {"n_groups": 3}},
    {"analysis": "group-contrast", "widths": [1], "bounds": [1.0], "options": {"n_sites": 4, "n_covariates": 2}},
    {"analysis": "poisson-model", "widths": [10], "bounds": [1.4]},
    {"analysis": "multinomial-model", "widths": [7], "bounds": [1.0], "options": {"n_classes": 4}},
    {"analysis": "harmonise", "widths": [45], "bounds": [1.0], "options": {"n_sites": 15}},
    {"analysis": "heterogeneity", "widths": [3], "bounds": [1.0], "options": {"n_sites": 15}},
    {"analysis": "cox", "widths": [1], "bounds": [1.0], "options": {"n_covariates": 6}},
    {"analysis": "mass-univariate", "widths": [68], "bounds": [1.0], "options": {"n_sites": 20, "n_covariates": 0}},
    {"analysis": "mean", "widths": [40], "bounds": [2.0]},
    {"analysis": "pca", "widths": [100], "bounds": [1.0], "options": {"n_components": 5}},
    {"analysis": "pca", "widths": [784], "bounds": [0.3], "options": {"n_components": 60}},
    {"analysis": "uncentred-pca", "widths": [12], "bounds": [3.0], "options": {"n_components": 2}},
    {"analysis": "site-adjusted-pca", "widths": [12], "bounds": [3.0], "options": {"n_components": 2}},
    {"analysis": "site-adjusted-cca", "widths": [3, 9], "bounds": [1.0, 2.5], "options": {"n_components": 1}},
    {"analysis": "cca", "widths": [60, 40], "bounds": [1.0, 1.0], "options": {"n_components": 2}},
    {"analysis": "scaled-cca", "widths": [6, 4], "bounds": [2.0, 1.0], "options": {"n_components": 2}},
    {"analysis": "uncentred-cca", "widths": [3, 9], "bounds": [1.0, 2.5], "options": {"n_components": 1}},
    {"analysis": "linear-regression", "widths": [20], "bounds": [1.0], "options": {"fit_intercept": True}},
    {"analysis": "linear-regression", "widths": [6], "bounds": [4.0], "options": {"fit_intercept": False}},
    {"analysis": "logistic-regression", "widths": [30], "bounds": [1.0], "options": {"fit_intercept": True}},
    {"analysis": "linear-regression-scaled", "widths": [6], "bounds": [4.0], "options": {"fit_intercept": True}},
    {"analysis": "logistic-regression-scaled", "widths": [6], "bounds": [4.0], "options": {"fit_intercept": False}},
    {
        "analysis": "linear-regression-prediction",
        "widths": [6],
        "bounds": [4.0],
        "options": {"fit_intercept": True, "n_iter": 24},
    },
    {
        "analysis": "logistic-regression-prediction",
        "widths": [6],
        "bounds": [1.0],
        "options": {"fit_intercept": True, "n_iter": 0},
    },
    {"analysis": "kmeans", "widths": [8], "bounds": [1.0], "options": {"n_clusters": 4, "n_iter": 6}},
    {
        "analysis": "network-classifier",
        "widths": [30],
        "bounds": [1.0],
        "options": {"n_hidden": 10, "n_iter": 15, "clip": 0.5, "n_classes": 2},
    },
    {
        "analysis": "network-classifier",
        "widths": [5],
        "bounds": [2.0],
        "options": {"n_hidden": 4, "n_iter": 1, "clip": 1.0, "n_classes": 3},
    },
    {"analysis": "topic-model", "widths": [50], "bounds": [1.0], "options": words(5)},
    {"analysis": "topic-model", "widths": [30], "bounds": [1.0], "options": words(10, document_length=12)},
    {"analysis": "topic-model", "widths": [300], "bounds": [1.0], "options": words(3, n_words=40)},
    {"analysis": "topic-model", "widths": [90], "bounds": [1.0], "options": words(3, n_words=20, document_length=50)},
    {"analysis": "whitened-topic-model", "widths": [5000], "bounds": [1.0], "options": words(30)},
    {
        "analysis": "whitened-topic-model",
        "widths": [700],
        "bounds": [1.0],
        "options": words(4, n_words=100, document_length=3),
    },
    {"analysis": "mixture-model", "widths": [12], "bounds": [1.0], "options": mixture(3, 0.01)},
    {"analysis": "mixture-model", "widths": [40], "bounds": [2.5], "options": mixture(40, 3.0)},
    {"analysis": "mixture-model", "widths": [3], "bounds": [0.5], "options": mixture(1, 0)},
    {"analysis": "whitened-mixture-model", "widths": [600], "bounds": [1.0], "options": mixture(8, 0.001)},
    {"analysis": "joint-ica", "widths": [30], "bounds": [6.0], "options": series(5)},
    *(
        {"analysis": name, "widths": [60, 9], "bounds": [1.0, 2.0], "options": options}
        for name in ("wide-cca", "wide-cca-maps")
        for options in (
            {"n_components": 2, "n_x_basis": 20, "n_y_basis": None},
            {"n_components": 1, "n_x_basis": 30, "n_y_basis": 4},
        )
    ),
    {"analysis": "joint-ica-maps", "widths": [90], "bounds": [1.0], "options": series(2, n_basis=20)},
    {"analysis": "joint-ica", "widths": [900], "bounds": [1.0], "options": series(20, n_basis=20)},
    {"analysis": "joint-ica", "widths": [2], "bounds": [1.0], "options": series(2)},
    {"analysis": "infomax-joint-ica", "widths": [500], "bounds": [2.0], "options": series(6, n_basis=40, n_iter=50)},
    {"analysis": "subject-joint-ica", "widths": [60], "bounds": [1.0], "options": series(4, n_timepoints=120)},
    {
        "analysis": "subject-joint-ica",
        "widths": [80],
        "bounds": [3.0],
        "options": series(20, n_basis=20, n_timepoints=250),
    },
    {
        "analysis": "subject-infomax-joint-ica",
        "widths": [25],
        "bounds": [1.0],
        "options": series(3, n_timepoints=40, n_iter=30),
    },
    {"analysis": "polynomial-loss", "widths": [4], "bounds": [1.0]},
    {"analysis": "polynomial-loss", "widths": [3], "bounds": [0.05]},
    {"analysis": "polynomial-loss", "widths": [2], "bounds": [7.0]},
]


def first_of(analysis: str) -> dict[str, Any]:
    return next(study for study in STUDIES if study["analysis"] == analysis)


# (sizes, protocol, colluding, minimum)
CONSORTIA: list[tuple[list[int], str, int, int | None]] = [
    ([6000] * 10, "cape", 3, None),
    ([6000] * 10, "cape", 1, 8),
    ([900, 20000, 350, 4000, 51], "cape", 2, None),
    ([5000] * 3, "cape", 1, 3),
    ([6000] * 10, "secure-sum", 2, 7),
    ([900, 20000, 350, 4000, 51], "secure-sum", 0, None),
    ([900, 20000, 350], "independent", 0, 2),
    ([100000], "independent", 0, None),
    ([700] * 4, "dealer", 1, None),
]
# Four, so that they meet the nine consortia in turn.
PRIVACY = [(1.0, 1e-5), (0.05, 1e-9), (8.0, 1e-3), (0.4, 1e-6)]


def names(count: int) -> list[str]:
    digits = len(str(count))
    return [f"site-{index + 1:0{digits}}" for index in range(count)]


def as_script(study: dict[str, Any], consortium: Any, privacy: tuple[float, float]) -> dict[str, Any]:
    sizes, name, colluding, minimum = consortium
    protocol = {"name": name, "colluding": colluding, "minimum": minimum, "ratio": 100}
    whole = {"options": {}, **study, "sizes": sizes, "protocol": protocol}
    return {**whole, "epsilon": privacy[0], "delta": privacy[1]}


def as_python(study: dict[str, Any], consortium: Any) -> tuple[Any, dict[str, int], Any]:
    """Releases (of a setting), sizes and protocol."""
    sizes, name, colluding, minimum = consortium
    protocol = make_protocol(name, n_colluding=colluding, minimum_sites=minimum)

    def releases(setting: Setting) -> Any:
        return releases_of(study["analysis"], study["widths"], study["bounds"], study.get("options"), setting=setting)

    return releases, dict(zip(names(len(sizes)), sizes, strict=True)), protocol


COMPARED = (
    "sensitivity",
    "own_scale",
    "shared_scale",
    "aggregate_scale",
    "aggregate_scale_at_minimum",
    "pooled_scale",
    "noise_ratio",
    "entries",
    "share",
    "mu",
)


def test_plans_are_the_same(run: Any) -> None:
    pairs = itertools.product(STUDIES, CONSORTIA)
    cases = [(*pair, privacy) for pair, privacy in zip(pairs, itertools.cycle(PRIVACY), strict=False)]
    script = "one => { const plan = planStudy(one); return { ...plan, text: sentence(one, plan) }; }"
    got = run(f"cases => cases.map({script})", [as_script(*case) for case in cases])
    for case, found in zip(cases, got, strict=True):
        planned, sizes, protocol = as_python(*case[:2])
        epsilon, delta = case[2]
        releases = planned(Setting(sizes, protocol, epsilon, delta))
        assert [entry["known"] for entry in found["releases"]] == [entry.known for entry in releases]
        wanted = plan_study(releases=releases, sizes=sizes, protocol=protocol, epsilon=epsilon, delta=delta)
        each = wanted.get("releases", [{**wanted, "share": releases[0].share, "mu": found["releases"][0]["mu"]}])
        for entry, mine in zip(each, found["releases"], strict=True):
            close([mine[key] for key in COMPARED], [entry[key] for key in COMPARED])
        close([found["mu"], found["n_releases"]], [wanted["mu"], wanted["n_releases"]])
        terms = terms_of(releases, sizes, protocol, epsilon, delta)
        plans = [
            plan
            for plan, release in zip(plans_of(releases, terms, protocol), releases, strict=True)
            for _ in range(release.times)
        ]
        by_site = any(release.statistic.by_site for release in releases)
        guarantee = guarantee_of(terms, protocol, plans, by_site=by_site)
        close([found["epsilon"], found["output_only"]], [guarantee.epsilon, guarantee.epsilon_output_only])
        assert found["text"] == guarantee.sentence()


def test_mu_counts_every_round(run: Any) -> None:
    """Several releases spend the whole of what one would: their mu^2 add."""
    one = as_script(first_of("kmeans"), CONSORTIA[0], (1.0, 1e-5))
    plan = run("one => planStudy(one)", one)
    close(plan["mu"], math.sqrt(6) * plan["releases"][0]["mu"])
    close(plan["mu"], mu_of(1 - epsilon_reserve(1.0), 1e-5 * (1 - DELTA_RESERVE)))


DECLARED = [
    Declared(),
    Declared(shape="geometric", decay=0.6, energy=0.9, explained=0.2),
    Declared(shape="flat", energy=0.1),
    Declared(values=(0.3, 0.2, 0.1), explained=0.8),
]


def measured(study: dict[str, Any], declared: Declared) -> Any:
    options = options_of(study["analysis"], study.get("options", {}))
    facts = facts_of(study["analysis"], study["widths"], study["bounds"], options)
    return measure_of(variants()[study["analysis"]][0], facts, parameters_of(study["analysis"], options), declared)


def plain(declared: Declared) -> dict[str, Any]:
    return {**vars(declared), "values": list(declared.values)}


def test_what_to_expect_is_said_in_the_same_word(run: Any) -> None:
    """The closing sentence of a plan and that of the page, on both sides of each limit."""
    values = [0.0, 0.0999, 0.1, 0.1001, 0.4999, 0.5, 0.5001, 3.0]
    got = run("(values) => values.map((value) => expectedWord(value))", values)
    assert got == [expected_word(value) for value in values]
    assert run("(value) => expectedWord(value)", None) == "not determined"


def test_expected_errors_are_the_same(run: Any) -> None:
    script = """([study, declared]) => Object.values(scenariosOf(study)).map((one) =>
        String(errorAt(one, measureOf(study, declared), study.epsilon)).replace("Infinity", "inf"))"""
    for study, declared, consortium in itertools.product(STUDIES, DECLARED, [CONSORTIA[1], CONSORTIA[2]]):
        releases, sizes, protocol = as_python(study, consortium)
        measure = measured(study, declared)
        # As a text, so that an infinite one is compared too.
        got = [float(entry) for entry in run(script, [as_script(study, consortium, (1.0, 1e-5)), plain(declared)])]
        wanted = [one.error(measure, 1.0) for one in scenarios(releases, sizes, protocol, 1e-5).values()]
        # An energy share is compared as a share: what is lost is one minus it.
        close(got, wanted, RELATIVE, RELATIVE if "pca" in study["analysis"] else 0.0)


@pytest.mark.parametrize(
    "analysis",
    ["mean", "pca", "cca", "kmeans", "topic-model", "mixture-model", "joint-ica", "subject-joint-ica"],
)
def test_smallest_epsilons_are_the_same(run: Any, analysis: str) -> None:
    study = first_of(analysis)
    script = """([study, declared, wanted]) => Object.values(scenariosOf(study)).map((one) =>
        smallestEpsilon(one, measureOf(study, declared), wanted))"""
    releases, sizes, protocol = as_python(study, CONSORTIA[2])
    measure = measured(study, Declared())
    got = run(script, [as_script(study, CONSORTIA[2], (1.0, 1e-5)), plain(Declared()), 0.02])
    ways = scenarios(releases, sizes, protocol, 1e-5).values()
    wanted = [one.smallest_epsilon(measure, 0.02) for one in ways]
    assert [entry is None for entry in got] == [entry is None for entry in wanted]
    close([entry or 0 for entry in got], [entry or 0 for entry in wanted], 1e-7)
    for entry, one in zip(wanted, ways, strict=True):
        if entry is not None and entry > 0.0011:
            assert (one.error(measure, entry) or 0) <= 0.02
            assert (one.error(measure, 0.99 * entry) or 1) > 0.02


REFUSED = [
    (first_of("pca"), ([10, 10], "cape", 0, None)),
    (first_of("pca"), ([10, 10], "secure-sum", 0, None)),
    (first_of("pca"), ([10] * 4, "cape", 3, None)),
    (first_of("pca"), ([10] * 4, "cape", 4, None)),
    (first_of("pca"), ([10] * 6, "cape", 1, 3)),
    (first_of("pca"), ([10] * 6, "secure-sum", 0, 7)),
    (first_of("pca"), ([10], "dealer", 0, None)),
    (first_of("pca"), ([10] * 3, "dealer", 3, None)),
    (first_of("pca"), ([10] * 3, "dealer", 0, 2)),
    (first_of("pca"), ([10] * 3, "independent", 0, 4)),
    ({**first_of("pca"), "widths": [0]}, CONSORTIA[0]),
    ({**first_of("pca"), "bounds": [2e-41]}, CONSORTIA[0]),
    ({**first_of("pca"), "bounds": [1.5e41]}, CONSORTIA[0]),
    ({**first_of("topic-model"), "widths": [900]}, CONSORTIA[0]),
    ({**first_of("topic-model"), "widths": [4]}, CONSORTIA[0]),
    ({**first_of("topic-model"), "options": words(5, n_words=51)}, CONSORTIA[0]),
    ({**first_of("topic-model"), "options": words(5, document_length=2)}, CONSORTIA[0]),
    ({**first_of("mixture-model"), "widths": [2]}, CONSORTIA[0]),
    ({**first_of("joint-ica"), "options": series(1)}, CONSORTIA[0]),
    ({**first_of("joint-ica"), "options": series(5, n_basis=4)}, CONSORTIA[0]),
    ({**first_of("joint-ica"), "options": series(5)}, ([1, 2, 2], "cape", 0, None)),
    ({**first_of("subject-joint-ica"), "options": series(4, n_timepoints=4)}, CONSORTIA[0]),
    (first_of("subject-joint-ica"), ([1], "independent", 0, None)),
    ({**first_of("subject-infomax-joint-ica"), "options": series(3, n_timepoints=40, n_iter=2 * 10**6)}, CONSORTIA[0]),
    ({**first_of("polynomial-loss"), "widths": [60]}, CONSORTIA[0]),
    (first_of("pca"), ([10**9] * 10, "cape", 0, None), (150.0, 1e-5)),
    (first_of("pca"), ([10] * 10, "cape", 0, None), (230.0, 1e-5)),
    (first_of("pca"), ([10] * 10, "cape", 0, None), (1.0, 1.5)),
]


def test_refusals_have_the_same_words(run: Any) -> None:
    cases = [(*case, (1.0, 1e-5))[:3] for case in REFUSED]
    script = "one => { try { planStudy(one); return null; } catch (error) { return error.message; } }"
    got = run(f"cases => cases.map({script})", [as_script(*case) for case in cases])
    for case, words in zip(cases, got, strict=True):
        with pytest.raises(InvalidParameter) as refused:
            _planned(*case)
        assert words == str(refused.value)


def _planned(study: dict[str, Any], consortium: Any, privacy: tuple[float, float]) -> dict[str, Any]:
    planned, sizes, protocol = as_python(study, consortium)
    releases = planned(Setting(sizes, protocol, *privacy))
    return plan_study(releases=releases, sizes=sizes, protocol=protocol, epsilon=privacy[0], delta=privacy[1])
