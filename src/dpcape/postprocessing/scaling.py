"""From released means, deviations and lengths to a centre, a scale and a radius, and back to the records' units."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpcape.core.arrays import FloatArray, IntArray
from dpcape.statistics.scaling import USUAL_LENGTH, bin_ends, views_of

# Ratio of standard deviation to mean absolute deviation for a normal variable.
_SPREAD = math.sqrt(math.pi / 2)
# A column whose deviation is below this many standard deviations of the noise is given this much instead.
_LEAST_IN_NOISE = 2.0
# No standardised row of interest is longer than this many times the root of the number of columns.
_LONGEST = 16.0


@dataclass(frozen=True)
class Scaling:
    """Public centre, scale and radius: a row x is read as (x - centre) / (scale * radius).

    Attributes
    ----------
    centre, scale : (D,) array
        Numbers of the columns, in the units of the records.
    radius : (views,) array
        Numbers of the views.
    widths : tuple of int
        Columns per view.
    tails : float
        Mean fourth power of the lengths of clipped rows, over that of normal rows, by the released lengths; 1 if there
        are none.
    """

    centre: FloatArray
    scale: FloatArray
    radius: FloatArray
    widths: tuple[int, ...]
    tails: float = 1.0

    @property
    def arrays(self) -> dict[str, FloatArray]:
        """Public arrays of a scaled statistic, by name."""
        return {"centre": self.centre, "scale": self.scale, "radius": self.radius}

    @property
    def units(self) -> FloatArray:
        """Size of a standardised unit in the units of the records, per column."""
        return self.scale * np.repeat(self.radius, self.widths)

    def coefficients(self, standardised: FloatArray) -> FloatArray:
        """Return coefficients per unit of the records, for coefficients per standardised unit (last axis)."""
        return standardised / self.units

    def intercept(self, standardised: FloatArray, intercept: float) -> float:
        """Return the intercept for rows in the units of the records."""
        return intercept - float(self.centre @ self.coefficients(standardised))

    def rows(self, standardised: FloatArray) -> FloatArray:
        """Return rows in the units of the records."""
        return self.centre + standardised * self.units

    def covariance(self, standardised: FloatArray) -> FloatArray:
        """Return a covariance in the units of the records, for one of standardised rows."""
        return standardised * np.outer(self.units, self.units)


def centre_from(mean: FloatArray, bounds: Sequence[float], widths: Sequence[int]) -> FloatArray:
    """Return the released mean, each entry moved to within the bound of its view."""
    limits = np.repeat(bounds, widths)
    return np.clip(mean, -limits, limits)


def scale_from(deviations: FloatArray, noise: FloatArray) -> FloatArray:
    """Return the scale of each column: its standard deviation, if normal, but not less than what noise hides.

    Parameters
    ----------
    deviations : (D,) array
        Released mean absolute deviations.
    noise : (D,) array
        Standard deviation of the noise of each.
    """
    return _SPREAD * np.maximum(deviations, np.maximum(_LEAST_IN_NOISE * noise, 1e-12))


def top_of(
    centre: FloatArray, scale: FloatArray, bounds: Sequence[float], widths: Sequence[int], *, keep_units: bool = False
) -> FloatArray:
    """Return the length from which on scaled rows need not be told apart, per view.

    No row of a view is longer than its bound, so none is farther from the centre than the bound plus the length of the
    centre. With scales of their own, columns of standardised rows have entries near 1, and rows lengths near the root
    of their number.
    """
    tops = []
    for view, bound, width in zip(views_of(tuple(widths)), bounds, widths, strict=True):
        farthest = (bound + float(np.linalg.norm(centre[view]))) / float(scale[view].min())
        tops.append(farthest if keep_units else min(farthest, _LONGEST * math.sqrt(width)))
    return np.array(tops)


def usual_radius(widths: Sequence[int]) -> FloatArray:
    """Return a length that most standardised rows do not exceed, per view, where lengths are not released."""
    return USUAL_LENGTH * np.sqrt(np.array(widths, dtype=np.float64))


def radius_from(shares: FloatArray, top: float, *, noise: float, quantile: float) -> float:
    """Return a length that about the share ``quantile`` of the records does not exceed.

    From the longest bin down, stop where the share of longer records is more than 1 - quantile by twice the noise
    that has been added up. With more noise the radius is shorter.

    Parameters
    ----------
    shares : (N_BINS,) array
        Released shares of the records by length.
    top : float
        Upper end of the last bin.
    noise : float
        Standard deviation of the noise of a share.
    quantile : float
        Share of records that should be inside.
    """
    beyond = _beyond(shares, noise, quantile)
    # Where noise hides all lengths, nothing is clipped: the caller warns.
    stop = int(beyond[0]) if beyond.size else 0
    return float(bin_ends(top)[::-1][stop])


def lengths_hidden(shares: FloatArray, *, noise: float, quantile: float) -> bool:
    """Return whether noise hides all lengths, so that :func:`radius_from` has nothing to go by."""
    return _beyond(shares, noise, quantile).size == 0


def _beyond(shares: FloatArray, noise: float, quantile: float) -> IntArray:
    """Return the bins, from the longest, from which on more records are longer than there should be."""
    longer = np.cumsum(shares[::-1])
    allowed = 1 - quantile + 2 * noise * np.sqrt(np.arange(1, len(shares) + 1))
    return np.flatnonzero(longer > allowed)


def tails_of(shares: FloatArray, top: float, *, radius: float, noise: float, width: int) -> float:
    """Return the mean fourth power of the lengths of clipped rows over that of normal rows with the same mean square.

    Where lengths vary, as those of a mixture of quiet and wild records do, products of columns vary by as much more.

    Parameters
    ----------
    shares : (N_BINS,) array
        Released shares of the records by length.
    top : float
        Upper end of the last bin.
    radius : float
        Length to which rows are clipped.
    noise : float
        Standard deviation of the noise of a share; one is added to the figure.
    width : int
        Columns of a row.
    """
    ends = bin_ends(top)
    squares = np.minimum(ends * np.append(ends[0], ends[:-1]), radius**2)
    mean = float(shares @ squares)
    if mean <= 0:
        return 1.0
    fourth = float(shares @ squares**2) + noise * float(np.linalg.norm(squares**2))
    return fourth / mean**2 * width / (width + 2)
