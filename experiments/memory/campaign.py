"""Whether every analysis keeps to the memory that it declares, or is refused before anything is spent.

Run: python -m experiments.memory.campaign [ANALYSIS ...] [--limits 4 2 1] [--again] [--seconds 60]

A cell is an analysis of a width under a limit of address space, in GiB, in a process of its own: three sites and the
coordinator together. It must finish, or be refused with nothing spent; and its resident peak above what was resident
before must be at most 1.3 times what was declared, and 16 MiB. ``campaign.jsonl`` has a line per cell, with the
commit of the code. A stored cell is not computed again, so a campaign can be done in several sittings.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from experiments.memory.studies import STUDIES

FILE = Path(__file__).with_name("campaign.jsonl")
ROOT = Path(__file__).parents[2]
MOST_RATIO, SLACK_BYTES = 1.3, 16 * 2**20
# A refused width makes wider ones under the same limit uninteresting: one more shows that they are refused too.
_AFTER_REFUSAL = 1


def judged(cell: dict[str, Any]) -> str:
    """Return what is wrong with a cell; empty if nothing is."""
    if cell["outcome"] == "refused":
        return "refused after something was spent" if cell["spent"] else ""
    if cell["outcome"] != "finished":
        return f"{cell['outcome']}{' after something was spent' if cell['spent'] else ''}"
    if cell["peak"] > MOST_RATIO * cell["declared"] + SLACK_BYTES:
        return f"took {cell['peak'] / cell['declared']:.2f} times what was declared"
    return ""


def computed(analysis: str, width: int, limit: float, seconds: int) -> dict[str, Any]:
    """Compute one cell in a process of its own."""
    given = (analysis, str(width), str(limit), str(seconds))
    command = [sys.executable, "-W", "ignore", "-m", "experiments.memory.cell", *given]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    cell = {"analysis": analysis, "width": width, "limit": limit, "spent": True, "declared": 1, "peak": 0, "ratio": 0.0}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if -done.returncode in (signal.SIGXCPU, signal.SIGKILL):
        return {**cell, "outcome": "too long", "said": f"more than {seconds} seconds"}
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        return {**cell, "outcome": "crashed", "said": done.stderr[-400:]}
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def stored() -> list[dict[str, Any]]:
    """Return the cells of all sittings; of one computed again, the last."""
    if not FILE.exists():
        return []
    lines = (json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines())
    return list({(cell["analysis"], cell["width"], cell["limit"]): cell for cell in lines}.values())


def code_version() -> str:
    """Return the commit of the code; "-dirty" after it if anything but stored cells was changed since."""
    described = subprocess.run(
        ["git", "describe", "--always"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    others = ["git", "diff", "--quiet", "HEAD", "--", ".", f":(exclude){FILE.relative_to(ROOT)}"]
    return described + ("-dirty" if subprocess.run(others, cwd=ROOT, check=False).returncode else "")


def run(names: Iterable[str], limits: Sequence[float], seconds: int, *, again: bool) -> int:
    """Compute the cells that are not stored; return how many are wrong."""
    commit = code_version()
    known = {} if again else {(cell["analysis"], cell["width"], cell["limit"]): cell for cell in stored()}
    n_wrong = 0
    for name in names:
        for limit in limits:
            n_refused = 0
            for width in STUDIES[name].widths[1:]:
                cell = known.get((name, width, limit))
                if cell is None:
                    cell = {**computed(name, width, limit, seconds), "commit": commit}
                    with FILE.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(cell) + "\n")
                wrong = judged(cell)
                n_wrong += bool(wrong)
                shown = f"{cell['declared'] / 1e6:9.0f} MB declared, {cell['peak'] / 1e6:9.0f} MB taken"
                print(
                    f"{name:34s} {width:8d} {limit:4g} GiB {cell['outcome']:9s} {shown}, {cell['ratio']:.2f} {wrong}",
                    flush=True,
                )
                n_refused += cell["outcome"] == "refused"
                if n_refused > _AFTER_REFUSAL:
                    break
    return n_wrong


def _line(cell: dict[str, Any]) -> str:
    name = f"{cell['analysis']:34s} {cell['width']:8d} {cell['limit']:4g} GiB {cell['outcome']:9s}"
    return f"{name} {cell['declared'] / 1e6:9.0f} MB declared, {cell['peak'] / 1e6:9.0f} taken, {cell['ratio']:.2f}"


def main() -> int:
    """Read the command line and run the campaign."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *STUDIES], metavar="ANALYSIS", default=[])
    parser.add_argument("--limits", nargs="+", type=float, default=[4.0, 2.0, 1.0])
    parser.add_argument("--seconds", type=int, default=60, help="of processor time, for a cell")
    parser.add_argument("--again", action="store_true", help="compute stored cells again")
    given = parser.parse_args()
    return 1 if run(given.names or STUDIES, given.limits, given.seconds, again=given.again) else 0


if __name__ == "__main__":
    sys.exit(main())
