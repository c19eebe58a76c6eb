"""Statistics of regressions on the kernel: no two records are farther apart than stated, whatever arrays are sent."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from dpcape import labelled
from dpcape.core.statistic import build
from dpcape.statistics.count_residuals import centred_residuals
from dpcape.statistics.exponentials import exponentials
from dpcape.statistics.gradients import n_weights

WIDTH = 3
KINDS: dict[str, dict[str, Any]] = {
    "response": {"response": (-1, 1)},
    "counts": {"response": (0, 20)},
    "two": {"classes": [0, 1]},
    "three": {"classes": [0, 1, 2]},
    "five": {"classes": list(range(5))},
}
STATISTICS = [
    ("regression_moment", "response", 0),
    ("weighted_regression_moment", "response", 0),
    ("residual_gradient", "response", 1),
    ("residual_gradient", "two", 1),
    ("residual_spread", "response", 1),
    ("logistic_scores", "two", 1),
    ("count_scores", "counts", 1),
    ("ratio_scores", "counts", 1),
    ("class_scores", "three", 2),
    ("class_scores", "five", 4),
]


def _public(name: str, blocks: int, size: float, generator: np.random.Generator) -> dict[str, Any]:
    if name == "regression_moment":
        return {"response_weight": 0.7, "intercept_weight": float(generator.choice([0.0, 0.5, 3.0]))}
    public: dict[str, Any] = {"intercept": True}
    if blocks:
        public["coefficients"] = size * generator.standard_normal(blocks * (WIDTH + 1))
    matrix = size * generator.standard_normal((WIDTH + 1, WIDTH + 1))
    further = {
        "residual_gradient": {"preconditioner": matrix},
        "residual_spread": {"directions": matrix, "square": 0.3},
        "count_scores": {"level": float(generator.choice([1e-300, 0.1, 2.0, 1e200]))},
    }
    return public | further.get(name, {})


def _records(kind: str, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of full length and shorter ones, in opposite pairs, with extreme targets."""
    rows = generator.standard_normal((8, WIDTH))
    rows /= np.linalg.norm(rows, axis=1)[:, np.newaxis]
    rows *= generator.choice([1e-300, 0.3, 1 - 1e-7, 1.0, 1 + 1e-7, 5.0, 1e200], 8)[:, np.newaxis]
    rows = np.concatenate([rows, -rows])
    facts = KINDS[kind]
    ends = facts["classes"] if "classes" in facts else [*facts["response"], facts["response"][1] / 3]
    return rows, generator.choice(ends, len(rows))


@pytest.mark.parametrize(("name", "kind", "blocks"), STATISTICS)
@pytest.mark.parametrize("size", [0.0, 1e-300, 1.0, 40.0, 1e200])
def test_no_two_records_are_farther_apart_than_stated(name: str, kind: str, blocks: int, size: float) -> None:
    generator = np.random.default_rng(5)
    for _ in range(4):
        x, y = _records(kind, generator)
        singles = [labelled(x[[at]], y[[at]], bound=1.0, **KINDS[kind]) for at in range(len(x))]
        statistic = build(name, singles[0].facts(), _public(name, blocks, size, generator))
        totals = [statistic.total(single) for single in singles]
        extent = statistic.extent(**statistic.numbers)
        assert np.isfinite(totals).all()
        assert max(np.linalg.norm(total) for total in totals) <= extent.radius + extent.changed(1)
        for one, other in itertools.combinations(totals, 2):
            assert np.linalg.norm(one - other) <= extent.sensitivity(1)


@pytest.mark.parametrize(("name", "kind", "blocks"), STATISTICS)
def test_noise_is_at_most_a_ten_thousandth_larger_than_without_a_grid(name: str, kind: str, blocks: int) -> None:
    # Scores of several classes have (columns + 1) (classes - 1) coefficients.
    n_features = 9_999 // max(blocks, 1)
    small, large = (_sensitivity(name, kind, width) for width in (1, n_features))
    assert large / small <= 1 + 1e-4


def _sensitivity(name: str, kind: str, n_features: int) -> float:
    """Return the diameter per unit in which it is stated."""
    classes = KINDS[kind].get("classes")
    facts = labelled(np.zeros((1, 1)), [0], bound=1.0, **KINDS[kind]).facts()
    n_blocks = max(1, len(classes) - 1 if classes else 1)
    statistic = build(name, facts, _public_of_width(name, n_blocks))
    numbers = {**statistic.numbers, "n_features": n_features}
    unit = np.sqrt(n_features + 1) if name in ("residual_gradient", "residual_spread") else 1.0
    return float(statistic.extent(**numbers).sensitivity(1000) / unit)


def _public_of_width(name: str, blocks: int) -> dict[str, Any]:
    if name == "regression_moment":
        return {"response_weight": 0.7, "intercept_weight": 0.5}
    public: dict[str, Any] = {"intercept": True}
    if name != "weighted_regression_moment":
        public["coefficients"] = np.zeros(2 * (blocks if name == "class_scores" else 1))
    further = {
        "residual_gradient": {"preconditioner": np.eye(2)},
        "residual_spread": {"directions": np.eye(2), "square": 1.0},
        "count_scores": {"level": 1.0},
    }
    return public | further.get(name, {})


def test_a_residual_of_a_count_depends_on_its_record_alone() -> None:
    generator = np.random.default_rng(2)
    rates = np.exp(generator.uniform(-12, 12, 257))
    counts = generator.poisson(rates).astype(float)
    together = centred_residuals(counts, rates)
    for start, stop in ((0, 1), (3, 11), (250, 257)):
        alone = centred_residuals(counts[start:stop], rates[start:stop])
        for one, other in zip(alone, together, strict=True):
            np.testing.assert_array_equal(one, other[start:stop])


def test_the_exponential_has_fourteen_digits() -> None:
    values = np.linspace(-500.0, 500.0, 20_001)
    np.testing.assert_allclose(exponentials(values), np.exp(values), rtol=1e-14)


@pytest.mark.parametrize("scale", [1e-9, 1.0, 3.0, 100.0, 1e9])
@pytest.mark.parametrize("size", [0.0, 1e-12, 1.0, 1e6])
def test_no_gradient_is_longer_than_the_clip(size: float, scale: float) -> None:
    generator = np.random.default_rng(6)
    for widths, clip in itertools.product(((WIDTH, 3), (WIDTH, 5, 3), (WIDTH, 5, 4, 6, 3)), (1e-6, 0.05, 50.0)):
        x, y = _records("three", generator)
        weights = size * generator.uniform(-1, 1, n_weights(widths))
        public = {"clip": clip, "input_scale": scale}
        if len(widths) == 2:
            asked = ("linear_gradient", {**public, "output": weights.reshape(3, WIDTH + 1)})
        else:
            asked = ("deep_gradient", {**public, "widths": np.array(widths[1:-1]), "weights": weights})
        for at in range(len(x)):
            single = labelled(x[[at]], y[[at]], bound=1.0, classes=[0, 1, 2])
            assert np.linalg.norm(build(asked[0], single.facts(), asked[1]).total(single)) <= clip * (1 + 1e-12)
