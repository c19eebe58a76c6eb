"""Pictures of a result as data: ``dpcape.report`` draws them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpcape.core.arrays import BoolArray, FloatArray

DRAWN = 30
"""Largest number of figures that a forest plot draws."""


@dataclass(frozen=True, kw_only=True)
class Chart:
    """What is drawn of a result.

    Attributes
    ----------
    alt : str
        Alternative text for screen readers.
    caption : str
        Caption below the picture.
    """

    alt: str = ""
    caption: str = ""


@dataclass(frozen=True, kw_only=True)
class Forest(Chart):
    """Figures with intervals, one below the other; of many, the largest.

    Attributes
    ----------
    values : array of shape (D,)
        The figures; logarithms of ratios.
    interval : array of shape (2, D) or None
        Lower and upper ends; an infinite end is drawn as an arrow at the edge.
    names : sequence of str
        Names of the figures.
    label : str
        Label of the axis.
    is_log : bool
        Whether figures are logarithms, and ticks those of ratios.
    """

    values: FloatArray
    interval: FloatArray | None
    names: Sequence[str]
    label: str
    is_log: bool = False


@dataclass(frozen=True, kw_only=True)
class SiteForest(Chart):
    """Means of sites with intervals, and below a line what holds for these sites and beyond.

    Attributes
    ----------
    names : sequence of str
        Names of the sites.
    values, interval : array of shape (S,) and (2, S)
        Means and ends of their intervals.
    below : sequence of (str, float, float, float)
        Name, figure and ends of what is drawn below.
    label : str
        Label of the axis.
    """

    names: Sequence[str]
    values: FloatArray
    interval: FloatArray
    below: Sequence[tuple[str, float, float, float]]
    label: str


@dataclass(frozen=True, kw_only=True)
class Offsets(Chart):
    """How far sites are from the mean of all, and a band within which they usually are afterwards.

    Attributes
    ----------
    names : sequence of str
        Names of the sites.
    values : array of shape (S, V)
        Offsets, a point for each column.
    band : float
        Half the width of the band.
    """

    names: Sequence[str]
    values: FloatArray
    band: float


@dataclass(frozen=True, kw_only=True)
class Scree(Chart):
    """Eigenvalues, and the norm of the noise.

    Attributes
    ----------
    values : array of shape (K,)
        Eigenvalues, descending.
    level : float
        Norm of the noise.
    """

    values: FloatArray
    level: float


@dataclass(frozen=True, kw_only=True)
class Bars(Chart):
    """One bar per component, and how high noise alone reaches.

    Attributes
    ----------
    values : array of shape (K,)
        Heights of the bars.
    label, row : str
        What the heights are, and what there is one bar of.
    level : float
        Height that noise alone reaches; 0 for no line.
    top : float or None
        Upper end of the axis.
    """

    values: FloatArray
    label: str
    row: str = "component"
    level: float = 0.0
    top: float | None = None


@dataclass(frozen=True, kw_only=True)
class Weights(Chart):
    """Rows of weights: a heat map, or maps where columns are the voxels or pixels of an image.

    Attributes
    ----------
    values : array of shape (rows, columns)
        The weights.
    names : sequence of str
        Names of the columns.
    row : str
        What the rows are.
    inside : array of bool or None
        Voxels of an image that the columns are, if that follows from the analysis.
    may_be_image : bool
        Whether columns are pixels if the study says that records are images.
    """

    values: FloatArray
    names: Sequence[str]
    row: str
    inside: BoolArray | None = None
    may_be_image: bool = False


@dataclass(frozen=True, kw_only=True)
class Matrix(Chart):
    """Correlations of all pairs of columns; a dot marks pairs that are determined.

    Attributes
    ----------
    values, p_values : array of shape (D, D)
        Correlations and their adjusted p-values.
    names : sequence of str
        Names of the columns.
    """

    values: FloatArray
    p_values: FloatArray
    names: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Topics(Chart):
    """The most probable words of each topic.

    Attributes
    ----------
    words : sequence of sequence of (str, float)
        Words and their probabilities, topic by topic.
    weights : array of shape (topics,)
        Weights of the topics.
    """

    words: Sequence[Sequence[tuple[str, float]]]
    weights: FloatArray


@dataclass(frozen=True, kw_only=True)
class Curves(Chart):
    """Survival curves of groups with bands, and numbers at risk.

    Attributes
    ----------
    times : array of shape (T,)
        Times, beginning at zero.
    groups : sequence of str
        Names of the groups.
    values, at_risk : array of shape (T, groups)
        Shares without the event, and numbers at risk.
    interval : array of shape (2, T, groups)
        Lower and upper ends of the shares.
    shown : sequence of int
        Positions of the times at which numbers at risk are written.
    """

    times: FloatArray
    groups: Sequence[str]
    values: FloatArray
    interval: FloatArray
    at_risk: FloatArray
    shown: Sequence[int]


def drawable(interval: FloatArray, coefficients: FloatArray, least: float) -> FloatArray:
    """Return intervals whose ends are infinite beyond what can be drawn beside the coefficients.

    Parameters
    ----------
    interval : array of shape (2, D)
        Lower and upper ends.
    coefficients : array of shape (D,)
        Coefficients that are drawn.
    least : float
        What is drawn at least, to either side.
    """
    farthest = max(least, 2 * float(np.abs(coefficients).max(initial=0.0)))
    return np.where(np.abs(interval) <= farthest, interval, np.copysign(np.inf, interval))


def drawn_caption(count: int) -> str:
    """Return how many of the figures of a forest plot are drawn."""
    return f"The {DRAWN} largest of {count} are drawn." if count > DRAWN else "In the order of the columns."
