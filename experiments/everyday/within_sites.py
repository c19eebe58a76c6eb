"""What sites explain of the scores of components within sites, and of correlations that sites alone bring about.

Run: python experiments/everyday/within_sites.py [--runs 6] [--part components|correlations] [--data FOLDER]

``within_sites.json`` in this folder has the figures of docs/analyses/pca.md and docs/analyses/cca.md. The real data are
those of ``harmonise.py``: connectivity of ABIDE I, each of its sites a site of the federation.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from pathlib import Path

import numpy as np
from harmonise import DELTA, connectivity, explained_by_site, simulated
from numpy.typing import NDArray

from dpcape import CCA, PCA, Cape, Federation, Replay, in_process, rows, views
from dpcape.core.errors import DpcapeWarning

Vector = NDArray[np.float64]
PATH = Path(__file__).with_suffix(".json")
HALF_RANGE = 0.8


def split(values: Vector, site: NDArray[np.int64]) -> dict[str, Vector]:
    """Return the records of each site, under names that sort as their numbers do."""
    return {f"site-{at:03d}": values[site == at] for at in range(int(site.max()) + 1)}


def explained_in_scores(scores: Vector, site: NDArray[np.int64]) -> float:
    """Return the share of the variance of each score that sites explain (eta squared), on average."""
    centred, counts = scores - scores.mean(axis=0), np.bincount(site)
    means = np.stack([np.bincount(site, weights=column) / counts for column in centred.T], axis=1)
    return float(((counts @ means**2) / (centred**2).sum(axis=0)).mean())


def adjusted_scores(values: Vector, site: NDArray[np.int64], epsilon: float, seed: int) -> tuple[Vector, PCA]:
    """Return the first five scores of all records, each minus the mean of its site, and the fitted model."""
    ranges = [(-HALF_RANGE, HALF_RANGE)] * values.shape[1]
    held = {name: rows(part, ranges=ranges) for name, part in split(values, site).items()}
    federation = Federation(in_process(held, noise=Replay(seed)), protocol=Cape(n_colluding=0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DpcapeWarning)
        model = PCA(5, epsilon=epsilon, delta=DELTA, adjust="site").fit(federation)
    scores = np.empty((len(values), 5))
    for at, name in enumerate(model.sites_):
        scores[site == at] = model.transform(values[site == at] / HALF_RANGE, site=str(name))
    return scores, model


def unrelated_views(n_sites: int, per_site: int, width: int, seed: int) -> dict[str, tuple[Vector, Vector]]:
    """Return two views that are unrelated within sites, and shifted alike by them."""
    generator = np.random.default_rng(seed)
    found = {}
    for at in range(n_sites):
        shift = 0.5 * generator.normal()
        pair = [generator.normal(size=(per_site, width)) + shift for _ in range(2)]
        found[f"site-{at:03d}"] = (pair[0], pair[1])
    return found


def rejects(held: dict[str, tuple[Vector, Vector]], epsilon: float, seed: int, adjust: str | None) -> bool:
    """Tell whether the first correlation of these views is called determined."""
    width = next(iter(held.values()))[0].shape[1]
    sites = {name: views(*pair, bounds=(1.8 * width**0.5,) * 2) for name, pair in held.items()}
    federation = Federation(in_process(sites, noise=Replay(seed)), protocol=Cape(n_colluding=0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DpcapeWarning)
        model = CCA(1, epsilon=epsilon, delta=DELTA, center=True, adjust=adjust).fit(federation)
    return bool(model.p_values_[0] <= 0.05)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=6)
    parser.add_argument("--part", choices=("components", "correlations"))
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("DPCAPE_DATA", ".")))
    given = parser.parse_args()
    if given.part != "correlations":
        components(given.runs, connectivity(given.data) if (given.data / "abide_aal_fc.npz").exists() else None)
    if given.part != "components":
        correlations(given.runs)


def keep(key: str, found: dict[str, float]) -> None:
    """Print figures, and write them beside those that are there."""
    kept = json.loads(PATH.read_text()) if PATH.exists() else {}
    kept[key] = found
    print(key, found, flush=True)
    PATH.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")


def components(n_runs: int, real: tuple[Vector, NDArray[np.int64]] | None) -> None:
    """Compare what sites explain of scores before and after."""
    for times in (1, 4, 20):
        for epsilon in (1.0, 3.0, 10.0):
            for name in ("abide", "simulated") if real is not None else ("simulated",):
                before, after = [], []
                for seed in range(n_runs):
                    generator = np.random.default_rng(seed)
                    if name == "abide" and real is not None:
                        places = [np.flatnonzero(real[1] == at) for at in range(int(real[1].max()) + 1)]
                        drawn = np.concatenate([generator.choice(part, times * len(part)) for part in places])
                        values, site = real[0][drawn], real[1][drawn]
                    else:
                        values, site = simulated(15, 55 * times, 45, generator)
                    scores, _ = adjusted_scores(values, site, epsilon, seed)
                    before.append(explained_by_site(values, site))
                    after.append(explained_in_scores(scores, site))
                figures = {"before": round(float(np.mean(before)), 4), "after": round(float(np.mean(after)), 4)}
                keep(f"{name}, {times * 55} per site, epsilon {epsilon:g}", figures)


def correlations(n_runs: int) -> None:
    """Count studies in which views that are unrelated within sites are called correlated."""
    for n_sites, per_site in ((6, 300), (15, 200), (5, 1000)):
        for adjust in (None, "site"):
            times = 20 * n_runs if adjust else n_runs
            found = [rejects(unrelated_views(n_sites, per_site, 4, seed), 3.0, seed, adjust) for seed in range(times)]
            key = f"unrelated views, {n_sites} sites of {per_site}, epsilon 3, adjust {adjust}"
            keep(key, {"rejected": sum(found), "studies": times})


if __name__ == "__main__":
    main()
