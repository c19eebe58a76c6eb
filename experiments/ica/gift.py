"""Joint ICA on the GIFT test volumes: six people, 50 scans each, 4,206 voxels. A look at real volumes, no more.

Run: python experiments/ica/gift.py --out DIR
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from run import DELTA, PROTOCOLS

from dpcape import Federation, JointICA, Replay, in_process, subjects
from dpcape.core.errors import UtilityWarning
from dpcape.estimators.ica.bases import cosine_basis
from dpcape.metrics import gain_index, matched_correlations
from dpcape.report.map_plots import matched_maps, plot_maps

GIFT = Path(__file__).resolve().parents[3] / "shared" / "data" / "gift_lowres_fmri_6sub.npz"
N_COMPONENTS, N_TIMEPOINTS, SLICE = 5, 50, 10
# Chosen after a look at the norms (31 to 192, median 55), and the mask comes from the six means: neither is public.
BOUND = 60.0


def fit(stored: Any, unit: str, protocol: str, epsilon: float) -> tuple[JointICA, int]:
    """Three sites of two people; private PCA inside 180 cosines."""
    series = list(stored["percent_change"].astype(np.float32))
    held = {
        f"site{index}": subjects(
            series[index::3],
            bound=BOUND,
            unit=unit,
            rows_per_subject=max(map(len, series)),
            n_features=series[0].shape[1],
        )
        for index in range(3)
    }
    federation = Federation(in_process(held, noise=Replay(0)), protocol=PROTOCOLS[protocol])
    basis = cosine_basis(stored["mask"].shape, (6, 6, 5), stored["mask"])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UtilityWarning)
        model = JointICA(N_COMPONENTS, epsilon=epsilon, delta=DELTA, basis=basis, n_timepoints=N_TIMEPOINTS)
        model.fit(federation)
    return model, len(caught)


def slices(maps: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Return one axial slice of each map, (pixels, components), zero outside the mask."""
    volumes = np.zeros((*mask.shape, maps.shape[1]))
    volumes[mask] = maps
    return volumes[:, :, SLICE].reshape(-1, maps.shape[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    stored = np.load(GIFT)
    stored = {name: stored[name] for name in ("percent_change", "mask")}
    exact = fit(stored, "record", "exact", 1.0)[0]
    drawn, rows = {"no privacy": slices(exact.mixing_, stored["mask"])}, []
    for unit, epsilon in (("record", 10.0), ("record", 50.0), ("subject", 50.0)):
        model, n_warnings = fit(stored, unit, "cape", epsilon)
        correlations = matched_correlations(model.mixing_, exact.mixing_)
        index, mean = gain_index(model.unmixing_, exact.mixing_), float(correlations.mean())
        found = {"q": round(index, 4), "maps": round(mean, 4)}
        rows.append({"unit": unit, "epsilon": epsilon, **found, "warnings": n_warnings})
        print(rows[-1], correlations.round(2), flush=True)
        matched = matched_maps(model.mixing_, exact.mixing_)
        drawn[f"{unit}, epsilon {epsilon:g}"] = slices(matched, stored["mask"])
    axes = plot_maps(drawn, stored["mask"].shape[:2], n_shown=N_COMPONENTS)
    axes.figure.savefig(arguments.out / "gift.png", dpi=80, bbox_inches="tight")
    (arguments.out / "gift.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
