"""Families of estimators: a folder holds what its family alone uses, and its post-processing is under contract."""

from __future__ import annotations

import configparser
from pathlib import Path

import pytest

import dpcape

from .source import PACKAGE, ROOT, imported, nodes, source_files

ROOMS = ("dpcape.estimators.", "dpcape.postprocessing.")


def name_of(path: Path) -> str:
    return ".".join(["dpcape", *path.relative_to(PACKAGE).with_suffix("").parts]).removesuffix(".__init__")


MODULES = {name_of(path): path for path in source_files()}


def imports(module: str) -> set[str]:
    """Return the modules of dpcape that a module imports, at its top or inside functions."""
    named = {name for node in nodes(MODULES[module]) for name in imported(node)}
    return {module for name in named for module in (name, name.rpartition(".")[0]) if module in MODULES}


IMPORTS = {module: imports(module) for module in MODULES}


def reached(starts: set[str]) -> set[str]:
    """Return the modules of estimators and post-processing that some modules import, directly or not."""
    found, left = set[str](), set(starts)
    while left:
        module = left.pop()
        found.add(module)
        left |= {name for name in IMPORTS[module] if name.startswith(ROOMS)} - found
    return found


def families() -> dict[str, set[str]]:
    """Return the modules of each family: a folder, or a file that defines an estimator."""
    found: dict[str, set[str]] = {}
    for module in MODULES:
        if module.startswith("dpcape.estimators.") and module.count(".") == 3:
            found.setdefault(module.split(".")[2], set()).add(module)
    flat = {f"dpcape.{place}" for place in dpcape._WHERE.values() if place.startswith("estimators.")}
    return found | {module: {module} for module in flat if module.count(".") == 2}


def under_contract() -> set[str]:
    contract = configparser.ConfigParser()
    contract.read(ROOT / ".importlinter", encoding="utf-8")
    return set(contract["importlinter:contract:postprocessing"]["source_modules"].split())


USED = {family: reached(modules) for family, modules in families().items()}


@pytest.mark.parametrize("module", sorted(name for name in MODULES if name.startswith("dpcape.postprocessing.")))
def test_post_processing_of_one_family_stands_in_its_folder(module: str) -> None:
    users = sorted(family for family, modules in USED.items() if module in modules)
    assert len(users) > 1, f"move {module} to {users}"


def test_post_processing_in_folders_of_families_is_under_contract() -> None:
    """Whatever needs no study, no plan and no other estimator may not come to need one."""
    allowed = under_contract()
    below = tuple(f"dpcape.{room}." for room in ("core", "postprocessing", "results", "statistics", "tables"))
    folders = {module for family in families().values() for module in family if module.count(".") == 3}
    needs = {module: {name for name in IMPORTS[module] if not f"{name}.".startswith(below)} for module in folders}
    pure = {module for module, names in needs.items() if names <= allowed}
    assert pure == {module for module in allowed if module.count(".") == 3}
