"""Descriptions of analyses are true: parameters, shares, releases and cases are those of the estimators themselves."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import dpcape.planning.page
from dpcape.analyses.description import CONDITIONAL, VERIFIED, Analysis, Noise, public_facts
from dpcape.analyses.parameters import REQUIRED, WHOLE
from dpcape.analyses.registry import ANY_PACKAGE, analyses, own_analyses, variants
from dpcape.analyses.release import Refusal, Release
from dpcape.core.errors import InvalidParameter
from dpcape.core.facts import PublicFacts
from dpcape.core.protocols.registry import PROTOCOLS
from dpcape.core.statistic import statistic_class
from dpcape.planning.measures import MEASURES
from dpcape.planning.page.schedule_script import schedule_script, ways

OWN = list(own_analyses().values())
NAMES = [analysis.name for analysis in OWN]
FROM_STUDY = ("epsilon", "delta")
VERIFIED_ONES = [entry for entry in OWN if entry.standing == VERIFIED]


@pytest.mark.parametrize("analysis", OWN, ids=NAMES)
def test_parameters_are_the_estimators(analysis: Analysis) -> None:
    signature = inspect.signature(analysis.load())
    wanted = {
        name: REQUIRED if parameter.default is inspect.Parameter.empty else parameter.default
        for name, parameter in signature.parameters.items()
        if name not in FROM_STUDY
    }
    assert {parameter.name: parameter.default for parameter in analysis.parameters} == wanted


@pytest.mark.parametrize("analysis", OWN, ids=NAMES)
def test_estimator_and_description_name_each_other(analysis: Analysis) -> None:
    estimator: Any = analysis.load()
    assert estimator.analysis is analysis
    assert estimator.__name__ == analysis.python


@pytest.mark.parametrize("analysis", OWN, ids=NAMES)
def test_what_a_description_names_is_there(analysis: Analysis) -> None:
    assert isinstance(analysis.measure, Noise) or analysis.measure in MEASURES or not analysis.variants
    for variant in analysis.variants:
        for name in variant.options:
            assert analysis.parameter(name).title, f"{name} has no label for the planner's page"
        assert set(variant.fixed) <= {parameter.name for parameter in analysis.parameters}
        assert variant.unit in analysis.units


@pytest.mark.parametrize("analysis", OWN, ids=NAMES)
def test_an_analysis_says_why_it_is_private_or_on_what_condition(analysis: Analysis) -> None:
    assert analysis.reason
    assert analysis.reference


@pytest.mark.parametrize("analysis", VERIFIED_ONES, ids=lambda entry: entry.name)
def test_the_law_of_a_verified_analysis_searches_all_that_it_releases(analysis: Analysis) -> None:
    law = import_module(f".{Path(analysis.law.partition('::')[0]).stem}", __package__)
    searched = {case.name for case in law.CASES}
    extents: dict[str, int] = {}
    for variant in analysis.variants:
        ways(analysis, variant, extents)
    released = {json.loads(text.partition("name: ")[2].partition(", ")[0]) for text in extents}
    assert released or not analysis.variants
    assert released <= searched


def test_a_status_follows_from_proof_law_and_audits_together() -> None:
    pca = own_analyses()["pca"]
    assert pca.standing == VERIFIED
    honest = {"law": "", "reason": "", "reference": "", "audit": (), "package": "somebody"}
    for name, left_out in honest.items():
        assert dataclasses.replace(pca, **{name: left_out}).standing == CONDITIONAL  # type: ignore[arg-type]  # any field
    assert dataclasses.replace(pca, units=frozenset({"record", "subject"})).standing == CONDITIONAL
    # One that is conditional need not be in any list.
    assert own_analyses()["torch_classifier"].standing == CONDITIONAL


@pytest.mark.parametrize("analysis", VERIFIED_ONES, ids=lambda entry: entry.name)
def test_a_verified_analysis_is_audited_for_each_unit_and_solver(analysis: Analysis) -> None:
    units = {"subject" if case.records == "people" else "record" for case in analysis.audit}
    assert units == set(analysis.units)
    solvers = {dict(case.parameters).get("solver", "moment") for case in analysis.audit}
    asked = {variant.fixed["solver"] for variant in analysis.variants if "solver" in variant.fixed}
    assert asked <= solvers


@pytest.mark.parametrize("name", variants())
def test_every_release_is_of_a_statistic_that_applies_to_the_records(name: str) -> None:
    analysis, variant = variants()[name]
    extents: dict[str, int] = {}
    ways(analysis, variant, extents)
    found = {json.loads(text.partition("name: ")[2].partition(", ")[0]) for text in extents}
    assert found
    for statistic in map(statistic_class, found):
        assert analysis.records in statistic.kinds
        assert variant.unit in statistic.units


def _facts(kind: str) -> PublicFacts:
    return PublicFacts(
        kind=kind, unit="record", n_records=1, widths=(3, 3) if kind == "views" else (6,),
        bounds=(1.0, 1.0) if kind == "views" else (1.0,),
    )  # fmt: skip


@pytest.mark.parametrize("analysis", OWN, ids=NAMES)
def test_records_of_another_kind_are_refused_with_what_to_build(analysis: Analysis) -> None:
    given = {parameter.name: 1 for parameter in analysis.parameters if parameter.default is REQUIRED}
    for kind in {"rows", "views", "documents"} - set(analysis.kinds):
        public = analysis.public(given, public_facts(_facts(kind), 100, 3))
        with pytest.raises(InvalidParameter, match=r"Build them with \w+\("):
            analysis.check(public)


@pytest.mark.parametrize("analysis", OWN, ids=NAMES)
def test_whole_numbers_outside_their_range_are_refused(analysis: Analysis) -> None:
    given = {parameter.name: 2 for parameter in analysis.parameters if parameter.default is REQUIRED}
    public = analysis.public(given, public_facts(_facts(analysis.records), 100, 3))
    for parameter in analysis.parameters:
        if parameter.kind != WHOLE:
            continue
        least, most = parameter.ends(public)
        for wrong in (least - 1, most + 1, True, 1.5, "many"):
            with pytest.raises(InvalidParameter, match=f"^{parameter.name} must be"):
                parameter.check(wrong, public)
        parameter.check(least, public)
        parameter.check(most, public)


def test_shares_must_not_depend_on_noise() -> None:
    """The driver runs a schedule twice and compares: clip radii may use noise, shares may not."""

    def schedule(p: Any) -> Any:
        numbers = {"n_features": p.n_features, "bound": p.bound}
        noise = yield Release("second_moment", numbers, 0.5, feeds=True)
        yield Release("second_moment", numbers, 0.25 if noise > 0.5 else 0.5)

    lying = Analysis("lying", "x:X", "", frozenset({"rows"}), "rows", (), schedule)
    public = lying.public({}, public_facts(_facts("rows"), 10, 3))
    with pytest.raises(AssertionError, match="must not depend on noise"):
        lying.steps(public, lambda shares, number, release: 0.1)


def test_noise_is_not_given_where_it_was_not_asked_for() -> None:
    def schedule(p: Any) -> Any:
        noise = yield Release("second_moment", {"n_features": p.n_features, "bound": p.bound}, 0.5)
        assert noise is None
        yield Refusal(False, "never")

    quiet = Analysis("quiet", "x:X", "", frozenset({"rows"}), "rows", (), schedule)
    assert quiet.shares(quiet.public({}, public_facts(_facts("rows"), 10, 3))) == (0.5,)


def test_an_analysis_from_elsewhere_is_conditional_and_loaded_only_where_it_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "somebody"
    package.mkdir()
    (package / "__init__.py").write_text(
        "import os\n"
        "from dpcape.analyses.description import Analysis\n"
        "from dpcape.analyses.release import Release\n"
        "os.environ['SOMEBODY_RAN'] = 'yes'\n"
        "def _schedule(p):\n"
        "    yield Release('second_moment', {'n_features': p.n_features, 'bound': p.bound})\n"
        "ANALYSIS = Analysis('two_step', 'somebody:Fit', 'Others', frozenset({'rows'}), 'rows', (), _schedule,\n"
        "                    law='tests/laws/test_statistics.py', reason='says so itself', reference='nowhere')\n"
        "NOT_ONE = 3\n"
    )
    about = tmp_path / "somebody-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: somebody\nVersion: 1\n")
    (about / "entry_points.txt").write_text(
        "[dpcape.analyses]\ntwo_step = somebody:ANALYSIS\npca = somebody:ANALYSIS\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("SOMEBODY_RAN", raising=False)
    assert "two_step" not in analyses()
    assert "two_step" not in analyses({"others"})
    import os

    assert "SOMEBODY_RAN" not in os.environ, "a package that is not allowed must not be imported"
    found = analyses({"somebody"})
    assert found["two_step"].standing == CONDITIONAL
    assert found["two_step"].package == "somebody"
    assert found["pca"].package == "dpcape", "dpcape's own names stay its own"
    assert "two_step" in analyses(ANY_PACKAGE)


KERNELS = ("gaussian.js", "calibrate.js", "measures.js", "schedule.js")


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_of_the_page_name_no_analysis_statistic_or_protocol(name: str) -> None:
    text = (Path(dpcape.planning.page.__file__).parent / name).read_text(encoding="utf-8")
    names = {*own_analyses(), *variants(), *PROTOCOLS, "second_moment", "cluster_sums", "moment_share"}
    for entry in names:
        assert not re.search(rf"""["'`]{re.escape(entry)}["'`]""", text), f"{name} names {entry}"


def test_the_page_has_a_schedule_for_everything_that_can_be_planned() -> None:
    script = schedule_script()
    for name in variants():
        assert f'"{name}": function* (p)' in script
    # No schedule may keep a Python truth value or None in its text.
    assert not re.search(r"\b(True|False|None)\b(?![^\"]*\"[^\"]*$)", re.sub(r'"[^"]*"', '""', script))
