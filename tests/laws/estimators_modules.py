"""Case of a registered network of somebody else."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np

from dpcape import TorchClassifier, labelled


def _registered() -> str:
    """Load the network beside this file, which registers it, and return its name; cases are loaded by path too."""
    path = Path(__file__).with_name("own_modules.py")
    spec = importlib.util.spec_from_file_location("dpcape_own_modules", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    name: str = module.Bent.name
    return name


NAME = _registered()


def _with_classes() -> dict[str, Any]:
    generator = np.random.default_rng(2)
    held = {}
    for site in ("lyon", "oslo", "lima", "rome"):
        X = generator.uniform(-0.5, 0.5, (150, 3))
        held[site] = labelled(X, (X[:, 0] > 0).astype(int), bound=1.0, classes=[0, 1])
    return held


CASES: dict[str, tuple[Any, Any, dict[str, float]]] = {
    "TorchClassifier": (lambda e, d: TorchClassifier(NAME, epsilon=e, delta=d, n_iter=3), _with_classes, {}),
}
