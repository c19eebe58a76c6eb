"""The point at which a curve falls to a target."""

from __future__ import annotations

import math

import numpy as np

from dpcape_papers.experiments.results import Results, number
from dpcape_papers.verdicts import Curve


def reached_at(results: Results, curve: Curve, target: float | None = None) -> float:
    """Return the x from which a curve stays at or below ``target``; infinite if it does not.

    Runs are averaged on the log scale, and points are interpolated linearly on logarithmic axes. The default target is
    twice the non-private curve.
    """
    logs = Results({**r, "value": math.log(number(r, "value"))} for r in results)
    (found,) = logs.series(curve=curve.name, calibration=curve.calibration)
    if target is None:
        (plain,) = logs.series(curve="non-private")
        excess = found.mean - plain.mean - math.log(2)
    else:
        excess = found.mean - math.log(target)
    if excess[-1] > 0:
        return math.inf
    above = np.flatnonzero(excess > 0)
    if not len(above):
        return float(found.x[0])
    left = int(above[-1])
    share = excess[left] / (excess[left] - excess[left + 1])
    return float(np.exp((1 - share) * np.log(found.x[left]) + share * np.log(found.x[left + 1])))
