"""Runs of the real protocol code on many copies of a release at once.

Noise is independent across coordinates, so one run on a vector repeated N times gives N views of the release. The other
sites contribute 0: their contributions are constants that the adversary may know anyway.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from dpcape.audit.adversaries import Adversary
from dpcape.core import messages as m
from dpcape.core.arrays import IntArray
from dpcape.core.noise import NoiseSource
from dpcape.core.privacy.calibration import ReleaseNoise
from dpcape.core.privacy.terms import Terms
from dpcape.core.protocols.dealt_noise import DEALER
from dpcape.core.protocols.noise_dealer import NoiseDealer
from dpcape.core.secure_sum.identity import Identity


@dataclass
class Observed:
    """View of the adversary after a run, in grid steps.

    Attributes
    ----------
    releases : dict
        Vector that the aggregator reads from each site.
    sums : dict
        Sums that the aggregator reads, by purpose.
    drawn : dict
        Noise of colluding sites, by site and purpose ("draw" or "own").
    """

    releases: dict[str, IntArray] = field(default_factory=dict)
    sums: dict[str, IntArray] = field(default_factory=dict)
    drawn: dict[tuple[str, str], IntArray] = field(default_factory=dict)  # (site, "draw" or "own")

    def read(self, what: str, site: str, vector: IntArray) -> None:
        """Store a vector that the coordinator read."""
        if what == "release":
            self.releases[site] = vector
        else:
            self.sums[what] = vector


class WatchedNoise(NoiseSource):
    """Noise source that records the draws of some sites and can reduce the scale of noise.

    Parameters
    ----------
    inner : NoiseSource
        Source that draws the noise.
    observed : Observed
        View to which draws are added.
    watched : collection of str
        Sites whose draws are recorded.
    factors : mapping
        Fraction of the scale to keep, by purpose ("own", "draw", "dealer"); an audit must detect a fraction below 1.
    labels : tuple of str or int
        Labels of this source.
    """

    replayable: ClassVar[bool] = False

    def __init__(
        self,
        inner: NoiseSource,
        *,
        observed: Observed,
        watched: Collection[str],
        factors: Mapping[str, float],
        labels: tuple[str | int, ...] = (),
    ) -> None:
        self._inner, self._observed, self._watched = inner, observed, watched
        self._factors, self._labels = factors, labels

    def child(self, *labels: str | int) -> WatchedNoise:
        return WatchedNoise(
            self._inner.child(*labels),
            observed=self._observed,
            watched=self._watched,
            factors=self._factors,
            labels=self._labels + labels,
        )

    def _stream(self) -> Any:
        return self._inner._stream()

    def integer_gaussian(self, scale: float, size: int) -> IntArray:
        purpose = next((str(label) for label in self._labels if label in ("own", "draw", DEALER)), "")
        drawn = self._inner.integer_gaussian(scale * self._factors.get(purpose, 1.0), size)
        if self._labels[0] in self._watched:
            # A copy: a site overwrites its draws once they are used.
            self._observed.drawn[str(self._labels[0]), purpose] = drawn.copy()
        return drawn


class _RepeatedContext:
    """Site context for audits: the same total, repeated once per trial."""

    def __init__(self, name: str, stage: ProtocolRun, steps: IntArray) -> None:
        self.name, self.terms = name, stage.terms
        self.identity = stage.signers[name]
        self.pinned: Mapping[str, bytes] = stage.pinned
        self._stage, self._steps = stage, steps

    def begin(self, request: m.Request) -> ReleaseNoise:
        return self._stage.plan

    def size(self, request: m.Request) -> int:
        return self._steps.size

    def steps(self, request: m.Request) -> IntArray:
        return self._steps.copy()

    def noise(self, *labels: str | int) -> NoiseSource:
        return self._stage.noise.child(self.name, *labels)


class ProtocolRun:
    """Run of a protocol's release; also the transport between the coordinator and the sites.

    Parameters
    ----------
    adversary : Adversary
        Protocol, colluding and lost sites.
    terms : Terms
        Terms of the analysis.
    request : Request
        Request for the release.
    noise : NoiseSource
        Source of all noise.
    factors : mapping
        Fraction of the noise scale to keep, by purpose.
    """

    def __init__(
        self,
        adversary: Adversary,
        terms: Terms,
        request: m.Request,
        *,
        noise: NoiseSource,
        factors: Mapping[str, float],
    ) -> None:
        self.terms, self.plan, self._request = terms, request.plan, request
        self._adversary = adversary
        self.observed = Observed()
        self.noise = WatchedNoise(noise, observed=self.observed, watched=adversary.colluding, factors=factors)
        self.signers = {name: Identity.generate() for name in (*terms.sites, DEALER)}
        self.pinned = {name: signer.public for name, signer in self.signers.items()}
        self._dealer = NoiseDealer(self.signers[DEALER], self.noise)
        self._dealer.pin(self.pinned)

    def run(self, victim_steps: IntArray, n_trials: int) -> Observed:
        """Run the release on ``n_trials`` copies and return the adversary's view."""
        repeated = np.tile(victim_steps, n_trials)
        zeros = np.zeros_like(repeated)
        protocol = self._adversary.protocol
        self._roles = {
            name: protocol.site_role(
                _RepeatedContext(name, self, repeated if name == self._adversary.victim else zeros)
            )
            for name in self.terms.sites
        }
        coordinator = protocol.coordinator(self, self.terms)
        coordinator.on_read = self.observed.read
        coordinator.run(self._request, self.plan, repeated.size)
        return self.observed

    @property
    def identities(self) -> Mapping[str, bytes]:
        """Public keys of the sites."""
        return self.pinned

    @property
    def keys(self) -> Mapping[str, bytes]:
        """Encryption keys of the sites."""
        return {name: role.key() for name, role in self._roles.items()}

    @property
    def dealer(self) -> str:
        """Name of the noise dealer."""
        return DEALER

    def ask(self, messages: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Deliver messages to the sites; lost sites do not answer requests for their release."""
        replies, missing = {}, []
        for name, message in messages.items():
            if name in self._adversary.lost and isinstance(message, m.Submit):
                missing.append(name)
            elif name == DEALER:
                replies[name] = m.decode_from_site(self._dealer.answer(m.encode(message)))[1]
            else:
                replies[name] = self._roles[name].answer(message)
        return replies, tuple(missing)
