"""The steward's commands, as typed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dpcape.cli import main
from dpcape.site.folder import SiteFolder

from .consortium import Consortium


def typed(*words: str | Path) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words], catch_exceptions=False)


def answered(*words: str | Path) -> dict[str, Any]:
    result = typed(*words, "--json")
    assert result.exit_code == 0, result.output
    value: dict[str, Any] = json.loads(result.stdout)
    return value


def test_a_steward_from_init_to_log(consortium: Consortium, tmp_path: Path) -> None:
    """Journey (d): init, add, identity, pin, review, approve, run, budget, log."""
    home, study = tmp_path / "steward", tmp_path / "study.toml"
    made = answered("site", "init", home, "--name", "lyon", "--keys", tmp_path / "vault")
    assert made["public_key"] == answered("site", "identity", "--folder", home)["public_key"]
    (tmp_path / "cohort.csv").write_bytes((tmp_path / "lyon.csv").read_bytes())
    budget = ("--epsilon", "3", "--delta", "1e-4", "--per-study", "1.5")
    added = answered("site", "add", "cohort", tmp_path / "cohort.csv", *budget, "--folder", home)
    assert (added["epsilon"], added["spent"]) == (3.0, 0.0)
    for name in ("lima", "oslo"):
        other = consortium.sites[name]
        pinned = answered("site", "pin", name, other.identity.public.hex(), "--folder", home)
        assert pinned["fingerprint"] == other.identity.fingerprint()
        other.pin("lyon", made["public_key"])
        other.approve(consortium.study)
    seen = answered("site", "review", study, "--folder", home)
    # The study's (1, 1e-5) is less at the ceiling's delta of 1e-4.
    assert seen["spent"] == 0.0
    assert 0.7 < seen["after"] < 0.9
    assert "What leaves this site" in typed("site", "review", "thickness", "--folder", home).stdout
    assert answered("site", "approve", "thickness", "--folder", home)["digest"] == consortium.study.digest()
    consortium.sites["lyon"] = SiteFolder(home)
    consortium.study.estimator().fit(consortium.federation())
    spent = answered("site", "budget", "cohort", "--folder", home)
    assert spent["spent"] == pytest.approx(seen["after"], rel=1e-3)
    assert spent["charges"] == spent["studies_charged"] == 1
    rows = answered("site", "log", "cohort", "--folder", home)["rows"]
    assert [row["kind"] for row in rows] == ["ceiling", "approve", "charge"]
    assert answered("site", "log", "--verify", "--folder", home)["verified"]
    assert "charge" in typed("site", "log", "--folder", home).stdout


def test_export_can_be_checked_elsewhere(consortium: Consortium, tmp_path: Path) -> None:
    import hashlib

    place = consortium.sites["lyon"]
    head = answered("site", "log", "--export", tmp_path / "log.jsonl", "--folder", place.path)["head"]
    previous = "0" * 64
    for line in (tmp_path / "log.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        body = json.dumps(row["body"], sort_keys=True, separators=(",", ":"))
        content = ["dpcape ledger 1", previous, row["number"], row["time"], row["kind"], body]
        previous = hashlib.sha256(json.dumps(content, separators=(",", ":")).encode()).hexdigest()
        assert previous == row["hash"]
    assert previous == head
    text = (tmp_path / "log.jsonl").read_text(encoding="utf-8")
    assert str(tmp_path) not in text
    assert place.identity.private_bytes().hex() not in text


def test_exit_codes_tell_no_from_wrong(consortium: Consortium, tmp_path: Path) -> None:
    home = consortium.sites["lyon"].path
    wrong = typed("site", "budget", "nothing", "--folder", home)
    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert "must be one of cohort; got 'nothing'" in wrong.stderr
    assert typed("site", "budget", "cohort", "--epsilon", "2", "--folder", home).exit_code == 2
    assert typed("site", "identity", "--folder", tmp_path).exit_code == 2
    assert typed("site", "approve", tmp_path / "nowhere.toml", "--folder", home).exit_code == 2
    consortium.sites["lyon"].chain.close()
    (home / "keys" / "ledger.head").unlink()
    refused = typed("site", "log", "--folder", home)
    assert refused.exit_code == 3
    assert "head" in refused.stderr


def test_deny_and_revoke_are_rows(consortium: Consortium, tmp_path: Path) -> None:
    home, study = consortium.sites["lyon"].path, tmp_path / "study.toml"
    assert typed("site", "revoke", study, "--folder", home).exit_code == 2
    answered("site", "approve", study, "--runs", "3", "--folder", home)
    answered("site", "revoke", study, "--folder", home)
    answered("site", "deny", study, "--folder", home)
    kinds = [row["kind"] for row in answered("site", "log", "--folder", home)["rows"]]
    assert kinds[-3:] == ["approve", "revoke", "deny"]


def test_accepting_a_restored_ledger_is_said_and_logged(consortium: Consortium) -> None:
    place = consortium.sites["lyon"]
    place.chain.close()
    backup = (place.path / "ledger.sqlite").read_bytes()
    later = SiteFolder(place.path)
    later.approve(consortium.study)
    later.chain.close()
    (place.path / "ledger.sqlite").write_bytes(backup)
    log = ("site", "log", "--folder", place.path)
    assert typed(*log).exit_code == 3
    assert typed(*log, "--accept-head", "--reason", "disk").exit_code == 2
    assert typed(*log, "--accept-head", "--reason", "disk", "--lost", "cohort").exit_code == 2
    rows = answered(*log, "--accept-head", "--reason", "disk", "--lost", "cohort:0.5:1e-5")["rows"]
    assert [row["kind"] for row in rows[-2:]] == ["accept", "charge"]
    assert rows[-2]["body"]["reason"] == "disk"
    assert answered("site", "budget", "cohort", "--folder", place.path)["spent"] == pytest.approx(0.5, rel=1e-2)
    assert typed(*log, "--verify").exit_code == 0


def test_what_was_lost_is_said_once_for_each_data_set(consortium: Consortium) -> None:
    place = consortium.sites["lyon"]
    place.chain.close()
    (place.keys / "ledger.head").unlink()
    twice = ("--lost", "cohort:1:1e-5", "--lost", "cohort:0.1:1e-5")
    refused = typed("site", "log", "--accept-head", "--reason", "disk", *twice, "--folder", place.path)
    assert refused.exit_code == 2
    assert "once per data set" in refused.stderr


def test_a_new_ceiling_leaves_what_was_not_named(consortium: Consortium) -> None:
    home = consortium.sites["lyon"].path
    answered("site", "budget", "cohort", "--per-study", "0.8", "--folder", home)
    raised = answered("site", "budget", "cohort", "--epsilon", "4", "--delta", "1e-4", "--folder", home)
    assert (raised["epsilon"], raised["per_study"]) == (4.0, 0.8)
    freed = answered("site", "budget", "cohort", "--no-per-study", "--folder", home)
    assert (freed["epsilon"], freed["delta"], freed["per_study"]) == (4.0, 1e-4, "no ceiling of its own")
    assert typed("site", "budget", "cohort", "--per-study", "1", "--no-per-study", "--folder", home).exit_code == 2


def test_the_log_of_a_data_set_that_is_none(consortium: Consortium) -> None:
    wrong = typed("site", "log", "typo", "--folder", consortium.sites["lyon"].path)
    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert "must be one of cohort; got 'typo'" in wrong.stderr


def test_a_file_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    refused = typed("site", "init", tmp_path / "taken" / "site", "--name", "lyon")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr.startswith("dpcape: ")
    assert "Not a directory. Check the path, its permissions" in refused.stderr


def test_help_lists_the_commands() -> None:
    text = typed("site", "--help").stdout
    for command in ("init", "add", "review", "budget", "approve", "deny", "revoke", "log", "identity", "pin"):
        assert command in text
