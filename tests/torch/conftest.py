"""Tests of served sites use the federation of the engine's tests. This folder is no package: it would hide PyTorch."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
