"""Statistics of regressions on the kernel: no two records are farther apart than stated, whatever arrays are sent."""

from __future__ import annotations

import itertools
import tracemalloc
from typing import Any

import numpy as np
import pytest

from dpcape import labelled
from dpcape.core.kernel import exact_sums_of
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


# Without parts of a tile, 158 MB for scores, 257 MB for the gradient and 81 MB for the mixture.
_WIDE: dict[str, tuple[int, dict[str, Any]]] = {
    "class_scores": (30, {"intercept": True, "coefficients": np.zeros(29 * 11)}),
    "scaled_class_scores": (
        30,
        {
            "intercept": True,
            "coefficients": np.zeros(29 * 11),
            "centre": np.zeros(10),
            "scale": np.ones(10),
            "radius": np.ones(1),
        },
    ),
    "network_gradient": (3, {"hidden": np.ones((2000, 11)), "output": np.ones((3, 2001)), "clip": 1, "input_scale": 1}),
    "mixture_step": (
        2,
        {
            "means": np.zeros((500, 10)),
            "weights": np.full(500, 0.002),
            "noise_variance": 1.0,
            "clip": 1.0,
            "count_weight": 1.0,
        },
    ),
}


@pytest.mark.parametrize("name", _WIDE)
def test_many_numbers_of_a_record_do_not_fill_the_memory(name: str) -> None:
    n_classes, public = _WIDE[name]
    generator = np.random.default_rng(8)
    x = generator.uniform(-0.3, 0.3, (4000, 10))
    records = labelled(x, generator.integers(0, n_classes, 4000), bound=1.0, classes=list(range(n_classes)))
    statistic = build(name, records.facts(), public)
    tracemalloc.start()
    try:
        statistic.total(records)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= 48e6


def test_records_are_mapped_once_also_in_parts() -> None:
    generator = np.random.default_rng(9)
    x, y = generator.uniform(0, 0.25, (900, 16)), generator.integers(0, 3, 900)
    # 131,072 numbers are computed at a time, so 400 records.
    hidden, output = generator.standard_normal((300, 9)), generator.standard_normal((3, 301))
    public = {"hidden": hidden, "output": output, "clip": 1.0, "input_scale": 1.0, "features": "hog"}
    facts = labelled(x, y, bound=1.0, classes=[0, 1, 2]).facts()
    statistic = build("network_gradient", facts, public)

    def integers(some: slice) -> np.ndarray:
        records = labelled(x[some], y[some], bound=1.0, classes=[0, 1, 2])
        return np.array([whole for total in exact_sums_of(statistic, records) for whole in total.integers()])

    assert (integers(slice(900)) == sum(integers(slice(at, at + 300)) for at in (0, 300, 600))).all()
