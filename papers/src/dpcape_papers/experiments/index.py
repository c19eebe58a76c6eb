"""The index page of all figures reproduced so far: the verdicts first, then the pictures."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict, get_args

from jinja2 import Environment, PackageLoader, select_autoescape

from dpcape._version import __version__
from dpcape_papers.experiments.experiment import PAPERS, Outcome, Verdict
from dpcape_papers.experiments.folder import DRAWING, About, Reproduced, read_folder

_CLASSES = dict(zip(get_args(Outcome), ("holds", "conditions", "fails", "open"), strict=True))


class ShownFigure(TypedDict):
    """A figure as the template shows it; ``image`` is a data URL."""

    name: str
    about: About
    verdicts: Sequence[Verdict]
    image: str


class PaperGroup(TypedDict):
    """The figures of one paper."""

    title: str
    figures: list[ShownFigure]


def write_index(out: Path, names: Sequence[str]) -> Path:
    """Write ``index.html`` for those of the named experiments whose folders are complete, and return its path."""
    found = [read_folder(out / name) for name in names]
    figures = [_shown(one) for one in found if one is not None]
    environment = Environment(
        loader=PackageLoader("dpcape_papers.experiments"),
        autoescape=select_autoescape(),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    verdicts = [verdict for figure in figures for verdict in figure["verdicts"]]
    page = environment.get_template("index.html").render(
        figures=figures,
        papers=_by_paper(figures),
        classes=_CLASSES,
        n_known=len(names),
        n_verdicts=len(verdicts),
        n_quick=sum(figure["about"]["quick"] for figure in figures),
        counts=outcome_counts([verdict.outcome for verdict in verdicts]),
        version=__version__,
    )
    path = out / "index.html"
    out.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")
    return path


def outcome_counts(outcomes: Sequence[str]) -> str:
    """Return the number of claims with each outcome, in words."""
    counts = Counter(outcomes)
    words = dict(zip(get_args(Outcome), ("hold", "hold under conditions", "fail", "not shown"), strict=True))
    return ", ".join(
        f"{counts[outcome]} {outcome if counts[outcome] == 1 else word}" for outcome, word in words.items()
    )


def _shown(figure: Reproduced) -> ShownFigure:
    # Embedded as an image, because the identifiers of thirty inline drawings would collide.
    drawing = base64.b64encode((figure.path / DRAWING).read_bytes()).decode()
    return {
        "name": figure.name,
        "about": figure.about,
        "verdicts": figure.verdicts,
        "image": f"data:image/svg+xml;base64,{drawing}",
    }


def _by_paper(figures: Sequence[ShownFigure]) -> list[PaperGroup]:
    groups: list[PaperGroup] = [
        {"title": title, "figures": [figure for figure in figures if figure["about"]["paper"] == paper]}
        for paper, title in PAPERS.items()
    ]
    return [group for group in groups if group["figures"]]
