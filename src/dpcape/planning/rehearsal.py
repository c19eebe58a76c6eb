"""What a study would release, in order, from public facts alone: the analysis runs on made-up records.

A steward reads it before approving, and a site refuses statistics that are not in it.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from dpcape.errors import DpcapeWarning, ProtocolError
from dpcape.facts import Facts
from dpcape.federation import Allowance, Federation
from dpcape.guarantee.guarantee import Guarantee
from dpcape.guarantee.release_record import Release
from dpcape.privacy.calibration import ReleaseNoise
from dpcape.privacy.terms import Terms
from dpcape.protocols.protocol import Protocol
from dpcape.statistics.statistic import Statistic
from dpcape.transport.messages import Describe, Described, decode_to_site, encode
from dpcape.transport.transport import Transport

if TYPE_CHECKING:
    from dpcape.estimators.estimator import FederatedEstimator
    from dpcape.study.study import Study

# Enough made-up records for every analysis to find something, few enough to be quick.
_LEAST_RECORDS, _RECORDS_PER_FEATURE = 400, 3
# Wide records are few: nothing is learnt from them, and a steward's machine is small.
_MOST_ENTRIES, _FEWEST_RECORDS = 20_000_000, 8
# Third moments, whole or in few coordinates: an analysis chooses when it has seen the second moment.
_DESIGNS = (
    frozenset({"third_moment", "whitened_third_moment"}),
    frozenset({"word_triples", "whitened_word_triples"}),
)


@dataclass(frozen=True)
class Step:
    """One release a study would make.

    Attributes
    ----------
    statistic : str
        Its name.
    size : int
        How many numbers it holds.
    mean_scale : float
        Standard deviation of the noise in the mean over all sites, at a diagonal entry.
    site_scale : float
        Standard deviation of all noise on this site's own mean.
    reach : float
        How far one record can move this site's own mean.
    """

    statistic: str
    size: int
    mean_scale: float
    site_scale: float
    reach: float


def outline(study: Study, n_records: Mapping[str, int], site: str) -> tuple[Guarantee, list[Step]]:
    """Return the guarantee and the releases of a study for sites of these sizes; spends nothing."""
    guarantee, noted = rehearse(
        study.estimator(),
        _facts(study, n_records),
        protocol=study.protocol(),
        weights=study.weights,
        made_up=lambda n_records: study.synthetic_records(study.sites[0], n_records),
    )
    return guarantee, [noted.step(index, site) for index in noted.used]


def rehearse(
    estimator: FederatedEstimator,
    facts: Mapping[str, Facts],
    *,
    protocol: Protocol,
    weights: Mapping[str, float],
    made_up: Callable[[int], Any],
) -> tuple[Guarantee, RecordingAllowance]:
    """Fit an analysis to made-up records at sites that exist on paper; return its guarantee and what it asked for.

    Parameters
    ----------
    facts : mapping
        Of each site, with its number of records.
    made_up : callable
        Returns so many made-up records with these facts.
    """
    federation = _RehearsedFederation(_Declared(facts), protocol, weights, made_up)
    # Warnings would be about the made-up records; what follows the last release is nobody's business here.
    with warnings.catch_warnings(), suppress(_Complete):
        warnings.simplefilter("ignore", DpcapeWarning)
        estimator.fit(federation)
    assert federation.opened is not None
    return federation.opened.guarantee(), federation.opened


def statistic_names(study: Study) -> frozenset[str]:
    """Return the names of all statistics the study's analysis may ask for."""
    _, steps = outline(study, dict.fromkeys(study.sites, 1000), study.sites[0])
    names = frozenset(step.statistic for step in steps)
    return names | other_designs(study, names)


def other_designs(study: Study, names: frozenset[str]) -> frozenset[str]:
    """Return what the study may ask for instead of some of ``names``: its first result may favour the other design."""
    if study.parameters.get("design", "auto") != "auto":
        return frozenset()
    return frozenset().union(*(pair for pair in _DESIGNS if pair & names)) - names


def declared_federation(study: Study, n_records: Mapping[str, int]) -> Federation:
    """Return a federation that knows the declared facts and can do nothing but describe itself."""
    return Federation(_Declared(_facts(study, n_records)), protocol=study.protocol(), weights=study.weights or None)


def _facts(study: Study, n_records: Mapping[str, int]) -> dict[str, Facts]:
    shape = study.facts()
    present = [site for site in study.sites if site in n_records]
    return {site: msgspec.structs.replace(shape, n_records=n_records[site], rows_per_unit=1) for site in present}


def made_up_records(n_features: int) -> int:
    """Return how many records to make up for an outline."""
    wanted = max(_LEAST_RECORDS, _RECORDS_PER_FEATURE * n_features)
    return max(_FEWEST_RECORDS, min(wanted, _MOST_ENTRIES // n_features))


class _Declared(Transport):
    """Sites that exist on paper."""

    def __init__(self, facts: Mapping[str, Facts]) -> None:
        self._facts = facts

    @property
    def sites(self) -> tuple[str, ...]:
        return tuple(sorted(self._facts))

    def ask(
        self, messages_by_site: Mapping[str, bytes], deadline: float | None
    ) -> tuple[dict[str, bytes], tuple[str, ...]]:
        if not all(isinstance(decode_to_site(data)[1], Describe) for data in messages_by_site.values()):
            raise ProtocolError("a declared federation must only be described; got another message.")
        return {name: encode(self._described(name)) for name in messages_by_site}, ()

    def _described(self, name: str) -> Described:
        return Described(facts=self._facts[name], identity=b"", replayable=False, version="")


class _RehearsedFederation(Federation):
    """Opens allowances that answer from made-up records and note what they were asked."""

    def __init__(
        self, sites: Transport, protocol: Protocol, weights: Mapping[str, float], made_up: Callable[[int], Any]
    ) -> None:
        super().__init__(sites, protocol=protocol, weights=dict(weights) or None)
        self._made_up = made_up
        self.opened: RecordingAllowance | None = None

    def allow(self, epsilon: float | Mapping[str, float], delta: float, shares: Sequence[float] = (1.0,)) -> Allowance:
        terms = self.terms(epsilon, delta, shares)
        self.opened = RecordingAllowance(self, terms, lambda: self._made_up(made_up_records(self.n_features)))
        return self.opened


class _Complete(Exception):
    """All releases of an allowance were asked for."""


class RecordingAllowance(Allowance):
    """An allowance that notes every statistic; its means are of made-up records, without noise.

    Records are made up only for releases that another one may depend on; after the last the analysis is stopped.
    """

    def __init__(self, federation: _RehearsedFederation, terms: Terms, made_up: Callable[[], Any]) -> None:
        self._federation, self._terms, self._protocol = federation, terms, federation.protocol
        self._made_up = made_up
        self._records: Any = None
        self._plans: list[ReleaseNoise] = []
        self._stated: list[str] = []
        self.statistics: list[Statistic] = []
        self._on_release = None
        self.releases: list[Release] = []

    @property
    def terms(self) -> Terms:
        """What the allowance is calibrated for."""
        return self._terms

    @property
    def plans(self) -> Sequence[ReleaseNoise]:
        """Noise of the releases asked for."""
        return tuple(self._plans)

    @property
    def used(self) -> range:
        """Numbers of the releases asked for."""
        return range(len(self._plans))

    def mean(self, statistic: Statistic) -> Any:
        plan = self.plan(statistic)
        self._plans.append(plan)
        if statistic.assumption and statistic.assumption not in self._stated:
            self._stated.append(statistic.assumption)
        self.statistics.append(statistic)
        self._note(len(self._plans) - 1, statistic, plan, self._terms.sites, self._terms.divisor(self._terms.sites))
        if not self.left:
            raise _Complete
        if self._records is None:
            self._records = self._made_up()
        made_up = type(statistic)(self._records.facts(), **statistic.public)
        return statistic.unpack(np.asarray(made_up.total(self._records)) / self._records.n_records)

    def step(self, index: int, site: str) -> Step:
        """Return what release ``index`` means for a site."""
        plan, own_records = self._plans[index], self._terms.n_records[site] * self._terms.coefficient(site)
        return Step(
            statistic=self.releases[index].statistic,
            size=self.statistics[index].size,
            mean_scale=self.releases[index].scale,
            site_scale=math.hypot(plan.own_scales[site], _left_of_draw(plan, site)) / own_records,
            reach=plan.output_sensitivities[site] / own_records,
        )


def _left_of_draw(plan: ReleaseNoise, site: str) -> float:
    """Return the scale of a site's draw once the mean of all draws is removed."""
    scales, n_sites = plan.shared_scales, len(plan.shared_scales)
    others = math.fsum(scale**2 for name, scale in scales.items() if name != site)
    return math.sqrt((scales[site] * (n_sites - 1)) ** 2 + others) / n_sites
