"""The computation of figures 8.1 to 8.3: a sweep over epsilon, N or delta for one panel and run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

import numpy as np

from dpcape.core.arrays import FloatArray
from dpcape_papers.data import regression as prepared
from dpcape_papers.experiments.comparison import Task, compare, load_method
from dpcape_papers.experiments.data import DataFolder
from dpcape_papers.experiments.experiment import Cell
from dpcape_papers.experiments.results import Row
from dpcape_papers.figures.regression.methods import ERROR, LOSS, error, loss, papers_methods

N_SITES = 5
# File, loader, public maximum of the response (Crime is a share, BlogFeedback counts comments), and shape.
REAL = {
    "Crime": ("communities_crime.csv.gz", prepared.crime, 1.0, (1994, 99)),
    "BlogFeedback (for Twitter)": ("blogfeedback_test.npz", prepared.blog, 100.0, (7624, 80)),
}


class RegressionPanel(TypedDict):
    """Options of `sweep` for one panel."""

    source: str
    vary: str
    values: Sequence[float]
    epsilon: float
    delta: float
    n_records: int


def panel_cells(panel: RegressionPanel, runs: Sequence[int]) -> list[Cell]:
    """Return the cells of one panel, one per run."""
    files = [REAL[panel["source"]][0]] if panel["source"] in REAL else []
    return [Cell(sweep, {**panel, "run": run}, files) for run in runs]


def sweep(
    data: DataFolder,
    *,
    source: str,
    vary: str,
    values: Sequence[float],
    epsilon: float,
    delta: float,
    n_records: int,
    run: int,
    methods: Sequence[str] = (),
) -> list[Row]:
    """Fit every method at every value of one quantity, with the others fixed.

    Parameters
    ----------
    data : DataFolder
        Where the data files are.
    source : str
        "D=20" for synthetic records of that width, or a key of ``REAL``.
    vary : {'epsilon', 'N', 'delta'}
        The quantity that varies.
    values : sequence of float
        Its values.
    epsilon, delta : float
        Used where they do not vary.
    n_records : int
        Total number of records, where it does not vary; 0 for all records.
    run : int
        Seed of the data and of the noise.
    methods : sequence of str
        Names of additional methods.
    """
    compared = [*papers_methods(), *map(load_method, methods)]
    rows: list[Row] = []
    for value in values:
        here = {"epsilon": epsilon, "N": n_records, "delta": delta} | {vary: value}
        name, task = make_task(data, source, n_records=int(here["N"]), delta=here["delta"], seed=run)
        measures = {LOSS: loss} | ({ERROR: error} if "truth" in task.options else {})
        panel = panel_name(name, vary, epsilon=epsilon, delta=delta, n_records=n_records or task.options["n_records"])
        rows += compare(
            task, compared, panel=panel, epsilons=[here["epsilon"]], run=run, seed=run, measures=measures, x=value
        )
    return [{**row, "source": name, "vary": vary} for row in rows]


def panel_name(name: str, vary: str, *, epsilon: float, delta: float, n_records: int) -> str:
    """Return the title of a panel: the data and the fixed settings."""
    fixed = {"epsilon": f"ε = {epsilon:g}", "N": f"N = {n_records:,}", "delta": f"δ = {delta:g}"}
    return ", ".join([name, *(text for key, text in fixed.items() if key != vary)])


def make_task(data: DataFolder, source: str, *, n_records: int, delta: float, seed: int) -> tuple[str, Task]:
    """Return the name of the data and the task: rows of norm at most 1 at five sites of equal size."""
    if source.startswith("D="):
        study = prepared.linear(int(source[2:]), n_records, seed=seed)
        target = np.asarray(study.target, dtype=np.float64)
        return f"synthetic, D = {source[2:]}", _task(study.features, target, delta, seed, study.truth)
    name, X, y = _real(data, source)
    keep = np.random.default_rng([seed, 0]).permutation(len(X))[: n_records or len(X)]  # protects nothing
    return name, _task(X[keep], y[keep], delta, seed, None)


def _task(X: FloatArray, y: FloatArray, delta: float, seed: int, truth: FloatArray | None) -> Task:
    each = len(X) // N_SITES
    order = np.random.default_rng([seed, 1]).permutation(len(X))  # protects nothing
    parts = [order[number * each : (number + 1) * each] for number in range(N_SITES)]
    sites = {f"site{number}": (X[part], y[part]) for number, part in enumerate(parts, start=1)}
    options: dict[str, object] = {"n_records": each * N_SITES} | ({} if truth is None else {"truth": truth})
    return Task(sites, delta, options)


def _real(data: DataFolder, source: str) -> tuple[str, FloatArray, FloatArray]:
    """Return the name, rows clipped to norm 1 and responses in [0, 1]; simulated data if the file is missing."""
    file, load, largest, shape = REAL[source]
    if not data.has(file):
        return f"simulated in place of {source.split()[0]}", *_stand_in(*shape)
    study = load(data)
    lengths = np.linalg.norm(study.features, axis=1, keepdims=True)
    return source, study.features / np.maximum(lengths, study.bound), np.clip(study.target / largest, 0.0, 1.0)


def _stand_in(n_records: int, width: int) -> tuple[FloatArray, FloatArray]:
    """Return simulated rows with a decaying spectrum, and a skewed response, in the shape of the real data."""
    generator = np.random.default_rng(8)  # protects nothing
    scales = 1 / np.arange(1, width + 1)
    X = generator.standard_normal((n_records, width)) * scales + 0.1
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1.0)
    score = X @ generator.standard_normal(width) + 0.5 * generator.standard_normal(n_records)
    return X, np.clip(np.exp(score - 1.5), 0.0, 1.0)
