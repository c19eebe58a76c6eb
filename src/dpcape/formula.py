"""Arithmetic on public numbers that is either computed or written as JavaScript.

A formula is an ordinary Python function that uses the operators of numbers and the functions of this module. Called
with numbers it returns numbers, computed with exactly the floating-point operations in its source. Called with a
:class:`Formula` for one or more of its arguments it returns a :class:`Formula`, whose text is a JavaScript expression
for the same operations in the same order. The size or the diameter of a release is so written once, in Python, and the
planner's page computes it from the same source.

Both computations use IEEE double precision. Powers and :func:`hypot` may differ in the last digits, because the
libraries of Python and JavaScript round them differently; whole numbers agree up to 2^53. ``//`` is for whole numbers:
between others Python rounds the exact quotient down, JavaScript the rounded one.

Three things must be written with the functions below, because Python decides them before a formula can be written:
``if`` and the conditional expression (:func:`choose`), ``and``, ``or`` and ``not`` (:func:`both`, :func:`either`,
:func:`negation`), and ``is None`` (:func:`given`). A formula raises ``TypeError`` where it is used as a truth value.

Examples
--------
>>> def packed(n):
...     return n * (n + 1) // 2
>>> packed(4)
10
>>> packed(Formula("p.n_features"))
Formula(Math.floor((p.n_features * (p.n_features + 1)) / 2))
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from numbers import Integral, Real
from typing import TypeAlias, overload

_LARGEST_EXACT = 2**53
"""Largest integer up to which all integers are exact in JavaScript."""


class Formula:
    """JavaScript expression for a number, condition or text that is not known yet.

    Operators with numbers and other formulas return formulas. ``==`` and ``!=`` do too, so a formula has no hash.

    Parameters
    ----------
    text : str
        A JavaScript expression that binds at least as tightly as a member access or a parenthesis, such as
        ``p.n_features``: it is put next to operators without further parentheses.
    """

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return f"Formula({self.text})"

    def __bool__(self) -> bool:
        raise TypeError(
            f"A condition must be known where Python branches; got the formula {self.text}. "
            "Write choose(condition, then, otherwise), both(), either(), negation() or given()."
        )

    def __add__(self, other: Number) -> Formula:
        return _operation(self, "+", other)

    def __radd__(self, other: Number) -> Formula:
        return _operation(other, "+", self)

    def __sub__(self, other: Number) -> Formula:
        return _operation(self, "-", other)

    def __rsub__(self, other: Number) -> Formula:
        return _operation(other, "-", self)

    def __mul__(self, other: Number) -> Formula:
        return _operation(self, "*", other)

    def __rmul__(self, other: Number) -> Formula:
        return _operation(other, "*", self)

    def __truediv__(self, other: Number) -> Formula:
        return _operation(self, "/", other)

    def __rtruediv__(self, other: Number) -> Formula:
        return _operation(other, "/", self)

    def __floordiv__(self, other: Number) -> Formula:
        return Formula(f"Math.floor({written(self)} / {_whole(other)})")

    def __rfloordiv__(self, other: Number) -> Formula:
        return Formula(f"Math.floor({_whole(other)} / {written(self)})")

    def __pow__(self, other: Number) -> Formula:
        return _operation(self, "**", other)

    def __rpow__(self, other: Number) -> Formula:
        return _operation(other, "**", self)

    def __neg__(self) -> Formula:
        return Formula(f"(-{self.text})")

    def __lt__(self, other: Number) -> Formula:
        return _operation(self, "<", other)

    def __le__(self, other: Number) -> Formula:
        return _operation(self, "<=", other)

    def __gt__(self, other: Number) -> Formula:
        return _operation(self, ">", other)

    def __ge__(self, other: Number) -> Formula:
        return _operation(self, ">=", other)

    def __eq__(self, other: object) -> Formula:  # type: ignore[override]  # comparing formulas gives a formula
        return _operation(self, "===", other)

    def __ne__(self, other: object) -> Formula:  # type: ignore[override]  # comparing formulas gives a formula
        return _operation(self, "!==", other)


Number: TypeAlias = float | Formula
"""A number that is known, or a formula for one."""

Condition: TypeAlias = bool | Formula
"""A condition that is known, or a formula for one."""

Value: TypeAlias = float | bool | str | Formula | None
"""A value that :func:`written` accepts."""


def written(value: object) -> str:
    """Return the JavaScript expression of a value.

    Parameters
    ----------
    value : float, int, bool, str, None or Formula
        The value. A negative number is put in parentheses: JavaScript refuses ``-0.5 ** x``.
    """
    if isinstance(value, Formula):
        return value.text
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, Integral):
        return _written_whole(int(value))
    if isinstance(value, Real):
        return _written_real(float(value))
    raise TypeError(
        f"A value in a formula must be a number, a Boolean, a string or None; got {type(value).__name__}. "
        "Compute it before the formula."
    )


def _written_whole(value: int) -> str:
    if abs(value) > _LARGEST_EXACT:
        raise ValueError(
            f"An integer in a formula must be at most 2^53 in absolute value; got {value}. Write it as a float if it "
            "may be rounded."
        )
    return str(value) if value >= 0 else f"({value})"


def _written_real(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    text = "Infinity" if math.isinf(value) else repr(abs(value))
    return f"(-{text})" if math.copysign(1.0, value) < 0 else text


def _whole(value: object) -> str:
    """Return the JavaScript expression of an operand of ``//``."""
    if isinstance(value, float) and not value.is_integer():
        raise ValueError(f"Both operands of // must be integers; got {value!r}. Use / instead.")
    return written(value)


def _operation(first: object, symbol: str, second: object) -> Formula:
    return Formula(f"({written(first)} {symbol} {written(second)})")


def _function(name: str, plain: Callable[..., float], *values: Number) -> Number:  # type: ignore[explicit-any]
    """Return a function's value, or its call in JavaScript if an argument is a formula."""
    if any(isinstance(value, Formula) for value in values):
        return Formula(f"Math.{name}({', '.join(map(written, values))})")
    return plain(*values)


def sqrt(value: Number) -> Number:
    """Return the square root."""
    return _function("sqrt", math.sqrt, value)


def hypot(*values: Number) -> Number:
    """Return the Euclidean length of a vector given by its coordinates."""
    return _function("hypot", math.hypot, *values)


def ceil(value: Number) -> Number:
    """Return the smallest integer that is not below ``value``."""
    return _function("ceil", math.ceil, value)


def minimum(first: Number, *more: Number) -> Number:
    """Return the smallest of one or more numbers."""
    return _function("min", _least, first, *more)


def maximum(first: Number, *more: Number) -> Number:
    """Return the largest of one or more numbers."""
    return _function("max", _largest, first, *more)


def _least(*values: float) -> float:
    return min(values)


def _largest(*values: float) -> float:
    return max(values)


def clamp(value: Number, least: Number, most: Number) -> Number:
    """Return ``value`` moved into the interval from ``least`` to ``most``."""
    return minimum(maximum(value, least), most)


@overload
def choose(
    condition: Condition, then: Number | Callable[[], Number], otherwise: Number | Callable[[], Number]
) -> Number: ...


@overload
def choose(
    condition: Condition, then: Value | Callable[[], Value], otherwise: Value | Callable[[], Value]
) -> Value: ...


def choose(condition: Condition, then: Value | Callable[[], Value], otherwise: Value | Callable[[], Value]) -> Value:
    """Return one of two values, depending on a condition.

    Parameters
    ----------
    condition : bool or Formula
        The condition.
    then, otherwise : number, text, None or Formula, or a function without arguments that returns one
        The values. A function is called only if its value is needed: give one where the other case cannot be computed,
        such as a root of a negative number. For a condition that is a formula both are needed.
    """
    if isinstance(condition, Formula):
        return Formula(f"({condition.text} ? {written(_value(then))} : {written(_value(otherwise))})")
    return _value(then if condition else otherwise)


def given(value: Value) -> Condition:
    """Return whether an optional value was given: whether it is not None, in JavaScript not null."""
    return Formula(f"({value.text} !== null)") if isinstance(value, Formula) else value is not None


def both(first: Condition, second: Condition | Callable[[], Condition]) -> Condition:
    """Return whether two conditions hold.

    Parameters
    ----------
    first : bool or Formula
        The first condition.
    second : bool or Formula, or a function without arguments that returns one
        The second. A function is called only if the first condition may hold.
    """
    if isinstance(first, Formula):
        return Formula(f"({first.text} && {written(_condition(second))})")
    return _condition(second) if first else False


def either(first: Condition, second: Condition | Callable[[], Condition]) -> Condition:
    """Return whether at least one of two conditions holds.

    Parameters
    ----------
    first : bool or Formula
        The first condition.
    second : bool or Formula, or a function without arguments that returns one
        The second. A function is called only if the first condition may fail.
    """
    if isinstance(first, Formula):
        return Formula(f"({first.text} || {written(_condition(second))})")
    return True if first else _condition(second)


def negation(condition: Condition) -> Condition:
    """Return whether a condition does not hold."""
    return Formula(f"(!{condition.text})") if isinstance(condition, Formula) else not condition


def computed(value: Number) -> float:
    """Return a number unchanged, or raise ``TypeError`` for a formula.

    For code that needs a number, such as a statistic built from arrays, and calls a function that also accepts
    formulas.
    """
    if isinstance(value, Formula):
        raise TypeError(f"value must be a known number; got the formula {value.text}. Call the function with numbers.")
    return value


def _value(entry: Value | Callable[[], Value]) -> Value:
    return entry() if callable(entry) else entry


def _condition(entry: Condition | Callable[[], Condition]) -> Condition:
    return entry() if callable(entry) else entry
