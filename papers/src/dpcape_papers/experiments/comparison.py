"""Methods compared on one task at growing epsilon: the shape of most of the papers' figures.

Your own calibration or baseline
--------------------------------
A scheme joins a comparison by being one more `Method`: a name for the legend, what kind of claim it makes, and a
function that is given the task, the epsilon it may claim and a seed, and answers with its result and the epsilon its
noise really has at the task's delta. Say, in ``mine.py``::

    from dpcape import PCA, Cape, Federation, Replay, in_process, rows
    from dpcape_papers.experiments.comparison import VERIFIED, Answer, Method

    def fit(task, epsilon, seed):
        sites = {name: rows(x, bound=1.0) for name, x in task.sites.items()}
        federation = Federation(in_process(sites, noise=Replay(seed)), protocol=Cape(n_colluding=2))
        model = PCA(task.options["n_components"], epsilon=epsilon, delta=task.delta).fit(federation)
        return Answer(model.components_, verified_epsilon=model.guarantee_.epsilon)

    CAPE_2 = Method("CAPE, 2 colluding", VERIFIED, fit)

and then ``dpcape reproduce dissertation-4.1 --quick --method mine:CAPE_2``: the curve appears in every panel with both
epsilons, beside the papers' curves and under the same verdicts. ``dpcape reproduce --list`` marks with + which
experiments take methods; what ``task.options`` holds and what kind of result is expected is said in the docstring of
the experiment's module under ``dpcape_papers.figures``. A calibration of a paper is ``PUBLISHED``: return the noisy
result together with the epsilon you computed with `dpcape.privacy` for that noise (``math.inf`` if none holds). A
changed file is noticed: cached results of the old method are not used.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from dpcape.errors import InvalidParameter
from dpcape_papers.experiments.results import NON_PRIVATE, PUBLISHED, VERIFIED, Row, row


@dataclass(frozen=True)
class Task:
    """What every method of a comparison is given."""

    sites: Mapping[str, Any]  # site -> its array, or tuple of arrays
    delta: float
    options: Mapping[str, Any] = field(default_factory=dict)  # number of components, bounds, the truth, ...


@dataclass(frozen=True)
class MethodResult:
    """A method's result, and the epsilon its noise really has at the task's delta (None: no noise)."""

    result: Any
    verified_epsilon: float | None


Fit = Callable[[Task, float, int], MethodResult]
Measure = Callable[[Any, Task], float]


@dataclass(frozen=True)
class Method:
    """A scheme: ``fit(task, epsilon, seed)`` returns an `MethodResult`. ``epsilon`` is what the scheme claims."""

    curve: str
    calibration: str  # NON_PRIVATE, PUBLISHED or VERIFIED
    fit: Fit


def load_method(name: str) -> Method:
    """Return the method called ``module:NAME``; the module may lie in the working folder."""
    module, _, attribute = name.partition(":")
    here = os.getcwd()
    if here not in sys.path:
        sys.path.append(here)
    try:
        method = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidParameter(
            f"a method must be module:NAME of something importable; got {name!r} ({error})."
        ) from error
    if not isinstance(method, Method):
        raise InvalidParameter(
            f"a method must be a dpcape_papers.experiments.comparison.Method; got {name!r}, {method!r}."
        )
    return method


def compare(
    task: Task,
    methods: Sequence[Method],
    *,
    panel: str,
    epsilons: Sequence[float],
    run: int,
    seed: int,
    measures: Mapping[str, Measure],
    x: float | None = None,
) -> list[Row]:
    """Return one row per method, epsilon and measure; ``x`` (default: epsilon) is the horizontal coordinate."""
    rows = []
    for method in methods:
        for epsilon in epsilons:
            answer = method.fit(task, epsilon, seed)
            noisy = method.calibration != NON_PRIVATE
            rows += [
                row(
                    panel=panel,
                    curve=method.curve,
                    calibration=method.calibration,
                    x=epsilon if x is None else x,
                    measure=name,
                    value=measure(answer.result, task),
                    claimed_epsilon=epsilon if noisy else None,
                    verified_epsilon=answer.verified_epsilon,
                    delta=task.delta if noisy else None,
                    run=run,
                )
                for name, measure in measures.items()
            ]
    return rows


__all__ = [
    "NON_PRIVATE",
    "PUBLISHED",
    "VERIFIED",
    "Fit",
    "Measure",
    "Method",
    "MethodResult",
    "Task",
    "compare",
    "load_method",
]
