"""Every exception and warning dpcape raises.

::

    DpcapeError
      InvalidParameter (also ValueError)    asked for something meaningless
      AllowanceExceeded                     more releases than were calibrated
      LedgerRefused                         a site would pass its ceiling; names the ceiling, not the data
      ViewUnprotected                       the adversary's view determines a record
      ProtocolError                         wrong stage, missing site, a sum that does not close
        SiteLost                            too few sites are left to finish
        ReleaseLost                         a release was begun, never arrived, and cannot be made again
      TransportError                        messages could not be carried; the original exception is chained

    DpcapeWarning (UserWarning)
      ConvergenceWarning                    an iteration stopped before it settled
      UtilityWarning                        a result will be of little use: noise dominates signal, judged from public
                                            quantities only, or new rows were not prepared as records are

Messages read: *subject must be requirement; got value. Remedy.* Whatever weakens a guarantee is an exception,
never a warning. A message that can leave a site holds no number that depends on records.
"""

from __future__ import annotations


class DpcapeError(Exception):
    """Base of every dpcape exception."""


class InvalidParameter(DpcapeError, ValueError):
    """A parameter or input has no meaning here."""


class AllowanceExceeded(DpcapeError):
    """More releases were asked for than the allowance was calibrated for."""


class LedgerRefused(DpcapeError):
    """A site would pass a ceiling of its ledger."""


class ViewUnprotected(DpcapeError):
    """The adversary's view determines a record: the exposure is infinite."""


class ProtocolError(DpcapeError):
    """A message came at the wrong stage, from the wrong party or with the wrong content."""


class SiteLost(ProtocolError):
    """Fewer sites are left than the protocol needs to finish."""


class ReleaseLost(ProtocolError):
    """A release was begun, never arrived, and cannot be made again."""


class TransportError(DpcapeError):
    """Messages could not be carried."""


def error_named(name: str, otherwise: type[DpcapeError] = ProtocolError) -> type[DpcapeError]:
    """Return the exception of the tree above that a message names; ``otherwise`` for any other word."""
    kind = globals().get(name)
    return kind if isinstance(kind, type) and issubclass(kind, DpcapeError) else otherwise


class DpcapeWarning(UserWarning):
    """Base of every dpcape warning."""


class ConvergenceWarning(DpcapeWarning):
    """An iteration stopped before it settled."""


class UtilityWarning(DpcapeWarning):
    """A result will be of little use: noise dominates signal, or new rows were not prepared as records are.

    Noise is judged from public quantities only.
    """
