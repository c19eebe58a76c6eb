"""The code of figures 5.1 to 5.3: cells, drawing and verdicts."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from dpcape_papers.experiments.comparison import compare, load_method
from dpcape_papers.experiments.curves import Look, true_epsilon_lines, true_epsilon_note
from dpcape_papers.experiments.data import DataFolder
from dpcape_papers.experiments.experiment import Cell, RunSetting, Work
from dpcape_papers.experiments.results import PUBLISHED, Results, Row, Value
from dpcape_papers.figures.panel_grid import Line, draw_by_method
from dpcape_papers.figures.tensor.methods import METHODS, error, make_task
from dpcape_papers.figures.tensor.verdicts import DELTA, judge_delta, judge_sizes, mixed, split

NAMES = {"mixture": "MOG", "topics": "STM"}
DIMENSIONS = ((10, 5), (50, 10))  # D and K of section 5.4
# Run k draws its data with seed 100 + k, because the division of noise between the moments was chosen on seeds 0 to 4
# (experiments/topics).
_FIRST_SEED = 100
_ERROR = "q_comp"


def compute(
    data: DataFolder,
    *,
    model: str,
    n_features: int,
    n_components: int,
    site_size: int,
    epsilons: Sequence[float],
    deltas: Sequence[float],
    run: int,
    methods: Sequence[str] = (),
) -> list[Row]:
    """Return q_comp of every scheme on one simulated data set, at the given epsilons and deltas.

    The user's own methods return estimated components as rows; ``task.options`` has "model" ("mixture" or "topics"),
    "truth" and "site_size".
    """
    compared = (*METHODS, *(load_method(name) for name in methods))
    found = []
    for delta in deltas:
        task = make_task(model, n_features, n_components, site_size=site_size, delta=delta, seed=_FIRST_SEED + run)
        for index, epsilon in enumerate(epsilons):
            rows = compare(
                task,
                compared,
                panel=f"{NAMES[model]}, D={n_features}",
                epsilons=[epsilon],
                run=run,
                seed=1000 * (run + 1) + index,
                measures={_ERROR: error},
            )
            more: dict[str, Value] = {"model": model, "n_features": n_features, "site_size": site_size}
            found += [{**row, **more, "asked_epsilon": epsilon, "asked_delta": delta} for row in rows]
    return found


def _cells(
    model: str, sizes: Sequence[int], epsilons: Sequence[float], deltas: Sequence[float], runs: Sequence[int]
) -> list[Cell]:
    return [
        Cell(
            compute,
            {
                "model": model,
                "n_features": n_features,
                "n_components": n_components,
                "site_size": size,
                "epsilons": list(epsilons),
                "deltas": list(deltas),
                "run": run,
            },
        )
        for n_features, n_components in DIMENSIONS
        for size in sizes
        for run in runs
    ]


def cells_sizes(model: str, setting: RunSetting) -> list[Cell]:
    """Return the cells of figures 5.1 and 5.2."""
    largest = 100_000 if model == "mixture" else 30_000
    sizes = setting.choose((2_000, 20_000 if model == "mixture" else 10_000), (1_000, 3_000, 10_000, largest))
    epsilons = setting.choose((0.1, 1.0, 10.0), (0.1, 0.3, 1.0, 3.0, 10.0))
    return _cells(model, sizes, epsilons, (DELTA,), setting.run_numbers(3))


def cells_delta(setting: RunSetting) -> list[Cell]:
    """Return the cells of figure 5.3."""
    deltas = setting.choose((1e-5, 1e-1), (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1))
    runs = setting.run_numbers(3)
    return [
        cell
        for model in NAMES
        for size, epsilon in ((1_000, 0.3), (10_000, 3.0))
        for cell in _cells(model, (size,), (epsilon,), deltas, runs)
    ]


def draw_sizes(results: Results) -> Figure:
    """Draw q_comp by epsilon, then by records per site."""
    above = (split(results, "site_size", ends=True), Look(f"ε (δ = {DELTA:g})", _ERROR, log_y=True))
    below = (mixed(results, "asked_epsilon", "site_size"), Look("records per site", _ERROR, log_y=True))
    figure = _draw([above, below])
    true_epsilon_note(figure, results)
    return figure


def draw_delta(results: Results) -> Figure:
    """Draw q_comp by delta, mixtures first, then topics."""
    look = Look("δ", _ERROR, log_y=True)
    figure = _draw([(_by_delta(results.where(model=model)), look) for model in NAMES])
    claims = [
        f"{NAMES[model]}, {line}"
        for model in NAMES
        for line in true_epsilon_lines(results.where(model=model, calibration=PUBLISHED))
    ]
    figure.legends[0].set_title(
        "\n".join(["as published, claimed ε → real ε at the same δ (range over δ and D)", *claims])
    )
    figure.legends[0].get_title().set(fontsize="small", multialignment="center")
    return figure


def _by_delta(results: Results) -> Results:
    return Results(
        {**r, "x": r["asked_delta"], "panel": f"{r['panel']}, N_s={r['site_size']:,}, ε={r['asked_epsilon']:g}"}
        for r in results
    )


def _draw(parts: Sequence[tuple[Results, Look]]) -> Figure:
    return draw_by_method(
        [Line(str(panel), part.series(panel=panel), look) for part, look in parts for panel in part.values("panel")]
    )


def cells_mixture(setting: RunSetting) -> list[Cell]:
    """Return the cells of figure 5.1."""
    return cells_sizes("mixture", setting)


def cells_topics(setting: RunSetting) -> list[Cell]:
    """Return the cells of figure 5.2."""
    return cells_sizes("topics", setting)


MIXTURES = Work(cells_mixture, draw_sizes, judge_sizes)
TOPICS = Work(cells_topics, draw_sizes, judge_sizes)
BY_DELTA = Work(cells_delta, draw_delta, judge_delta)
