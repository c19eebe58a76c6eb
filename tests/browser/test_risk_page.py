"""The risk page of a factor release: readable, narrow and wide, light and dark, without a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpcape.factor_release.gibbs_sampler import principal_scores
from dpcape.factor_release.risk import assess_risk
from dpcape.factor_release.risk_page import risk_page

pytestmark = pytest.mark.browser


def test_the_risk_page_can_be_read_by_everybody(
    tmp_path: Path, open_file: Any, accessible: Any, screenshot: Any
) -> None:
    generator = np.random.default_rng(1)
    features = generator.normal(size=(60, 3)) @ generator.normal(size=(3, 20)) + generator.normal(size=(60, 20))
    features -= features.mean(axis=0)
    report = assess_risk(
        principal_scores(features, 3)[0],
        features,
        refit=lambda X: principal_scores(X, 3)[0],
        rng=generator,
        n_repeats=2,
    )
    path = tmp_path / "risk.html"
    path.write_text(risk_page(report), encoding="utf-8")
    page = open_file(path)
    accessible(page)
    screenshot(page, "risk")
    assert page.locator("figure svg").count() == 3
