"""An append-only, hash-chained table in SQLite: durable before it returns, locked between processes.

Each row's hash covers the row and the hash before it. After a row is committed its hash is also written to a
:class:`HeadCopy`. In this order a crash in between leaves the table ahead of the copy, which is mended: nobody
acts on a row before :meth:`HashChain.append` returns, so without that row nothing can be done that was done already. A
table *behind* its copy, or differing from it, was restored or rewritten and is refused. docs/decisions/0007.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from dpcape.core.errors import LedgerRefused
from dpcape.core.files import locked, sync_folder
from dpcape.site.chain_head import Head, HeadCopy

FORMAT = 1
_START = "0" * 64
_SCHEMA = """
CREATE TABLE entries (
    number INTEGER PRIMARY KEY, time TEXT NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL, hash TEXT NOT NULL
) STRICT;
CREATE TRIGGER no_update BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT, 'entries are never changed'); END;
CREATE TRIGGER no_delete BEFORE DELETE ON entries BEGIN SELECT RAISE(ABORT, 'entries are never deleted'); END;
CREATE TRIGGER in_order BEFORE INSERT ON entries
WHEN NEW.number <> (SELECT COALESCE(MAX(number), 0) + 1 FROM entries)
BEGIN SELECT RAISE(ABORT, 'entries are numbered in order'); END;
"""

RowBody: TypeAlias = dict[str, Any]
"""Content of a row, as JSON; its fields depend on the kind of row."""


class Entry(NamedTuple):
    """One row: its number from 1, when it was written, what kind it is, and its content."""

    number: int
    time: str
    kind: str
    body: RowBody
    hash: str


class HashChain:
    """The rows of a ledger on disk.

    Parameters
    ----------
    path : Path
        The SQLite file.
    head_path : Path
        The copy of the head, best on another disk or in another backup than ``path``.

    Edge cases
    ----------
    ========================================  =============================================================
    killed while appending                    the row is there completely, or not at all
    killed between the row and the head copy  the copy is brought up to date when the chain is next opened
    table older than the head copy            LedgerRefused: a backup was restored
    a row changed, removed or put in          LedgerRefused
    ========================================  =============================================================
    """

    def __init__(self, path: Path, head_path: Path) -> None:
        self._path, self._copy = path, HeadCopy(head_path)
        self._thread_lock = threading.RLock()
        self._connection = _connected(path)
        self._known: list[Entry] = []
        self.close = weakref.finalize(self, self._connection.close)

    @classmethod
    def create(cls, path: Path, head_path: Path, body: RowBody) -> HashChain:
        """Make a new chain whose first row says what it belongs to."""
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        os.close(descriptor)
        connection = sqlite3.connect(path, isolation_level=None)
        connection.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;" + _SCHEMA)
        first = _entry(1, "start", {"format": FORMAT, **body}, _START)
        connection.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", _row(first))
        connection.close()
        sync_folder(path.parent)
        HeadCopy(head_path).create(Head(1, first.hash))
        return cls(path, head_path)

    def entries(self) -> tuple[Entry, ...]:
        """Return all rows, verified against each other and against the head copy."""
        with self._locked():
            self._refresh()
            return tuple(self._known)

    def rows_on_disk(self) -> tuple[Entry, ...]:
        """Return all rows, verified against each other but not against the head copy."""
        with self._locked():
            self._known = []
            self._read()
            return tuple(self._known)

    def append(self, kind: str, body: RowBody, *, check: Callable[[Sequence[Entry]], None]) -> Entry:
        """Add a row if ``check`` accepts the rows before it; return when the row and the copy of its head are on disk.

        No kind of row is left out of the copy: restoring an older file would undo it unnoticed.
        """
        with self._locked():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                self._refresh()
                check(self._known)
                entry = _entry(len(self._known) + 1, kind, body, self._known[-1].hash)
                self._connection.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", _row(entry))
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
            self._known.append(entry)
            self._copy.write(Head(entry.number, entry.hash))
            return entry

    def head(self) -> Head:
        """Return length and last hash."""
        last = self.entries()[-1]
        return Head(last.number, last.hash)

    def verify(self) -> Head:
        """Read everything again from disk and check it; return the head."""
        with self._locked():
            self._known = []
            self._refresh()
            result = self._connection.execute("PRAGMA integrity_check").fetchone()
            if result != ("ok",):
                raise LedgerRefused("The ledger's file is damaged", remedy="Restore it from a backup.")
        return self.head()

    def disagreement(self) -> tuple[Head, Head] | None:
        """Return (head of the table, head of the copy) if the copy is not part of the chain, else None."""
        with self._locked():
            self._known = []
            self._read()
            last = self._known[-1]
            try:
                copied = self._copy.read()
            except LedgerRefused:
                # The copy is lost or damaged: treat it as a head that is not in the chain.
                copied = Head(0, "")
            return None if self._contains(copied) else (Head(last.number, last.hash), copied)

    def accept(self, body: RowBody, more: Sequence[tuple[str, RowBody]] = ()) -> None:
        """Accept the table although the head copy disagrees; the decision becomes a row.

        ``more`` are the rows (kind, body) that belong to the decision: all are on disk, or none.
        """
        with self._locked():
            self._known = []
            self._read()
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                for kind, content in (("accept", body), *more):
                    entry = _entry(len(self._known) + 1, kind, content, self._known[-1].hash)
                    self._connection.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", _row(entry))
                    self._known.append(entry)
                self._connection.execute("COMMIT")
            except BaseException:
                self._known = []
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
            self._copy.replace(Head(entry.number, entry.hash))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Lock the chain against other threads and processes; a killed process releases the lock."""
        with self._thread_lock:
            try:
                with locked(self._path.with_name(self._path.name + ".lock")):
                    yield
            except sqlite3.Error as error:
                raise _unusable(error) from error

    def _refresh(self) -> None:
        self._read()
        copied = self._copy.read()
        last = self._known[-1]
        if not self._contains(copied):
            why = f"it does not contain its recorded head (row {copied.length}; the ledger has {last.number} rows)"
            remedy = "A restored backup may hide spending. See docs/steward.md, 'Recover from a restored ledger'."
            raise LedgerRefused("The ledger was refused", why, remedy)
        if copied.length < last.number:
            # A process ended after writing the row and before writing its head, so before acting on the row.
            self._copy.write(Head(last.number, last.hash))

    def _contains(self, head: Head) -> bool:
        return 1 <= head.length <= len(self._known) and self._known[head.length - 1].hash == head.hash

    def _read(self) -> None:
        """Read rows that are new since the last time, and check that they continue the chain."""
        if self._known:
            last = self._known[-1]
            stored = self._connection.execute("SELECT hash FROM entries WHERE number = ?", (last.number,)).fetchone()
            if stored != (last.hash,):
                why = "a row changed while it was in use"
                raise LedgerRefused("The ledger was refused", why, "Keep the file, and restore a backup.")
        query = "SELECT number, time, kind, body, hash FROM entries WHERE number > ? ORDER BY number"
        for row in self._connection.execute(query, (len(self._known),)):
            self._known.append(_checked(row, self._known[-1].hash if self._known else _START, len(self._known) + 1))
        if not self._known:
            raise LedgerRefused("The ledger was refused", "its first row is missing", "Restore it from a backup.")
        if self._known[0].body.get("format") != FORMAT:
            remedy = "Install the dpcape version that wrote it."
            raise LedgerRefused("The ledger was refused", f"it is not of format {FORMAT}", remedy)


def _connected(path: Path) -> sqlite3.Connection:
    if not path.is_file():
        remedy = "Restore it from a backup, or make a new site folder."
        raise LedgerRefused(f"The ledger {path.name!r} is missing", remedy=remedy)
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=60)
    # FULL in WAL mode syncs the log before COMMIT returns; `cell_size_check` notices damaged pages early.
    try:
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA cell_size_check=ON")
    except sqlite3.Error as error:
        connection.close()
        raise _unusable(error) from error
    return connection


def _unusable(error: sqlite3.Error) -> LedgerRefused:
    return LedgerRefused(
        f"The ledger's file could not be read or written ({type(error).__name__})",
        remedy="Check disk space and permissions, then run: dpcape site log --verify. If the file is damaged, restore "
        "a backup (docs/steward.md, 'Recover from a restored ledger').",
    )


def _entry(number: int, kind: str, body: RowBody, previous: str) -> Entry:
    time = datetime.now(UTC).isoformat(timespec="seconds")
    return Entry(number, time, kind, body, _hash(number, time, kind, _text(body), previous))


def _text(body: RowBody) -> str:
    return json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _row(entry: Entry) -> tuple[int, str, str, str, str]:
    return entry.number, entry.time, entry.kind, _text(entry.body), entry.hash


def _hash(number: int, time: str, kind: str, body: str, previous: str) -> str:
    content = json.dumps(["dpcape ledger 1", previous, number, time, kind, body], separators=(",", ":"))
    return hashlib.sha256(content.encode("utf-8")).hexdigest()


def _checked(row: tuple[Any, ...], previous: str, expected: int) -> Entry:
    number, time, kind, body, stored_hash = row
    if number != expected or _hash(number, time, kind, body, previous) != stored_hash:
        what, why = "The ledger was refused", f"row {expected} does not carry the hash of the rows before it"
        raise LedgerRefused(what, why, "The file was changed outside dpcape. Keep it, and restore a backup.")
    return Entry(number, time, kind, json.loads(body), stored_hash)
