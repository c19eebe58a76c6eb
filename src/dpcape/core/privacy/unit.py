"""What a privacy figure is about: one record, or one subject with all the records it owns."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpcape.core.errors import InvalidParameter, LedgerRefused

_log = logging.getLogger(__name__)

UNITS = ("record", "subject")


@dataclass(frozen=True)
class Unit:
    """The unit of a charge or of a ceiling.

    Parameters
    ----------
    kind : str
        "record" or "subject".
    rows_per_subject : int or None
        Public largest number of records one subject owns; None if it is not stated.

    Privacy
    -------
    A subject with k records moves a total by up to k times what one record moves it, so its mu is k times a record's,
    when its records are replaced by as many others. What integer noise adds to epsilon and delta stays as it is: the
    bound holds for any two totals (docs/noise.md, section 3.3). A subject's mu also covers each of its records.

    Examples
    --------
    >>> Unit("record").factor(Unit("subject", 250))
    250
    >>> Unit("subject", 250).factor(Unit("record"))
    1
    """

    kind: str = "record"
    rows_per_subject: int | None = None

    def __post_init__(self) -> None:
        if self.kind not in UNITS:
            remedy = "'subject' protects a person with all records, 'record' one record."
            raise InvalidParameter("a unit", "be 'record' or 'subject'", repr(self.kind), remedy)
        rows = self.rows_per_subject
        if rows is not None and (isinstance(rows, bool) or not isinstance(rows, int) or rows < 1):
            remedy = "State the largest number of records one subject owns, or leave it out."
            raise InvalidParameter("rows_per_subject", "be a positive whole number", repr(rows), remedy)

    def factor(self, ceiling: Unit) -> int:
        """Return how many times the mu of a charge in this unit counts against a ceiling in another.

        The number must be the ceiling's, which the site states. A study's own is its coordinator's, and only raises it.
        """
        if ceiling.kind == "record" or self.kind == "subject":
            return 1
        if ceiling.rows_per_subject is None:
            raise number_needed()
        # Use the larger number: raising it applies to earlier charges too, lowering it does not.
        return max(ceiling.rows_per_subject, self.rows_per_subject or 1)

    def check_longest(self, ceiling: Unit, longest: int) -> None:
        """Refuse a charge in this unit if a ceiling states fewer records than ``longest``, which a subject here owns.

        The text leaves the site, so it is that of a ceiling without a number; the lengths stay in the site's own log.
        """
        if ceiling.kind == "record" or self.kind == "subject":
            return
        stated = ceiling.rows_per_subject
        if stated is not None and stated < longest:
            _log.warning("a ceiling states %d records per subject; the longest series has %d", stated, longest)
        if stated is None or stated < longest:
            raise number_needed()

    def stated(self, ceiling: Unit) -> Unit:
        """Return this unit with the number of records per subject that it or the ceiling states; the larger of two."""
        known = [rows for rows in (self.rows_per_subject, ceiling.rows_per_subject) if rows is not None]
        return Unit(self.kind, max(known, default=None))

    def row(self) -> dict[str, object]:
        """Return the fields of a ledger's row."""
        return {"unit": self.kind, "rows_per_subject": self.rows_per_subject}

    @property
    def per(self) -> str:
        """The unit in two words: "per record" or "per subject"."""
        return f"per {self.kind}"

    def __str__(self) -> str:
        if self.rows_per_subject is None:
            return self.per
        return f"{self.per} (at most {self.rows_per_subject} record{'s' * (self.rows_per_subject > 1)} of each subject)"


PER_RECORD = Unit()


def number_needed() -> LedgerRefused:
    """Return the refusal to count a charge per record under a ceiling per subject without a number that holds."""
    return LedgerRefused(
        "A study per record cannot be counted against a ceiling per subject",
        "this site's steward has stated no number of records per subject, or fewer than the longest series has",
        "Nothing was charged. State it at the site with: dpcape site budget DATA --rows-per-subject K (in process: "
        "Ledger(rows_per_subject=K)).",
    )


def read_unit(row: Mapping[str, Any]) -> Unit:
    """Return the unit a ledger's row states; rows written before units were stated are per record."""
    return Unit(row.get("unit", "record"), row.get("rows_per_subject"))
