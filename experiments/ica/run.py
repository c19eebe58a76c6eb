"""Joint ICA on simulated fMRI and on ABIDE: the figures that ``expected.json`` records.

Run: python experiments/ica/run.py record|subject|solvers|abide|pictures --out DIR [--seeds 5] [--subjects 1024]

Every run goes through the whole protocol with replayable noise (four sites, one may collude, delta 1e-5).
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dpcape import Cape, Exact, Federation, Independent, JointICA, Replay, in_process, subjects
from dpcape.core.errors import UtilityWarning
from dpcape.datasets import SimulatedFmri, simulated_fmri
from dpcape.estimators.ica.bases import cosine_basis
from dpcape.metrics import gain_index, matched_correlations

DELTA = 1e-5
ABIDE = Path(__file__).resolve().parents[3] / "shared" / "data" / "abide_cc200_timeseries.npz"
# Public: a time point is 20 sources of variance one in maps of norm one, so its norm is near sqrt(20).
RECORD_BOUND, SUBJECT_BOUND = 6.0, 10.0
PROTOCOLS = {"cape": Cape(n_colluding=1), "conventional": Independent(), "exact": Exact()}


def four_sites(arrays: list[Any], unit: str) -> dict[str, Any]:
    bound = RECORD_BOUND if unit == "record" else SUBJECT_BOUND
    return {
        f"site{index}": subjects(
            arrays[index::4],
            bound=bound,
            unit=unit,
            rows_per_subject=max(map(len, arrays)),
            n_features=arrays[0].shape[1],
        )
        for index in range(4)
    }


def fit(held: Mapping[str, Any], protocol: str, seed: int, **options: Any) -> tuple[JointICA, int]:
    """Return the fitted model and the number of utility warnings."""
    federation = Federation(in_process(held, noise=Replay(seed)), protocol=PROTOCOLS[protocol])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UtilityWarning)
        model = JointICA(20, delta=DELTA, insist=True, **options).fit(federation)
    return model, len(caught)


def measured(model: JointICA, simulation: SimulatedFmri, n_warnings: int) -> dict[str, float]:
    return {
        "q": round(gain_index(model.unmixing_, simulation.mixing), 5),
        "maps": round(float(matched_correlations(model.mixing_, simulation.mixing).mean()), 5),
        "clearance": round(min(model.clearance_, 1e9), 3),
        "warnings": n_warnings,
    }


def record(seeds: Iterable[int], n_subjects: int) -> list[dict[str, Any]]:
    """Unit record, 900 voxels reduced privately inside the budget."""
    rows = []
    for seed in seeds:
        simulation = simulated_fmri(np.random.default_rng(seed), n_subjects=n_subjects)
        held = four_sites(simulation.arrays, "record")
        for protocol, epsilon in (("exact", 1.0), ("cape", 2.0), ("cape", 1.0), ("conventional", 1.0)):
            found = measured(*_swap(fit(held, protocol, seed, epsilon=epsilon), simulation))
            rows.append({"seed": seed, "protocol": protocol, "epsilon": epsilon, **found})
            print(rows[-1], flush=True)
        rows.append({"seed": seed, "protocol": "local", "epsilon": 1.0, **local(held, seed, simulation)})
        print(rows[-1], flush=True)
    return rows


def local(held: Mapping[str, Any], seed: int, simulation: SimulatedFmri) -> dict[str, float]:
    """The local baseline: one site alone, its own noise, the same guarantee for its time points at epsilon 1."""
    alone = dict(list(held.items())[:1])
    return measured(*_swap(fit(alone, "conventional", seed, epsilon=1.0), simulation))


def subject(seeds: Iterable[int], n_subjects: int) -> list[dict[str, Any]]:
    """Unit subject, with the true span as a public basis and with private PCA in 144 cosines."""
    rows = []
    cosines = cosine_basis((30, 30), (12, 12))
    for kind in ("garch", "heterogeneous"):
        for seed in seeds:
            simulation = simulated_fmri(np.random.default_rng(seed), n_subjects=n_subjects, kind=kind)
            held = four_sites(simulation.arrays, "subject")
            for name, basis in (("public", np.linalg.qr(simulation.mixing)[0]), ("cosines", cosines)):
                for epsilon in (2.0, 1.0):
                    found = measured(*_swap(fit(held, "cape", seed, epsilon=epsilon, basis=basis), simulation))
                    rows.append({"seed": seed, "kind": kind, "basis": name, "epsilon": epsilon, **found})
                    print(rows[-1], flush=True)
    return rows


def solvers(seeds: Iterable[int], n_subjects: int) -> list[dict[str, Any]]:
    """Infomax and moment at the same total budget, both units, public basis."""
    rows = []
    for seed in seeds:
        simulation = simulated_fmri(np.random.default_rng(seed), n_subjects=n_subjects)
        basis = np.linalg.qr(simulation.mixing)[0]
        for unit, epsilon in (("record", 1.0), ("subject", 2.0)):
            held = four_sites(simulation.arrays, unit)
            for solver in ("moment", "infomax"):
                options = {"epsilon": epsilon, "basis": basis, "solver": solver}
                found = measured(*_swap(fit(held, "cape", seed, **options), simulation))
                rows.append({"seed": seed, "unit": unit, "epsilon": epsilon, "solver": solver, **found})
                print(rows[-1], flush=True)
    return rows


def abide(seeds: Iterable[int], n_subjects: int) -> list[dict[str, Any]]:
    """ABIDE CC200: 374 people at four real sites, against the exact result of the same analysis as pseudo truth."""
    stored = np.load(ABIDE)
    series = [
        stored["Z"][start:stop].astype(np.float32)
        for start, stop in zip(stored["offsets"][:-1], stored["offsets"][1:], strict=True)
    ]
    rows = []
    # Public: entries are z-scores of 200 regions, so a time point has a norm near sqrt(200).
    for unit, n_components, epsilons in (("record", 20, (1.0, 5.0)), ("subject", 5, (2.0, 10.0))):
        held = {
            str(site): subjects(
                [s for s, at in zip(series, stored["site"], strict=True) if at == site],
                bound=20.0,
                unit=unit,
                rows_per_subject=max(map(len, series)),
                n_features=series[0].shape[1],
            )
            for site in np.unique(stored["site"])
        }
        truth = _abide_fit(held, "exact", 0, n_components, 1.0)[0]
        for seed in seeds:
            for epsilon in epsilons:
                model, n_warnings = _abide_fit(held, "cape", seed, n_components, epsilon)
                found = {
                    "q": round(gain_index(model.unmixing_, truth.mixing_), 4),
                    "maps": round(float(matched_correlations(model.mixing_, truth.mixing_).mean()), 4),
                    "clearance": round(model.clearance_, 3),
                    "warnings": n_warnings,
                }
                rows.append({"seed": seed, "unit": unit, "components": n_components, "epsilon": epsilon, **found})
                print(rows[-1], flush=True)
    return rows


def _abide_fit(held: Any, protocol: str, seed: int, n_components: int, epsilon: float) -> tuple[JointICA, int]:
    federation = Federation(in_process(held, noise=Replay(seed)), protocol=PROTOCOLS[protocol])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UtilityWarning)
        model = JointICA(n_components, epsilon=epsilon, delta=DELTA, n_timepoints=180, insist=True).fit(federation)
    return model, len(caught)


def _swap(fitted: tuple[JointICA, int], simulation: SimulatedFmri) -> tuple[JointICA, SimulatedFmri, int]:
    return fitted[0], simulation, fitted[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=["record", "subject", "solvers", "abide", "pictures"])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--subjects", type=int, default=1024)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.name == "pictures":
        from pictures import draw

        draw(arguments.out, arguments.subjects)
        return
    run = {"record": record, "subject": subject, "solvers": solvers, "abide": abide}[arguments.name]
    rows = run(range(arguments.seeds), arguments.subjects)
    (arguments.out / f"{arguments.name}.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
