"""How many people joint ICA needs at the subject unit: the table behind ``least_subjects``.

Run: python experiments/ica/least_subjects.py [--out FILE]

Sources of two kinds in as many columns as components, so that no PCA is needed; four sites, one may collude,
delta 1e-5.
"""

from __future__ import annotations

import argparse
import csv
import sys
import warnings
from pathlib import Path

import numpy as np

from dpcape import Cape, Federation, JointICA, Replay, in_process, subjects
from dpcape.core.errors import UtilityWarning
from dpcape.core.privacy.gaussian import mu_of
from dpcape.datasets import sources
from dpcape.metrics import gain_index

DELTA = 1e-5
# Kind of sources, components, people, time points, epsilon.
SETTINGS = (
    *(("laplace", 5, n, 250, 1.0) for n in (100, 200, 400, 800, 1600)),
    *(("laplace", 10, n, 250, 1.0) for n in (300, 450, 700, 1000, 1500)),
    *(("laplace", 10, 1000, n, 1.0) for n in (100, 1000)),
    *(("garch", k, n, 250, 1.0) for k, n in ((5, 100), (5, 800), (10, 300), (10, 1000))),
    *(("laplace", 20, 1024, 250, epsilon) for epsilon in (1.0, 1.5)),
)


def measured(kind: str, n: int, n_subjects: int, n_timepoints: int, epsilon: float, seed: int) -> float:
    """Return q_NGI of one fit."""
    rng = np.random.default_rng(seed)
    mixing = np.linalg.qr(rng.standard_normal((n, n)))[0]
    made = sources(rng, n_subjects=n_subjects, n_components=n, n_timepoints=n_timepoints, kind=kind)
    arrays = [series @ mixing.T for series in made]
    held = {
        f"site{i}": subjects(arrays[i::4], bound=3 * np.sqrt(n), unit="subject", rows_per_subject=n_timepoints)
        for i in range(4)
    }
    model = JointICA(n, epsilon=epsilon, delta=DELTA, basis=np.eye(n), n_timepoints=n_timepoints, insist=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UtilityWarning)
        model.fit(Federation(in_process(held, noise=Replay(seed)), protocol=Cape(n_colluding=1)))
    return gain_index(model.unmixing_, mixing)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    lines = [("kind", "components", "people", "time points", "epsilon", "people x mu / components", "q_NGI")]
    for setting in SETTINGS:
        q = np.mean([measured(*setting, seed) for seed in range(2)])
        strength = setting[2] * mu_of(setting[4], DELTA) / setting[1]
        lines.append((*map(str, setting), f"{strength:.1f}", f"{q:.3f}"))
        print(*lines[-1], flush=True)
    if arguments.out:
        with arguments.out.open("w", newline="") as file:
            csv.writer(file).writerows(lines)


if __name__ == "__main__":
    sys.exit(main())
