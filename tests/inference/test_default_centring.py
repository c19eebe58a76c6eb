"""Analyses of moments subtract the mean unless they are told not to; then they say that they did not.

The rates are decided by an exact one-sided binomial test at 1e-4 for each of four analyses, so that true ones fail with
a probability of at most 4e-4 (seeds are fixed).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from dpcape import CCA, PCA, PLS, Exact, Federation, Independent, MultiCCA, Quantile, Replay, in_process, rows, views
from dpcape.postprocessing.verdicts import DETERMINED, LEVEL

quiet = pytest.mark.filterwarnings("ignore::dpcape.core.errors.DpcapeWarning")
BUDGET: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-6}
# People of working age, in ranges that are public because they are wide: no mean is in the middle of its range.
RANGES = [(0, 100), (0, 50), (100, 250)]
SPREAD = [(20, 60), (10, 30), (190, 250)]
ANALYSES = {
    "PCA": (PCA, 1),
    "CCA": (CCA, 2),
    "MultiCCA": (MultiCCA, 3),
    "PLS": (PLS, 2),
}
N_FITS = 40


def unrelated(name: str, seed: int) -> Federation:
    """Return independent columns whose shares of their ranges have the same variance."""
    generator = np.random.default_rng(seed)
    low, high = np.array(SPREAD, dtype=float).T
    tables = [generator.uniform(low, high, size=(1500, 3)) for _ in range(ANALYSES[name][1])]
    held = rows(*tables, ranges=RANGES) if len(tables) == 1 else views(*tables, ranges=[RANGES] * len(tables))
    return Federation(in_process({"here": held}, noise=Replay(seed)), protocol=Independent())


def fitted(name: str, seed: int, **parameters: Any) -> Any:
    return ANALYSES[name][0](1, **BUDGET, **parameters).fit(unrelated(name, seed))


@quiet
@pytest.mark.parametrize("name", ANALYSES)
def test_independent_columns_are_related_no_more_often_than_stated(name: str) -> None:
    found = sum(fitted(name, seed).verdicts_[0].word == DETERMINED for seed in range(N_FITS))
    assert binom.sf(found - 1, N_FITS, LEVEL) >= 1e-4, found


@quiet
@pytest.mark.parametrize("name", ANALYSES)
def test_the_default_is_centred(name: str) -> None:
    plain, centred = (fitted(name, 1, **given) for given in ({}, {"center": True}))
    assert [release.statistic for release in plain.releases_] == [release.statistic for release in centred.releases_]
    assert any("centred_moments" in release.statistic for release in plain.releases_)
    for attribute in plain._fitted:
        if hasattr(plain, attribute):
            np.testing.assert_array_equal(getattr(plain, attribute), getattr(centred, attribute))


@quiet
@pytest.mark.parametrize("name", ANALYSES)
def test_a_fit_without_centring_says_so_in_verdicts_and_assumptions(name: str, tmp_path: Path) -> None:
    model = fitted(name, 2, center=False)
    assert model.verdicts_[0].word == DETERMINED, "the mean looks like a result"
    assert "only if the mean is zero" in str(model.verdicts_[0])
    assert len(model.assumptions_) == 1
    assert "mean zero by construction" in model.assumptions_[0]
    model.save(tmp_path / "model")
    assert type(model).load(tmp_path / "model").assumptions_ == model.assumptions_
    centred = fitted(name, 2)
    assert all("only if" not in str(verdict) for verdict in centred.verdicts_)
    assert centred.assumptions_ == ["covariances: from every record the mean of all is subtracted"]


def test_rows_that_are_clipped_are_not_centred_by_default() -> None:
    model = fitted("PCA", 3, clip=Quantile(0.9))
    assert [release.statistic for release in model.releases_] == ["radius_histogram", "scaled_second_moment"]
    assert "mean zero by construction" in model.assumptions_[0]


@pytest.mark.parametrize("analysis", [PCA, CCA, PLS])
def test_second_moments_cannot_tell_a_mean_from_what_varies(analysis: Any) -> None:
    """Rows with signs at random have mean zero and the same second moments: no warning could be right for both."""
    generator = np.random.default_rng(4)
    X = generator.normal(0.5, 0.1, size=(400, 4))
    signs = np.repeat([1.0, -1.0], 200)[:, np.newaxis]
    found = []
    for table in (X, X * signs):
        held = rows(table, bound=2.0) if analysis is PCA else views(table[:, :2], table[:, 2:], bounds=(2.0, 2.0))
        model = analysis(1, **BUDGET, center=False).fit(Federation(in_process({"here": held}), protocol=Exact()))
        found.append((model.assumptions_, model.p_values_.tolist()))
    assert found[0] == found[1]


def test_what_is_said_bounds_the_length_of_the_mean() -> None:
    X = np.random.default_rng(5).normal(0.5, 0.1, size=(400, 4))
    held = rows(X, bound=2.0)
    model = PCA(1, **BUDGET, center=False).fit(Federation(in_process({"here": held}), protocol=Exact()))
    length = float(np.linalg.norm(X.mean(axis=0))) / 2.0
    said = float(model.assumptions_[0].partition("up to ")[2].split()[0])
    assert length - 0.005 <= said <= length + 0.02
