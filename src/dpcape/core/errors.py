"""Exceptions and warnings of dpcape.

::

    DpcapeError                             has `remedy`, what to do, and `where`, the place in a file or the site
      InvalidParameter (also ValueError)    a parameter or input is invalid: `subject` must `must`; got `got`
      Failed                                something could not be done: `what` because `why`
        MissingExtra (also ImportError)     a package that an extra installs is missing
        DamagedFile                         a file is missing or its content cannot be used
        AllowanceExceeded                   more releases were requested than the allowance covers
        LedgerRefused                       a site would exceed its ceiling; names the ceiling, not the data
        ViewUnprotected                     the adversary's view determines a record
        ProtocolError                       wrong stage, missing site, a sum that does not close
          InvalidMessage                    a message is invalid: `subject` must `must`; got `got`
          SiteLost                          too few sites are left to finish
          ReleaseLost                       a release was begun, never arrived, and cannot be made again
        TransportError                      messages could not be carried; the original exception is chained

    DpcapeWarning (UserWarning)
      ConvergenceWarning                    an iteration stopped before it converged
      UtilityWarning                        a result will be of little use: noise dominates the signal (judged from
                                            public quantities only), or new rows were not prepared as records are
        UndeterminedWarning                 a quantity of a result is not determined

An unfitted model raises ``NotFitted`` of `dpcape.estimators.not_fitted`, which is scikit-learn's exception too.

Programs read the fields; people read the sentence that ``str`` makes of them. Anything that weakens a guarantee is an
exception, never a warning. A message that can leave a site contains no number that depends on records.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Self


class DpcapeError(Exception):
    """Base class of all dpcape exceptions: a sentence, and what to do.

    Attributes
    ----------
    remedy : str
        What to do, in whole sentences; empty if there is nothing better than the sentence itself.
    where : str
        The place that is at fault, such as a line of a file, or the site that refused; empty if neither is known.
    """

    def __init__(self, sentence: str, remedy: str = "") -> None:
        sentence = str(sentence)
        self.sentence = sentence if sentence.endswith((".", "!", "?")) else f"{sentence}."
        self.remedy, self.where = remedy, ""
        super().__init__(sentence, remedy)

    def __str__(self) -> str:
        return (f"{self.where}: " if self.where else "") + f"{self.sentence} {self.remedy}".rstrip()

    def at(self, where: str, remedy: str = "") -> Self:
        """Return the same error with its place, and with a remedy if it has none."""
        # Not copy.copy: other packages may register how exceptions of all classes are copied.
        located = type(self).__new__(type(self), *self.args)
        vars(located).update(vars(self))
        located.where = f"{where}: {self.where}" if self.where else where
        located.remedy = self.remedy or remedy
        return located


class Requirement(DpcapeError):
    """Error about a value: what it is the value of, what it must be, and what it was."""

    def __init__(self, subject: str, must: str = "", got: object = "", remedy: str = "") -> None:
        self.subject, self.must, self.got = subject, must, str(got)
        requirement = f"{subject} must {must}" + (f"; got {self.got}" if self.got else "")
        DpcapeError.__init__(self, requirement if must else subject, remedy)
        self.args = (subject, must, self.got, remedy)


class InvalidParameter(Requirement, ValueError):
    """Raised when a parameter or input is invalid."""


class Failed(DpcapeError):
    """Raised when an operation failed for a reason other than an invalid value."""

    def __init__(self, what: str, why: str = "", remedy: str = "") -> None:
        self.what, self.why = what, why
        super().__init__(f"{what} because {why}" if why else what, remedy)
        self.args = (what, why, remedy)


class MissingExtra(Failed, ImportError):
    """Raised when a package that an extra of dpcape installs is missing."""

    def __init__(self, what: str, extra: str = "") -> None:
        # Without an extra, ``what`` is the sentence of another party.
        told = (f"{what} is not installed", f"Run: pip install 'dpcape[{extra}]'.") if extra else (what, "")
        super().__init__(told[0], remedy=told[1])
        self.extra = extra
        self.args = (what, extra)


class DamagedFile(Failed):
    """Raised when a file is missing, or its content cannot be used."""


class AllowanceExceeded(Failed):
    """Raised when more releases are requested than the allowance was calibrated for."""


class LedgerRefused(Failed):
    """Raised when a site would exceed a ceiling of its ledger."""


class ViewUnprotected(Failed):
    """Raised when the adversary's view determines a record: the exposure is infinite."""


class ProtocolError(Failed):
    """Raised when a message comes at the wrong stage, from the wrong party or with the wrong content."""


class InvalidMessage(Requirement, ProtocolError):
    """Raised when a message, or what it refers to, is not what the protocol prescribes."""

    def __init__(self, subject: str, must: str = "", got: object = "", remedy: str = "") -> None:
        super().__init__(subject, must, got, remedy)
        self.what, self.why = self.sentence.removesuffix("."), ""


class SiteLost(ProtocolError):
    """Raised when fewer sites remain than the protocol needs to finish."""


class ReleaseLost(ProtocolError):
    """A release was begun, never arrived, and cannot be made again."""


class TransportError(Failed):
    """Raised when messages could not be delivered."""


def error_named(name: str, otherwise: type[DpcapeError] = ProtocolError) -> type[DpcapeError]:
    """Return the dpcape exception class of this name, or ``otherwise``; each can be made of one sentence."""
    kind = None if name.startswith("_") else globals().get(name)
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
