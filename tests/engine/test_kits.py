"""Kits, jobs and commands of a federation, without starting one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from dpcape.cli import main
from dpcape.cli.diagnosis import examine
from dpcape.engines.flare.config import CONTROLLER, EXECUTOR, authorization
from dpcape.engines.flare.job import JobSettings, read_heads, write_job
from dpcape.engines.flare.kits import FederationFolder, check_names
from dpcape.errors import InvalidParameter
from dpcape.site.folder import SiteFolder
from dpcape.site.serving import SiteSettings
from dpcape.study import Study

STUDY = """[study]
name = "first"
analysis = "mean"
epsilon = 1.0
delta = 1e-5
[protocol]
kind = "{kind}"
n_colluding = 0
[sites.lima]
[sites.lyon]
[sites.oslo]
[data]
kind = "rows"
columns = "columns.txt"
bound = 1.0
[federation]
engine = "flare"
{rest}
"""


def study(folder: Path, kind: str = "cape", rest: str = "") -> Study:
    (folder / "columns.txt").write_text("age\nthickness\n")
    (folder / "study.toml").write_text(STUDY.format(kind=kind, rest=rest))
    return Study.load(folder / "study.toml")


@pytest.mark.parametrize("names", [["a.b"], ["server"], ["lyon", "lyon"], [], ["-x"], ["lyon; rm"], ["dealer"]])
def test_names_that_the_engine_would_misread_are_refused(names: list[str]) -> None:
    with pytest.raises(InvalidParameter):
        check_names(names)


def test_a_job_holds_names_and_a_digest_and_no_code(tmp_path: Path) -> None:
    given = study(tmp_path)
    write_job(given, tmp_path / "job", JobSettings(), {"lyon": (3, "ab")})
    files = {path.relative_to(tmp_path / "job").as_posix() for path in (tmp_path / "job").rglob("*") if path.is_file()}
    assert files == {
        "meta.json",
        "coordinator/config/config_fed_server.json",
        "coordinator/config/heads.json",
        "coordinator/config/study/study.toml",
        "coordinator/config/study/columns.txt",
        "site/config/config_fed_client.json",
    }
    site = json.loads((tmp_path / "job" / "site" / "config" / "config_fed_client.json").read_text())
    assert site["executors"][0]["executor"] == {"path": EXECUTOR, "args": {"study": given.digest()}}
    travelled = Study.load(tmp_path / "job" / "coordinator" / "config" / "study" / "study.toml")
    assert travelled.digest() == given.digest()
    assert read_heads(tmp_path / "job" / "coordinator" / "config") == {"lyon": (3, "ab")}


@pytest.mark.parametrize("at_server", [True, False])
def test_nobody_may_bring_code_or_run_commands(at_server: bool) -> None:
    for rights in authorization(at_server=at_server)["permissions"].values():
        assert rights["byoc"] == rights["shell_commands"] == "none"


def test_settings_of_a_kit_are_private_and_checked(tmp_path: Path) -> None:
    path = tmp_path / "dpcape.json"
    SiteSettings(coordinator="00" * 32, folder="/somewhere").save(path)
    assert path.stat().st_mode & 0o077 == 0
    assert SiteSettings.load(path).replay_for_tests is None
    for content in ("{", '{"coordinator": 1}', '{"coordinator": "00", "version": 2}', '{"coordinator": "", "x": 1}'):
        path.write_text(content)
        with pytest.raises(InvalidParameter):
            SiteSettings.load(path)


def test_doctor_without_anything_looks_at_this_machine() -> None:
    assert {finding.subject for finding in examine()} == {"versions", "disk"}
    result = CliRunner().invoke(main, ["doctor", "--json"])
    assert json.loads(result.stdout)["good"] == (result.exit_code == 0)


@pytest.mark.parametrize(
    ("kind", "rest", "message"),
    [
        ("cape", "", "folder of"),
        ("cape", 'carrier = "pigeon"', "carrier"),
        ("cape", "start = 0", "start"),
        ("cape", 'kit = "x"', "fields"),
        ("dealer", 'folder = "f"', "dealer"),
    ],
)
def test_what_a_federation_cannot_run_is_refused_before_it_is_submitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, rest: str, message: str
) -> None:
    pytest.importorskip("nvflare")
    from dpcape.engines.flare.submit import federation_folder, job_settings

    monkeypatch.delenv("DPCAPE_FEDERATION", raising=False)
    given = study(tmp_path, kind, rest)
    with pytest.raises(InvalidParameter, match=message):
        (job_settings(given, only_check=False), federation_folder(given))


@pytest.mark.engine
def test_kits_are_provisioned_hardened_added_and_replaced(tmp_path: Path) -> None:
    pytest.importorskip("nvflare")
    place = tmp_path / "federation"
    made = CliRunner().invoke(main, ["federation", "init", str(place), "--site", "lima", "--site", "lyon", "--json"])
    assert made.exit_code == 0, made.output
    assert len(json.loads(made.stdout)["kits"]) == 4
    assert CliRunner().invoke(main, ["federation", "add-site", str(place), "kobe"]).exit_code == 0
    folder = FederationFolder(place)
    before = (folder.kits / "lyon" / "startup" / "client.crt").read_bytes()
    root = (folder.kits / "lyon" / "startup" / "rootCA.pem").read_bytes()
    assert CliRunner().invoke(main, ["federation", "replace-site", str(place), "lyon"]).exit_code == 0
    assert (folder.kits / "lyon" / "startup" / "client.crt").read_bytes() != before
    assert folder.site_names() == ["kobe", "lima", "lyon"]
    for site in folder.site_names():
        kit = folder.kits / site
        assert (kit / "startup" / "rootCA.pem").read_bytes() == root
        assert json.loads((kit / "local" / "resources.json").read_text())["class_allow_list"] == [EXECUTOR]
        assert SiteSettings.load(kit / "local" / "dpcape.json").coordinator == folder.coordinator().public.hex()
    resources = json.loads((folder.server_kit / "local" / "resources.json").read_text())
    assert resources["class_allow_list"] == [CONTROLLER]
    assert "/tmp/nvflare" not in json.dumps(resources)
    assert [path for path in place.rglob("*") if path.stat().st_mode & 0o077] == []
    assert CliRunner().invoke(main, ["federation", "init", str(place), "--site", "lima"]).exit_code == 2
    SiteFolder.create(tmp_path / "lyon", name="lyon")
    serve = ["site", "serve", "--folder", str(tmp_path / "lyon"), "--kit"]
    for kit, words in ((folder.kits / "lima", "got the kit of lima"), (folder.server_kit, "Take the kit of lyon")):
        wrong = CliRunner().invoke(main, [*serve, str(kit)])
        assert wrong.exit_code == 2
        assert words in wrong.stderr
