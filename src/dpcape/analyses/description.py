"""The one description of an analysis, and what can be read off it without its estimator."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dpcape.analyses.parameters import REQUIRED, Parameter
from dpcape.analyses.release import Either, Refusal, Release, Schedule
from dpcape.errors import InvalidParameter
from dpcape.facts import PublicFacts
from dpcape.formula import computed

VERIFIED, CONDITIONAL = "verified", "conditional"
GROUPS = COMPONENTS, REGRESSIONS, MODELS, ICA = (
    "Means and components",
    "Regressions and classifiers",
    "Clusters, topics and mixtures",
    "Joint independent components",
)
BOUND, SQUARED_BOUND, CLIP, ENTRY, RADIUS = (
    "of the bound",
    "of the squared bound",
    "of the clip",
    "of the largest entry",
    "of its largest length",
)
# How records of each kind are called and built, for messages.
_WORDS = {
    "rows": "rows",
    "views": "two views",
    "labelled": "labelled",
    "documents": "documents",
    "subjects": "subjects",
}
BUILDERS = {
    "rows": "rows(X, bound=...)",
    "views": "views(X, Y, bounds=...)",
    "labelled": "labelled(X, y, bound=..., response=(low, high))",
    "documents": "documents(counts)",
    "subjects": "subjects(arrays, bound=..., unit=...)",
}
Planner = Callable[[tuple[float, ...], int, Release], float]
"""From all shares, the number of a release and the release to the noise on its mean."""


class Public:
    """The public numbers a schedule may use, as attributes.

    Parameters of the analysis; what :func:`public_facts` returns of the records; ``mu``, the smallest of all sites. A
    value that is given as a function is computed when it is asked for.
    """

    def __init__(self, values: Mapping[str, Any], **later: Callable[[], Any]) -> None:
        self.__dict__.update(values)
        self._later = later

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._later:
            raise AttributeError(f"a schedule has no public number {name!r}")
        self.__dict__[name] = self._later[name]()
        return self.__dict__[name]


def public_facts(facts: PublicFacts, n_records: int) -> dict[str, Any]:
    """Return what a schedule may know of records, for ``n_records`` at all sites together."""
    return {
        "facts": facts,
        "kind": facts.kind,
        "unit": facts.unit,
        "n_features": facts.n_features,
        "narrowest": min(facts.widths),
        "bound": math.hypot(*facts.bounds),
        "n_classes": None if facts.classes is None else len(facts.classes),
        "n_records": n_records,
    }


@dataclass(frozen=True)
class Variant:
    """An analysis at fixed choices, as plans and the planner's page list it.

    Attributes
    ----------
    name : str
        For ``dpcape plan --analysis``.
    title : str
        What people call it.
    options : tuple of str
        Parameters (and facts) a plan may be asked about.
    fixed : mapping
        Parameters that make it this variant.
    unit : str
        What is protected.
    classes : int or None
        How many classes its records have, where that is not an option.
    yardstick : str
        What the noise of its first release is compared with, in words.
    note : str
        What is not known before the run, in words.
    """

    name: str
    title: str
    options: tuple[str, ...] = ()
    fixed: Mapping[str, Any] = field(default_factory=dict)
    unit: str = "record"
    classes: int | None = None
    yardstick: str = SQUARED_BOUND
    note: str = ""


@dataclass(frozen=True)
class AuditCase:
    """A small instance that ``dpcape audit`` attacks.

    Attributes
    ----------
    name : str
        For ``dpcape audit``.
    parameters : mapping
        Of the estimator, besides epsilon and delta.
    records : str
        Name of a maker of records from plain numbers (``audit.cases``).
    n_numbers : int
        Numbers per unit.
    """

    name: str
    parameters: Mapping[str, Any]
    records: str
    n_numbers: int


@dataclass(frozen=True)
class Analysis:
    """Everything dpcape knows of an analysis before it runs. Importing one imports no estimator.

    Attributes
    ----------
    name : str
        In study files.
    estimator : str
        ``"module:Class"``, imported by the coordinator alone.
    group : str
        Heading it stands under in lists; ``place`` orders analyses below it.
    kinds : frozenset of str
        Kinds of records it applies to.
    units : frozenset of str
        What it can protect: "record", "subject" or both.
    records : str
        Kind of records in plans.
    labels : str
        What records are labelled with: "response", "counts", "classes", or nothing.
    parameters : tuple of Parameter
        The estimator's, besides epsilon and delta.
    schedule : callable
        From public numbers to releases.
    variants : tuple of Variant
    measure : str
        Name of an expected error or noise measure (``planning.measures``).
    sections : tuple of str
        What its report draws, by name (``report.model_sections``).
    audit : tuple of AuditCase
    facts : tuple of Parameter
        Facts of records that a plan must be told besides columns, bounds and sizes.
    derived : callable or None
        From given parameters to further public numbers.
    standing : str
        "verified" or "conditional".
    reason, reference : str
        Why, and where it is shown.
    in_studies : bool
        Whether a study file may name it.
    package : str
        Distribution it comes from.
    """

    name: str
    estimator: str
    group: str
    kinds: frozenset[str]
    records: str
    parameters: tuple[Parameter, ...]
    schedule: Schedule
    labels: str = ""
    units: frozenset[str] = frozenset({"record"})
    variants: tuple[Variant, ...] = ()
    measure: str = ""
    sections: tuple[str, ...] = ()
    audit: tuple[AuditCase, ...] = ()
    facts: tuple[Parameter, ...] = ()
    derived: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    standing: str = CONDITIONAL
    reason: str = ""
    reference: str = ""
    place: int = 100
    in_studies: bool = True
    package: str = "dpcape"

    @property
    def python(self) -> str:
        """Name of the estimator's class."""
        return self.estimator.partition(":")[2]

    def load(self) -> type:
        """Import the estimator (at the coordinator)."""
        module, _, name = self.estimator.partition(":")
        found: type = getattr(importlib.import_module(module), name)
        return found

    def parameter(self, name: str) -> Parameter:
        """Return the parameter, or the fact of records, of this name."""
        return next(entry for entry in (*self.parameters, *self.facts) if entry.name == name)

    def public(self, given: Mapping[str, Any], facts: Mapping[str, Any], **later: Callable[[], Any]) -> Public:
        """Return the public numbers of a study: its parameters over defaults, facts and sizes."""
        usual = {entry.name: entry.default for entry in self.parameters if entry.default is not REQUIRED}
        parameters = {**usual, **given}
        derived = {} if self.derived is None else self.derived(parameters)
        return Public({**parameters, **derived, **facts}, **later)

    def check(self, public: Public) -> None:
        """Refuse records and parameters that cannot be, in one sentence, before anything is charged."""
        if public.kind not in self.kinds:
            raise InvalidParameter(
                f"records for {self.python} must be {_WORDS[self.records]}; got {public.kind!r}. "
                f"Build them with {BUILDERS[self.records]}."
            )
        if public.unit not in self.units:
            raise InvalidParameter(
                f"unit for {self.python} must be {' or '.join(sorted(self.units))}; got {public.unit!r}. "
                "Whole subjects are protected by JointICA only; elsewhere give each person one row."
            )
        for entry in (*self.parameters, *self.facts):
            entry.check(getattr(public, entry.name), public)

    def statistics(self, public: Public) -> frozenset[str]:
        """Return the names of all statistics the analysis may ask for: what a site checks requests against."""
        return frozenset(entry.statistic for step in self._steps(public, _one) for entry in alternatives(step))

    def shares(self, public: Public) -> tuple[float, ...]:
        """Return the shares of mu^2, one per release."""
        return tuple(share for step in self._steps(public, _one) for share in _repeated(step))

    def steps(self, public: Public, planner: Planner) -> list[Release | Either]:
        """Return what is released, with clip radii that follow from the noise ``planner`` gives."""
        shares = self.shares(public)
        steps = list(self._steps(public, lambda number, release: planner(shares, number, release)))
        if tuple(share for step in steps for share in _repeated(step)) != shares:
            raise AssertionError(f"shares of {self.name} must not depend on noise")
        return steps

    def _steps(self, public: Public, noise: Callable[[int, Release], float]) -> Iterator[Release | Either]:
        """Run the schedule on numbers: refuse what it refuses, leave out what is not released."""
        running, number = self.schedule(public), 0
        answer: float | None = None
        while True:
            try:
                step = running.send(answer)
            except StopIteration:
                return
            answer = None
            if isinstance(step, Refusal):
                if step.when:
                    raise InvalidParameter(step.text.format(**step.values))
                continue
            first = alternatives(step)[0]
            if first.when:
                answer = noise(number, first) if first.feeds else None
                number += int(computed(first.times))
                yield step


def stated_of(analysis: Analysis) -> tuple[str, ...]:
    """Return what a guarantee rests on because an analysis comes from another package; nothing for dpcape's own."""
    if analysis.package == "dpcape":
        return ()
    return (f"the analysis {analysis.python}, which is not part of dpcape, is what its author says",)


def alternatives(step: Release | Either) -> Sequence[Release]:
    """Return the releases of a step: one, or the two of which an earlier result chooses."""
    return (step.first, step.second) if isinstance(step, Either) else (step,)


def _one(number: int, release: Release) -> float:
    return 1.0


def _repeated(step: Release | Either) -> Sequence[float]:
    first = alternatives(step)[0]
    return [computed(first.share)] * int(computed(first.times))
