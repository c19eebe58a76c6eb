"""Interleaved timing: the only honest kind on a shared machine."""

from __future__ import annotations

import time
from collections.abc import Callable


def least_cpu(tasks: dict[str, Callable[[], object]], rounds: int = 5) -> dict[str, float]:
    """Return the least process CPU time of each task, run in turn so that all meet the same neighbours."""
    best = dict.fromkeys(tasks, float("inf"))
    for _ in range(rounds):
        for name, task in tasks.items():
            start = time.process_time()
            task()
            best[name] = min(best[name], time.process_time() - start)
    return best


def show(title: str, ratio: float, goal: str) -> None:
    """Print one line: what, the ratio, what it should be."""
    print(f"{title:<72} {ratio:8.2f}   goal {goal}")
