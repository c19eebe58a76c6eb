"""Wide joint ICA of simulated images: maps of the sources in a basis alone, and with maps of what it leaves out.

Run: python experiments/wide/sources.py

Images of 32 x 32 pixels are made of five sources with Laplace courses and independent noise on each pixel. Three
quarters of the energy of a map lie in 25 cosines, the rest in folds of four pixels, which the 64 cosines of the basis
do not contain. Figures are means over four runs with new noise: the squared cosine of the maps with the true ones, and
the correlation of sources with the true ones.
"""

from __future__ import annotations

import warnings

import numpy as np
from scipy.optimize import linear_sum_assignment

from dpcape import Cape, Cosines, Federation, JointICA, in_process, subjects
from dpcape.core.arrays import FloatArray
from dpcape.core.errors import DpcapeWarning

SHAPE, N_SOURCES, N_RUNS, EPSILON, DELTA = (32, 32), 5, 4, 2.0, 1e-6
BASIS = Cosines(np.ones(SHAPE), (8, 8))


def true_maps() -> FloatArray:
    """Return the maps, (sources, pixels)."""
    rng = np.random.default_rng(1)
    smooth = Cosines(np.ones(SHAPE), (5, 5)).expanded(rng.normal(size=(N_SOURCES, 25)) / (1 + np.arange(25)) ** 0.3)
    grid = np.stack(np.meshgrid(*(np.arange(side) for side in SHAPE), indexing="ij")).reshape(2, -1)
    ways = rng.normal(size=(N_SOURCES, 2))
    folds = smooth * np.sin(2 * np.pi * (ways / np.linalg.norm(ways, axis=1, keepdims=True) @ grid) / 4)
    folds -= BASIS.expanded(BASIS.coordinates(folds))
    energy = np.linspace(1, 0.5, N_SOURCES)
    lengths = np.sqrt(0.8 * energy / energy.sum())[:, np.newaxis]
    made: FloatArray = (np.sqrt(0.75) * _unit(smooth) + 0.5 * _unit(folds)) * lengths
    return made


def main() -> None:
    maps, n_pixels = true_maps(), int(np.prod(SHAPE))
    for n_images in (3_000, 6_000, 20_000):
        rng = np.random.default_rng(3)
        courses = rng.laplace(size=(n_images, N_SOURCES)) / np.sqrt(2)
        images = (courses @ maps + np.sqrt(0.15 / n_pixels) * rng.normal(size=(n_images, n_pixels))).astype(np.float32)
        for with_maps in (False, True):
            found = np.mean([_measured(images, courses, maps, with_maps=with_maps) for _ in range(N_RUNS)], axis=0)
            word = "with maps" if with_maps else "basis alone"
            print(f"{n_images} images, {word}: maps {found[0]:.3f}, sources {found[1]:.4f}", flush=True)


def _measured(images: FloatArray, courses: FloatArray, maps: FloatArray, *, with_maps: bool) -> tuple[float, float]:
    parts = np.array_split(images, 3)
    held = {f"site{at}": subjects([part], bound=1.5, unit="record") for at, part in enumerate(parts)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DpcapeWarning)
        model = JointICA(N_SOURCES, epsilon=EPSILON, delta=DELTA, basis=BASIS, maps=with_maps)
        model.fit(Federation(in_process(held), protocol=Cape(n_colluding=1)))
    cosines = np.abs(_unit(model.mixing_.T) @ _unit(maps).T)
    related = np.abs(np.corrcoef((images @ model.unmixing_.T).T, courses.T)[:N_SOURCES, N_SOURCES:])
    return (
        float(np.mean(cosines[linear_sum_assignment(-cosines)] ** 2)),
        float(np.mean(related[linear_sum_assignment(-related)])),
    )


def _unit(rows: FloatArray) -> FloatArray:
    lengths: FloatArray = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return lengths


if __name__ == "__main__":
    main()
