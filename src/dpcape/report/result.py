"""One figure of a result: the layout of ``results.csv``, the same for every analysis."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from dpcape.report.loading_sections import FittedModel

LARGEST = 20_000
"""Largest number of weights that are listed."""

NAN = math.nan


@dataclass(frozen=True, kw_only=True)
class Result:
    """One figure of a result.

    Attributes
    ----------
    quantity : str
        What it is: "mean", "coefficient", "eigenvalue" and so on.
    name : str
        Column, outcome or component it is about.
    part : str
        Level, quantile, time, component or second column, where there is one.
    group : str
        Group of records, where there are groups.
    estimate : float or str
        The figure; a date in ISO form.
    low, high : float or str
        Ends of its interval; NaN where there is none.
    noise_sd : float
        Standard deviation of the noise of privacy in this figure, to first order where the figure is not linear in what
        was released; NaN where none is known.
    p_value : float
        P-value; NaN where nothing was tested.
    adjusted_p_value : float
        P-value adjusted for the number of tests, or rate of false discoveries; NaN where there is none.
    unit : str
        Unit, empty where there is none or it was not stated.
    """

    quantity: str
    name: str = ""
    part: str = ""
    group: str = ""
    estimate: float | str
    low: float | str = NAN
    high: float | str = NAN
    noise_sd: float = NAN
    p_value: float = NAN
    adjusted_p_value: float = NAN
    unit: str = ""


Figures: TypeAlias = Callable[[FittedModel, Sequence[str]], list[Result]]
"""Function from a fitted model and feature names to figures; none if the model lacks the attributes."""
MANY: list[Result] = []
"""What stands for an array that is too long to be listed."""


def floats(*arrays: Any) -> list[list[float]]:
    """Return arrays as lists of Python numbers."""
    return [np.asarray(array, dtype=np.float64).tolist() for array in arrays]
