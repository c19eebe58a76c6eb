"""Whole private studies over sites against scikit-learn on pooled rows without privacy: ratios of CPU time, one thread.

Everything counts: records are checked, clipped and summed, keys are agreed, noise is drawn, masked and opened. Both
sides have rows of the same type. The least that any such study needs is measured in the same rounds: one symmetric
product of all rows, one eigendecomposition in double precision, and the noise of all sites.
"""

from __future__ import annotations

import warnings

import numpy as np
from scipy.linalg.blas import dsyrk, ssyrk
from sklearn import decomposition
from timing import cpu_times, show

from dpcape import CCA, PCA, Cape, Federation, in_process, rows, views
from dpcape.core.noise import OsNoise

BUDGET = {"epsilon": 1.0, "delta": 1e-6}
SYRK = {"float64": dsyrk, "float32": ssyrk}
GOALS = {(784, "float64"): ("<= 1.15", "<= 1.3"), (784, "float32"): ("<= 1.0", "<= 1.1")}
GOALS |= {(100, "float64"): ("<= 1.35", "<= 1.6"), (100, "float32"): ("<= 1.2", "<= 1.5")}


def over(records):
    return Federation(in_process({f"site-{at}": held for at, held in enumerate(records)}), protocol=Cape(n_colluding=1))


def components(width, n_records, n_components, dtype):
    X = np.random.default_rng(0).standard_normal((n_records, width)).astype(dtype) / np.asarray(np.sqrt(width), dtype)
    for n_sites, goal in zip((4, 10), GOALS[width, dtype], strict=True):
        parts = np.array_split(X, n_sites)

        def ours(parts=parts):
            PCA(n_components, **BUDGET).fit(over([rows(part, bound=1.3) for part in parts]))

        def peer():
            decomposition.PCA(n_components, svd_solver="covariance_eigh").fit(X)

        def least(n_sites=n_sites):
            product = SYRK[dtype](1.0, X.T).astype(np.float64)
            np.linalg.eigh(product, UPLO="U")
            for _ in range(2 * n_sites):
                OsNoise().integer_gaussian(2.0**24, width * (width + 1) // 2)

        times = cpu_times({"ours": ours, "peer": peer, "least": least}, rounds=7)
        size = f"D={width} N={n_records} {dtype}, {n_sites} sites"
        show(f"PCA under CAPE / scikit-learn, {size}", times["ours"] / times["peer"], goal)
        show("  of which product, eigenvectors and noise", times["least"] / times["peer"], "-")


def correlations(width=100, n_records=60_000, dtype="float64"):
    rng = np.random.default_rng(1)
    X, Y = ((rng.standard_normal((n_records, width)) / np.sqrt(width)).astype(dtype) for _ in range(2))
    both = np.hstack([X, Y])

    def ours():
        parts = zip(np.array_split(X, 4), np.array_split(Y, 4), strict=True)
        CCA(10, **BUDGET).fit(over([views(x, y, bounds=(1.3, 1.3)) for x, y in parts]))

    times = cpu_times({"ours": ours, "raw": lambda: SYRK[dtype](1.0, both.T)}, rounds=7)
    size = f"2 x {width}, N={n_records} {dtype}, 4 sites"
    show(f"CCA under CAPE / raw SYRK, {size}", times["ours"] / times["raw"], "<= 1.8")
    if dtype == "float32":
        return
    try:
        from cca_zoo import linear
    except ImportError:
        print("cca-zoo is not installed: its ratio was not measured (pip install cca-zoo in an environment of its own)")
        return
    times = cpu_times({"zoo": lambda: linear.CCA(10).fit([X, Y]), "ours": ours}, rounds=3)
    show("cca-zoo CCA(10) / CCA under CAPE, 4 sites", times["zoo"] / times["ours"], ">= 3")


def main():
    warnings.simplefilter("ignore")
    for dtype in ("float64", "float32"):
        components(784, 60_000, 50, dtype)
        components(100, 200_000, 20, dtype)
        correlations(dtype=dtype)


if __name__ == "__main__":
    main()
