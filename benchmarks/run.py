"""Run every benchmark of this folder; each prints ratios with their goals."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main() -> None:
    """Run the named benchmarks, or all, each in a fresh process with one thread."""
    names = sys.argv[1:] or sorted(path.stem for path in HERE.glob("*.py") if path.stem not in {"run", "timing"})
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    for name in names:
        print(f"\n== {name} ==", flush=True)
        subprocess.run([sys.executable, str(HERE / f"{name}.py")], env={**os.environ, **threads}, check=True)


if __name__ == "__main__":
    main()
