"""The audit of a study: its own analysis, protocol, sites, epsilon and delta, on synthetic records."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

import numpy as np

from dpcape.audit.adversaries import Adversary, strongest
from dpcape.audit.audit import ALPHA, Attack, victim_steps
from dpcape.audit.bounds import lower_bounds
from dpcape.audit.cases import Case
from dpcape.audit.messages import differences, sent_by_sites
from dpcape.audit.neighbours import Neighbours, worst_pair
from dpcape.audit.recorded_run import RecordedRun, run_once
from dpcape.audit.study_case import replaced, study_case
from dpcape.core.arrays import FloatArray
from dpcape.core.errors import InvalidParameter
from dpcape.core.noise import NoiseSource
from dpcape.core.privacy.gaussian import epsilon_of, mu_of
from dpcape.site.pair_search import Effort
from dpcape.study.study import Study

TRIALS = 50_000
# Coordinates times trials attacked per side and adversary: about a minute.
_WORK = 20_000_000
# Entries of all releases together; larger ones do not fit the search.
_LARGEST = 2_000_000
# Events of probability delta that must be expected for hits and false alarms to be counted at delta.
_EXPECTED = 100
# Units of the victim's site in the search besides the one that varies. Code that mixes records shows only among many
# records (8 were too few for one that scales by the block's largest value); whole subjects are slow.
_BACKGROUND = {"record": 60, "subject": 8}
Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class StudyAudit:
    """What the audit of a study found against one adversary.

    Attributes
    ----------
    study, digest, site, adversary : str
        What was attacked, and the site whose unit was replaced.
    claimed_epsilon, delta : float
        What the guarantee says of that site.
    gaussian_epsilon : float
        Lower bound on epsilon at the study's delta, from the largest mu the trials exclude.
    tested_delta, claimed_at_tested, epsilon : float
        Delta at which hits and false alarms were counted, what the guarantee says there, and the lower bound that
        follows from counts alone. Larger than the study's delta where that would need more trials.
    tightness : float
        ``gaussian_epsilon / claimed_epsilon``.
    reached : float
        Part of the allowed mu that the pair of records found uses, in the coordinates attacked.
    messages : tuple of str
        Replies other than noisy vectors that differ between neighbouring data sets.
    alpha : float
        Probability of a false alarm.
    """

    study: str
    digest: str
    site: str
    adversary: str
    status: str
    unit: str
    n_releases: int
    n_trials: int
    claimed_epsilon: float
    delta: float
    gaussian_epsilon: float
    tested_delta: float
    claimed_at_tested: float
    epsilon: float
    reached: float
    messages: tuple[str, ...]
    alpha: float = ALPHA

    @property
    def tightness(self) -> float:
        """Epsilon reached by the attack, as a part of what is claimed."""
        return self.gaussian_epsilon / self.claimed_epsilon

    @property
    def refuted(self) -> bool:
        """Whether the guarantee was found false."""
        return (
            bool(self.messages) or self.gaussian_epsilon > self.claimed_epsilon or self.epsilon > self.claimed_at_tested
        )

    def to_dict(self) -> dict[str, object]:
        """Return plain values."""
        return {**asdict(self), "tightness": self.tightness, "refuted": self.refuted}


def audit_study(
    study: Study,
    *,
    noise: Callable[[int], NoiseSource],
    n_trials: int = TRIALS,
    site: str | None = None,
    seed: int = 1,
    factors: Mapping[str, float] | None = None,
    progress: Progress | None = None,
) -> list[StudyAudit]:
    """Attack a study on synthetic records of its declared shape; return one finding per adversary.

    The study runs once through real sites. A search finds the two records whose exchange moves the victim's totals
    most. Its releases are repeated through both halves of the protocol with either record, and the adversary's best
    test tells them apart. All replies except noisy vectors are compared between neighbouring data sets.

    Parameters
    ----------
    noise : callable
        ``noise(k)`` returns the source of the k-th batch of trials.
    site : str or None
        Site of the unit that is attacked; None for the first site.
    factors : mapping or None
        Fractions of the noise to leave ("own", "draw", "dealer"), to confirm that the audit detects it.
    progress : callable or None
        Called with what is being done and the part that is finished.
    """
    tell = progress or (lambda words, part: None)
    protocol = study.protocol()
    if not protocol.adds_noise:
        raise InvalidParameter("protocol", "add noise to be audited", f"{protocol.name!r}, which guarantees nothing")
    case = study_case(study, site=site)
    tell("running the study on synthetic records", 0.0)
    transcript = run_once(case, protocol, epsilon=0.0, delta=study.delta, seed=seed)
    _require_feasible(transcript)
    tell("searching for the records that differ most", 0.1)
    pair = worst_pair(case, transcript, seed=seed, effort=_effort(transcript), background=_BACKGROUND[study.data.unit])
    tell("comparing messages between neighbours", 0.3)
    messages = compared_messages(case, study, pair, seed=seed)
    steps = victim_steps(case, transcript, pair)
    findings = []
    adversaries = strongest(protocol, study.sites, case.victim)
    for number, adversary in enumerate(adversaries):
        n_steps = 2 * len(transcript.requests) * len(adversaries)
        counter = _Counter(tell, f"attacking: {adversary.name}", 0.4 + 0.6 * number / len(adversaries), 0.6 / n_steps)
        most = max(1, _WORK // (n_trials * len(transcript.requests)))
        attack = Attack(adversary, transcript, steps, factors=factors or {}, most_entries=most, progress=counter)
        still = attack.scores(n_trials, moved=False, noise=lambda k: noise(2 * k))
        moved = attack.scores(n_trials, moved=True, noise=lambda k: noise(2 * k + 1))
        findings.append(_finding(study, adversary, transcript, attack, still, moved, messages))
    return findings


def compared_messages(case: Case, study: Study, pair: Neighbours, *, seed: int) -> tuple[str, ...]:
    """Return replies other than noisy vectors that differ between neighbouring data sets."""
    numbers = case.numbers(seed)
    units = (pair.first, pair.second, np.zeros(case.n_numbers), np.full(case.n_numbers, 1e3))
    sent = [
        sent_by_sites(case, study.protocol(), replaced(case, numbers, unit), seed=seed, epsilon=0.0, delta=study.delta)
        for unit in units
    ]
    return tuple(dict.fromkeys(text for other in sent[1:] for text in differences(sent[0], other)))


def _finding(
    study: Study,
    adversary: Adversary,
    transcript: RecordedRun,
    attack: Attack,
    still: FloatArray,
    moved: FloatArray,
    messages: tuple[str, ...],
) -> StudyAudit:
    guarantee = transcript.guarantee
    claimed = guarantee.sites[adversary.victim].epsilon
    n_trials = len(still)
    tested = max(study.delta, min(0.1, _EXPECTED / n_trials))
    counted = lower_bounds(still, moved, delta=tested, alpha=ALPHA / 2)
    return StudyAudit(
        study=study.name,
        digest=study.digest(),
        site=adversary.victim,
        adversary=adversary.name,
        status=guarantee.status,
        unit=guarantee.unit,
        n_releases=len(transcript.requests),
        n_trials=n_trials,
        claimed_epsilon=claimed,
        delta=study.delta,
        gaussian_epsilon=lower_bounds(still, moved, delta=study.delta, alpha=ALPHA / 2).gaussian_epsilon,
        tested_delta=tested,
        claimed_at_tested=claimed if tested == study.delta else epsilon_of(tested, mu_of(claimed, study.delta)),
        epsilon=counted.epsilon,
        reached=_reached(transcript, attack, adversary.victim),
        messages=messages,
    )


def _reached(transcript: RecordedRun, attack: Attack, victim: str) -> float:
    """Return the part of the allowed mu that the attacked coordinates use."""
    mus = np.array([request.plan.mus[victim] for request in transcript.requests])
    moved = [
        float(np.linalg.norm((second - first).astype(float))) * request.plan.step / statistic.diameter
        for (first, second), request, statistic in zip(
            attack.steps, transcript.requests, transcript.statistics, strict=True
        )
    ]
    parts = mus * np.array(moved) / abs(transcript.terms.coefficient(victim))
    return float(np.linalg.norm(parts) / np.linalg.norm(mus))


def _require_feasible(transcript: RecordedRun) -> None:
    size = sum(statistic.released_size for statistic in transcript.statistics)
    if size > _LARGEST:
        must = f"hold at most {_LARGEST} numbers to be audited"
        remedy = "Audit a copy of the study with fewer columns: the arithmetic is the same."
        raise InvalidParameter("the releases of a study", must, size, remedy)


def _effort(transcript: RecordedRun) -> Effort:
    """Return how long to search: less where totals are large."""
    size = sum(statistic.released_size for statistic in transcript.statistics)
    part = min(1.0, math.sqrt(20_000 / max(1, size)))
    return Effort(
        n_candidates=max(20, int(240 * part)), n_rounds=max(4, int(24 * part)), n_steps=max(4, int(24 * part))
    )


class _Counter:
    """Tells how far an attack is, one release after the other."""

    def __init__(self, tell: Progress, words: str, begin: float, step: float) -> None:
        self._tell, self._words, self._progress, self._step = tell, words, begin, step

    def __call__(self) -> None:
        self._progress += self._step
        self._tell(self._words, self._progress)
