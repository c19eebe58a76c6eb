"""A claim of a paper, the verdict on it, and the evidence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

HOLDS, CONDITIONS, WRONG = "holds", "holds under conditions", "wrong"


@dataclass(frozen=True)
class Evidence:
    """Computed numbers in words, and whether they support the verdict."""

    lines: tuple[str, ...]
    supports: bool


@dataclass(frozen=True)
class Claim:
    """A theorem, proposition or other claim of a paper, with its verdict.

    Attributes
    ----------
    key : str
        Short name, as in ``dpcape mechanisms --claim cape-theorem``.
    source : str
        Where the paper states it.
    says : str
        What it claims, in our words.
    verdict : str
        HOLDS, CONDITIONS or WRONG.
    correct : str
        The correct statement, or the conditions.
    evidence : callable
        Computes the evidence.
    figures : tuple of str
        Reproduced figures and tables that show it as well.
    """

    key: str
    source: str
    says: str
    verdict: str
    correct: str
    evidence: Callable[[], Evidence]
    figures: tuple[str, ...] = ()


def number(value: float) -> str:
    """Return a number with four significant digits."""
    return f"{value:.4g}"
