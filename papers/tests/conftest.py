"""Cells name their functions by module: made experiments must be importable in other processes too."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
