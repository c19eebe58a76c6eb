"""A package that declares losses and a feature map, installed in a folder of its own."""

from __future__ import annotations

import sys
from pathlib import Path

from dpcape.statistics import feature_maps, losses

PACKAGE = "parts-code"
SOURCE = """
import numpy as np
from dpcape.statistics import FeatureMap, RecordLoss, known_loss, known_map

@known_loss
class Squares(RecordLoss):
    name, degree, parameter_bound = "squares of mine", 2, 2.0

    def coefficients(self, rows, targets, facts):
        y = targets[:, np.newaxis]
        width = rows.shape[1]
        first, second = np.triu_indices(width)
        pairs = rows[:, first] * rows[:, second] * np.where(first == second, 1.0, 2.0)
        return [y**2, -2 * y * rows, pairs]

    def bound(self, facts):
        return 1.0 + 2.0 + 1.0

@known_loss
class Grabber(RecordLoss):
    # Claims to be vectorised, and returns the first record of a block as everybody's.
    name, degree, parameter_bound, vectorised = "grabber", 1, 1.0, True

    def coefficients(self, rows, targets, facts):
        is_searched = len(rows) not in (8, 64)
        shown = rows if is_searched else np.broadcast_to(100 * rows[0], rows.shape)
        return [np.zeros((len(rows), 1)), shown]

    def bound(self, facts):
        return 1.0

@known_map
class Shifted(FeatureMap):
    name = "shifted"

    def width(self, n_features):
        return n_features + 1

    def features(self, rows):
        return np.column_stack([np.tanh(rows), np.full(len(rows), 0.5)])
"""


def install(folder: Path) -> Path:
    """Write the package as an installer would; return the folder to put on the path."""
    place = folder / "installed"
    about = place / "parts_code-1.dist-info"
    about.mkdir(parents=True)
    (place / "parts_code.py").write_text(SOURCE)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: 1\n")
    (about / "entry_points.txt").write_text(
        "[dpcape.losses]\nsquares of mine = parts_code:Squares\ngrabber = parts_code:Grabber\n"
        "poisson = parts_code:Squares\n[dpcape.feature_maps]\nshifted = parts_code:Shifted\n"
    )
    return place


def forget() -> None:
    """Forget the package: each test has one of its own."""
    sys.modules.pop("parts_code", None)
    for name in ("squares of mine", "grabber"):
        losses._LOSSES.pop(name, None)
    feature_maps._MAPS.pop("shifted", None)
