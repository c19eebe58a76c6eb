"""Print the law of the kernel for every statistic: ``python -m tests.laws.law_table``.

Mutants of it are in ``test_kernel.py``.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np

from .kernel_law import broken, is_summed
from .statistic_case import Case
from .wide import WIDE


def line(case: Case) -> str:
    """Return one line: statistic, columns, jumps that were found, and where the law does not hold."""
    if not is_summed(case):
        return f"{case!s:<52} adds for itself"
    with np.errstate(all="ignore"):
        n_jumps, found = broken(case, 6)
    return f"{case!s:<52} {case.n_parameters:>6} numbers {n_jumps:>4} jumps   {'; '.join(found) or 'holds'}"


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for case in WIDE:
        sys.stdout.write(line(case) + "\n")
        sys.stdout.flush()
    sys.stdout.write(f"{len({case.name for case in WIDE})} statistics, {len(WIDE)} cases\n")
