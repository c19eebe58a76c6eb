"""The systemd unit of a site, as far as it can be checked without running it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

UNIT = Path(__file__).resolve().parents[2] / "deploy" / "dpcape-site@.service"
needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The unit with a command that exists here."""
    text, n_replaced = re.subn("ExecStart=/opt/dpcape/bin/dpcape", f"ExecStart={sys.executable}", UNIT.read_text())
    assert n_replaced == 1
    made = tmp_path / "dpcape-site@lyon.service"
    made.write_text(text)
    return made


@needs_systemd
def test_systemd_finds_nothing_wrong_with_the_unit(unit: Path) -> None:
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    assert (done.returncode, [line for line in done.stderr.splitlines() if unit.name in line]) == (0, [])
    # The check has teeth.
    unit.write_text(unit.read_text().replace("ProtectSystem=strict", "ProtectSystem=sometimes"))
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    assert unit.name in done.stderr


@needs_systemd
def test_the_unit_exposes_little(unit: Path) -> None:
    command = ["systemd-analyze", "security", "--offline=true", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r"Overall exposure level for \S+: ([0-9.]+)", done.stdout)
    assert found is not None, done.stderr
    # 10 is a service without any protection; the supervisor must change accounts and reach the network's families.
    assert float(found[1]) <= 3.0


def test_the_service_comes_back_however_it_ends() -> None:
    """With "on-failure" an end with code 0 would be the last, and a limit of starts could be used up on purpose."""
    settings = dict(
        line.split("=", 1) for line in UNIT.read_text().splitlines() if re.match("(Restart|StartLimit)", line)
    )
    assert settings["Restart"] == "always"
    assert settings["StartLimitIntervalSec"] == "0"
    assert "StartLimitBurst" not in settings
    # With a pause: a site that cannot start must not keep the machine busy.
    assert int(settings["RestartSec"].removesuffix("s")) >= 5


def test_the_unit_lets_vault_and_engine_confine_themselves() -> None:
    """Without these calls Landlock reports version 0, and nothing is served."""
    calls = " ".join(re.findall(r"^SystemCallFilter=([^~].*)$", UNIT.read_text(), re.MULTILINE)).split()
    assert {"landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self", "seccomp"} <= set(calls)
