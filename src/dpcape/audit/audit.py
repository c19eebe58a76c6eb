"""Audit of an analysis: run it, search for the worst neighbours, attack, and bound epsilon."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

import numpy as np

from dpcape.arrays import FloatArray, IntArray
from dpcape.audit.adversaries import VICTIM, Adversary
from dpcape.audit.attack import scores
from dpcape.audit.bounds import lower_bounds
from dpcape.audit.cases import Case
from dpcape.audit.neighbours import Neighbours, worst_pair
from dpcape.audit.protocol_run import ProtocolRun
from dpcape.audit.recorded_run import RecordedRun, run_once
from dpcape.noise import NoiseSource
from dpcape.protocols.protocol import on_grid
from dpcape.records import Records

ALPHA = 1e-6
# Coordinates per run of a release; keeps an audit within a few hundred megabytes.
_ENTRIES = 2_000_000


@dataclass(frozen=True)
class AuditResult:
    """Result of an audit.

    Attributes
    ----------
    analysis : str
        Name of the audited case.
    adversary : str
        Name of the adversary.
    status : str
        Status of the guarantee.
    n_releases : int
        Number of releases.
    claimed_epsilon : float
        Epsilon of the guarantee.
    delta : float
        Delta of the guarantee.
    epsilon : float
        Lower bound from hits and false alarms only.
    gaussian_epsilon : float
        Lower bound from the largest mu they refute. Both bounds hold except with probability ``alpha``.
    reached : float
        Share of the allowed mu that the worst pair found uses.
    n_trials : int
        Number of trials with each of the pair.
    alpha : float
        Probability that a bound is wrong.
    """

    analysis: str
    adversary: str
    status: str
    n_releases: int
    claimed_epsilon: float
    delta: float
    epsilon: float
    gaussian_epsilon: float
    reached: float
    n_trials: int
    alpha: float = ALPHA

    @property
    def refuted(self) -> bool:
        """Whether the guarantee was refuted."""
        return max(self.epsilon, self.gaussian_epsilon) > self.claimed_epsilon

    def to_dict(self) -> dict[str, object]:
        """Return plain values."""
        return {**asdict(self), "refuted": self.refuted}


def audit(
    case: Case,
    adversary: Adversary,
    *,
    epsilon: float,
    delta: float,
    n_trials: int,
    noise: Callable[[int], NoiseSource],
    seed: int = 1,
    factors: Mapping[str, float] | None = None,
) -> AuditResult:
    """Attack one analysis under one protocol; return lower bounds on epsilon.

    Parameters
    ----------
    case : Case
        Analysis to attack.
    adversary : Adversary
        Protocol, colluding and lost sites.
    epsilon : float
        Privacy parameter epsilon of the analysis.
    delta : float
        Privacy parameter delta of the analysis.
    n_trials : int
        Number of trials with each of the two neighbouring data sets.
    noise : callable
        ``noise(k)`` returns the noise source of the k-th batch of trials.
    seed : int
        Seed of the synthetic records and of the search for the worst neighbours.
    factors : mapping or None
        Fractions of the noise to keep ("own", "draw", "dealer"), to test that the audit detects it; None keeps all.
    """
    transcript = run_once(case, adversary.protocol, epsilon=epsilon, delta=delta, seed=seed)
    pair = worst_pair(case, transcript, seed=seed)
    attack = _Attack(case, adversary, transcript, pair, dict(factors or {}))
    still = attack.scores(n_trials, moved=False, noise=lambda k: noise(2 * k))
    moved = attack.scores(n_trials, moved=True, noise=lambda k: noise(2 * k + 1))
    bounds = lower_bounds(still, moved, delta=delta, alpha=ALPHA)
    guarantee = transcript.guarantee
    return AuditResult(
        analysis=case.name,
        adversary=adversary.name,
        status=guarantee.status,
        n_releases=len(transcript.requests),
        claimed_epsilon=guarantee.sites[VICTIM].epsilon,
        delta=delta,
        epsilon=bounds.epsilon,
        gaussian_epsilon=bounds.gaussian_epsilon,
        reached=pair.reached,
        n_trials=n_trials,
    )


class _Attack:
    def __init__(
        self,
        case: Case,
        adversary: Adversary,
        transcript: RecordedRun,
        pair: Neighbours,
        factors: Mapping[str, float],
    ) -> None:
        self._adversary, self._transcript, self._factors = adversary, transcript, factors
        background = case.numbers(0)[VICTIM]
        self._records = [case.records(np.vstack([unit, background[1:]])) for unit in (pair.first, pair.second)]

    def scores(self, n_trials: int, *, moved: bool, noise: Callable[[int], NoiseSource]) -> FloatArray:
        """Return the score of every trial, added up over the releases."""
        total = np.zeros(n_trials)
        for number in range(len(self._transcript.requests)):
            total += self._of_release(number, n_trials, moved, noise)
        return total

    def _of_release(self, number: int, n_trials: int, moved: bool, noise: Callable[[int], NoiseSource]) -> FloatArray:
        request, terms = self._transcript.requests[number], self._transcript.terms
        steps = [self._steps(number, records) for records in self._records]
        room = max(1, _ENTRIES // steps[0].size)
        parts = []
        for batch, begin in enumerate(range(0, n_trials, room)):
            stage = ProtocolRun(
                self._adversary, terms, request, noise=noise(batch).child(number), factors=self._factors
            )
            held = stage.run(steps[moved], min(room, n_trials - begin))
            parts.append(scores(self._adversary, request.plan, held, steps[1] - steps[0]))
        return np.concatenate(parts)

    def _steps(self, number: int, records: Records) -> IntArray:
        """Return the victim's weighted total on the grid, as its site computes it."""
        total = self._transcript.statistics[number].total(records) * self._transcript.terms.coefficient(VICTIM)
        return on_grid(total, self._transcript.requests[number].plan.step)
