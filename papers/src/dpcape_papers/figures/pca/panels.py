"""The nine panels of figure 4.1: their settings, computation and drawing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from dpcape_papers.experiments.comparison import Task, compare, load_method
from dpcape_papers.experiments.data import DataFolder
from dpcape_papers.experiments.experiment import Cell, RunSetting
from dpcape_papers.experiments.results import Results, Row
from dpcape_papers.figures.pca.methods import MEASURE, METHODS, energy
from dpcape_papers.figures.pca.rows import FILES, RecordSource, source

N_SITES = 10
BY_EPSILON, BY_RECORDS, BY_DELTA = "epsilon", "records per site", "delta"
_EPSILONS = (1e-3, 5e-3, 1e-2, 5e-2, 0.1, 0.5, 1.0, 5.0, 10.0)
_RECORDS = (100, 200, 500, 1000, 2000, 3000, 4000, 5000)
_DELTAS = (1e-4, 5e-4, 1e-3, 5e-3, 1e-2, 5e-2)
_QUICK: dict[str, tuple[float, ...]] = {
    BY_EPSILON: (0.1, 1.0, 10.0),
    BY_RECORDS: (500, 4000),
    BY_DELTA: (1e-4, 1e-2),
}
_FULL: dict[str, tuple[float, ...]] = {BY_EPSILON: _EPSILONS, BY_RECORDS: _RECORDS, BY_DELTA: _DELTAS}


@dataclass(frozen=True)
class PcaPanel:
    """The fixed settings of a panel."""

    letter: str
    dataset: str
    by: str
    epsilon: float
    n_per_site: int
    delta: float = 0.01


PANELS = (
    PcaPanel("a", "Synthetic", BY_EPSILON, 0, 1000),
    PcaPanel("b", "MNIST", BY_EPSILON, 0, 1000),
    PcaPanel("c", "Covertype", BY_EPSILON, 0, 500),
    PcaPanel("d", "Synthetic", BY_RECORDS, 0.5, 0),
    PcaPanel("e", "MNIST", BY_RECORDS, 1.0, 0),
    PcaPanel("f", "Covertype", BY_RECORDS, 0.1, 0),
    PcaPanel("g", "Synthetic", BY_DELTA, 1.0, 1000, 0),
    PcaPanel("h", "MNIST", BY_DELTA, 2.0, 1000, 0),
    PcaPanel("i", "Covertype", BY_DELTA, 0.5, 500, 0),
)
_COMPONENTS = {"Synthetic": 50, "MNIST": 50, "Covertype": 10}


def n_components(panel: PcaPanel) -> int:
    """Return K; the figure's panel h was run with 10, where the text has 50."""
    return 10 if panel.letter == "h" else _COMPONENTS[panel.dataset]


def cells(setting: RunSetting) -> list[Cell]:
    """Return a cell per panel and run; for MNIST at full size, a cell per point."""
    found = []
    for panel in PANELS:
        points = setting.choose(_QUICK, _FULL)[panel.by]
        piece = 1 if panel.dataset == "MNIST" and not setting.quick else len(points)
        for run in setting.run_numbers(3):
            found += [
                _cell(panel.letter, run, points[start : start + piece], setting.quick)
                for start in range(0, len(points), piece)
            ]
    return found


def _cell(letter: str, run: int, points: Sequence[float], quick: bool) -> Cell:
    panel = next(one for one in PANELS if one.letter == letter)
    small = quick and panel.dataset == "MNIST"
    options: dict[str, object] = {
        "letter": letter,
        "run": run,
        "points": list(points),
        "n_components": 25 if small else n_components(panel),
        "side": 14 if small else 28,
    }
    return Cell(compute, options, files=[FILES[panel.dataset]] if panel.dataset in FILES else [])


def compute(
    data: DataFolder,
    *,
    letter: str,
    run: int,
    points: Sequence[float],
    n_components: int,
    side: int,
    methods: Sequence[str] = (),
) -> list[Row]:
    """Return the rows of one run of one panel; ``methods`` names additional methods."""
    panel = next(one for one in PANELS if one.letter == letter)
    held = source(data, panel.dataset, side)
    found: list[Row] = []
    for point in points:
        n_per_site = int(point) if panel.by == BY_RECORDS else panel.n_per_site
        delta = point if panel.by == BY_DELTA else panel.delta
        epsilon = point if panel.by == BY_EPSILON else panel.epsilon
        found += compare(
            task(held, n_per_site, delta=delta, n_components=n_components, run=run),
            [*METHODS, *map(load_method, methods)],
            panel=f"({letter}) {held.name}, by {panel.by}",
            epsilons=[epsilon],
            run=run,
            seed=100 + run,
            measures={MEASURE: energy},
            x=point,
        )
    return found


def task(
    held: RecordSource, n_per_site: int, *, delta: float, n_components: int, run: int, n_sites: int = N_SITES
) -> Task:
    """Return the task: records divided equally among the sites."""
    parts = np.split(held.draw(n_sites * n_per_site, [41, run]), n_sites)
    return Task(
        sites={f"site {index}": part for index, part in enumerate(parts)},
        delta=delta,
        options={
            "n_components": n_components,
            "moment": held.moment,
            "moments": [part.T @ part / len(part) for part in parts],
        },
    )


def draw(results: Results) -> Figure:
    """Draw the nine panels of the paper, each as a line of small ones."""
    from dpcape_papers.experiments.curves import Look
    from dpcape_papers.figures.panel_grid import draw_grid

    axes = {BY_EPSILON: "epsilon (as claimed)", BY_RECORDS: "records per site", BY_DELTA: "delta"}
    names = [str(name) for name in results.values("panel")]
    looks = {name: Look(x=axes[name.rsplit(", by ", 1)[1]], y="captured energy $q^{CE}$") for name in names}
    return draw_grid(
        results, looks, measures=dict.fromkeys(names, MEASURE), titles={name: _title(name) for name in names}
    )


def _title(name: str) -> str:
    panel = next(one for one in PANELS if one.letter == name[1])
    fixed = {
        BY_EPSILON: f"δ = {panel.delta:g}, $N_s$ = {panel.n_per_site}",
        BY_RECORDS: f"ε = {panel.epsilon:g}, δ = {panel.delta:g}",
        BY_DELTA: f"ε = {panel.epsilon:g}, $N_s$ = {panel.n_per_site}",
    }[panel.by]
    return f"{name.rsplit(', by ', 1)[0]} ({fixed})"
