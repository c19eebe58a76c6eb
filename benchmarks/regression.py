"""Statistics of the regressions against raw BLAS, plain gradients and a loop; ratios of CPU time, one thread."""

from __future__ import annotations

import numpy as np
from scipy.linalg.blas import dsyrk
from scipy.special import expit
from timing import cpu_times, show

from dpcape import labelled
from dpcape.statistics.gradients import network_gradient
from dpcape.statistics.regression_moment import regression_moment


def coefficients(n_records, width):
    """The matrix of a regression, clipping and response included, against a SYRK of the features alone."""
    X = np.random.default_rng(0).standard_normal((n_records, width)) / np.sqrt(width)
    held = labelled(X, np.clip(X[:, 0], -1, 1), bound=1.0, response=(-1, 1))
    statistic = regression_moment(held.facts(), intercept=True)
    tasks = {"ours": lambda: statistic.total(held), "raw": lambda: dsyrk(1.0, X.T, lower=0)}
    times = cpu_times(tasks, rounds=9)
    # Narrow rows leave less arithmetic to hide the clipping behind.
    goal = "<= 1.3" if width >= 500 else "<= 1.6"
    show(f"coefficients of the loss / raw SYRK, D={width}, N={n_records}", times["ours"] / times["raw"], goal)


def gradient(n_records=10_000, width=50, n_hidden=20):
    """The clipped gradient against the plain one of the same rows, and against a loop over records."""
    generator = np.random.default_rng(0)
    X, labels = generator.standard_normal((n_records, width)), generator.integers(0, 2, n_records)
    held = labelled(X, labels, bound=8.0, classes=[0, 1])
    hidden, output = generator.standard_normal((n_hidden, width + 1)), generator.standard_normal((1, n_hidden + 1))
    statistic = network_gradient(held.facts(), hidden=hidden, output=output, clip=1.0, input_scale=0.4)
    few = X[:500], labels[:500]
    tasks = {
        "clipped": lambda: statistic.total(held),
        "plain": lambda: [plain(*block, hidden, output) for block in held.blocks(1024)],
        "loop": lambda: loop(*few, hidden, output),
    }
    times = cpu_times(tasks, rounds=9)
    size = f"N={n_records} D={width} H={n_hidden}"
    show(f"clipped network gradient / plain one, {size}", times["clipped"] / times["plain"], "<= 1.3")
    whole = times["loop"] * n_records / len(labels[:500])
    show("loop over records / clipped network gradient", whole / times["clipped"], ">= 40")


def plain(rows, codes, hidden, output):
    """Return the summed gradient without clipping."""
    active = np.maximum(rows @ hidden[:, :-1].T + hidden[:, -1], 0.0)
    late = expit(active @ output[:, :-1].T + output[:, -1])
    late[:, 0] -= codes
    early = (late @ output[:, :-1]) * (active > 0)
    first = np.column_stack([early.T @ rows, early.sum(axis=0)])
    return first, np.column_stack([late.T @ active, late.sum(axis=0)])


def loop(X, labels, hidden, output):
    """Return the summed clipped gradient, one record at a time."""
    total = np.zeros(hidden.size + output.size)
    for row, label in zip(X, labels, strict=True):
        parts = plain(row[np.newaxis], np.array([label]), hidden, output)
        single = np.concatenate([part.ravel() for part in parts])
        total += single * min(1.0, 1.0 / float(np.linalg.norm(single)))
    return total


def main():
    coefficients(20_000, 784)
    coefficients(50_000, 200)
    gradient()


if __name__ == "__main__":
    main()
