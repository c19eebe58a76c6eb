"""CPU seconds until something can be done: imports, a first fit with scores, and ``dpcape plan`` from the command line.

Each is a fresh process, interleaved with an interpreter that imports nothing, whose time is subtracted from that of
``import dpcape``. An estimator is one of the import's names, so that it alone is loaded.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import sysconfig
from pathlib import Path

from timing import Ratio, show

FIRST = """
import numpy as np
from dpcape import PCA, Cape, Federation, in_process, rows
data = 0.3 * np.random.default_rng(0).normal(size=(200, 4))
records = {site: rows(data, bound=1.0) for site in ("lima", "lyon", "oslo")}
federation = Federation(in_process(records), protocol=Cape(n_colluding=0))
PCA(2, epsilon=50.0, delta=1e-5).fit(federation).transform(data)
"""
COMMANDS = {
    "nothing": [sys.executable, "-c", "pass"],
    "import": [sys.executable, "-c", "import dpcape"],
    "estimator": [sys.executable, "-c", "from dpcape import PCA"],
    "first": [sys.executable, "-W", "ignore", "-c", FIRST],
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
    """Print all."""
    found: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(11):
        for name, command in COMMANDS.items():
            found[name].append(seconds(command))
    alone = statistics.median(found["nothing"])
    show("import dpcape, CPU seconds", Ratio.of([time - alone for time in found["import"]]), "<= 0.05")
    show("from dpcape import PCA, CPU seconds", Ratio.of(found["estimator"]), "<= 0.6")
    show("first fit and scores, CPU seconds", Ratio.of(found["first"]), "<= 0.8")
    show("dpcape plan, CPU seconds", Ratio.of(found["plan"]), "<= 0.6")


if __name__ == "__main__":
    main()
