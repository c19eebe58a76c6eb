"""Claimed and verified figures of the papers' regressions, against independent computations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize

from dpcape.core.errors import InvalidParameter
from dpcape.core.privacy.gaussian import delta_of
from dpcape_papers.published.regression import (
    JOINT_NORMALISED,
    LINEAR_SENSITIVITIES,
    LOGISTIC_SENSITIVITIES,
    capefm,
    classical_multiplier,
    network,
)

Vector = NDArray[np.float64]


def blocks(model: str, x: Vector, y: float) -> list[Vector]:
    """The degrees of one record's loss, as in sections 8.2.1 and 8.2.2; logistic labels are 0 and 1."""
    if model == "linear":
        return [np.array([y * y]), -2 * y * x, np.outer(x, x).ravel()]
    return [np.zeros(1), (0.5 - y) * x, np.outer(x, x).ravel() / 8]


def search(model: str, weights: Vector) -> float:
    """Largest weighted joint distance that many climbs find, over rows of length at most 1."""
    generator = np.random.default_rng(0)

    def height(free: Vector) -> float:
        x, other = (part / max(1.0, float(np.linalg.norm(part))) for part in (free[:3], free[3:6]))
        if model == "linear":
            y, y_other = np.clip(free[6:], -1, 1)
        else:
            y, y_other = (float(value > 0) for value in free[6:])
        pairs = zip(blocks(model, x, y), blocks(model, other, y_other), weights, strict=True)
        return -math.sqrt(sum(float(weight**2 * np.sum((a - b) ** 2)) for a, b, weight in pairs))

    starts = [generator.normal(size=8) * 1.5 for _ in range(24)]
    return max(-minimize(height, start, method="Nelder-Mead", options={"maxfev": 3000}).fun for start in starts)


@pytest.mark.parametrize(
    ("model", "sensitivities", "joint"),
    [("linear", LINEAR_SENSITIVITIES, 4.0), ("logistic", LOGISTIC_SENSITIVITIES, 1.0)],
)
def test_joint_sensitivities(model: str, sensitivities: tuple[float, ...], joint: float) -> None:
    """Raw (4 and 1) and with every degree in units of its own sensitivity (1.5 and 1.25)."""
    normalised = np.array([1 / value if value else 0.0 for value in sensitivities])
    assert search(model, normalised) == pytest.approx(JOINT_NORMALISED[model], rel=1e-3)
    assert search(model, np.ones(3)) == pytest.approx(joint, rel=1e-3)


def test_the_claim_of_theorem_8_1_is_false() -> None:
    """At (1, 1e-5) one holder's linear release has delta 8.4e-5."""
    mu = 1.5 / classical_multiplier(1.0, 1e-5)
    assert delta_of(1.0, mu) == pytest.approx(8.4e-5, rel=0.02)
    found = capefm("linear", epsilon=1.0, delta=1e-5, n_sites=5, n_colluding=1, pooled=True)
    assert found.verified_epsilon == pytest.approx(1.17175, abs=1e-4)


def test_against_the_aggregator_the_protocol_adds_its_own_factor() -> None:
    """Exposure of the papers' split, kappa = (S/H)(S+H)/(S+1): 1.875 for five sites and one colluder."""
    mu = 1.5 / classical_multiplier(1.0, 1e-5) * math.sqrt(1.875)
    found = capefm("linear", epsilon=1.0, delta=1e-5, n_sites=5, n_colluding=1)
    assert delta_of(found.verified_epsilon, mu) == pytest.approx(1e-5, rel=1e-6)
    assert found.verified_output_only < found.verified_epsilon


def test_the_network_after_all_rounds() -> None:
    """100 rounds at 0.5 each: mu = 3.108892 / sqrt(2) for one release per round, four sites, one colluder."""
    found = network(epsilon=0.5, delta=1e-5, n_iter=100, n_sites=4, n_colluding=1)
    assert found.claimed_epsilon == 50.0
    assert delta_of(found.verified_epsilon, 3.108892 / math.sqrt(2)) == pytest.approx(1e-5, rel=1e-4)


def test_other_models_are_refused() -> None:
    with pytest.raises(InvalidParameter):
        capefm("quantile", epsilon=1.0, delta=1e-5, n_sites=5, n_colluding=1)
