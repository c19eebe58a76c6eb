"""Formulas: what is written as JavaScript computes what Python computes."""

from __future__ import annotations

import atexit
import importlib
import json
import math
import operator
import pkgutil
import shutil
import subprocess
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

from dpcape import statistics
from dpcape.formula import (
    Formula,
    both,
    ceil,
    choose,
    clamp,
    computed,
    either,
    given,
    hypot,
    maximum,
    minimum,
    negation,
    sqrt,
    written,
)
from dpcape.statistics import statistic as base
from dpcape.statistics.statistic import extent_of

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="node, which evaluates the JavaScript, is not installed")

X, Y = Formula("p.x"), Formula("p.y")

for _module in pkgutil.iter_modules(statistics.__path__):
    if _module.name != "torch_modules":  # an extra
        importlib.import_module(f"dpcape.statistics.{_module.name}")

OWN = sorted(name for name, kind in base._KNOWN.items() if base.is_own(kind))


# Reads a list of expressions per line and answers with their values. JSON has no infinities; doubles are printed with
# all their digits.
EVALUATE = """
const lines = require("readline").createInterface({ input: process.stdin });
lines.on("line", (line) => {
  const values = JSON.parse(line).map(([text, p]) => new Function("p", `return ${text};`)(p));
  console.log(JSON.stringify(values.map((v) => Number.isFinite(v) ? v : String(v))));
});
"""


@cache
def _node() -> subprocess.Popen[str]:
    """Return a process that evaluates, for all tests: to start one takes longer than what they ask of it."""
    assert NODE is not None
    process = subprocess.Popen([NODE, "-e", EVALUATE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(process.communicate)
    return process


def javascript(expressions: Sequence[tuple[str, dict[str, Any]]]) -> list[Any]:
    """Return the values of JavaScript expressions, each with its own p."""
    node = _node()
    assert node.stdin is not None
    assert node.stdout is not None
    node.stdin.write(json.dumps(expressions) + "\n")
    node.stdin.flush()
    answer = node.stdout.readline()
    assert answer, "node ended; it says above why"
    return list(json.loads(answer))


# Operators and functions.

Two = Callable[[Any, Any], Any]

# Correctly rounded in both languages, so equal in every digit.
EXACT: dict[str, Two] = {
    "sum": lambda x, y: x + y,
    "sum with numbers": lambda x, y: 1 + x + 0.1 + y + 2,
    "difference": lambda x, y: x - y,
    "difference with numbers": lambda x, y: 3 - x - 0.25 - y,
    "product": lambda x, y: x * y * 0.7,
    "quotient": lambda x, y: x / y + 1 / x + y / 3,
    "negative": lambda x, y: -x * -0.5 + (-y),
    "order of operations": lambda x, y: x - (y - (x + 1)) / (y * 0.3) * 2,
    "whole quotient": lambda x, y: ceil(x) // ceil(y) + 7 // ceil(x) + ceil(y) // 2,
    "root": lambda x, y: sqrt(x) * sqrt(y + 2.0),
    "ceil": lambda x, y: ceil(x / y) + ceil(-x),
    "minimum": lambda x, y: minimum(x, y, 1.5) + minimum(x, 2),
    "maximum": lambda x, y: maximum(x, y, 1.5) + maximum(0, y),
    "clamp": lambda x, y: clamp(x, 0.5, 1.25) + clamp(2.0, 0.5, y),
    "choose": lambda x, y: choose(x < y, x + 1, y * 2) + choose(x >= y, 0.25, lambda: x / 3),
    "nested choose": lambda x, y: choose(x < 0.5, 0.45, choose(x < 2, 0.6, 0.75)),
    "choose known": lambda x, y: choose(True, x, y) + choose(False, x, y),
    "compared": lambda x, y: choose(x <= y, 1, 2) + choose(x > y, 4, 8) + choose(x > 0.5, 0, 16) + choose(y < 2, 0, 32),
    "equal": lambda x, y: choose(x == 1.5, 1, 2) + choose(y != 2, 3, 4) + choose(x == y, 5, 6),
    "both": lambda x, y: choose(both(x < 1, y < 1), 1, 2) + choose(both(True, y < 1), 3, 4),
    "both, one known": lambda x, y: choose(both(x > 1, True), 5, 6) + choose(both(False, y < 1), 7, 8),
    "either": lambda x, y: choose(either(x < 1, y < 1), 1, 2) + choose(either(False, lambda: y < 1), 3, 4),
    "negation": lambda x, y: choose(negation(x < y), 1, 2) + choose(negation(False), x, y),
    "condition in a sum": lambda x, y: 3 + (x > y),
    "constants": lambda x, y: x * 1e-09 + y * 1e40 + x * -2.5e-7 + y * 2**-53 + math.sqrt(2),
}  # fmt: skip
# Rounded by libraries that differ in the last digits.
NEARLY: dict[str, Two] = {
    # From Python 3.12 on, sum() makes up for rounding.
    "sum of a list": lambda x, y: sum([x, y, 1, x]),
    "powers": lambda x, y: x**2 + y**3 + x**-0.5 + 2**y + x**y,
    "power of a negative number": lambda x, y: (-x) ** 2 + (-2) ** 3 * x + (-0.5) ** 2 * y,
    "hypot": lambda x, y: hypot(x, y) + hypot(x, 1.0, y) + hypot(y),
}


def _inputs() -> list[tuple[float, float]]:
    generator = np.random.default_rng(8)
    pairs = [(1.5, 2), (2, 2), (3, 1), (1, 1.5), (0.1, 0.30000000000000004)]
    return pairs + [(float(x), float(y)) for x, y in 10 ** generator.uniform(-3, 3, (20, 2))]


@needs_node
@pytest.mark.parametrize("name", [*EXACT, *NEARLY])
def test_operations_are_the_same_in_javascript(name: str) -> None:
    formula = (EXACT | NEARLY)[name]
    text = written(formula(X, Y))
    found = javascript([(text, {"x": x, "y": y}) for x, y in _inputs()])
    wanted = [formula(x, y) for x, y in _inputs()]
    assert found == (wanted if name in EXACT else pytest.approx(wanted, rel=1e-14))


@needs_node
def test_optional_numbers_are_null_in_javascript() -> None:
    def clip(length: Any) -> Any:
        return choose(given(length), lambda: 1 / sqrt(length * (length - 1)), 1.0)

    found = javascript([(written(clip(X)), {"x": length}) for length in (None, 3, 7)])
    assert found == [clip(None), clip(3), clip(7)]


@needs_node
def test_values_are_read_by_javascript_as_they_were_written() -> None:
    values = [
        0,
        5,
        -3,
        0.1,
        -0.1,
        1e-300,
        1.7976931348623157e308,
        2**53,
        -(2**53),
        True,
        False,
        None,
        'a "quoted" text',
    ]
    texts = [f"JSON.stringify({written(value)})" for value in values]
    assert [json.loads(text) for text in javascript([(text, {}) for text in texts])] == values
    assert javascript([(written(math.inf), {}), (written(-math.inf), {})]) == ["Infinity", "-Infinity"]
    assert javascript([(f"Object.is({written(-0.0)}, -0)", {})]) == ["true"]


# Extents.


def _numbers(generator: np.random.Generator) -> dict[str, Any]:
    """Return a value for every number that an extent follows from."""
    size = float(10 ** generator.uniform(-2, 2))
    return {
        "n_features": int(generator.integers(1, 2000)),
        "n_classes": int(generator.integers(2, 12)),
        "n_clusters": int(generator.integers(1, 30)),
        "n_columns": int(generator.integers(1, 300)),
        "n_components": int(generator.integers(1, 120)),
        "n_hidden": int(generator.integers(1, 100)),
        "n_units": int(generator.integers(3, 3000)),
        "n_outputs": int(generator.integers(1, 12)),
        "n_words": int(generator.integers(1, 400)),
        "bound": size,
        "clip": float(10 ** generator.uniform(-2, 1)),
        "clipping_weight": float(generator.uniform(0, 2)),
        "n_views": int(generator.integers(1, 5)),
        "block": int(generator.integers(1, 100)),
        "bias_clip": float(10 ** generator.uniform(-2, 1)),
        "radius": float(10 ** generator.uniform(-2, 2)),
        "noise_variance": float(generator.choice([0.0, 0.02, 0.2, 0.4, 3.0])) * size**2,
        "mean_weight": float(generator.uniform(0.1, 1.4)),
        "intercept": bool(generator.integers(2)),
        "response_weight": float(10 ** generator.uniform(-2, 2)),
        "intercept_weight": float(10 ** generator.uniform(-2, 2)),
        "size": int(generator.integers(1, 10**5)),
        "diameter": float(10 ** generator.uniform(-2, 2)),
        "degree": int(generator.integers(1, 6)),
        "count_weight": float(10 ** generator.uniform(-2, 1)),
        "n_cells": int(generator.integers(1, 10**5)),
        "n_sites": int(generator.integers(1, 100)),
        "n_numbers": int(generator.integers(0, 50)),
        "n_outcomes": int(generator.integers(1, 10**4)),
        "width": int(generator.integers(1, 50)),
        "n_groups": int(generator.integers(1, 10**3)),
        "n_bins": int(generator.integers(2, 513)),
        "most_cells": int(generator.integers(2, 1026)),
        "length": float(10 ** generator.uniform(-2, 2)),
        "single": bool(generator.integers(2)),
        "n_parts": int(generator.integers(1, 5)),
        "n_mapped": int(generator.integers(1, 10**5)),
    }


def _parts(name: str, numbers: dict[str, Any], n: Any) -> list[Any]:
    extent = extent_of(name, **numbers)
    return [extent.size, extent.diameter, extent.radius, extent.rounding(n), extent.sensitivity(n)]


def _names(name: str, *, required: bool) -> list[str]:
    """Return the numbers that an extent takes, all of them or those without a default."""
    import inspect

    parameters = inspect.signature(base._KNOWN[name].extent).parameters.values()
    return [entry.name for entry in parameters if not required or entry.default is entry.empty]


@needs_node
@pytest.mark.parametrize("required", [True, False], ids=["usual", "all"])
@pytest.mark.parametrize("name", OWN)
def test_every_extent_is_the_same_in_javascript(name: str, required: bool) -> None:
    generator = np.random.default_rng(OWN.index(name))
    names = _names(name, required=required)
    texts = [written(part) for part in _parts(name, {key: Formula(f"p.{key}") for key in names}, Formula("p.n"))]
    expressions, wanted = [], []
    for n in (1, 10, 999, 1024, 1025, 54_321, 10**7):
        for _ in range(5):
            drawn = _numbers(generator)
            p = {key: drawn[key] for key in names}
            expressions += [(text, p | {"n": n}) for text in texts]
            wanted.append(_parts(name, p, n))
    found = np.array(javascript(expressions), dtype=np.float64).reshape(-1, 5)
    np.testing.assert_array_equal(found[:, 0], [row[0] for row in wanted])
    np.testing.assert_allclose(found[:, 1:], [row[1:] for row in wanted], rtol=1e-13, atol=0)


@pytest.mark.parametrize("name", OWN)
def test_every_extent_can_be_written(name: str) -> None:
    numbers = {key: Formula(f"p.{key}") for key in _names(name, required=False)}
    for part in _parts(name, numbers, Formula("p.n")):
        text = written(part)
        assert "Formula" not in text
        assert "np." not in text
        assert text.count("(") == text.count(")")


# What a formula refuses.

MISUSES: dict[str, Callable[[Formula], Any]] = {
    "if": lambda x: 1 if x > 2 else 2,
    "truth value": lambda x: bool(x),
    "not": lambda x: not x,
    "and": lambda x: (x > 1) and (x < 2),
    "or": lambda x: (x > 1) or (x < 2),
    "chained comparison": lambda x: 0 < x < 1,
    "min": lambda x: min(x, 1),
    "max": lambda x: max(1, x),
    "in": lambda x: x in (1, 2),
    "sorted": lambda x: sorted([x, 2]),
    "assert equal": lambda x: bool(x == 2),
    "math": lambda x: math.sqrt(x),
    "float": lambda x: float(x),
    "int": lambda x: int(x),
    "range": lambda x: range(x),
    "array": lambda x: np.zeros(x),
    "hash": lambda x: {x: 1},
    "list": lambda x: operator.add(x, [1]),
    "dict": lambda x: operator.mul(x, {}),
    "computed": lambda x: computed(x),
}  # fmt: skip


@pytest.mark.parametrize("name", MISUSES)
def test_a_formula_never_takes_a_branch_or_becomes_a_number(name: str) -> None:
    with pytest.raises(TypeError):
        MISUSES[name](X)


def test_a_branch_on_a_formula_says_what_to_write() -> None:
    with pytest.raises(TypeError, match=r"got the formula \(p\.x > 2\)\. Write choose"):
        MISUSES["if"](X)


@pytest.mark.parametrize("value", [[1], {}, object(), 1j, b"x"], ids=lambda value: type(value).__name__)
def test_values_that_cannot_be_written_are_refused(value: object) -> None:
    with pytest.raises(TypeError, match="must be a number"):
        written(value)


def test_whole_numbers_that_javascript_would_round_are_refused() -> None:
    with pytest.raises(ValueError, match="at most 2\\^53"):
        written(2**53 + 1)


def test_whole_quotients_of_other_numbers_are_refused() -> None:
    for quotient in (lambda: X // 0.1, lambda: 7.5 // X):
        with pytest.raises(ValueError, match=r"integers.* Use /"):
            quotient()
    assert written(X // 2.0) == "Math.floor(p.x / 2.0)"


# Text and numbers.


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "3"),
        (-3, "(-3)"),
        (0.5, "0.5"),
        (-0.5, "(-0.5)"),
        (1e-09, "1e-09"),
        (np.float64(0.1), "0.1"),
        (np.int64(4), "4"),
        (math.nan, "NaN"),
        (math.inf, "Infinity"),
        (True, "true"),
        (None, "null"),
        ("a text", '"a text"'),
        (X, "p.x"),
        (X**-0.5, "(p.x ** (-0.5))"),
        ((-2) ** X, "((-2) ** p.x)"),
        (X // 2, "Math.floor(p.x / 2)"),
    ],
)
def test_texts(value: object, text: str) -> None:
    assert written(value) == text


def test_numbers_stay_what_they_are() -> None:
    assert isinstance(maximum(1, minimum(1024, 7 // 2)), int)
    assert isinstance(ceil(2.5), int)
    assert choose(True, 3, lambda: 1 / 0) == 3
    assert choose(False, lambda: 1 / 0, None) is None
    assert both(False, lambda: 1 / 0 > 1) is False
    assert either(True, lambda: 1 / 0 > 1) is True
    assert given(0) is True
    assert given(None) is False
    assert negation(np.bool_(False)) is True
    assert computed(2.5) == 2.5


@pytest.mark.parametrize("first", [3, 0.1, 7.25])
@pytest.mark.parametrize("second", [2, 0.7])
def test_functions_are_those_of_python(first: float, second: float) -> None:
    assert sqrt(first) == math.sqrt(first)
    assert hypot(first, second) == math.hypot(first, second)
    assert ceil(first) == math.ceil(first)
    assert minimum(first, second) == min(first, second)
    assert maximum(first, second) == max(first, second)
    assert clamp(first, 1, 5) == min(max(first, 1), 5)
