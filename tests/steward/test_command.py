"""``dpcape site serve-page`` as a process of its own."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpcape.site.folder import SiteFolder

from .place import TEXT, Place
from .visitor import Visitor


@pytest.fixture
def process(place: Place) -> Iterator[subprocess.Popen[str]]:
    """The page of a second site, with a study file that was never reviewed."""
    (place.home / "new.toml").write_text(TEXT.replace("thickness", "newcomer"), encoding="utf-8")
    words = ["site", "serve-page", str(place.home / "new.toml"), "--folder", str(place.folder.path)]
    running = subprocess.Popen(
        [sys.executable, "-u", "-m", "dpcape", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    yield running
    running.kill()
    running.wait()
    assert running.stdout is not None
    running.stdout.close()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_it_prints_address_and_code_serves_and_ends(
    place: Place, process: subprocess.Popen[str], ending: signal.Signals
) -> None:
    address = re.fullmatch(r"The steward's page of lyon: http://127\.0\.0\.1:(\d+)/", line(process))
    code = re.fullmatch(r"Code to sign in, works once: (\S+)", line(process))
    assert address is not None
    assert code is not None
    assert line(process) == "For this computer only. Ctrl-C ends it."
    visitor = Visitor(int(address[1]))
    assert visitor.enter(code[1]).status == 303
    assert line(process).startswith("Signed in.")
    page = visitor.page()
    assert "newcomer" in page.text
    assert "thickness" in page.text
    digest = re.findall(r"study/([0-9a-f]{64})\">newcomer", page.text)[0]
    form = visitor.page(f"study/{digest}").form("/approve")
    assert visitor.send(form).status == 303
    assert line(process) == "Approved: newcomer on cohort, 1 run."
    process.send_signal(ending)
    assert line(process) == "Ended."
    assert process.wait(timeout=20) == 0
    with pytest.raises(ConnectionRefusedError):
        visitor.page()
    assert digest in SiteFolder(place.folder.path).state().approvals
    SiteFolder(place.folder.path).chain.verify()


def test_it_needs_a_site_folder(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "dpcape", "site", "serve-page", "--folder", str(tmp_path)]
    result = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 2
    assert result.stderr.startswith("dpcape: a site folder must be made by")
    assert "Traceback" not in result.stderr


def test_there_is_no_way_to_another_address(tmp_path: Path) -> None:
    for option in ("--host", "--bind", "--address"):
        words = [sys.executable, "-m", "dpcape", "site", "serve-page", option, "0.0.0.0"]
        result = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
        assert result.returncode == 2
        assert "No such option" in result.stderr
