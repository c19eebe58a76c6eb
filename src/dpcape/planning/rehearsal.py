"""Rehearsal: a fit to synthetic records at simulated sites, which shows what an estimator requests.

Tests compare descriptions of analyses with it; estimators without a description are planned by it.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from dpcape.core.errors import DpcapeWarning, ProtocolError
from dpcape.core.facts import PublicFacts
from dpcape.core.messages import Describe, Described, decode_to_site, encode
from dpcape.core.privacy.calibration import NoisePlans, ReleaseNoise
from dpcape.core.privacy.terms import Terms
from dpcape.core.protocols.protocol import Protocol
from dpcape.core.statistic import AnyStatistic
from dpcape.federation.allowance import Allowance, ValidShare
from dpcape.federation.federation import Federation
from dpcape.guarantee.release_record import ReleaseRecord
from dpcape.planning.estimator import Estimator
from dpcape.records.data_plan import Columns, DataPlan
from dpcape.records.from_numbers import schema_of
from dpcape.records.kinds import Records
from dpcape.study.made_up import MadeUp
from dpcape.transport.transport import Transport

# Enough synthetic records for every analysis to run, few enough to be fast.
_LEAST_RECORDS, _RECORDS_PER_FEATURE = 400, 3
# Length of a synthetic subject's series; the public largest number does not enter a plan.
_TIME_POINTS = 40
# Few records where rows are wide: their values do not matter, and a steward's machine may be small.
_MOST_ENTRIES, _FEWEST_RECORDS = 20_000_000, 8


def rehearse(
    estimator: Estimator,
    facts: Mapping[str, PublicFacts],
    *,
    protocol: Protocol,
    weights: Mapping[str, float],
    made_up: Callable[[int], Records],
) -> RecordingAllowance:
    """Fit an estimator to synthetic records at simulated sites; return what it requested.

    Parameters
    ----------
    estimator : Estimator
        Estimator to fit; it is left in an unspecified state.
    facts : mapping
        Public facts of each site, with its number of records.
    protocol : Protocol
        Protocol the sites would run.
    weights : mapping
        Weight of each site in the mean; empty for weights by size.
    made_up : callable
        Function from a number of records to that many synthetic records with these facts.
    """
    federation = _RehearsedFederation(_Declared(facts), protocol, weights, made_up)
    # Ignore warnings: they concern synthetic records. Stop after the last release.
    with warnings.catch_warnings(), suppress(_Complete):
        warnings.simplefilter("ignore", DpcapeWarning)
        estimator.fit(federation)
    assert federation.opened is not None
    return federation.opened


def enough_records(n_features: int) -> int:
    """Return how many synthetic records to generate."""
    wanted = max(_LEAST_RECORDS, _RECORDS_PER_FEATURE * n_features)
    return max(_FEWEST_RECORDS, min(wanted, _MOST_ENTRIES // n_features))


class _Declared(Transport):
    """Simulated sites, which only describe themselves."""

    def __init__(self, facts: Mapping[str, PublicFacts]) -> None:
        self._facts = facts

    @property
    def sites(self) -> tuple[str, ...]:
        return tuple(sorted(self._facts))

    def ask(
        self, messages_by_site: Mapping[str, bytes], deadline: float | None
    ) -> tuple[dict[str, bytes], tuple[str, ...]]:
        if not all(isinstance(decode_to_site(data)[1], Describe) for data in messages_by_site.values()):
            raise ProtocolError(
                "Simulated sites answer only requests for their description", remedy="Use a real federation."
            )
        return {name: encode(self._described(name)) for name in messages_by_site}, ()

    def _described(self, name: str) -> Described:
        return Described(facts=self._facts[name], identity=b"", replayable=False, version="")


class _RehearsedFederation(Federation):
    """Federation whose allowances record the requested statistics and answer from synthetic records."""

    def __init__(
        self, sites: Transport, protocol: Protocol, weights: Mapping[str, float], made_up: Callable[[int], Records]
    ) -> None:
        super().__init__(sites, protocol=protocol, weights=dict(weights) or None)
        self._made_up = made_up
        self.opened: RecordingAllowance | None = None

    def allow(
        self,
        epsilon: float | Mapping[str, float],
        delta: float | Mapping[str, float],
        shares: Sequence[float] = (1.0,),
        *,
        stated: Sequence[str] = (),
    ) -> Allowance:
        terms = self.terms(epsilon, delta, shares)
        self.opened = RecordingAllowance(self, terms, lambda: self._made_up(enough_records(self.n_features)))
        return self.opened


class _Complete(Exception):
    """Raised when all releases of an allowance have been requested."""


class RecordingAllowance(Allowance):
    """Allowance that records every requested statistic; its means are of synthetic records, without noise.

    Records are generated only for releases that a later one may depend on; after the last release the fit is stopped.

    Attributes
    ----------
    statistics : list of Statistic
        Requested statistics, in order.
    releases : list of ReleaseRecord
        Records of the requested releases, without noise.
    """

    def __init__(self, federation: _RehearsedFederation, terms: Terms, made_up: Callable[[], Records]) -> None:
        self._federation, self._terms, self._protocol = federation, terms, federation.protocol
        self._noise_plans = NoisePlans(terms, federation.protocol)
        self._made_up = made_up
        self._records: Records | None = None
        self._plans: list[ReleaseNoise] = []
        self._stated: list[str] = []
        self._by_site = False
        self.statistics: list[AnyStatistic] = []
        self._on_release = None
        self.counted = ValidShare()
        self.releases: list[ReleaseRecord] = []

    @property
    def terms(self) -> Terms:
        """Terms for which the allowance is calibrated."""
        return self._terms

    @property
    def plans(self) -> Sequence[ReleaseNoise]:
        """Noise of the requested releases."""
        return tuple(self._plans)

    @property
    def used(self) -> range:
        """Numbers of the requested releases."""
        return range(len(self._plans))

    def mean(self, statistic: AnyStatistic) -> Any:
        plan = self.plan(statistic)
        self._plans.append(plan)
        if statistic.assumption and statistic.assumption not in self._stated:
            self._stated.append(statistic.assumption)
        self._by_site = self._by_site or statistic.by_site
        self.statistics.append(statistic)
        self._note(len(self._plans) - 1, statistic, plan, self._terms.sites, self._terms.divisor(self._terms.sites))
        if not self.left:
            raise _Complete
        if self._records is None:
            self._records = self._made_up()
        made_up = type(statistic)(self._records.facts(), **statistic.public)
        return statistic.unpack(np.asarray(made_up.total(self._records)) / self._records.n_records)


def made_up_records(facts: PublicFacts, n_records: int) -> Records:
    """Return synthetic records with these public facts; raw columns are not mapped."""
    if facts.kind == "table":
        columns = Columns(names=facts.feature_names, n_columns=facts.n_features, ranges=schema_of(facts))
        plan = DataPlan(kind="table", tables=(columns,))
        return plan.records(MadeUp(plan, n_records, 0))
    splits = np.cumsum((0, *facts.widths))
    tables = tuple(
        Columns(names=facts.feature_names[low:high], n_columns=high - low)
        for low, high in itertools.pairwise(splits.tolist())
    )
    plan = _data_plan(facts, tables)
    return plan.records(MadeUp(plan, n_records, 0))


def _data_plan(facts: PublicFacts, tables: tuple[Columns, ...]) -> DataPlan:
    return DataPlan(
        kind=facts.kind,
        tables=tables,
        bounds=() if facts.kind == "documents" else facts.bounds,
        target="y",
        response=facts.response,
        classes=facts.classes,
        unit=facts.unit,
        rows_per_subject=_TIME_POINTS if facts.unit == "subject" else None,
        invalid=facts.invalid,
    )
