"""Description of an analysis, and what follows from it without loading its estimator."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dpcape.analyses.parameters import REQUIRED, Parameter
from dpcape.analyses.release import Either, Refusal, Release, Schedule
from dpcape.core.errors import InvalidParameter
from dpcape.core.facts import MOST_VIEWS, PublicFacts
from dpcape.core.limits import check_size

if TYPE_CHECKING:
    from dpcape.analyses.footprint import Workspace

VERIFIED, CONDITIONAL = "verified", "conditional"
LAW = "tests/laws/test_statistics.py::test_no_two_contributions_are_farther_apart_than_the_diameter"
"""Test that searches statistics for records that refute what is proved of them."""
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
# Names of the kinds of records, and the calls that build them, for error messages.
_WORDS = {
    "rows": "rows",
    "views": "two views",
    "labelled": "labelled",
    "documents": "documents",
    "subjects": "subjects",
    "table": "a table",
}
BUILDERS = {
    "rows": "rows(X, bound=...)",
    "views": "views(X, Y, bounds=...)",
    "labelled": "labelled(X, y, bound=..., response=(low, high))",
    "documents": "documents(counts)",
    "subjects": "subjects(arrays, bound=..., unit=...)",
    "table": "table(data, columns={...})",
}
Planner = Callable[[tuple[float, ...], int, Release], float]
"""Maps all shares, the number of a release and the release to the noise scale on its mean."""


class Public:
    """Public numbers that a schedule may use, as attributes.

    They are the parameters of the analysis, what :func:`public_facts` returns, ``mu``, the smallest over all sites, and
    ``total_mu``, with which one holder of all records would have the noise that the protocol leaves in the total.

    Parameters
    ----------
    values : mapping
        The numbers by name.
    **later : callable
        Numbers that are computed when first used, by name.
    """

    def __init__(self, values: Mapping[str, object], **later: Callable[[], object]) -> None:
        self.__dict__.update(values)
        self._later = later

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._later:
            raise AttributeError(f"no public number {name!r} is available to a schedule")
        self.__dict__[name] = self._later[name]()
        return self.__dict__[name]


def public_facts(facts: PublicFacts, n_records: int, n_participants: int) -> dict[str, object]:
    """Return the public facts that a schedule may use, for ``n_records`` records at ``n_participants`` sites."""
    return {
        "facts": facts,
        "kind": facts.kind,
        "unit": facts.unit,
        "n_features": facts.n_features,
        "first": facts.widths[0],
        "narrowest": min(facts.widths),
        "widest": max(facts.widths),
        "n_views": len(facts.widths),
        "bound": math.hypot(*facts.bounds),
        "n_classes": None if facts.classes is None else len(facts.classes),
        "n_records": n_records,
        "single": facts.is_single,
        "n_participants": n_participants,
    }


# Names, and words in names, that are not written in lower case.
_IN_WORDS = {
    "cca": "CCA",
    "cox": "Cox regression",
    "ica": "ICA",
    "kaplan_meier": "Kaplan-Meier curves",
    "kmeans": "k-means clusters",
    "log_rank": "log-rank test",
    "mean": "means",
    "pca": "PCA",
    "pls": "PLS",
}


@dataclass(frozen=True)
class Variant:
    """Analysis with some parameters fixed, as plans and the planner page list it.

    Attributes
    ----------
    name : str
        Name for ``dpcape plan --analysis``.
    title : str
        Title on the planner page.
    options : tuple of str
        Parameters and facts that a plan accepts.
    fixed : mapping
        Values of the parameters that define the variant.
    unit : str
        Unit of protection: "record" or "subject".
    classes : int or None
        Number of classes of its records, where that is not an option.
    yardstick : str
        Public quantity with which the noise of the first release is compared, in words.
    note : str
        What a plan cannot know before the run, in words.
    labels : str
        What its records are labelled with, if that depends on the variant.
    """

    name: str
    title: str
    options: tuple[str, ...] = ()
    fixed: Mapping[str, object] = field(default_factory=dict)
    unit: str = "record"
    classes: int | None = None
    yardstick: str = SQUARED_BOUND
    note: str = ""
    labels: str = ""


@dataclass(frozen=True)
class AuditCase:
    """Small instance of an analysis that ``dpcape audit`` attacks.

    Attributes
    ----------
    name : str
        Name for ``dpcape audit``.
    parameters : mapping
        Parameters of the estimator, except epsilon and delta.
    records : str
        Name of the function that makes records from plain numbers (``audit.cases``).
    n_numbers : int
        How many plain numbers make one unit.
    """

    name: str
    parameters: Mapping[str, object]
    records: str
    n_numbers: int


@dataclass(frozen=True)
class Noise:
    """How large the noise of a result is, for plans: plain Python, from which the planner's page is generated too.

    Attributes
    ----------
    title : str or callable
        What is measured, in words; or a function from public numbers to these words.
    value : callable
        Function from public numbers and the noise scales of the releases, in order, to the size of the noise. It may be
        asked with fewer scales than there are rounds, and on the page their number is not known.
    unit : str
        Unit of the value: "share" (of one), "bound" (in units of the bound), or "ratio".
    is_error : bool
        Whether it is the error of the result itself.
    """

    title: str | Callable[[Public], str]
    value: Callable[[Public, Sequence[float]], float]
    unit: str = "ratio"
    is_error: bool = False


@dataclass(frozen=True)
class Analysis:
    """Description of an analysis: everything dpcape knows before it runs. Importing one imports no estimator.

    Attributes
    ----------
    name : str
        Name in study files.
    estimator : str
        ``"module:Class"``, imported only by the coordinator.
    group : str
        Heading under which lists show it.
    kinds : frozenset of str
        Kinds of records it accepts.
    records : str
        Kind of records in plans.
    parameters : tuple of Parameter
        Parameters of the estimator, except epsilon and delta.
    schedule : callable
        Generator function from public numbers to releases.
    labels : str
        What records are labelled with: "response", "counts", "classes", or empty for no labels.
    units : frozenset of str
        Units it can protect: "record", "subject" or both.
    most_views : int
        Largest number of views of its records, where they are views.
    variants : tuple of Variant
        Variants that can be planned.
    measure : Noise or str
        How large its noise is, or the name of a formula for its expected error under a declared spectrum
        (``planning.measures``); empty if there is none.
    audit : tuple of AuditCase
        Instances for ``dpcape audit``.
    facts : tuple of Parameter
        Facts about records that a plan needs in addition to columns, bounds and sizes.
    derived : callable or None
        Function from the parameters to further public numbers.
    workspace : callable or None
        Function from public numbers and the sizes of all releases to the memory of public arrays and at a site; None
        where vectors of the size of the releases are all there is (``analyses.footprint``).
    results : callable or None
        The same for the bytes that results take besides a few vectors; asked at the coordinator alone.
    law : str
        Test that searches what it releases for violations of the proof; empty if there is none.
    reason : str
        Why it is private, or on what condition.
    reference : str
        Page and section of the documentation, and papers of its references, after semicolons.
    place : int
        Position under the heading.
    in_studies : bool
        Whether a study file may name it.
    package : str
        Distribution that provides it, or code that it runs.
    part : str
        What the package provides, if the analysis is dpcape's own; else empty.
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
    most_views: int = MOST_VIEWS
    variants: tuple[Variant, ...] = ()
    measure: Noise | str = ""
    audit: tuple[AuditCase, ...] = ()
    facts: tuple[Parameter, ...] = ()
    derived: Callable[[Mapping[str, object]], Mapping[str, object]] | None = None
    workspace: Callable[[Public, Sequence[float]], Workspace] | None = None
    results: Callable[[Public, Sequence[float]], float] | None = None
    law: str = ""
    reason: str = ""
    reference: str = ""
    place: int = 100
    in_studies: bool = True
    package: str = "dpcape"
    part: str = ""

    @property
    def standing(self) -> str:
        """Status: verified if proof, law and an audit of every unit are registered, and all code is dpcape's."""
        audited = {"subject" if case.records == "people" else "record" for case in self.audit}
        proved = self.law and self.reason and self.reference and self.package == "dpcape"
        return VERIFIED if proved and audited == self.units else CONDITIONAL

    @property
    def python(self) -> str:
        """Name of the estimator's class."""
        return self.estimator.partition(":")[2]

    @property
    def spelling(self) -> str:
        """Name as commands, plans and study files write it: with hyphens."""
        return self.name.replace("_", "-")

    @property
    def in_words(self) -> str:
        """Name as people write it in a sentence: PCA, joint ICA, linear regression."""
        return _IN_WORDS.get(self.name, " ".join(_IN_WORDS.get(word, word) for word in self.name.split("_")))

    @property
    def has_many_views(self) -> bool:
        """Whether its records may be three or more views in plans."""
        return self.records == "views" and self.most_views > 2

    @property
    def _wanted_records(self) -> str:
        return "two or more views" if self.has_many_views else _WORDS[self.records]

    def load(self) -> type:
        """Import and return the estimator class (at the coordinator)."""
        module, _, name = self.estimator.partition(":")
        estimator: type = getattr(importlib.import_module(module), name)
        return estimator

    def parameter(self, name: str) -> Parameter:
        """Return the parameter or fact of this name."""
        return next(entry for entry in (*self.parameters, *self.facts) if entry.name == name)

    def public(self, given: Mapping[str, object], facts: Mapping[str, object], **later: Callable[[], object]) -> Public:
        """Return the public numbers of a study: given parameters, defaults for the rest, facts and sizes."""
        defaults = {entry.name: entry.default for entry in self.parameters if entry.default is not REQUIRED}
        parameters = {**defaults, **given}
        derived = {} if self.derived is None else self.derived(parameters)
        return Public({**parameters, **derived, **facts}, **later)

    def check(self, public: Public) -> None:
        """Refuse invalid records or parameters before any charge."""
        if public.kind not in self.kinds:
            must, remedy = f"be {self._wanted_records}", f"Build them with {BUILDERS[self.records]}."
            raise InvalidParameter(f"Records for {self.python}", must, repr(public.kind), remedy)
        if public.n_views > self.most_views:
            must, remedy = f"be {self._wanted_records}", f"Give it {self.most_views} of them, or use MultiCCA."
            raise InvalidParameter(f"Records for {self.python}", must, f"{public.n_views} views", remedy)
        if public.unit not in self.units:
            must = f"be {' or '.join(sorted(self.units))}"
            remedy = "Only JointICA protects whole subjects; for other analyses give each person one row."
            raise InvalidParameter(f"unit for {self.python}", must, repr(public.unit), remedy)
        for entry in (*self.parameters, *self.facts):
            entry.check(getattr(public, entry.name), public)

    def statistics(self, public: Public) -> frozenset[str]:
        """Return the names of all statistics the analysis may request; sites refuse any other."""
        return frozenset(entry.statistic for step in self.releases(public, _one) for entry in alternatives(step))

    def sizes(self, public: Public) -> tuple[float, ...]:
        """Return how many numbers each release has, of alternatives the larger; refuse what no message can carry."""
        sizes = []
        for step in self.releases(public, _one):
            possible = {entry.extent.released_size: entry for entry in possible_releases(step)}
            sizes.append(max(possible))
            check_size(possible[sizes[-1]].statistic, int(sizes[-1]))
        return tuple(sizes)

    def shares(self, public: Public) -> tuple[float, ...]:
        """Return the shares of mu^2, one per release."""
        return tuple(share for step in self.releases(public, _one) for share in _repeated(step))

    def steps(self, public: Public, planner: Planner) -> list[Release | Either]:
        """Return the releases, with clip radii computed from the noise that ``planner`` returns."""
        shares = self.shares(public)
        steps = list(self.releases(public, lambda number, release: planner(shares, number, release)))
        if tuple(share for step in steps for share in _repeated(step)) != shares:
            raise AssertionError(f"shares of {self.name} must not depend on noise")
        return steps

    def releases(self, public: Public, noise: Callable[[int, Release], float]) -> Iterator[Release | Either]:
        """Run the schedule on numbers: yield the releases that are made, and raise its refusals.

        ``noise`` returns the noise scale of a release that others depend on, given its number.
        """
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
                    raise InvalidParameter(*(str(text).format(**step.values) for text in step.error.args))
                continue
            first = alternatives(step)[0]
            if first.when:
                answer = noise(number, first) if first.feeds else None
                number += int(first.times)
                yield step


def stated_of(analysis: Analysis) -> tuple[str, ...]:
    """Return what a guarantee rests on because an analysis comes from another package; nothing for dpcape's own.

    Assumptions about a part of it that comes from another package are listed by its releases.
    """
    if analysis.package == "dpcape" or analysis.part:
        return ()
    return (f"the analysis {analysis.python}, which is not part of dpcape, is what its author says",)


def alternatives(step: Release | Either) -> Sequence[Release]:
    """Return the releases of a step: one, or two if an earlier result chooses between them."""
    return (step.first, step.second) if isinstance(step, Either) else (step,)


def possible_releases(step: Release | Either) -> Sequence[Release]:
    """Return the releases of a step that may be made, whatever earlier results are."""
    return step.possible if isinstance(step, Either) else (step,)


def _one(number: int, release: Release) -> float:
    return 1.0


def _repeated(step: Release | Either) -> Sequence[float]:
    first = alternatives(step)[0]
    return [first.share] * int(first.times)
