"""One run of an analysis on synthetic records, with all its requests."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass

from dpcape.audit.cases import Case
from dpcape.core.errors import UtilityWarning
from dpcape.core.messages import Draw, Open, Request, Submit, decode_public, decode_to_site
from dpcape.core.noise import Replay
from dpcape.core.privacy.terms import Terms
from dpcape.core.protocols.protocol import Protocol
from dpcape.core.statistic import AnyStatistic, build
from dpcape.guarantee.guarantee import Guarantee
from dpcape.site.in_process import in_process
from dpcape.transport.transport import Passing, Transport


@dataclass(frozen=True)
class RecordedRun:
    """Record of a run.

    Attributes
    ----------
    terms : Terms
        Terms of the analysis.
    requests : tuple of Request
        Requests to the sites, in order.
    statistics : tuple of Statistic
        Statistics that the requests name.
    guarantee : Guarantee
        Guarantee of the result.
    """

    terms: Terms
    requests: tuple[Request, ...]
    statistics: tuple[AnyStatistic, ...]
    guarantee: Guarantee


def run_once(case: Case, protocol: Protocol, *, epsilon: float, delta: float, seed: int) -> RecordedRun:
    """Fit the analysis to synthetic records and return its requests.

    Later requests may depend on earlier results. An audit repeats the requests of this run: a guarantee for adaptively
    chosen requests also covers requests that are fixed in advance.
    """
    sites = in_process(
        {name: case.records(numbers) for name, numbers in case.numbers(seed).items()}, noise=Replay(seed)
    )
    listener = _Listener(sites)
    with warnings.catch_warnings():
        # Results of so few records are poor; they are not used.
        warnings.simplefilter("ignore", UtilityWarning)
        model = case.make(epsilon, delta).fit(case.federation(listener, protocol))
    terms, requests = listener.heard()
    position = terms.sites.index(case.victim)
    statistics = tuple(
        build(request.statistic, terms.facts, decode_public(request.public)).at(position) for request in requests
    )
    return RecordedRun(terms, requests, statistics, model.guarantee_)


class _Listener(Passing):
    """Transport that forwards messages and records the requests."""

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
        """Return the terms and the requests, in order."""
        assert self._terms is not None
        return self._terms, tuple(self._requests[number] for number in sorted(self._requests))
