"""The risk page of a factor release: readable, narrow and wide, light and dark, without a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpcape.factor_release.factor_release import FactorRelease
from dpcape.factor_release.risk_page import risk_page

pytestmark = pytest.mark.browser


def test_the_risk_page_can_be_read_by_everybody(
    tmp_path: Path, open_file: Any, accessible: Any, screenshot: Any
) -> None:
    generator = np.random.default_rng(1)
    features = generator.normal(size=(60, 3)) @ generator.normal(size=(3, 20)) + generator.normal(size=(60, 20))
    features -= features.mean(axis=0)
    ages = generator.integers(8, 60, size=(60, 1)) + 0.5
    model = FactorRelease(3, n_burn_in=20, n_draws=10, n_chains=1, random_state=1, kernel="lapack")
    model.fit(features[:40], features[:40, 0], X_test=features[40:], covariates=ages[:40], covariates_test=ages[40:])
    path = tmp_path / "risk.html"
    path.write_text(risk_page(model.assess_risk(n_released_draws=2, n_repeats=2)), encoding="utf-8")
    page = open_file(path)
    accessible(page)
    screenshot(page, "risk")
    assert page.locator("figure svg").count() == 3
    assert page.locator(".headline").count() == 1
    assert page.locator(".remedies tbody tr").count() == 5
