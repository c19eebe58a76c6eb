"""docs/consortium.md and the script that plays its five terminals: the same commands, and they work."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "examples" / "consortium.sh"


def commands_in_the_guide() -> list[str]:
    text = (ROOT / "docs" / "consortium.md").read_text(encoding="utf-8")
    walk = text.partition("## Five terminals")[2].partition("\n## ")[0]
    blocks = re.findall(r"```sh\n(.*?)```", walk, flags=re.DOTALL)
    return [line.strip() for block in blocks for line in block.splitlines() if line.strip()]


def test_the_script_plays_every_command_of_the_guide() -> None:
    played = {line.strip() for line in SCRIPT.read_text(encoding="utf-8").splitlines()}
    played.add("dpcape federation stop federation")
    commands = commands_in_the_guide()
    assert len(commands) > 30
    assert [command for command in commands if command not in played] == []


@pytest.mark.engine
def test_a_new_user_gets_the_four_site_result(tmp_path: Path) -> None:
    pytest.importorskip("nvflare")
    from .accounts import engine_environment
    from .consortium import free_port, running_under

    here = tmp_path / "consortium"
    environment = {
        **engine_environment(),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PORT": str(free_port()),
    }
    begun = time.monotonic()
    try:
        done = subprocess.run(
            [str(SCRIPT), str(here)], env=environment, capture_output=True, text=True, timeout=600, check=False
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
        assert time.monotonic() - begun < 600
        end = time.monotonic() + 30
        while running_under(here) and time.monotonic() < end:
            time.sleep(0.5)
        assert running_under(here) == []
    finally:
        for process in running_under(here):
            process.kill()
    run = here / "runs" / "digits"
    assert {"model.npz", "guarantee.json", "participants.json", "report.html"} <= {path.name for path in run.iterdir()}
    guarantee = json.loads((run / "guarantee.json").read_text(encoding="utf-8"))
    assert guarantee["epsilon"] <= 2.0
    assert not guarantee["replayable"]
    assert "lyon" in done.stdout
