"""The full run: every public point of the papers at their sizes and ten runs each, stored one file per cell.

A cell is one run of one panel, or of one point where a point takes long. A stored cell is not computed again, so that a
full run can be done in several sittings. Files are small and belong to the repository; each names the commit of the
code and the digests of the data that it was computed with.
"""

from __future__ import annotations

import json
import subprocess
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from dpcape_papers.experiments.data import DataFolder
from dpcape_papers.experiments.experiment import Cell, Experiment, RunSetting
from dpcape_papers.experiments.replica import REPLICA, ComparedPoint, Replica, compared_points, paper_points
from dpcape_papers.experiments.results import Results, Row, number, row
from dpcape_papers.experiments.stored import store

FOLDER = Path(__file__).parents[1] / "stored" / "cells"


@dataclass(frozen=True)
class FullCell:
    """A cell of the full run and the file that keeps it."""

    figure: str
    cell: Cell
    path: Path


def full_cells(experiments: Sequence[Experiment], setting: RunSetting, folder: Path = FOLDER) -> list[FullCell]:
    """Return the cells of all figures whose numbers are public: first run 0 of every figure, then run 1, and so on."""
    found: list[FullCell] = []
    for replica in _compared(experiments):
        for cell in replica.cells(replace(setting, quick=False)):
            for single in _single_runs(cell):
                found.append(FullCell(replica.figure, single, folder / replica.figure / f"{_name(single)}.json"))
    return sorted(found, key=lambda one: _run(one.cell))


def _compared(experiments: Sequence[Experiment]) -> list[Replica]:
    replicas = {one.replica().figure: one.replica() for one in experiments if one.replica is not None}
    return [replica for replica in replicas.values() if replica.compared]


def _single_runs(cell: Cell) -> Iterator[Cell]:
    """Yield the cell without verified fits, which are no part of the comparison; one per run."""
    options = dict(cell.options)
    if "verified" in options:
        options["verified"] = False if isinstance(options["verified"], bool) else 0
    runs = options.get("runs")
    for run in runs if isinstance(runs, list) else [None]:
        yield replace(cell, options=options if run is None else {**options, "runs": [run]})


def _run(cell: Cell) -> int:
    runs = cell.options.get("runs")
    return int(str(runs[0] if isinstance(runs, list) else cell.options["run"]))


def _name(cell: Cell) -> str:
    options = cell.options
    panel = next(str(options[key]) for key in ("panel", "panels", "letter") if key in options)
    point = f"-{options['x']:g}" if "x" in options else ""
    return f"{panel}{point}-run{_run(cell)}"


def run_full(cells: Sequence[FullCell], data: DataFolder, jobs: int) -> Iterator[FullCell]:
    """Compute the cells that are not stored, and yield each when it is."""
    todo = [one for one in cells if not is_stored(one, data)]
    if jobs == 1:
        for one in todo:
            _compute(one, data)
            yield one
        return
    with ProcessPoolExecutor(jobs) as pool:
        for one, _ in zip(todo, pool.map(_compute, todo, [data] * len(todo)), strict=True):
            yield one


def is_stored(one: FullCell, data: DataFolder) -> bool:
    """Return whether the file of a cell has the same options and data."""
    try:
        kept = json.loads(one.path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return bool(kept["options"] == _plain(one.cell.options) and kept["data"] == _digests(one.cell, data))


def _compute(one: FullCell, data: DataFolder) -> None:
    start = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rows = one.cell.compute(data, **one.cell.options)
    values: dict[str, dict[str, list[list[float]]]] = {}
    for r in rows:
        if r["calibration"] == REPLICA:
            place = values.setdefault(str(r["panel"]), {}).setdefault(str(r["curve"]), [])
            place.append([float(f"{number(r, name):.6g}") for name in ("x", "value")])
    kept = {
        "commit": commit(),
        "seconds": round(time.process_time() - start, 1),
        "warnings": sorted({f"{entry.category.__name__}: {entry.message}" for entry in caught}),
        "options": _plain(one.cell.options),
        "data": _digests(one.cell, data),
        "values": values,
    }
    one.path.parent.mkdir(parents=True, exist_ok=True)
    draft = one.path.with_suffix(".draft")
    draft.write_text(json.dumps(kept, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
    draft.replace(one.path)


def _plain(options: object) -> object:
    """Return options as they are read back from a file."""
    return json.loads(json.dumps(options))


def _digests(cell: Cell, data: DataFolder) -> dict[str, str]:
    return {name: data.digest(name)[:12] for name in cell.files}


@cache
def commit() -> str:
    """Return the commit of the code, with + if code was changed since; "unknown" outside a repository.

    Stored cells are no code: a run that writes them does not change what it runs.
    """
    here = Path(__file__).parents[1]

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=here, capture_output=True, text=True, check=True).stdout.strip()

    try:
        return git("rev-parse", "--short=12", "HEAD") + (
            "+" if git("status", "--porcelain", "--", ".", ":(exclude)stored") else ""
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def stored_rows(figure: str, folder: Path = FOLDER) -> tuple[list[Row], set[str]]:
    """Return the stored rows of a figure, and the commits they come from."""
    rows: list[Row] = []
    commits = set()
    for path in sorted((folder / figure).glob("*.json")):
        kept = json.loads(path.read_text(encoding="utf-8"))
        commits.add(str(kept["commit"]))
        run = int(path.stem.rpartition("run")[2])
        rows += [
            row(panel=panel, curve=curve, calibration=REPLICA, x=x, measure="", value=value, run=run, original=figure)
            for panel, curves in kept["values"].items()
            for curve, points in curves.items()
            for x, value in points
        ]
    return rows, commits


def summarise(experiments: Sequence[Experiment], folder: Path = FOLDER) -> list[Path]:
    """Write mean, spread and number of runs of every stored point, a small table per figure, beside the cells."""
    found = []
    for experiment in experiments:
        replica = None if experiment.replica is None else experiment.replica()
        rows = [] if replica is None else stored_rows(replica.figure, folder)[0]
        if replica is not None and rows:
            named = [{**r, "measure": replica.panels[str(r["panel"])].y} for r in rows]
            found.append(store(experiment.name, named, folder.parent))
    return found


def stored_comparison(
    experiments: Sequence[Experiment], data: DataFolder, folder: Path = FOLDER
) -> dict[str, list[ComparedPoint]]:
    """Return the comparison of the stored full run with the authors' points, by figure."""
    found = {}
    for replica in _compared(experiments):
        points = paper_points(data, replica)
        compared = compared_points(Results(stored_rows(replica.figure, folder)[0]), points, replica)
        if compared:
            found[f"Figure {replica.figure}"] = compared
    return found
