"""The chain on disk: what is written stays, what is changed is noticed."""

from __future__ import annotations

import fcntl
import os
import shutil
import sqlite3
import stat
import threading
from pathlib import Path

import numpy as np
import pytest

from dpcape.core.errors import LedgerRefused
from dpcape.site.chain_head import Head, HeadCopy
from dpcape.site.hash_chain import HashChain

from .ledgers import new_chain, note, opened


@pytest.fixture
def chain(tmp_path: Path) -> HashChain:
    made = new_chain(tmp_path)
    for text in ("first", "second", "third"):
        note(made, text)
    return made


def attack(folder: Path, *statements: str) -> None:
    """Change the file as somebody with full access would."""
    connection = sqlite3.connect(folder / "ledger.sqlite")
    for trigger in ("no_update", "no_delete", "in_order"):
        connection.execute(f"DROP TRIGGER {trigger}")
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def test_rows_are_numbered_and_kept(chain: HashChain, tmp_path: Path) -> None:
    chain.close()
    entries = opened(tmp_path).entries()
    assert [entry.number for entry in entries] == [1, 2, 3, 4]
    assert [entry.body.get("text") for entry in entries[1:]] == ["first", "second", "third"]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET body = '{}' WHERE number = 2",
        "DELETE FROM entries WHERE number = 4",
        "INSERT INTO entries VALUES (9, '', 'note', '{}', '')",
        "INSERT OR REPLACE INTO entries VALUES (2, '', 'note', '{}', '')",
    ],
)
def test_the_table_itself_forbids_changes(chain: HashChain, tmp_path: Path, statement: str) -> None:
    chain.close()
    connection = sqlite3.connect(tmp_path / "ledger.sqlite")
    with pytest.raises(sqlite3.IntegrityError, match="entries are"):
        connection.execute(statement)
    connection.close()
    assert opened(tmp_path).verify().length == 4


@pytest.mark.parametrize("number", [1, 2, 3, 4])
@pytest.mark.parametrize("column", ["time", "kind", "body", "hash"])
def test_every_cell_is_covered(chain: HashChain, tmp_path: Path, number: int, column: str) -> None:
    chain.close()
    attack(tmp_path, f"UPDATE entries SET {column} = {column} || ' ' WHERE number = {number}")
    with pytest.raises(LedgerRefused, match="hash of the rows before it"):
        opened(tmp_path).verify()


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_a_row_taken_out_is_noticed(chain: HashChain, tmp_path: Path, number: int) -> None:
    chain.close()
    attack(tmp_path, f"DELETE FROM entries WHERE number = {number}")
    with pytest.raises(LedgerRefused):
        opened(tmp_path).verify()


def test_swapped_rows_are_noticed(chain: HashChain, tmp_path: Path) -> None:
    chain.close()
    attack(
        tmp_path,
        "UPDATE entries SET number = 99 WHERE number = 2",
        "UPDATE entries SET number = 2 WHERE number = 3",
        "UPDATE entries SET number = 3 WHERE number = 99",
    )
    with pytest.raises(LedgerRefused):
        opened(tmp_path).verify()


def test_a_chain_rewritten_with_good_hashes_is_noticed_by_the_head(chain: HashChain, tmp_path: Path) -> None:
    chain.close()
    other = tmp_path / "other"
    forged = new_chain(other)
    for text in ("first", "nothing", "third", "fourth"):
        note(forged, text)
    forged.close()
    shutil.copy(other / "ledger.sqlite", tmp_path / "ledger.sqlite")
    with pytest.raises(LedgerRefused, match="A restored backup may hide spending"):
        opened(tmp_path).entries()


def flipped_bytes_are_noticed(folder: Path, places: list[int]) -> None:
    path = folder / "ledger.sqlite"
    good = path.read_bytes()
    truth = opened(folder).entries()
    head = (folder / "ledger.head").read_bytes()
    noticed = 0
    for place in places:
        path.write_bytes(good[:place] + bytes([good[place] ^ 0x55]) + good[place + 1 :])
        try:
            chain = opened(folder)
            chain.verify()
            # A byte no row depends on, in free space or in SQLite's own bookkeeping.
            assert chain.entries() == truth
            chain.close()
        except LedgerRefused:
            noticed += 1
        for extra in ("ledger.sqlite-wal", "ledger.sqlite-shm"):
            (folder / extra).unlink(missing_ok=True)
        assert (folder / "ledger.head").read_bytes() == head
    path.write_bytes(good)
    assert opened(folder).verify().length == len(truth)
    assert noticed > 0


def content_range(folder: Path) -> tuple[int, int]:
    """Where the rows stand in the file: from the first to the last hash."""
    data = (folder / "ledger.sqlite").read_bytes()
    places = [data.index(entry.hash.encode()) for entry in opened(folder).entries()]
    return min(places) - 200, max(places) + 64


def test_flipped_bytes_are_noticed(chain: HashChain, tmp_path: Path) -> None:
    chain.close()
    size = (tmp_path / "ledger.sqlite").stat().st_size
    low, high = content_range(tmp_path)
    rng = np.random.default_rng(8)
    flipped_bytes_are_noticed(tmp_path, [*rng.integers(0, size, 60).tolist(), *rng.integers(low, high, 90).tolist()])


@pytest.mark.slow
def test_every_flipped_byte_is_noticed(chain: HashChain, tmp_path: Path) -> None:
    chain.close()
    flipped_bytes_are_noticed(tmp_path, list(range((tmp_path / "ledger.sqlite").stat().st_size)))


def test_every_byte_of_a_row_matters(chain: HashChain, tmp_path: Path) -> None:
    chain.close()
    data = (tmp_path / "ledger.sqlite").read_bytes()
    start = data.index(b'{"text":"second"}')
    for place in range(start, start + len(b'{"text":"second"}')):
        (tmp_path / "ledger.sqlite").write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        with pytest.raises(LedgerRefused):
            opened(tmp_path).verify()


def test_a_restored_backup_is_refused(chain: HashChain, tmp_path: Path) -> None:
    chain.close()
    shutil.copy(tmp_path / "ledger.sqlite", tmp_path / "backup.sqlite")
    later = opened(tmp_path)
    note(later, "spent after the backup")
    later.close()
    shutil.copy(tmp_path / "backup.sqlite", tmp_path / "ledger.sqlite")
    restored = opened(tmp_path)
    with pytest.raises(LedgerRefused, match=r"\(row 5; the ledger has 4 rows\)"):
        restored.entries()
    with pytest.raises(LedgerRefused):
        note(restored, "spend again")
    disagreement = restored.disagreement()
    assert disagreement is not None
    assert (disagreement[0].length, disagreement[1].length) == (4, 5)
    restored.accept({"length": 5, "head": disagreement[1].hash, "reason": "disk failed"})
    assert restored.verify().length == 5
    assert opened(tmp_path).entries()[-1].kind == "accept"


def test_a_ledger_swapped_under_a_running_process_is_refused(chain: HashChain, tmp_path: Path) -> None:
    running = opened(tmp_path)
    running.entries()
    chain.close()
    attack(tmp_path, "DELETE FROM entries WHERE number = 4")
    with pytest.raises(LedgerRefused, match="changed while it was in use"):
        note(running)


def test_a_crash_between_row_and_head_is_mended(
    chain: HashChain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(self: HeadCopy, head: Head) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(HeadCopy, "write", crash)
        with pytest.raises(KeyboardInterrupt):
            note(chain, "committed, head not written")
    copy = HeadCopy(tmp_path / "ledger.head")
    assert copy.read().length == 4
    assert len(opened(tmp_path).entries()) == 5
    assert copy.read().length == 5


def test_a_failed_check_writes_nothing(chain: HashChain, tmp_path: Path) -> None:
    def refuse(entries: object) -> None:
        raise LedgerRefused("no")

    with pytest.raises(LedgerRefused):
        chain.append("note", {}, check=refuse)
    assert chain.verify().length == 4
    note(chain, "and the chain goes on")
    assert opened(tmp_path).verify().length == 5


@pytest.mark.parametrize("damage", ["missing", "empty", "text", "short"])
def test_a_damaged_head_copy_is_refused(chain: HashChain, tmp_path: Path, damage: str) -> None:
    path = tmp_path / "ledger.head"
    good = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes({"empty": b"", "text": b"x" * 256, "short": good[:200]}[damage])
    with pytest.raises(LedgerRefused, match="head"):
        opened(tmp_path).entries()


def test_a_torn_write_of_the_head_leaves_the_other_slot(chain: HashChain, tmp_path: Path) -> None:
    path = tmp_path / "ledger.head"
    before = path.read_bytes()
    note(chain, "one more")
    after = path.read_bytes()
    changed = [place for place in range(256) if before[place] != after[place]]
    for torn in range(changed[0], changed[-1] + 1):
        path.write_bytes(after[:torn] + before[torn:])
        assert HeadCopy(path).read().length in (4, 5)
        assert len(opened(tmp_path).entries()) == 5


def test_files_are_private_and_no_database_is_no_ledger(chain: HashChain, tmp_path: Path) -> None:
    for name in ("ledger.sqlite", "ledger.head", "ledger.sqlite.lock"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    with pytest.raises(FileExistsError):
        new_chain(tmp_path)
    chain.close()
    (tmp_path / "ledger.sqlite").write_bytes(b"not a database" * 1000)
    with pytest.raises(LedgerRefused, match="Check disk space"):
        opened(tmp_path).entries()
    (tmp_path / "ledger.sqlite").unlink()
    with pytest.raises(LedgerRefused, match="is missing"):
        opened(tmp_path)


def test_a_row_is_synced_before_it_counts(chain: HashChain) -> None:
    """SQLite returns from COMMIT when the row is on disk, not when it is on its way."""
    full = 2
    assert chain._connection.execute("PRAGMA synchronous").fetchone() == (full,)
    assert chain._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_the_copy_of_the_head_is_synced_after_it_is_written(
    chain: HashChain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Head] = []
    monkeypatch.setattr(os, "fdatasync", lambda _: synced.append(HeadCopy(tmp_path / "ledger.head").read()))
    note(chain, "fourth")
    assert synced == [chain.head()]


def test_nobody_writes_while_another_holds_the_lock(chain: HashChain, tmp_path: Path) -> None:
    with open(tmp_path / "ledger.sqlite.lock", "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        writer = threading.Thread(target=note, args=(chain, "fourth"))
        writer.start()
        writer.join(0.2)
        assert writer.is_alive()
        with sqlite3.connect(tmp_path / "ledger.sqlite") as reader:
            assert reader.execute("SELECT COUNT(*) FROM entries").fetchone() == (4,)
        reader.close()
    writer.join()
    assert len(chain.entries()) == 5
