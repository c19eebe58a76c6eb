"""The noise dealer's vault as a process of its own: an engine that sends whatever it likes gets no noise and no key."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from dpcape.core.errors import LedgerRefused
from dpcape.core.messages import Deal, DealerDescribed, Dealt, Describe, Refused, decode_from_site, encode
from dpcape.core.protocols.dealt_noise import key_statement
from dpcape.core.secure_sum.box import BoxKey
from dpcape.core.secure_sum.identity import Identity
from dpcape.site.folder import SiteFolder
from dpcape.site.vault.server import VaultSettings, study_opener
from dpcape.study.study import Study
from dpcape.transport.frames import Ask, Reply, signed, split

from .test_vault import COORDINATOR, ROGUE, Vault

SITES = ("lima", "lyon")
SIGNERS = {site: Identity.generate() for site in SITES}
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
features = 2
bound = 1.0
[federation]
engine = "flare"
"""


class DealerVault(Vault):
    def ready(self, job: str, study: str) -> Reply:
        end = time.monotonic() + 30
        while True:
            reply, _ = self.ask(Ask(kind="ready", job=job, study=study, site="kiel", number=0))
            if reply.state != "busy" or time.monotonic() > end:
                return reply
            time.sleep(0.05)

    def round(self, job: str, study: Study, ready: Reply, number: int) -> Ask:
        session = str(ready.about["session"])
        return Ask(kind="round", job=job, study=study.digest(), site="kiel", number=number, session=session)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> tuple[SiteFolder, Study]:
    path = tmp_path_factory.mktemp("dealer")
    (path / "study.toml").write_text(STUDY)
    study = Study.load(path / "study.toml")
    folder = SiteFolder.create(path / "kiel", name="kiel")
    folder.pin("coordinator", COORDINATOR.public.hex())
    for site, signer in SIGNERS.items():
        folder.pin(site, signer.public.hex())
    folder.approve(study, runs=2)
    return folder, study


@pytest.fixture
def vault(place: tuple[SiteFolder, Study]) -> Iterator[DealerVault]:
    made = DealerVault(place[0])
    yield made
    made.stop()


def a_deal(terms: bytes, release: int = 0, sites: tuple[str, ...] = SITES) -> Deal:
    keys = {site: BoxKey().public for site in sites}
    receivers = {site: SIGNERS[site].sign(key_statement(terms, site, public)) + public for site, public in keys.items()}
    return Deal(terms=terms, release=release, size=4, shared_steps=dict.fromkeys(sites, 1e6), receivers=receivers)


def test_noise_is_dealt_to_the_coordinator_of_an_approved_study_only(
    vault: DealerVault, place: tuple[SiteFolder, Study]
) -> None:
    folder, study = place
    job = secrets.token_hex(8)
    ready = vault.ready(job, study.digest())
    assert ready.state == "ok", ready
    asked = encode(a_deal(b"t" * 32), allowance="first")
    # What the engine signs itself, or with another member's key, is not the coordinator's.
    forged = vault.client.ask(signed(vault.round(job, study, ready, 1), ROGUE, asked))
    assert split(forged)[0][-64:] == bytes(64)
    assert not split(forged)[1]
    assert [entry.kind for entry in folder.chain.entries()].count("deal") == 0
    reply, body = vault.ask(vault.round(job, study, ready, 1), encode(Describe()))
    described = decode_from_site(body)[1]
    assert isinstance(described, DealerDescribed)
    assert (described.separation, described.replayable) == ("confined", False)
    reply, body = vault.ask(vault.round(job, study, ready, 2), asked)
    assert (reply.state, reply.job, reply.number) == ("ok", job, 2)
    assert isinstance(decode_from_site(body)[1], Dealt)
    # Recorded and sent again, it deals nothing.
    again, body = vault.ask(vault.round(job, study, ready, 2), asked)
    assert (again.state, body) == ("stale", b"")
    # A deal that leaves a site out would leave the others uncovered.
    _, body = vault.ask(
        vault.round(job, study, ready, 3), encode(a_deal(b"u" * 32, sites=("lima",)), allowance="other")
    )
    refused = decode_from_site(body)[1]
    assert isinstance(refused, Refused)
    assert "sites of the study" in refused.text
    rows = [entry for entry in folder.chain.entries() if entry.kind == "deal"]
    assert [row.body["allowance"] for row in rows] == ["first"]


def test_a_study_that_was_not_approved_is_refused(vault: DealerVault) -> None:
    reply = vault.ready(secrets.token_hex(8), "e" * 64)
    assert (reply.state, reply.error) == ("refused", "LedgerRefused")


def test_runs_are_counted_by_allowance_also_after_a_restart(
    vault: DealerVault, place: tuple[SiteFolder, Study]
) -> None:
    folder, study = place
    folder.approve(study, runs=1)

    def dealt(allowance: str) -> object:
        job = secrets.token_hex(8)
        end = time.monotonic() + 30
        while True:
            header = Ask(kind="ready", job=job, study=study.digest(), site="kiel", number=0, allowance=allowance)
            ready, _ = vault.ask(header)
            if ready.state != "busy" or time.monotonic() > end:
                break
            time.sleep(0.05)
        if ready.state != "ok":
            return ready.error
        body = encode(a_deal(allowance.encode() * 4), allowance=allowance)
        return type(decode_from_site(vault.ask(vault.round(job, study, ready, 1), body)[1])[1])

    assert dealt("one") is Dealt
    vault.stop()
    vault.start()
    assert dealt("one") is Dealt
    assert dealt("two") == "LedgerRefused"


def test_without_separation_no_noise_is_dealt(place: tuple[SiteFolder, Study]) -> None:
    folder, study = place
    folder.approve(study, runs=5)
    settings = VaultSettings(folder=str(folder.path), mode="none", control=-1)
    with pytest.raises(LedgerRefused, match="not separated"):
        study_opener(folder, settings)(study.digest(), "")


def test_the_vault_of_a_dealer_has_no_network_and_hides_its_memory(vault: DealerVault) -> None:
    process = psutil.Process(vault.process.pid)
    assert process.net_connections(kind="inet") == []
    assert not [entry.path for entry in process.memory_maps() if "nvflare" in entry.path or "grpc" in entry.path]
    assert Path(f"/proc/{vault.process.pid}/environ").stat().st_uid == 0
