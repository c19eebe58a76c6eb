"""Interleaved timing: the only honest kind on a shared machine.

Tasks run in turn, round after round, so that all meet the same neighbours. A ratio of two tasks is the median of the
ratios of their rounds, and its spread is from the first to the third quartile of these.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

STORE = "DPCAPE_BENCHMARKS"
"""Environment variable with the file to which :func:`show` appends what it prints, one JSON object a line."""


class CpuTimes(float):
    """CPU seconds of a task: the median, as a number, and those of each round."""

    rounds: tuple[float, ...]

    @classmethod
    def of(cls, rounds: list[float]) -> CpuTimes:
        made = cls(statistics.median(rounds))
        made.rounds = tuple(rounds)
        return made

    def __truediv__(self, other: float) -> float:
        if not isinstance(other, CpuTimes) or len(other.rounds) != len(self.rounds):
            return float(self) / float(other)
        return Ratio.of([mine / theirs for mine, theirs in zip(self.rounds, other.rounds, strict=True)])


class Ratio(float):
    """A median of ratios, as a number, and their quartiles."""

    quartiles: tuple[float, float]

    @classmethod
    def of(cls, ratios: list[float]) -> Ratio:
        made = cls(statistics.median(ratios))
        made.quartiles = (min(ratios), max(ratios))
        if len(ratios) > 3:
            low, _, high = statistics.quantiles(ratios, n=4, method="inclusive")
            made.quartiles = (low, high)
        return made


def cpu_times(
    tasks: dict[str, Callable[[], object]], rounds: int = 5, clock: Callable[[], float] = time.process_time
) -> dict[str, CpuTimes]:
    """Return the process CPU times of each task over several rounds, in which all run in turn.

    With ``time.perf_counter`` as the clock they are times that pass, for tasks that use several cores.
    """
    found: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(rounds):
        for name, task in tasks.items():
            start = clock()
            task()
            found[name].append(clock() - start)
    return {name: CpuTimes.of(times) for name, times in found.items()}


def show(title: str, ratio: float, goal: str) -> None:
    """Print one line: what, the ratio, its spread and what it should be; store it where the environment says."""
    low, high = ratio.quartiles if isinstance(ratio, Ratio) else (None, None)
    spread = "" if low is None else f"{low:.2f} to {high:.2f}"
    print(f"{title:<76} {ratio:8.2f}   {spread:<16} goal {goal}", flush=True)
    if STORE in os.environ:
        line = {"what": title.strip(), "ratio": float(ratio), "low": low, "high": high, "goal": goal}
        with Path(os.environ[STORE]).open("a", encoding="utf-8") as store:
            store.write(json.dumps(line) + "\n")
