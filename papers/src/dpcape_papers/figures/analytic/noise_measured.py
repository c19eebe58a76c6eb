"""Measurement of noise in real runs: the private mean of rows of zeros consists only of noise."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from dpcape.core.noise import Replay
from dpcape.core.privacy.gaussian import epsilon_of
from dpcape.core.protocols.protocol import Protocol
from dpcape.federation.federation import Federation
from dpcape.records import rows
from dpcape.site.in_process import in_process
from dpcape.statistics.moments import first_moments
from dpcape.transport.transport import Transport

# A mu is converted to an epsilon at this delta; any other delta would describe the same noise.
_DELTA = 1e-6


class LosingLine(Transport):
    """A transport that loses one site when releases are requested, after the noise was agreed."""

    def __init__(self, inner: Transport, lost: str) -> None:
        self._inner, self._lost, self._turn = inner, lost, 0

    @property
    def sites(self) -> tuple[str, ...]:
        return self._inner.sites

    def ask(
        self, messages_by_site: Mapping[str, bytes], deadline: float | None
    ) -> tuple[dict[str, bytes], tuple[str, ...]]:
        from dpcape.core.messages import Submit, decode_to_site

        if any(isinstance(decode_to_site(data)[1], Submit) for data in messages_by_site.values()):
            self._turn = 1
        gone = [name for name in messages_by_site if self._turn and name == self._lost]
        kept = {name: data for name, data in messages_by_site.items() if name not in gone}
        replies, missing = self._inner.ask(kept, deadline)
        return replies, (*missing, *gone)


def noise_variance(
    protocol: Protocol,
    sizes: Mapping[str, int],
    *,
    mu: float,
    seed: int,
    width: int,
    weights: Mapping[str, float] | None = None,
    lose: str | None = None,
) -> float:
    """Return the noise variance of a private mean, measured over ``width`` coordinates of one real run."""
    held = {name: rows(np.zeros((size, width)), bound=1.0) for name, size in sizes.items()}
    line: Transport = in_process(held, noise=Replay(seed))
    federation = Federation(line if lose is None else LosingLine(line, lose), protocol=protocol, weights=weights)
    private = federation.allow(epsilon_of(_DELTA, mu), _DELTA)
    mean, _ = private.mean(first_moments(federation.facts))
    return float(np.mean(np.square(mean)))


def equal_sizes(n_sites: int, each: int = 20) -> dict[str, int]:
    """Return sites of equal size."""
    return {f"site-{index:02}": each for index in range(n_sites)}


def geometric_sizes(n_sites: int, ratio: float, smallest: int) -> list[int]:
    """Return sizes that grow by a constant factor, the largest ``ratio`` times the smallest."""
    return [round(smallest * ratio ** (index / (n_sites - 1))) for index in range(n_sites)]


def standard_error(width: int, n_runs: int) -> float:
    """Return the relative standard error of a ratio of two measured variances."""
    return math.sqrt(4 / (width * n_runs))
