"""Statistics whose public arrays a coordinator chooses stay within their sensitivity whatever it sends."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcape import rows
from dpcape.core.errors import DpcapeError
from dpcape.core.statistic import build

Vector = NDArray[np.float64]
WIDTH = 5
SIZES = (0.0, 5e-324, 1e-300, 1e-30, 1e-6, 1.0, 1e6, 1e30, 1e150, 1e200, 1e308)


def _units(draw: np.random.Generator) -> Iterator[Vector]:
    """Yield records of every length, opposite ones among them."""
    for size in (0.0, 1e-300, 1e-6, 0.3, 1.0, 1e200):
        unit = size * draw.normal(size=WIDTH)
        yield from (unit, -unit)


def _public(name: str, draw: np.random.Generator, sizes: tuple[float, float]) -> dict[str, Any]:
    one, other = sizes
    square, few = draw.normal(size=(3, WIDTH)), draw.normal(size=(WIDTH, 2))
    return {
        "cluster_sums": {"centres": one * square},
        "recentred_cluster_sums": {"centre": one * square[0], "centres": other * square, "clip": 0.7},
        "reduced_cluster_sums": {
            "centre": one * square[0],
            "projection": other * few,
            "centres": draw.normal(size=(3, 2)),
            "clip": 0.7,
        },
        "mixture_step": {
            "means": 0.3 * square / np.linalg.norm(square),
            "weights": np.array([1.0, 1e-12, 0.3]),
            "noise_variance": one,
            "clip": 0.4,
            "count_weight": other,
        },
        "reduced_second_moment": {"projection": one * few, "clip": 1.2},
        "fourth_moment": {"projection": one * few, "clip": 1.2},
        "infomax_scores": {
            "projection": one * few,
            "unmixing": other * np.array([[0.8, 0.6], [-0.6, 0.8]]),
            "bias": np.array([0.1, -3.0]),
            "clip": 0.8,
            "bias_clip": 0.7,
        },
        "whitened_third_moment": {"whitener": one * few, "clip": 0.6, "noise_variance": 0.0, "radius": 0.3},
    }[name]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    "name",
    [
        "cluster_sums",
        "recentred_cluster_sums",
        "reduced_cluster_sums",
        "mixture_step",
        "reduced_second_moment",
        "fourth_moment",
        "infomax_scores",
        "whitened_third_moment",
    ],
)
def test_no_public_array_moves_two_records_farther_apart_than_the_sensitivity(name: str) -> None:
    draw = np.random.default_rng(20)
    units = list(_units(draw))
    facts = rows(np.array(units), bound=1.0).facts()
    n_built = 0
    for one in SIZES:
        for other in SIZES:
            try:
                statistic = build(name, facts, _public(name, draw, (one, other)))
            except DpcapeError:
                continue
            n_built += 1
            totals = [statistic.total(rows(unit[np.newaxis], bound=1.0)) for unit in units]
            assert np.isfinite(totals).all()
            assert max(np.linalg.norm(total) for total in totals) <= statistic.radius + statistic.rounding(1)
            for first, second in pairwise(totals):
                assert np.linalg.norm(first - second) <= statistic.sensitivity(1)
    assert n_built >= len(SIZES) - 4


@pytest.mark.parametrize("size", [1e-300, 1e-200, 1e-170, 1e-140, 1e-6, 1e-5, 1.0, 1e5])
@pytest.mark.parametrize("clip", [1e-205, 1e-175, 1e-60, 1e-3, 1.0, 1e200])
def test_infomax_gradients_stay_in_their_ball_for_matrices_and_clips_of_any_size(size: float, clip: float) -> None:
    """Squares of a tiny matrix vanish: what is clipped by them was longer than its clip."""
    draw = np.random.default_rng(21)
    units = list(_units(draw))
    facts = rows(np.array(units), bound=1.0).facts()
    public: dict[str, Any] = {
        "projection": draw.normal(size=(WIDTH, 2)),
        "unmixing": size * np.array([[0.8, 0.6], [-0.6, 0.8]]),
        "bias": np.array([0.1, -3.0]),
        "clip": clip,
        "bias_clip": clip,
    }
    try:
        statistic = build("infomax_scores", facts, public)
    except DpcapeError:
        assert size < 1e-6
        return
    # In units of the clip, so that no square vanishes.
    totals = np.array([statistic.total(rows(unit[np.newaxis], bound=1.0)) for unit in units]) / clip
    assert np.linalg.norm(totals, axis=1).max() <= (statistic.radius + statistic.rounding(1)) / clip
    assert np.linalg.norm(totals[:, np.newaxis] - totals, axis=2).max() <= statistic.sensitivity(1) / clip
