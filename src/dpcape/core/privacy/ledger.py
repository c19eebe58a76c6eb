"""What a site has spent, and the ceiling it refuses to pass.

The ledger is kept at the site. A charge is for a whole allowance and comes before its first release; a counter makes
sure that no release happens twice. This ledger lives in memory; one on disk has the same surface.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Protocol

from dpcape.core.errors import InvalidParameter, LedgerRefused, ProtocolError
from dpcape.core.privacy.gaussian import compose
from dpcape.core.privacy.integer_gap import TAIL_EXPONENT
from dpcape.core.privacy.terms import printed_epsilon
from dpcape.core.privacy.unit import PER_RECORD, Unit

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Charge:
    """One allowance as the ledger keeps it: mu, and what integer noise may add to epsilon (gap) and delta (tail).

    ``unit`` says what mu is about: one record, or one subject with all its records. ``longest`` is how many records the
    site finds one subject to own, zero where it cannot tell; it is checked, and never part of a row or a message.
    """

    allowance: str
    mu: float
    gap: float
    tail: float
    n_releases: int
    unit: Unit = PER_RECORD
    # Digest of the terms, so that an allowance is continued after a crash only as it began.
    terms: str = ""
    longest: int = field(default=0, compare=False, repr=False)

    def stated(self, ceiling: Unit) -> Charge:
        """Return the charge with the number of records per subject that it or the ceiling states; the larger of two.

        A charge per record is refused under a ceiling per subject that states no number, or one that is too small.
        """
        self.unit.check_longest(ceiling, self.longest)
        return replace(self, unit=self.unit.stated(ceiling))

    def is_continued_by(self, charge: Charge) -> bool:
        """Return whether a charge is for the same allowance under the same terms, which determine its cost.

        The number of records per subject is not part of the terms: a ceiling states it, and a later one may differ.
        """
        return bool(self.terms) and (self.allowance, self.terms) == (charge.allowance, charge.terms)


def spent_epsilon(charges: Sequence[Charge], delta: float, unit: Unit = PER_RECORD) -> float:
    """Return the epsilon of all charges together at ``delta``, per ``unit``: mu^2 adds, and so do the reserves.

    A charge per record counts with k times its mu per subject, k being the number of records of a subject; refused if
    ``unit`` does not state k. A charge per subject counts unchanged per record.
    """
    if not charges:
        return 0.0
    mu = compose(charge.mu * charge.unit.factor(unit) for charge in charges)
    if math.isinf(mu):
        return math.inf
    gap, tail = math.fsum(entry.gap for entry in charges), math.fsum(entry.tail for entry in charges)
    epsilon = printed_epsilon(delta, mu, gap=gap, tail=tail)
    # A tail was checked at its own allowance's epsilon and grows with that of all together (docs/noise.md): beyond
    # this the proof for integer noise does not hold, so the ledger states no bound.
    least = min((entry.tail for entry in charges if entry.tail > 0), default=1.0)
    return epsilon if epsilon <= TAIL_EXPONENT - 1 + math.log(least) else math.inf


def over_ceiling(what: str, epsilon: float, delta: float, *, before: float, after: float, unit: Unit) -> LedgerRefused:
    """Return the refusal of a charge above a ceiling; what was spent stays in the site's own log.

    The text of a refusal leaves the site, and must not reveal the spending of other studies.
    """
    _log.warning(
        "a study was refused: the ceiling of %s is epsilon %g at delta %g %s; %.4g is spent, %.4g with the study",
        what,
        epsilon,
        delta,
        unit.per,
        before,
        after,
    )
    return LedgerRefused(
        "The study was refused",
        f"it would exceed the ceiling of {what} (epsilon {epsilon:g} at delta {delta:g} {unit.per})",
        "No records were read. Lower its epsilon, or ask the steward.",
    )


def other_terms() -> LedgerRefused:
    """Return the refusal to continue an allowance under terms other than those it was charged for."""
    return LedgerRefused(
        "The allowance was not continued",
        "its terms are not those it was charged for",
        "No records were read. Continue with the study as it ran, or start a new run with --again.",
    )


def _is_between(value: object, below: float) -> bool:
    """Return whether a value is a number strictly between 0 and ``below``; text, Booleans and NaN are not."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    return 0 < float(value) < below


class Spending(Protocol):
    """What a site needs of a ledger, wherever it is kept."""

    def check(self, charge: Charge) -> None:
        """Refuse a charge that would pass a ceiling; change nothing."""

    def charge(self, charge: Charge) -> None:
        """Take a charge, for good."""

    def is_charged(self, allowance: str) -> bool:
        """Return whether the allowance has been charged here."""

    def reopen(self, charge: Charge) -> int:
        """Continue an allowance under its own charge, or check a new one; return the next release's number."""

    def next_release(self, allowance: str, release: int) -> None:
        """Count a release; each happens at most once and in order."""

    def head(self) -> tuple[int, str]:
        """Return length and hash of the ledger, which the coordinator keeps; (0, "") if it has none."""

    def confirm(self, length: int, head: str) -> None:
        """Refuse if the ledger does not contain a head that was seen before."""

    def accepted(self) -> tuple[tuple[int, str], ...]:
        """Return the heads whose loss the steward accepted."""


@dataclass
class Ledger:
    """Spending of one data set at one site, composed exactly, under an optional ceiling.

    Parameters
    ----------
    epsilon, delta : float or None
        The ceiling for everything ever released from the data set; None for no ceiling.
    per : str
        What the ceiling and `spent` are about: "record", or "subject" for a person with all records.
    rows_per_subject : int or None
        Public largest number of records one subject owns; needed to count a study per record per subject, and at least
        the length of the longest series.

    Privacy
    -------
    Allowances compose as Gaussian releases (mu^2 adds), so the epsilon spent is that of all of them together at the
    ceiling's delta, plus the reserve each allowance keeps for integer noise. Against a ceiling per subject, a study per
    record counts with ``rows_per_subject`` times its mu, or more if the study states a larger number.

    Examples
    --------
    >>> ledger = Ledger(epsilon=1.0, delta=1e-5)
    >>> ledger.spent()
    0.0
    """

    epsilon: float | None = None
    delta: float | None = None
    charges: list[Charge] = field(default_factory=list)
    _next: dict[str, int] = field(default_factory=dict, repr=False)
    per: str = "record"
    rows_per_subject: int | None = None

    def __post_init__(self) -> None:
        self.unit = Unit(self.per, self.rows_per_subject)
        if (self.epsilon is None) != (self.delta is None):
            raise InvalidParameter("A ledger's ceiling", "have both epsilon and delta", "one of them", "Pass both.")
        # NaN compares false with everything, and at delta 1 every charge costs epsilon 0: neither would ever refuse.
        if self.epsilon is not None and not (_is_between(self.epsilon, math.inf) and _is_between(self.delta, 1.0)):
            must = "be a positive finite epsilon and a delta strictly between 0 and 1"
            remedy = "Leave both out for a ledger without ceiling."
            raise InvalidParameter("A ledger's ceiling", must, f"{self.epsilon!r} and {self.delta!r}", remedy)

    def spent(self, delta: float | None = None) -> float:
        """Return the epsilon of everything charged so far, at ``delta`` (that of the ceiling if None), in `unit`."""
        at = self.delta if delta is None else delta
        if at is None:
            raise InvalidParameter("delta", "be given for a ledger without ceiling", "None", "Write spent(1e-6).")
        return spent_epsilon(self.charges, at, self.unit)

    def check(self, charge: Charge) -> None:
        """Refuse a charge that would pass the ceiling; change nothing."""
        if charge.allowance in self._next:
            what = f"The allowance {charge.allowance!r} was refused"
            raise LedgerRefused(what, "it is already charged", "Start a new run.")
        # Also without a ceiling, because spending is stated per subject.
        stated = charge.stated(self.unit)
        if self.epsilon is None or self.delta is None:
            return
        after = spent_epsilon([*self.charges, stated], self.delta, self.unit)
        if not after <= self.epsilon:
            what = "this data set"
            raise over_ceiling(what, self.epsilon, self.delta, before=self.spent(), after=after, unit=self.unit)

    def charge(self, charge: Charge) -> None:
        """Take a charge, for good."""
        self.check(charge)
        self.charges.append(charge.stated(self.unit))
        self._next[charge.allowance] = 0

    def reopen(self, charge: Charge) -> int:
        """Continue an allowance under its own charge, or check a new one; return the next release's number."""
        if charge.allowance not in self._next:
            self.check(charge)
            return 0
        if not any(entry.is_continued_by(charge) for entry in self.charges):
            raise other_terms()
        return self._next[charge.allowance]

    def is_charged(self, allowance: str) -> bool:
        """Return whether the allowance has been charged."""
        return allowance in self._next

    def next_release(self, allowance: str, release: int) -> None:
        """Count a release; each happens at most once and in order."""
        expected = self._next.get(allowance)
        if expected is None:
            raise ProtocolError("The release was refused", "its allowance was not charged", "Start a new run.")
        if release < expected:
            raise ProtocolError(f"Release {release + 1} was refused", "it happened before", "Start a new run.")
        charge = next(entry for entry in self.charges if entry.allowance == allowance)
        if release >= charge.n_releases:
            raise LedgerRefused(
                f"Release {release + 1} was refused",
                f"its allowance has {charge.n_releases} releases",
                "Open a new allowance, which is charged separately.",
            )
        self._next[allowance] = release + 1

    def head(self) -> tuple[int, str]:
        """Return (0, ""): a ledger in memory has no chain."""
        return 0, ""

    def confirm(self, length: int, head: str) -> None:
        """Accept: a ledger in memory remembers nothing from before."""

    def accepted(self) -> tuple[tuple[int, str], ...]:
        """Return nothing: a ledger in memory loses no rows that others saw."""
        return ()
