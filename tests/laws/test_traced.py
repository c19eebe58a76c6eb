"""Traced numbers: what is written as JavaScript computes what Python computes."""

from __future__ import annotations

import atexit
import inspect
import json
import math
import operator
import shutil
import subprocess
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import pytest

from dpcape.analyses.registry import variants
from dpcape.core.statistic import extent_of, statistic_class
from dpcape.core.statistic_names import STATISTICS
from dpcape.planning.page import traced
from dpcape.planning.page.schedule_script import ways
from dpcape.planning.page.traced import Paths, Traced, expression, javascript_functions, tree, written

# As a module would have it that says `from math import sqrt`.
SQRT = math.sqrt
X = Traced("p.x", Paths())
NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="node, which evaluates the JavaScript, is not installed")

OWN = sorted(STATISTICS)


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
    "whole quotient": lambda x, y: math.ceil(x) // math.ceil(y) + 7 // math.ceil(x) + math.ceil(y) // 2,
    "root": lambda x, y: math.sqrt(x) * math.sqrt(y + 2.0),
    "ceil and floor": lambda x, y: math.ceil(x / y) + math.ceil(-x) + math.floor(y),
    "minimum": lambda x, y: min(x, y, 1.5) + min(x, 2),
    "maximum": lambda x, y: max(x, y, 1.5) + max([0, y]),
    "clamp": lambda x, y: min(max(x, 0.5), 1.25) + min(max(2.0, 0.5), y),
    "branch": lambda x, y: (x + 1 if x < y else y * 2) + (0.25 if x >= y else x / 3),
    "nested branch": lambda x, y: 0.45 if x < 0.5 else 0.6 if x < 2 else 0.75,
    "compared": lambda x, y: (1 if x <= y else 2) + (4 if x > y else 8) + (0 if x > 0.5 else 16) + (0 if y < 2 else 32),
    "equal": lambda x, y: (1 if x == 1.5 else 2) + (3 if y != 2 else 4) + (5 if x == y else 6),
    "and": lambda x, y: 1 if x < 1 and y < 1 else 2,
    "or": lambda x, y: 1 if x < 1 or y < 1 else 2,
    "not": lambda x, y: 1 if not x < y else 2,
    "chained comparison": lambda x, y: 1 if 0.5 < x < y else 2,
    "in": lambda x, y: 1 if x in (1.5, 3) else 2,
    "early return": lambda x, y: _early(x, y),
    "constants": lambda x, y: x * 1e-09 + y * 1e40 + x * -2.5e-7 + y * 2**-53 + math.sqrt(2),
}  # fmt: skip
# Rounded by libraries that differ in the last digits.
NEARLY: dict[str, Two] = {
    # From Python 3.12 on, sum() makes up for rounding.
    "sum of a list": lambda x, y: sum([x, y, 1, x]),
    "powers": lambda x, y: x**2 + y**3 + x**-0.5 + 2**y + x**y,
    "power of a negative number": lambda x, y: (-x) ** 2 + (-2) ** 3 * x + (-0.5) ** 2 * y,
    "hypot": lambda x, y: math.hypot(x, y) + math.hypot(x, 1.0, y) + math.hypot(y),
}


def _early(x: Any, y: Any) -> Any:
    if x > 100:
        return y
    total = x
    for step in (1, 10):
        if y > step:
            total += step
    return total


def _inputs() -> list[tuple[float, float]]:
    generator = np.random.default_rng(8)
    pairs = [(1.5, 2), (2, 2), (3, 1), (1, 1.5), (0.1, 0.30000000000000004)]
    return pairs + [(float(x), float(y)) for x, y in 10 ** generator.uniform(-3, 3, (20, 2))]


@needs_node
@pytest.mark.parametrize("name", [*EXACT, *NEARLY])
def test_operations_are_the_same_in_javascript(name: str) -> None:
    formula = (EXACT | NEARLY)[name]
    with javascript_functions():
        text = expression(formula, "p.x", "p.y")
    found = javascript([(text, {"x": x, "y": y}) for x, y in _inputs()])
    wanted = [formula(x, y) for x, y in _inputs()]
    assert found == (wanted if name in EXACT else pytest.approx(wanted, rel=1e-14))


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
        "n_parts": int(generator.integers(1, 5)),
        "n_mapped": int(generator.integers(1, 10**5)),
    }


def _parts(name: str, numbers: dict[str, Any], n: Any) -> list[Any]:
    extent = extent_of(name, **numbers)
    return [extent.size, extent.diameter, extent.radius, extent.rounding(n), extent.sensitivity(n)]


def _names(name: str, *, required: bool) -> list[str]:
    """Return the numbers that an extent takes, all of them or those without a default."""
    parameters = inspect.signature(statistic_class(name).extent).parameters.values()
    return [entry.name for entry in parameters if not required or entry.default is entry.empty]


def _texts(name: str, names: list[str]) -> list[str]:
    def part(at: int, *values: Any) -> Any:
        return _parts(name, dict(zip(names, values[1:], strict=True)), values[0])[at]

    with javascript_functions():
        return [expression(partial(part, at), "p.n", *(f"p.{key}" for key in names)) for at in range(5)]


@needs_node
@pytest.mark.parametrize("required", [True, False], ids=["usual", "all"])
@pytest.mark.parametrize("name", OWN)
def test_every_extent_is_the_same_in_javascript(name: str, required: bool) -> None:
    generator = np.random.default_rng(OWN.index(name))
    names = _names(name, required=required)
    texts = _texts(name, names)
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


# Ways through a schedule.


def test_statements_of_all_ways_become_nested_conditions() -> None:
    paths, runs = Paths(), []
    for _ in paths.runs():
        x = Traced("x", paths)
        paths.events.append("first();")
        if x > 1:
            paths.events.append("large();")
        if x > 1 and x > 2:
            paths.events.append("larger();")
        paths.events.append("last();")
        runs.append(paths.events)
    assert len(runs) == 3
    lines = [line.strip() for line in tree(runs).splitlines()]
    larger = ["if ((x > 2)) {", "larger();", "}"]
    assert lines == ["first();", "if ((x > 1)) {", "large();", *larger, "}", "last();"]


def test_a_schedule_has_few_ways() -> None:
    counts = {name: len(ways(analysis, variant, {})) for name, (analysis, variant) in variants().items()}
    assert len(counts) >= 50
    assert max(counts.values()) <= traced.MOST_PATHS == 64


def test_too_many_ways_are_refused() -> None:
    paths = Paths()

    def chain() -> None:
        for _ in paths.runs():
            sum(1 for n in range(7) if Traced("x", paths) > n)

    with pytest.raises(ValueError, match=r"at most 64.* early returns"):
        chain()


def test_functions_are_those_of_python_again_afterwards() -> None:
    before = (max, min, math.sqrt, math.hypot, math.ceil, math.floor)

    def broken() -> None:
        with javascript_functions():
            assert max is not before[0]
            # Others go on while a page is written.
            assert max(3, 4) == max(iter([4, 3])) == max([-4, 1], key=abs) * -1 == 4
            assert math.sqrt(4) == 2
            raise KeyError

    with pytest.raises(KeyError):
        broken()
    assert before == (max, min, math.sqrt, math.hypot, math.ceil, math.floor)


# What a traced number refuses.

MISUSES: dict[str, Callable[[Traced], Any]] = {
    "int": lambda x: int(x),
    "float": lambda x: float(x),
    "index": lambda x: [1, 2][x],
    "range": lambda x: range(x),
    "round": lambda x: round(x),
    "loop": lambda x: [entry for entry in x],
    "several": lambda x: max(*x),
    "remainder": lambda x: x % 2,
    "math": lambda x: math.log(x),
    "kept function": lambda x: SQRT(x),
    "array": lambda x: np.zeros(x),
    "numpy": lambda x: np.sqrt(x),
    "hash": lambda x: {x: 1},
    "list": lambda x: operator.add(x, [1]),
    "dict": lambda x: operator.mul(x, {}),
}


@pytest.mark.parametrize("name", MISUSES)
def test_a_traced_number_never_becomes_a_number(name: str) -> None:
    with javascript_functions(), pytest.raises(TypeError):
        MISUSES[name](X)


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
