"""The result of one attack on a release, and the goals of attacks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

FIND = "find the person's row"
ADDED = "tell which row is that of a person added since an earlier release"
MEMBER = "tell whether the person is in the release"
INFER_FEATURES = "tell in which third of the people a feature of the person lies"
INFER_RESPONSE = "tell in which third of the people the person's released response lies"
INFER_UNRELEASED = "tell in which third of the people the person's unreleased response lies"


@dataclass(frozen=True)
class AttackResult:
    """One attack: its goal, what the adversary knows, its success and what guessing reaches."""

    goal: str
    knows: str
    success: float
    standard_error: float
    baseline: float
    n_people: int
    uses_response: bool = False
    uses_features: bool = False
    n_unique: int | None = None

    @property
    def advantage(self) -> float:
        """Success as a share of what guessing leaves open: 0 for guessing, 1 for always right."""
        return (self.success - self.baseline) / max(1.0 - self.baseline, 1e-12)


def mean_attack(
    goal: str,
    knows: str,
    values: list[float],
    *,
    baseline: float,
    n_people: int,
    uses_response: bool = False,
    uses_features: bool = False,
) -> AttackResult:
    """Return the mean over repetitions of an attack, with its standard error."""
    error = float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")
    return AttackResult(goal, knows, float(np.mean(values)), error, baseline, n_people, uses_response, uses_features)
