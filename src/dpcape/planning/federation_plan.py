"""Plan of fitting an estimator in a federation: ``Federation.plan``."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from dpcape.analyses.description import Analysis
from dpcape.analyses.release import AT_MOST, EXACT, RELATIVE
from dpcape.core.errors import Failed, InvalidParameter
from dpcape.core.facts import PublicFacts
from dpcape.core.privacy.calibration import ReleaseNoise
from dpcape.core.privacy.terms import Terms
from dpcape.core.protocols.protocol import Protocol
from dpcape.core.statistic import extent_of
from dpcape.guarantee.guarantee import Guarantee, SiteGuarantee
from dpcape.pages.numbers import round_up
from dpcape.planning.curves import Scenario, scenarios
from dpcape.planning.declared import Declared
from dpcape.planning.estimator import Estimator
from dpcape.planning.measures import Measure, measure_of
from dpcape.planning.outline import Outline, outline_of
from dpcape.planning.planned import PlannedRelease, PlannedStatistic
from dpcape.planning.rehearsal import made_up_records, rehearse
from dpcape.transport.footprint import Footprint, footprint_of_release, largest

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dpcape.federation.federation import Federation

_TITLES = {"pooled": "pooled data", "conventional": "conventional", "alone": "largest site alone"}


@dataclass(frozen=True)
class PlannedStep:
    """Planned release.

    Attributes
    ----------
    statistic : PlannedStatistic
        Name and extent of the statistic.
    share : float
        Share of mu^2.
    scale : float
        Standard deviation of the noise on the mean over all sites, at an entry of multiplicity one.
    plan : ReleaseNoise
        Own and shared noise scales, and mu, of each site.
    known : str
        Whether the scale is exact, relative to the largest contribution, or an upper bound.
    instead : str
        Name of the statistic that an earlier result may choose instead; empty if there is none.
    """

    statistic: PlannedStatistic
    share: float
    scale: float
    plan: ReleaseNoise
    known: str = EXACT
    instead: str = ""


@dataclass(frozen=True)
class StudyPlan:
    """Plan of fitting an analysis: its releases, their noise and the privacy loss of each site. Nothing was spent.

    Attributes
    ----------
    analysis : str
        Name of the analysis.
    guarantee : Guarantee
        Guarantee that the result would have.
    steps : sequence of PlannedStep
        The releases, in order.
    declared : Declared
        Assumptions about the records, for the expected error.
    measure : Measure or None
        The expected error, or the size of the noise where no formula gives an error.
    epsilon : float or mapping
        Privacy parameter epsilon, for all sites or per site.
    protocol : Protocol
        Protocol the sites run.
    sizes : mapping
        Number of records of each site.
    weights : mapping
        Weight of each site in the mean; empty for weights by size.
    footprint : Footprint
        Memory that the releases and their results need, in bytes.
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
    footprint: Footprint

    @property
    def sites(self) -> Mapping[str, SiteGuarantee]:
        """Privacy loss of each site: mu, epsilon and delta."""
        return self.guarantee.sites

    @property
    def scales(self) -> list[float]:
        """Noise scale on the mean over all sites, per release."""
        return [step.scale for step in self.steps]

    @property
    def expected_error(self) -> float | None:
        """Expected error under ``declared``; None where there is no formula."""
        return None if self.measure is None else self.measure.value(self.scales)

    def smallest_epsilon(self, error: float) -> float | None:
        """Return the smallest epsilon, the same at all sites, with at most this expected error, or None."""
        if self.measure is None:
            what = f"There is no formula for the expected error of {self.analysis}"
            raise Failed(what, remedy="Fit it to synthetic records instead.")
        return self._scenarios()["chosen"].smallest_epsilon(self.measure, error)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the expected error (or the noise) against epsilon, for this study and its alternatives."""
        from dpcape.report.plots import curves

        epsilons = np.geomspace(0.1, 10, 9).tolist()
        title, diameter = "noise of the first release, against its diameter", self.steps[0].statistic.diameter
        measure = self.measure or Measure(title, "ratio", lambda scales: scales[0] / diameter)
        by_name = {
            _TITLES.get(key, self.protocol.title): [
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

    def lines(self) -> list[tuple[str, str]]:
        """Return the plan as labelled lines."""
        lines = [("analysis", self.analysis), ("nothing spent", "planned from public facts; no site was contacted")]
        if self.measure is not None and self.expected_error is not None:
            value = self.expected_error
            shown = f"{value:.3g}" if self.measure.unit == "ratio" else f"{100 * value:.3g}%"
            lines.append(("expected error" if self.measure.is_error else "noise", f"{shown} {self.measure.title}"))
        lines += [(f"release {number + 1}", _release_line(step)) for number, step in enumerate(self.steps[:4])]
        if len(self.steps) > 4:
            lines.append(("...", f"{len(self.steps)} releases in all"))
        lines.append(("memory", str(self.footprint)))
        lines += [line for line in self.guarantee.lines() if line[0] not in ("took part", "releases")]
        return lines if self.measure is None else [*lines, ("expect", self.measure.expectation(self.scales))]

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


def _release_line(step: PlannedStep) -> str:
    name = f"{step.statistic.name} or {step.instead}" if step.instead else step.statistic.name
    known = {RELATIVE: ", relative to the largest contribution", AT_MOST: " at most"}.get(step.known, "")
    return f"{name}: noise {step.scale:.4g} on the mean{known}, mu {round_up(max(step.plan.mus.values()), 4)}"


def plan_estimator(federation: Federation, estimator: Estimator, declared: Declared | None) -> StudyPlan:
    """Return the plan of fitting ``estimator``, which is not changed; no site receives a request."""
    if declared is not None and not isinstance(declared, Declared):
        raise InvalidParameter(
            "declared", "be a Declared", type(declared).__name__, "Write Declared(energy=0.5), for example."
        )
    analysis = estimator.analysis
    planned = rehearsed(federation, estimator) if analysis is None else _described(federation, estimator, analysis)
    supposed = declared or Declared()
    return StudyPlan(
        analysis=type(estimator).__name__,
        guarantee=planned.guarantee(replayable=federation.replayable, stated=estimator.stated()),
        steps=tuple(
            PlannedStep(release.statistic, release.share, planned.scale(plan), plan, release.known, release.instead)
            for release, plan in planned.each()
        ),
        declared=supposed,
        measure=_measure(estimator, federation.facts, supposed),
        epsilon=estimator.epsilon,
        protocol=federation.protocol,
        sizes=dict(federation.sites),
        weights=dict(federation.weights),
        footprint=planned.footprint,
    )


def _described(federation: Federation, estimator: Estimator, analysis: Analysis) -> Outline:
    """Return the outline that follows from the description of the estimator's analysis."""

    def terms_for(shares: Sequence[float]) -> Terms:
        return federation.terms(estimator.epsilon, estimator.delta, shares)

    facts, protocol = federation.facts, federation.protocol
    return outline_of(analysis, estimator.public(federation), facts, terms_for, protocol)


def rehearsed(federation: Federation, estimator: Estimator) -> Outline:
    """Return the outline of an estimator without a description, by fitting it to synthetic records."""
    from sklearn.base import clone

    noted = rehearse(
        clone(estimator),
        {
            site: msgspec.structs.replace(federation.facts, n_records=count, rows_per_unit=1)
            for site, count in federation.sites.items()
        },
        protocol=federation.protocol,
        weights=federation.weights,
        made_up=lambda n_records: made_up_records(federation.facts, n_records),
    )
    releases = [
        PlannedRelease(
            PlannedStatistic(
                entry.name,
                entry.facts,
                extent_of(entry.name, **entry.numbers),
                entry.assumption,
                entry.by_site,
                entry.in_single,
            ),
            noted.terms.shares[number],
        )
        for number, entry in enumerate(noted.statistics)
    ]
    sizes, facts = [entry.statistic.released_size for entry in releases], federation.facts
    footprint = largest(
        footprint_of_release(size, facts.n_features, federation.n_records, len(federation.sites)) for size in sizes
    )
    return Outline(noted.terms, federation.protocol, tuple(releases), tuple(noted.plans), footprint)


def _measure(estimator: Estimator, facts: PublicFacts, declared: Declared) -> Measure | None:
    options = estimator.get_params(deep=False)
    # "auto" keeps as many components as exceed the noise, so there is no number to compute an error for.
    if estimator.analysis is None or options.get("n_components") == "auto":
        return None
    return measure_of(estimator.analysis, facts, options, declared)
