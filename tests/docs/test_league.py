"""The page of the league agrees with the stored figures, and the league can be played."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from experiments.league import contests, page, rivals
from experiments.league.run import added, figures, lines, stored

from dpcape.core.privacy.gaussian import mu_of

ROOT = Path(__file__).parents[2]


def test_the_page_is_what_the_stored_figures_say() -> None:
    """Renew it with python -m experiments.league.page."""
    assert page.PAGE.read_text() == page.page(stored(page.FIGURES))


def test_standings_count_losses_and_leave_variants_out() -> None:
    def line(method: str, mean: float, better: str = "lower") -> page.Line:
        return ("a", "d", "m", better, "1e-5", "1", method, "4", str(mean), "0.02", "0")

    assert page.standing([line("dpcape X", 1.0), line("other", 2.0)]) == "first"
    assert page.standing([line("dpcape X", 1.0), line("other", 0.9)]) == "behind"
    assert page.standing([line("dpcape X", 1.0), line("other", 0.99)]) == "tied"
    assert page.standing([line("dpcape X", 1.0), line("dpcape, variant", 0.1), line("other", 0.5)]) == "behind"
    assert page.standing([line("dpcape X", 0.9, "higher"), line("other", 0.5, "higher")]) == "first"


def test_a_contest_is_played_and_added() -> None:
    contest = contests.mean_contest(5, 200, 0.1, 1)
    found = list(lines(contest, figures(contest, 2)))
    assert {line[6] for line in found} == set(contest.methods)
    assert len(found) == len(contest.methods) * len(contest.epsilons)
    more = [(*found[0][:1], "other data", *found[0][2:])]
    whole = added(found, more)
    assert whole == [*found, *more]
    # A contest that is played again stays where it was.
    assert added(whole, found) == whole
    assert set(added(whole, found[:1])) == set(whole)


SHAPES: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    "clusters": lambda rng: np.outer(np.eye(4)[rng.integers(4)], _row(rng)).ravel(),
    "expectation": lambda rng: np.outer(rng.dirichlet(np.full(4, 0.2)), _row(rng)).ravel(),
    "subspace": lambda rng: (lambda x: np.outer(x, x[:2]).ravel())(_ball(rng, 6)),
}
DIAMETERS = {"clusters": 2.0, "expectation": 2.0, "subspace": math.sqrt(2)}


def _ball(rng: np.random.Generator, width: int) -> np.ndarray:
    x = rng.standard_normal(width)
    return x / np.linalg.norm(x)


def _row(rng: np.random.Generator) -> np.ndarray:
    """Return (1, x) for a row of length 1."""
    return np.append(1.0, _ball(rng, 2))


@pytest.mark.parametrize("kind", SHAPES)
def test_rivals_are_given_diameters_that_hold_and_are_not_generous(kind: str) -> None:
    rng = np.random.default_rng(3)
    found = [SHAPES[kind](rng) for _ in range(1500)]
    largest = max(np.linalg.norm(np.array(found) - one, axis=1).max() for one in found[:300])
    assert 0.9 * DIAMETERS[kind] < largest <= DIAMETERS[kind] + 1e-9


def test_noise_of_rivals_composes_to_the_mu_that_was_given() -> None:
    """The standard deviation of 20,000 draws is within 3% (false alarm below 1e-8)."""
    mu, rng = mu_of(1.0, 1e-5), np.random.default_rng(1)
    drawn = rivals.noisy_sum(np.zeros((1, 20_000)), 2.0, mu, 9, rng)
    assert drawn.std() == pytest.approx(2.0 * 3 / mu, rel=0.03)


def test_without_much_noise_rivals_find_what_there_is() -> None:
    """Rivals that fail for another reason than noise would be no rivals."""
    rng = np.random.default_rng(2)
    X = contests.separated(5, 3, 5, 4000)
    lloyd = contests.cluster_contest("", X, 3, 1.0).methods["DP-Lloyd"]
    # A random start can leave all rows to one centre.
    assert max(lloyd(1e4, seed) for seed in range(4)) > 0.6
    features, y = contests.simulated_linear(4, 4000, 10)
    contest = contests.linear_contest("", features, y, 1.0, (-1, 1), 1e-5, (1.0,))
    for name in ("AdaSSP", "DP-GD"):
        assert contest.methods[name](1e4, 1) < 1.1 * contest.limit
    low = contests.low_rank(20, 4000, 3)
    assert contests.pca_contest("", low, 5).methods["power / Oja (subspace iteration)"](1e4, 1) > 0.9
    labels = (rng.random(4000) < 1 / (1 + np.exp(-8 * y))).astype(float)
    plain = contests.logistic_contest("", features, labels, 1.0, 1e-5, (1.0,))
    for name in ("DP-GD", "objective perturbation (Gaussian)"):
        assert plain.methods[name](1e4, 1) < plain.limit + 0.05
