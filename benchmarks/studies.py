"""Whole private studies against the same rounds without privacy: ratios of CPU time, interleaved, one thread.

Both fits are dpcape's own, with the same releases in the same order; without privacy there is neither noise nor its
agreement, and no grid. Records are read, clipped and summed in both.
"""

from __future__ import annotations

import warnings

import numpy as np
from timing import cpu_times, show

from dpcape import (
    Cape,
    Exact,
    Federation,
    KMeans,
    LinearRegression,
    LogisticRegression,
    MixtureModel,
    NetworkClassifier,
    in_process,
    labelled,
    rows,
)

SITES = ("lyon", "oslo", "lima", "rome")
BUDGET = {"epsilon": 1.0, "delta": 1e-5}
GOAL = "<= 1.5"


def ratio(name, make, records, *, rounds=3):
    """Print the CPU time of a fit under CAPE over that of the same fit without noise."""

    def fit(protocol):
        def run():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                make().fit(Federation(in_process(records), protocol=protocol))

        return run

    times = cpu_times({"private": fit(Cape(n_colluding=1)), "exact": fit(Exact())}, rounds=rounds)
    show(f"private / without privacy, {name}", times["private"] / times["exact"], GOAL)


def parts(X, *others):
    """Return what each of the four sites holds."""
    return {site: tuple(array[k::4] for array in (X, *others)) for k, site in enumerate(SITES)}


def main():
    generator = np.random.default_rng(0)
    n_records, width = 40_000, 100
    X = generator.standard_normal((n_records, width)) / np.sqrt(width)
    response, codes = np.clip(X[:, 0], -1, 1), (X[:, 0] + X[:, 1] > 0).astype(int)
    held = parts(X, response, codes)
    size = f"N={n_records} D={width}"
    classes = {site: labelled(x, c, bound=1.2, classes=[0, 1]) for site, (x, _, c) in held.items()}
    responses = {site: labelled(x, y, bound=1.2, response=(-1, 1)) for site, (x, y, _) in held.items()}
    plain = {site: rows(x, bound=1.2) for site, (x, *_) in held.items()}
    clusters = {site: rows(x[:, :20], bound=1.2) for site, (x, *_) in held.items()}
    ratio(f"network, {size}", lambda: NetworkClassifier(**BUDGET), classes)
    ratio(f"linear prediction, {size}", lambda: LinearRegression(**BUDGET, purpose="prediction"), responses)
    ratio(f"logistic prediction, {size}", lambda: LogisticRegression(**BUDGET, purpose="prediction"), classes)
    ratio(f"k-means, {size}", lambda: KMeans(5, **BUDGET), plain)
    ratio(f"mixture, N={n_records} D=20", lambda: MixtureModel(5, **BUDGET, noise_variance=0.01), clusters)


if __name__ == "__main__":
    main()
