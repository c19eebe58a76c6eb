"""Run every benchmark of this folder and print one table: what, ratio, spread, goal, and whether it is met.

The table is stored as ``benchmarks/results/COMMIT.json`` if the tree has no changes. A benchmark that fails is named at
the end; the others are run all the same.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table
from timing import STORE

HERE = Path(__file__).parent
NOT_BENCHMARKS = {"engine_bytes", "kernel", "run", "timing"}
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def main() -> int:
    """Run the named benchmarks, or all, each in a fresh process with one thread."""
    names = sys.argv[1:] or sorted(path.stem for path in HERE.glob("*.py") if path.stem not in NOT_BENCHMARKS)
    with tempfile.TemporaryDirectory() as place:
        found = {name: measured(name, Path(place) / f"{name}.jsonl") for name in names}
    failed = [name for name, lines in found.items() if lines is None]
    results = [{"benchmark": name, **line} for name, lines in found.items() for line in lines or ()]
    Console(width=150).print(table_of(results))
    commit = unchanged_commit()
    if commit and not failed and not sys.argv[1:]:
        path = HERE / "results" / f"{commit}.json"
        path.parent.mkdir(exist_ok=True)
        stored = {"commit": commit, "date": f"{datetime.now(UTC):%Y-%m-%d}", "machine": machine(), "results": results}
        path.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
        print(f"Stored as {path.relative_to(HERE.parent)}.")
    if failed:
        print(f"Not measured because they failed: {', '.join(failed)}.")
    return 1 if failed else 0


def measured(name: str, store: Path) -> list[dict[str, object]] | None:
    """Return what a benchmark stored, or None if it failed."""
    print(f"\n== {name} ==", flush=True)
    environment = {**os.environ, **dict.fromkeys(THREADS, "1"), STORE: str(store)}
    done = subprocess.run([sys.executable, str(HERE / f"{name}.py")], env=environment, check=False)
    if done.returncode:
        return None
    lines = store.read_text(encoding="utf-8").splitlines() if store.exists() else []
    return [json.loads(line) for line in lines]


def table_of(results: list[dict[str, object]]) -> Table:
    """Return one table of all ratios."""
    made = Table(title="Ratios: medians of interleaved pairs, with their quartiles")
    for title in ("benchmark", "what", "ratio", "spread", "goal", ""):
        made.add_column(title, justify="right" if title in ("ratio", "spread") else "left")
    for line in results:
        low, high = line["low"], line["high"]
        spread = "" if low is None else f"{low:.2f} to {high:.2f}"
        made.add_row(
            str(line["benchmark"]), str(line["what"]), f"{line['ratio']:.2f}", spread, str(line["goal"]), judged(line)
        )
    return made


def judged(line: dict[str, object]) -> str:
    """Return whether a goal such as "<= 1.5" is met; nothing where there is none."""
    goal = re.match(r"\s*(<=|>=|<|>)\s*([0-9.]+)", str(line["goal"]))
    if goal is None:
        return ""
    ratio, end = float(str(line["ratio"])), float(goal[2])
    return "met" if (ratio <= end if goal[1].startswith("<") else ratio >= end) else "missed"


def unchanged_commit() -> str:
    """Return the short name of the commit that is measured, or nothing if files differ from it."""
    git = ["git", "-C", str(HERE)]
    if subprocess.run([*git, "status", "--porcelain"], capture_output=True, text=True, check=False).stdout.strip():
        return ""
    return subprocess.run(
        [*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()


def machine() -> str:
    """Return what the figures were measured on."""
    return f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"


if __name__ == "__main__":
    sys.exit(main())
