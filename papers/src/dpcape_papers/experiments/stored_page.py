"""Generator of the stored rates in docs/papers/figures.md.

Run ``python -m dpcape_papers.experiments.stored_page docs/papers/figures.md FOLDER`` with the folder of the data.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from dpcape_papers.experiments.data import DataFolder
from dpcape_papers.experiments.full import stored_comparison
from dpcape_papers.experiments.registry import experiments
from dpcape_papers.experiments.replica import ComparedPoint, rate, summary

BEGIN, END = "<!-- stored rates: begin -->\n", "<!-- stored rates: end -->"


def page(text: str, data: DataFolder) -> str:
    """Return the page with the stored rates between its two marks."""
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n{rates_of(data)}\n{rest[rest.index(END) :]}"


def rates_of(data: DataFolder) -> str:
    """Return the three rates of every figure whose numbers are stored, and of all, as a table."""
    compared = stored_comparison(list(experiments().values()), data)
    figures = sorted(compared.items(), key=lambda entry: [int(part) for part in entry[0].split()[-1].split(".")])
    lines = ["| | Runs | All points | Settings agree | Settings differ | Median ratio |", "|---|---|---|---|---|---|"]
    lines += [_line(label, points) for label, points in figures]
    return "\n".join([*lines, _line("All", [one for _, points in figures for one in points]), ""])


def _line(label: str, points: Sequence[ComparedPoint]) -> str:
    found = summary(points)
    rates = [rate(found[f"{name}_within"], found[name]) for name in ("points", "agreeing", "excused")]  # type: ignore[literal-required]
    return f"| {label} | {min(one['n_runs'] for one in points)} | {' | '.join(rates)} | {found['median_ratio']:.3f} |"


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.write_text(page(target.read_text(encoding="utf-8"), DataFolder(Path(sys.argv[2]))), encoding="utf-8")
