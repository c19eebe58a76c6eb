"""Which part of mu^2 the second moment should have: q_comp by share; the papers use half. Writes CSV.

Usage: python allocation.py [--seeds 3] [--out results]
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

from models import error, federation, mixture, topics

SHARES = (0.25, 0.4, 0.5, 0.6, 0.75)
SETTINGS = (("MOG", 10, 5), ("MOG", 50, 10), ("STM", 10, 5), ("STM", 50, 10))


def run(seeds):
    for name, n_features, n_components in SETTINGS:
        for seed in range(seeds):
            data, truth = (mixture if name == "MOG" else topics)(n_features, n_components, seed)
            for replay in range(3):
                fed = federation(data, "cape", 2000 + 10 * seed + replay)
                for epsilon in (0.3, 1.0):
                    for share in SHARES:
                        value, design = error(fed, truth, epsilon, second_moment_share=share)
                        yield name, n_features, n_components, epsilon, share, seed, replay, design, value


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with (options.out / "allocation.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(("model", "D", "K", "epsilon", "share", "seed", "replay", "design", "q_comp"))
        for row in run(options.seeds):
            writer.writerow((*row[:-1], f"{row[-1]:.5f}"))
            stream.flush()


if __name__ == "__main__":
    main()
