"""Canonical correlations of several views: what they equal, what they find, and what they must not find."""

from __future__ import annotations

import csv
import importlib.util
import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from dpcape import CCA, PCA, Cape, Exact, Federation, Independent, MultiCCA, Replay, in_process, views
from dpcape.core.errors import InvalidParameter
from dpcape.core.statistic import build

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5}


def _experiment() -> Any:
    path = Path(__file__).parents[2] / "experiments" / "everyday" / "multi_cca.py"
    spec = importlib.util.spec_from_file_location("multi_cca_experiment", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


EXPERIMENT = _experiment()


def _alone(*parts: Any, protocol: Any = None, seed: int = 0, bounds: Any = None) -> Federation:
    held = views(*parts, bounds=bounds or [4.0] * len(parts))
    return Federation(in_process({"here": held}, noise=Replay(seed)), protocol=protocol or Exact())


def _parts(n_records: int, widths: tuple[int, ...], factors: int = 1, seed: int = 0) -> list[Any]:
    cell = EXPERIMENT.Cell(n_records, 1.0, widths, factors=factors)
    return list(EXPERIMENT.population(cell, np.random.default_rng(seed)))


@pytest.mark.parametrize("protocol", [Exact(), Independent()], ids=["exact", "private"])
@pytest.mark.parametrize("options", [{"center": False}, {}], ids=["second-moment", "centred"])
def test_two_views_give_the_result_of_cca(protocol: Any, options: dict[str, Any]) -> None:
    x, y = _parts(4000, (4, 3), 2)
    several = MultiCCA(2, **BUDGET, **options).fit(_alone(x, y, protocol=protocol))
    both = CCA(2, **BUDGET, **options).fit(_alone(x, y, protocol=protocol))
    np.testing.assert_allclose(several.correlations_, both.correlations_, atol=1e-9)
    np.testing.assert_allclose(several.weights_of(0), both.x_weights_, atol=1e-7)
    np.testing.assert_allclose(several.weights_of(1), both.y_weights_, atol=1e-7)
    np.testing.assert_allclose(several.pair_correlations_[:, 0, 1], both.correlations_, atol=1e-9)
    np.testing.assert_allclose(several.noise_level_, both.noise_level_, rtol=0.1)
    np.testing.assert_allclose(several.mean_, np.concatenate([both.x_mean_, both.y_mean_]))


def test_without_noise_it_solves_the_eigenvalue_problem_of_maxvar() -> None:
    parts = _parts(3000, (3, 2, 4), 2, seed=3)
    model = MultiCCA(2, **BUDGET, center=False).fit(_alone(*parts, bounds=[50.0] * 3))
    # Kettenring's MAXVAR: the largest eigenvalue of the correlation matrix of the variates.
    stacked = np.hstack([part @ np.linalg.inv(np.linalg.cholesky(part.T @ part / len(part))).T for part in parts])
    values = np.linalg.eigvalsh(stacked.T @ stacked / len(stacked))[::-1]
    # In a ball of 50 a step of the grid is 5e-5, of which a row moves by half; over all rows that averages out.
    np.testing.assert_allclose(model.correlations_, (values[:2] - 1) / 2, rtol=0, atol=1e-5)
    scores = model.transform(*parts)
    for component in range(2):
        columns = np.stack([part[:, component] for part in scores])
        moment = columns @ columns.T / len(parts[0])
        np.testing.assert_allclose(np.linalg.eigvalsh(moment)[-1], values[component], rtol=0, atol=1e-5)
        np.testing.assert_allclose(moment, model.pair_correlations_[component], rtol=0, atol=1e-5)


def test_units_of_a_view_do_not_matter() -> None:
    parts = _parts(2000, (3, 3, 3))
    plain = MultiCCA(1, **BUDGET, center=False).fit(_alone(*parts, protocol=Independent()))
    scaled = [parts[0], 1024 * parts[1], parts[2] / 8]
    moved = MultiCCA(1, **BUDGET, center=False).fit(_alone(*scaled, protocol=Independent(), bounds=(4.0, 4096.0, 0.5)))
    np.testing.assert_allclose(moved.correlations_, plain.correlations_, rtol=1e-6)
    np.testing.assert_allclose(moved.weights_of(1) * 1024, plain.weights_of(1), rtol=1e-4)


def test_a_view_that_shares_nothing_is_told_from_those_that_do() -> None:
    generator = np.random.default_rng(5)
    first, second = _parts(6000, (4, 4))
    model = MultiCCA("auto", **BUDGET, center=False).fit(
        _alone(first, second, generator.standard_normal((6000, 4)), protocol=Independent())
    )
    pairs = np.abs(model.pair_correlations_[0])
    assert len(model.correlations_) == 1
    assert model.verdicts_[0].word == "determined"
    assert pairs[0, 1] > model.pair_noise_level_ > max(pairs[0, 2], pairs[1, 2])


@pytest.mark.parametrize("cell", [EXPERIMENT.Cell(800, 1.0), EXPERIMENT.Cell(3000, 3.0, center=True)], ids=str)
def test_unrelated_views_stay_at_the_level_of_noise(cell: Any) -> None:
    # A test of level 0.05 is refused with probability below 0.001.
    found = EXPERIMENT.level(cell, 40)
    assert max(found["share"], found["pairs"]) * 40 <= binom.isf(0.001, 40, 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("cell", EXPERIMENT.LEVELS, ids=str)
def test_levels_hold(cell: Any) -> None:
    # All cells together fail with probability at most 0.01 if every level is 0.05.
    assert EXPERIMENT.level(cell, 400)["p_value"] >= EXPERIMENT.FAMILY / len(EXPERIMENT.LEVELS)


def test_a_second_component_that_is_not_there_is_not_found() -> None:
    # Fails with probability below 0.001 at a level of 0.05.
    found = EXPERIMENT.level(EXPERIMENT.Cell(10_000, 3.0, (3, 3, 3), factors=1), 40)
    assert found["share"] * 40 <= binom.isf(0.001, 40, 0.05)


def test_the_diameter_is_sqrt_2_times_the_number_of_views_and_is_attained() -> None:
    for n_views in (2, 3, 5):
        corners = np.zeros((2, n_views, 2))
        corners[0, :, 0] = corners[1, :, 1] = 1.0
        held = [views(*(corner[np.newaxis] for corner in record), bounds=[1.0] * n_views) for record in corners]
        width = 2 * n_views
        arrays = {"centre": np.zeros(width), "scale": np.ones(width), "radius": np.ones(n_views)}
        statistic = build("scaled_second_moment", held[0].facts(), arrays)
        distance = np.linalg.norm(statistic.total(held[0]) - statistic.total(held[1]))
        # Rows on the grid are longer by (sqrt(10)/2 + 1) 2^-20 at most, and their products by twice that.
        assert 1 <= statistic.diameter / (np.sqrt(2) * n_views) < 1 + 1e-5
        assert 0.99999 < distance / statistic.diameter <= 1


def test_results_are_written_and_drawn(tmp_path: Path) -> None:
    parts = _parts(3000, (3, 3, 2))
    model = MultiCCA(2, **BUDGET, center=False).fit(_alone(*parts, protocol=Independent()))
    written = list(csv.DictReader(io.StringIO(model.to_csv(tmp_path / "results.csv"))))
    assert (tmp_path / "results.csv").read_text("utf-8") == model.to_csv()
    pairs = [row for row in written if row["quantity"] == "correlation of two views"]
    assert [row["part"] for row in pairs[:3]] == ["1 and 2", "1 and 3", "2 and 3"]
    assert float(written[0]["estimate"]) == pytest.approx(model.correlations_[0], rel=1e-5)
    assert float(pairs[0]["estimate"]) == pytest.approx(model.pair_correlations_[0, 0, 1], rel=1e-5)
    model.save(tmp_path / "model.npz")
    again = MultiCCA.load(tmp_path / "model.npz")
    for old, new in zip(model.transform(*parts), again.transform(*parts), strict=True):
        np.testing.assert_array_equal(old, new)
    assert len(model.plot_correlations().patches) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_components": 6}, "n_components must be"),
        ({"n_components": 0}, "n_components must be"),
        ({"scale": "standard"}, "scale must be"),
    ],
)
def test_bad_parameters_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        MultiCCA(**{"n_components": 1, **BUDGET, **change}).fit(_alone(*_parts(50, (3, 3, 2))))


def test_views_are_checked() -> None:
    x, y, z = _parts(50, (3, 3, 2))
    with pytest.raises(InvalidParameter, match="All views must have the same number of rows; got 50 and 50 and 49"):
        views(x, y, z[1:], bounds=(1.0, 1.0, 1.0))
    with pytest.raises(InvalidParameter, match="bounds must be 3 values, one entry per view"):
        views(x, y, z, bounds=(1.0, 1.0))
    with pytest.raises(InvalidParameter, match="views must be at most 32; got 33"):
        views(*[x] * 33)
    with pytest.raises(InvalidParameter, match="Records for CCA must be two views; got 3 views"):
        CCA(1, **BUDGET, center=False).fit(_alone(x, y, z))
    model = MultiCCA(1, **BUDGET, center=False).fit(_alone(x, y, z))
    with pytest.raises(InvalidParameter, match="Views must be the 3 that the model was fitted with; got 2"):
        model.transform(x, y)
    with pytest.raises(InvalidParameter, match="must have the 3 columns"):
        model.transform(x, z, z)


def test_other_analyses_accept_several_views() -> None:
    held = views(*_parts(500, (2, 2, 2)), bounds=(3.0, 3.0, 3.0))
    federation = Federation(in_process({name: held for name in "abc"}), protocol=Cape(n_colluding=1))
    assert PCA(2, **BUDGET, center=False).fit(federation).components_.shape == (2, 6)


def test_an_unreadable_record_of_any_view_contributes_nothing() -> None:
    x, y, z = _parts(20, (2, 2, 2))
    z[3, 1] = np.nan
    with pytest.warns(UserWarning, match="1 of 20"):
        held = views(x, y, z, bounds=(9.0, 9.0, 9.0))
    assert held.n_invalid == 1
    np.testing.assert_array_equal(np.vstack(list(held.feature_blocks())), np.delete(np.hstack([x, y, z]), 3, axis=0))
