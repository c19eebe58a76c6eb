"""The output folder of one figure: data.csv, figure.png, figure.svg, verdicts.json and about.json."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TypedDict

import matplotlib as mpl
import matplotlib.pyplot as plt

from dpcape._version import __version__
from dpcape_papers.experiments.cache import CachedRows, library_versions
from dpcape_papers.experiments.experiment import Cell, Experiment, RunSetting, Verdict
from dpcape_papers.experiments.results import Results

DATA, PICTURE, DRAWING, VERDICTS, ABOUT = "data.csv", "figure.png", "figure.svg", "verdicts.json", "about.json"


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


def write_folder(
    out: Path, experiment: Experiment, setting: RunSetting, done: Sequence[tuple[Cell, CachedRows]]
) -> list[Verdict]:
    """Draw and judge the rows of an experiment, write its folder, and return the verdicts."""
    results = Results(row for _, kept in done for row in kept.rows)
    verdicts = experiment.judge(results)
    folder = out / experiment.name
    folder.mkdir(parents=True, exist_ok=True)
    # Verdicts and about.json are written last: without them a folder counts as incomplete.
    results.write(folder / DATA)
    _draw(experiment, results, folder)
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
    return Reproduced(path.name, path, found, verdicts) if (path / DRAWING).is_file() else None


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


def _draw(experiment: Experiment, results: Results, folder: Path) -> None:
    figure = experiment.draw(results)
    try:
        figure.savefig(folder / PICTURE, dpi=130)
        # No date and no random identifiers, so that the same rows give the same file.
        with mpl.rc_context({"svg.hashsalt": experiment.name}):
            figure.savefig(folder / DRAWING, metadata={"Date": None})
    finally:
        plt.close(figure)


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
