"""The pages that name files of the package name files that exist, and the way of a record is the way the code takes."""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from .blocks import ROOT

PACKAGE = ROOT / "src" / "dpcape"
PAGES = ("docs/architecture.md", "docs/record_way.md", "docs/pictures/trust.svg")
# A file by its path, or a folder by its name and a slash; names of data files have no slash and no such ending.
FILE = re.compile(r"(?<![\w./-])((?:[\w.-]+/)*[\w-]+\.(?:py|html|md|svg)|(?:[\w-]+/)+)(?![\w/])")
# What a run writes.
WRITTEN = {"report.html"}
# Only a federation needs these; or rows of numbers; and the last has no functions.
NOT_IN_THIS_RUN = {
    "engines/flare/controller.py",
    "engines/flare/executor.py",
    "engines/flare/push_carrier.py",
    "engines/flare/submit.py",
    "runs/study_run.py",
    "site/approval.py",
    "site/folder.py",
    "site/hash_chain.py",
    "site/ledger.py",
    "site/vault/client.py",
    "site/vault/jobs.py",
    "site/vault/server.py",
    "transport/carried_transport.py",
    "transport/frames.py",
    "transport/request_handler.py",
    "records/clip.py",
    "records/features.py",
    "guarantee/release_record.py",
}
STUDY = """\
[study]
name = "five-years"
analysis = "cox"
columns = ["age", "arm"]
epsilon = 1.0
delta = 1e-6

[protocol]
kind = "cape"
n_colluding = 1

[data]
kind = "table"
[data.columns]
survival = { time = "days", event = "died", range = [0, 1825] }
age = { range = [18, 100] }
arm = { levels = ["usual", "new"] }
"""
# Names of files whose functions were called, one per line; templates are files of the package too.
TRACED = """\
import inspect
import sys

files = set()

def note(frame, event, argument):
    # Functions alone: bodies of modules and classes run when they are imported.
    if frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        files.add(frame.f_code.co_filename)

from dpcape.cli import main

sys.argv[0] = "dpcape"
sys.setprofile(note)
try:
    main()
except SystemExit as end:
    sys.setprofile(None)
    with open("files.txt", "w", encoding="utf-8") as out:
        out.writelines(f"{file}\\n" for file in sorted(files))
    raise
"""


def named(page: str) -> set[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    quoted = [text] if page.endswith(".svg") else re.findall(r"`([^`\n]+)`", text)
    words = re.sub(r"https?://\S+|<style>.*?</style>", "", "\n".join(quoted), flags=re.DOTALL)
    # Tags that close are no folders.
    return set(FILE.findall(re.sub(r"<[^>]*>", "\n", words))) - WRITTEN


@pytest.mark.parametrize("page", PAGES)
def test_files_that_are_named_exist(page: str) -> None:
    names = named(page)
    assert len(names) > 5
    assert sorted(name for name in names if not (PACKAGE / name).exists() and not (ROOT / name).exists()) == []


def test_a_file_that_does_not_exist_is_seen() -> None:
    assert FILE.findall("records/files.py, (core/noise.py) and site/foreign/") == [
        "records/files.py",
        "core/noise.py",
        "site/foreign/",
    ]
    assert FILE.findall("results.csv, model.npz, signed/masked") == []


def write_files(folder: Path) -> None:
    source = np.random.default_rng(0)
    sites = ("lyon", "oslo", "lima")
    for site in sites:
        with (folder / f"{site}.csv").open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(["days", "died", "age", "arm"])
            for _ in range(400):
                arm = source.choice(["usual", "new"])
                writer.writerow([round(source.uniform(1, 2000)), source.integers(2), source.integers(20, 95), arm])
    members = "".join(f'[sites.{site}]\ndata = "{site}.csv"\n' for site in sites)
    (folder / "study.toml").write_text(STUDY + members, encoding="utf-8")


def test_a_study_passes_through_every_file_of_the_way(tmp_path: Path) -> None:
    write_files(tmp_path)
    command = [sys.executable, "-c", TRACED, "run", "study.toml", "--out", "out"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader((tmp_path / "out" / "results.csv").read_text(encoding="utf-8").splitlines()))
    assert [row["name"] for row in rows] == ["age", "arm: new against usual"]
    assert (tmp_path / "out" / "report.html").exists()
    called = (tmp_path / "files.txt").read_text(encoding="utf-8").splitlines()
    way = {name for name in named("docs/record_way.md") if (PACKAGE / name).is_file()}
    assert way > NOT_IN_THIS_RUN, "a file that is not run here must be on the page"
    missing = [
        name for name in sorted(way - NOT_IN_THIS_RUN) if not any(file.endswith(f"dpcape/{name}") for file in called)
    ]
    assert missing == []
