"""Rules of the source: where randomness comes from, what is documented, how large files are."""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

import dpcape

from .source import PACKAGE, ROOT, dotted, imported, nodes, source_files, where

# Everything between records and what leaves a site, and everything a guarantee is computed from.
PROTECTIVE = (
    "core/", "federation/", "records/", "site/", "statistics/", "transport/",
)  # fmt: skip
# Keys, nonces and Shamir coefficients; identifiers; the one sampler.
MAY_ASK_THE_SYSTEM = (
    "core/noise.py", "core/secure_sum/", "federation/", "site/lost_rows.py", "transport/request_handler.py",
)  # fmt: skip


# Searches for violations among synthetic records; nothing is protected by their seeded generators.
SEARCHES = ("site/pair_search.py", "site/statistic_laws.py", "statistics/block_search.py")


def is_protective(path: Path) -> bool:
    return where(path).startswith(PROTECTIVE)


def test_the_list_of_protective_paths_is_about_real_files() -> None:
    names = [where(path) for path in source_files()]
    for entry in PROTECTIVE:
        assert any(name.startswith(entry) for name in names), entry


# Rules about one node of a file's syntax tree: what is wrong with it, or an empty text.
Rule = Callable[[Path, ast.AST], str]


def offenders(rule: Rule, files: Iterable[Path] | None = None) -> list[str]:
    """Return every violation of a rule, with file and line."""
    found = []
    for path in source_files() if files is None else files:
        for node in nodes(path):
            problem = rule(path, node)
            if problem:
                found.append(f"{path.name if files else where(path)}:{getattr(node, 'lineno', 1)}: {problem}")
    return found


def ordinary_generator(path: Path, node: ast.AST) -> str:
    names = imported(node)
    if any(name.split(".")[0] == "random" or name.startswith("numpy.random") for name in names):
        return f"imports {names}"
    return dotted(node) if dotted(node).startswith(("np.random", "numpy.random", "scipy.stats.")) else ""


def unseeded_generator(path: Path, node: ast.AST) -> str:
    """Find public randomness (start values, simulated data) that is not repeatable, or global."""
    name = dotted(node)
    seeded = ("default_rng", "Generator", "SeedSequence", "BitGenerator")
    if name.startswith(("np.random.", "numpy.random.")) and name.split(".")[2] not in seeded:
        return f"uses {name}"
    if isinstance(node, ast.Call) and dotted(node.func).endswith("random.default_rng"):
        return "" if node.args or node.keywords else "makes a generator without a seed"
    return ""


def system_randomness(path: Path, node: ast.AST) -> str:
    names = [*imported(node), dotted(node)]
    asked = [name for name in names if name in ("os.urandom", "os.getrandom") or name.split(".")[0] == "secrets"]
    return f"uses {asked[0]}" if asked else ""


def private_name(path: Path, node: ast.AST) -> str:
    for name in imported(node):
        top, *rest = name.split(".")
        private = [part for part in rest if part.startswith("_") and not part.startswith("__")]
        if top not in ("dpcape", "__future__") and private:
            return f"imports {name}"
    return ""


def code_from_data(path: Path, node: ast.AST) -> str:
    if any(name.split(".")[0] in ("pickle", "marshal", "shelve", "dill") for name in imported(node)):
        return f"imports {imported(node)}"
    if not isinstance(node, ast.Call):
        return ""
    if dotted(node.func) in ("eval", "exec"):
        return f"calls {dotted(node.func)}"
    allowed = [word for word in node.keywords if word.arg == "allow_pickle" and getattr(word.value, "value", 0) is True]
    return "allows pickles" if allowed else ""


def report(found: list[str]) -> str:
    """Return all violations as one message."""
    return "\n".join(["", *found])


def test_no_ordinary_generator_on_a_protective_path() -> None:
    protective = [path for path in source_files() if is_protective(path) and not where(path).startswith(SEARCHES)]
    found = offenders(ordinary_generator, protective)
    assert not found, report(found)


def test_protective_randomness_is_drawn_in_one_place() -> None:
    asking = [path for path in source_files() if is_protective(path) and not where(path).startswith(MAY_ASK_THE_SYSTEM)]
    found = offenders(system_randomness, asking)
    assert not found, report(found)


@pytest.mark.parametrize("rule", [unseeded_generator, private_name, code_from_data], ids=lambda rule: rule.__name__)
def test_no_file_breaks_the_rule(rule: Rule) -> None:
    found = offenders(rule)
    assert not found, report(found)


CULPRITS = {
    ordinary_generator: "import random\nfrom numpy.random import normal\nx = np.random.normal()\n",
    unseeded_generator: "x = np.random.normal()\ny = np.random.default_rng()\n",
    system_randomness: "import secrets\nx = os.urandom(8)\ny = secrets.token_bytes(8)\n",
    private_name: "from numpy._core import x\n",
    code_from_data: "import pickle\nexec('x')\nnp.load('x', allow_pickle=True)\n",
}


@pytest.mark.parametrize("rule", CULPRITS, ids=lambda rule: rule.__name__)
def test_every_rule_finds_every_culprit(tmp_path: Path, rule: Rule) -> None:
    culprit = tmp_path / "culprit.py"
    culprit.write_text(CULPRITS[rule])
    found = {entry.split(":")[1] for entry in offenders(rule, [culprit])}
    assert found == {str(line) for line in range(1, CULPRITS[rule].count("\n") + 1)}


# Lines of one function, without its documentation, comments and blank lines.
MOST_LINES = 60


def test_functions_are_short_and_files_have_names_that_say_something() -> None:
    vague = ("utils", "helpers", "common", "misc", "manager", "engine", "handler")
    found = [f"{where(path)} says nothing" for path in source_files() if path.stem in vague]
    for path in source_files():
        lines = path.read_text(encoding="utf-8").splitlines()
        for node in nodes(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                documented = node.body[0].end_lineno if ast.get_docstring(node) else node.lineno - 1
                rest = [line.strip() for line in lines[documented or 0 : node.end_lineno]]
                n_lines = sum(1 for line in rest if line and not line.startswith("#"))
                found += [f"{where(path)}: {node.name} has {n_lines} lines"] if n_lines > MOST_LINES else []
    assert not found, report(found)


# Public names.

PUBLIC = sorted(name for name in dpcape.__all__ if not name.startswith("_"))


def test_public_names_are_listed_once_and_found() -> None:
    assert len(set(dpcape.__all__)) == len(dpcape.__all__)
    assert set(dir(dpcape)) == set(dpcape.__all__)
    assert set(dpcape._WHERE) == set(PUBLIC)
    with pytest.raises(AttributeError):
        dpcape.no_such_name  # noqa: B018


def undocumented(name: str) -> list[str]:
    """Return what lacks documentation in a public name."""
    value = getattr(dpcape, name)
    text = inspect.getdoc(value) or ""
    if not text or not text.splitlines()[0].strip().endswith((".", ":")):
        return [f"{name} has no first sentence"]
    if not inspect.isclass(value):
        return [] if "Parameters" in text else [f"{name} has no Parameters"]
    return [
        f"{name}.{method}"
        for method, found in inspect.getmembers(value, inspect.isfunction)
        if not method.startswith("_") and found.__module__.startswith("dpcape") and not inspect.getdoc(found)
    ]


def test_public_names_are_documented() -> None:
    found = [problem for name in PUBLIC for problem in undocumented(name)]
    assert not found, report(found)


def test_modules_say_what_they_are_for() -> None:
    trees = {where(path): ast.parse(path.read_text(encoding="utf-8")) for path in source_files()}
    found = [name for name, tree in trees.items() if tree.body and not ast.get_docstring(tree)]
    assert not found, report(found)


def test_subpackages_list_what_they_export() -> None:
    found = []
    for name in ("core.privacy", "estimators.ica", "factor_release", "guarantee", "planning", "statistics", "study"):
        module = importlib.import_module(f"dpcape.{name}")
        assert module.__all__, name
        assert len(set(module.__all__)) == len(module.__all__), name
        values = {entry: getattr(module, entry) for entry in module.__all__}
        found += [f"{name}.{entry}" for entry, value in values.items() if callable(value) and not inspect.getdoc(value)]
    assert not found, report(found)


def test_import_rules_hold() -> None:
    tool = Path(sys.executable).with_name("lint-imports")
    run = subprocess.run([tool, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-3000:]


def test_a_site_needs_neither_estimators_nor_scikit_learn() -> None:
    """A site process imports what stands left of the boundary only."""
    code = (
        "import sys; import dpcape.core.site, dpcape.site.in_process, dpcape.records;"
        "unwanted = ('sklearn', 'dpcape.estimators', 'dpcape.federation.federation');"
        "loaded = [name for name in sys.modules if name.startswith(unwanted)];"
        "print(loaded); sys.exit(bool(loaded))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout


def test_the_package_is_typed() -> None:
    assert (PACKAGE / "py.typed").exists()
