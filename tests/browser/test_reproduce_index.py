"""The index over reproduced figures: readable, narrow and wide, without a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dpcape_papers.experiments.cache import CachedRows
from dpcape_papers.experiments.data import DataFolder
from dpcape_papers.experiments.experiment import RunSetting
from dpcape_papers.experiments.folder import write_folder
from dpcape_papers.experiments.index import write_index
from dpcape_papers.figures.analytic import FIGURE_3_3

from .conftest import overflow, resized

pytestmark = pytest.mark.browser


@pytest.fixture
def index(tmp_path: Path) -> Path:
    setting = RunSetting(quick=True, data=DataFolder(None))
    done = [
        (cell, CachedRows(cell.compute(setting.data, **cell.options), 0.1, [])) for cell in FIGURE_3_3.cells(setting)
    ]
    write_folder(tmp_path, FIGURE_3_3, setting, done)
    return write_index(tmp_path, ["dissertation-3.2", "dissertation-3.3"])


def test_the_index_can_be_read_by_everybody(index: Path, open_file: Any, accessible: Any, screenshot: Any) -> None:
    page = open_file(index)
    accessible(page)
    screenshot(page, "reproduce-index")
    page.click("text=dissertation-3.3 >> nth=0")
    assert page.url.endswith("#dissertation-3.3")
    assert page.evaluate("document.images[0].naturalWidth") > 100


def test_the_index_fits_a_phone(index: Path, open_file: Any) -> None:
    page = open_file(index)
    resized(page, 390)
    assert overflow(page) <= 0
    # Claims and outcomes are seen without scrolling; pictures that the small ones lead to stay large enough to read.
    table = page.locator("table").last.bounding_box()
    assert table["x"] + table["width"] <= 390
    assert page.locator(".wide img").first.bounding_box()["width"] > 700
