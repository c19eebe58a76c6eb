"""Heads of ledgers that peers keep: a site whose whole folder was restored is noticed through the other sites."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import numpy as np
import pytest

from dpcape import Federation, Mean
from dpcape.core.errors import LedgerRefused, ProtocolError
from dpcape.core.messages import Described, Open, Refused, decode_from_site, decode_to_site, encode
from dpcape.core.noise import OsNoise
from dpcape.core.peer_heads import PeerHeads
from dpcape.core.protocols.noise_dealer import NoiseDealer
from dpcape.core.secure_sum.identity import Identity
from dpcape.core.secure_sum.signed_head import SignedHead
from dpcape.site.chain_head import Head
from dpcape.site.folder import SiteFolder
from dpcape.site.in_process import InProcess
from dpcape.site.ledger import Ceiling
from dpcape.study.study import Study
from dpcape.transport.transport import Passing

SITES = ("lima", "lyon", "oslo")
TEXT = """[study]
name = "first"
analysis = "mean"
epsilon = 1.0
delta = 1e-5
[protocol]
kind = "cape"
n_colluding = 0
[sites.lima]
[sites.lyon]
[sites.oslo]
[data]
kind = "rows"
features = 2
array = "X"
bound = 1.0
"""


class Place:
    """Three site folders that approved several runs; no coordinator remembers anything."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "study.toml").write_text(TEXT)
        self.study = Study.load(path / "study.toml")
        made = [SiteFolder.create(path / site, name=site) for site in SITES]
        for folder in made:
            np.savez(path / f"{folder.name}.npz", X=np.full((9, 2), 0.01 * ord(folder.name[1])) / 4)
            folder.add_data("main", path / f"{folder.name}.npz", epsilon=50.0, delta=1e-3)
            for other in made:
                folder.pin(other.name, other.identity.public.hex())
            folder.approve(self.study, runs=9)
            folder.chain.close()

    def folder(self, site: str) -> SiteFolder:
        return SiteFolder(self.path / site)

    def line(self) -> InProcess:
        members = {site: self.folder(site).site_for(self.study) for site in SITES}
        return InProcess(members, NoiseDealer(Identity.generate(), OsNoise()))

    def fit(self) -> Mean:
        return Mean(epsilon=1.0, delta=1e-5).fit(Federation(self.line(), protocol=self.study.protocol()))

    def restore_later(self, site: str) -> Path:
        backup = self.path / f"{site}-backup"
        shutil.copytree(self.path / site, backup)
        return backup

    def restore(self, site: str, backup: Path) -> None:
        shutil.rmtree(self.path / site)
        shutil.copytree(backup, self.path / site)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def heads_at(place: Place, site: str) -> dict[str, SignedHead]:
    return {head.site: head for head in PeerHeads(place.path / site / "peers.json").kept(place.folder(site).pinned())}


def test_sites_keep_the_heads_of_their_peers(place: Place) -> None:
    shown = {site: place.folder(site).chain.head() for site in SITES}
    place.fit()
    for site in SITES:
        kept = heads_at(place, site)
        assert set(kept) == set(SITES) - {site}
        assert {name: (head.length, head.head) for name, head in kept.items()} == {
            name: tuple(shown[name]) for name in kept
        }
    assert (place.path / "lyon" / "peers.json").stat().st_mode & 0o077 == 0


def test_a_folder_restored_as_a_whole_is_noticed_without_the_coordinators_memory(place: Place) -> None:
    backup = place.restore_later("oslo")
    place.fit()
    place.fit()
    place.restore("oslo", backup)
    charged = len(place.folder("lima").state().charges_of("main"))
    with pytest.raises(LedgerRefused, match=r"oslo.*head it showed before"):
        place.fit()
    assert len(place.folder("lima").state().charges_of("main")) == charged
    # The steward accepts what was lost; peers learn it from the signed head and go on.
    seen = heads_at(place, "lima")["oslo"]
    place.folder("oslo").accept_head(
        reason="disk failure", lost={"main": (2.0, 1e-5)}, seen=Head(seen.length, seen.head)
    )
    place.folder("oslo").approve(place.study, runs=9)
    place.fit()
    assert heads_at(place, "lima")["oslo"].accepted == ((seen.length, seen.head),)


def test_another_row_in_the_place_of_one_that_was_seen_is_refused_by_the_peers_themselves(place: Place) -> None:
    backup = place.restore_later("oslo")
    place.folder("oslo").set_ceiling("main", Ceiling(49.0, 1e-3))
    place.fit()
    place.restore("oslo", backup)
    place.folder("oslo").set_ceiling("main", Ceiling(48.0, 1e-3))

    class Withheld(Passing):
        """A coordinator that does not show oslo what the others keep of it."""

        def ask(self, messages_by_site, deadline):
            sent = {}
            for site, data in messages_by_site.items():
                allowance, message = decode_to_site(data)
                if isinstance(message, Open) and site == "oslo":
                    data = encode(msgspec.structs.replace(message, heads=()), allowance=allowance)
                sent[site] = data
            return super().ask(sent, deadline)

    with pytest.raises(LedgerRefused, match=r"row \d+ of the ledger of oslo"):
        Mean(epsilon=1.0, delta=1e-5).fit(Federation(Withheld(place.line()), protocol=place.study.protocol()))


def test_forged_heads_lock_nobody_out(place: Place) -> None:
    """A coordinator, or a peer, that invents a later head of oslo: refused, and oslo's ledger is not doubted."""
    line = place.line()
    federation = Federation(line, protocol=place.study.protocol())
    genuine = described(line, "oslo")
    assert genuine.signed is not None
    for changed in ({"length": 10**6}, {"head": "0" * 64}, {"accepted": ((1, "0" * 64),)}, {"length": -1}):
        forged = msgspec.structs.replace(genuine.signed, **changed)
        for site in ("oslo", "lima"):
            terms = federation.terms(1.0, 1e-5)
            refused = answer(line, site, Open(terms=terms, heads=(forged,)))
            assert isinstance(refused, Refused)
            assert refused.error == "ProtocolError"
    assert not (place.path / "lima" / "peers.json").exists()
    place.fit()


def described(line: InProcess, site: str) -> Described:
    from dpcape.core.messages import Describe

    reply = decode_from_site(line.site(site).answer(encode(Describe())))[1]
    assert isinstance(reply, Described)
    return reply


def answer(line: InProcess, site: str, message: Open) -> object:
    return decode_from_site(line.site(site).answer(encode(message, allowance=message.terms.allowance)))[1]


def test_an_old_statement_changes_nothing(place: Place) -> None:
    """Two studies at the same time: the head that was asked for first may arrive last."""
    early = place.line()
    federation = Federation(early, protocol=place.study.protocol())
    place.fit()
    before = heads_at(place, "lima")
    place.fit()
    late = heads_at(place, "lima")
    assert late["oslo"].length > before["oslo"].length
    Mean(epsilon=1.0, delta=1e-5).fit(federation)
    assert heads_at(place, "lima") == late


def test_a_new_identity_starts_anew(place: Place) -> None:
    place.fit()
    assert PeerHeads(place.path / "lima" / "peers.json").kept({"oslo": Identity.generate().public}) == ()
    (place.path / "lima" / "peers.json").write_text("damaged")
    with pytest.raises(LedgerRefused, match=r"peers\.json"):
        place.fit()


def test_without_the_pinned_signature_nothing_is_kept(tmp_path: Path) -> None:
    identity, other = Identity.generate(), Identity.generate()
    peers = PeerHeads(tmp_path / "peers.json")
    head = SignedHead.of(identity, "oslo", 3, "a" * 64, ())
    with pytest.raises(ProtocolError):
        peers.take([head], {"oslo": other.public})
    with pytest.raises(ProtocolError):
        peers.take([head], {})
    peers.take([head], {"oslo": identity.public})
    assert peers.kept({"oslo": identity.public}) == (head,)
