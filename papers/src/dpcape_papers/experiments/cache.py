"""Content-addressed cache of cell results, keyed by function, options, source, data files and library versions."""

from __future__ import annotations

import ast
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec, resolve_name
from pathlib import Path
from typing import cast

import numpy as np

import dpcape
from dpcape_papers.experiments.data import DataFolder
from dpcape_papers.experiments.experiment import Cell
from dpcape_papers.experiments.results import Row

PACKAGE = Path(dpcape.__file__).parent
PAPERS = Path(__file__).parents[1]
LIBRARIES = ("numpy", "scipy", "scikit-learn")
# Code that shows results but computes none. Figures are excluded because `_figure_digest` covers them one by one.
_NOT_COMPUTING = (
    "dpcape/cli/",
    "dpcape/planning/",
    "dpcape/report/",
    "dpcape/runs/",
    "dpcape/steward/",
    "dpcape_papers/claims/",
    "dpcape_papers/commands.py",
    "dpcape_papers/experiments/cache.py",
    "dpcape_papers/experiments/curves.py",
    "dpcape_papers/experiments/fairness.py",
    "dpcape_papers/experiments/folder.py",
    "dpcape_papers/experiments/full.py",
    "dpcape_papers/experiments/index.py",
    "dpcape_papers/experiments/registry.py",
    "dpcape_papers/experiments/replica.py",
    "dpcape_papers/experiments/replica_picture.py",
    "dpcape_papers/experiments/runner.py",
    "dpcape_papers/experiments/stored.py",
    "dpcape_papers/experiments/verdict.py",
    "dpcape_papers/figures/",
    "dpcape_papers/names/",
    "dpcape_papers/verdicts/",
)
_SOURCE = (".py", ".toml")
_FIGURES = "dpcape_papers.figures"


@dataclass(frozen=True)
class CachedRows:
    """The result of a cell: its rows, its processor time in seconds, and the warnings it raised."""

    rows: list[Row]
    seconds: float
    warnings: list[str]


class Cache:
    """A folder with one JSON file per cell; a damaged file, or one written under a different key, counts as absent."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self, key: str) -> CachedRows | None:
        """Return the result stored under a key, or None if it is absent or damaged."""
        try:
            entry = json.loads(self._path(key).read_text(encoding="utf-8"))
            kept, digest = entry["kept"], entry["digest"]
            if entry["key"] != key or _digest(_text(kept)) != digest:
                return None
            return CachedRows(**kept)
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def store(self, key: str, kept: CachedRows) -> CachedRows:
        """Write a result atomically, and return it as it will be read back."""
        body = json.loads(_text(vars(kept)))
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        # Another process may be writing the same result.
        draft = path.with_suffix(f".{os.getpid()}.draft")
        draft.write_text(_text({"key": key, "digest": _digest(_text(body)), "kept": body}), encoding="utf-8")
        draft.replace(path)
        return CachedRows(**body)

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}.json"


def key_of(cell: Cell, data: DataFolder) -> str:
    """Return the digest of everything a cell's rows depend on."""
    module = cell.compute.__module__
    methods = cast(Iterable[str], cell.options.get("methods", ()))
    facts = {
        "compute": f"{module}.{cell.compute.__qualname__}",
        "options": dict(cell.options),
        "files": {name: data.digest(name) for name in cell.files},
        "source": source_digest(),
        "figure": _figure_digest(module),
        "methods": {name: _file_digest(name.partition(":")[0]) for name in methods},
        "versions": library_versions(),
    }
    return _digest(_text(facts))


@cache
def source_digest() -> str:
    """Return the digest of the source of both packages, without code that only shows results."""
    total = hashlib.sha256()
    for package in (PACKAGE, PAPERS):
        for path in sorted(package.rglob("*")):
            name = f"{package.name}/{path.relative_to(package).as_posix()}"
            if path.suffix in _SOURCE and not name.startswith(_NOT_COMPUTING):
                total.update(f"{name}\0{len(path.read_bytes())}\0".encode() + path.read_bytes())
    return total.hexdigest()


@cache
def library_versions() -> dict[str, str]:
    """Return the versions of the libraries that results depend on."""
    return {name: version(name) for name in LIBRARIES}


@cache
def _figure_digest(module: str) -> str:
    """Return the digest of a cell function's module and of the figure modules it imports, directly or not."""
    found = {module}
    waiting = [module]
    while waiting:
        for name in _figures_imported(waiting.pop()) - found:
            found.add(name)
            waiting.append(name)
    return _digest("".join(f"{name} {_file_digest(name)}\n" for name in sorted(found)))


def _figures_imported(module: str) -> set[str]:
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        return set()
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            start = resolve_name("." * node.level + (node.module or ""), spec.parent or None)
            names |= {start, *(f"{start}.{alias.name}" for alias in node.names)}
    return {name for name in names if name.startswith(_FIGURES) and _is_module(name)}


def _is_module(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # the name of an object in a module, not of a submodule
        return False


def _file_digest(module: str) -> str:
    spec = find_spec(module)
    if spec is None or spec.origin is None or not Path(spec.origin).is_file():
        return "absent"
    return hashlib.sha256(Path(spec.origin).read_bytes()).hexdigest()


def _text(value: Mapping[str, object]) -> str:
    return json.dumps(value, sort_keys=True, default=_plain)


def _plain(value: object) -> object:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"Options and rows must contain only JSON values; got {value!r}. Convert it first.")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
