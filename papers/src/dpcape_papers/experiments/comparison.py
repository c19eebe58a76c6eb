"""Comparison of methods on one task over several values of epsilon, as in most of the papers' figures.

Add your own calibration or baseline
------------------------------------
To add a scheme, write a `Method`: a name for the legend, the kind of calibration, and a function. The function takes
the task, the epsilon to claim and a seed; it returns the result and the epsilon that its noise provides at the task's
delta. For example, in ``mine.py``::

    from dpcape import PCA, Cape, Federation, Replay, in_process, rows
    from dpcape_papers.experiments.comparison import VERIFIED, Method, MethodResult

    def fit(task, epsilon, seed):
        sites = {name: rows(x, bound=1.0) for name, x in task.sites.items()}
        federation = Federation(in_process(sites, noise=Replay(seed)), protocol=Cape(n_colluding=2))
        model = PCA(task.options["n_components"], epsilon=epsilon, delta=task.delta, center=False).fit(federation)
        return MethodResult(model.components_, guarantee=model.guarantee_)

    CAPE_2 = Method("CAPE, 2 colluding", VERIFIED, fit)

Then run ``dpcape reproduce dissertation-4.1 --quick --method mine:CAPE_2``. The curve is drawn in every panel together
with the papers' curves, and ``data.csv`` contains both of its epsilons. ``dpcape reproduce --list`` marks experiments
that accept methods with +. The docstring of each experiment's module under ``dpcape_papers.figures`` describes
``task.options`` and the expected result. Use the kind ``PUBLISHED`` for a calibration from a paper, and return the
noisy result with the epsilon that `dpcape.core.privacy` computes for that noise (``math.inf`` if none holds). If you
change the file, results cached for the old version are not used.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from dpcape.core.errors import InvalidParameter
from dpcape.guarantee.guarantee import Guarantee
from dpcape_papers.experiments.results import NON_PRIVATE, PUBLISHED, VERIFIED, Row, row


@dataclass(frozen=True)
class Task:
    """The input of every method in a comparison."""

    sites: Mapping[str, Any]  # site name -> its array or tuple of arrays
    delta: float
    options: Mapping[str, Any] = field(
        default_factory=dict
    )  # such as the number of components, bounds or the true parameters


@dataclass(frozen=True)
class MethodResult:
    """A method's result, the epsilon that its noise provides at the task's delta (None: no noise), and its guarantee.

    A verified method must give the guarantee of its fit; its epsilon is the guarantee's unless it is given as well.
    """

    result: Any
    verified_epsilon: float | None = None
    guarantee: Guarantee | None = None

    @property
    def real_epsilon(self) -> float | None:
        """The epsilon that the noise provides, None without noise."""
        if self.verified_epsilon is None and self.guarantee is not None:
            return self.guarantee.epsilon
        return self.verified_epsilon


Fit = Callable[[Task, float, int], MethodResult]
Measure = Callable[[Any, Task], float]


@dataclass(frozen=True)
class Method:
    """A scheme in a comparison: ``fit(task, epsilon, seed)`` returns a `MethodResult` claimed to have ``epsilon``."""

    curve: str
    calibration: str  # NON_PRIVATE, PUBLISHED or VERIFIED
    fit: Fit


def load_method(name: str) -> Method:
    """Import the method named ``module:NAME``; the module may be in the working directory."""
    module, _, attribute = name.partition(":")
    here = os.getcwd()
    if here not in sys.path:
        sys.path.append(here)
    try:
        method = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidParameter(
            "--method",
            "be an importable module:NAME",
            f"{name!r} ({error})",
            "Check the spelling, or run the command in the folder of the module.",
        ) from error
    if not isinstance(method, Method):
        raise InvalidParameter(
            "--method",
            "name a dpcape_papers.experiments.comparison.Method",
            f"{name!r}, which is {type(method).__name__}",
            "Write Method(curve, calibration, fit).",
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
    """Return one row per method, epsilon and measure; ``x`` is the horizontal coordinate (default: epsilon)."""
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
                    verified_epsilon=answer.real_epsilon,
                    guarantee=answer.guarantee,
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
