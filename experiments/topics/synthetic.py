"""q_comp of mixtures and topics under CAPE, conventional, local, pooled and no privacy; writes CSV and a picture.

Usage: python synthetic.py [--seeds 5] [--out results]
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import matplotlib
import numpy as np
from models import SCHEMES, error, federation, mixture, topics

from dpcape.metrics import component_error
from dpcape_papers.figures.tensor.simulated import guess

matplotlib.use("Agg")
import matplotlib.pyplot as plt

EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
SETTINGS = (("MOG", 10, 5), ("MOG", 50, 10), ("STM", 10, 5), ("STM", 50, 10))


def random_error(name, truth, seed):
    """q_comp of components that know nothing."""
    guessed = guess("mixture" if name == "MOG" else "topics", truth, np.random.default_rng(seed))
    return component_error(guessed, truth)


def run(seeds):
    for name, n_features, n_components in SETTINGS:
        for seed in range(seeds):
            make = mixture if name == "MOG" else topics
            data, truth = make(n_features, n_components, seed)
            setting = (name, n_features, n_components)
            yield (*setting, "random", "", seed, "", random_error(name, truth, seed + 99))
            for scheme in SCHEMES:
                fed = federation(data, scheme, 1000 + seed)
                for epsilon in EPSILONS if scheme != "exact" else (1.0,):
                    value, design = error(fed, truth, epsilon)
                    yield (*setting, scheme, "inf" if scheme == "exact" else epsilon, seed, design, value)


def picture(table, out):
    figure, panels = plt.subplots(1, 4, figsize=(13, 3.2), layout="constrained")
    for panel, (name, n_features, n_components) in zip(panels, SETTINGS, strict=True):
        chosen = [row for row in table if row[:3] == (name, n_features, n_components)]
        for scheme, style in zip(("cape", "pooled", "conventional", "local"), ("-o", ":s", "--^", "-.v"), strict=True):
            means = [
                np.mean([row[7] for row in chosen if row[3] == scheme and row[4] == epsilon]) for epsilon in EPSILONS
            ]
            panel.plot(EPSILONS, means, style, label=scheme)
        for scheme, colour in (("exact", "black"), ("random", "grey")):
            panel.axhline(np.mean([row[7] for row in chosen if row[3] == scheme]), color=colour, lw=0.8, label=scheme)
        panel.set(xscale="log", yscale="log", xlabel="epsilon", title=f"{name} D={n_features} K={n_components}")
    panels[0].set_ylabel("q_comp")
    panels[-1].legend(fontsize=7)
    figure.savefig(out / "synthetic.png", dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    table = []
    with (options.out / "synthetic.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(("model", "D", "K", "scheme", "epsilon", "seed", "design", "q_comp"))
        for row in run(options.seeds):
            writer.writerow((*row[:-1], f"{row[-1]:.5f}"))
            stream.flush()
            table.append(row)
    picture(table, options.out)


if __name__ == "__main__":
    main()
