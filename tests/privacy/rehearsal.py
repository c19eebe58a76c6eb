"""Real coordinators and site halves, run once on a vector whose every coordinate is one independent trial.

The noise of a release is independent from coordinate to coordinate, so one run of length N shows N times what an
adversary sees of a release of length one. Sites hold the statistic 0, except the victim, which holds the same amount in
every coordinate.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcape import Replay, rows
from dpcape import messages as m
from dpcape.noise import NoiseSource
from dpcape.privacy.calibrate import Plan, plan_release
from dpcape.privacy.terms import Terms
from dpcape.protocols import Protocol
from dpcape.protocols.dealer import DEALER, NoiseDealer
from dpcape.secure_sum import Identity, RecoverRound, from_ring
from dpcape.statistics import second_moment

Rows = NDArray[np.float64]
Integers = NDArray[np.int64]


class Weakened(Replay):
    """Replayable noise at a fraction of the scale that was asked for: what an audit must notice."""

    def __init__(self, seed: int, factors: Mapping[str, float]) -> None:
        super().__init__(seed)
        self.factors = dict(factors)

    def child(self, *labels: str | int) -> Weakened:
        plain = super().child(*labels)
        source = Weakened(self.seed, self.factors)
        source.labels, source._key = plain.labels, plain._key
        return source

    def integer_gaussian(self, scale: float, size: int) -> Integers:
        kind = next((label for label in self.labels if label in self.factors), "")
        return super().integer_gaussian(scale * self.factors.get(str(kind), 1.0), size)


@dataclass
class Trials:
    """What the adversary holds after a run, in grid steps: one column per trial."""

    plan: Plan
    opened: dict[str, Integers]
    sums: list[Integers]
    agreed: Integers | None


def terms_for(protocol: Protocol, names: Collection[str], *, epsilon: float, delta: float) -> Terms:
    """Return terms of one release of a statistic of length one."""
    return Terms(
        allowance="rehearsal",
        settings=protocol.settings(len(names)),
        epsilons=dict.fromkeys(names, epsilon),
        delta=delta,
        shares=(1.0,),
        n_records=dict.fromkeys(names, 10),
        weights={},
        facts=rows(np.zeros((1, 1)), bound=1.0).facts().shape_facts(),
    )


class _Guard:
    """Hands a site half its plan and a statistic that is the same in every coordinate."""

    def __init__(self, name: str, stage: Rehearsal, steps: int) -> None:
        self.name, self.terms = name, stage.terms
        self.identity, self.pinned = stage.signers[name], stage.pinned
        self._stage, self._steps = stage, steps

    def begin(self, request: m.Request) -> Plan:
        return self._stage.plan

    def size(self, request: m.Request) -> int:
        return self._stage.n_trials

    def steps(self, request: m.Request) -> Integers:
        return np.full(self._stage.n_trials, self._steps, dtype=np.int64)

    def noise(self, *labels: str | int) -> NoiseSource:
        return self._stage.noise.child(self.name, *labels)


class Rehearsal:
    """One run of a protocol; also the coordinator's line to the site halves."""

    def __init__(
        self,
        protocol: Protocol,
        terms: Terms,
        *,
        noise: Replay,
        n_trials: int,
        victim: str,
        moved: bool,
        lost_at_release: Collection[str] = (),
    ) -> None:
        self.terms, self.noise, self.n_trials = terms, noise, n_trials
        statistic = second_moment(terms.facts)
        assert statistic.size == 1
        self.plan = plan_release(terms, 0, statistic, protocol)
        self.signers = {name: Identity.generate() for name in (*terms.sites, DEALER)}
        self.pinned = {name: signer.public for name, signer in self.signers.items()}
        shift = int(self.plan.output_sensitivities[victim] / self.plan.step)
        self._halves = {
            name: protocol.site_half(_Guard(name, self, shift if moved and name == victim else 0))
            for name in terms.sites
        }
        self._dealer = NoiseDealer(self.signers[DEALER], noise)
        self._dealer.pin(self.pinned)
        self._lost = set(lost_at_release)
        self._agreed: Integers | None = None
        self._coordinator = protocol.coordinator(self, terms)
        self._request = m.Request(release=0, statistic=statistic.name, public={}, plan=self.plan)

    @property
    def identities(self) -> Mapping[str, bytes]:
        return self.pinned

    @property
    def keys(self) -> Mapping[str, bytes]:
        return {name: half.key() for name, half in self._halves.items()}

    @property
    def dealer(self) -> str:
        return DEALER

    def ask(self, messages: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
        replies, missing = {}, []
        for name, message in messages.items():
            if isinstance(message, m.Submit) and message.agreed is not None:
                self._agreed = np.array(message.agreed.decode())
            if name in self._lost and isinstance(message, m.Submit):
                missing.append(name)
            elif name == DEALER:
                data = self._dealer.answer(m.encode(message))
                replies[name] = m.decode_from_site(data)[1]
            else:
                replies[name] = self._halves[name].answer(message)
        return replies, tuple(missing)

    def run(self) -> Trials:
        """Run the release, keeping what the coordinator opens on the way."""
        opened: dict[str, Integers] = {}
        sums: list[Integers] = []
        with pytest.MonkeyPatch.context() as patch:
            _keep(patch, opened, sums)
            self._coordinator.run(self._request, self.plan, self.n_trials)
        return Trials(self.plan, opened, sums, self._agreed)

    def draw(self, name: str) -> Integers:
        """Repeat a site's cancelling draw: what a colluding site knows."""
        source = self.noise.child(name, "draw", 0, 0)
        return source.integer_gaussian(self.plan.shared_steps(name), self.n_trials)


def _keep(patch: pytest.MonkeyPatch, opened: dict[str, Integers], sums: list[Integers]) -> None:
    releases, total = RecoverRound.releases, RecoverRound.total

    def kept_releases(round_: RecoverRound) -> Any:
        found = releases(round_)
        opened.update({name: from_ring(words) for name, words in found.items()})
        return found

    def kept_total(round_: RecoverRound) -> Any:
        found = total(round_)
        sums.append(from_ring(found))
        return found

    def kept_sum(replies: Mapping[str, m.Vector], size: int) -> Integers:
        opened.update({name: np.array(reply.array.decode()) for name, reply in replies.items()})
        return np.sum(list(opened.values()), axis=0)

    patch.setattr(RecoverRound, "releases", kept_releases)
    patch.setattr(RecoverRound, "total", kept_total)
    for module in ("dealer", "independent"):
        patch.setattr(f"dpcape.protocols.{module}.sum_releases", kept_sum)
