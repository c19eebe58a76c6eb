"""The card's part about ledgers: one site's ledger for its steward, or the charges of a run."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpcape.core.privacy.unit import PER_RECORD, Unit
from dpcape.pages.numbers import round_up


@dataclass(frozen=True)
class Spent:
    """A data set's ledger before and after a study, at the ceiling's delta and per the ceiling's unit.

    ``alone`` is the epsilon of this study's own runs, this one included; ``per_study`` their ceiling, if there is one.
    ``unit`` is the ceiling's, ``study_unit`` the study's. ``refusal`` says why the study cannot be counted, if so.
    """

    data: str
    before: float
    after: float
    ceiling: float
    delta: float
    alone: float = 0.0
    per_study: float | None = None
    unit: Unit = PER_RECORD
    study_unit: Unit = PER_RECORD
    refusal: str = ""

    @property
    def is_within(self) -> bool:
        """Whether both ceilings hold."""
        return self.after <= self.ceiling and (self.per_study is None or self.alone <= self.per_study)


@dataclass(frozen=True)
class RunCharges:
    """Charges of this study's runs at its sites, at the study's delta, as the coordinator knows them.

    The rest of a ledger reveals a site's other studies and stays at the site: a report is passed on.

    Attributes
    ----------
    before, after : float
        Epsilon of this study's runs without and with this one, at the site charged most.
    n_earlier : int
        Number of earlier runs that were charged.
    is_kept : bool
        Whether there are ledgers; records read from files have none.
    unit : Unit
        Unit of the study.
    """

    before: float
    after: float
    delta: float
    n_earlier: int = 0
    is_kept: bool = True
    unit: Unit = PER_RECORD


@dataclass(frozen=True)
class Part:
    """A question and its answer: sentences, then points, then a table whose first row names the columns."""

    title: str
    sentences: tuple[str, ...] = ()
    points: tuple[str, ...] = ()
    table: tuple[tuple[str, ...], ...] = ()


def decimal(value: float) -> str:
    """Return a small positive number as text, without an exponent if it is short; rounded up.

    Examples
    --------
    >>> decimal(1e-5), decimal(1e-9)
    ('0.00001', '1e-09')
    """
    text = round_up(value, 6)
    return f"{float(text):.12f}".rstrip("0").rstrip(".") if 1e-7 <= value < 1 else text


def ledger_part(spent: Spent) -> Part:
    """Return the part for a site's steward: its ledger before and after the study."""
    over = "ABOVE THE CEILING: the site would refuse"
    verdict = "within the ceiling" if spent.after <= spent.ceiling else over
    points = [
        f"before: epsilon {round_up(spent.before)} of {spent.ceiling:g}",
        f"after: epsilon {_bounded(spent.after)} of {spent.ceiling:g} ({verdict})",
    ]
    if spent.per_study is not None:
        own = "within its ceiling" if spent.alone <= spent.per_study else over
        points.append(f"this study alone: epsilon {_bounded(spent.alone)} of {spent.per_study:g} ({own})")
    sentences = (
        f"Data set {spent.data!r}, everything ever released from it, at delta {decimal(spent.delta)}, {spent.unit}:",
        *_conversion(spent),
    )
    return Part("What the ledger would show", sentences, points=tuple(points))


def _conversion(spent: Spent) -> tuple[str, ...]:
    """Return how a study counts towards a ceiling with another unit."""
    if spent.refusal:
        return (spent.refusal,)
    if spent.study_unit.kind == spent.unit.kind:
        return ()
    if spent.unit.kind == "record":
        return ("This study is per subject, which covers each record: its figure counts unchanged.",)
    times = spent.study_unit.factor(spent.unit)
    return (f"This study is per record: a subject owns up to {times} records, so its mu counts {times} times.",)


def _bounded(epsilon: float) -> str:
    return round_up(epsilon) if math.isfinite(epsilon) else "without limit"


def charges_part(charged: RunCharges) -> Part:
    """Return the part for the card of a run: what its sites were charged."""
    title = "What the ledgers show"
    if not charged.is_kept:
        forgotten = (
            "No ledger was kept: the records were read from files, so earlier releases from them are not counted.",
            "For records of people, give every site a folder with a ledger: dpcape site init.",
        )
        return Part(title, forgotten)
    times = {0: "no earlier run", 1: "one earlier run"}.get(charged.n_earlier, f"{charged.n_earlier} earlier runs")
    sentences = (
        "Each site charged its ledger for the whole run before it released anything.",
        "A site's other studies are not shown here. Its steward sees the whole ledger with dpcape site budget, "
        "dpcape site log, or on the steward's page.",
    )
    table = (
        ("this study alone", "epsilon", f"at delta {decimal(charged.delta)}, {charged.unit}"),
        ("before this run", round_up(charged.before), times),
        ("after it", round_up(charged.after), ""),
    )
    return Part(title, sentences, table=table)
