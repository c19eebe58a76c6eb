"""What the report of a run says of the ledgers of its sites, and what it leaves to their stewards."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from dpcape import Replay
from dpcape.cli import main
from dpcape.core.privacy.ledger import spent_epsilon
from dpcape.guarantee.card import card_text
from dpcape.pages.numbers import round_up
from dpcape.runs.folder import RunFolder
from dpcape.runs.in_process import run_in_process
from dpcape.runs.page import run_card
from dpcape.site.folder import SiteFolder
from dpcape.study.study import Study

from .texts import text_of

SITES = ("lima", "lyon", "oslo")


@pytest.fixture
def study(tmp_path: Path) -> Study:
    """A study on files."""
    source, text = np.random.default_rng(1), text_of("pca")
    for name in SITES:
        np.savez(tmp_path / f"{name}.npz", X=source.normal(size=(80, 6)) * 0.2)
        text = text.replace(f"[sites.{name}]", f'[sites.{name}]\ndata = "{name}.npz"')
    (tmp_path / "study.toml").write_text(text, encoding="utf-8")
    return Study.load(tmp_path / "study.toml")


def on_ledgers(study: Study, folder: Path, *, has_spent: bool) -> tuple[Study, list[SiteFolder]]:
    """Return the study on site folders that approved it for two runs, and may have spent something before."""
    text = study.text
    for name in SITES:
        text = text.replace(f'data = "{name}.npz"', f'folder = "site-{name}"')
    (folder / "folders.toml").write_text(text, encoding="utf-8")
    guarded = Study.load(folder / "folders.toml")
    places = [SiteFolder.create(folder / f"site-{name}", name=name) for name in SITES]
    for place in places:
        for other in places:
            place.pin(other.name, other.identity.public.hex())
        place.add_data("cohort", folder / f"{place.name}.npz", epsilon=20.0, delta=1e-5)
        if has_spent:
            place.approve(study)
            place.ledger(study, "cohort").charge(replace(study.charge(place.name), allowance="another study"))
        place.approve(guarded, runs=2)
    return guarded, places


def words(run: RunFolder) -> str:
    """What the card of a run says, whatever its lines and columns."""
    return " ".join(card_text(run_card(run)).split())


def test_a_report_tells_what_a_run_added_and_nothing_of_other_studies(study: Study, tmp_path: Path) -> None:
    bare, full = tmp_path / "bare", tmp_path / "full"
    pages = []
    for folder, has_spent in ((bare, False), (full, True)):
        folder.mkdir()
        for name in SITES:
            shutil.copy(tmp_path / f"{name}.npz", folder)
        guarded, places = on_ledgers(study, folder, has_spent=has_spent)
        first = run_in_process(guarded, folder / "runs" / "one", noise=Replay(1))
        assert "before this run 0 no earlier run" in words(first)
        again = run_in_process(guarded, folder / "runs" / "one", again=True, noise=Replay(2))
        said = words(again)
        own = [places[0].state().charges_of("cohort", guarded.digest())[:count] for count in (1, 2)]
        before, after = (round_up(spent_epsilon(charges, guarded.delta)) for charges in own)
        assert f"before this run {before} one earlier run" in said
        assert f"after it {after}" in said
        # The ledger itself holds more; its steward sees that.
        logged = CliRunner().invoke(main, ["site", "log", "--folder", str(places[0].path)]).output
        total, last = (places[0].state().charges_of("cohort")[:count] for count in (None, -1))
        epsilons = [round_up(spent_epsilon(charges, 1e-5)) for charges in (last, total)]
        assert (
            f"cohort: epsilon {epsilons[0]} before, {epsilons[1]} after (at delta 1e-05 per record, today's ceiling 20)"
            in logged
        )
        assert logged.count("cohort: epsilon ") == 2 + has_spent
        whole = round_up(places[0].state().spent("cohort", guarded.delta))
        assert (whole == after) is not has_spent
        pages.append((said, whole))
    assert pages[0][0] == pages[1][0]
    assert pages[1][1] not in (again.path / "report.html").read_text(encoding="utf-8")


def test_a_run_on_files_says_that_nothing_remembers_it(study: Study, tmp_path: Path) -> None:
    run = run_in_process(study, tmp_path / "run")
    assert "No ledger was kept" in (run.path / "report.html").read_text(encoding="utf-8")
    rehearsed = run_in_process(study, tmp_path / "rehearsal", rehearse=True)
    assert "ledger was kept" not in (rehearsed.path / "report.html").read_text(encoding="utf-8")
