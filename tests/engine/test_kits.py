"""Kits, jobs and commands of a federation, without starting one."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from dpcape.cli import main
from dpcape.cli.diagnosis import examine
from dpcape.core.errors import DpcapeError, Failed, InvalidParameter
from dpcape.engines.flare.config import CONTROLLER, EXECUTOR, authorization
from dpcape.engines.flare.job import JobSettings, read_heads, write_job
from dpcape.engines.flare.kits import FederationFolder, check_names
from dpcape.engines.flare.workspace import SiteKit
from dpcape.site.folder import SiteFolder
from dpcape.study.study import Study

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


def test_a_study_on_an_engine_names_its_noise_dealer_or_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="the name of the participant that deals noise"):
        study(tmp_path, "dealer", 'folder = "f"')


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


def test_doctor_without_anything_looks_at_this_machine() -> None:
    assert {finding.subject for finding in examine()} == {"versions", "disk"}
    result = CliRunner().invoke(main, ["doctor", "--json"])
    assert json.loads(result.stdout)["good"] == (result.exit_code == 0)


@pytest.mark.parametrize(
    ("kind", "rest", "message"),
    [
        ("cape", "", "DPCAPE_FEDERATION"),
        ("cape", 'carrier = "pigeon"', "carrier"),
        ("cape", "start = 0", "start"),
        ("cape", 'kit = "x"', "fields"),
    ],
)
def test_what_a_federation_cannot_run_is_refused_before_it_is_submitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, rest: str, message: str
) -> None:
    pytest.importorskip("nvflare")
    from dpcape.engines.flare.submit import federation_folder, job_settings

    monkeypatch.delenv("DPCAPE_FEDERATION", raising=False)
    given = study(tmp_path, kind, rest)
    with pytest.raises(DpcapeError, match=message):
        (job_settings(given, only_check=False), federation_folder(given))


def joins(place: Path, name: str) -> str:
    """Make a site folder and return the file it sends to the coordinator."""
    folder = place / "sites" / name
    if not folder.exists():
        SiteFolder.create(folder, name=name)
    told = CliRunner().invoke(main, ["site", "identity", "--folder", str(folder), "--json"])
    path = place / f"{name}.identity.json"
    path.write_text(told.stdout)
    return str(path)


def test_a_registration_that_its_identity_did_not_sign_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("nvflare")
    from dpcape.engines.flare.registration import Registration

    lyon = json.loads(Path(joins(tmp_path, "lyon")).read_text())
    lima = json.loads(Path(joins(tmp_path, "lima")).read_text())
    assert Registration.load(tmp_path / "lyon.identity.json").site == "lyon"
    stolen = [
        {**lyon, "public_key": lima["public_key"]},
        {**lyon, "certificate_request": lima["certificate_request"]},
        {**lima, "site": "lyon"},
        {**lyon, "request_signature": lima["request_signature"]},
        {**lyon, "certificate_request": "none"},
        {"site": "lyon"},
    ]
    for number, content in enumerate(stolen):
        path = tmp_path / f"{number}.json"
        path.write_text(json.dumps(content))
        with pytest.raises(DpcapeError):
            Registration.load(path)


@pytest.mark.engine
@pytest.mark.parametrize("name", ["rootCA.pem", "client.crt"])
def test_a_link_in_a_kit_does_not_bring_a_secret_to_the_engine(tmp_path: Path, name: str) -> None:
    """A certificate with a secret after it, and a file that holds a secret alone."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "lyon")])
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    made = x509.CertificateBuilder(subject, subject, key.public_key(), 1, begin, begin + timedelta(days=9999))
    pem = made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    startup = tmp_path / "kit" / "startup"
    startup.mkdir(parents=True)
    server = {"identity": "coordinator", "service": {"target": "localhost:8002"}}
    (startup / "fed_client.json").write_text(json.dumps({"servers": [server]}))
    for other in ("rootCA.pem", "client.crt"):
        (startup / other).write_bytes(pem)
    secret = tmp_path / "identity.key"
    (startup / name).unlink()
    (startup / name).symlink_to(secret)
    for content, is_refused in ((b"secret words", True), (pem + b"secret words", False)):
        secret.write_bytes(content)
        work = tmp_path / f"work-{is_refused}"
        work.mkdir()
        if is_refused:
            with pytest.raises(Failed, match=name):
                SiteKit.read(tmp_path / "kit")
        else:
            SiteKit.read(tmp_path / "kit").fill(work, site="lyon", tls_key="", port=1)
            assert (work / "startup" / name).read_bytes() == pem
        assert not [path for path in work.rglob("*") if path.is_file() and b"secret words" in path.read_bytes()]


def test_kits_are_provisioned_hardened_added_and_replaced(tmp_path: Path) -> None:
    pytest.importorskip("nvflare")
    place = tmp_path / "federation"
    sites = [part for name in ("lima", "lyon") for part in ("--site", joins(tmp_path, name))]
    made = CliRunner().invoke(main, ["federation", "init", str(place), *sites, "--json"])
    assert made.exit_code == 0, made.output
    told = json.loads(made.stdout)
    assert len(told["kits"]) == 4
    assert CliRunner().invoke(main, ["federation", "add-site", str(place), joins(tmp_path, "kobe")]).exit_code == 0
    folder = FederationFolder(place)
    before = (folder.kits / "lyon" / "startup" / "client.crt").read_bytes()
    root = (folder.kits / "lyon" / "startup" / "rootCA.pem").read_bytes()
    assert CliRunner().invoke(main, ["federation", "replace-site", str(place), joins(tmp_path, "lyon")]).exit_code == 0
    assert (folder.kits / "lyon" / "startup" / "client.crt").read_bytes() != before
    assert folder.site_names() == ["kobe", "lima", "lyon"]
    for site in folder.site_names():
        kit = folder.kits / site
        files = {path.relative_to(kit).as_posix() for path in kit.rglob("*") if path.is_file()}
        # Nothing else: no key, no settings, no script.
        assert files == {"startup/client.crt", "startup/rootCA.pem", "startup/fed_client.json"}
        assert (kit / "startup" / "rootCA.pem").read_bytes() == root
    # The coordinator holds no key of a site, neither in kits nor in what FLARE remembers.
    state = json.loads((place / "provision" / "dpcape" / "state" / "cert.json").read_text())
    assert not {"lima", "lyon", "kobe"} & set(state)
    private = [(tmp_path / "sites" / site / "keys" / "tls.key").read_text() for site in folder.site_names()]
    contents = [path.read_text(errors="replace") for path in place.rglob("*") if path.is_file()]
    assert not any(key in content for key in private for content in contents)
    assert set(json.loads((folder.server_kit / "local" / "identities.json").read_text())) == {"kobe", "lima", "lyon"}
    resources = json.loads((folder.server_kit / "local" / "resources.json").read_text())
    assert resources["class_allow_list"] == [CONTROLLER]
    assert "/tmp/nvflare" not in json.dumps(resources)
    assert [path for path in place.rglob("*") if path.stat().st_mode & 0o077] == []
    assert CliRunner().invoke(main, ["federation", "init", str(place), *sites]).exit_code == 2
    refused_kits(tmp_path, folder, told["public_key"])


def refused_kits(tmp_path: Path, folder: FederationFolder, coordinator: str) -> None:
    """Kits that a site does not serve with: another's, the server's, one with a private key, one for another key."""
    lyon = tmp_path / "sites" / "lyon"
    serve = ["site", "serve", "--folder", str(lyon), "--kit"]
    unpinned = CliRunner().invoke(main, [*serve, str(folder.kits / "lyon")])
    assert "no coordinator is pinned" in unpinned.stderr
    assert CliRunner().invoke(main, ["site", "pin", "coordinator", coordinator, "--folder", str(lyon)]).exit_code == 0
    old = tmp_path / "old"
    shutil.copytree(folder.kits / "lyon", old)
    (old / "startup" / "client.key").write_text("a key the coordinator made")
    other = tmp_path / "other"
    shutil.copytree(folder.kits / "lyon", other)
    (lyon / "keys" / "tls.key").rename(lyon / "keys" / "tls.before")
    for kit, words in (
        (folder.kits / "lima", "got the kit of lima"),
        (folder.server_kit, "A kit must name its server"),
        (old, "holds a private key that the coordinator has seen"),
        (other, "not for this site's key"),
    ):
        wrong = CliRunner().invoke(main, [*serve, str(kit)])
        assert wrong.exit_code in (2, 3)
        assert words in wrong.stderr, wrong.stderr
    assert "replace-site" in wrong.stderr
