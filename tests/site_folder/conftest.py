"""A consortium of three site folders with small tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from .consortium import SITES, Consortium


@pytest.fixture
def consortium(tmp_path: Path) -> Consortium:
    rng = np.random.default_rng(3)
    for name in SITES:
        table = rng.normal(size=(60, 3)) * 0.3
        np.savetxt(tmp_path / f"{name}.csv", table, delimiter=",", header="a,b,c", comments="")
    return Consortium(tmp_path)
