"""No two draws of a replayed run come from one key: labels tell sites, allowances, releases and attempts apart.

A source that repeated its labels in the next release would give the same noise twice, and the difference of two
releases would be exact.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from dpcape import Cape, Dealer, Federation, Independent, SecureSum, in_process, rows
from dpcape.core.noise import NoiseSource, Replay
from dpcape.core.protocols.protocol import Protocol
from dpcape.statistics.moments import first_moments

from .lines import Loss, example_rows, line_of

SITES = ("lima", "lyon", "oslo", "rome")
N_ALLOWANCES, N_RELEASES = 3, 4
PROTOCOLS: list[Protocol] = [
    Independent(),
    Cape(n_colluding=1),
    SecureSum(n_colluding=1),
    Dealer(n_colluding=1),
]


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """The labels of every draw, with how often the source was used before."""
    seen: list[tuple[object, ...]] = []
    real = NoiseSource.integer_gaussian

    def spy(self: Replay, scale: float, size: int) -> np.ndarray:
        seen.append((*self.labels, "call", self._n_calls))
        return real(self, scale, size)

    monkeypatch.setattr(NoiseSource, "integer_gaussian", spy)
    return seen


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: protocol.name)
def test_labels_differ_across_sites_allowances_and_releases(
    protocol: Protocol, drawn: list[tuple[object, ...]]
) -> None:
    held = {site: rows(np.full((20, 3), 0.1), bound=1.0) for site in SITES}
    federation = Federation(in_process(held, noise=Replay(5)), protocol=protocol)
    means = []
    for _ in range(N_ALLOWANCES):
        private = federation.allow(1.0, 1e-5, shares=(1 / N_RELEASES,) * N_RELEASES)
        means += [private.mean(first_moments(federation.facts)) for _ in range(N_RELEASES)]
    per_release = len(SITES) * (2 if protocol.name in ("cape", "dealer") else 1)
    assert len(drawn) == N_ALLOWANCES * N_RELEASES * per_release
    assert Counter(drawn).most_common(1)[0][1] == 1
    # The same records under other noise each time.
    released = np.array([np.concatenate([np.ravel(part) for part in np.atleast_1d(mean)]) for mean in means])
    assert len({row.tobytes() for row in released}) == len(means)


def test_labels_differ_across_attempts_at_one_release(drawn: list[tuple[object, ...]]) -> None:
    losses = [Loss("site00", "Draw"), Loss("site03", "Draw", nth=1)]
    line = line_of(example_rows(5), losses)
    federation = Federation(line, protocol=Cape(n_colluding=0, minimum_sites=3))
    federation.allow(1.0, 1e-5).mean(first_moments(federation.facts))
    attempts = Counter(label[:-2] for label in drawn if "draw" in label)
    assert sum(attempts.values()) > 5
    assert max(attempts.values()) == 1
