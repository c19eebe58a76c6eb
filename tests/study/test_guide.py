"""The commands of the guide's own sections (docs/consortium.md), as they stand there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from dpcape.cli import main
from dpcape.site_folder import SiteFolder

GUIDE = Path(__file__).parents[2] / "docs" / "consortium.md"


def section(title: str) -> str:
    text = GUIDE.read_text(encoding="utf-8")
    found = re.search(rf"^## {title}$(.*?)(?=^## |\Z)", text, flags=re.MULTILINE | re.DOTALL)
    assert found is not None, title
    return found[1]


def commands(title: str) -> list[list[str]]:
    blocks = re.findall(r"^```sh\n(.*?)^```", section(title), flags=re.MULTILINE | re.DOTALL)
    return [shlex.split(line) for block in blocks for line in block.splitlines()]


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    study = re.search(r"^```toml\n(.*?)^```", section("The study file"), flags=re.MULTILINE | re.DOTALL)
    assert study is not None
    (tmp_path / "study.toml").write_text(study[1], encoding="utf-8")
    rng = np.random.default_rng(2)
    for name in ("lima", "lyon", "oslo"):
        lines = ["id,age,sex,thickness"]
        for number in range(50):
            thickness = "" if number % 7 == 0 else f"{rng.normal(3, 0.4):.2f}"
            lines.append(f"{number},{rng.normal(50, 12):.1f},{'FM'[number % 2]},{thickness}")
        (tmp_path / f"{name}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path


def play(words: list[str], monkeypatch: pytest.MonkeyPatch, replacements: dict[str, str]) -> str:
    if words[0] == "export":
        name, _, value = words[1].partition("=")
        monkeypatch.setenv(name, value)
        return ""
    assert words[0] == "dpcape"
    result = CliRunner().invoke(main, [replacements.get(word, word) for word in words[1:]], catch_exceptions=False)
    assert result.exit_code == 0, (words, result.output)
    return result.stdout


def test_running_in_process(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = [play(words, monkeypatch, {}) for words in commands("Running in process")]
    assert len(outputs) == 2
    assert "Rehearsal on made-up records" in outputs[0]
    assert "Report: runs/thickness-pca-" in outputs[1]


def test_the_steward_and_the_way_out(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {}
    for name in ("lima", "oslo"):
        place = SiteFolder.create(workplace / name, name=name)
        keys[f"{name.upper()}_PUBLIC_KEY"] = place.identity.public.hex()
    played = commands("For data stewards")
    outputs = [play(words, monkeypatch, keys) for words in played]
    assert len(outputs) == 12
    reviews = [output for words, output in zip(played, outputs, strict=True) if "review" in words]
    assert "What leaves this site" in reviews[0]
    assert (workplace / "ledger.jsonl").is_file()
    backup = (workplace / "lyon-site" / "ledger.sqlite").read_bytes()
    play(["dpcape", "site", "budget", "cohort", "--epsilon", "4", "--delta", "1e-4"], monkeypatch, {})
    (workplace / "lyon-site" / "ledger.sqlite").write_bytes(backup)
    assert CliRunner().invoke(main, ["site", "log"]).exit_code == 3
    accepted = [play(words, monkeypatch, {}) for words in commands("When the ledger and its head disagree")]
    assert "accept" in accepted[0]
    assert "verified" in play(["dpcape", "site", "log", "--verify"], monkeypatch, {})
