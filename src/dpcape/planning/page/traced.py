"""Plain Python on public numbers, written as JavaScript: a function is run once for every way through its branches.

A :class:`Traced` number records operations as text. Where Python asks whether a comparison holds (``if``, ``and``, a
conditional expression), a :class:`Paths` answers, and runs the function again with the other answer later. The source
of schedules and extents is ordinary Python, which does not know that it is written down. Only the page's generator
imports this module; ``max``, ``min`` and some functions of ``math`` know traced numbers while it runs.

Both languages compute in IEEE double precision. Powers and ``hypot`` may differ in the last digits, because libraries
round them differently; whole numbers agree up to 2^53. ``//`` is for whole numbers: between others Python rounds the
exact quotient down, JavaScript the rounded one.
"""

from __future__ import annotations

import builtins
import json
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any, Never

MOST_PATHS = 64
"""Maximum number of execution paths through one function: each is written out, and the page must stay small."""
# Largest integer up to which all integers are exact in JavaScript.
_LARGEST_EXACT = 2**53
_REPLACED = [(builtins, "max"), (builtins, "min"), *((math, name) for name in ("sqrt", "hypot", "ceil", "floor"))]
# The replacements are global, so only one thread may trace at a time.
_LOCK = threading.RLock()


class Traced:
    """A number, text or condition that is known in the browser only.

    Parameters
    ----------
    text : str
        A JavaScript expression that binds at least as tightly as a member access or a parenthesis.
    paths : Paths
        What answers where Python branches on it.
    """

    __slots__ = ("paths", "text")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, text: str, paths: Paths) -> None:
        self.text, self.paths = text, paths

    def __repr__(self) -> str:
        return f"Traced({self.text})"

    def __bool__(self) -> bool:
        return self.paths.decide(self.text)

    def __neg__(self) -> Traced:
        return Traced(f"(-{self.text})", self.paths)

    def __floordiv__(self, other: object) -> Traced:
        return Traced(f"Math.floor({self.text} / {_integer_operand(other)})", self.paths)

    def __rfloordiv__(self, other: object) -> Traced:
        return Traced(f"Math.floor({_integer_operand(other)} / {self.text})", self.paths)

    def _not_known(self) -> Never:
        raise TypeError(
            f"A number must be known where Python converts or iterates; got {self.text}, which is known in the browser "
            "only. Use operators, comparisons, max, min and math.sqrt, hypot, ceil or floor."
        )

    __int__ = __float__ = __index__ = __iter__ = __round__ = __trunc__ = _not_known


def _operator(symbol: str, swapped: bool = False) -> Callable[[Traced, object], Traced]:
    def apply(self: Traced, other: object) -> Traced:
        first, second = (written(other), self.text) if swapped else (self.text, written(other))
        return Traced(f"({first} {symbol} {second})", self.paths)

    return apply


for _name, _symbol in {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "pow": "**"}.items():
    setattr(Traced, f"__{_name}__", _operator(_symbol))
    setattr(Traced, f"__r{_name}__", _operator(_symbol, swapped=True))
for _name, _symbol in {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "===", "ne": "!=="}.items():
    setattr(Traced, f"__{_name}__", _operator(_symbol))


def written(value: object) -> str:
    """Return the JavaScript expression of a value; a negative number in parentheses, as ``**`` asks for."""
    if isinstance(value, Traced):
        return value.text
    if value is None or isinstance(value, bool | str):
        return json.dumps(value)
    if isinstance(value, Integral):
        if abs(int(value)) > _LARGEST_EXACT:
            raise ValueError(f"An integer must be at most 2^53 in absolute value; got {value}. Write it as a float.")
        return str(int(value)) if int(value) >= 0 else f"({int(value)})"
    if not isinstance(value, Real):
        raise TypeError(
            f"A value must be a number, a Boolean, a text or None to be written; got {type(value).__name__}."
        )
    number = float(value)
    text = "NaN" if math.isnan(number) else "Infinity" if math.isinf(number) else repr(abs(number))
    return f"(-{text})" if math.copysign(1.0, number) < 0 else text


def _integer_operand(value: object) -> str:
    """Return the JavaScript expression of an operand of ``//``."""
    if isinstance(value, float) and not value.is_integer():
        raise ValueError(f"Both operands of // must be integers; got {value!r}. Use / instead.")
    return written(value)


Event = str | tuple[str, bool]
"""On one way through a function: a statement that is written, or a condition and its answer."""


class Paths:
    """All ways through a function: a tree of conditions, grown one run at a time.

    Parameters
    ----------
    known : dict of str to bool, optional
        Conditions that were answered before.
    """

    def __init__(self, known: dict[str, bool] | None = None) -> None:
        self._outer = dict(known or {})
        self._todo: list[list[tuple[str, bool]]] = [[]]
        self._prefix: list[tuple[str, bool]] = []
        self.known: dict[str, bool] = {}
        self.events: list[Event] = []

    def decide(self, text: str) -> bool:
        """Return the answer for a condition on this way; what was answered before is answered the same."""
        if text not in self.known:
            decided = [event for event in self.events if isinstance(event, tuple)]
            if len(decided) < len(self._prefix):
                answer = self._prefix[len(decided)][1]
            else:
                answer = True
                self._todo.append([*decided, (text, False)])
            self.known[text] = answer
            self.events.append((text, answer))
        return self.known[text]

    def runs(self) -> Iterator[None]:
        """Yield once for every way; the caller runs its function each time."""
        for _ in range(MOST_PATHS):
            if not self._todo:
                return
            self._prefix = self._todo.pop()
            self.known, self.events = dict(self._outer), []
            yield
        if self._todo:
            raise ValueError(
                f"Ways through a schedule must be at most {MOST_PATHS}; got more, through {self._todo[0]}. "
                "Write early returns instead of chains of conditions."
            )


def tree(runs: list[list[Event]], indent: str = "    ") -> str:
    """Return the statements of all ways as nested conditions."""
    first = next((run[0] for run in runs if run), None)
    if first is None:
        return ""
    if isinstance(first, str):
        return f"{indent}{first}\n" + tree([run[1:] for run in runs], indent)
    ways = [
        tree([run[1:] for run in runs if run and run[0] == (first[0], answer)], indent + "  ").splitlines()
        for answer in (True, False)
    ]
    n_common = _common_ending(*ways)
    yes, no = (way[: len(way) - n_common] for way in ways)
    lines = [] if not yes and not no else [f"{indent}if ({first[0]}) {{", *yes]
    lines += [f"{indent}}} else {{", *no] if no else []
    lines += [f"{indent}}}"] if lines else []
    lines += [line[2:] for line in ways[0][len(yes) :]]
    return "".join(f"{line}\n" for line in lines)


def _common_ending(first: list[str], second: list[str]) -> int:
    """Return how many last lines two ways share; lines of one condition stay together."""
    n_common, level = 0, 0
    for n_lines, (one, other) in enumerate(zip(reversed(first), reversed(second), strict=False), start=1):
        if one != other:
            break
        closes, opens = one.strip().startswith("}"), one.endswith("{")
        level += closes - opens
        if level == 0 and not closes:
            n_common = n_lines
    return n_common


def expression(function: Callable[..., Any], *variables: str, known: dict[str, bool] | None = None) -> str:
    """Return a function of some numbers as one JavaScript expression."""
    return choice(lambda paths: function(*(Traced(name, paths) for name in variables)), known)


def choice(function: Callable[[Paths], Any], known: dict[str, bool] | None = None) -> str:
    """Return the value of a function, on all ways through it, as one JavaScript expression."""
    paths, runs = Paths(known), []
    for _ in paths.runs():
        value = function(paths)
        runs.append([*paths.events, written(value)])
    return _nested(runs)


def _nested(runs: list[list[Event]]) -> str:
    first = runs[0][0]
    if isinstance(first, str):
        return first
    yes, no = (_nested([run[1:] for run in runs if run[0] == (first[0], answer)]) for answer in (True, False))
    return yes if yes == no else f"({first[0]} ? {yes} : {no})"


@contextmanager
def javascript_functions() -> Iterator[None]:
    """Let ``max``, ``min``, ``math.sqrt``, ``hypot``, ``ceil`` and ``floor`` accept traced numbers."""
    with _LOCK:
        plain = [getattr(module, name) for module, name in _REPLACED]
        try:
            for (module, name), function in zip(_REPLACED, plain, strict=True):
                setattr(module, name, _knowing(name, function))
            yield
        finally:
            for (module, name), function in zip(_REPLACED, plain, strict=True):
                setattr(module, name, function)


def _knowing(name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
    def call(*values: Any, **options: Any) -> Any:
        several = list(values[0]) if len(values) == 1 and isinstance(values[0], list | tuple) else values
        traced = [value for value in several if isinstance(value, Traced)]
        if not traced:
            return plain(*values, **options)
        return Traced(f"Math.{name}({', '.join(map(written, several))})", traced[0].paths)

    return call
