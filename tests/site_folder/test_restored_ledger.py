"""A ledger file restored from a copy gives no release again: every row moves the copy of the head.

Each argument that a lost row gives nothing back is tried against `Reopen`, which continues an allowance by its rows.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from dpcape import Federation
from dpcape.core import messages
from dpcape.core.errors import LedgerRefused, ProtocolError
from dpcape.core.privacy.terms import Terms
from dpcape.core.site import Site
from dpcape.site.chain_head import Head, HeadCopy
from dpcape.site.folder import SiteFolder
from dpcape.study.study import Study
from dpcape.transport.transport import Transport

from .ledgers import approve, ceiling, charge, ledger, new_chain

TEXT = """
[study]
name = "clusters"
analysis = "kmeans"
n_clusters = 2
n_iter = 4
epsilon = 1.0
delta = 1e-6
[protocol]
kind = "independent"
[sites.lyon]
[data]
kind = "rows"
features = 3
array = "X"
bound = 1.0
"""
N_RELEASES = 4


class Cut(BaseException):
    """Stands for a killed process: nothing in dpcape may catch it."""


class Place(Transport):
    """One site on disk and the line to it; what was sent and answered is kept, and so is the ledger after each."""

    sites = ("lyon",)

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "study.toml").write_text(TEXT, encoding="utf-8")
        self.study = Study.load(path / "study.toml")
        np.savez(path / "lyon.npz", X=np.random.default_rng(5).uniform(-0.5, 0.5, (80, 3)))
        folder = SiteFolder.create(path / "lyon", name="lyon")
        folder.add_data("cohort", path / "lyon.npz", epsilon=1.1, delta=1e-5)
        folder.approve(self.study)
        folder.chain.close()
        self.site = self.served()
        self.submitted: list[bytes] = []
        self.copies: list[Path] = []
        self.terms: Terms | None = None

    def served(self, allowance: str = "") -> Site:
        return SiteFolder(self.path / "lyon").site_for(self.study, allowance=allowance)

    def ask(
        self, messages_by_site: Mapping[str, bytes], deadline: float | None
    ) -> tuple[dict[str, bytes], tuple[str, ...]]:
        message = messages.decode_to_site(messages_by_site["lyon"])[1]
        if isinstance(message, messages.Open):
            self.terms = message.terms
        if isinstance(message, messages.Submit):
            self.submitted.append(messages_by_site["lyon"])
        answer = self.site.answer(messages_by_site["lyon"])
        if isinstance(message, messages.Submit):
            self.copies.append(self.copied(f"copy-{len(self.copies)}.sqlite"))
        return {"lyon": answer}, ()

    def fit(self) -> None:
        self.study.estimator().fit(Federation(self, protocol=self.study.protocol()))

    def copied(self, name: str) -> Path:
        """Copy the ledger as a backup program would that knows SQLite: consistent, and complete up to now."""
        found, made = sqlite3.connect(self.path / "lyon" / "ledger.sqlite"), sqlite3.connect(self.path / name)
        found.backup(made)
        found.close()
        made.close()
        return self.path / name

    def restore(self, copy: Path) -> None:
        for extra in ("", "-wal", "-shm"):
            (self.path / "lyon" / f"ledger.sqlite{extra}").unlink(missing_ok=True)
        (self.path / "lyon" / "ledger.sqlite").write_bytes(copy.read_bytes())

    def continued(self) -> Site:
        """Serve the site again and continue the allowance; return the site if it agreed."""
        assert self.terms is not None
        site = self.served(self.terms.allowance)
        asked = messages.encode(messages.Reopen(terms=self.terms), allowance=self.terms.allowance)
        reply = messages.decode_from_site(site.answer(asked))[1]
        if isinstance(reply, messages.Refused):
            raise LedgerRefused(reply.text)
        assert isinstance(reply, messages.Reopened)
        return site


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def vector(site: Site, submitted: bytes) -> bytes | None:
    """Return the noisy vector that a site gives for a request, or None if it refuses."""
    reply = messages.decode_from_site(site.answer(submitted))[1]
    return bytes(reply.array.data) if isinstance(reply, messages.Vector) else None


def test_no_copy_of_the_ledger_gives_a_release_again(place: Place) -> None:
    """Copies after each release but the last, restored: the site refuses, so no second version can be had."""
    place.fit()
    assert len(place.copies) == N_RELEASES
    for number, copy in enumerate(place.copies[:-1]):
        place.restore(copy)
        versions = set()
        for _ in range(3):
            with contextlib.suppress(LedgerRefused):
                versions.add(vector(place.continued(), place.submitted[number + 1]))
            place.restore(copy)
        assert versions == set()
        with pytest.raises(LedgerRefused, match="does not contain its recorded head"):
            SiteFolder(place.path / "lyon").chain.verify()
    # The newest copy lacks nothing.
    place.restore(place.copies[-1])
    assert all(vector(place.continued(), asked) is None for asked in place.submitted)


def test_a_crash_between_a_release_row_and_its_head_leaves_a_site_that_goes_on(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row is there and the copy of the head is not: nothing had left, and the allowance continues after it."""
    before = place.copied("before.sqlite")
    real, written = HeadCopy.write, []

    def crash(self: HeadCopy, head: Head) -> None:
        written.append(head)
        if len(written) == 2:
            # The first is that of the charge.
            raise Cut
        real(self, head)

    with monkeypatch.context() as patched:
        patched.setattr(HeadCopy, "write", crash)
        with pytest.raises(Cut):
            place.fit()
    ahead = place.copied("ahead.sqlite")
    assert [entry.kind for entry in SiteFolder(place.path / "lyon").chain.rows_on_disk()][-2:] == ["charge", "release"]
    site = place.continued()
    # Counted, so refused, although it never left; the copy of the head was mended by the first look.
    assert vector(site, place.submitted[0]) is None
    assert HeadCopy(place.path / "lyon" / "keys" / "ledger.head").read() == written[1]
    for copy, is_whole in ((before, False), (ahead, True)):
        place.restore(copy)
        if is_whole:
            place.continued()
        else:
            with pytest.raises(LedgerRefused, match="A restored backup may hide spending"):
                place.continued()


def test_an_allowance_from_before_lost_rows_is_not_continued(place: Place) -> None:
    """The steward accepts a restored ledger and approves the study again; its releases are still not given twice."""
    place.fit()
    place.restore(place.copies[0])
    folder = SiteFolder(place.path / "lyon")
    folder.accept_head(reason="disk failed", lost={"cohort": (0.1, 1e-5)})
    folder.approve(place.study, runs=2)
    folder.chain.close()
    with pytest.raises(LedgerRefused, match="lost rows after it was charged"):
        place.continued()
    # A new allowance is a new charge, which the ceiling refuses or takes as any other.
    assert len(SiteFolder(place.path / "lyon").state().charges) == 2
    with pytest.raises(LedgerRefused, match="would exceed the ceiling"):
        place.served()


def test_a_steward_who_restored_the_whole_folder_closes_what_was_begun(place: Place) -> None:
    """The copy of the head was restored with the ledger, so nothing here notices; its own head is then accepted."""
    place.fit()
    place.restore(place.copies[-1])
    folder = SiteFolder(place.path / "lyon")
    folder.accept_head(reason="whole folder restored", lost={}, seen=folder.chain.verify())
    folder.approve(place.study, runs=2)
    folder.chain.close()
    with pytest.raises(LedgerRefused, match="lost rows after it was charged"):
        place.continued()


def test_a_process_that_still_runs_makes_no_release_after_rows_were_lost(tmp_path: Path) -> None:
    chain = new_chain(tmp_path)
    ceiling(chain, 1.0, 1e-5)
    approve(chain)
    book = ledger(chain)
    book.charge(charge("a", 0.01, n_releases=3))
    book.next_release("a", 0)
    chain.accept({"length": 99, "head": "f" * 64, "reason": "restored"})
    with pytest.raises(LedgerRefused, match="lost rows after it was charged"):
        book.next_release("a", 1)


def test_the_count_of_releases_never_goes_back(tmp_path: Path) -> None:
    """Whatever row of the same allowance comes last."""
    chain = new_chain(tmp_path)
    ceiling(chain, 1.0, 1e-5)
    approve(chain)
    book = ledger(chain)
    book.charge(charge("a", 0.01, n_releases=9))
    book.next_release("a", 6)
    chain.append("deal", {"study": "b" * 64, "allowance": "a", "terms": ""}, check=lambda entries: None)
    with pytest.raises(ProtocolError, match="happened before"):
        book.next_release("a", 6)
    book.next_release("a", 7)
