"""CPU seconds until something can be done: ``import dpcape``, and ``dpcape plan`` from the command line.

Each is a fresh process, interleaved with an interpreter that imports nothing, whose time is subtracted from that of the
import.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import sysconfig
from pathlib import Path

from timing import Ratio, show

COMMANDS = {
    "nothing": [sys.executable, "-c", "pass"],
    "import": [sys.executable, "-c", "import dpcape"],
    "plan": [
        str(Path(sysconfig.get_path("scripts")) / "dpcape"),
        *("plan", "--analysis", "pca", "--features", "20", "--epsilon", "1", "--delta", "1e-6"),
        *("--records", "4000", "--sites", "4", "--protocol", "cape", "--colluding", "1"),
    ],
}


def seconds(command: list[str]) -> float:
    """Return the CPU seconds of a process."""
    before = os.times()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def main() -> None:
    """Print both."""
    found: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(11):
        for name, command in COMMANDS.items():
            found[name].append(seconds(command))
    alone = statistics.median(found["nothing"])
    show("import dpcape, CPU seconds", Ratio.of([time - alone for time in found["import"]]), "<= 0.05")
    show("dpcape plan, CPU seconds", Ratio.of(found["plan"]), "<= 0.6")


if __name__ == "__main__":
    main()
