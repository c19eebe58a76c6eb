"""Fixtures for noise tests: the statistical helpers, loaded from the file beside this one."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"noise_tests_{name}", Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def distribution() -> ModuleType:
    """The tests of hypotheses in distribution.py; each has a stated false-alarm probability."""
    return _load("distribution")


@pytest.fixture(scope="session")
def exact() -> ModuleType:
    """Reference values in rational arithmetic, from exact.py."""
    return _load("exact")
