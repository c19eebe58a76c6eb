"""Partial least squares: what it equals, what it finds, and what it must not find."""

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
from sklearn.cross_decomposition import PLSSVD

from dpcape import PLS, Exact, Federation, Independent, Replay, in_process, views
from dpcape.core.errors import InvalidParameter

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5}


def _experiment() -> Any:
    path = Path(__file__).parents[2] / "experiments" / "everyday" / "pls.py"
    spec = importlib.util.spec_from_file_location("pls_experiment", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


EXPERIMENT = _experiment()


def _parts(n_records: int, widths: tuple[int, int] = (4, 3), factors: int = 1, seed: int = 0) -> Any:
    cell = EXPERIMENT.Cell(n_records, 1.0, widths, factors=factors)
    return EXPERIMENT.population(cell, np.random.default_rng(seed))


def _alone(x: Any, y: Any, *, protocol: Any = None, bounds: Any = (6.0, 6.0), seed: int = 0) -> Federation:
    held = views(x, y, bounds=bounds)
    return Federation(in_process({"here": held}, noise=Replay(seed)), protocol=protocol or Exact())


def test_without_noise_and_clipping_it_is_that_of_scikit_learn() -> None:
    x, y = _parts(3000, factors=2)
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    model = PLS(2, **BUDGET, center=False).fit(_alone(x, y, bounds=(50.0, 50.0)))
    peer = PLSSVD(2, scale=False).fit(x, y)
    # In a ball of 50 a step of the grid is 5e-5, of which a row moves by half; over all rows that averages out.
    np.testing.assert_allclose(np.abs(model.x_weights_), np.abs(peer.x_weights_), rtol=0, atol=1e-5)
    np.testing.assert_allclose(np.abs(model.y_weights_), np.abs(peer.y_weights_), rtol=0, atol=1e-5)
    scores = [np.asarray(part) for part in model.transform(x, y)]
    np.testing.assert_allclose((scores[0] * scores[1]).mean(axis=0), model.covariances_, rtol=1e-5)


def test_centring_and_scaling_take_units_and_means_away() -> None:
    x, y = _parts(20_000)
    plain = PLS(1, **BUDGET, scale="private").fit(_alone(x, y))
    moved = PLS(1, **BUDGET, scale="private").fit(_alone(x + 0.5, y))
    np.testing.assert_allclose(moved.x_weights_, plain.x_weights_, atol=0.05)
    np.testing.assert_allclose(moved.x_mean_ - plain.x_mean_, 0.5, atol=0.02)


def test_a_shared_factor_is_found_and_written(tmp_path: Path) -> None:
    x, y = _parts(8000)
    model = PLS("auto", **BUDGET).fit(_alone(x, y, protocol=Independent()))
    assert [verdict.word for verdict in model.verdicts_] == ["determined"]
    assert abs(model.x_weights_[0, 0]) > 0.9
    assert model.covariances_[0] > model.noise_level_
    written = list(csv.DictReader(io.StringIO(model.to_csv(tmp_path / "results.csv"))))
    assert (tmp_path / "results.csv").read_text("utf-8") == model.to_csv()
    assert float(written[0]["estimate"]) == pytest.approx(model.covariances_[0], rel=1e-5)
    model.save(tmp_path / "model.npz")
    np.testing.assert_array_equal(PLS.load(tmp_path / "model.npz").transform(x, y)[0], model.transform(x, y)[0])
    assert len(model.plot_covariances().patches) == 1


@pytest.mark.parametrize("cell", [EXPERIMENT.Cell(2000, 1.0), EXPERIMENT.Cell(5000, 3.0, factors=1)], ids=str)
def test_pairs_that_are_not_there_are_not_found(cell: Any) -> None:
    # A level of 0.05 is refused with probability below 0.001.
    assert EXPERIMENT.level(cell, 40)["share"] * 40 <= binom.isf(0.001, 40, 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("cell", EXPERIMENT.LEVELS, ids=str)
def test_levels_hold(cell: Any) -> None:
    # All cells together fail with probability at most 0.01 if every level is 0.05.
    assert EXPERIMENT.level(cell, 300)["p_value"] >= EXPERIMENT.FAMILY / len(EXPERIMENT.LEVELS)


def test_bad_input_is_refused() -> None:
    x, y = _parts(50)
    with pytest.raises(InvalidParameter, match="n_components must be"):
        PLS(4, **BUDGET).fit(_alone(x, y))
    three = Federation(in_process({"here": views(x, y, x, bounds=(6.0, 6.0, 6.0))}), protocol=Exact())
    with pytest.raises(InvalidParameter, match="Records for PLS must be two views; got 3 views"):
        PLS(1, **BUDGET).fit(three)
