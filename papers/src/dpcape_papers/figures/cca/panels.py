"""The panels of figures 7.1 and 7.2, of figures 2 and 3 of the capeCCA paper, and of the poster's plots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TypedDict

from matplotlib.figure import Figure

from dpcape_papers.experiments.comparison import compare, load_method
from dpcape_papers.experiments.data import DataFolder
from dpcape_papers.experiments.experiment import Cell, RunSetting
from dpcape_papers.experiments.results import Results, Row
from dpcape_papers.figures.cca.methods import CH, ERROR, METHODS, POSTER_METHODS, judging, measures, task
from dpcape_papers.figures.cca.pairs import FILES, Pairs, clustered, fusion_pairs

BY_EPSILON, BY_RECORDS, BY_COPIES, BY_DELTA = "epsilon", "records", "replication", "delta"
FUSION = "fMRI+EEG"
_EPSILONS = (1e-3, 1e-2, 5e-2, 0.1, 1.0, 5.0, 10.0)
_PEOPLE = (200, 500, 700, 1000, 1300, 2000, 5000)
_DIGITS = (10000, 20000, 30000, 40000, 50000)
_COPIES = (10, 20, 30, 40, 50)
_DELTAS = (1e-5, 5e-5, 1e-4, 5e-4, 1e-3, 5e-3, 1e-2, 5e-2)


@dataclass(frozen=True)
class CcaPanel:
    """The fixed settings of a panel, and the points of its horizontal axis in full and in quick runs."""

    letter: str
    dataset: str
    by: str
    points: tuple[float, ...]
    quick: tuple[float, ...] = ()  # empty: omitted from quick runs
    n_records: int = 0
    epsilon: float = 0.0
    copies: int = 1
    delta: float = 0.01


class _Named(TypedDict):
    dataset: str


class _Copied(_Named):
    copies: int


class _Sized(_Named):
    n_records: int


_QUICK_EPSILONS = (0.05, 1.0, 10.0)
_MNIST: _Copied = {"dataset": "MNIST", "copies": 10}
_SPEECH: _Sized = {"dataset": "MOCHA-TIMIT", "n_records": 2000}
_BOTH: _Named = {"dataset": FUSION}
BY_EPSILON_AND_SIZE = (
    CcaPanel("a", by=BY_EPSILON, points=_EPSILONS, quick=_QUICK_EPSILONS, n_records=30000, **_MNIST),
    CcaPanel("b", by=BY_EPSILON, points=_EPSILONS, n_records=50000, **_MNIST),
    CcaPanel("c", by=BY_EPSILON, points=_EPSILONS, quick=_QUICK_EPSILONS, copies=30, **_SPEECH),
    CcaPanel("d", by=BY_EPSILON, points=_EPSILONS, copies=50, **_SPEECH),
    CcaPanel("e", by=BY_EPSILON, points=_EPSILONS, quick=_QUICK_EPSILONS, n_records=500, **_BOTH),
    CcaPanel("f", by=BY_EPSILON, points=_EPSILONS, quick=_QUICK_EPSILONS, n_records=1000, **_BOTH),
    CcaPanel("g", by=BY_RECORDS, points=_DIGITS, epsilon=0.05, **_MNIST),
    CcaPanel("h", by=BY_RECORDS, points=_DIGITS, quick=(10000, 50000), epsilon=0.1, **_MNIST),
    CcaPanel("i", by=BY_COPIES, points=_COPIES, epsilon=0.1, **_SPEECH),
    CcaPanel("j", by=BY_COPIES, points=_COPIES, quick=(10, 50), epsilon=0.5, **_SPEECH),
    CcaPanel("k", by=BY_RECORDS, points=_PEOPLE, epsilon=0.5, **_BOTH),
    CcaPanel("l", by=BY_RECORDS, points=_PEOPLE, quick=(500, 5000), epsilon=1.0, **_BOTH),
)
_QUICK_DELTAS = (1e-5, 1e-3, 5e-2)
BY_DELTA_PANELS = (
    CcaPanel("a", by=BY_DELTA, points=_DELTAS, quick=_QUICK_DELTAS, n_records=50000, epsilon=0.05, **_MNIST),
    CcaPanel("b", by=BY_DELTA, points=_DELTAS, quick=_QUICK_DELTAS, copies=30, epsilon=0.2, **_SPEECH),
    CcaPanel("c", by=BY_DELTA, points=_DELTAS, quick=_QUICK_DELTAS, n_records=2000, epsilon=0.5, **_BOTH),
)
_MANY = (1000, 2000, 5000, 10000, 20000, 50000)
POSTER_PANELS = {
    by: tuple(
        CcaPanel(letter, dataset, by, points, quick, n_records=n_records, epsilon=epsilon)
        for letter, dataset, n_records in (
            ("a", "Synthetic", 10000),
            ("b", "MNIST", 50000),
            ("c", "MOCHA-TIMIT", 50000),
        )
    )
    for by, points, quick, epsilon in (
        (BY_EPSILON, _EPSILONS, (0.01, 0.1, 1.0, 10.0), 0.0),
        (BY_RECORDS, _MANY, (1000, 5000, 50000), 0.5),
        (BY_DELTA, _DELTAS, _QUICK_DELTAS, 0.1),
    )
}


def cells(panels: Sequence[CcaPanel], scheme: str, *, quick_runs: int) -> Callable[[RunSetting], list[Cell]]:
    """Return a function that returns one cell per panel and run."""
    return partial(_cells, panels, scheme, quick_runs)


def _cells(panels: Sequence[CcaPanel], scheme: str, quick_runs: int, setting: RunSetting) -> list[Cell]:
    found = []
    for panel in panels:
        points = setting.choose(panel.quick, panel.points)
        files = [FILES[panel.dataset]] if panel.dataset in FILES else []
        for run in setting.run_numbers(quick_runs) if points else ():
            options = asdict(panel) | {"points": list(points), "scheme": scheme, "run": run}
            del options["quick"]
            found.append(Cell(compute, options | {"n_judged": setting.choose(1500, 10000)}, files=files))
    return found


def compute(
    data: DataFolder,
    *,
    letter: str,
    dataset: str,
    by: str,
    points: Sequence[float],
    n_records: int,
    epsilon: float,
    copies: int,
    delta: float,
    scheme: str,
    run: int,
    n_judged: int,
    methods: Sequence[str] = (),
) -> list[Row]:
    """Return the rows of one run of one panel; ``methods`` names additional methods."""
    found: list[Row] = []
    for point in points:
        size = int(point) if by == BY_RECORDS else n_records
        pairs = _records(data, dataset, size, run)
        task_ = task(
            pairs,
            n_sites=1 if scheme == "poster" else 10,
            delta=point if by == BY_DELTA else delta,
            copies=int(point) if by == BY_COPIES else copies,
            scheme=scheme,
            seed=run,
            n_judged=n_judged,
        )
        found += compare(
            task_,
            [*(POSTER_METHODS if scheme == "poster" else METHODS), *(judging(load_method(name)) for name in methods)],
            panel=f"({letter}) {pairs.name}, by {by}",
            epsilons=[point if by == BY_EPSILON else epsilon],
            run=run,
            seed=700 + run,
            measures=measures(task_),
            x=point,
        )
    return found


def _records(data: DataFolder, dataset: str, n_records: int, run: int) -> Pairs:
    if dataset == FUSION:
        return fusion_pairs(n_records, [73, run])
    return clustered(data, dataset).draw(n_records, [72, run])


def draw(panels: Sequence[CcaPanel]) -> Callable[[Results], Figure]:
    """Return a function that draws these panels."""
    return partial(_draw, panels)


def _draw(panels: Sequence[CcaPanel], results: Results) -> Figure:
    from dpcape_papers.experiments.curves import Look
    from dpcape_papers.figures.panel_grid import draw_grid

    by_letter = {panel.letter: panel for panel in panels}
    labels = {BY_EPSILON: "epsilon (as claimed)", BY_COPIES: "replication p", BY_RECORDS: "records", BY_DELTA: "delta"}
    names = [str(name) for name in results.values("panel")]
    drawn = {name: ERROR if by_letter[name[1]].dataset == FUSION else CH for name in names}
    axes = {CH: "Calinski-Harabasz index", ERROR: r"$\mathrm{err}_\mathrm{corr}$"}
    looks = {
        name: Look(x=labels[panel.by], y=axes[drawn[name]], log_x=max(panel.points) > 20 * min(panel.points))
        for name, panel in ((name, by_letter[name[1]]) for name in names)
    }
    titles = {name: _title(by_letter[name[1]], name) for name in names}
    return draw_grid(results, looks, measures=drawn, titles=titles)


def _title(panel: CcaPanel, name: str) -> str:
    fixed = [
        f"N = {panel.n_records}" if panel.by != BY_RECORDS else "",
        f"p = {panel.copies}" if panel.copies > 1 and panel.by != BY_COPIES else "",
        f"ε = {panel.epsilon:g}" if panel.by != BY_EPSILON else "",
        f"δ = {panel.delta:g}" if panel.by != BY_DELTA else "",
    ]
    return f"{name.rsplit(', by ', 1)[0]}\n({', '.join(part for part in fixed if part)})"
