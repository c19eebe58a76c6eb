"""A site folder as a noise dealer: what its steward reads, what the sites' stewards read, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from dpcape.cli import main
from dpcape.core.errors import InvalidParameter, ProtocolError
from dpcape.site.dealing import dealer_for
from dpcape.site.folder import SiteFolder
from dpcape.steward.decisions import present
from dpcape.steward.ledger_rows import lines
from dpcape.steward.ledger_view import LedgerView
from dpcape.steward.pages import Pages
from dpcape.study.study import Study

STUDY = """[study]
name = "dealt"
analysis = "mean"
epsilon = 1.0
delta = 1e-5
[protocol]
kind = "dealer"
dealer = "kiel"
n_colluding = 0
[sites.lima]
[sites.lyon]
[data]
kind = "rows"
columns = ["age", "weight"]
bound = 1.0
[federation]
engine = "flare"
"""


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, SiteFolder]:
    (tmp_path / "study.toml").write_text(STUDY)
    made = {name: SiteFolder.create(tmp_path / name, name=name) for name in ("kiel", "lima", "lyon")}
    for site in ("lima", "lyon"):
        (tmp_path / f"{site}.csv").write_text(f"age,weight\n0.1,0.{len(site)}\n0.3,{0.1 if site == 'lima' else 0.2}\n")
        made[site].add_data("main", tmp_path / f"{site}.csv", epsilon=3.0, delta=1e-4)
    return made


def typed(*words: str | Path) -> str:
    result = CliRunner().invoke(main, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_steward_reads_who_deals_before_approving(folders: dict[str, SiteFolder], tmp_path: Path) -> None:
    lima, kiel, study = folders["lima"], folders["kiel"], tmp_path / "study.toml"
    assert "Noise dealer: kiel, not pinned here yet" in typed("site", "review", study, "--folder", lima.path)
    lima.pin("kiel", kiel.identity.public.hex())
    text = typed("site", "review", study, "--folder", lima.path)
    assert f"Noise dealer: kiel, fingerprint {kiel.identity.fingerprint()}." in text
    # Also on the card: what is assumed of it, and what holds if that is wrong.
    assert "The noise dealer kiel is honest and tells nobody what it dealt" in " ".join(text.split())
    row = next(line for line in text.splitlines() if line.strip().startswith("the noise dealer"))
    assert "site's own noise alone; not guaranteed" in row


def test_a_site_that_has_not_pinned_the_dealer_refuses(folders: dict[str, SiteFolder], tmp_path: Path) -> None:
    study, lima = Study.load(tmp_path / "study.toml"), folders["lima"]
    lima.pin("lyon", folders["lyon"].identity.public.hex())
    lima.approve(study)
    with pytest.raises(ProtocolError, match="kiel is not pinned at lima"):
        lima.site_for(study)


def test_a_dealers_steward_reviews_and_approves_without_data(folders: dict[str, SiteFolder], tmp_path: Path) -> None:
    kiel, study = folders["kiel"], tmp_path / "study.toml"
    kiel.pin("lima", folders["lima"].identity.public.hex())
    text = typed("site", "review", study, "--folder", kiel.path)
    assert f"lima: {folders['lima'].identity.fingerprint()}" in text
    assert "lyon: not pinned here yet" in text
    assert "No records and no budget" in text
    assert json.loads(typed("site", "review", study, "--folder", kiel.path, "--json"))["deals"]
    approved = json.loads(typed("site", "approve", study, "--folder", kiel.path, "--json"))
    assert (approved["status"], approved["deals"], approved["runs"]) == ("approved", "noise", 1)
    assert any("may have noise dealt" in row.text for row in lines(LedgerView.read(kiel), limit=9))
    with pytest.raises(ProtocolError, match="lyon is not pinned at kiel"):
        dealer_for(kiel, Study.load(study))
    kiel.pin("lyon", folders["lyon"].identity.public.hex())
    assert dealer_for(kiel, Study.load(study)).identity.public == kiel.identity.public
    # It deals; it holds no records to answer with.
    with pytest.raises(InvalidParameter, match="site must be one of lima, lyon"):
        kiel.site_for(Study.load(study))


def test_a_rehearsal_deals_in_the_process_that_rehearses(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    typed("run", tmp_path / "study.toml", "--rehearse", "--out", tmp_path / "out")
    found = json.loads((tmp_path / "out" / "guarantee.json").read_text())
    assert any("noise dealer kiel" in text for text in found["assumptions"])


def test_the_page_shows_the_dealer_and_leaves_the_dealers_decision_to_commands(
    folders: dict[str, SiteFolder], tmp_path: Path
) -> None:
    study = Study.load(tmp_path / "study.toml")
    for name, words in {"lima": "Noise dealer: kiel", "kiel": "deals noise in this study"}.items():
        folder = folders[name]
        digest = present(folder, study)
        page = Pages(folder, prefix="x", stamp=lambda address: "").study(digest, "", "")
        assert words in page
