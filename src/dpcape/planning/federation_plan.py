"""What a federation would release for an analysis, and at what price: ``Federation.plan``."""

from __future__ import annotations

import html
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from dpcape.errors import InvalidParameter
from dpcape.facts import Facts
from dpcape.guarantee import Guarantee, SiteGuarantee
from dpcape.pages.numbers import round_up
from dpcape.planning.curves import Scenario, scenarios
from dpcape.planning.expected_error import Declared, Measure, measure_of
from dpcape.planning.rehearsal import RecordingAllowance, rehearse
from dpcape.planning.release import PlannedRelease
from dpcape.privacy.calibration import ReleaseNoise
from dpcape.protocols import Protocol
from dpcape.records.data_plan import Columns, DataPlan
from dpcape.statistics import Statistic
from dpcape.study.analyses import analyses
from dpcape.study.made_up import MadeUp

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpcape.estimators.estimator import FederatedEstimator
    from dpcape.federation import Federation

_TITLES = {"pooled": "pooled data", "conventional": "conventional", "alone": "largest site alone"}


@dataclass(frozen=True)
class PlannedStep:
    """One release of a plan.

    Attributes
    ----------
    statistic : Statistic
        For a release that depends on earlier ones, as the rehearsal had it.
    share : float
        Of mu^2.
    scale : float
        Standard deviation of the noise on the mean over all sites, at an entry of multiplicity one.
    plan : ReleaseNoise
        Own and shared scales, and mu, of every site.
    """

    statistic: Statistic
    share: float
    scale: float
    plan: ReleaseNoise


@dataclass(frozen=True)
class StudyPlan:
    """What fitting an analysis would release, how noisy, and what it would cost each site. Nothing was spent.

    Attributes
    ----------
    analysis : str
        Name of the analysis.
    guarantee : Guarantee
        What could be claimed.
    steps : sequence of PlannedStep
        The releases, in order.
    declared : Declared
        What the expected error supposes about the records.
    measure : Measure or None
        The expected error, or how large the noise is where no formula gives an error.
    """

    analysis: str
    guarantee: Guarantee
    steps: Sequence[PlannedStep]
    declared: Declared
    measure: Measure | None
    epsilon: float | Mapping[str, float]
    protocol: Protocol
    sizes: Mapping[str, int]
    weights: Mapping[str, float]

    @property
    def sites(self) -> Mapping[str, SiteGuarantee]:
        """What each site would spend: mu, epsilon and delta."""
        return self.guarantee.sites

    @property
    def scales(self) -> list[float]:
        """Noise on the mean over all sites, per release."""
        return [step.scale for step in self.steps]

    @property
    def expected_error(self) -> float | None:
        """What noise is expected to cost under ``declared``; None where there is no formula."""
        return None if self.measure is None else self.measure.value(self.scales)

    def smallest_epsilon(self, error: float) -> float | None:
        """Return the smallest epsilon, the same at all sites, with at most this expected error; or None."""
        return self._scenarios()["chosen"].smallest_epsilon(self._required_measure(), error)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the expected error over epsilon (the noise, where there is no formula), beside the alternatives."""
        from dpcape.guarantee.card_content import PROTOCOLS
        from dpcape.report.plots import curves

        protocol = type(self.protocol).__name__
        epsilons = np.geomspace(0.1, 10, 9).tolist()
        measure = self.measure or self._noise()
        by_name = {
            _TITLES.get(key, PROTOCOLS.get(protocol, protocol)): [
                np.nan if (error := way.error(measure, epsilon)) is None else error for epsilon in epsilons
            ]
            for key, way in self._scenarios().items()
        }
        axes = curves(epsilons, by_name, labels=("epsilon", measure.title), ax=ax)
        axes.set_xticks([0.1, 0.3, 1, 3, 10], ["0.1", "0.3", "1", "3", "10"])
        axes.set_yscale("log")
        if not isinstance(self.epsilon, Mapping):
            axes.axvline(self.epsilon, color="#8c8c8c", linewidth=1)
        return axes

    def _scenarios(self) -> dict[str, Scenario]:
        releases = [PlannedRelease(step.statistic, step.share) for step in self.steps]
        return scenarios(
            lambda setting: releases, self.sizes, self.protocol, self.guarantee.delta, weights=self.weights
        )

    def _required_measure(self) -> Measure:
        if self.measure is None:
            raise InvalidParameter(f"an expected error must have a formula; got {self.analysis}, which has none.")
        return self.measure

    def _noise(self) -> Measure:
        diameter = self.steps[0].statistic.diameter
        return Measure("noise of the first release, against its diameter", "ratio", lambda s: s[0] / diameter)

    def lines(self) -> list[tuple[str, str]]:
        """Return the plan as labelled lines."""
        lines = [("analysis", self.analysis), ("nothing spent", "planned from public facts; no site was asked")]
        if self.measure is not None and self.expected_error is not None:
            value = self.expected_error
            shown = f"{value:.3g}" if self.measure.unit == "ratio" else f"{100 * value:.3g} %"
            lines.append(("expected error" if self.measure.is_error else "noise", f"{shown} {self.measure.title}"))
        lines += [
            (f"release {number + 1}", f"{step.statistic.name}: noise {step.scale:.4g} on the mean, mu {_mu(step)}")
            for number, step in enumerate(self.steps[:4])
        ]
        if len(self.steps) > 4:
            lines.append(("...", f"{len(self.steps)} releases in all"))
        if len({step.statistic.name for step in self.steps}) > 1:
            lines.append(("rehearsed", "later releases may depend on earlier ones; shown as made-up records had them"))
        return [*lines, *(line for line in self.guarantee.lines() if line[0] not in ("took part", "releases"))]

    def __str__(self) -> str:
        return "\n".join(f"{name}: {value}" for name, value in self.lines())

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th scope='row' style='text-align:left;padding-right:1em'>{html.escape(name)}</th>"
            f"<td style='text-align:left'>{html.escape(value)}</td></tr>"
            for name, value in self.lines()
        )
        sites = "".join(
            f"<tr><th scope='row' style='text-align:left;padding-right:1em'>{html.escape(name)}</th>"
            f"<td>{site.n_records}</td><td>{round_up(site.mu, 5)}</td><td>{round_up(site.epsilon)}</td></tr>"
            for name, site in self.sites.items()
        )
        head = "".join(f"<th scope='col'>{name}</th>" for name in ("site", "records", "mu", "epsilon"))
        return (
            "<div style='border:1px solid currentColor;border-radius:6px;padding:.6em 1em;max-width:56em'>"
            f"<strong>Plan</strong><table>{rows}</table>"
            f"<table><thead><tr>{head}</tr></thead><tbody>{sites}</tbody></table></div>"
        )


def _mu(step: PlannedStep) -> str:
    return round_up(max(step.plan.mus.values()), 4)


# Of a made-up person's series; the public largest number does not enter a plan.
_TIME_POINTS = 40


def plan_estimator(federation: Federation, estimator: FederatedEstimator, declared: Declared | None) -> StudyPlan:
    """Return the plan of fitting ``estimator``; it is not changed, and no site is asked for anything."""
    from sklearn.base import clone

    if declared is not None and not isinstance(declared, Declared):
        raise InvalidParameter(
            f"declared must be a Declared; got {type(declared).__name__}. Write for example Declared(energy=0.5)."
        )
    facts = {
        site: msgspec.structs.replace(federation.facts, n_records=count, rows_per_unit=1)
        for site, count in federation.sites.items()
    }
    guarantee, noted = rehearse(
        clone(estimator),
        facts,
        protocol=federation.protocol,
        weights=federation.weights,
        made_up=lambda n_records: made_up_records(federation.facts, n_records),
    )
    guarantee = msgspec.structs.replace(guarantee, took_part=(), replayable=federation.replayable)
    name = next((key for key, kind in analyses().items() if kind is type(estimator)), "")
    supposed = declared or Declared()
    return StudyPlan(
        analysis=type(estimator).__name__,
        guarantee=guarantee,
        steps=_steps(noted),
        declared=supposed,
        measure=_measure(name, federation.facts, estimator.get_params(deep=False), supposed),
        epsilon=estimator.epsilon,
        protocol=federation.protocol,
        sizes=dict(federation.sites),
        weights=dict(federation.weights),
    )


def _measure(name: str, facts: Facts, options: Mapping[str, Any], declared: Declared) -> Measure | None:
    # "auto" takes as many components as the noise leaves: there is no number to expect an error of.
    return None if options.get("n_components") == "auto" else measure_of(name, facts, options, declared)


def _steps(noted: RecordingAllowance) -> tuple[PlannedStep, ...]:
    terms = noted.terms
    return tuple(
        PlannedStep(noted.statistics[index], terms.shares[index], noted.releases[index].scale, noted.plans[index])
        for index in noted.used
    )


def made_up_records(facts: Facts, n_records: int) -> Any:
    """Return made-up records with these public facts, raw columns taken as they are."""
    splits = np.cumsum((0, *facts.widths))
    tables = tuple(
        Columns(names=facts.feature_names[low:high], n_columns=high - low)
        for low, high in itertools.pairwise(splits.tolist())
    )
    plan = _data_plan(facts, tables)
    return plan.records(MadeUp(plan, n_records, 0))


def _data_plan(facts: Facts, tables: tuple[Columns, ...]) -> DataPlan:
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
