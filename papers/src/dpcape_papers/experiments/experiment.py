"""What an experiment is: cells that are computed, a picture drawn from their rows, verdicts judged from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Literal, TypeVar

from dpcape_papers.experiments.data import DataFolder
from dpcape_papers.experiments.results import Results, Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

T = TypeVar("T")
Outcome = Literal["holds", "holds under conditions", "fails", "not shown"]
PAPERS = {
    "capecca": "Imtiaz and Sarwate, distributed differentially private CCA (capeCCA)",
    "poster": "Imtiaz and Sarwate, differentially private CCA (poster)",
    "dissertation": "Imtiaz, dissertation on correlation assisted private estimation",
    "djica": "Imtiaz, Silva, Baker, Plis, Sarwate and Calhoun, differentially private decentralized joint ICA",
    "factor": "Kundu and Suthaharan, privacy preserving factor analysis",
}


@dataclass(frozen=True)
class RunSetting:
    """How thoroughly to run, and where the data are.

    Parameters
    ----------
    runs : int or None
        How many runs to average, if the user says so.
    methods : sequence of str
        Methods of the user's own, ``module:NAME``, that join every extendable experiment (see `comparison`).
    """

    quick: bool
    data: DataFolder
    runs: int | None = None
    methods: Sequence[str] = ()

    def choose(self, quick: T, full: T) -> T:
        """Return the one of the two that fits."""
        return quick if self.quick else full

    def n_runs(self, quick: int, full: int = 10) -> int:
        """Return how many runs to average: what the user says, or the one of the two that fits."""
        return self.runs if self.runs is not None else quick if self.quick else full


@dataclass(frozen=True)
class Cell:
    """A piece of an experiment that is computed, cached and resumed as a whole, in a process of its own.

    Parameters
    ----------
    compute : callable
        A function at the top of a module: ``compute(data_folder, **options)`` returns rows.
    options : mapping
        JSON values only, seeds among them: together with the code and the data files they decide the result.
    files : sequence of str
        Names of the data files that are read, if they are there.
    """

    compute: Callable[..., list[Row]]
    options: Mapping[str, object]
    files: Sequence[str] = ()


@dataclass(frozen=True)
class Verdict:
    """What became of one claim of a paper's text."""

    claim: str
    where: str
    outcome: Outcome
    numbers: str


MakeCells = Callable[[RunSetting], list[Cell]]
Draw = Callable[[Results], "Figure"]
Judge = Callable[[Results], list[Verdict]]


@dataclass(frozen=True)
class Work:
    """How an experiment is done: which cells are computed, and what is drawn and judged from their rows."""

    cells: MakeCells
    draw: Draw
    judge: Judge


@dataclass(frozen=True)
class Experiment:
    """A figure or table of a paper: what it is, and where the work is that makes it.

    Parameters
    ----------
    name : str
        ``paper-label``, such as ``dissertation-4.1``.
    label : str
        As printed in the paper: ``Figure 4.1``.
    work : callable
        Returns the `Work`; see `late`.
    substitutes : str
        Which data differ from the paper's, or empty.
    note : str
        What differs from the paper otherwise, or empty.
    extendable : bool
        Whether the functions of the cells take ``methods``, names of further methods to compare.
    """

    name: str
    paper: str
    label: str
    title: str
    work: Callable[[], Work]
    substitutes: str = ""
    note: str = ""
    extendable: bool = False

    def cells(self, setting: RunSetting) -> list[Cell]:
        """Return what is to be computed."""
        return self.work().cells(setting)

    def draw(self, results: Results) -> Figure:
        """Return the picture of the rows."""
        return self.work().draw(results)

    def judge(self, results: Results) -> list[Verdict]:
        """Return what became of each claim."""
        return self.work().judge(results)


def late(module: str, name: str = "WORK") -> Callable[[], Work]:
    """Return a function that imports ``name`` from a module of ``figures`` when it is called.

    Analyses, estimators and matplotlib take seconds to import; naming every experiment should not.
    """

    def load() -> Work:
        work: Work = getattr(import_module(f"dpcape_papers.figures.{module}"), name)
        return work

    return load
