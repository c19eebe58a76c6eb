"""Methods compared on one task at growing epsilon: the shape of most of the papers' figures.

A scientist's own scheme joins a comparison by being one more `Method`; see ``docs/papers.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dpcape.reproduce.results import NON_PRIVATE, PUBLISHED, VERIFIED, Row, row


@dataclass(frozen=True)
class Task:
    """What every method of a comparison is given."""

    sites: Mapping[str, Any]  # site -> its array, or tuple of arrays
    delta: float
    options: Mapping[str, Any] = field(default_factory=dict)  # number of components, bounds, the truth, ...


@dataclass(frozen=True)
class Answer:
    """A method's result, and the epsilon its noise really has at the task's delta (None: no noise)."""

    result: Any
    verified_epsilon: float | None


@dataclass(frozen=True)
class Method:
    """A scheme: ``fit(task, epsilon, seed)`` returns an `Answer`. ``epsilon`` is what the scheme claims."""

    curve: str
    calibration: str  # NON_PRIVATE, PUBLISHED or VERIFIED
    fit: Callable[[Task, float, int], Answer]


def compare(
    task: Task,
    methods: Sequence[Method],
    *,
    panel: str,
    epsilons: Sequence[float],
    run: int,
    seed: int,
    measures: Mapping[str, Callable[[Any, Task], float]],
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


__all__ = ["NON_PRIVATE", "PUBLISHED", "VERIFIED", "Answer", "Method", "Task", "compare"]
