"""Audit of an analysis: run it, search for the worst neighbours, attack, and bound epsilon."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache

import numpy as np

from dpcape.audit.adversaries import Adversary
from dpcape.audit.attack import scores
from dpcape.audit.bounds import lower_bounds
from dpcape.audit.cases import Case
from dpcape.audit.neighbours import Neighbours, worst_pair
from dpcape.audit.protocol_run import ProtocolRun
from dpcape.audit.recorded_run import RecordedRun, run_once
from dpcape.core.arrays import FloatArray, IntArray
from dpcape.core.enclosed import IN_THIS_PROCESS
from dpcape.core.errors import ProtocolError
from dpcape.core.messages import Agreed, Open, decode_from_site, encode
from dpcape.core.noise import NoiseSource, OsNoise
from dpcape.core.privacy.ledger import Ledger
from dpcape.core.protocols.dealt_noise import DEALER
from dpcape.core.protocols.protocol import Protocol
from dpcape.core.secure_sum.identity import Identity
from dpcape.core.site import Site
from dpcape.records.kinds import Records
from dpcape.site.statistic_laws import require_laws

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
    transcript, pair, steps = _prepared(case, adversary.protocol, epsilon, delta, seed)
    attack = Attack(adversary, transcript, steps, factors=factors or {})
    still = attack.scores(n_trials, moved=False, noise=lambda k: noise(2 * k))
    moved = attack.scores(n_trials, moved=True, noise=lambda k: noise(2 * k + 1))
    bounds = lower_bounds(still, moved, delta=delta, alpha=ALPHA)
    guarantee = transcript.guarantee
    return AuditResult(
        analysis=case.name,
        adversary=adversary.name,
        status=guarantee.status,
        n_releases=len(transcript.requests),
        claimed_epsilon=guarantee.sites[adversary.victim].epsilon,
        delta=delta,
        epsilon=bounds.epsilon,
        gaussian_epsilon=bounds.gaussian_epsilon,
        reached=pair.reached,
        n_trials=n_trials,
    )


# Cached: several adversaries attack the same run, also with reduced noise.
@lru_cache(maxsize=16)
def _prepared(
    case: Case, protocol: Protocol, epsilon: float, delta: float, seed: int
) -> tuple[RecordedRun, Neighbours, list[tuple[IntArray, IntArray]]]:
    """Return one run of an analysis, the worst neighbours for its releases, and the totals with either of them."""
    transcript = run_once(case, protocol, epsilon=epsilon, delta=delta, seed=seed)
    pair = worst_pair(case, transcript, seed=seed)
    return transcript, pair, victim_steps(case, transcript, pair)


def victim_steps(case: Case, transcript: RecordedRun, pair: Neighbours) -> list[tuple[IntArray, IntArray]]:
    """Return the victim's weighted totals on the grid, one pair per release, as a real site computes them."""
    others = case.numbers(0)[case.victim][1:]
    totals = [
        _steps(case.victim, case.records(np.vstack([unit, others])), transcript) for unit in (pair.first, pair.second)
    ]
    return list(zip(*totals, strict=True))


def _steps(name: str, records: Records, transcript: RecordedRun) -> list[IntArray]:
    identity = Identity.generate()
    site = Site(
        name,
        records,
        ledger=Ledger(),
        identity=identity,
        noise=OsNoise(),
        contributor=IN_THIS_PROCESS,
        laws=require_laws,
    )
    others = {other: Identity.generate().public for other in (*transcript.terms.sites, DEALER)}
    site.pin({**others, name: identity.public})
    _, reply = decode_from_site(site.answer(encode(Open(terms=transcript.terms), allowance=transcript.terms.allowance)))
    if not isinstance(reply, Agreed):
        raise ProtocolError("The audit failed", f"the site {name} did not open an allowance")
    context = site.context(transcript.terms.allowance)
    return [context.steps(request) for request in transcript.requests]


class Attack:
    """Releases repeated through the halves of a protocol, with either unit, and the adversary's best test.

    Parameters
    ----------
    steps : list of pairs
        The victim's totals on the grid with either unit, one pair per release.
    most_entries : int or None
        Most coordinates attacked per release; those in which the totals differ most. An adversary may ignore the
        others: noise is independent between coordinates. None: all that differ.
    progress : callable or None
        Called after each release.
    """

    def __init__(
        self,
        adversary: Adversary,
        transcript: RecordedRun,
        steps: list[tuple[IntArray, IntArray]],
        *,
        factors: Mapping[str, float],
        most_entries: int | None = None,
        progress: Callable[[], None] | None = None,
    ) -> None:
        self._adversary, self._transcript, self._factors = adversary, transcript, factors
        self._progress = progress
        self.steps = [_largest(still, moved, most_entries) for still, moved in steps]

    def scores(self, n_trials: int, *, moved: bool, noise: Callable[[int], NoiseSource]) -> FloatArray:
        """Return the score of every trial, added up over the releases."""
        total = np.zeros(n_trials)
        for number in range(len(self._transcript.requests)):
            total += self._of_release(number, n_trials, moved, noise)
            if self._progress is not None:
                self._progress()
        return total

    def _of_release(self, number: int, n_trials: int, moved: bool, noise: Callable[[int], NoiseSource]) -> FloatArray:
        request, terms = self._transcript.requests[number], self._transcript.terms
        steps = self.steps[number]
        room = max(1, _ENTRIES // steps[0].size)
        batches = []
        for batch, begin in enumerate(range(0, n_trials, room)):
            stage = ProtocolRun(
                self._adversary, terms, request, noise=noise(batch).child(number), factors=self._factors
            )
            observed = stage.run(steps[moved], min(room, n_trials - begin))
            batches.append(scores(self._adversary, request.plan, observed, steps[1] - steps[0]))
        return np.concatenate(batches)


def _largest(still: IntArray, moved: IntArray, most: int | None) -> tuple[IntArray, IntArray]:
    """Return the coordinates of two vectors in which they differ most, in their order."""
    # Coordinates that are the same have no weight in the test: they would cost noise and change no score. One is kept
    # where all are the same.
    n_apart = max(1, int(np.count_nonzero(moved != still)))
    n_kept = n_apart if most is None else min(most, n_apart)
    chosen = np.sort(np.argsort(-np.abs(moved - still), kind="stable")[:n_kept])
    return still[chosen], moved[chosen]
