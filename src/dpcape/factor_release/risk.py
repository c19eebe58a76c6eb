"""Disclosure risk of a factor release, measured on the holder's own data.

For m = K + 2, 2K and 3K leaked records: how well other people's features are rebuilt, how often a person
with noisy knowledge of all or of 20 features is found among the released rows, and how well presence in the
release is told; each with its chance level. These are measurements of particular attacks, so lower bounds
on the risk. They are no guarantee.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from dpcape.arrays import FloatArray
from dpcape.factor_release.attacks import (
    area_under_curve,
    learn_map,
    membership_scores,
    reconstruction_ceiling,
    reconstruction_r2,
    top_one_rate,
)

Rows = NDArray[np.intp]

NO_GUARANTEE = "This release has no differential-privacy guarantee."
AUXILIARY_SCALE = 0.5  # error of what the attacker knows of a target, in standard deviations of each feature
FEW_FEATURES = 20
MEMBERSHIP_SHARE_OUT = 1 / 3
FEWEST_TARGETS = 5


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
class RiskReport:
    """The measured risk of one release; for the holder's eyes."""

    n_subjects: int
    n_features: int
    n_factors: int
    n_few: int
    n_repeats: int
    ceiling: float
    leaks: tuple[RiskAtLeak, ...]
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
    twin: tuple[FloatArray, FloatArray, FloatArray] | None, n_leaked: int, n_repeats: int, rng: np.random.Generator
) -> tuple[Measured | None, Measured | None]:
    if twin is None or len(twin[0]) - n_leaked < FEWEST_TARGETS:
        return None, None
    rounds = [_attack_membership(*twin, n_leaked, rng) for _ in range(n_repeats)]
    every, few = [r["all"] for r in rounds], [r["few"] for r in rounds]
    return _measured(every, [0.5]), _measured(few, [0.5])


def _at_leak(
    factors: FloatArray,
    features: FloatArray,
    twin: tuple[FloatArray, FloatArray, FloatArray] | None,
    *,
    n_leaked: int,
    rule: str,
    n_repeats: int,
    rng: np.random.Generator,
) -> RiskAtLeak:
    rounds = [_attack_rows(factors, features, n_leaked, rng) for _ in range(n_repeats)]
    chance = [1.0 / (len(factors) - n_leaked)]
    every, few = _membership(twin, n_leaked, n_repeats, rng)
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
) -> tuple[FloatArray, FloatArray, FloatArray] | None:
    """Make the same release for two thirds of the subjects; the others are known to be outside."""
    order = rng.permutation(len(features))
    n_out = int(len(features) * MEMBERSHIP_SHARE_OUT)
    outside, inside = order[:n_out], order[n_out:]
    if n_out < FEWEST_TARGETS or len(inside) < n_factors + 2 + FEWEST_TARGETS:
        return None
    return refit(features[inside]), features[inside], features[outside]


def assess_risk(
    factors: FloatArray,
    features: FloatArray,
    *,
    refit: Callable[[FloatArray], FloatArray],
    rng: np.random.Generator,
    n_repeats: int = 10,
) -> RiskReport:
    """Attack a release with each number of leaked records.

    Parameters
    ----------
    factors, features : ndarray
        Released factors (n x K) and standardised features (n x p) of the same subjects.
    refit : callable
        Returns factors for a subset of subjects' features, made as the release was; for membership inference.
    rng : np.random.Generator
        For the choice of leaked records; protects nothing.
    n_repeats : int
        Repetitions with other leaked records.
    """
    n, n_factors = factors.shape
    rules = {
        f"K + 2 = {n_factors + 2}": n_factors + 2,
        f"2K = {2 * n_factors}": 2 * n_factors,
        f"3K = {3 * n_factors}": 3 * n_factors,
    }
    possible = {rule: m for rule, m in rules.items() if 3 <= m <= n - FEWEST_TARGETS}
    twin = _twin(features, refit, n_factors, rng)
    skipped = [f"m = {rule}: too few subjects" for rule in rules if rule not in possible]
    skipped += ["membership: too few subjects"] if twin is None else []
    leaks = tuple(
        _at_leak(factors, features, twin, n_leaked=m, rule=rule, n_repeats=n_repeats, rng=rng)
        for rule, m in sorted(possible.items(), key=lambda item: item[1])
    )
    return RiskReport(
        n_subjects=n,
        n_features=features.shape[1],
        n_factors=n_factors,
        n_few=min(FEW_FEATURES, features.shape[1]),
        n_repeats=n_repeats,
        ceiling=reconstruction_ceiling(factors, features),
        leaks=leaks,
        not_measured=tuple(skipped),
    )
