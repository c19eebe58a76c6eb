"""Disclosure risk of a factor release, measured on the holder's own data.

Everything that is released is attacked together: covariates, responses, factors, draws and the recommended
model. The headline is the attack that gains most over guessing. In addition, for the factors alone and m =
K + 2, 2K and 3K leaked records: how well other people's features are rebuilt, how often a person with noisy
knowledge of all or of 20 features is found among the released rows, and how well presence in the release is
inferred; each with its chance level. These are measurements of particular attacks, so lower bounds on the risk.
They are not a guarantee.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from dpcape.core.arrays import FloatArray
from dpcape.factor_release.attack_result import FIND, MEMBER, AttackResult
from dpcape.factor_release.attacks import (
    area_under_curve,
    learn_map,
    membership_scores,
    reconstruction_ceiling,
    reconstruction_r2,
    top_one_rate,
)
from dpcape.factor_release.bundle import NO_GUARANTEE, Bundle
from dpcape.factor_release.bundle_attacks import attack_bundle
from dpcape.factor_release.column_attacks import FEWEST_TARGETS, SHARE_OUT
from dpcape.factor_release.feature_attacks import AUXILIARY_SCALE, FEW_FEATURES, Twin
from dpcape.factor_release.pair_attacks import added_person
from dpcape.factor_release.recommended import RecommendedModel
from dpcape.factor_release.released_parts import released_parts, remedies

Rows = NDArray[np.intp]

__all__ = ["NO_GUARANTEE", "Measured", "Remedy", "RiskAtLeak", "RiskReport", "assess_risk"]


@dataclass(frozen=True)
class Measured:
    """Mean over repetitions of an attack, its standard error, and what guessing reaches."""

    value: float
    standard_error: float
    chance: float


@dataclass(frozen=True)
class RiskAtLeak:
    """All attacks at one number of leaked records."""

    n_leaked: int
    leaked_rule: str
    reconstruction: Measured
    identified_all: Measured
    identified_few: Measured
    membership_all: Measured | None
    membership_few: Measured | None


@dataclass(frozen=True)
class Remedy:
    """A change to what is released, and the largest attacks that are left."""

    name: str
    headline: AttackResult | None
    without_features: AttackResult | None  # by adversaries who know no features


@dataclass(frozen=True)
class RiskReport:
    """The measured risk of one release; for the holder only."""

    n_subjects: int
    n_features: int
    n_factors: int
    n_few: int
    n_repeats: int
    ceiling: float
    leaks: tuple[RiskAtLeak, ...]
    attacks: tuple[AttackResult, ...]
    headline: AttackResult | None
    without_features: AttackResult | None  # the largest by adversaries who know no features
    remedies: tuple[Remedy, ...]
    second_release: AttackResult | None  # if a person is added later; not in the headline
    response_known: bool
    not_measured: tuple[str, ...]
    statement: str = NO_GUARANTEE

    def as_dict(self) -> dict[str, object]:
        """Return plain values for JSON."""
        return asdict(self)


def _measured(values: list[float], chances: list[float]) -> Measured:
    error = float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")
    return Measured(float(np.mean(values)), error, float(np.mean(chances)))


def _columns(n_features: int, rng: np.random.Generator) -> Rows:
    return np.asarray(rng.choice(n_features, size=min(FEW_FEATURES, n_features), replace=False), dtype=np.intp)


def _attack_rows(
    factors: FloatArray, features: FloatArray, n_leaked: int, rng: np.random.Generator
) -> dict[str, float]:
    """One repetition of reconstruction and re-identification."""
    order = rng.permutation(len(factors))
    known, others = order[:n_leaked], order[n_leaked:]
    rebuilt = learn_map(factors[known], features[known]).rebuild(factors[others])
    shuffled = learn_map(factors[rng.permutation(known)], features[known]).rebuild(factors[others])
    auxiliary = features[others] + AUXILIARY_SCALE * rng.standard_normal((len(others), features.shape[1]))
    few = _columns(features.shape[1], rng)
    return {
        "reconstruction": reconstruction_r2(rebuilt, features[others]),
        "reconstruction_chance": reconstruction_r2(shuffled, features[others]),
        "identified_all": top_one_rate(auxiliary, rebuilt),
        "identified_few": top_one_rate(auxiliary[:, few], rebuilt[:, few]),
    }


def _attack_membership(
    factors: FloatArray, features: FloatArray, outside: FloatArray, n_leaked: int, rng: np.random.Generator
) -> dict[str, float]:
    """One repetition of membership inference on a release that the ``outside`` subjects had no part in."""
    order = rng.permutation(len(factors))
    known, others = order[:n_leaked], order[n_leaked:]
    rebuilt = learn_map(factors[known], features[known]).rebuild(factors[others])
    targets = np.vstack([features[others], outside])
    auxiliary = targets + AUXILIARY_SCALE * rng.standard_normal(targets.shape)
    few = _columns(features.shape[1], rng)
    scores = {
        "all": membership_scores(auxiliary, rebuilt),
        "few": membership_scores(auxiliary[:, few], rebuilt[:, few]),
    }
    return {name: area_under_curve(s[: len(others)], s[len(others) :]) for name, s in scores.items()}


def _membership(
    twin: Twin | None, features: FloatArray, n_leaked: int, n_repeats: int, rng: np.random.Generator
) -> tuple[Measured | None, Measured | None]:
    if twin is None or len(twin.inside) - n_leaked < FEWEST_TARGETS:
        return None, None
    parts = twin.draws.mean(axis=0), features[twin.inside], features[twin.outside]
    rounds = [_attack_membership(*parts, n_leaked, rng) for _ in range(n_repeats)]
    every, few = [r["all"] for r in rounds], [r["few"] for r in rounds]
    return _measured(every, [0.5]), _measured(few, [0.5])


def _at_leak(
    factors: FloatArray,
    features: FloatArray,
    twin: Twin | None,
    *,
    n_leaked: int,
    rule: str,
    n_repeats: int,
    rng: np.random.Generator,
) -> RiskAtLeak:
    rounds = [_attack_rows(factors, features, n_leaked, rng) for _ in range(n_repeats)]
    chance = [1.0 / (len(factors) - n_leaked)]
    every, few = _membership(twin, features, n_leaked, n_repeats, rng)
    return RiskAtLeak(
        n_leaked=n_leaked,
        leaked_rule=rule,
        reconstruction=_measured([r["reconstruction"] for r in rounds], [r["reconstruction_chance"] for r in rounds]),
        identified_all=_measured([r["identified_all"] for r in rounds], chance),
        identified_few=_measured([r["identified_few"] for r in rounds], chance),
        membership_all=every,
        membership_few=few,
    )


def _twin(
    features: FloatArray, refit: Callable[[FloatArray], FloatArray], n_factors: int, rng: np.random.Generator
) -> Twin | None:
    """Make the same release for two thirds of the subjects; the others are known to be outside."""
    order = rng.permutation(len(features))
    n_out = int(len(features) * SHARE_OUT)
    outside, inside = order[:n_out], order[n_out:]
    if n_out < FEWEST_TARGETS or len(inside) < n_factors + 2 + FEWEST_TARGETS:
        return None
    return Twin(inside, outside, refit(features[inside]))


def _factor_attacks(leaks: tuple[RiskAtLeak, ...], n_people: int, n_few: int) -> list[AttackResult]:
    """Return the attacks on the factors alone, to be compared with the others."""
    attacks = []
    for leak in leaks:
        measured = [
            (FIND, f"{n_few} of the person's features", leak.identified_few),
            (FIND, "all of the person's features", leak.identified_all),
            (MEMBER, f"{n_few} of the person's features", leak.membership_few),
            (MEMBER, "all of the person's features", leak.membership_all),
        ]
        attacks += [
            AttackResult(
                goal, f"{known}, and the full records of {leak.n_leaked} other released people", value.value,
                value.standard_error, value.chance, n_people - leak.n_leaked, uses_features=True,
            )
            for goal, known, value in measured
            if value is not None
        ]  # fmt: skip
    return attacks


def largest(
    attacks: Iterable[AttackResult], *, response_known: bool, features_known: bool = True
) -> AttackResult | None:
    """Return the attack that gains most over guessing, the first of equals; None if there is none.

    Parameters
    ----------
    attacks : iterable of AttackResult
        Attacks to compare.
    response_known, features_known : bool
        Whether adversaries who know a person's response, or features, count.
    """
    counted = [
        attack
        for attack in attacks
        if (response_known or not attack.uses_response) and (features_known or not attack.uses_features)
    ]
    return max(counted, key=lambda attack: round(attack.advantage, 9), default=None)


def assess_risk(
    bundle: Bundle,
    features: FloatArray,
    *,
    refit: Callable[[FloatArray], FloatArray],
    rng: np.random.Generator,
    n_repeats: int = 10,
    model: RecommendedModel | None = None,
    response_known: bool = True,
) -> RiskReport:
    """Attack everything that is released, with each number of leaked records.

    Parameters
    ----------
    bundle : Bundle
        What is handed out, in the row order of ``features``: training subjects, then test subjects.
    features : ndarray
        Standardised features (n x p) of the same subjects.
    refit : callable
        Returns draws (n_draws x n x K) of factors for a subset of subjects' features, made as the release was; for
        membership inference.
    rng : np.random.Generator
        For the choice of leaked records; protects nothing.
    n_repeats : int
        Repetitions with different leaked records.
    model : RecommendedModel or None
        The recommended model, if it has been fitted already.
    response_known : bool
        Whether an adversary may know a person's response. With False, such adversaries are reported but not in the
        headline.
    """
    factors = np.vstack([bundle.factors, bundle.factors_test])
    n, n_factors = factors.shape
    rules = {
        f"K + 2 = {n_factors + 2}": n_factors + 2,
        f"2K = {2 * n_factors}": 2 * n_factors,
        f"3K = {3 * n_factors}": 3 * n_factors,
    }
    possible = {rule: m for rule, m in rules.items() if 3 <= m <= n - FEWEST_TARGETS}
    twin = _twin(features, refit, n_factors, rng)
    skipped = [f"m = {rule}: too few subjects" for rule in rules if rule not in possible]
    skipped += ["membership: too few subjects", "a second release: too few subjects"] if twin is None else []
    leaks = tuple(
        _at_leak(factors, features, twin, n_leaked=m, rule=rule, n_repeats=n_repeats, rng=rng)
        for rule, m in sorted(possible.items(), key=lambda item: item[1])
    )
    n_few = min(FEW_FEATURES, features.shape[1])
    n_inside = 0 if twin is None else len(twin.inside)
    seed = int(rng.integers(2**63))
    alone = _factor_attacks(leaks, n, n_few)

    def attack(changed: Bundle) -> tuple[AttackResult, ...]:
        return attack_bundle(
            released_parts(changed, model),
            features,
            twin=twin,
            n_leaked=max(possible.values(), default=0),
            n_leaked_twin=max((m for m in possible.values() if m <= n_inside - FEWEST_TARGETS), default=0),
            rng=np.random.default_rng(seed),
            n_repeats=n_repeats,
        )

    def headlines(attacks: Iterable[AttackResult]) -> tuple[AttackResult | None, AttackResult | None]:
        pool = [*attacks, *alone]
        return (
            largest(pool, response_known=response_known),
            largest(pool, response_known=response_known, features_known=False),
        )

    attacks = attack(bundle)
    headline, without_features = headlines(attacks)
    return RiskReport(
        n_subjects=n,
        n_features=features.shape[1],
        n_factors=n_factors,
        n_few=n_few,
        n_repeats=n_repeats,
        ceiling=reconstruction_ceiling(factors, features),
        leaks=leaks,
        attacks=attacks,
        headline=headline,
        without_features=without_features,
        remedies=tuple(Remedy(name, *headlines(attack(change(bundle)))) for name, change in remedies(bundle)),
        second_release=None if twin is None else added_person(bundle, twin),
        response_known=response_known,
        not_measured=tuple(skipped),
    )
