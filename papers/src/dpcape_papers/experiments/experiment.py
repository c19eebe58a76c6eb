"""The parts of an experiment: cells to compute, and a picture and verdicts made from their rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar

from dpcape_papers.experiments.data import DataFolder
from dpcape_papers.experiments.fairness import just_verdicts
from dpcape_papers.experiments.replica import Replica
from dpcape_papers.experiments.results import Results, Row
from dpcape_papers.experiments.verdict import Judge, Outcome, Verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

T = TypeVar("T")
# Runs of different seeds have different numbers.
RUNS_PER_SEED = 1000
SHORT = {
    "capecca": "capeCCA paper",
    "poster": "poster",
    "dissertation": "dissertation",
    "djica": "DP-djICA paper",
    "factor": "factor paper",
}
PAPERS = {
    "capecca": "Imtiaz and Sarwate, Distributed differentially-private canonical correlation analysis (capeCCA)",
    "poster": "Imtiaz and Sarwate, Differentially-private canonical correlation analysis (poster)",
    "dissertation": "Imtiaz, Decentralized differentially private algorithms for matrix and tensor factorization "
    "(dissertation)",
    "djica": "Imtiaz, Silva, Baker, Plis, Sarwate and Calhoun, Privacy-preserving source separation for distributed "
    "data using independent component analysis (DP-djICA)",
    "factor": "Kundu and Suthaharan, Privacy-preserving predictive model using factor analysis for neuroscience "
    "applications",
}


@dataclass(frozen=True)
class RunSetting:
    """Settings of a run: quick or full, data folder, number of runs and the user's own methods.

    Parameters
    ----------
    quick : bool
        Whether to use fewer runs and smaller sizes.
    data : DataFolder
        Where the data files are.
    runs : int or None
        Number of runs to average; None for the experiment's own.
    methods : sequence of str
        The user's methods, each ``module:NAME``, added to every extendable experiment (see `comparison`).
    seed : int
        Which data and noise the runs draw; every seed has runs of its own.
    """

    quick: bool
    data: DataFolder
    runs: int | None = None
    methods: Sequence[str] = ()
    seed: int = 0

    def choose(self, quick: T, full: T) -> T:
        """Return ``quick`` in a quick run, else ``full``."""
        return quick if self.quick else full

    def n_runs(self, quick: int, full: int = 10) -> int:
        """Return the number of runs to average: the user's, else ``quick`` in a quick run, else ``full``."""
        return self.runs if self.runs is not None else quick if self.quick else full

    def run_numbers(self, quick: int, full: int = 10) -> range:
        """Return the numbers of the runs to average, which seed their data and noise."""
        first = RUNS_PER_SEED * self.seed
        return range(first, first + self.n_runs(quick, full))


@dataclass(frozen=True)
class Cell:
    """The unit of work of an experiment: computed in a separate process, and cached as a whole.

    Parameters
    ----------
    compute : callable
        A module-level function: ``compute(data_folder, **options)`` returns rows.
    options : mapping
        JSON values only, including seeds. With the code and the data files they determine the rows.
    files : sequence of str
        Names of the data files that the function reads if they exist.
    extendable : bool
        Whether the user's own methods are added; not to cells that repeat what the authors ran.
    """

    compute: Callable[..., list[Row]]
    options: Mapping[str, object]
    files: Sequence[str] = ()
    extendable: bool = True


MakeCells = Callable[[RunSetting], list[Cell]]
Draw = Callable[[Results], "Figure"]


@dataclass(frozen=True)
class Work:
    """The functions of an experiment: list its cells, draw their rows, judge the claims."""

    cells: MakeCells
    draw: Draw
    judge: Judge


@dataclass(frozen=True)
class Experiment:
    """A figure or table of a paper, and where to find the code that reproduces it.

    Parameters
    ----------
    name : str
        ``paper-label``, such as ``dissertation-4.1``.
    paper : str
        A key of `PAPERS`.
    label : str
        As printed in the paper, such as ``Figure 4.1``.
    title : str
        What the figure or table shows.
    work : callable
        Returns the `Work`; see `late`.
    substitutes : str
        Data used in place of the paper's, or empty.
    note : str
        Other differences from the paper, or empty.
    extendable : bool
        Whether the cells' functions accept ``methods``, the names of additional methods to compare.
    stand_ins : tuple of str
        Parts of the names of panels whose data replace the paper's; they never decide that a claim fails.
    replica : callable or None
        Returns the figure as its authors ran it (see `late_replica`); None if their numbers are not public.
    """

    name: str
    paper: str
    label: str
    title: str
    work: Callable[[], Work]
    substitutes: str = ""
    note: str = ""
    extendable: bool = False
    stand_ins: tuple[str, ...] = ()
    replica: Callable[[], Replica] | None = None

    def cells(self, setting: RunSetting) -> list[Cell]:
        """Return the cells to compute; those that repeat what the authors ran only if their numbers are there."""
        own = self.work().cells(setting)
        replica = None if self.replica is None else self.replica()
        if replica is None or not setting.data.has(replica.file):
            return own
        return [*own, *(replace(cell, extendable=False) for cell in replica.cells(setting))]

    def draw(self, results: Results) -> Figure:
        """Draw the rows."""
        return self.work().draw(results)

    def judge(self, results: Results, *, quick: bool = False) -> list[Verdict]:
        """Return a verdict on each claim; ``quick`` if the run was smaller than the paper's."""
        return just_verdicts(self.work().judge, results, stand_ins=self.stand_ins, quick=quick)


def late(module: str, name: str = "WORK") -> Callable[[], Work]:
    """Return a function that imports ``name`` from a module of ``figures`` when called.

    Estimators and matplotlib take seconds to import, and listing the experiments does not need them.
    """

    def load() -> Work:
        work: Work = getattr(import_module(f"dpcape_papers.figures.{module}"), name)
        return work

    return load


def late_replica(module: str, name: str = "REPLICA") -> Callable[[], Replica]:
    """Return a function that imports a `Replica` from a module of ``figures.replicas`` when called."""

    def load() -> Replica:
        replica: Replica = getattr(import_module(f"dpcape_papers.figures.replicas.{module}"), name)
        return replica

    return load


__all__ = [
    "PAPERS",
    "RUNS_PER_SEED",
    "Cell",
    "Experiment",
    "Judge",
    "Outcome",
    "RunSetting",
    "Verdict",
    "Work",
    "late",
    "late_replica",
]
