"""Experiments made for tests: quick, deterministic, and able to fail."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from dpcape import Federation, Independent, Mean, in_process
from dpcape import rows as records
from dpcape.guarantee.guarantee import Guarantee
from dpcape_papers.experiments.comparison import VERIFIED, Method, MethodResult, Task, compare, load_method
from dpcape_papers.experiments.curves import Look, draw_panels, true_epsilon_note
from dpcape_papers.experiments.data import DataFolder
from dpcape_papers.experiments.experiment import Cell, Experiment, RunSetting, Verdict, Work
from dpcape_papers.experiments.results import NON_PRIVATE, PUBLISHED, Results, Row, row


@cache
def guarantee() -> Guarantee:
    """Return a guarantee of status verified; the made methods have no noise of their own."""
    federation = Federation(in_process({"one": records(np.zeros((10, 1)), bound=1.0)}), protocol=Independent())
    return Mean(epsilon=1.0, delta=0.01).fit(federation).guarantee_


TWICE = Method("twice", VERIFIED, lambda task, epsilon, seed: MethodResult(2 * epsilon + seed, epsilon, guarantee()))
THRICE = Method("thrice", VERIFIED, lambda task, epsilon, seed: MethodResult(3 * epsilon + seed, epsilon, guarantee()))
NOT_A_METHOD = 3


def squares(data: DataFolder, *, seed: int, log: str, methods: Sequence[str] = ()) -> list[Row]:
    """Append the seed to a log, so that tests see what was computed, and return rows."""
    with Path(log).open("a", encoding="utf-8") as file:
        file.write(f"{seed} {os.getpid()} {os.environ.get('OPENBLAS_NUM_THREADS')}\n")
    known = [TWICE, *(load_method(name) for name in methods)]
    return [
        row(panel="a", curve="non-private", calibration=NON_PRIVATE, x=1.0, measure="square", value=seed**2, run=seed),
        row(panel="a", curve="CAPE", calibration=PUBLISHED, x=1.0, measure="square", value=seed**2 + 1, run=seed,
            claimed_epsilon=1.0, verified_epsilon=float("inf"), delta=1e-5),
        *compare(Task({}, 1e-5), known, panel="a", epsilons=[1.0, 2.0], run=seed, seed=seed,
                 measures={"square": lambda result, task: result}),
    ]  # fmt: skip


class Silent:
    """Progress that nobody follows."""

    def begin(self, *told: object) -> None: ...

    def advance(self, *told: object) -> None: ...

    def end(self, *told: object) -> None: ...


def slow(data: DataFolder, *, seed: int, log: str) -> list[Row]:
    """Take a while, long enough for two processes to work at the same time."""
    time.sleep(0.7)
    return squares(data, seed=seed, log=log)


def endless(data: DataFolder, *, seed: int, log: str) -> list[Row]:
    """Never come to an end at seed 2."""
    if seed == 2:
        with Path(log).open("a", encoding="utf-8") as file:
            file.write("waiting\n")
        time.sleep(600)
    return squares(data, seed=seed, log=log)


def failing(data: DataFolder, *, seed: int, log: str) -> list[Row]:
    """Fail at seed 1 only."""
    if seed == 1:
        raise ZeroDivisionError("seed one cannot be used")
    return squares(data, seed=seed, log=log)


def dying(data: DataFolder, *, seed: int, log: str) -> list[Row]:
    """Take the process down at seed 1 only."""
    if seed == 1:
        os._exit(9)
    return squares(data, seed=seed, log=log)


def draw(results: Results) -> Figure:
    """Draw one panel."""
    figure = draw_panels(results, Look("epsilon", "square"), measure="square")
    true_epsilon_note(figure, results, "square")
    return figure


def judge(results: Results) -> list[Verdict]:
    """Hold the claim that squares average to less than three."""
    mean = results.mean(curve="non-private")
    return [Verdict("squares are small", "section 0", "holds" if mean < 3 else "fails", f"mean {mean:.3g}")]


def made(name: str, compute, log: Path, seeds: Sequence[int] = (0, 1, 2), **more) -> Experiment:
    """Return an experiment with one cell per seed."""

    def cells(setting: RunSetting) -> list[Cell]:
        chosen = seeds[: setting.n_runs(2, len(seeds))]
        return [Cell(compute, {"seed": seed, "log": str(log)}, files=["numbers.csv"]) for seed in chosen]

    work = Work(cells, draw, judge)
    return Experiment(name, name.split("-")[0], "Figure 0", "made for tests", lambda: work, **more)
