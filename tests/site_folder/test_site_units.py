"""The site folder counts per record and per subject: rows, ceilings, old ledgers, commands and the steward's page."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from dpcape import Federation
from dpcape.cli import main
from dpcape.core.errors import LedgerRefused, UtilityWarning
from dpcape.core.noise import OsNoise
from dpcape.core.privacy.gaussian import compose, epsilon_of
from dpcape.core.privacy.ledger import Charge, spent_epsilon
from dpcape.core.privacy.unit import Unit
from dpcape.core.protocols.noise_dealer import NoiseDealer
from dpcape.core.secure_sum.identity import Identity
from dpcape.site.folder import SiteFolder
from dpcape.site.in_process import InProcess
from dpcape.site.ledger import Ceiling, State
from dpcape.steward.decisions import changes
from dpcape.steward.ledger_view import LedgerView, objections, spending
from dpcape.steward.pages import Pages
from dpcape.steward.review import review, review_text
from dpcape.study.study import Study

DELTA = 1e-5
TEXT = """
[study]
name = "{name}"
analysis = "joint_ica"
n_components = 2
epsilon = 1.0
delta = 1e-5
[protocol]
kind = "independent"
[sites.lyon]
[data]
kind = "subjects"
unit = "{unit}"
features = 3
bound = 1.0
{rows}
"""
PEOPLE, POINTS = 60, 250


def study(unit: str, name: str = "maps", rows: str = "") -> Study:
    stated = rows or (f"rows_per_subject = {POINTS}" if unit == "subject" else "")
    return Study.parse(TEXT.format(unit=unit, name=name, rows=stated))


@pytest.fixture
def place(tmp_path: Path) -> SiteFolder:
    np.save(tmp_path / "cohort.npy", 0.3 * np.random.default_rng(4).normal(size=(PEOPLE, POINTS, 3)))
    made = SiteFolder.create(tmp_path / "lyon", name="lyon")
    made.add_data("cohort", tmp_path / "cohort.npy", epsilon=2.0, delta=DELTA)
    return made


@pytest.fixture
def short(tmp_path: Path) -> SiteFolder:
    """The same with series of four time points."""
    np.save(tmp_path / "short.npy", 0.3 * np.random.default_rng(4).normal(size=(PEOPLE, 4, 3)))
    made = SiteFolder.create(tmp_path / "lyon", name="lyon")
    made.add_data("cohort", tmp_path / "short.npy", epsilon=2.0, delta=DELTA)
    return made


def typed(place: SiteFolder, *words: object) -> dict[str, Any]:
    found = CliRunner().invoke(main, ["site", *map(str, words), "--folder", str(place.path), "--json"])
    assert found.exit_code == 0, found.output
    answer: dict[str, Any] = json.loads(found.stdout)
    return answer


def paid(asked: Study, name: str) -> Charge:
    whole = asked.charge("lyon")
    return Charge(name, whole.mu, whole.gap, whole.tail, 1, whole.unit)


def test_two_studies_of_the_same_60_people(place: SiteFolder) -> None:
    """Per record 1.47 of 2; per person 2530, which no ceiling per person lets through."""
    place.set_ceiling("cohort", Ceiling(2.0, DELTA, unit=Unit("record", POINTS)))
    by_point, by_person = study("record", "points"), study("subject", "people")
    for asked in (by_point, by_person):
        place.approve(asked)
        place.ledger(asked, "cohort").charge(paid(asked, asked.name))
    state = place.state()
    assert state.spent("cohort", DELTA) == pytest.approx(1.47, abs=0.005)
    units = [entry.charge.unit for entry in state.charges]
    assert units == [Unit("record", POINTS), Unit("subject", POINTS)]
    mus = [entry.charge.mu * entry.charge.unit.factor(Unit("subject", POINTS)) for entry in state.charges]
    assert epsilon_of(DELTA, compose(mus)) == pytest.approx(2530, abs=1)
    # The same rows under a ceiling per person: beyond what is proved for integer noise, so without limit.
    place.set_ceiling("cohort", Ceiling(2.0, DELTA, unit=Unit("subject", POINTS)))
    assert place.state().spent("cohort", DELTA) == math.inf
    assert "without limit</strong> of 2 spent" in shown(place).overview("")


def test_a_ceiling_per_person_refuses_before_anything_is_read(place: SiteFolder) -> None:
    place.set_ceiling("cohort", Ceiling(2.0, DELTA, unit=Unit("subject", POINTS)))
    asked = study("record", "points")
    place.approve(asked)
    with pytest.raises(LedgerRefused, match="epsilon 2 at delta 1e-05 per subject"):
        place.site_for(asked)
    person = study("subject", "people")
    place.approve(person)
    place.ledger(person, "cohort").charge(paid(person, "one"))
    assert place.state().spent("cohort", DELTA) == pytest.approx(1.0, rel=1e-5)


def test_unknown_k_is_refused_and_the_steward_sees_why(place: SiteFolder) -> None:
    asked = study("record", "points")
    place.approve(asked)
    place.set_ceiling("cohort", Ceiling(2.0, DELTA, unit=Unit("subject")))
    with pytest.raises(LedgerRefused, match="stated no number"):
        place.site_for(asked)
    seen = review(place, asked, "cohort")
    assert seen.after == math.inf
    assert "stated no number" in seen.refusal
    assert "stated no number" in " ".join(review_text(place, asked, "cohort").split())
    ledger = LedgerView.read(place)
    assert any("stated no number" in text for text in objections(place, ledger, asked, "cohort"))
    # What the site refuses is not counted.
    assert spending(place, ledger, "cohort").committed == 0.0
    with pytest.raises(LedgerRefused, match=r"not approved\. .*--rows-per-subject K.* has 250 records"):
        place.approve(asked)


@pytest.mark.parametrize("by_study", [1, POINTS, 1000])
def test_the_number_is_the_stewards_whatever_a_study_states(place: SiteFolder, by_study: int) -> None:
    """A coordinator that states one record per subject would have 250 time points of a person counted as one."""
    asked = study("record", rows=f"rows_per_subject = {by_study}")
    place.approve(asked)
    place.set_ceiling("cohort", Ceiling(1e6, DELTA, unit=Unit("subject")))
    with pytest.raises(LedgerRefused, match="stated no number"):
        place.site_for(asked)
    seen = review(place, asked, "cohort")
    assert (seen.after, seen.guarantee.unit) == (math.inf, "record")
    assert "--rows-per-subject K" in seen.refusal
    with pytest.raises(LedgerRefused, match="not approved"):
        place.approve(asked)
    assert place.state().charges == []


def test_a_number_below_the_longest_series_is_refused_as_if_there_was_none(short: SiteFolder) -> None:
    """Only texts for the steward name the longest series."""
    asked = study("record", rows="rows_per_subject = 4")
    short.approve(asked)
    sent = set()
    for stated in (None, 1, 3):
        short.set_ceiling("cohort", Ceiling(60.0, DELTA, unit=Unit("subject", stated)))
        with pytest.raises(LedgerRefused) as refused:
            short.site_for(asked)
        sent.add(str(refused.value))
        seen = review(short, asked, "cohort")
        assert "longest series of this data set has 4 records" in seen.refusal
        assert seen.after == math.inf
        with pytest.raises(LedgerRefused, match="has 4 records"):
            short.approve(asked)
    assert len(sent) == 1
    assert not any(letter.isdigit() for letter in "".join(sent))
    assert short.state().charges == []
    short.set_ceiling("cohort", Ceiling(60.0, DELTA, unit=Unit("subject", 4)))
    assert review(short, asked, "cohort").refusal == ""
    short.approve(asked)
    short.site_for(asked)


def test_series_that_grow_after_an_approval_are_refused_before_a_charge(short: SiteFolder, tmp_path: Path) -> None:
    short.set_ceiling("cohort", Ceiling(60.0, DELTA, unit=Unit("subject", 4)))
    asked = study("record")
    short.approve(asked)
    np.save(tmp_path / "short.npy", 0.3 * np.random.default_rng(4).normal(size=(PEOPLE, 5, 3)))
    with pytest.raises(LedgerRefused, match="fewer than the longest series has"):
        short.site_for(asked)
    assert short.state().charges == []


def test_a_ledger_that_relied_on_a_studys_number_can_be_shown_and_corrected(place: SiteFolder) -> None:
    """Ceilings per subject without a number may have taken charges that a study's own number was counted for."""
    asked = study("record", rows="rows_per_subject = 1")
    place.approve(asked)
    place.ledger(asked, "cohort").charge(paid(asked, "one"))
    unstated = Ceiling(2.0, DELTA, unit=Unit("subject")).row()
    place.chain.append("ceiling", {"data": "cohort", **unstated}, check=lambda entries: None)
    assert typed(place, "budget", "cohort")["spent"] == math.inf
    assert "without limit</strong> of 2 spent" in shown(place).overview("")
    assert "stated no number" in " ".join(review_text(place, asked, "cohort").split())
    assert typed(place, "budget", "cohort", "--rows-per-subject", 3)["spent"] > 1


def test_a_ceiling_per_subject_is_refused_over_charges_it_cannot_count(place: SiteFolder) -> None:
    asked = study("record")
    place.approve(asked)
    place.ledger(asked, "cohort").charge(paid(asked, "one"))
    rows = place.chain.entries()
    with pytest.raises(LedgerRefused, match="stated no number"):
        place.set_ceiling("cohort", Ceiling(2.0, DELTA, unit=Unit("subject")))
    assert place.chain.entries() == rows
    place.set_ceiling("cohort", Ceiling(2.0, DELTA, unit=Unit("subject", 3)))
    mu = place.state().charges[0].charge.mu
    assert place.state().spent("cohort", DELTA) == pytest.approx(epsilon_of(DELTA, 3 * mu), rel=1e-4)


def test_a_lowered_number_does_not_lower_earlier_charges(short: SiteFolder) -> None:
    short.set_ceiling("cohort", Ceiling(9.0, DELTA, unit=Unit("subject", 4)))
    asked = study("record")
    short.approve(asked)
    short.ledger(asked, "cohort").charge(paid(asked, "one"))
    four = short.state().spent("cohort", DELTA)
    assert short.state().charges[0].charge.unit == Unit("record", 4)
    short.set_ceiling("cohort", Ceiling(9.0, DELTA, unit=Unit("subject", 2)))
    assert short.state().spent("cohort", DELTA) == four
    short.set_ceiling("cohort", Ceiling(9.0, DELTA, unit=Unit("subject", 5)))
    assert short.state().spent("cohort", DELTA) > four


@pytest.mark.filterwarnings("ignore::dpcape.core.errors.UtilityWarning")
@pytest.mark.parametrize(("by_study", "by_ceiling"), [(6, 4), (3, 6), (1, 6)])
def test_of_two_numbers_the_larger_counts(short: SiteFolder, by_study: int, by_ceiling: int) -> None:
    """A study per record whose number contradicts that of the ceiling, charged by the site that read the records."""
    short.set_ceiling("cohort", Ceiling(60.0, DELTA, unit=Unit("subject", by_ceiling)))
    asked = study("record", rows=f"rows_per_subject = {by_study}")
    short.approve(asked)
    line = InProcess({"lyon": short.site_for(asked)}, NoiseDealer(Identity.generate(), OsNoise()))
    federation = Federation(line, protocol=asked.protocol())
    asked.estimator().fit(federation)
    charge = short.state().charges[0].charge
    assert charge.unit == Unit("record", 6)
    assert short.state().spent("cohort", DELTA) == pytest.approx(epsilon_of(DELTA, 6 * charge.mu), rel=1e-4)


def test_the_stated_number_is_enforced_when_records_are_read(place: SiteFolder) -> None:
    place.set_ceiling("cohort", Ceiling(2.0, DELTA, unit=Unit("subject", POINTS - 1)))
    asked = study("subject")
    place.approve(asked)
    # Longer series are invalid: they contribute zero, and only the site is told.
    with pytest.warns(UtilityWarning, match="60 of 60"):
        place.site_for(asked)
    place.set_ceiling("cohort", Ceiling(2.0, DELTA, unit=Unit("subject", POINTS)))
    assert place.site_for(asked).facts.rows_per_unit == POINTS


def test_new_rows_carry_unit_and_number(place: SiteFolder) -> None:
    asked = study("subject", rows="rows_per_subject = 250")
    place.approve(asked)
    place.ledger(asked, "cohort").charge(paid(asked, "one"))
    kept = {entry.kind: entry.body for entry in place.chain.entries()}
    assert (kept["ceiling"]["unit"], kept["ceiling"]["rows_per_subject"]) == ("record", None)
    assert (kept["charge"]["unit"], kept["charge"]["rows_per_subject"]) == ("subject", 250)
    assert place.chain.verify().length == len(place.chain.entries())


def write_old_rows(place: SiteFolder) -> None:
    """Write rows as they were before they stated their unit."""
    mu = study("record").charge("lyon").mu
    old = {"data": "cohort", "epsilon": "2.0", "delta": "1e-05", "per_study": None}
    place.chain.append("ceiling", old, check=lambda entries: None)
    body = {"data": "cohort", "study": "a" * 64, "allowance": "old", "mu": repr(mu), "gap": "0.0", "tail": "0.0"}
    place.chain.append("charge", {**body, "n_releases": 1}, check=lambda entries: None)


def test_old_rows_are_per_record_and_the_steward_is_told_once(place: SiteFolder) -> None:
    assert place.news() == []
    write_old_rows(place)
    state = State.of(place.chain.entries())
    assert state.ceilings["cohort"].unit == state.charges[0].charge.unit == Unit("record")
    assert state.spent("cohort", DELTA) == spent_epsilon([state.charges[0].charge], DELTA)
    place.chain.verify()
    folder = ["--folder", str(place.path)]
    first = CliRunner().invoke(main, ["site", "budget", "cohort", "--json", *folder])
    assert "taken as per record" in first.stderr
    assert json.loads(first.stdout)["per"] == "record"
    assert place.chain.entries()[-1].body["told"] == "units"
    second = CliRunner().invoke(main, ["site", "log", *folder])
    assert "Note:" not in second.stderr
    assert place.news() == []


def test_old_rows_count_k_fold_once_a_ceiling_per_subject_is_set(place: SiteFolder) -> None:
    write_old_rows(place)
    place.set_ceiling("cohort", Ceiling(9.0, DELTA, unit=Unit("subject", 4)))
    mu = place.state().charges[0].charge.mu
    assert place.state().spent("cohort", DELTA) == pytest.approx(epsilon_of(DELTA, 4 * mu), rel=1e-9)


def test_commands_say_and_set_per_what(place: SiteFolder, tmp_path: Path) -> None:
    shown_budget = typed(place, "budget", "cohort")
    assert (shown_budget["per"], shown_budget["rows_per_subject"]) == ("record", "not stated")
    changed = typed(place, "budget", "cohort", "--per", "subject", "--rows-per-subject", 250)
    assert (changed["epsilon"], changed["per"], changed["rows_per_subject"]) == (2.0, "subject", 250)
    # Named again without them, nothing of it is lost.
    again = typed(place, "add", "cohort", tmp_path / "cohort.npy", "--epsilon", 3, "--delta", 1e-5)
    assert (again["epsilon"], again["per"], again["rows_per_subject"]) == (3.0, "subject", 250)
    kept = typed(place, "budget", "cohort", "--epsilon", 4, "--delta", 1e-5)
    assert (kept["epsilon"], kept["per"], kept["rows_per_subject"]) == (4.0, "subject", 250)
    np.save(tmp_path / "other.npy", np.random.default_rng(5).normal(size=(5, 4, 3)))
    added = ("add", "other", tmp_path / "other.npy", "--epsilon", 1, "--delta", 1e-5, "--per", "subject")
    assert typed(place, *added, "--rows-per-subject", 4)["rows_per_subject"] == 4
    (tmp_path / "study.toml").write_text(study("record").text, encoding="utf-8")
    seen = typed(place, "review", tmp_path / "study.toml", "--data", "other")
    assert (seen["per"], seen["rows_per_subject"]) == ("subject", 4)
    assert "a subject owns up to 4 records, so its mu counts 4 times" in " ".join(seen["text"].split())


def test_log_and_page_carry_the_unit(short: SiteFolder) -> None:
    short.set_ceiling("cohort", Ceiling(40.0, DELTA, unit=Unit("subject", 6)))
    asked = study("record", "points")
    short.approve(asked)
    short.ledger(asked, "cohort").charge(paid(asked, "one"))
    mu = short.state().charges[0].charge.mu
    logged = CliRunner().invoke(main, ["site", "log", "--folder", str(short.path)]).output
    assert "rows_per_subject 6" in logged
    assert "per subject (at most 6 records of each subject), today's ceiling 40" in logged
    pages = shown(short)
    assert "of 40 spent" in pages.overview("")
    assert "per subject" in pages.overview("")
    assert "at most 6" in pages.ceilings("")
    ledger = pages.ledger("", 0, releases=False)
    assert "epsilon 1 at delta 1e-05 per record by itself" in ledger
    assert "at most epsilon 40 at delta 1e-05 per subject (at most 6 records of each subject)" in ledger
    form = pages.ceiling_form("cohort")
    assert '<option value="subject" selected>' in form
    assert 'name="rows_per_subject" inputmode="numeric" autocomplete="off" value="6"' in form
    assert spending(short, LedgerView.read(short), "cohort").spent == pytest.approx(epsilon_of(DELTA, 6 * mu), rel=1e-4)


def shown(place: SiteFolder) -> Pages:
    return Pages(place, prefix="here", stamp=lambda action: "stamp")


@pytest.mark.parametrize(
    ("before", "after", "raised"),
    [
        (Unit("subject", 5), Unit("record", 5), {"what it is per": True}),
        (Unit("record"), Unit("subject"), {"what it is per": False}),
        (Unit("subject", 5), Unit("subject", 4), {"records per subject at most": True}),
        (Unit("subject", 5), Unit("subject"), {"records per subject at most": True}),
        (Unit("subject"), Unit("subject", 5), {"records per subject at most": False}),
        (Unit("subject", 5), Unit("subject", 6), {"records per subject at most": False}),
        (Unit("subject", 5), Unit("subject", 5), {}),
    ],
)
def test_the_page_says_whether_a_unit_lets_more_be_learnt(before: Unit, after: Unit, raised: dict[str, bool]) -> None:
    found = changes(Ceiling(1.0, DELTA, unit=before), Ceiling(1.0, DELTA, unit=after))
    assert {change.label: change.raised for change in found} == raised


def test_what_was_lost_is_in_the_unit_of_the_ceiling(place: SiteFolder) -> None:
    place.set_ceiling("cohort", Ceiling(9.0, DELTA, unit=Unit("subject", 4)))
    head = place.chain.head()
    place.accept_head(reason="restored", lost={"cohort": (0.5, DELTA)}, seen=type(head)(99, "ff" * 32))
    assert place.state().charges[-1].charge.unit == Unit("subject", 4)
    assert place.state().spent("cohort", DELTA) == pytest.approx(0.5, rel=1e-4)
