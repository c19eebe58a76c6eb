"""Attacks on a real federation set up by the guide; what each reaches is compared with a fixed list.

Rogue member, rogue root of trust, rogue server process, poisoned kit, kills: nothing of a site's records, keys or
ledger is read, and a study goes on while enough sites are left. Without Landlock these tests fail.
"""

from __future__ import annotations

import json
import shutil
import signal
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("nvflare")

from tests.engine.consortium import SITES, SUBJECTS

from dpcape.engines.flare.admin_session import opened
from dpcape.engines.flare.job import JobSettings, write_job
from dpcape.runs.folder import RunFolder
from dpcape.site.folder import SiteFolder
from dpcape.site.vault.landlock import abi
from dpcape.site.vault.self_test import Probes, succeeded
from dpcape.steward.server import StewardServer

from .attacked import HERE, Attacked

pytestmark = [pytest.mark.hostile, pytest.mark.filterwarnings("default")]

INFOMAX = 'solver = "infomax"\nn_components = 2\nn_iter = {}\ntol = 1e-12'
# What code inside a captured engine can do, and nothing else.
INSIDE = ["ask the vault", "read its own TLS key"]


def test_the_kernel_has_landlock() -> None:
    assert abi() >= 4, "the hostile suite needs Landlock 4 or newer (Linux 6.7)"


def test_a_rogue_root_of_trust_runs_code_and_reaches_nothing(federation: Attacked, tmp_path: Path) -> None:
    """Whoever holds the root key mints a user whom FLARE never refuses; its job brings code to every site."""
    study = federation.study("battery", "mean")
    federation.approve(study)
    write_job(study, tmp_path / "job", JobSettings())
    custom = tmp_path / "job" / "site" / "custom"
    custom.mkdir()
    shutil.copyfile(HERE / "battery.py", custom / "battery.py")
    config = tmp_path / "job" / "site" / "config" / "config_fed_client.json"
    content = json.loads(config.read_text())
    site = "lyon"
    page = StewardServer(SiteFolder(federation.folder(site)), tell=lambda line: None)
    answering = threading.Thread(target=page.run)
    answering.start()
    listening = socket.create_server(("127.0.0.1", 0))
    probes = {
        "secret_files": federation.secrets_of(site),
        "folder": str(federation.folder(site)),
        "decoy": str(federation.folder(site) / "keys" / "self-test"),
        "vault": federation.part(site, "vault").pid,
        "unix": str(tmp_path / "none"),
        "port": listening.getsockname()[1],
        "page": page.port,
        "package": str(HERE / "battery.py"),
    }
    # From here, the page and the port can be reached.
    assert {"connect elsewhere", "reach the steward's page", "read secret 1"} <= set(succeeded(Probes(**probes)))
    others = [*federation.secrets_of("lima"), str(federation.federation.path / "coordinator.key")]
    arguments = {"probes": probes, "others": others, "supervisor": federation.running[site].pid}
    content["components"] = [{"id": "battery", "path": "battery.Battery", "args": arguments}]
    config.write_text(json.dumps(content))
    result = federation.work_of(site) / "battery.json"
    rogue = super_user(federation, tmp_path / "super")
    with opened(rogue) as coordination:
        job = coordination.submit(tmp_path / "job")
        end = time.monotonic() + 90
        while not result.exists() and time.monotonic() < end:
            time.sleep(0.2)
        assert result.exists(), coordination.status(job)
        reached = json.loads(result.read_text())
        coordination.cancel(job)
    page.stop()
    answering.join()
    listening.close()
    assert reached["succeeded"] == INSIDE
    assert reached["uid"] != 0


def super_user(federation: Attacked, kit: Path) -> Path:
    """Mint an administrator with FLARE's role 'super', as the holder of the root key can."""
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from nvflare.lighter.utils import Identity, generate_cert, generate_keys, serialize_cert, serialize_pri_key

    from dpcape.engines.flare.kits import ADMIN

    shutil.copytree(federation.federation.admin_kit, kit)
    state = federation.federation.path / "provision" / "dpcape" / "state" / "cert.json"
    known = json.loads(state.read_text())
    root = serialization.load_pem_private_key(known["root_pri_key"].encode(), password=None)
    assert x509.load_pem_x509_certificate(known["root_cert"].encode())
    private, public = generate_keys()
    made = generate_cert(Identity(ADMIN, "coordinator", "super"), Identity("dpcape"), root, public)
    (kit / "startup" / "client.crt").write_bytes(serialize_cert(made))
    (kit / "startup" / "client.key").write_bytes(serialize_pri_key(private))
    return kit


def killed_during(federation: Attacked, name: str, site: str, part: str) -> RunFolder:
    """Run a study and kill -9 one process of a site after the second release."""
    study = federation.study(name, "joint_ica", parameters=INFOMAX.format(120), data=SUBJECTS, epsilon=50.0)
    federation.approve(study)
    killed: list[int] = []

    def listen(state: dict[str, Any]) -> None:
        if state["release"] >= 2 and not killed:
            process = federation.part(site, part)
            killed.append(process.pid)
            process.send_signal(signal.SIGKILL)

    run = federation.run(study, listen)
    assert killed, "the study ended before anything was killed"
    return run


@pytest.mark.parametrize("part", ["job", "vault", "engine"])
def test_a_killed_process_costs_one_site_and_the_site_comes_back(federation: Attacked, part: str) -> None:
    run = killed_during(federation, f"killed-{part}", "pune", part)
    assert run.model().guarantee_.took_part == ("lima", "lyon", "oslo")
    assert [event["site"] for event in run.events() if event["event"] == "lost"] == ["pune"]
    federation.part("pune", "vault")
    federation.await_connected(SITES)


def test_a_kit_poisoned_by_its_engine_is_clean_at_the_next_start(federation: Attacked) -> None:
    """The engine works in a copy: what it plants there is gone after a restart, and the kit never changed."""
    kit = federation.kit("pune")
    before = {path: path.read_bytes() for path in kit.rglob("*") if path.is_file()}
    work = federation.work_of("pune")
    planted = [work / "startup" / "sub_start.sh", work / "local" / "custom" / "evil.py"]
    for path in planted:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("evil")
    federation.part("pune", "engine").send_signal(signal.SIGKILL)
    end = time.monotonic() + 60
    while work.exists() and time.monotonic() < end:
        time.sleep(0.2)
    federation.await_connected(SITES)
    assert not any(path.exists() for path in planted)
    assert federation.work_of("pune") != work
    assert {path: path.read_bytes() for path in kit.rglob("*") if path.is_file()} == before


def test_a_rogue_member_reaches_nothing_and_ends_nothing(federation: Attacked, tmp_path: Path) -> None:
    """Oslo is rogue. Pune runs FLARE's own client, unconfined: there the same messages succeed."""
    for site in ("oslo", "pune"):
        federation.kill(site)
    orders = tmp_path / "orders.json"
    federation.client("pune")
    federation.client("oslo", rogue=orders)
    federation.await_connected(SITES, seconds=90)
    shell = [
        {"do": "send", "topic": "sys.shell", "target": site, "body": f"cat {federation.secrets_of(site)[0]}"}
        for site in ("pune", "lyon")
    ]
    control, attack = answers(federation, orders, shell)
    # The positive control: this is what was possible before.
    assert federation.identity_text("pune") in control
    assert attack.startswith("unauthenticated")
    assert federation.identity_text("lyon") not in attack
    wanted = [
        {"do": "send", "topic": topic, "target": "lyon", "body": ""}
        for topic in ("sys.info", "report_env", "train.shutdown", "train.restart", "train.abort")
    ]
    assert all(answer.startswith("unauthenticated") for answer in answers(federation, orders, wanted))
    engine = federation.part("lyon", "engine").pid
    # The stock client takes the same order to end.
    federation.order(orders, [{"do": "send", "topic": "train.shutdown", "target": "pune", "body": ""}])
    time.sleep(3.0)
    assert federation.part("lyon", "engine").pid == engine
    federation.kill("pune")
    federation.start_one("pune")
    federation.await_connected(["lima", "lyon", "pune"])
    hostile_report(federation, orders)


def answers(federation: Attacked, orders: Path, wanted: list[dict[str, str]]) -> list[str]:
    """What came back, asked again while a client that has just started does not answer yet."""
    end = time.monotonic() + 90
    while True:
        found = federation.order(orders, wanted)
        if time.monotonic() > end or not any(answer.startswith("timeout") for answer in found):
            return found
        time.sleep(1.0)


def hostile_report(federation: Attacked, orders: Path) -> None:
    """A member reports that the running job failed at its place; the study goes on without it."""
    study = federation.study(
        "reported", "joint_ica", parameters=INFOMAX.format(120), data=SUBJECTS, epsilon=50.0, extra="start = 20\n"
    )
    federation.approve(study)
    reported: list[str] = []

    def listen(state: dict[str, Any]) -> None:
        if state["release"] >= 2 and not reported:
            events = RunFolder(federation.path / "runs" / study.name).events()
            job = next(event["job"] for event in events if event["event"] == "submitted")
            reported.extend(federation.order(orders, [{"do": "report failure", "job": str(job)}]))

    run = federation.run(study, listen)
    assert reported
    assert run.model().guarantee_.took_part == ("lima", "lyon", "pune")
