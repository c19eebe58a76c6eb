"""A claim, what became of it, and the numbers that show it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

HOLDS, CONDITIONS, WRONG = "holds", "holds under conditions", "wrong"


@dataclass(frozen=True)
class Evidence:
    """Computed numbers in words, and whether they bear the verdict out."""

    lines: tuple[str, ...]
    supports: bool


@dataclass(frozen=True)
class Claim:
    """A theorem, proposition or claim of a text.

    Attributes
    ----------
    key : str
        Short name, as in ``dpcape mechanisms --claim cape-theorem``.
    source : str
        Where it stands.
    says : str
        What it says, in our words.
    verdict : str
        HOLDS, CONDITIONS or WRONG.
    correct : str
        The correct statement, or the conditions.
    evidence : callable
        Computes the numbers.
    figures : tuple of str
        Reproduced figures and tables that show it too.
    """

    key: str
    source: str
    says: str
    verdict: str
    correct: str
    evidence: Callable[[], Evidence]
    figures: tuple[str, ...] = ()


def number(value: float) -> str:
    """Return a number with four digits."""
    return f"{value:.4g}"
