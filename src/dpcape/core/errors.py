"""Exceptions and warnings of dpcape.

::

    DpcapeError
      InvalidParameter (also ValueError)    a parameter or input is invalid
      AllowanceExceeded                     more releases were requested than the allowance covers
      LedgerRefused                         a site would exceed its ceiling; names the ceiling, not the data
      ViewUnprotected                       the adversary's view determines a record
      ProtocolError                         wrong stage, missing site, a sum that does not close
        SiteLost                            too few sites are left to finish
        ReleaseLost                         a release was begun, never arrived, and cannot be made again
      TransportError                        messages could not be carried; the original exception is chained

    DpcapeWarning (UserWarning)
      ConvergenceWarning                    an iteration stopped before it converged
      UtilityWarning                        a result will be of little use: noise dominates the signal (judged from
                                            public quantities only), or new rows were not prepared as records are
        UndeterminedWarning                 a quantity of a result is not determined

Messages take one of two forms: *X must be ...; got .... Remedy.* for an invalid value, and *X failed because Y.
Remedy.* for a failure. Anything that weakens a guarantee is an exception, never a warning. A message that can leave a
site contains no number that depends on records.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class DpcapeError(Exception):
    """Base class of all dpcape exceptions."""


class InvalidParameter(DpcapeError, ValueError):
    """Raised when a parameter or input is invalid."""


class AllowanceExceeded(DpcapeError):
    """Raised when more releases are requested than the allowance was calibrated for."""


class LedgerRefused(DpcapeError):
    """Raised when a site would exceed a ceiling of its ledger."""


class ViewUnprotected(DpcapeError):
    """Raised when the adversary's view determines a record: the exposure is infinite."""


class ProtocolError(DpcapeError):
    """Raised when a message comes at the wrong stage, from the wrong party or with the wrong content."""


class SiteLost(ProtocolError):
    """Raised when fewer sites remain than the protocol needs to finish."""


class ReleaseLost(ProtocolError):
    """A release was begun, never arrived, and cannot be made again."""


class TransportError(DpcapeError):
    """Raised when messages could not be delivered."""


def error_named(name: str, otherwise: type[DpcapeError] = ProtocolError) -> type[DpcapeError]:
    """Return the dpcape exception class of this name, or ``otherwise`` if there is none."""
    kind = globals().get(name)
    return kind if isinstance(kind, type) and issubclass(kind, DpcapeError) else otherwise


def nearest_name(name: object, names: Iterable[object]) -> str:
    """Return a question that proposes the names most like this one; empty if none is.

    Examples
    --------
    >>> nearest_name("Age", ["age", "sex", "cage"])
    "Did you mean 'age' or 'cage'?"
    """
    known = [str(entry) for entry in names]
    folded: dict[str, str] = {}
    for entry in known:
        folded.setdefault(entry.strip().casefold(), entry)
    close = difflib.get_close_matches(str(name).strip().casefold(), list(folded), n=2, cutoff=0.7)
    return f"Did you mean {' or '.join(repr(folded[entry]) for entry in close)}?" if close else ""


class DpcapeWarning(UserWarning):
    """Base class of all dpcape warnings."""


class ConvergenceWarning(DpcapeWarning):
    """Issued when an iteration stops before it converges."""


class UtilityWarning(DpcapeWarning):
    """Issued when noise dominates the signal, or when new rows were not prepared as records are.

    Noise is judged from public quantities only.
    """


class UndeterminedWarning(UtilityWarning):
    """Issued when a quantity of a result is not determined: noise and sampling alone could explain it."""
