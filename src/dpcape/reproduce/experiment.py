"""What an experiment is: cells that are computed, a picture drawn from their rows, verdicts judged from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from matplotlib.figure import Figure

from dpcape.reproduce.data import DataFolder
from dpcape.reproduce.results import Results, Row

Outcome = Literal["holds", "holds under conditions", "fails", "not shown"]
PAPERS = {
    "capecca": "Imtiaz and Sarwate, distributed differentially private CCA (capeCCA)",
    "poster": "Imtiaz and Sarwate, differentially private CCA (poster)",
    "dissertation": "Imtiaz, dissertation on correlation assisted private estimation",
    "djica": "Imtiaz, Silva, Baker, Plis, Sarwate and Calhoun, differentially private decentralized joint ICA",
    "factor": "Kundu and Suthaharan, privacy preserving factor analysis",
}


@dataclass(frozen=True)
class Setting:
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

    def choose(self, quick: Any, full: Any) -> Any:
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
    options: Mapping[str, Any]
    files: Sequence[str] = ()


@dataclass(frozen=True)
class Verdict:
    """What became of one claim of a paper's text."""

    claim: str
    where: str
    outcome: Outcome
    numbers: str


MakeCells = Callable[[Setting], list[Cell]]
Draw = Callable[[Results], Figure]
Judge = Callable[[Results], list[Verdict]]


@dataclass(frozen=True)
class Experiment:
    """A figure or table of a paper.

    Parameters
    ----------
    name : str
        ``paper-label``, such as ``dissertation-4.1``.
    label : str
        As printed in the paper: ``Figure 4.1``.
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
    cells: MakeCells
    draw: Draw
    judge: Judge
    substitutes: str = ""
    note: str = ""
    extendable: bool = False
