"""Run the blocks of one page, in order, in one folder and one namespace."""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from .blocks import Block

_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
# Variables of one shell block are there in the next, as in a terminal.
_SCRIPT = """set -euo pipefail
[ ! -f .shell ] || source ./.shell
{commands}
declare -p | grep -v -E '^declare -[a-zA-Z-]*r' > .shell
"""


class Player:
    """Plays blocks in a folder: python in one namespace, shell blocks one after the other."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._names: dict[str, Any] = {"__name__": "__main__"}

    def play(self, block: Block) -> None:
        """Run one block, or write it to its file."""
        if block.file:
            (self._folder / block.file).write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            exec(compile(block.text, block.where, "exec"), self._names)
        elif block.language == "pycon":
            self._session(block)
        elif block.language == "console":
            for command, expected in commands_in(block.text):
                self._compare(block, command, expected)
        elif block.language == "sh":
            self._shell(block, block.text)
        elif block.language == "toml":
            tomllib.loads(block.text)

    def _session(self, block: Block) -> None:
        examples = doctest.DocTestParser().get_doctest(block.text, self._names, block.where, block.page, block.line)
        runner = doctest.DocTestRunner(optionflags=_FLAGS)
        runner.run(examples, clear_globs=False)
        self._names.update(examples.globs)
        assert not runner.failures, block.where

    def _shell(self, block: Block, commands: str) -> str:
        environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "MPLBACKEND": "Agg",
            "OPENBLAS_NUM_THREADS": "1",
            "COLUMNS": "100",
        }
        script = _SCRIPT.format(commands=commands)
        run = subprocess.run(
            ["bash", "-c", script],
            cwd=self._folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
            check=False,
        )
        assert run.returncode == 0, f"{block.where}: exit code {run.returncode}\n{commands}\n{run.stdout}"
        return run.stdout

    def _compare(self, block: Block, command: str, expected: str) -> None:
        got = self._shell(block, command)
        matches = doctest.OutputChecker().check_output(expected, got, _FLAGS)
        assert matches, f"{block.where}: {command}\nexpected:\n{expected}\ngot:\n{got}"


def commands_in(text: str) -> list[tuple[str, str]]:
    """Return commands after ``$`` (continued after ``>``) with the output that follows each."""
    found: list[tuple[str, str]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], ""))
        elif line.startswith("> ") and found and not found[-1][1]:
            found[-1] = (f"{found[-1][0]}\n{line[2:]}", "")
        else:
            assert found, f"a console block must begin with a command; got {line!r}"
            found[-1] = (found[-1][0], f"{found[-1][1]}{line}\n")
    return found


COMMAND = re.compile(r"^\s*\$?\s*(dpcape|python3?|pip|make|pytest|git|uv|bash) ", flags=re.MULTILINE)
INDENTED = re.compile(r"^(?: {4,}|\t)\$?\s*(dpcape|python3?|pip|make|pytest|git|from|import) ", flags=re.MULTILINE)
