"""One cell in a process of its own: fit a study of a width under a limit, and print what it took.

Run: python -m experiments.memory.cell ANALYSIS WIDTH LIMIT_GIB [CPU_SECONDS]
"""

from __future__ import annotations

import json
import resource
import sys
import time
import warnings
from pathlib import Path

from experiments.memory.studies import STUDIES, WideStudy

from dpcape import Cape, Federation, Ledger, in_process
from dpcape.analyses.footprint import footprint_of
from dpcape.core.errors import DpcapeError, Failed

_STATUS = Path("/proc/self/status")


def _resident(name: str) -> int:
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) * 1024


def _federation(study: WideStudy, width: int, ledgers: dict[str, Ledger]) -> Federation:
    return Federation(in_process(study.held(width), ledgers=ledgers), protocol=Cape(n_colluding=1))


def measured(name: str, width: int, limit: float) -> dict[str, object]:
    """Return whether the study finished or was refused, and the resident peak over what it was before."""
    study = STUDIES[name]
    first = study.widths[0]
    # Loads what is imported on first use.
    study.make(first).fit(_federation(study, first, {}))
    ledgers = {site: Ledger() for site in study.held(first)}
    federation, model = _federation(study, width, ledgers), study.make(width)
    needed = footprint_of(model.analysis, model.public(federation))
    n_bytes = int(limit * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (n_bytes, n_bytes))
    before, start = _resident("VmRSS"), time.process_time()
    Path("/proc/self/clear_refs").write_text("5")
    said = ""
    try:
        model.fit(federation)
        outcome = "finished"
    except (DpcapeError, MemoryError) as error:
        outcome = "refused" if isinstance(error, Failed) and "of memory" in str(error) else "failed"
        said = f"{type(error).__name__}: {error}"
    spent = any(ledger.charges for ledger in ledgers.values())
    peak = _resident("VmHWM") - before
    declared = needed.in_one_process(len(ledgers))
    return {
        "analysis": name,
        "width": width,
        "limit": limit,
        "outcome": outcome,
        "spent": spent,
        "declared": round(declared),
        "peak": peak,
        "ratio": round(peak / declared, 3),
        "footprint": [round(part) for part in (needed.site, needed.held, needed.coordinator, needed.postprocessing)],
        "seconds": round(time.process_time() - start, 1),
        "said": said,
    }


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if len(sys.argv) > 4:
        resource.setrlimit(resource.RLIMIT_CPU, (int(sys.argv[4]), int(sys.argv[4])))
    print(json.dumps(measured(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))))
