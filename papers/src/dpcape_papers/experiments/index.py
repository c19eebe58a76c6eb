"""The index page of all figures reproduced so far: summary, comparison, pictures, claims, then every figure."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypedDict, get_args

from jinja2 import Environment, PackageLoader, select_autoescape

from dpcape.core._version import __version__
from dpcape_papers.experiments.experiment import PAPERS, SHORT, Outcome, Verdict
from dpcape_papers.experiments.folder import DRAWING, REPLICA_DRAWING, About, Reproduced, read_folder
from dpcape_papers.experiments.replica import ComparedPoint, Summary, rate, summary

_CLASSES = dict(zip(get_args(Outcome), ("holds", "conditions", "fails", "open"), strict=True))
NOT_COMPARED = "not compared: data not given"


class ShownFigure(TypedDict):
    """A figure as the template shows it; ``image`` and ``compared_image`` are data URLs, the latter may be empty."""

    name: str
    about: About
    verdicts: Sequence[Verdict]
    image: str
    compared_image: str
    compared: Sequence[ComparedPoint]
    summary: Summary | None
    reasons: list[str]
    explained: str


class PaperGroup(TypedDict):
    """The figures of one paper, and the number of its claims with each outcome."""

    key: str
    title: str
    figures: list[ShownFigure]
    counts: dict[str, int]


def write_index(out: Path, names: Sequence[str]) -> Path:
    """Write ``index.html`` for those of the named experiments whose folders are complete, and return its path."""
    figures = [_shown(one) for one in _found(out, names)]
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
        whole=summary(_once((figure["about"], figure["compared"]) for figure in figures)),
        not_compared=NOT_COMPARED,
        short=SHORT,
        rate=rate,
        version=__version__,
    )
    path = out / "index.html"
    out.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")
    return path


def comparison_table(out: Path, names: Sequence[str]) -> str:
    """Return the comparison with the authors' numbers as text: a line per figure, and one for all."""
    shown = [one for one in _found(out, names) if one.compared]
    compared = {f"{one.about['paper']}, {one.about['label']}": one.compared or () for one in shown}
    return rates_table(compared, _once((one.about, one.compared or ()) for one in shown))


def rates_table(
    compared: Mapping[str, Sequence[ComparedPoint]], everything: Sequence[ComparedPoint] | None = None
) -> str:
    """Return the three rates of every figure, and of all together (``everything``, if figures repeat each other)."""
    if not compared:
        return f"Comparison with the papers' numbers: {NOT_COMPARED}."
    lines = [
        f"{'Within the spread':<26}{'all points':>16}{'settings agree':>16}{'excused':>16}{'median ratio':>14}",
    ]
    if everything is None:
        everything = [point for points in compared.values() for point in points]
    for label, points in (*compared.items(), ("All", everything)):
        found = summary(points)
        rates = [rate(found["points_within"], found["points"]), rate(found["agreeing_within"], found["agreeing"])]
        rates.append(rate(found["excused_within"], found["excused"]))
        lines.append(f"{label:<26}" + "".join(f"{one:>16}" for one in rates) + f"{found['median_ratio']:>14.3f}")
    return "\n".join(lines)


def _once(figures: Iterable[tuple[About, Sequence[ComparedPoint]]]) -> list[ComparedPoint]:
    """Return the points of all figures; a figure that two texts print is counted once."""
    kept: dict[str, Sequence[ComparedPoint]] = {}
    for about, points in figures:
        if points:
            kept.setdefault(about.get("replica") or about["name"], points)
    return [point for points in kept.values() for point in points]


def _found(out: Path, names: Sequence[str]) -> list[Reproduced]:
    return [one for one in (read_folder(out / name) for name in names) if one is not None]


def outcome_counts(outcomes: Sequence[str]) -> str:
    """Return the number of claims with each outcome, in words."""
    counts = Counter(outcomes)
    words = dict(zip(get_args(Outcome), ("hold", "hold under conditions", "fail", "not shown"), strict=True))
    return ", ".join(
        f"{counts[outcome]} {outcome if counts[outcome] == 1 else word}" for outcome, word in words.items()
    )


def _shown(figure: Reproduced) -> ShownFigure:
    compared = figure.compared or ()
    return {
        "name": figure.name,
        "about": figure.about,
        "verdicts": figure.verdicts,
        "image": _embedded(figure.path / DRAWING),
        "compared_image": _embedded(figure.path / REPLICA_DRAWING),
        "compared": compared,
        "summary": summary(compared) if compared else None,
        "reasons": sorted({point["reason"] for point in compared if point["reason"]}),
        "explained": figure.about.get("explained", ""),
    }


def _embedded(path: Path) -> str:
    """Return a drawing as a data URL; the identifiers of thirty inline drawings would collide."""
    if not path.is_file():
        return ""
    return f"data:image/svg+xml;base64,{base64.b64encode(path.read_bytes()).decode()}"


def _by_paper(figures: Sequence[ShownFigure]) -> list[PaperGroup]:
    groups: list[PaperGroup] = []
    for paper, title in PAPERS.items():
        chosen = [figure for figure in figures if figure["about"]["paper"] == paper]
        counts = Counter(str(verdict.outcome) for figure in chosen for verdict in figure["verdicts"])
        if chosen:
            groups.append({"key": paper, "title": title, "figures": chosen, "counts": dict(counts)})
    return groups
