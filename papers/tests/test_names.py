"""The names that readers of the papers look for: all are there, every example runs, and the page says the same."""

from __future__ import annotations

import importlib
import json
import tomllib
import warnings
from pathlib import Path

import pytest
from click.testing import CliRunner

import dpcape
from dpcape import cli
from dpcape.core.errors import InvalidParameter, UtilityWarning
from dpcape_papers.claims import CLAIMS
from dpcape_papers.claims.consequences import CONSEQUENCE_OF
from dpcape_papers.commands import papers
from dpcape_papers.experiments import registry
from dpcape_papers.names import CONSEQUENCES, NAMES, find_name
from dpcape_papers.names.page import renewed

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "papers" / "index.md"
WANTED = (
    "capePCA", "capeCCA", "capeAGN", "capeDJICA", "capeFM", "DPdisPCA", "DP-CCA", "djICA", "DP-djICA", "SecureAgg",
    "dealer scheme", "FA release", "CAPE", "nomographic functions",
)  # fmt: skip


def test_every_name_of_the_papers_is_there() -> None:
    assert set(WANTED) == set(NAMES)


@pytest.mark.parametrize("name", WANTED)
def test_examples_are_short_and_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    entry = NAMES[name]
    assert len(entry.snippet.splitlines()) in (3, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UtilityWarning)
        found: dict[str, object] = {}
        exec(compile(entry.example, name, "exec"), found)
    model = found.get("model")
    if hasattr(model, "guarantee_"):
        assert model.guarantee_.status == "verified"  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", WANTED)
def test_what_a_name_leads_to_exists(name: str) -> None:
    entry = NAMES[name]
    for one in entry.uses.split(", "):
        if "." in one:
            module, attribute = one.split(".")
            assert hasattr(importlib.import_module(f"dpcape.{module}"), attribute)
        else:
            assert hasattr(dpcape, one)
    if entry.baseline:
        module, _, attribute = entry.baseline.rpartition(".")
        assert callable(getattr(importlib.import_module(module), attribute))
    assert set(entry.figures) <= set(registry.experiments())
    assert set(entry.claims) <= set(CLAIMS)
    assert entry.consequence in CONSEQUENCES
    assert (PAGE.parent / entry.page).is_file()


@pytest.mark.parametrize("name", WANTED)
def test_the_command_answers_every_name(name: str) -> None:
    for typed in (name, name.lower().replace("-", "")):
        result = CliRunner().invoke(papers, [typed], catch_exceptions=False, env={"COLUMNS": "100"})
        assert result.exit_code == 0
        assert result.stdout.startswith(f"{name}\n")
        assert "from dpcape" in result.stdout
    shown = CliRunner().invoke(papers, [name, "--json"], catch_exceptions=False)
    assert json.loads(shown.stdout)["example"] == NAMES[name].example


@pytest.mark.parametrize(
    ("typed", "name"),
    [("dealer", "dealer scheme"), ("FA", "FA release"), ("cape cca", "capeCCA"), ("capeOTD", "capeAGN"),
     ("nomographic", "nomographic functions"), ("cape", "CAPE"), ("functional mechanism", "capeFM")],
)  # fmt: skip
def test_a_beginning_or_a_name_of_the_programs_is_enough(typed: str, name: str) -> None:
    assert find_name(typed).name == name


@pytest.mark.parametrize("typed", ["dp", "", "-"])
def test_a_beginning_of_several_or_of_all_is_not(typed: str) -> None:
    with pytest.raises(InvalidParameter, match="NAME must be one of"):
        find_name(typed)


def test_the_list_and_a_wrong_name() -> None:
    listed = CliRunner().invoke(papers, [], catch_exceptions=False).stdout
    assert all(f"{name} " in listed for name in WANTED)
    with pytest.raises(dpcape.core.errors.InvalidParameter, match="Did you mean capePCA"):
        find_name("cape-pcs")


def test_the_command_is_declared_and_its_absence_is_told_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    declared = tomllib.loads((ROOT / "papers" / "pyproject.toml").read_text())["project"]["entry-points"]
    assert declared["dpcape.commands"]["papers"] == "dpcape_papers.commands:papers"
    monkeypatch.setattr(cli, "entry_points", lambda group: ())
    result = CliRunner().invoke(cli.main, ["papers", "capeCCA"])
    assert result.exit_code == 2
    assert "pip install dpcape-papers" in result.stderr.splitlines()[-1]


def test_the_page_is_what_is_listed() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert renewed(page) == page, "run python -m dpcape_papers.names.page docs/papers/index.md"
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "docs/papers/index.md" in readme


def test_claims_are_ordered_by_consequence() -> None:
    order = list(CONSEQUENCES)
    places = [order.index(CONSEQUENCE_OF[key]) for key in CLAIMS]
    assert places == sorted(places)
    assert [key for key in CLAIMS if "equation" in key] == list(CLAIMS)[-3:]
