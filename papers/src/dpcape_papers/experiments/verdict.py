"""A verdict: the outcome of one claim of a paper, with the numbers behind it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from dpcape_papers.experiments.results import Results

Outcome = Literal["holds", "holds under conditions", "fails", "not shown"]


@dataclass(frozen=True)
class Verdict:
    """The outcome of one claim of a paper, with the numbers behind it.

    Parameters
    ----------
    claim, where : str
        What the paper claims, and where.
    outcome : str
        The verdict.
    numbers : str
        The numbers that decide it, in words.
    measured : bool
        Whether the numbers vary from run to run. False for formulas, counts and guarantees, which one run decides.
    needs_size : bool
        Whether the claim is about the size of the paper's experiment, so that a smaller one cannot refute it.
    """

    claim: str
    where: str
    outcome: Outcome
    numbers: str
    measured: bool = True
    needs_size: bool = False


Judge = Callable[[Results], list[Verdict]]
