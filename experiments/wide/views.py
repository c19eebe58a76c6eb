"""Wide CCA of simulated volumes and a few numbers: correlations and loadings, in a basis alone and with maps.

Run: python experiments/wide/views.py [--scratch FOLDER] [--only NAME ...] [--table]

The volumes are those of ``volumes.py``: 76,800 voxels, 20 maps, of whose energy 19% lie in folds of five voxels, which
no smooth basis contains. The second view has 20 columns of unit variance, rotated; its first five variates correlate
with the scores of the first five maps by 0.8 to 0.4. Both bounds are declared, a quarter above the usual lengths. The
correlation is that of the found variates in the population, as a share of the best possible; the share of the loadings
is that of the five true ones that the found ones span. Each setting is fitted several times, with new noise.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from volumes import DELTA, IN_VOXELS, N_MAPS, SHAPE, factor, peak_memory, write_volumes

from dpcape import CCA, Cape, Cosines, Federation, Independent, in_process, views
from dpcape.core.arrays import FloatArray
from dpcape.core.errors import DpcapeWarning

N_PAIRS, N_NUMBERS, N_DRAWS = 5, 20, 3
CORRELATIONS = np.array([0.8, 0.7, 0.6, 0.5, 0.4])
BOUNDS = (1.25, 1.25)
# Name, volumes, epsilon, maps.
SETTINGS = tuple(
    (f"epsilon {epsilon:g}, {n_volumes:,} volumes", n_volumes, epsilon, maps)
    for n_volumes, epsilon in ((5_000, 5.0), (20_000, 1.0), (20_000, 5.0))
    for maps in (False, True)
)
OUT = Path(__file__).with_name("views.json")


def mixing() -> FloatArray:
    """Return how the variates of the second view become its columns; a row has about length 1."""
    turned = np.linalg.qr(np.random.default_rng(5).normal(size=(N_NUMBERS, N_NUMBERS)))[0]
    scaled: FloatArray = turned / np.sqrt(N_NUMBERS)
    return scaled


def numbers_of(scores: FloatArray, seed: int) -> FloatArray:
    """Return the second view of records with these scores of maps."""
    own = np.random.default_rng(seed).normal(size=(len(scores), N_NUMBERS))
    shared = scores[:, :N_PAIRS]
    own[:, :N_PAIRS] = CORRELATIONS * shared + np.sqrt(1 - CORRELATIONS**2) * own[:, :N_PAIRS]
    made: FloatArray = own @ mixing().T
    return made


def scores_of(n_volumes: int, n_voxels: int, seed: int) -> FloatArray:
    """Return the scores that ``write_volumes`` drew for this seed."""
    rng, parts = np.random.default_rng(seed), []
    for start in range(0, n_volumes, 250):
        n_rows = min(250, n_volumes - start)
        parts.append(rng.standard_normal((n_rows, N_MAPS), dtype=np.float32))
        rng.standard_normal((n_rows, n_voxels), dtype=np.float32)
    return np.vstack(parts).astype(np.float64)


def kept_correlation(model: CCA, maps: FloatArray) -> float:
    """Return the mean correlation of the found variates in the population, as a share of the best."""
    x, y = maps @ model.x_weights_, mixing().T @ model.y_weights_
    spread = np.sqrt((x**2).sum(axis=0) + IN_VOXELS / maps.shape[1] * (model.x_weights_**2).sum(axis=0))
    cross = (CORRELATIONS[:, np.newaxis] * x[:N_PAIRS] * y[:N_PAIRS]).sum(axis=0)
    return float(np.mean(np.abs(cross) / (spread * np.linalg.norm(y, axis=0))) / CORRELATIONS.mean())


def kept_loadings(model: CCA, maps: FloatArray) -> float:
    """Return the share of the true loadings, each of length 1, that the found ones span."""
    true = maps[:N_PAIRS] / np.linalg.norm(maps[:N_PAIRS], axis=1, keepdims=True)
    span = np.linalg.qr(model.x_loadings_)[0]
    return float(((true @ span) ** 2).sum() / N_PAIRS)


def fitted(model: CCA, volumes: np.memmap, numbers: FloatArray, n_sites: int) -> dict[str, object]:
    """Fit and return what is stored: releases, seconds and memory."""
    parts = np.array_split(np.arange(len(volumes)), n_sites)
    protocol = Independent() if n_sites == 1 else Cape(n_colluding=1)
    with warnings.catch_warnings(), peak_memory() as peak:
        warnings.simplefilter("ignore", DpcapeWarning)
        held = {
            f"site{at}": views(volumes[part[0] : part[-1] + 1], numbers[part[0] : part[-1] + 1], bounds=BOUNDS)
            for at, part in enumerate(parts)
        }
        start = time.process_time()
        model.fit(Federation(in_process(held), protocol=protocol))
    return {
        "releases": [release.statistic for release in model.releases_],
        "kept": int(model.n_kept_[0]),
        "cpu_seconds": round(time.process_time() - start),
        "peak_gb": round(peak[0], 2),
    }


def simulated(scratch: Path, only: list[str]) -> dict[str, object]:
    """Return the figures of every setting, with 891 cosines, four sites and one that may collude."""
    wanted = [setting for setting in SETTINGS if not only or setting[0] in only]
    if not wanted:
        return {}
    maps, path, result = factor(), scratch / "views.f16", {}
    most = max(setting[1] for setting in wanted)
    volumes = write_volumes(path, maps, most, seed=6)
    numbers = numbers_of(scores_of(most, maps.shape[1], seed=6), seed=7)
    basis = Cosines(np.ones(SHAPE), (9, 11, 9))
    for name, n_volumes, epsilon, with_maps in wanted:
        correlations, loadings, determined, about = [], [], [], {}
        for _ in range(N_DRAWS):
            model = CCA(N_PAIRS, epsilon=epsilon, delta=DELTA, basis=(basis, None), maps=with_maps)
            about = fitted(model, volumes[:n_volumes], numbers[:n_volumes], 4)
            correlations.append(round(kept_correlation(model, maps), 4))
            loadings.append(round(kept_loadings(model, maps), 4))
            determined.append(int((model.p_values_ <= 0.05).sum()))
        label = f"{name}, {'maps' if with_maps else 'basis alone'}"
        result[label] = {"correlation": correlations, "loadings": loadings, "determined": determined, **about}
        print(label, result[label], flush=True)
    path.unlink()
    return result


def one_wide_site(scratch: Path) -> dict[str, object]:
    """Return the memory of one site with views of 201,600 and 20 columns, 1,000 cosines, 5 maps, private centring."""
    shape, path = (60, 56, 60), scratch / "wide.f16"
    maps = Cosines(np.ones(shape), (6, 6, 6)).expanded(np.random.default_rng(3).normal(size=(N_MAPS, 216))) / 60
    volumes = write_volumes(path, maps, 3000, seed=4)
    numbers = numbers_of(scores_of(3000, maps.shape[1], seed=4), seed=8)
    basis = Cosines(np.ones(shape), (10, 10, 10))
    # So generous an epsilon that maps are released of so few volumes.
    model = CCA(N_PAIRS, epsilon=100.0, delta=DELTA, basis=(basis, None), maps=True, center=True)
    about = fitted(model, volumes, numbers, 1)
    path.unlink()
    return about


def table(stored: dict[str, dict[str, object]]) -> str:
    """Return what is stored as a table: means of the draws, with the least and the largest."""
    lines = ["setting | correlation kept | loadings kept | pairs determined | releases"]
    for name, *_, with_maps in SETTINGS:
        label = f"{name}, {'maps' if with_maps else 'basis alone'}"
        if label not in stored:
            continue
        entry = stored[label]
        parts = [np.array(entry[key], dtype=np.float64) for key in ("correlation", "loadings", "determined")]
        shown = [f"{part.mean():.3f} ({part.min():.3f} to {part.max():.3f})" for part in parts[:2]]
        lines.append(f"{label} | {' | '.join(shown)} | {parts[2].mean():.1f} | {len(entry['releases'])}")  # type: ignore[arg-type]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scratch", type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--table", action="store_true", help="print what is stored, without fitting anything")
    arguments = parser.parse_args()
    stored = json.loads(OUT.read_text(encoding="utf-8")) if OUT.exists() else {}
    if not arguments.table:
        with tempfile.TemporaryDirectory(dir=arguments.scratch) as folder:
            if not arguments.only or "site" in arguments.only:
                stored["one site, 201,600 columns"] = one_wide_site(Path(folder))
                print(stored["one site, 201,600 columns"], flush=True)
            stored |= simulated(Path(folder), list(arguments.only))
        OUT.write_text(json.dumps(stored, indent=2) + "\n", encoding="utf-8")
    print(table(stored))


if __name__ == "__main__":
    main()
