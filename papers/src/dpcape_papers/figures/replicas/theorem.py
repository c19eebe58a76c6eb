"""Figures 3.2 and 3.3 as the authors' script computes them.

Their delta is 2 Q((epsilon - q/2)/sqrt(q)), where q comes from the covariance of all honest messages and the sum, which
is not conditioned on what colluding sites know. It is neither the printed formula nor the true delta. No numbers of the
authors are stored, only their formula: agreement with it would be agreement by construction, and is not counted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.stats import norm

from dpcape_papers.experiments.data import DataFolder
from dpcape_papers.experiments.experiment import Cell, RunSetting
from dpcape_papers.experiments.replica import REPLICA, PointSetting, Replica, ReplicaPanel
from dpcape_papers.experiments.results import EXACT, Row, row
from dpcape_papers.published.cape import assumed_colluding, true_kappa

_CURVES = {"cape: delta=2Q": "CAPE", "conv: delta_conv": "conventional"}
_SETTINGS = {"a": (1000, 10, 1e-3), "b": (5000, 30, 0.1)}
_SCALES = {"a": 50.0, "b": 0.5}
_LOG_DELTA = "log10 delta"


def script_kappa(n_sites: int, n_colluding: int) -> float:
    """Return q in units of (sensitivity / tau)^2 from the script's covariance, which no secret conditions."""
    honest = n_sites - n_colluding
    matrix = np.zeros((honest + 1, honest + 1))
    matrix[:honest, :honest] = (1 + 1 / n_sites) * np.eye(honest) - 1 / n_sites
    matrix[:honest, honest] = matrix[honest, :honest] = 1 - honest / n_sites
    matrix[honest, honest] = honest
    return float(np.linalg.pinv(matrix)[0, 0])


def log_two_sided(epsilon: float, q: float) -> float:
    """Return log10 of 2 Q((epsilon - q/2)/sqrt(q))."""
    return float((math.log(2) + norm.logsf((epsilon - q / 2) / math.sqrt(q))) / math.log(10))


def _log_true(epsilon: float, mu: float) -> float:
    """Return log10 of the exact delta of a Gaussian with this mu, without underflow."""
    first, second = norm.logcdf(mu / 2 - epsilon / mu), epsilon + norm.logcdf(-mu / 2 - epsilon / mu)
    return float((first + math.log1p(-math.exp(min(second - first, -1e-15)))) / math.log(10))


def compute(data: DataFolder, *, figure: str, panel: str, points: Sequence[float]) -> list[Row]:
    """Return log10 of the delta of both schemes, as in the script, and the true one of CAPE's noise."""
    n_records, n_sites, epsilon = _SETTINGS[panel]
    found = []
    for point in points:
        scale = point if figure == "3.2" else _SCALES[panel]
        colluding = assumed_colluding(n_sites) if figure == "3.2" else _colluding(n_sites, point)
        lone = n_sites / n_records / scale
        values = {
            ("CAPE", REPLICA): log_two_sided(epsilon, script_kappa(n_sites, colluding) * lone**2),
            ("CAPE", EXACT): _log_true(epsilon, math.sqrt(true_kappa(n_sites, colluding)) * lone),
            ("conventional", REPLICA): (math.log(1.25) - (epsilon / lone) ** 2 / (2 * n_sites)) / math.log(10),
        }
        found += [
            row(panel=panel, curve=curve, calibration=kind, x=point, measure=_LOG_DELTA, value=value, original=figure)
            for (curve, kind), value in values.items()
        ]
    return found


def _colluding(n_sites: int, label: float) -> int:
    """Return the number of colluding sites behind a label of the script: rounded up, and one less at a third."""
    part = round(1 / label)
    return math.ceil(n_sites / part) - (part == 3)


def _cells_by_scale(setting: RunSetting) -> list[Cell]:
    points = np.geomspace(1e-2, 1e2, 50).tolist()
    return [Cell(compute, {"figure": "3.2", "panel": panel, "points": points}) for panel in _SETTINGS]


def _cells_by_collusion(setting: RunSetting) -> list[Cell]:
    points = [1 / part for part in (8, 7, 6, 5, 4, 3)]
    return [Cell(compute, {"figure": "3.3", "panel": panel, "points": points}) for panel in _SETTINGS]


def _same(point: PointSetting) -> str:
    return ""


def _panels(x: str, log_x: bool) -> dict[str, ReplicaPanel]:
    return {
        panel: ReplicaPanel(f"({panel}) N = {n}, S = {s}, ε = {e:g}", x, _LOG_DELTA, log_x=log_x)
        for panel, (n, s, e) in _SETTINGS.items()
    }


BY_SCALE = Replica("3.2", _CURVES, _panels("local noise τ", True), _cells_by_scale, _same, compared=False)
BY_COLLUSION = Replica(
    "3.3", _CURVES, _panels("share of colluding sites", False), _cells_by_collusion, _same, compared=False
)
