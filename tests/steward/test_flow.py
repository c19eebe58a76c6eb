"""What the steward does on the page, and that it is what the commands do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dpcape.cli import main
from dpcape.core.errors import LedgerRefused
from dpcape.core.privacy.ledger import Charge
from dpcape.core.privacy.unit import Unit
from dpcape.pages.numbers import round_up
from dpcape.site.folder import SiteFolder
from dpcape.site.ledger import Ceiling, last_decision

from .place import TEXT, Place
from .visitor import Visitor


def typed(*words: str | Path) -> dict[str, Any]:
    result = CliRunner().invoke(main, [*map(str, words), "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    value: dict[str, Any] = json.loads(result.stdout)
    return value


def rows_without_times(folder: SiteFolder) -> list[tuple[str, dict[str, Any]]]:
    return [(entry.kind, entry.body) for entry in SiteFolder(folder.path).chain.entries()]


def test_a_study_is_approved_and_then_runs_here(place: Place, steward: Visitor) -> None:
    overview = steward.page()
    assert "thickness" in overview.text
    study = steward.page(f"study/{place.study.digest()}")
    assert "Privacy card" in study.text
    assert place.study.digest() in study.text
    done = steward.follow(steward.send(study.form("/approve"), runs="2"))
    assert "Approved: thickness on cohort, 2 runs." in done.text
    assert place.folder.state().approvals == {place.study.digest(): ("cohort", 2)}
    # The guard itself lets it through now.
    assert place.folder.site_for(place.study).name == "lyon"
    assert any(line.startswith("Approved") for line in place.terminal)
    # The notice is shown once.
    assert "Approved: thickness on cohort" not in steward.page().text


def test_the_page_writes_the_rows_the_commands_write(place: Place, steward: Visitor, tmp_path: Path) -> None:
    """Deny, approve, revoke, a ceiling: row for row equal to those of ``dpcape site``."""
    other = SiteFolder.create(tmp_path / "twin", name="lyon")
    other.add_data("cohort", tmp_path / "cohort.csv", epsilon=1.2, delta=1e-5)
    start = {folder.path: len(rows_without_times(folder)) for folder in (other, place.folder)}
    file = tmp_path / "study.toml"
    typed("site", "review", file, "--folder", other.path)
    typed("site", "deny", "thickness", "--folder", other.path)
    typed("site", "approve", "thickness", "--data", "cohort", "--runs", "3", "--folder", other.path)
    typed("site", "revoke", "thickness", "--folder", other.path)
    typed("site", "budget", "cohort", "--epsilon", "2.5", "--delta", "1e-6", "--per-study", "1", "--folder", other.path)
    address = f"study/{place.study.digest()}"
    for verb, values in (("deny", {}), ("approve", {"runs": "3"}), ("revoke", {})):
        steward.follow(steward.send(steward.page(address).form(f"/{verb}"), **values))
    asked = {"epsilon": "2.5", "delta": "1e-6", "per_study": "1"}
    confirm = steward.send(steward.page("ceilings/cohort").form("/look"), **asked)
    steward.follow(steward.send(confirm.form("/set")))
    written = {folder.path: rows_without_times(folder)[start[folder.path] :] for folder in (other, place.folder)}
    assert written[place.folder.path] == written[other.path]
    assert [kind for kind, _ in written[other.path]] == ["deny", "approve", "revoke", "ceiling"]
    typed("site", "log", "--verify", "--folder", place.folder.path)


def test_looking_changes_nothing(place: Place, steward: Visitor) -> None:
    before = {path: path.read_bytes() for path in place.folder.path.rglob("*") if path.suffix not in (".lock",)
              and path.is_file() and "sqlite" not in path.name}  # fmt: skip
    kinds = place.kinds()
    for path in ("", f"study/{place.study.digest()}", "ceilings", "ceilings/cohort", "ledger", "ledger?data=cohort"):
        assert steward.page(path).status == 200
    assert place.kinds() == kinds
    assert {path: path.read_bytes() for path in before} == before


def test_get_never_decides(place: Place, steward: Visitor) -> None:
    kinds = place.kinds()
    page = steward.page(f"study/{place.study.digest()}")
    for form in page.forms:
        query = "&".join(f"{name}={value}" for name, value in form.fields.items())
        assert steward.get(f"{form.action}?{query}").status in (400, 404)
    assert place.kinds() == kinds


def test_numbers_are_those_of_the_commands(place: Place, steward: Visitor) -> None:
    seen = typed("site", "review", "thickness", "--folder", place.folder.path)
    page = steward.page(f"study/{place.study.digest()}").text
    assert f"before {round_up(seen['spent'])}, after {round_up(seen['after'])}" in page
    charge = place.study.charge("lyon")
    place.folder.approve(place.study)
    paid = Charge(allowance="one", mu=charge.mu, gap=charge.gap, tail=charge.tail, n_releases=1)
    place.folder.ledger(place.study, "cohort").charge(paid)
    spent = typed("site", "budget", "cohort", "--folder", place.folder.path)["spent"]
    assert f"<strong>{spent:g}</strong> of 1.2 spent" in steward.page().text
    assert "used up" in steward.page().text
    # The ceiling's delta is the study's, so that the study by itself is its epsilon.
    words = "cohort: epsilon 1 at delta 1e-05 per record by itself; 0 of 1 releases made"
    assert words in steward.page("ledger").text


def test_what_is_committed_counts_every_run_that_is_left(place: Place, steward: Visitor) -> None:
    place.folder.approve(place.study, runs=3)
    charge = place.study.charge("lyon")
    from dpcape.core.privacy.ledger import spent_epsilon

    together = spent_epsilon([charge] * 3, 1e-5)
    assert f"{round_up(together)} if every approved study runs" in steward.page().text
    place.folder.approve(place.study, runs=10**8)
    # Beyond the range of the proof for integer noise the ledger promises nothing.
    assert "without limit if every approved study runs" in steward.page().text


def test_a_study_above_the_ceiling_is_called_so_before_approval(place: Place, steward: Visitor) -> None:
    large = place.variant("epsilon = 1.0", "epsilon = 3.0")
    text = steward.page(f"study/{large.digest()}").text
    assert "the site would refuse to run this study on cohort" in text
    place.folder.approve(large)
    with pytest.raises(LedgerRefused):
        place.folder.site_for(large)


def test_the_ceiling_of_one_study_is_an_objection_too(place: Place, steward: Visitor) -> None:
    place.folder.set_ceiling("cohort", Ceiling(5.0, 1e-5, 0.5))
    text = steward.page(f"study/{place.study.digest()}").text
    assert "above the ceiling per study 0.5" in text
    place.folder.set_ceiling("cohort", Ceiling(5.0, 1e-5, 1.5))
    assert "would refuse" not in steward.page(f"study/{place.study.digest()}").text


def test_an_exact_study_says_that_nothing_is_protected(place: Place, steward: Visitor) -> None:
    exact = place.variant('kind = "cape"\nn_colluding = 1', 'kind = "exact"')
    assert "no protection: exact totals" in steward.page().text
    text = steward.page(f"study/{exact.digest()}").text
    assert "No protection" in text
    assert "without limit" in text


def test_raising_is_said_and_confirmed(place: Place, steward: Visitor) -> None:
    look = steward.page("ceilings/cohort").form("/look")
    assert look.fields["epsilon"] == "1.2"
    raised = steward.send(look, epsilon="4")
    assert "This raises the ceiling" in raised.text
    assert place.folder.state().ceilings["cohort"].epsilon == 1.2
    steward.follow(steward.send(raised.form("/set")))
    assert place.folder.state().ceilings["cohort"] == Ceiling(4.0, 1e-5)
    lowered = steward.send(look, epsilon="0.5")
    assert "This lowers the ceiling" in lowered.text
    assert "raised" not in lowered.text
    # Smaller epsilon at larger delta lets more be learnt in one way: it counts as raising.
    assert "This raises the ceiling" in steward.send(look, epsilon="0.5", delta="1e-3").text
    limited = steward.send(look, epsilon="4", per_study="1")
    assert "This lowers the ceiling" in limited.text
    assert "Nothing would change" in steward.send(look, epsilon="4").text


@pytest.mark.parametrize(
    ("field", "value"), [("epsilon", "0"), ("epsilon", "nan"), ("delta", "1"), ("delta", "x"), ("per_study", "-1")]
)
def test_a_ceiling_without_meaning_is_refused_in_one_sentence(
    place: Place, steward: Visitor, field: str, value: str
) -> None:
    kinds = place.kinds()
    reply = steward.send(steward.page("ceilings/cohort").form("/look"), **{field: value})
    assert reply.status == 400
    assert "must" in reply.text
    assert place.kinds() == kinds


def test_two_data_sets_need_a_choice(place: Place, steward: Visitor) -> None:
    place.folder.add_data("registry", place.home / "registry.csv", epsilon=9.0, delta=1e-4)
    address = f"study/{place.study.digest()}"
    assert steward.page(address).form("/approve").fields["data"] == "cohort"
    page = steward.page(f"{address}?data=registry")
    assert page.form("/approve").fields["data"] == "registry"
    assert "of registry" in page.text
    steward.follow(steward.send(page.form("/approve")))
    assert place.folder.state().approvals[place.study.digest()] == ("registry", 1)
    assert "nothing to decide here" in steward.page(f"{address}?data=nosuch").text


def test_a_study_is_put_on_the_page_with_its_files(place: Place, steward: Visitor) -> None:
    text = TEXT.replace('columns = ["a", "b", "c"]', 'columns = "columns.txt"').replace("thickness", "with-file")
    (place.home / "columns.txt").write_text("a\nb\nc\n", encoding="utf-8")
    expected = place.written(text, "with-file.toml").digest()
    form = steward.page().form("/add")
    body = multipart(
        {"stamp": form.fields["stamp"]},
        [("study", "with-file.toml", text.encode()), ("files", "columns.txt", b"a\nb\nc\n")],
    )
    reply = steward.ask("POST", form.action, body, {"Content-Type": "multipart/form-data; boundary=xyz"})
    page = steward.follow(reply)
    assert reply.headers["Location"].endswith(expected)
    assert "columns.txt" in page.text
    assert "approve" not in place.kinds()


def multipart(fields: dict[str, str], files: list[tuple[str, str, bytes]]) -> bytes:
    parts = [f'--xyz\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
             for name, value in fields.items()]  # fmt: skip
    for name, file, content in files:
        head = f'--xyz\r\nContent-Disposition: form-data; name="{name}"; filename="{file}"\r\n'
        parts.append(head.encode() + b"Content-Type: application/octet-stream\r\n\r\n" + content + b"\r\n")
    return b"".join(parts) + b"--xyz--\r\n"


@pytest.mark.parametrize("name", ["../../ledger.sqlite", "/etc/passwd", "..", "a/b.txt", ".hidden"])
def test_files_cannot_be_put_elsewhere(place: Place, steward: Visitor, name: str) -> None:
    form = steward.page().form("/add")
    files = [("study", "study.toml", TEXT.encode()), ("files", name, b"x")]
    body = multipart({"stamp": form.fields["stamp"]}, files)
    before = sorted(place.home.rglob("*"))
    reply = steward.ask("POST", form.action, body, {"Content-Type": "multipart/form-data; boundary=xyz"})
    assert reply.status == 400
    assert sorted(place.home.rglob("*")) == before


def test_a_study_for_other_sites_is_refused(place: Place, steward: Visitor) -> None:
    form = steward.page().form("/add")
    text = TEXT.replace("[sites.lyon]", "[sites.kobe]")
    body = multipart({"stamp": form.fields["stamp"]}, [("study", "s.toml", text.encode())])
    reply = steward.ask("POST", form.action, body, {"Content-Type": "multipart/form-data; boundary=xyz"})
    assert reply.status == 400
    assert "a study must name the site &#39;lyon&#39;" in reply.text


def test_the_ledger_is_checked_as_the_command_checks_it(place: Place, steward: Visitor) -> None:
    place.folder.approve(place.study)
    verified = typed("site", "log", "--verify", "--folder", place.folder.path)
    text = steward.page("ledger").text
    assert "the ledger is intact" in text
    assert verified["head"] in text
    assert f"All {verified['rows']} rows" in text


def test_old_rows_are_reached_and_releases_are_asked_for(place: Place, steward: Visitor) -> None:
    for _ in range(120):
        place.folder.chain.append("note", {"text": "filler"}, check=lambda entries: None)
    place.folder.approve(place.study)
    charge = Charge(allowance="one", mu=0.1, gap=1e-7, tail=1e-13, n_releases=2)
    ledger = place.folder.ledger(place.study, "cohort")
    ledger.charge(charge)
    ledger.next_release("one", 0)
    first = steward.page("ledger")
    assert "Older rows" in first.text
    assert "Ledger of lyon begun" not in first.text
    assert "1 of 2 releases made" in first.text
    assert "Release 1 of allowance" not in first.text
    assert "Release 1 of allowance" in steward.page("ledger?releases=shown").text
    # Row 26 is the oldest of the hundred that were shown.
    older = steward.page("ledger?data=&releases=&before=26").text
    assert "Ledger of lyon begun" in older
    assert "Older rows" not in older


def test_a_decision_seen_earlier_ignores_counts_of_releases(place: Place) -> None:
    place.folder.approve(place.study)
    ledger = place.folder.ledger(place.study, "cohort")
    ledger.charge(Charge(allowance="one", mu=0.1, gap=1e-7, tail=1e-13, n_releases=2))
    seen = last_decision(place.folder.chain.entries())
    ledger.next_release("one", 0)
    place.folder.revoke(place.study, seen=seen)
    with pytest.raises(LedgerRefused, match="the ledger changed after"):
        place.folder.deny(place.study, seen=seen)


def test_a_ceiling_per_subject_is_set_on_the_page(place: Place, steward: Visitor) -> None:
    look = steward.page("ceilings/cohort").form("/look")
    assert (look.fields["per"], look.fields["rows_per_subject"]) == ("record", "")
    confirm = steward.send(look, per="subject", rows_per_subject="12")
    assert "This lowers the ceiling" in confirm.text
    assert "what it is per" in confirm.text
    steward.follow(steward.send(confirm.form("/set")))
    assert place.folder.state().ceilings["cohort"] == Ceiling(1.2, 1e-5, unit=Unit("subject", 12))
    back = steward.send(steward.page("ceilings/cohort").form("/look"), per="record")
    assert "This raises the ceiling" in back.text
    for wrong in ({"per": "person"}, {"rows_per_subject": "0"}, {"rows_per_subject": "x"}):
        assert steward.send(look, **wrong).status == 400
