"""What ``terms`` may do: nothing in it adds over entries or records, multiplies matrices, or branches on records.

The syntax tree of every function that ``terms`` reaches inside dpcape.statistics is walked. What is needed of these
operations is in the kernel, where it is exact.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from types import FunctionType, ModuleType
from typing import Any

import pytest

from dpcape.core.kernel import Summed
from dpcape.core.statistic import load_all

FORBIDDEN = {
    *("sum", "mean", "average", "dot", "vdot", "inner", "outer", "matmul", "tensordot", "einsum", "vecdot", "matvec"),
    *("cumsum", "cumprod", "prod", "trapezoid", "convolve", "norm", "var", "std", "median", "nansum", "nanmean"),
    *("reduce", "reduceat", "accumulate", "add_at", "bincount", "sort", "argsort", "unique", "compress", "nonzero"),
    *(
        "flatnonzero",
        "cov",
        "corrcoef",
        "fft",
        "ifft",
        "rfft",
        "solve",
        "lstsq",
        "inv",
        "svd",
        "eigh",
        "qr",
        "cholesky",
    ),
}
"""Names of functions and methods that no record may pass through before it is on the grid."""

SUMMED = sorted(
    (kind for kind in load_all().values() if issubclass(kind, Summed) and "subject" not in kind.units), key=str
)


def reached(start: Callable[..., Any]) -> Iterator[FunctionType]:
    """Yield a function and those of dpcape.statistics that it calls, however far away."""
    seen: set[FunctionType] = set()
    todo = [inspect.unwrap(start)]
    while todo:
        function = todo.pop()
        if not isinstance(function, FunctionType) or function in seen:
            continue
        if not function.__module__.startswith("dpcape.statistics"):
            continue
        seen.add(function)
        yield function
        for node in ast.walk(_tree(function)):
            if isinstance(node, ast.Name):
                todo.append(function.__globals__.get(node.id))  # type: ignore[arg-type]  # checked above
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
                todo.append(_method(start, node.attr))  # type: ignore[arg-type]  # checked above


OWNERS: dict[Callable[..., Any], type] = {}


def _method(start: Callable[..., Any], name: str) -> object:
    return inspect.getattr_static(OWNERS[start], name, None)


def _tree(function: FunctionType) -> ast.AST:
    return ast.parse(textwrap.dedent(inspect.getsource(function)))


def wrong(function: FunctionType) -> list[str]:
    """Return what a function does that depends on more than one record."""
    found = []
    for node in ast.walk(_tree(function)):
        if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.MatMult):
            found.append(f"{function.__qualname__}: a matrix product")
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in FORBIDDEN:
                found.append(f"{function.__qualname__}: {name}")
            if name in {"any", "all", "max", "min", "argmax", "argmin"} and isinstance(node.func, ast.Attribute):
                axes = {keyword.arg: keyword.value for keyword in node.keywords}
                axis = axes.get("axis")
                if not (isinstance(axis, ast.Constant) and axis.value == 1):
                    found.append(f"{function.__qualname__}: {name} of more than one record")
    return found


@pytest.mark.parametrize("kind", SUMMED, ids=lambda kind: kind.name)
def test_terms_act_on_one_record_at_a_time(kind: type[Summed[Any]]) -> None:
    OWNERS[kind.terms] = kind
    found = [text for function in reached(kind.terms) for text in wrong(function)]
    assert not found, f"{kind.name}: {found}. Use the forms and products of dpcape.core, which are exact."


def _adds(rows: Any) -> Any:
    return rows.sum(axis=1)


def _multiplies(rows: Any) -> Any:
    return rows @ rows.T


def _branches(rows: Any) -> Any:
    return rows if rows.max() > 1 else -rows


@pytest.mark.parametrize("function", [_adds, _multiplies, _branches])
def test_the_walk_has_teeth(function: FunctionType) -> None:
    assert wrong(function)
    assert isinstance(inspect.getmodule(function), ModuleType)
