"""The headline of the risk page is the largest attack, in words, with what it assumes and what guessing reaches."""

from __future__ import annotations

import json

import numpy as np
import pytest
from made_data import factor_data, made_bundle, standardised

from dpcape.factor_release.attack_result import FIND, MEMBER, AttackResult
from dpcape.factor_release.factor_release import FactorRelease
from dpcape.factor_release.risk import RiskReport, assess_risk, largest
from dpcape.factor_release.risk_page import risk_page
from dpcape.factor_release.risk_words import assumed_words, headline_words, percent

N = 45


def noise_report(*, covariates: np.ndarray | None, y: np.ndarray | None = None, **settings) -> RiskReport:
    """Factors and features that have nothing to do with each other: only columns can give people away."""
    rng = np.random.default_rng(31)
    X, factors = standardised(rng.standard_normal((N, 60))), rng.standard_normal((N, 3))
    return assess_risk(
        made_bundle(X, factors, covariates=covariates, y=y),
        X,
        refit=lambda features: np.random.default_rng(1).standard_normal((1, len(features), 3)),
        rng=np.random.default_rng(2),
        n_repeats=5,
        **settings,
    )


def age_and_sex() -> np.ndarray:
    rng = np.random.default_rng(30)
    age = 8 + 0.01 * rng.choice(1300, size=N, replace=False)
    age[1] = age[0]
    sex = rng.integers(0, 2, N)
    sex[1] = sex[0]
    return np.column_stack([age, sex])


@pytest.fixture(scope="module")
def unique_people() -> RiskReport:
    return noise_report(covariates=age_and_sex())


def test_people_unique_by_age_and_sex_make_the_headline(unique_people: RiskReport) -> None:
    headline = unique_people.headline
    assert headline is not None
    assert (headline.goal, headline.n_unique, headline.success) == (FIND, 43, 44 / 45)
    text = headline_words(headline)
    assert "43 of 45 people are unique by covariate" in text
    assert "98% of cases; guessing reaches 2.2%" in text
    page = risk_page(unique_people)
    assert text.replace("'", "&#39;") in page
    assert assumed_words(headline).replace("'", "&#39;") in page
    assert page.index("no differential-privacy guarantee") < page.index("43 of 45") < page.index("What would lower")
    # The old figures, by factors alone, are at chance.
    assert unique_people.leaks[-1].identified_all.value < 0.15


def test_the_headline_is_the_largest_of_all_figures_on_the_page(unique_people: RiskReport) -> None:
    assert unique_people.headline is not None
    most = unique_people.headline.advantage
    assert all(attack.advantage <= most + 1e-9 for attack in unique_people.attacks)
    for leak in unique_people.leaks:
        for value in (leak.identified_all, leak.identified_few, leak.membership_all, leak.membership_few):
            assert value is None or (value.value - value.chance) / (1 - value.chance) <= most


def test_without_covariates_little_is_left(unique_people: RiskReport) -> None:
    """Noise is left: the largest of some ten chance figures.

    Over 60 simulated data sets its mean was 0.13, its standard deviation 0.05 and its maximum 0.30; above 0.5, seven
    standard deviations, with probability below 1e-4.
    """
    without = noise_report(covariates=None)
    assert unique_people.headline is not None
    assert without.headline is not None
    assert without.headline.advantage < 0.5 < unique_people.headline.advantage
    assert without.without_features is None
    remedy = {remedy.name: remedy for remedy in unique_people.remedies}["leave out the covariates"]
    assert remedy.headline is not None
    assert remedy.headline.advantage < 0.5
    assert remedy.without_features is None
    assert "no attack left" in risk_page(unique_people)


def test_coarser_covariates_are_measured_as_a_remedy(unique_people: RiskReport) -> None:
    remedy = {remedy.name: remedy for remedy in unique_people.remedies}["coarsen covariates and responses to 5 bands"]
    assert unique_people.without_features is not None
    assert remedy.without_features is not None
    assert remedy.without_features.advantage < 0.4 < unique_people.without_features.advantage


def test_a_response_nobody_knows_is_listed_but_makes_no_headline() -> None:
    y = np.random.default_rng(32).standard_normal(N)
    known, unknown = (noise_report(covariates=None, y=y, response_known=value) for value in (True, False))
    assert known.headline is not None
    assert known.headline.uses_response
    assert known.headline.success == 1.0
    assert unknown.headline is not None
    assert not unknown.headline.uses_response
    assert unknown.attacks == known.attacks
    assert "nobody else knows a person's response" in risk_page(unknown)
    assert "nobody else knows a person's response" not in risk_page(known)


def test_gain_over_guessing_decides_and_the_first_of_equals_wins() -> None:
    coin = AttackResult(MEMBER, "a", 0.6, 0.0, 0.5, 10)
    found = AttackResult(FIND, "b", 0.3, 0.0, 0.01, 10, uses_features=True)
    equal = AttackResult(FIND, "c", 0.3, 0.0, 0.01, 10, uses_response=True)
    assert coin.advantage == pytest.approx(0.2)
    assert largest([coin, found, equal], response_known=True) is found
    assert largest([coin, equal, found], response_known=True) is equal
    assert largest([coin, equal, found], response_known=False, features_known=False) is coin
    assert largest([equal], response_known=False) is None
    assert [percent(v) for v in (0.0, 0.022, 0.5, 0.995, 1.0)] == ["0%", "2.2%", "50%", "99.5%", "100%"]


def test_a_release_reports_its_draws_covariates_and_model(tmp_path) -> None:
    X, y, _ = factor_data(60, 80, 3, seed=33)
    C = np.random.default_rng(34).integers(8, 22, (60, 1)) + 0.5
    model = FactorRelease(3, n_burn_in=30, n_draws=20, n_chains=1, random_state=5, kernel="lapack")
    model.fit(X[:40], y[:40], X_test=X[40:], covariates=C[:40], covariates_test=C[40:])
    paths = model.release(tmp_path, n_released_draws=4, n_repeats=2)
    stored = json.loads((paths.holder / "risk.json").read_text())
    assert stored["headline"]["success"] == model.risk_.headline.success
    assert [r["name"] for r in stored["remedies"]] == [
        "leave out the covariates",
        "coarsen covariates and responses to 5 bands",
        "release no draws",
        "all of these",
    ]
    assert {a["goal"].split()[0] for a in stored["attacks"]} == {"find", "tell"}
    assert model.assess_risk(n_released_draws=4, n_repeats=2) == model.risk_
    text = paths.risk_page.read_text()
    for words in ("Leave out covariates", "Coarsen the others", "Release no posterior draws", "lower bounds"):
        assert words in text
