"""A file is there completely or not at all, whoever else writes and however full the disk is."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from dpcape.core.files import write_private, write_text


def test_two_processes_that_write_one_file_at_once_leave_a_whole_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two runs beside each other keep the heads of ledgers in one file."""
    path, sync = tmp_path / "heads.json", os.fsync

    def meanwhile(descriptor: int) -> None:
        with monkeypatch.context() as other:
            other.setattr(os, "fsync", sync)
            other.setattr(os, "getpid", lambda: 1)
            write_text(path, "of the other process")
        sync(descriptor)

    with monkeypatch.context() as here:
        here.setattr(os, "fsync", meanwhile)
        # The folder is synced after the file: only the first sync is met by the other process.
        here.setattr("dpcape.core.files.sync_folder", lambda folder: None)
        write_text(path, "of this process")
    assert path.read_text(encoding="utf-8") == "of this process"
    assert [entry.name for entry in tmp_path.iterdir()] == ["heads.json"]


@pytest.mark.parametrize("write", [write_text, write_private])
def test_a_full_disk_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path, str], None]
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "data.json"
    write_text(path, "before")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write(path, "after")
    assert path.read_text(encoding="utf-8") == "before"
    assert [entry.name for entry in tmp_path.iterdir()] == ["data.json"]
