"""Rules of the source: where randomness comes from, what is documented, how large files are."""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import dpcape

from .source import PACKAGE, ROOT, dotted, imported, nodes, source_files, where

# Everything between records and what leaves a site, and everything a guarantee is computed from.
PROTECTIVE = (
    "facts.py", "noise.py",
    "federation/", "privacy/", "protocols/", "records/", "secure_sum/", "site/", "statistics/", "transport/",
)  # fmt: skip
# Keys, nonces and Shamir coefficients; identifiers; the one sampler.
MAY_ASK_THE_SYSTEM = ("noise.py", "secure_sum/", "federation/", "site/folder.py")


def is_protective(path: Path) -> bool:
    return where(path).startswith(PROTECTIVE)


def test_the_list_of_protective_paths_is_about_real_files() -> None:
    names = [where(path) for path in source_files()]
    for entry in PROTECTIVE:
        assert any(name.startswith(entry) for name in names), entry


@pytest.mark.parametrize("path", [path for path in source_files() if is_protective(path)], ids=where)
def test_no_ordinary_generator_on_a_protective_path(path: Path) -> None:
    for node in nodes(path):
        for name in imported(node):
            assert name.split(".")[0] != "random", f"{where(path)} imports random"
            assert not name.startswith("numpy.random"), f"{where(path)} imports numpy.random"
        assert not dotted(node).startswith(("np.random", "numpy.random", "scipy.stats.")), where(path)


@pytest.mark.parametrize("path", source_files(), ids=where)
def test_generators_elsewhere_are_made_from_a_seed(path: Path) -> None:
    """Public randomness (start values, simulated data) is repeatable; the global generator is used nowhere."""
    for node in nodes(path):
        if isinstance(node, ast.Attribute) and dotted(node).startswith(("np.random.", "numpy.random.")):
            assert dotted(node).split(".")[2] in ("default_rng", "Generator", "SeedSequence", "BitGenerator"), where(
                path
            )
        if isinstance(node, ast.Call) and dotted(node.func).endswith("random.default_rng"):
            assert node.args or node.keywords, f"{where(path)} makes a generator without a seed"


@pytest.mark.parametrize("path", source_files(), ids=where)
def test_protective_randomness_is_drawn_in_one_place(path: Path) -> None:
    if where(path).startswith(MAY_ASK_THE_SYSTEM):
        return
    for node in nodes(path):
        names = [*imported(node), dotted(node)]
        for name in names:
            asks = name in ("os.urandom", "os.getrandom") or name.startswith("secrets.") or name == "secrets"
            assert not (asks and is_protective(path)), f"{where(path)} asks the system for randomness"


def test_the_rules_have_teeth(tmp_path: Path) -> None:
    culprit = tmp_path / "culprit.py"
    culprit.write_text("import numpy as np\nfrom numpy.random import normal\nx = np.random.normal()\n")
    found = [name for node in nodes(culprit) for name in (*imported(node), dotted(node)) if "random" in name]
    assert "numpy.random.normal" in found
    assert "np.random.normal" in found


@pytest.mark.parametrize("path", source_files(), ids=where)
def test_private_names_of_other_packages_are_left_alone(path: Path) -> None:
    for node in nodes(path):
        for name in imported(node):
            top, *rest = name.split(".")
            private = [part for part in rest if part.startswith("_") and not part.startswith("__")]
            assert top in ("dpcape", "__future__") or not private, f"{where(path)} imports {name}"


@pytest.mark.parametrize("path", source_files(), ids=where)
def test_no_code_is_read_from_data(path: Path) -> None:
    for node in nodes(path):
        assert not any(name.split(".")[0] in ("pickle", "marshal", "shelve", "dill") for name in imported(node))
        if isinstance(node, ast.Call):
            assert dotted(node.func) not in ("eval", "exec"), where(path)
            for keyword in node.keywords:
                allowed = keyword.arg == "allow_pickle" and getattr(keyword.value, "value", None) is True
                assert not allowed, f"{where(path)} allows pickles"


@pytest.mark.parametrize("path", source_files(), ids=where)
def test_files_are_short_and_have_names_that_say_something(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400
    assert path.stem not in ("utils", "helpers", "common", "misc", "manager", "engine", "handler")


# Public names.

PUBLIC = sorted(name for name in dpcape.__all__ if not name.startswith("_"))


def test_public_names_are_listed_once_and_found() -> None:
    assert len(set(dpcape.__all__)) == len(dpcape.__all__)
    assert set(dir(dpcape)) == set(dpcape.__all__)
    assert set(dpcape._WHERE) == set(PUBLIC)
    with pytest.raises(AttributeError):
        dpcape.no_such_name  # noqa: B018


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_are_documented(name: str) -> None:
    value = getattr(dpcape, name)
    text = inspect.getdoc(value) or ""
    assert len(text.splitlines()) >= 1
    assert text.splitlines()[0].strip().endswith((".", ":", "NO PRIVACY."))
    if not inspect.isclass(value):
        assert "Parameters" in text
        return
    for method, found in inspect.getmembers(value, inspect.isfunction):
        if not method.startswith("_") and found.__module__.startswith("dpcape"):
            assert inspect.getdoc(found), f"{name}.{method}"


@pytest.mark.parametrize("path", source_files(), ids=where)
def test_modules_say_what_they_are_for(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree) or not tree.body, where(path)


@pytest.mark.parametrize("name", ["privacy", "protocols", "statistics", "secure_sum", "estimators", "transport"])
def test_subpackages_list_what_they_export(name: str) -> None:
    module = importlib.import_module(f"dpcape.{name}")
    assert module.__all__
    assert len(set(module.__all__)) == len(module.__all__)
    for entry in module.__all__:
        assert inspect.getdoc(getattr(module, entry)) or not callable(getattr(module, entry)), entry


def test_import_rules_hold() -> None:
    tool = Path(sys.executable).with_name("lint-imports")
    run = subprocess.run([tool, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-3000:]


def test_a_site_needs_neither_estimators_nor_scikit_learn() -> None:
    """A site process imports what stands left of the boundary only."""
    code = (
        "import sys; import dpcape.site.site, dpcape.site.in_process, dpcape.records;"
        "unwanted = ('sklearn', 'dpcape.estimators', 'dpcape.federation.federation');"
        "loaded = [name for name in sys.modules if name.startswith(unwanted)];"
        "print(loaded); sys.exit(bool(loaded))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout


def test_the_package_is_typed() -> None:
    assert (PACKAGE / "py.typed").exists()
