"""Every example in a docstring runs as printed."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import dpcape

# Modules of optional extras are run where the extra is installed.
OPTIONAL = ("nvflare", "numba", "nibabel", "nilearn", "pyarrow", "matplotlib")


def module_names() -> list[str]:
    found = [info.name for info in pkgutil.walk_packages(dpcape.__path__, "dpcape.", onerror=lambda _: None)]
    return ["dpcape", *(name for name in found if not name.endswith("__main__"))]


def test_examples_run_as_printed() -> None:
    """Run the examples of all modules; doctest prints those that fail."""
    failed = []
    for name in module_names():
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if (error.name or "").split(".")[0] not in OPTIONAL:
                raise
            continue
        if doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS).failed:
            failed.append(name)
    assert not failed, failed


def test_there_are_examples() -> None:
    finder = doctest.DocTestFinder()
    for name in ("dpcape.estimators.pca", "dpcape.federation.federation", "dpcape.core.privacy.gaussian"):
        tests = finder.find(importlib.import_module(name))
        assert any(test.examples for test in tests), name
