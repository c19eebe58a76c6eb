"""What happens to records that cannot be read: a public policy, and a local warning."""

from __future__ import annotations

import warnings
from typing import TypeVar

from dpcape.core.errors import InvalidParameter, UtilityWarning
from dpcape.records.kinds import Records

POLICIES = ("zero", "refuse")
# Above this share of invalid records the site's own check fails.
MOST_INVALID = 0.01

_R = TypeVar("_R", bound=Records)


def checked_policy(invalid: str) -> str:
    """Return the policy if it is known."""
    if invalid not in POLICIES:
        raise InvalidParameter("invalid", "be 'zero' or 'refuse'", repr(invalid), "Choose one of them.")
    return invalid


def warned(records: _R) -> _R:
    """Return the records; warn locally, where they are built, of those that contribute zero."""
    if records.facts().invalid == "zero" and (n_invalid := records.n_invalid):
        warnings.warn(
            f"{n_invalid} of {records.n_records} records cannot be read and contribute zero. Correct them, or declare "
            "missing=. This number stays here.",
            UtilityWarning,
            stacklevel=3,
        )
    return records
