"""Second moment, PCA and CCA against raw BLAS and peers; ratios of process CPU time, one thread, one run."""

from __future__ import annotations

import tracemalloc

import numpy as np
from scipy.linalg.blas import dsyrk
from timing import cpu_times, show

from dpcape import CCA, PCA, Exact, Federation, in_process, rows, views
from dpcape.statistics.moments import second_moment


def one_site(records):
    return Federation(in_process({"here": records}), protocol=Exact())


def correlated(n_records, width, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n_records, width)) * np.linspace(1.5, 0.2, width)


def raw_syrk(X):
    return dsyrk(1.0, X.T)


def moment(n_records, width):
    X = correlated(n_records, width)
    held = rows(X, bound=float(np.sqrt(width)) * 0.95)
    statistic = second_moment(held.facts())
    times = cpu_times({"raw": lambda: raw_syrk(X), "fused": lambda: statistic.total(held)})
    show(f"second moment with clipping / raw SYRK, D={width}, N={n_records}", times["fused"] / times["raw"], "<= 1.3")
    tracemalloc.start()
    statistic.total(held)
    extra = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    show(f"  extra memory in MiB (the packed result included), N={n_records}", extra, "<= 64")


def pca(n_records=60000, width=784):
    from sklearn import decomposition

    X = correlated(n_records, width)
    bound = float(np.linalg.norm(X, axis=1).max()) * 1.01
    tasks = {
        "ours": lambda: PCA(50, epsilon=1.0, delta=1e-5, center=False).fit(one_site(rows(X, bound=bound))),
        "eigh": lambda: decomposition.PCA(50, svd_solver="covariance_eigh").fit(X),
    }
    times = cpu_times(tasks, rounds=3)
    show("PCA end to end, no noise / scikit-learn covariance_eigh", times["ours"] / times["eigh"], "<= 1.15")
    slow = cpu_times({"incremental": lambda: decomposition.IncrementalPCA(50).fit(X)}, rounds=1)
    show("scikit-learn IncrementalPCA / ours", slow["incremental"] / times["ours"], ">= 10")


def cca(n_records=60000, width=100):
    from sklearn import cross_decomposition

    rng = np.random.default_rng(1)
    latent = rng.normal(size=(n_records, 10))
    X = latent @ rng.normal(size=(10, width)) + 2 * rng.normal(size=(n_records, width))
    Y = latent @ rng.normal(size=(10, width)) + 2 * rng.normal(size=(n_records, width))
    Z = np.hstack([X, Y])
    bounds = (float(np.linalg.norm(X, axis=1).max()), float(np.linalg.norm(Y, axis=1).max()))
    tasks = {
        "ours": lambda: CCA(10, epsilon=1.0, delta=1e-5, center=False).fit(one_site(views(X, Y, bounds=bounds))),
        "raw": lambda: raw_syrk(Z),
    }
    times = cpu_times(tasks)
    show(f"CCA end to end, no noise / raw SYRK, dx=dy={width}", times["ours"] / times["raw"], "<= 1.6")
    held = views(X, Y, bounds=bounds)
    statistic = second_moment(held.facts())
    fused = cpu_times({"ours": lambda: statistic.total(held), "raw": lambda: raw_syrk(Z)})
    show("  of which the clipped moment / raw SYRK", fused["ours"] / fused["raw"], "")
    slow = cpu_times({"sklearn": lambda: cross_decomposition.CCA(2, max_iter=500).fit(X, Y)}, rounds=1)
    show("scikit-learn CCA(2) / ours", slow["sklearn"] / times["ours"], ">= 50")
    try:
        from cca_zoo import linear
    except ImportError:
        print("cca-zoo is not installed: its ratio was not measured (pip install cca-zoo in an environment of its own)")
        return
    zoo = cpu_times({"zoo": lambda: linear.CCA(10).fit([X, Y]), "ours": tasks["ours"]}, rounds=3)
    show("cca-zoo CCA(10) / ours", zoo["zoo"] / zoo["ours"], ">= 4")


def main():
    moment(60000, 784)
    moment(64000, 900)
    moment(8000, 784)
    pca()
    cca(width=100)
    cca(width=50)


if __name__ == "__main__":
    main()
