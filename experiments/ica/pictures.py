"""Pictures of joint ICA: maps at several epsilon, courses, autocorrelations, q against epsilon."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from run import fit, four_sites

from dpcape.datasets import autocorrelation, simulated_fmri
from dpcape.metrics import gain_index
from dpcape.report.map_plots import (
    matched_maps,
    plot_autocorrelations,
    plot_courses,
    plot_gain_index,
    plot_maps,
)

EPSILONS = (0.3, 1.0, 2.0)


def draw(out: Path, n_subjects: int) -> None:
    """Draw every picture at the record unit, 900 voxels reduced privately."""
    simulation = simulated_fmri(np.random.default_rng(0), n_subjects=n_subjects)
    held = four_sites(simulation.arrays, "record")
    exact = fit(held, "exact", 0, epsilon=1.0)[0]
    private = {epsilon: fit(held, "cape", 0, epsilon=epsilon)[0] for epsilon in EPSILONS}
    plain = {epsilon: fit(held, "conventional", 0, epsilon=epsilon)[0] for epsilon in EPSILONS}
    rows = {"true": simulation.mixing, "without privacy": matched_maps(exact.mixing_, simulation.mixing)}
    for epsilon, model in private.items():
        rows[f"epsilon {epsilon:g}"] = matched_maps(model.mixing_, simulation.mixing)
    _save(plot_maps(rows, simulation.shape), out / "maps.png")
    indices = {
        name: [gain_index(model.unmixing_, simulation.mixing) for model in models.values()]
        for name, models in (("CAPE", private), ("conventional", plain))
    }
    reference = gain_index(exact.unmixing_, simulation.mixing)
    _save(plot_gain_index(EPSILONS, indices, reference=reference), out / "gain_index.png")
    true = simulation.arrays[0] @ np.linalg.pinv(simulation.mixing).T
    found = simulation.arrays[0] @ np.linalg.pinv(rows["epsilon 1"]).T
    _save(plot_courses({"true": true, "epsilon 1": found}), out / "courses.png")
    lags = {name: autocorrelation(series**2, 20) for name, series in (("true", true), ("epsilon 1", found))}
    _save(plot_autocorrelations(lags), out / "autocorrelations_of_squares.png")
    print(indices, reference)


def _save(axes: object, path: Path) -> None:
    axes.figure.savefig(path, dpi=80)  # type: ignore[attr-defined]
