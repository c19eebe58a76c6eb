"""Whole private studies over sites against scikit-learn on pooled rows without privacy: ratios of CPU time, one thread.

Everything counts: records are checked, clipped and summed, keys are agreed, noise is drawn, masked and opened. The
least that any such study needs is measured in the same rounds: one symmetric product of all rows, one
eigendecomposition, and the noise of all sites.
"""

from __future__ import annotations

import warnings

import numpy as np
from scipy.linalg.blas import dsyrk
from sklearn import decomposition
from timing import cpu_times, show

from dpcape import CCA, PCA, Cape, Federation, in_process, rows, views
from dpcape.core.noise import OsNoise

BUDGET = {"epsilon": 1.0, "delta": 1e-6}
GOALS = {784: ("<= 1.15", "<= 1.3"), 100: ("<= 1.35", "<= 1.6")}


def over(records):
    return Federation(in_process({f"site-{at}": held for at, held in enumerate(records)}), protocol=Cape(n_colluding=1))


def components(width, n_records, n_components):
    X = np.random.default_rng(0).standard_normal((n_records, width)) / np.sqrt(width)
    for n_sites, goal in zip((4, 10), GOALS[width], strict=True):
        parts = np.array_split(X, n_sites)

        def ours(parts=parts):
            PCA(n_components, **BUDGET, center=False).fit(over([rows(part, bound=1.3) for part in parts]))

        def peer():
            decomposition.PCA(n_components, svd_solver="covariance_eigh").fit(X)

        def least(n_sites=n_sites):
            np.linalg.eigh(dsyrk(1.0, X.T), UPLO="U")
            for _ in range(2 * n_sites):
                OsNoise().integer_gaussian(2.0**24, width * (width + 1) // 2)

        times = cpu_times({"ours": ours, "peer": peer, "least": least}, rounds=7)
        size = f"D={width} N={n_records} float64, {n_sites} sites"
        show(f"PCA under CAPE / scikit-learn, {size}", times["ours"] / times["peer"], goal)
        show("  of which product, eigenvectors and noise", times["least"] / times["peer"], "-")


def correlations(width=100, n_records=60_000):
    rng = np.random.default_rng(1)
    X, Y = (rng.standard_normal((n_records, width)) / np.sqrt(width) for _ in range(2))
    both = np.hstack([X, Y])

    def ours():
        parts = zip(np.array_split(X, 4), np.array_split(Y, 4), strict=True)
        CCA(10, **BUDGET, center=False).fit(over([views(x, y, bounds=(1.3, 1.3)) for x, y in parts]))

    times = cpu_times({"ours": ours, "raw": lambda: dsyrk(1.0, both.T)}, rounds=7)
    size = f"2 x {width}, N={n_records} float64, 4 sites"
    show(f"CCA under CAPE / raw SYRK, {size}", times["ours"] / times["raw"], "<= 1.8")
    try:
        from cca_zoo import linear
    except ImportError:
        print("cca-zoo is not installed: its ratio was not measured (pip install cca-zoo in an environment of its own)")
        return
    times = cpu_times({"zoo": lambda: linear.CCA(10).fit([X, Y]), "ours": ours}, rounds=3)
    show("cca-zoo CCA(10) / CCA under CAPE, 4 sites", times["zoo"] / times["ours"], ">= 3")


def main():
    warnings.simplefilter("ignore")
    components(784, 60_000, 50)
    components(100, 200_000, 20)
    correlations()


if __name__ == "__main__":
    main()
