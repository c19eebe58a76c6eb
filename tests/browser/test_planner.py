"""The planner's page as people use it: controls, answers, refusals, the copied study, keyboard, accessibility."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from dpcape.analyses.registry import variants
from dpcape.cli import main
from dpcape.core.errors import InvalidParameter
from dpcape.planning.outline import outline
from dpcape.planning.page.planner_page import write_planner
from dpcape.study.study import Study

pytestmark = pytest.mark.browser


@pytest.fixture
def planner(open_file: Any, tmp_path: Path) -> Callable[..., Any]:
    """Open the page with these controls."""

    def opened(**start: Any) -> Any:
        write_planner(tmp_path / "plan.html", start)
        return open_file(tmp_path / "plan.html")

    return opened


def answer(page: Any) -> float:
    """The expected error that is shown, in per cent."""
    return float(page.locator("#answer > strong").inner_text().removesuffix("%"))


def settle(page: Any) -> None:
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def test_page_stands_alone(planner: Any, screenshot: Any, accessible: Any) -> None:
    page = planner()
    assert page.title() == "Plan a private study · dpcape"
    assert page.locator("#answers").is_visible()
    accessible(page)
    page.locator("summary").first.click()
    page.locator("#scales summary").click()
    assert len(screenshot(page, "planner")) == 4


@pytest.mark.parametrize(
    "analysis", [name for name in variants() if name not in ("pca", "centred-pca", "centred-cca", "scaled-cca")]
)
def test_every_analysis_shows_answers(planner: Any, screenshot: Any, accessible: Any, analysis: str) -> None:
    page = planner(analysis=analysis, features=30)
    assert page.locator("#answers").is_visible(), page.locator("#refusal").inner_text()
    assert page.locator("#error-chart path.line").count() == 4
    # Where no formula tells what noise does, the page says so and how to find out.
    described, planned = variants()[analysis]
    rehearsed = described.name not in (
        "mean",
        "pca",
        "cca",
        "multi_cca",
        "pls",
        "linear_regression",
        "logistic_regression",
    )
    assert page.locator("#rehearse").is_visible() is rehearsed
    assert page.locator("#error-title").inner_text() == ("Noise" if rehearsed else "Expected error")
    assert page.locator("#release-note").inner_text() == planned.note
    assert f"per {planned.unit}" in page.locator("#sentence").inner_text()
    if analysis in ("cca", "network-classifier", "whitened-topic-model", "mixture-model", "subject-joint-ica"):
        accessible(page)
        screenshot(page, f"planner-{analysis}")


REHEARSED = [
    {"analysis": "kmeans", "records": "400, 900, 300", "protocol": "cape", "colluding": 1},
    {"analysis": "network-classifier", "protocol": "secure-sum", "minimum": 3, "options": {"n_classes": 3}},
    {"analysis": "topic-model", "protocol": "dealer", "options": {"n_components": 2, "n_words": 8}},
    {"analysis": "whitened-mixture-model", "protocol": "independent", "colluding": 0, "options": {"n_components": 2}},
    {"analysis": "polynomial-loss", "features": 2, "protocol": "cape"},
    {"analysis": "joint-ica", "protocol": "cape", "options": {"n_components": 2, "n_basis": 3}},
    {"analysis": "subject-infomax-joint-ica", "options": {"n_components": 2, "n_timepoints": 20, "n_iter": 3}},
]


@pytest.mark.filterwarnings("ignore::dpcape.core.errors.UtilityWarning")
@pytest.mark.parametrize("start", REHEARSED, ids=lambda start: start["analysis"])
def test_rehearsal_runs_and_has_the_noise_of_the_page(
    planner: Any, capsys: pytest.CaptureFixture[str], start: dict[str, Any]
) -> None:
    page = planner(**{"features": 10, "sites": 4, "records": "300", "colluding": 1, "epsilon": 2, **start})
    page.click("#copy-snippet")
    page.get_by_text("Copied.").wait_for()
    names: dict[str, Any] = {}
    exec(page.evaluate("navigator.clipboard.readText()"), names)
    assert "nothing spent" in capsys.readouterr().out
    plan = page.evaluate("stateOf().plan")
    shown = [entry for entry in plan["releases"] for _ in range(entry["times"])]
    made = names["model"].releases_
    # Infomax may stop before its last round.
    assert len(made) == len(shown) or made[-1].statistic == "subject_infomax"
    for release, entry in zip(made, shown, strict=False):
        assert release.statistic == entry["statistic"]
        if entry["known"] == "exact":
            assert release.scale == pytest.approx(entry["aggregate_scale"], rel=1e-9)
    assert names["model"].guarantee_.sentence() == page.locator("#sentence").inner_text()


def test_people_are_fewer_than_records_unless_somebody_says_how_many(planner: Any) -> None:
    page = planner()
    page.select_option("#analysis", "subject-joint-ica")
    settle(page)
    assert page.input_value("#records") == "200"
    assert page.locator("#records-name").inner_text() == "Subjects per site"
    page.select_option("#analysis", "joint-ica")
    settle(page)
    assert page.input_value("#records") == "6000"
    assert page.locator("#records-name").inner_text() == "Time points per site"
    page.fill("#records", "345")
    page.select_option("#analysis", "subject-joint-ica")
    settle(page)
    assert page.input_value("#records") == "345"


def test_numbers_that_may_be_left_out(planner: Any) -> None:
    page = planner(analysis="topic-model", features=100)
    before = page.evaluate("stateOf().plan.releases[0].aggregate_scale")
    page.fill("#option-document_length", "40")
    settle(page)
    assert page.evaluate("stateOf().plan.releases[0].aggregate_scale") < before / 30
    # How many words are left of a document is not known beforehand: an upper bound, and called one.
    page.fill("#option-n_words", "50")
    settle(page)
    assert "; at most." in page.locator("#answer .what").inner_text()
    assert page.evaluate("stateOf().plan.releases.map((release) => release.known)") == ["exact", "at most", "at most"]
    for option in ("n_words", "document_length"):
        page.fill(f"#option-{option}", "")
    settle(page)
    assert page.evaluate("stateOf().plan.releases[0].aggregate_scale") == before
    assert "document_length" not in page.input_value("#study")


def test_study_without_its_basis_is_refused(planner: Any) -> None:
    page = planner(analysis="joint-ica", features=16, options={"n_basis": 8})
    with pytest.raises(InvalidParameter, match="basis must be finite, with 16 rows"):
        Study.parse(page.input_value("#study"))


def test_controls_change_the_answer(planner: Any) -> None:
    page = planner()
    before = answer(page)
    for control, value, more in (("epsilon", "0.5", True), ("epsilon", "4", False), ("records", "60000", False)):
        page.fill("#epsilon", "1")
        page.fill(f"#{control}", value)
        settle(page)
        assert (answer(page) > before) is more
    page.fill("#records", "6000")
    page.fill("#epsilon", "1")
    page.fill("#minimum", "7")
    settle(page)
    assert answer(page) > before
    assert "Noise if only 7 finish" in page.locator("#figures").inner_text()
    page.select_option("#protocol", "independent")
    settle(page)
    assert not page.locator("#colluding").is_visible()
    assert "everyone outside the site" in page.locator("#sentence").inner_text()


def test_sites_may_differ(planner: Any) -> None:
    page = planner()
    page.fill("#records", "6000, 2500, 900")
    settle(page)
    assert page.input_value("#sites") == "3"
    assert "The largest site alone" in page.locator("#legend").inner_text()
    assert "9,400 records at 3 sites" in page.locator("#answer").inner_text()


def test_slider_works_by_keyboard_and_names_both_ends(planner: Any) -> None:
    page = planner()
    slider = page.get_by_label("Epsilon", exact=True)
    slider.focus()
    before = answer(page)
    for _ in range(10):
        page.keyboard.press("ArrowRight")
    settle(page)
    assert float(page.input_value("#epsilon")) == pytest.approx(10**0.1, rel=0.01)
    assert slider.get_attribute("aria-valuetext") == "epsilon 1.26"
    assert answer(page) < before
    ends = page.locator(".ends span")
    assert "more private" in ends.nth(0).inner_text()
    assert "less private" in ends.nth(1).inner_text()
    # Every control can be reached and has a name.
    unnamed = page.evaluate(
        "[...document.querySelectorAll('input, select, textarea, button')]"
        ".filter((one) => !one.labels?.length && !one.ariaLabel && !one.textContent).map((one) => one.id)"
    )
    assert unnamed == []


@pytest.mark.parametrize(
    ("control", "value", "words"),
    [
        ("sites", "2", "Cape must have at least 3 sites; got 2."),
        ("colluding", "9", "N_colluding must be at most 8 for Cape with 10 sites; got 9."),
        ("minimum", "4", "Minimum_sites must be between 6 and 10 here; got 4."),
        ("epsilon", "-1", "Epsilon must be a positive number; got -1."),
        ("delta", "2", "Delta must be strictly between 0 and 1; got 2.0."),
        ("records", "many", "Records per site must be numbers separated by commas; got many."),
        ("features", "", "Features must be a whole number of at least 1; got an empty field."),
        ("energy", "3", "Energy must be above 0 and at most 1; got 3.0."),
    ],
)
def test_what_cannot_be_is_refused_and_no_number_stays(planner: Any, control: str, value: str, words: str) -> None:
    page = planner()
    page.fill(f"#{control}", value)
    settle(page)
    refusal = page.locator("#refusal")
    assert refusal.get_attribute("role") == "alert"
    assert refusal.inner_text().startswith(words)
    assert not page.locator("#answers").is_visible()
    assert page.locator("#results").inner_text().strip() == refusal.inner_text().strip()


def test_refusal_is_accessible(planner: Any, accessible: Any, screenshot: Any) -> None:
    page = planner(sites=2)
    accessible(page)
    screenshot(page, "planner-refusal")


def test_ledger(planner: Any) -> None:
    page = planner(studies=5, ceiling=3)
    words = page.locator("#ledger").inner_text()
    assert words.startswith("After 5 such studies the ledger of each site shows epsilon 2.443 at delta 1e-05.")
    assert "A ceiling of 3 lets 7 through" in words
    page.fill("#ceiling", "0.9")
    settle(page)
    assert "Not one fits under a ceiling of 0.9." in page.locator("#ledger").inner_text()


def test_wanted_error(planner: Any) -> None:
    page = planner(wanted=1)
    row = page.locator("#wanted-table tbody tr", has_text="CAPE")
    least = row.locator("td").inner_text()
    page.fill("#epsilon", least)
    settle(page)
    assert answer(page) <= 1.0
    page.fill("#epsilon", str(0.98 * float(least)))
    settle(page)
    assert answer(page) > 1.0


CONSORTIA = [
    {"sites": 10, "records": "6000", "protocol": "cape", "colluding": 2, "minimum": 8},
    {"records": "900, 4000, 350", "protocol": "secure-sum", "colluding": 1},
    {"sites": 4, "records": "800", "protocol": "dealer", "colluding": 1},
    {"sites": 2, "records": "5000", "protocol": "independent"},
]


def _filled_basis(page: Any) -> list[Any]:
    """Return a basis with as many columns as the page was told, or one per view."""
    study = page.evaluate("stateOf().study")
    options, widths = study["options"], study["widths"]
    if options.get("n_basis"):
        return np.eye(widths[0], options["n_basis"]).tolist()
    columns = [options.get(name) for name in ("n_x_basis", "n_y_basis")]
    return [np.eye(width, few).tolist() if few else [] for width, few in zip(widths, columns, strict=True)]


@pytest.mark.parametrize("analysis", list(variants()))
def test_copied_study_plans_to_the_same_numbers(planner: Any, analysis: str) -> None:
    consortium = CONSORTIA[list(variants()).index(analysis) % 4]
    more = {"options": {"n_basis": 8}} if analysis == "joint-ica-maps" else {}
    page = planner(**consortium, analysis=analysis, features=16, epsilon=1.7, delta=3e-6, **more)
    page.click("#copy")
    page.get_by_text("Copied.").wait_for()
    text = page.evaluate("navigator.clipboard.readText()")
    if "basis = []" in text:
        # Refused until the basis is filled in, as a user would do it.
        with pytest.raises(InvalidParameter, match=r"basis|template"):
            Study.parse(text)
        text = re.sub(r"basis = \[\].*", f"basis = {_filled_basis(page)}", text)
    study = Study.parse(text)
    assert study.analysis == variants()[analysis][0].name
    sizes = page.evaluate("stateOf().study.sizes")
    plan = page.evaluate("stateOf().plan")
    planned = outline(study, dict(zip(study.sites, sizes, strict=True)))
    guarantee, steps = planned.guarantee(), planned.steps(study.sites[0])
    shown = [entry for entry in plan["releases"] for _ in range(entry["times"])]
    if "infomax" in analysis:
        # On made-up records without noise it ends before its last round; all rounds are charged.
        shown = shown[: max(len(steps), 5)]
    assert [step.statistic for step in steps] == [entry["statistic"] for entry in shown]
    assert [step.size for step in steps] == [entry["entries"] for entry in shown]
    for step, entry in zip(steps, shown, strict=True):
        if entry["known"] != "relative":
            assert step.mean_scale == pytest.approx(entry["aggregate_scale"], rel=1e-9)
    assert guarantee.mu == pytest.approx(plan["mu"], rel=1e-9)
    assert guarantee.epsilon == pytest.approx(plan["epsilon"], rel=1e-9)
    assert guarantee.sentence() == page.locator("#sentence").inner_text()


def test_command_writes_a_page_that_starts_with_its_numbers(open_file: Any, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "plan.html"
    given = "--analysis cca --features 60,40 --bound 1,2 --records 9000 --sites 5 --colluding 2 --protocol secure-sum"
    more = "--epsilon 0.8 --delta 1e-6 --minimum-sites 4 --parameter n_components=3"
    result = CliRunner().invoke(main, ["plan", *given.split(), *more.split(), "--html", str(path), "--json"])
    assert result.exit_code == 0, result.output
    scale = re.search(r'"aggregate_scale": ([0-9.e-]+)', result.stdout)
    assert scale is not None
    page = open_file(path)
    assert page.evaluate("stateOf().plan.releases[0].aggregate_scale") == pytest.approx(float(scale[1]), rel=1e-9)
    assert page.input_value("#option-n_components") == "3"
    assert page.input_value("#features-y") == "40"
