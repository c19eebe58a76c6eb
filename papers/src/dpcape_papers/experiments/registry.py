"""The registry of all experiments, in the papers' order."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from functools import cache
from importlib import import_module

from dpcape.core.errors import InvalidParameter
from dpcape_papers.experiments.experiment import PAPERS, Experiment

# Each module under ``figures`` defines EXPERIMENTS.
MODULES = ("analytic", "pca", "cca", "tensor", "ica", "regression", "factor")


@cache
def experiments() -> dict[str, Experiment]:
    """Return all experiments by name, ordered by paper and label."""
    found: list[Experiment] = []
    for module in MODULES:
        found += import_module(f"dpcape_papers.figures.{module}").EXPERIMENTS
    order = list(PAPERS)
    found.sort(key=lambda one: (order.index(one.paper), _numbers(one.name)))
    if len({one.name for one in found}) < len(found):
        raise AssertionError("Names of experiments must be unique; got duplicates. Rename one.")
    return {one.name: one for one in found}


def choose(names: Sequence[str]) -> list[Experiment]:
    """Return the experiments with these names, each once; the error for an unknown name suggests similar ones."""
    known = experiments()
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
            meant = f"Did you mean {' or '.join(close)}?" if close else "Run dpcape reproduce --list to see them."
            raise InvalidParameter("NAME", "be a figure or table of the papers", repr(name), meant)
    return [known[name] for name in dict.fromkeys(names)]


def _numbers(name: str) -> tuple[tuple[int, ...], str]:
    """Return a sort key that puts 4.10 after 4.9, and orders tables by number like figures."""
    last = name.rsplit("-", 1)[-1]
    return tuple(int(part) for part in last.split(".") if part.isdigit()), name
