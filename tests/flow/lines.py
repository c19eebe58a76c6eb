"""Transports for tests: one that loses chosen sites at chosen messages, and keeps what crossed the line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcape import Replay, rows
from dpcape.core.messages import FromSite, ToSite, decode_from_site, decode_to_site
from dpcape.core.privacy.calibration import ReleaseNoise
from dpcape.core.privacy.ledger import Ledger
from dpcape.core.statistic import Statistic
from dpcape.core.totals import released_total
from dpcape.site.in_process import InProcess, in_process
from dpcape.transport.transport import Transport

SEED = 4711


@dataclass(frozen=True)
class Loss:
    """Lose ``site`` at its message number ``nth`` of this kind: before it arrives, or after the site has answered.

    A lost site stays lost unless it ``returns`` with the next message.
    """

    site: str
    kind: str
    after: bool = False
    nth: int = 0
    returns: bool = False


@dataclass(frozen=True)
class Crossed:
    """One message and its reply, as bytes and decoded."""

    site: str
    data: bytes
    message: ToSite
    reply: FromSite

    @property
    def kind(self) -> str:
        return type(self.message).__name__


class LosingLine(Transport):
    """Carries messages to in-process sites, loses some, and records the rest."""

    def __init__(self, inner: InProcess, losses: Iterable[Loss] = ()) -> None:
        self.inner = inner
        self.crossed: list[Crossed] = []
        self._losses = list(losses)
        self._gone: set[str] = set()
        self._counts: dict[tuple[str, str], int] = {}

    @property
    def sites(self) -> tuple[str, ...]:
        return self.inner.sites

    @property
    def dealer(self) -> str:
        return self.inner.dealer

    def ask(
        self, messages_by_site: Mapping[str, bytes], deadline: float | None
    ) -> tuple[dict[str, bytes], tuple[str, ...]]:
        replies, missing = {}, []
        for site, data in messages_by_site.items():
            reply = self._carry(site, data, deadline)
            if reply is None:
                missing.append(site)
            else:
                replies[site] = reply
        return replies, tuple(missing)

    def of_kind(self, kind: str, site: str | None = None) -> list[Crossed]:
        return [entry for entry in self.crossed if entry.kind == kind and site in (None, entry.site)]

    def _carry(self, site: str, data: bytes, deadline: float | None) -> bytes | None:
        if site in self._gone:
            return None
        _, message = decode_to_site(data)
        kind = type(message).__name__
        count = self._counts.get((site, kind), 0)
        self._counts[site, kind] = count + 1
        loss = next((x for x in self._losses if (x.site, x.kind, x.nth) == (site, kind, count)), None)
        if loss is not None and not loss.returns:
            self._gone.add(site)
        if loss is not None and not loss.after:
            return None
        answer = self.inner.ask({site: data}, deadline)[0][site]
        self.crossed.append(Crossed(site, data, message, decode_from_site(answer)[1]))
        return None if loss is not None else answer


def example_rows(
    n_sites: int, *, n_rows: int = 30, width: int = 3, unequal: bool = False
) -> dict[str, NDArray[np.float64]]:
    """Return a small table per site, named so that order of names and of sites agree."""
    generator = np.random.default_rng(99)
    return {
        f"site{index:02d}": 0.4 * generator.normal(size=(n_rows + (7 * index if unequal else 0), width))
        for index in range(n_sites)
    }


def line_of(
    data: Mapping[str, NDArray[np.float64]], losses: Iterable[Loss] = (), *, ledgers: Mapping[str, Ledger] | None = None
) -> LosingLine:
    """Put tables on a line, with replayable noise."""
    records = {site: rows(table, bound=1.0) for site, table in data.items()}
    return LosingLine(in_process(records, ledgers=ledgers, noise=Replay(SEED)), losses)


def own_noise(plan: ReleaseNoise, site: str, size: int, *, release: int = 0, allowance: int = 0) -> NDArray[np.int64]:
    """Repeat a site's own noise of a release, in grid steps."""
    source = Replay(SEED).child(site, "allowance", allowance).child("own", release)
    return source.integer_gaussian(plan.own_steps(site), size)


def draw(plan: ReleaseNoise, site: str, size: int, *, release: int = 0, attempt: int = 0) -> NDArray[np.int64]:
    """Repeat a site's draw of cancelling noise, in grid steps."""
    source = Replay(SEED).child(site, "allowance", 0).child("draw", release, attempt)
    return source.integer_gaussian(plan.shared_steps(site), size)


def exact_steps(
    statistic: Statistic, table: NDArray[np.float64], plan: ReleaseNoise, coefficient: float = 1.0
) -> NDArray[np.int64]:
    """Return a site's weighted total on the grid, without noise."""
    total = released_total(statistic, rows(table, bound=1.0)) * coefficient
    return np.rint(total / plan.step).astype(np.int64)
