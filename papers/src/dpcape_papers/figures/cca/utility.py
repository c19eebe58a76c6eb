"""Measures of the CCA figures: separation of clusters, error of correlations, share of the non-private utility."""

from __future__ import annotations

import numpy as np

from dpcape_papers.experiments.fusion import CORRELATIONS
from dpcape_papers.experiments.results import NON_PRIVATE, PUBLISHED, VERIFIED, Results
from dpcape_papers.figures.cca.methods import ERROR, RATIO
from dpcape_papers.verdicts import Curve, Trend, Yardstick, ratios, trend

OPTIMUM = Curve("non-private", NON_PRIVATE)
KINDS = (PUBLISHED, VERIFIED)
SEPARATION, CORRELATION, MISTAKE = Yardstick("larger"), Yardstick("larger"), Yardstick("smaller")
# "Approaches" and "performs like" mean at least this share of the non-private utility.
REACHED = 0.95
# The value of err_corr if no correlation is found.
_NOTHING = float(np.linalg.norm(CORRELATIONS)) / len(CORRELATIONS)


def utility(rows: Results, curve: Curve) -> dict[str, dict[float, float]]:
    """Return a curve's share of the non-private utility, by panel and point.

    For clusters it is the ratio of their separation to the non-private one, which unlike CH does not grow with the
    number of records. For correlations it is 1 at the error of the non-private result, and 0 if none is found.
    """
    found = ratios(rows.where(measure=RATIO), curve, OPTIMUM)
    errors = rows.where(measure=ERROR)
    for panel in errors.values("panel"):
        inside = errors.where(panel=panel)
        ours, best = (curve.of(inside), OPTIMUM.of(inside))
        found[str(panel)] = {
            x: (_NOTHING - ours.mean(x=x)) / (_NOTHING - best.mean(x=x)) for x in sorted(set(ours.numbers("x")))
        }
    return {panel: points for panel, points in found.items() if points}


def along(rows: Results, curve: Curve) -> Trend:
    """Return the trend of a curve along x: of separation for clusters, of the error for correlations."""
    return trend(rows.where(measure=RATIO), curve, SEPARATION) + trend(rows.where(measure=ERROR), curve, MISTAKE)
