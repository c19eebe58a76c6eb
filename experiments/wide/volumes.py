"""Wide PCA of simulated volumes: energy with the basis alone and with maps, and the memory of a site.

Run: python experiments/wide/volumes.py [--scratch FOLDER] [--only NAME ...] [--table]

Volumes of 40 x 48 x 40 voxels are made of 20 maps and independent noise on each voxel (30% of the energy). Of a map's
energy 68% lie in 252 low-frequency cosines, 13% in 891, and 19% in folds of five voxels, which no smooth basis
contains. The bound is declared: a quarter above the usual length of a volume. Rows are kept as half-precision numbers
in a memory-mapped file, 7.7 GB for 50,000 volumes, which is removed afterwards. Energy is that of the population's
covariance, as a share of the best 20 directions'; each setting is fitted several times, with new noise.

The table prints them beside the figures of the study in which the method was designed: one draw of noise, similar
volumes, and bounds taken from the data, so that they are optimistic.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from dpcape import PCA, Cape, Cosines, Federation, Independent, in_process, rows
from dpcape.core.arrays import FloatArray
from dpcape.core.errors import DpcapeWarning

SHAPE, N_MAPS, DELTA, BOUND = (40, 48, 40), 20, 1e-6, 1.25
IN_VOXELS = 0.3
# Name, volumes, epsilon, maps.
SETTINGS = (
    *(("epsilon 5, 3,000 volumes", 3_000, 5.0, maps) for maps in (False, True)),
    *(("epsilon 5, 10,000 volumes", 10_000, 5.0, maps) for maps in (False, True)),
    *(("epsilon 5, 15,000 volumes", 15_000, 5.0, maps) for maps in (False, True)),
    *(("epsilon 1, 50,000 volumes", 50_000, 1.0, maps) for maps in (False, True)),
    *(("epsilon 5, 50,000 volumes", 50_000, 5.0, maps) for maps in (False, True)),
)
N_DRAWS = 4
# Energy of the design study: 891 cosines alone, and with maps.
DESIGNED = {
    "epsilon 5, 3,000 volumes": (0.646, 0.565),
    "epsilon 5, 10,000 volumes": (0.781, 0.830),
    "epsilon 1, 50,000 volumes": (0.787, 0.852),
    "epsilon 5, 50,000 volumes": (0.803, 0.967),
}
OUT = Path(__file__).with_name("volumes.json")


def factor() -> FloatArray:
    """Return the maps, (20, voxels), each as long as the standard deviation of its score."""
    rng = np.random.default_rng(1)
    few, many = Cosines(np.ones(SHAPE), (6, 7, 6)), Cosines(np.ones(SHAPE), (9, 11, 9))
    smooth = few.expanded(rng.normal(size=(N_MAPS, 252)) / (1 + np.arange(252)) ** 0.2)
    finer = many.expanded(rng.normal(size=(N_MAPS, 891)))
    grid = np.stack(np.meshgrid(*(np.arange(side) for side in SHAPE), indexing="ij")).reshape(3, -1)
    bend = few.expanded(rng.normal(size=(1, 252)))[0]
    ways = rng.normal(size=(N_MAPS, 3))
    ways /= np.linalg.norm(ways, axis=1, keepdims=True)
    folds = smooth * np.sin(2 * np.pi * (ways @ grid) / 5 + 3 * bend / bend.std())
    finer -= few.expanded(few.coordinates(finer))
    folds -= many.expanded(many.coordinates(folds))
    parts = [part / np.linalg.norm(part, axis=1, keepdims=True) for part in (smooth, finer, folds)]
    maps = sum(np.sqrt(share) * part for share, part in zip((0.68, 0.13, 0.19), parts, strict=True))
    values = (1 + np.arange(N_MAPS)) ** -0.5
    scaled: FloatArray = maps * np.sqrt(values / values.sum() * (1 - IN_VOXELS))[:, np.newaxis]
    return scaled


def write_volumes(path: Path, maps: FloatArray, n_volumes: int, seed: int) -> np.memmap:
    """Write simulated volumes to a file and return them, mapped into memory."""
    rng = np.random.default_rng(seed)
    n_voxels = maps.shape[1]
    made = np.memmap(path, dtype=np.float16, mode="w+", shape=(n_volumes, n_voxels))
    spread, single = np.float32(np.sqrt(IN_VOXELS / n_voxels)), maps.astype(np.float32)
    for start in range(0, n_volumes, 250):
        stop = min(start + 250, n_volumes)
        scores = rng.standard_normal((stop - start, len(maps)), dtype=np.float32)
        made[start:stop] = scores @ single + spread * rng.standard_normal((stop - start, n_voxels), dtype=np.float32)
    made.flush()
    return np.memmap(path, dtype=np.float16, mode="r", shape=(n_volumes, n_voxels))


def captured(components: FloatArray, maps: FloatArray) -> float:
    """Return the energy of the population that components capture, as a share of the best."""
    background = N_MAPS * IN_VOXELS / maps.shape[1]
    best = float(np.linalg.eigvalsh(maps @ maps.T).sum()) + background
    return (float(((components @ maps.T) ** 2).sum()) + background) / best


@contextmanager
def peak_memory() -> Iterator[list[float]]:
    """Measure the largest memory of this process in GB, without pages of mapped files."""
    found, done = [0.0], threading.Event()

    def watch() -> None:
        while not done.wait(0.02):
            status = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
            now = next(int(line.split()[1]) for line in status if line.startswith("RssAnon")) / 2**20
            found[0] = max(found[0], now)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield found
    finally:
        done.set()
        watcher.join()


def fitted(model: PCA, volumes: np.memmap, n_sites: int) -> dict[str, object]:
    """Fit and return what is stored: releases, seconds and memory."""
    parts = np.array_split(np.arange(len(volumes)), n_sites)
    protocol = Independent() if n_sites == 1 else Cape(n_colluding=1)
    with warnings.catch_warnings(), peak_memory() as peak:
        warnings.simplefilter("ignore", DpcapeWarning)
        held = {f"site{at}": rows(volumes[part[0] : part[-1] + 1], bound=BOUND) for at, part in enumerate(parts)}
        start = time.process_time()
        model.fit(Federation(in_process(held), protocol=protocol))
    return {
        "releases": [release.statistic for release in model.releases_],
        "kept": model.n_kept_,
        "cpu_seconds": round(time.process_time() - start),
        "peak_gb": round(peak[0], 2),
    }


def simulated(scratch: Path, only: list[str]) -> dict[str, object]:
    """Return the energy of every setting, with 891 cosines, four sites and one that may collude."""
    maps, result = factor(), {}
    path = scratch / "volumes.f16"
    wanted = [setting for setting in SETTINGS if not only or setting[0] in only]
    if not wanted:
        return {}
    volumes = write_volumes(path, maps, max(setting[1] for setting in wanted), seed=2)
    for name, n_volumes, epsilon, with_maps in wanted:
        basis, energies, about = Cosines(np.ones(SHAPE), (9, 11, 9)), [], {}
        for _ in range(N_DRAWS):
            model = PCA(N_MAPS, epsilon=epsilon, delta=DELTA, basis=basis, maps=with_maps)
            about = fitted(model, volumes[:n_volumes], 4)
            energies.append(round(captured(model.components_, maps), 4))
        label = f"{name}, {'maps' if with_maps else 'basis alone'}"
        result[label] = {"energy": round(float(np.mean(energies)), 4), "draws": energies, **about}
        print(label, result[label], flush=True)
    path.unlink()
    return result


def table(stored: dict[str, dict[str, object]]) -> str:
    """Return the energies as a table, beside those of the design study."""
    lines = ["setting | basis alone | with maps asked for | releases | design study: basis, maps"]
    for name in dict.fromkeys(setting[0] for setting in SETTINGS):
        alone, maps = (stored.get(f"{name}, {kind}") for kind in ("basis alone", "maps"))
        if alone is None or maps is None:
            continue
        designed = " ".join(f"{value:.3f}" for value in DESIGNED.get(name, ()))
        shown = " | ".join(_spread(entry) for entry in (alone, maps))
        lines.append(f"{name} | {shown} | {len(maps['releases'])} | {designed or '-'}")  # type: ignore[arg-type]
    return "\n".join(lines)


def _spread(entry: dict[str, object]) -> str:
    """Return the mean of the draws, with the least and the largest."""
    draws = np.array(entry["draws"], dtype=np.float64)
    return f"{draws.mean():.3f} ({draws.min():.3f} to {draws.max():.3f})"


def one_wide_site(scratch: Path) -> dict[str, object]:
    """Return the memory of one site with 201,600 columns, 1,000 cosines, 20 maps and private centring."""
    shape, path = (60, 56, 60), scratch / "wide.f16"
    rng = np.random.default_rng(3)
    maps = Cosines(np.ones(shape), (6, 6, 6)).expanded(rng.normal(size=(N_MAPS, 216))) / 60
    volumes = write_volumes(path, maps, 3000, seed=4)
    basis = Cosines(np.ones(shape), (10, 10, 10))
    # So generous an epsilon that maps are released of so few volumes.
    model = PCA(N_MAPS, epsilon=50.0, delta=DELTA, basis=basis, maps=True, center=True)
    about = fitted(model, volumes, 1)
    path.unlink()
    return about


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scratch", type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--table", action="store_true", help="print what is stored, without fitting anything")
    arguments = parser.parse_args()
    stored = json.loads(OUT.read_text(encoding="utf-8")) if OUT.exists() else {}
    if arguments.table:
        print(table(stored))
        return
    with tempfile.TemporaryDirectory(dir=arguments.scratch) as folder:
        if not arguments.only or "site" in arguments.only:
            stored["one site, 201,600 columns"] = one_wide_site(Path(folder))
            print(stored["one site, 201,600 columns"], flush=True)
        stored |= simulated(Path(folder), [name for name in arguments.only])
    OUT.write_text(json.dumps(stored, indent=2) + "\n", encoding="utf-8")
    print(table(stored))


if __name__ == "__main__":
    main()
