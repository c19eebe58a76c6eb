"""What the documentation must have: a page per analysis with its privacy section, every public name, real paths."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import dpcape
from dpcape.analyses.registry import analyses

from .blocks import ROOT, pages

ANALYSES = sorted(
    path for path in (ROOT / "docs" / "analyses").glob("*.md") if not path.stem.startswith(("index", "intervals_"))
)
SECTIONS = (
    "What it computes",
    "Run it",
    "What leaves each site",
    "Privacy",
    "Settings that matter",
    "What to expect at small epsilon",
    "References",
)


@pytest.mark.parametrize("path", ANALYSES, ids=lambda path: path.stem)
def test_an_analysis_page_has_every_section(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    titles = re.findall(r"^## (.+)$", text, flags=re.MULTILINE)
    assert [section for section in SECTIONS if section not in titles] == []
    privacy = text.partition("## Privacy\n")[2].partition("\n## ")[0]
    for fact in ("| unit |", "| diameter", "| releases", "| status |"):
        assert fact in privacy or (fact == "| releases" and "releases |" in privacy), fact


def test_every_analysis_has_a_page() -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in ANALYSES)
    assert [entry.python for entry in analyses().values() if f"`{entry.python}`" not in text] == []


def test_every_public_name_is_in_the_reference() -> None:
    reference = (ROOT / "docs" / "api" / "index.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^   ([A-Za-z_.]+)$", reference, flags=re.MULTILINE))
    described = {entry.python for entry in analyses().values()}
    assert sorted((set(dpcape.__all__) | described) - listed - {"__version__"}) == []


@pytest.mark.parametrize("page", pages())
def test_paths_that_are_named_exist(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    named = re.findall(r"`((?:src|tests|examples|experiments|docs|benchmarks)/[\w./-]+)`", text)
    generated = ("docs/_build/html", "src/dpcape/core/protocols/")
    assert [name for name in named if not (ROOT / name).exists() and not name.startswith(generated)] == []


@pytest.mark.parametrize("page", pages())
def test_pages_speak_of_the_project_alone(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert not re.search(r"/home/|/root/|/work/|/tmp/", text), page


def test_pictures_and_table_of_rooms_are_the_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "pictures"))
    import house

    again = "run python docs/pictures/house.py"
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert house.table() in page, again
    picture = (ROOT / "docs" / "pictures" / "house.svg").read_text(encoding="utf-8")
    assert picture == house.drawn(), again
    assert (ROOT / "docs" / "pictures" / "trust.svg").read_text(encoding="utf-8") == house.trust_drawn(), again
    for rooms in [*house.layers(), *house.layers("core-layers")]:
        for room in rooms:
            assert f">{room}</text>" in picture


def test_rooms_of_the_trust_line_are_in_the_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "pictures"))
    import house

    rooms = {room for line in house.layers() for room in line}
    inside = {f"{house.TRUSTED}/{room}" for line in house.layers("core-layers") for room in line}
    drawn = set(re.findall(r"[a-z_]+(?:/[a-z_]+)?(?=/|\.py)", re.sub(r"<[^>]*>", "\n", house.trust_drawn())))
    assert "core/secure_sum" in drawn
    assert drawn - rooms - inside == set()
