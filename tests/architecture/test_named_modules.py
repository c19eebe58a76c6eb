"""Files and modules that docstrings name exist: who reads one can open what it speaks of."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "dpcape"
CORE = SOURCE / "core"
PARTS = {path.stem for path in SOURCE.iterdir() if path.suffix in ("", ".py") and not path.name.startswith("_")}
# Names without "core." are of its own files too.
NAMED = PARTS | {path.stem for path in CORE.iterdir() if path.suffix in ("", ".py") and not path.name.startswith("_")}
FILE = re.compile(r"[\w./-]*\w\.py\b(?!\w)")
# Names in double back quotes or in a role, such as ``planning.measures`` or :func:`dpcape.steward.serve`.
DOTTED = re.compile(r"`~?((?:\w+\.)+\w+)(?:\(\))?`")
# What looks like a name with points, and is one of a file of data.
DATA = ("csv", "css", "html", "js", "json", "key", "log", "md", "npz", "nii", "pem", "toml", "txt", "zip")


def docstrings(path: Path) -> list[str]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, kinds)]
    return [text for node in found if (text := ast.get_docstring(node))]


def file_exists(name: str) -> bool:
    """Whether a path from the root, or the end of the path of a file of the package, has this name."""
    return (ROOT / name).exists() or any(path.as_posix().endswith(f"/{name}") for path in SOURCE.rglob("*.py"))


def module_exists(dotted: str) -> bool:
    """Whether a path of modules exists, and the last of them has the word that follows it."""
    words = dotted.removeprefix("dpcape.").split(".")
    place = SOURCE if dotted.startswith("dpcape.") or words[0] in PARTS else CORE
    while words and (place / words[0]).is_dir():
        place /= words.pop(0)
    module = place / f"{words[0]}.py" if words else place / "__init__.py"
    if words and module.exists():
        words.pop(0)
    else:
        module = place / "__init__.py"
    return not words or re.search(rf"\b{words[0]}\b", module.read_text(encoding="utf-8")) is not None


def named_modules(text: str) -> list[str]:
    names = [name for name in DOTTED.findall(text) if not name.endswith(DATA)]
    return [name for name in names if name.split(".")[0] in {"dpcape", *NAMED}]


@pytest.mark.parametrize("part", sorted(PARTS | {""}))
def test_docstrings_name_files_and_modules_that_exist(part: str) -> None:
    paths = sorted(SOURCE.glob("*.py")) if part == "" else sorted((SOURCE / part).rglob("*.py"))
    missing = []
    for path in paths:
        for text in docstrings(path):
            names = [name for name in FILE.findall(text) if not file_exists(name)]
            names += [name for name in named_modules(text) if not module_exists(name)]
            missing += [f"{path.relative_to(ROOT)}: {name}" for name in names]
    assert missing == []


def test_what_does_not_exist_is_seen() -> None:
    assert not file_exists("desk.py")
    assert file_exists("flare/controller.py")
    assert file_exists("experiments/wide/views.py")
    assert named_modules("half of a session (``protocols.base.Guard``), see ``study.toml``") == ["protocols.base.Guard"]
    assert not module_exists("protocols.base.Guard")
    assert module_exists("protocols.protocol.SiteContext")
    assert module_exists("dpcape.planning.measures")
