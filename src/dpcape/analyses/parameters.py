"""Parameters of analyses, checked before any site receives a request."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import numpy as np

from dpcape.core.errors import InvalidParameter

if TYPE_CHECKING:
    from dpcape.analyses.description import Public

End: TypeAlias = "float | Callable[[Public], float] | None"
"""End of a range: a number, or a function from public numbers to it; None where there is no range."""


def check_whole(name: str, value: object, least: int, most: int) -> int:
    """Return a whole number from ``least`` to ``most``."""
    if isinstance(value, bool) or not isinstance(value, Integral) or not least <= int(value) <= most:
        raise InvalidParameter(name, f"be a whole number from {least} to {most} here", shown(value))
    return int(value)


def check_number(name: str, value: object, least: float, most: float) -> float:
    """Return a finite number from ``least`` to ``most``, which may be infinite."""
    if not is_number(value) or not least <= float(value) <= min(most, 1e300):
        ends = f"of at least {least:g}" if math.isinf(most) else f"from {least:g} to {most:g}"
        raise InvalidParameter(name, f"be a finite number {ends}", shown(value))
    return float(value)


def check_positive(name: str, value: object) -> float:
    """Return a positive finite number."""
    if not is_number(value) or not 0 < float(value) < math.inf:
        raise InvalidParameter(name, "be a positive finite number", shown(value))
    return float(value)


def check_confidence(value: object) -> float:
    """Return the confidence level of intervals, strictly between 0 and 1."""
    if not is_number(value) or not 0 < float(value) < 1:
        raise InvalidParameter("confidence", "be strictly between 0 and 1", shown(value), "Try 0.95.")
    return float(value)


def check_flag(name: str, value: object) -> bool:
    """Return a Boolean; text such as "no" is refused, because Python treats it as true."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidParameter(name, "be True or False", shown(value))
    return bool(value)


def check_choice(name: str, value: object, choices: Sequence[str]) -> str:
    """Return one of ``choices``."""
    if not isinstance(value, str) or value not in choices:
        words = ", ".join(repr(choice) for choice in choices)
        raise InvalidParameter(name, f"be one of {words}", shown(value))
    return value


def check_seed(value: object) -> None:
    """Refuse a value that is not a valid seed."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, Integral) or not 0 <= int(value) < 2**32:
        must = f"be a whole number from 0 to {2**32 - 1}, or None for a new start each time"
        raise InvalidParameter("random_state", must, shown(value))


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a real number; Booleans are not."""
    return isinstance(value, Real) and not isinstance(value, bool)


def shown(value: object) -> str:
    """Return a value for a message, on one line and shortened."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:57] + "..."


def check_components(n_components: int | str, largest: int, *, name: str = "n_components") -> int | None:
    """Return the requested number of components, or None for "auto"."""
    if isinstance(n_components, str) and n_components == "auto":
        return None
    if isinstance(n_components, bool) or not isinstance(n_components, int | np.integer):
        raise InvalidParameter(name, "be a whole number or 'auto'", shown(n_components))
    return check_whole(name, n_components, 1, largest)


class _Required:
    """Type of :data:`REQUIRED`, the default of a parameter that must be given."""

    def __repr__(self) -> str:
        return "required"


REQUIRED = _Required()
WHOLE, NUMBER, POSITIVE, FLAG, CHOICE, OTHER = "whole", "number", "positive", "flag", "choice", "other"


@dataclass(frozen=True)
class CodeNames:
    """Names of code that a parameter may have as its value.

    Attributes
    ----------
    group : str
        Entry points under which other packages declare such code.
    own : callable
        Returns the names of dpcape's own; no package can replace those.
    """

    group: str
    own: Callable[[], frozenset[str]]


@dataclass(frozen=True)
class Parameter:
    """Parameter of an analysis: its kind, range and default, and its initial value in plans.

    Attributes
    ----------
    name : str
        Name in Python and in study files.
    kind : str
        WHOLE, NUMBER (from ``least`` to ``most``), POSITIVE, FLAG, CHOICE (one of ``words``), or OTHER.
    default : object
        The estimator's default; REQUIRED if there is none.
    least : number or callable
        Lower end of its range, or a function from public numbers to it.
    most : number or callable
        Upper end of its range, or a function from public numbers to it.
    optional : bool
        Whether None is allowed.
    words : tuple of str
        Words allowed instead of a number, such as "auto"; for a choice, all allowed values.
    planned : object
        Initial value in plans, if it is not the default.
    title : str
        Label on the planner page; empty if plans do not depend on the parameter.
    left_out : str
        Meaning of None on the planner page.
    refuse : callable or None
        Check that replaces the kind's own: ``refuse(value, public)`` raises if the value is invalid.
    code : CodeNames or None
        Where other packages declare code that this parameter may name; None if it names none.
    """

    name: str
    kind: str
    default: object = REQUIRED
    least: End = None
    most: End = None
    optional: bool = False
    words: tuple[str, ...] = ()
    planned: object = REQUIRED
    title: str = ""
    left_out: str = ""
    refuse: Callable[[object, Public], object] | None = None
    code: CodeNames | None = None

    @property
    def start(self) -> object:
        """Initial value in plans."""
        return self.default if self.planned is REQUIRED else self.planned

    def ends(self, public: Public) -> tuple[Any, Any]:
        """Return the range for these public numbers."""
        least, most = (end(public) if callable(end) else end for end in (self.least, self.most))
        return least, most

    def check(self, value: object, public: Public) -> None:
        """Refuse an invalid value."""
        if self.refuse is not None:
            self.refuse(value, public)
        elif (value is None and self.optional) or self.kind not in _CHECKS:
            return
        else:
            _CHECKS[self.kind](self, value, public)


def n_components(most: End, planned: int) -> Parameter:
    """Return the parameter for the number of components, at most ``most`` and in plans ``planned``, or "auto"."""
    return Parameter("n_components", WHOLE, least=1, most=most, words=("auto",), planned=planned, title="Components")


def _check_whole(parameter: Parameter, value: object, public: Public) -> None:
    if isinstance(value, str) and value in parameter.words:
        return
    least, most = parameter.ends(public)
    if parameter.words and (isinstance(value, bool) or not isinstance(value, Integral)):
        words = " or ".join(repr(word) for word in parameter.words)
        raise InvalidParameter(parameter.name, f"be a whole number or {words}", shown(value))
    if parameter.optional:
        if isinstance(value, bool) or not isinstance(value, Integral) or not least <= int(value) <= most:
            raise InvalidParameter(parameter.name, f"be None or a whole number from {least} to {most}", shown(value))
        return
    check_whole(parameter.name, value, least, most)


_CHECKS: dict[str, Callable[[Parameter, object, Public], object]] = {
    WHOLE: _check_whole,
    NUMBER: lambda parameter, value, public: check_number(parameter.name, value, *parameter.ends(public)),
    POSITIVE: lambda parameter, value, public: check_positive(parameter.name, value),
    FLAG: lambda parameter, value, public: check_flag(parameter.name, value),
    CHOICE: lambda parameter, value, public: check_choice(parameter.name, value, parameter.words),
}
