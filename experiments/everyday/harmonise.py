"""How much of the differences between sites is left after harmonisation, on real connectivity and on simulations.

Run: python experiments/everyday/harmonise.py [--runs 8] [--data FOLDER]

``harmonise.json`` in this folder has the figures of docs/analyses/harmonise.md. The real data are those of ABIDE I
(abide_aal_fc.npz and abide_phenotypes.csv in FOLDER): mean connectivity between nine parts of the AAL atlas. Larger
consortia are bootstrap samples within sites. Without the files, that part is left out.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import warnings
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpcape import Federation, Harmonise, Independent, Replay, in_process, table
from dpcape.core.errors import DpcapeWarning

Vector = NDArray[np.float64]
DELTA = 1e-5
PATH = Path(__file__).with_suffix(".json")
# First regions of nine parts of the AAL atlas: runs of about 13 regions.
PARTS = np.arange(116) * 9 // 116


def connectivity(folder: Path) -> tuple[Vector, NDArray[np.int64]]:
    """Return mean Fisher-z correlations between parts of the atlas, and the site of each person."""
    edges = np.load(folder / "abide_aal_fc.npz")["F"].astype(np.float64)
    starts, ends = np.triu_indices(116, 1)
    low, high = np.minimum(PARTS[starts], PARTS[ends]), np.maximum(PARTS[starts], PARTS[ends])
    pairs = [(first, last) for first in range(9) for last in range(first, 9)]
    rows = np.stack([edges[:, (low == first) & (high == last)].mean(axis=1) for first, last in pairs], axis=1)
    with (folder / "abide_phenotypes.csv").open(newline="") as lines:
        names = np.array([row["SITE_ID"] for row in csv.DictReader(lines)])
    return rows, np.unique(names, return_inverse=True)[1]


def simulated(
    n_sites: int, per_site: int, n_columns: int, generator: np.random.Generator
) -> tuple[Vector, NDArray[np.int64]]:
    """Return columns with a factor in common, at sites that differ in mean (0.4 standard deviations) and scale."""
    site = np.repeat(np.arange(n_sites), per_site)
    common = generator.normal(size=(len(site), 1))
    rows = 0.6 * common + 0.8 * generator.normal(size=(len(site), n_columns))
    rows *= np.exp(generator.normal(0, 0.15, n_sites))[site][:, np.newaxis]
    return 0.1 * (rows + generator.normal(0, 0.4, (n_sites, n_columns))[site]), site


def explained_by_site(rows: Vector, site: NDArray[np.int64], n_scores: int = 5) -> float:
    """Return the share of the variance of the first principal scores that sites explain (eta squared), on average."""
    centred = rows - rows.mean(axis=0)
    scores = centred @ np.linalg.svd(centred, full_matrices=False)[2][:n_scores].T
    counts = np.bincount(site)
    means = np.stack([np.bincount(site, weights=column) / counts for column in scores.T], axis=1)
    return float(((counts @ means**2) / (scores**2).sum(axis=0)).mean())


def harmonised(
    rows: Vector, site: NDArray[np.int64], epsilon: float, seed: int, *, half_range: float = 0.8
) -> tuple[Vector, Harmonise]:
    """Return the harmonised rows, and the fitted model."""
    n_sites, names = int(site.max()) + 1, [f"x{at}" for at in range(rows.shape[1])]
    raw = {**dict(zip(names, rows.T, strict=True)), "site": site}
    columns = {**dict.fromkeys(names, (-half_range, half_range)), "site": {"levels": list(range(n_sites))}}
    federation = Federation(
        in_process({"all": table(raw, columns=columns)}, noise=Replay(seed)), protocol=Independent()
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DpcapeWarning)
        model = Harmonise("site", epsilon=epsilon, delta=DELTA).fit(federation)
    found = model.transform(raw)
    return np.stack([found[name] for name in names], axis=1), model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("DPCAPE_DATA", ".")))
    given = parser.parse_args()
    kept = json.loads(PATH.read_text()) if PATH.exists() else {}
    real = connectivity(given.data) if (given.data / "abide_aal_fc.npz").exists() else None
    for times in (1, 4, 20):
        for epsilon in (1.0, 3.0, 10.0):
            for name in ("abide", "simulated") if real is not None else ("simulated",):
                raw, after, verdicts = [], [], []
                for seed in range(given.runs):
                    generator = np.random.default_rng(seed)
                    if name == "abide" and real is not None:
                        places = [np.flatnonzero(real[1] == at) for at in range(int(real[1].max()) + 1)]
                        drawn = np.concatenate([generator.choice(part, times * len(part)) for part in places])
                        rows, site = real[0][drawn], real[1][drawn]
                    else:
                        rows, site = simulated(15, 55 * times, 45, generator)
                    found, model = harmonised(rows, site, epsilon, seed)
                    raw.append(explained_by_site(rows, site))
                    after.append(explained_by_site(found, site))
                    verdicts.append(model.verdicts_[0].word)
                words = {word: verdicts.count(word) for word in sorted(set(verdicts))}
                key = f"{name}, {times * 55} per site, epsilon {epsilon:g}"
                kept[key] = {
                    "before": round(float(np.mean(raw)), 4),
                    "after": round(float(np.mean(after)), 4),
                    "verdicts": words,
                }
                print(key, kept[key], flush=True)
                PATH.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
