"""Reports and cards in a browser: they stand alone, fit every screen, and everybody can read them."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

from dpcape.core.errors import DpcapeWarning
from dpcape.guarantee.card import card_html
from dpcape.guarantee.card_content import card_of
from dpcape.guarantee.card_ledger import Spent
from dpcape.runs.in_process import run_in_process
from dpcape.study.study import Study

pytestmark = pytest.mark.browser
TEXT = """\
[study]
name = "first"
analysis = "{analysis}"
epsilon = 2.0
delta = 1e-5
{parameters}
[protocol]
kind = "cape"
n_colluding = 1
[sites.lima]
[sites.lyon]
[sites.oslo]
[data]
{data}
"""
ROWS = 'kind = "rows"\nbound = 1.0\ncolumns = ["age", "dose", "<b>left</b>", "right"]'
VIEWS = 'kind = "views"\nbounds = [1.0, 2.0]\n[data.x]\nfeatures = 4\n[data.y]\ncolumns = ["p", "q", "r"]'
CLASSES = 'kind = "labelled"\nfeatures = 5\nbound = 1.0\ntarget = "y"\nclasses = ["a", "b"]'
KINDS = {
    "pca": ("n_components = 2", ROWS),
    "cca": ("n_components = 2", VIEWS),
    "topic_model": ("n_components = 3", 'kind = "documents"\nfeatures = 30'),
    "network_classifier": ("n_hidden = 4\nn_iter = 5", CLASSES),
}


def rehearsed(analysis: str, folder: Path) -> Any:
    parameters, data = KINDS[analysis]
    text = TEXT.format(analysis=analysis, parameters=parameters, data=data)
    with warnings.catch_warnings():
        # How useful made-up records are is not the question here.
        warnings.simplefilter("ignore", DpcapeWarning)
        return run_in_process(Study.parse(text, path=folder / "study.toml"), folder / "run", rehearse=True)


@pytest.mark.parametrize("analysis", KINDS)
def test_reports_stand_alone_and_can_be_read_by_everybody(
    analysis: str, tmp_path: Path, open_file: Any, accessible: Any, screenshot: Any
) -> None:
    run = rehearsed(analysis, tmp_path)
    page = open_file(run.path / "report.html")
    accessible(page)
    screenshot(page, f"report-{analysis.replace('_', '-')}")
    told = json.loads(page.locator("#dpcape-data").text_content())
    assert told["guarantee"]["epsilon"] == run.model().guarantee_.epsilon
    drawn = page.locator("main figure svg")
    assert drawn.count() >= 2
    assert all(drawn.nth(index).bounding_box()["width"] > 100 for index in range(drawn.count()))
    assert page.locator("b", has_text="left").count() == 0, "a column's name is text, not markup"


def test_contents_lead_to_their_sections(tmp_path: Path, open_file: Any) -> None:
    page = open_file(rehearsed("pca", tmp_path).path / "report.html")
    links = page.locator("nav a")
    assert links.count() >= 4
    for index in range(links.count()):
        target = links.nth(index).get_attribute("href")
        assert target.startswith("#")
        assert page.locator(target).count() == 1


def test_the_card_stands_alone_as_in_a_notebook(
    tmp_path: Path, open_file: Any, accessible: Any, screenshot: Any
) -> None:
    guarantee = rehearsed("pca", tmp_path).model().guarantee_
    spent = Spent("cohort", 0.4, 1.5, 2.0, 1e-5, alone=1.1, per_study=1.2)
    card = card_html(card_of(guarantee, spent=spent, planned=True), level=1)
    wrapped = '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Card</title>'
    wrapped += f'<meta name="viewport" content="width=device-width"></head><body><main>{card}</main></body></html>'
    path = tmp_path / "card.html"
    path.write_text(wrapped, encoding="utf-8")
    page = open_file(path)
    accessible(page)
    screenshot(page, "card")
    assert "this study alone" in page.inner_text("main").lower()


def test_the_card_fits_one_printed_page(tmp_path: Path, open_file: Any) -> None:
    page = open_file(rehearsed("topic_model", tmp_path).path / "report.html")
    page.emulate_media(media="print", color_scheme="dark")
    # A4 without margins of 15 mm, at 96 pixels an inch.
    page.set_viewport_size({"width": 680, "height": 1009})
    card = page.locator(".dpcape-card")
    assert card.bounding_box()["height"] < 1009
    assert card.evaluate("node => getComputedStyle(node).backgroundColor") == "rgb(255, 255, 255)"


def test_a_card_follows_the_switch_of_the_page_around_it(tmp_path: Path, open_file: Any) -> None:
    card = card_html(card_of(rehearsed("pca", tmp_path).model().guarantee_))
    path = tmp_path / "host.html"
    path.write_text(f'<!DOCTYPE html><html data-theme="dark"><body>{card}</body></html>', encoding="utf-8")
    page = open_file(path)
    paper = page.locator(".dpcape-card")

    def colour() -> Any:
        return paper.evaluate("node => getComputedStyle(node).backgroundColor")

    dark = colour()
    page.evaluate("document.documentElement.dataset.theme = 'light'")
    light = colour()
    assert (dark, light) == ("rgb(25, 31, 37)", "rgb(255, 255, 255)")
    page.emulate_media(color_scheme="dark")
    assert colour() == light
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    page.emulate_media(media="print")
    assert colour() == light
