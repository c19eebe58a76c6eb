"""Cells name their functions by module: made experiments must be importable in other processes too."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))

# Tests of the authors' own data need them beside the project; without them these tests are skipped.
BESIDE = Path(__file__).resolve().parents[2].parent / "shared" / "data"
if BESIDE.is_dir():
    os.environ.setdefault("DPCAPE_DATA", str(BESIDE))
