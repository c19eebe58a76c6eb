"""All estimator cases, gathered from the files ``estimators_<topic>.py`` beside this one.

Loaded by path, so that tests of other folders can use them too.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, eq=False)
class EstimatorCase:
    """An estimator at one setting and the records of four sites; see ``estimators_core.py``."""

    label: str
    make: Callable[[Any, float], Any]
    records: Callable[[], dict[str, Any]]
    fitted: dict[str, float]

    @property
    def estimator(self) -> str:
        """Name of the class."""
        return type(self.make(1.0, 1e-5)).__name__

    def __str__(self) -> str:
        return self.label


def all_estimators() -> list[EstimatorCase]:
    """Return every case; labels are unique."""
    found: dict[str, EstimatorCase] = {}
    for path in sorted(Path(__file__).parent.glob("estimators_*.py")):
        spec = importlib.util.spec_from_file_location(f"dpcape_{path.stem}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for label, (make, records, fitted) in module.CASES.items():
            assert label not in found, f"two cases are called {label}"
            found[label] = EstimatorCase(label, make, records, fitted)
    return list(found.values())
