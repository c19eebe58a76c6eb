"""One real run of an analysis, and everything it asked the sites for."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass

from dpcape.audit.cases import Case
from dpcape.errors import UtilityWarning
from dpcape.federation import Federation
from dpcape.guarantee.guarantee import Guarantee
from dpcape.noise import Replay
from dpcape.privacy.terms import Terms
from dpcape.protocols import Protocol
from dpcape.site.in_process import in_process
from dpcape.statistics import build
from dpcape.statistics.statistic import AnyStatistic
from dpcape.transport.messages import Draw, Open, Request, Submit, decode_public, decode_to_site
from dpcape.transport.transport import Passing, Transport


@dataclass(frozen=True)
class RecordedRun:
    """Terms and requests of a run, the statistics they name, and what was promised."""

    terms: Terms
    requests: tuple[Request, ...]
    statistics: tuple[AnyStatistic, ...]
    guarantee: Guarantee


def run_once(case: Case, protocol: Protocol, *, epsilon: float, delta: float, seed: int) -> RecordedRun:
    """Fit the analysis to made-up records and write down what the sites were asked.

    Later requests may depend on earlier answers. An audit keeps them as they were in this run: a promise for requests
    chosen as one goes along covers requests fixed beforehand.
    """
    sites = in_process(
        {name: case.records(numbers) for name, numbers in case.numbers(seed).items()}, noise=Replay(seed)
    )
    listener = _Listener(sites)
    with warnings.catch_warnings():
        # At this size results are poor, and nobody looks at them.
        warnings.simplefilter("ignore", UtilityWarning)
        model = case.make(epsilon, delta).fit(Federation(listener, protocol=protocol, weights=case.weights))
    terms, requests = listener.heard()
    statistics = tuple(build(request.statistic, terms.facts, decode_public(request.public)) for request in requests)
    return RecordedRun(terms, requests, statistics, model.guarantee_)


class _Listener(Passing):
    """Passes messages on and keeps what was asked."""

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner)
        self._terms: Terms | None = None
        self._requests: dict[int, Request] = {}

    def ask(
        self, messages_by_site: Mapping[str, bytes], deadline: float | None
    ) -> tuple[dict[str, bytes], tuple[str, ...]]:
        for site in sorted(set(messages_by_site) & set(self.sites))[:1]:
            _, message = decode_to_site(messages_by_site[site])
            if isinstance(message, Open):
                self._terms = message.terms
            elif isinstance(message, Draw | Submit):
                self._requests[message.request.release] = message.request
        return super().ask(messages_by_site, deadline)

    def heard(self) -> tuple[Terms, tuple[Request, ...]]:
        """Return the terms and the requests in order."""
        assert self._terms is not None
        return self._terms, tuple(self._requests[number] for number in sorted(self._requests))
