"""Every example in a docstring runs as printed."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import dpcape

# Modules of optional extras are run where the extra is installed.
OPTIONAL = ("nvflare", "numba", "nibabel", "nilearn", "pyarrow", "matplotlib")


def module_names() -> list[str]:
    found = [info.name for info in pkgutil.walk_packages(dpcape.__path__, "dpcape.", onerror=lambda _: None)]
    return ["dpcape", *(name for name in found if not name.endswith("__main__"))]


@pytest.mark.parametrize("name", module_names())
def test_examples_run_as_printed(name: str) -> None:
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] in OPTIONAL:
            pytest.skip(f"{error.name} is not installed")
        raise
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    assert doctest.testmod(module, optionflags=flags).failed == 0


def test_there_are_examples() -> None:
    finder = doctest.DocTestFinder()
    for name in ("dpcape.estimators.pca", "dpcape.federation.federation", "dpcape.privacy.gaussian"):
        tests = finder.find(importlib.import_module(name))
        assert any(test.examples for test in tests), name
