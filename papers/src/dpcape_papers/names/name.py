"""A name of the papers, and its place in dpcape."""

from __future__ import annotations

import re
from dataclasses import dataclass

NO_GUARANTEE, OTHER_MECHANISM, LARGER_NOISE, NO_CONSEQUENCE = (
    "no guarantee as published",
    "other mechanism",
    "larger noise",
    "no consequence",
)
# What follows from a correction for a user, the gravest first.
CONSEQUENCES = {
    NO_GUARANTEE: "As published it protects nobody as stated, whatever the size of its noise.",
    OTHER_MECHANISM: "dpcape computes the same by another mechanism, which has the guarantee.",
    LARGER_NOISE: "The same mechanism needs more noise for the stated guarantee, and dpcape adds it.",
    NO_CONSEQUENCE: "Results and guarantees of dpcape do not depend on it.",
}


@dataclass(frozen=True)
class PaperName:
    """A name of the papers.

    Attributes
    ----------
    name : str
        As the papers spell it.
    source : str
        Where the papers define it.
    uses : str
        The class of dpcape.
    page : str
        The page of the class, relative to docs/papers.
    given : str
        Lines that make example data.
    snippet : str
        Three or four lines that run after ``given``.
    baseline : str
        The algorithm as published, importable; empty if there is none.
    figures : tuple of str
        Experiments that compare both, as in ``dpcape reproduce``.
    claims : tuple of str
        Claims of the papers that concern it, as in ``dpcape mechanisms --claim``.
    corrected : str
        What is corrected.
    consequence : str
        What follows from it for a user: a key of `CONSEQUENCES`.
    follows : str
        The same in words.
    """

    name: str
    source: str
    uses: str
    page: str
    given: str
    snippet: str
    baseline: str
    figures: tuple[str, ...]
    claims: tuple[str, ...]
    corrected: str
    consequence: str
    follows: str

    @property
    def example(self) -> str:
        """The whole example: it runs as it stands."""
        imports, rest = re.split(r"\n(?!from |import )", self.snippet, maxsplit=1)
        return f"import numpy as np\n\n{self.given}\n\n{imports}\n\n{rest}"
