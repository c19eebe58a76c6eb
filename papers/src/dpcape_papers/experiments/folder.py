"""The output folder of one figure: data.csv, figure.png, figure.svg, verdicts.json and about.json."""

from __future__ import annotations

import csv
import json
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TypedDict

import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from dpcape.core._version import __version__
from dpcape_papers.experiments.authors_setting import in_authors_setting
from dpcape_papers.experiments.cache import CachedRows, library_versions
from dpcape_papers.experiments.experiment import Cell, Experiment, RunSetting, Verdict
from dpcape_papers.experiments.replica import (
    ComparedPoint,
    Replica,
    compared_points,
    paper_points,
    paper_rows,
    with_ratios,
)
from dpcape_papers.experiments.results import Results, Row, require_guarantees

DATA, PICTURE, DRAWING, VERDICTS, ABOUT = "data.csv", "figure.png", "figure.svg", "verdicts.json", "about.json"
COMPARED, REPLICA_DRAWING = "compared.json", "paper.svg"


class CellFacts(TypedDict):
    """One cell in about.json: its function, its options and its processor time."""

    compute: str
    options: dict[str, object]
    seconds: float


class About(TypedDict):
    """The content of about.json."""

    name: str
    paper: str
    label: str
    title: str
    substitutes: str
    note: str
    explained: str
    replica: str
    verified_note: str
    quick: bool
    seconds: float
    versions: dict[str, str]
    data: dict[str, str]
    warnings: list[str]
    cells: list[CellFacts]


@dataclass(frozen=True)
class Reproduced:
    """The content of an output folder."""

    name: str
    path: Path
    about: About
    verdicts: Sequence[Verdict]
    compared: Sequence[ComparedPoint] | None = None


def write_folder(
    out: Path, experiment: Experiment, setting: RunSetting, done: Sequence[tuple[Cell, CachedRows]]
) -> list[Verdict]:
    """Draw and judge the rows of an experiment, write its folder, and return the verdicts."""
    rows = [row for _, kept in done for row in kept.rows]
    require_guarantees(rows)
    results, original = (Results(r for r in rows if ("original" in r) is wanted) for wanted in (False, True))
    folder = out / experiment.name
    folder.mkdir(parents=True, exist_ok=True)
    # Verdicts and about.json are written last: without them a folder counts as incomplete.
    (folder / ABOUT).unlink(missing_ok=True)
    replica = None if experiment.replica is None else experiment.replica()
    judge = partial(experiment.judge, quick=setting.quick)
    verdicts = judge(results) if replica is None else in_authors_setting(judge, results, original, replica)
    drawn, more = _compare(replica, original, results, setting, folder)
    verdicts += more
    Results([*results, *drawn]).write(folder / DATA)
    _save(experiment.draw(results), folder, PICTURE, DRAWING, salt=experiment.name)
    _write_json(folder / VERDICTS, [asdict(verdict) for verdict in verdicts])
    _write_json(folder / ABOUT, about(experiment, setting, done))
    return verdicts


def read_folder(path: Path) -> Reproduced | None:
    """Return the content of a folder, or None if the folder is incomplete."""
    try:
        found = json.loads((path / ABOUT).read_text(encoding="utf-8"))
        verdicts = [Verdict(**entry) for entry in json.loads((path / VERDICTS).read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError):
        return None
    if not (path / DRAWING).is_file():
        return None
    return Reproduced(path.name, path, found, verdicts, _read_compared(path / COMPARED))


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a folder's data.csv, with numbers where a number is written; empty if there is none."""
    if not (path / DATA).is_file():
        return []
    with (path / DATA).open(newline="", encoding="utf-8") as file:
        return [{**r, "x": float(r["x"]), "value": float(r["value"])} for r in csv.DictReader(file)]


def _read_compared(path: Path) -> Sequence[ComparedPoint] | None:
    if not path.is_file():
        return None
    points: list[ComparedPoint] = json.loads(path.read_text(encoding="utf-8"))
    return points


def _compare(
    replica: Replica | None, original: Results, own: Results, setting: RunSetting, folder: Path
) -> tuple[list[Row], list[Verdict]]:
    """Compare with the authors' numbers, write and draw the comparison, and return its rows and verdicts."""
    for name in (COMPARED, REPLICA_DRAWING):
        (folder / name).unlink(missing_ok=True)
    points = [] if replica is None else paper_points(setting.data, replica)
    if replica is None or not points or not len(original):
        return [], []
    compared = compared_points(original, points, replica)
    rows = [*with_ratios(original, compared), *paper_rows(points, replica)]
    from dpcape_papers.experiments.replica_picture import draw_replica

    _save(draw_replica(replica, Results(rows), own), folder, "paper.png", REPLICA_DRAWING, salt=replica.figure)
    _write_json(folder / COMPARED, compared)
    return rows, replica.judge(Results(rows), compared)


def about(experiment: Experiment, setting: RunSetting, done: Sequence[tuple[Cell, CachedRows]]) -> About:
    """Return the provenance of the numbers: options with seeds, versions, data digests and times."""
    files = sorted({name for cell, _ in done for name in cell.files})
    return {
        "name": experiment.name,
        "paper": experiment.paper,
        "label": experiment.label,
        "title": experiment.title,
        "substitutes": experiment.substitutes,
        "note": experiment.note,
        "explained": "" if experiment.replica is None else experiment.replica().explained,
        "replica": "" if experiment.replica is None else experiment.replica().figure,
        "verified_note": "" if experiment.replica is None else experiment.replica().verified_note,
        "quick": setting.quick,
        "seconds": round(sum(kept.seconds for _, kept in done), 3),
        "versions": {
            "dpcape": __version__,
            "python": platform.python_version(),
            **library_versions(),
            "matplotlib": version("matplotlib"),
        },
        "data": {name: setting.data.digest(name) for name in files},
        "warnings": sorted({text for _, kept in done for text in kept.warnings}),
        "cells": [
            {
                "compute": f"{cell.compute.__module__}.{cell.compute.__qualname__}",
                "options": dict(cell.options),
                "seconds": round(kept.seconds, 3),
            }
            for cell, kept in done
        ],
    }


def _save(figure: Figure, folder: Path, picture: str, drawing: str, *, salt: str) -> None:
    try:
        figure.savefig(folder / picture, dpi=130)
        # No date and no random identifiers, so that the same rows give the same file.
        with mpl.rc_context({"svg.hashsalt": salt}):
            figure.savefig(folder / drawing, metadata={"Date": None})
    finally:
        plt.close(figure)


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
