"""Attacks on the whole bundle: what they reach where the answer is known, and chance where there is nothing.

Seeds are fixed. Each bound of the chance tests states the probability with which right code would break it
under another seed.
"""

from __future__ import annotations

import numpy as np
import pytest
from made_data import factor_data, made_bundle, standardised
from scipy.stats import norm, poisson

from dpcape.factor_release import evidence
from dpcape.factor_release.attack_result import (
    FIND,
    INFER_FEATURES,
    INFER_RESPONSE,
    INFER_UNRELEASED,
    MEMBER,
    AttackResult,
)
from dpcape.factor_release.bundle import Bundle
from dpcape.factor_release.bundle_attacks import attack_bundle
from dpcape.factor_release.column_attacks import response_by_class
from dpcape.factor_release.feature_attacks import Twin
from dpcape.factor_release.knowledge import Knowledge, knowledge_of
from dpcape.factor_release.released_parts import MOST_DRAWS, coarsened, released_parts

N_REPEATS = 5
N_LEAKED = 15


def attacked(
    bundle: Bundle, X: np.ndarray, twin: Twin | None = None, n_leaked: int = N_LEAKED
) -> tuple[AttackResult, ...]:
    rng = np.random.default_rng(0)
    n_twin = n_leaked if twin is not None else 0
    return attack_bundle(
        released_parts(bundle), X, twin=twin, n_leaked=n_leaked, n_leaked_twin=n_twin, rng=rng, n_repeats=N_REPEATS
    )


def the(attacks: tuple[AttackResult, ...], goal: str, *words: str, without: str = "?") -> AttackResult:
    """Return the only attack with this goal that knows these things."""
    found = [a for a in attacks if a.goal == goal and all(w in a.knows for w in words) and without not in a.knows]
    assert len(found) == 1, [a.knows for a in found]
    return found[0]


# ---- nothing to find: factors, draws, covariates and responses are noise ----


@pytest.fixture(scope="module")
def noise() -> tuple[tuple[AttackResult, ...], Bundle]:
    rng = np.random.default_rng(11)
    n, n_train = 150, 120
    X = standardised(rng.standard_normal((n, 100)))
    covariates = np.column_stack([rng.integers(0, 2, n), rng.integers(0, 3, n)]).astype(float)
    draws = rng.standard_normal((8, n, 5))
    bundle = made_bundle(
        X, draws.mean(axis=0), n_train=n_train, y=rng.standard_normal(n_train), covariates=covariates, draws=draws
    )
    order = rng.permutation(n)
    twin = Twin(order[50:], order[:50], rng.standard_normal((8, 100, 5)))
    return attacked(bundle, X, twin), bundle


def test_noise_rows_are_found_as_often_as_guessing_finds_them(noise) -> None:
    attacks, _ = noise
    alone = the(attacks, FIND, "20 of the person's features", without="covariates")
    hits = alone.success * alone.n_people * N_REPEATS
    # Right matches are about Poisson(1) per repetition; with five, more than 18 have probability 1e-6.
    assert poisson.sf(18, N_REPEATS) < 2e-6
    assert hits <= 18
    # With covariates there are six classes, each with about Poisson(1) right matches: 30 expected, above 55 with 1e-5.
    joint = the(attacks, FIND, "20 of the person's features", "covariates roughly")
    assert poisson.sf(55, 6 * N_REPEATS) < 2e-5
    assert joint.success * joint.n_people * N_REPEATS <= 55
    assert the(attacks, FIND, "covariates roughly", without="and").success == pytest.approx(6 / 150)


def test_noise_says_nothing_of_features_and_unreleased_responses(noise) -> None:
    attacks, _ = noise
    features = the(attacks, INFER_FEATURES)
    # 135 people x 100 independent features: standard deviation 0.0041; six of them, 2e-9.
    assert abs(features.success - features.baseline) < 6 * np.sqrt(2 / 9 / (135 * 100))
    # Standard deviations over 40 simulated data sets: 0.057 and 0.018; five of the larger, 3e-7.
    assert norm.sf(5) < 3e-7
    for attack in (the(attacks, INFER_UNRELEASED), the(attacks, INFER_RESPONSE, "20 of the person's features")):
        assert attack.success < 1 / 3 + 5 * 0.057


def test_classes_of_noise_say_of_responses_what_permuted_ones_say(noise) -> None:
    """A class contains the person, so the figure is above guessing even here; permuting tells by how much.

    False alarm: the largest of 1,000 exchangeable values, 0.001.
    """
    _, bundle = noise
    parts = released_parts(bundle)
    known = knowledge_of(parts, rough=True)[0]
    rng = np.random.default_rng(1)
    response = parts.response
    null = [response_by_class(known, np.append(rng.permutation(response[:120]), response[120:])) for _ in range(999)]
    assert response_by_class(known, response).success <= max(attack.success for attack in null)


def test_noise_does_not_tell_members(noise) -> None:
    attacks, _ = noise
    # 85 members and 50 others: standard deviation at most 0.052; 4.5 of them, 3e-6 on each side.
    for attack in (a for a in attacks if a.goal == MEMBER and a.uses_features and "response" not in a.knows):
        assert abs(attack.success - 0.5) < 4.5 * np.sqrt((85 + 50 + 1) / (12 * 85 * 50))
    # Every class is on both sides: all scores are equal, whatever the split.
    assert the(attacks, MEMBER, "covariates as released", without="features").success == pytest.approx(0.5)


def test_knowledge_of_other_people_finds_nobody() -> None:
    """A unique column helps only who knows the right values: 60 wrong permutations, about Poisson(60) hits; 1e-6."""
    rng = np.random.default_rng(2)
    codes = evidence.as_released(rng.standard_normal(80))
    hits = sum(80 * evidence.found_rate(evidence.matching(rng.permutation(codes), codes)) for _ in range(60))
    assert evidence.found_rate(evidence.matching(codes, codes)) == 1.0
    assert poisson.sf(101, 60) < 1e-6
    assert hits <= 101


# ---- something to find, with a known answer ----


def exact_case(n: int = 90, n_train: int = 60, **parts) -> tuple[Bundle, np.ndarray, np.ndarray]:
    """Features without residuals, so that factors tell them completely."""
    X, _, latent = factor_data(n, 300, 4, seed=12, residual_scale=0.0)
    latent = latent / X.std()
    return made_bundle(X / X.std(), latent, n_train=n_train, **parts), X / X.std(), latent


def test_uniqueness_is_the_number_of_classes() -> None:
    X = np.random.default_rng(3).standard_normal((45, 30))
    age, sex = np.arange(45.0) / 7, np.tile([0.0, 1.0, 1.0], 15)
    age[1] = age[2]
    attacks = attacked(made_bundle(X, X[:, :2], covariates=np.column_stack([age, sex])), X)
    both = the(attacks, FIND, "covariates as released")
    assert (both.success, both.n_unique, both.baseline) == (44 / 45, 43, 1 / 45)
    single = the(attacks, FIND, "covariate 2 as released")
    assert (single.success, single.n_unique) == (2 / 45, 0)
    rough = the(attacks, FIND, "covariates roughly", without="features")
    assert rough.success == pytest.approx(20 / 45)  # ten bands of age, two sexes


def test_values_are_compared_as_they_are_written() -> None:
    values = np.array([0.1 + 0.2, 0.3, 0.4, np.nan])
    assert evidence.as_released(values).tolist() == [0, 0, 1, evidence.UNKNOWN]


def test_exact_factors_are_found_read_and_told() -> None:
    y = factor_data(90, 300, 4, seed=12)[2][:60, 0]
    bundle, X, latent = exact_case(y=y)
    order = np.random.default_rng(4).permutation(90)
    attacks = attacked(bundle, X, Twin(order[30:], order[:30], latent[None, order[30:]]))
    assert the(attacks, FIND, "all 300 of").success == 1.0
    assert the(attacks, INFER_FEATURES).success > 0.9
    assert the(attacks, INFER_UNRELEASED).success > 0.95
    assert the(attacks, FIND, "which is not released").success > 0.9
    assert the(attacks, INFER_RESPONSE, "20 of the person's features").success > 0.9
    assert the(attacks, MEMBER, "all 300 of").success > 0.95


def test_covariates_and_factors_together_find_what_neither_finds() -> None:
    """Pairs share a covariate and one factor differs within each pair: half by covariates, nearly all by both."""
    rng = np.random.default_rng(5)
    pair = np.repeat(np.arange(50.0), 2)
    factor = np.tile([-1.0, 1.0], 50)[:, None]
    X = factor @ rng.choice([-1.0, 1.0], size=(1, 60))
    attacks = attacked(made_bundle(X, factor, covariates=pair % 10 + 10 * (pair // 10)), X)
    assert the(attacks, FIND, "covariate as released").success == 0.5
    alone = the(attacks, FIND, "20 of", without="covariate")
    assert alone.success < 0.06  # one of about 43
    # Ten bands hold ten people each, five of either sign; less the leaked ones.
    joint = the(attacks, FIND, "20 of", "covariate roughly")
    assert 0.18 < joint.success < 0.32
    assert the(attacks, FIND, "covariate roughly", without="features").success == 0.1


def test_response_of_a_class_is_read_off() -> None:
    rng = np.random.default_rng(6)
    group = rng.integers(0, 3, 90).astype(float)
    X = rng.standard_normal((90, 40))
    attacks = attacked(made_bundle(X, X[:, :3], y=group, covariates=group), X)
    assert the(attacks, INFER_RESPONSE, "covariate as released").success == 1.0


def test_unique_covariates_tell_members() -> None:
    rng = np.random.default_rng(7)
    X = rng.standard_normal((60, 40))
    attacks = attacked(made_bundle(X, X[:, :3], covariates=rng.standard_normal(60)), X)
    assert the(attacks, MEMBER, "covariate as released").success == 1.0


def test_draws_give_away_what_they_hold() -> None:
    """The mean over draws is noise, their deviations are the factors: found with draws, not without."""
    X = factor_data(90, 300, 4, seed=12, residual_scale=0.0)[0]
    X = X / X.std()
    latent = np.linalg.svd(X, full_matrices=False)[0][:, :4] * np.sqrt(90)
    blind = np.random.default_rng(8).standard_normal((90, 4))
    draws = np.stack([blind + 0.1 * latent, blind - 0.1 * latent])
    with_draws = attacked(made_bundle(X, blind, draws=draws), X)
    without = attacked(made_bundle(X, blind), X)
    assert the(with_draws, FIND, "all 300 of").success > 0.95
    assert the(without, FIND, "all 300 of").success < 0.1


def test_penalty_rows_help_to_rebuild_features() -> None:
    """They tell how large loadings are: with few leaked records the map is learnt better than from factors alone."""
    rng = np.random.default_rng(9)
    scale = np.array([8.0, 4.0, 2.0, 1.0, 0.2, 0.2, 0.2, 0.2])
    latent = rng.standard_normal((120, 8))
    X = latent @ (scale[:, None] * rng.standard_normal((8, 200))) + rng.standard_normal((120, 200))
    X /= X.std()
    y = rng.standard_normal(120)
    whole = the(attacked(made_bundle(X, latent, y=y), X, n_leaked=10), INFER_FEATURES)
    factors = the(attacked(made_bundle(X, latent), X, n_leaked=10), INFER_FEATURES)
    assert whole.success > factors.success + 0.02


# ---- what is left after a change, and the cost ----


def test_coarse_covariates_leave_fewer_classes() -> None:
    rng = np.random.default_rng(10)
    X = rng.standard_normal((60, 40))
    bundle = made_bundle(X, X[:, :3], n_train=40, y=rng.standard_normal(40), covariates=rng.standard_normal(60))
    coarse = coarsened(bundle)
    before, after = attacked(bundle, X), attacked(coarse, X)
    assert the(before, FIND, "covariate as released").success == 1.0
    assert the(after, FIND, "covariate as released").success == pytest.approx(5 / 60)
    assert coarse.covariates_test is not None
    assert coarse.response is not None
    assert len(np.unique(coarse.response)) == 5


def test_cost_is_bounded_and_the_seed_decides() -> None:
    rng = np.random.default_rng(13)
    X = rng.standard_normal((40, 1600))
    draws = rng.standard_normal((200, 40, 3))
    bundle = made_bundle(X, draws.mean(axis=0), draws=draws)
    parts = released_parts(bundle)
    assert parts.draws is not None
    assert len(parts.draws) == MOST_DRAWS
    first, again = attacked(bundle, X), attacked(bundle, X)
    assert "1,000 of the person's features" in "".join(a.knows for a in first)
    assert first == again


def test_a_missing_value_says_nothing_and_the_other_columns_still_count() -> None:
    known = evidence.as_released(np.array([1.0, 2.0, np.nan]))
    table = evidence.matching(known, known)
    assert table[2].tolist() == [0.0, 0.0, 0.0]
    assert table[0, 2] == 0.0
    assert table[0, 0] == pytest.approx(np.log(2))
    assert table[0, 1] < -100
    sex = evidence.as_released(np.array([0.0, 1.0, 0.0]))
    people = np.arange(3)
    both = Knowledge("", (sex, known), True).table(people, people)
    assert both[0, 2] == pytest.approx(np.log(3 / 2))  # the response is missing, the sex agrees
    assert both[1, 2] < -100
