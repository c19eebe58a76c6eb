"""Folders damaged in any way give the result or one sentence, never a traceback."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from dpcape.cli import main
from dpcape.runs.in_process import run_in_process
from dpcape.site.folder import SiteFolder
from dpcape.study.study import Study

from .texts import text_of

SITES = ("lima", "lyon", "oslo")


def _flipped(content: bytes, share: float) -> bytes:
    at = min(len(content) - 1, int(len(content) * share))
    return content[:at] + bytes([content[at] ^ 0x55]) + content[at + 1 :] if content else b"\0"


# Each takes the content of a file and returns the damaged one.
CONTENTS: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda c: b"",
    "half": lambda c: c[: len(c) // 2],
    "without its last byte": lambda c: c[:-1],
    "one byte": lambda c: c[:1],
    "without its first byte": lambda c: c[1:],
    "doubled": lambda c: c + c,
    "zeros": lambda c: bytes(len(c)),
    "zeros at the end": lambda c: c[: len(c) // 2] + bytes(len(c) - len(c) // 2),
    "random": lambda c: np.random.default_rng(5).bytes(max(len(c), 16)),
    "flipped at the start": lambda c: _flipped(c, 0.0),
    "flipped early": lambda c: _flipped(c, 0.1),
    "flipped in the middle": lambda c: _flipped(c, 0.5),
    "flipped late": lambda c: _flipped(c, 0.9),
    "not UTF-8": lambda c: b"\xff\xfe" + c,
    "lines reversed": lambda c: b"\n".join(reversed(c.split(b"\n"))),
    "CRLF": lambda c: c.replace(b"\n", b"\r\n"),
    "null": lambda c: b"null",
    "a list": lambda c: b"[]",
    "an empty object": lambda c: b"{}",
    "a number": lambda c: b"7",
    "an object of objects": lambda c: b'{"lima": {"lima": 1}, "event": [], "format": {}, "name": 3, "keys": []}',
    "deep": lambda c: b"[" * 100_000,
    "a merge conflict": lambda c: b"<<<<<<< HEAD\n" + c + b"=======\n",
    "a zip file": lambda c: b"PK\x05\x06" + bytes(18),
}
OTHERS = ("missing", "a folder", "a dangling link", "a link to itself")
KINDS = (*CONTENTS, *OTHERS)
RUN_FILES = (
    "study.toml",
    "log.jsonl",
    "model.npz",
    "guarantee.json",
    "participants.json",
    "report.html",
    "releases/allowance.kept",
    "releases/release-0000.kept",
    "../ledger-heads.json",
)
SITE_FILES = ("site.json", "data.json", "ledger.sqlite", "keys/identity.key", "keys/ledger.head")


def pairs(files: tuple[str, ...]) -> list[Any]:
    """Return every file with every kind of damage; two files per kind are tried each time, the others are slow."""
    found = []
    for number, kind in enumerate(KINDS):
        quick = {files[number % len(files)], files[(number * 2 + 1) % len(files)]}
        found += [pytest.param(file, kind, marks=() if file in quick else pytest.mark.slow) for file in files]
    return found


def damage(path: Path, kind: str) -> None:
    content = path.read_bytes()
    mode = path.stat().st_mode
    path.unlink()
    if kind in CONTENTS:
        path.write_bytes(CONTENTS[kind](content))
        path.chmod(mode)
    elif kind == "a folder":
        path.mkdir()
    elif kind == "a dangling link":
        path.symlink_to("nowhere")
    elif kind == "a link to itself":
        path.symlink_to(path.name)


def call(*words: str | Path) -> tuple[int, str]:
    """Return exit code and output of a command; anything but an orderly end fails."""
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exception is None or isinstance(result.exception, SystemExit), (words, repr(result.exception))
    assert result.exit_code in (0, 2, 3), (words, result.output)
    if result.exit_code:
        lines = [line for line in result.output.splitlines() if line.startswith("dpcape: ")]
        assert len(lines) == 1, result.output
        assert len(lines[0]) < 700
    return result.exit_code, result.output


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a study that ran on three site folders."""
    folder = tmp_path_factory.mktemp("damage")
    text = text_of("mean")
    rng = np.random.default_rng(1)
    for name in SITES:
        np.savez(folder / f"{name}.npz", X=rng.normal(size=(40, 6)) * 0.2)
        text = text.replace(f"[sites.{name}]", f'[sites.{name}]\nfolder = "{name}-site"')
    (folder / "study.toml").write_text(text, encoding="utf-8")
    study = Study.load(folder / "study.toml")
    places = {name: SiteFolder.create(folder / f"{name}-site", name=name) for name in SITES}
    for site in places.values():
        for other in places.values():
            site.pin(other.name, other.identity.public.hex())
        site.add_data("cohort", folder / f"{site.name}.npz", epsilon=2.5, delta=1e-5)
        site.approve(study)
    run_in_process(study, folder / "runs" / "one")
    for site in places.values():
        site.chain.close()
    return folder


@pytest.fixture
def copy(place: Path, tmp_path: Path) -> Path:
    """Return a copy of the study and everything that belongs to it, at the same relative places."""
    shutil.copytree(place, tmp_path / "copy")
    for name in SITES:
        path = tmp_path / "copy" / f"{name}-site" / "data.json"
        path.write_text(path.read_text(encoding="utf-8").replace(str(place), str(tmp_path / "copy")), encoding="utf-8")
    return tmp_path / "copy"


@pytest.mark.parametrize(("file", "kind"), pairs(RUN_FILES))
def test_a_damaged_run_folder_gives_its_result_or_one_sentence(copy: Path, file: str, kind: str) -> None:
    run = copy / "runs" / "one"
    damage(run / file, kind)
    study = copy / "study.toml"
    call("report", run)
    code, _ = call("run", study, "--out", run, "--resume")
    if file in ("model.npz", "guarantee.json", "participants.json"):
        # A folder or a link in the place of a file is somebody's, and is left alone.
        assert code == 0 or kind in OTHERS
    call("run", study, "--out", run)
    if code == 0 and kind in CONTENTS:
        assert json.loads((run / "guarantee.json").read_text(encoding="utf-8"))["status"] == "verified"
    assert [len(SiteFolder(copy / f"{name}-site").state().charges) for name in SITES] == [1, 1, 1]


@pytest.mark.parametrize(("file", "kind"), pairs(SITE_FILES))
def test_a_damaged_site_folder_gives_one_sentence_and_no_charge(copy: Path, file: str, kind: str) -> None:
    site = copy / "lyon-site"
    assert (site / file).exists()
    damage(site / file, kind)
    call("site", "log", "--folder", site)
    call("site", "review", copy / "study.toml", "--folder", site)
    code, _ = call("run", copy / "study.toml", "--out", copy / "runs" / "one", "--again")
    assert code in (2, 3)


def test_a_damaged_release_is_lost_and_the_others_are_used(copy: Path) -> None:
    run = copy / "runs" / "one"
    (run / "model.npz").unlink()
    damage(run / "releases" / "release-0000.kept", "half")
    code, output = call("run", copy / "study.toml", "--out", run, "--resume")
    assert code == 2
    assert "was begun and is lost" in output
