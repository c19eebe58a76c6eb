"""The parts of an experiment: cells to compute, and a picture and verdicts made from their rows."""

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
    """

    quick: bool
    data: DataFolder
    runs: int | None = None
    methods: Sequence[str] = ()

    def choose(self, quick: T, full: T) -> T:
        """Return ``quick`` in a quick run, else ``full``."""
        return quick if self.quick else full

    def n_runs(self, quick: int, full: int = 10) -> int:
        """Return the number of runs to average: the user's, else ``quick`` in a quick run, else ``full``."""
        return self.runs if self.runs is not None else quick if self.quick else full


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
    """

    compute: Callable[..., list[Row]]
    options: Mapping[str, object]
    files: Sequence[str] = ()


@dataclass(frozen=True)
class Verdict:
    """The outcome of one claim of a paper, with the numbers behind it."""

    claim: str
    where: str
    outcome: Outcome
    numbers: str


MakeCells = Callable[[RunSetting], list[Cell]]
Draw = Callable[[Results], "Figure"]
Judge = Callable[[Results], list[Verdict]]


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
        """Return the cells to compute."""
        return self.work().cells(setting)

    def draw(self, results: Results) -> Figure:
        """Draw the rows."""
        return self.work().draw(results)

    def judge(self, results: Results) -> list[Verdict]:
        """Return a verdict on each claim."""
        return self.work().judge(results)


def late(module: str, name: str = "WORK") -> Callable[[], Work]:
    """Return a function that imports ``name`` from a module of ``figures`` when called.

    Estimators and matplotlib take seconds to import, and listing the experiments does not need them.
    """

    def load() -> Work:
        work: Work = getattr(import_module(f"dpcape_papers.figures.{module}"), name)
        return work

    return load
