"""Where the papers' data lie, and what stands in for them."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from dpcape.errors import InvalidParameter


@dataclass(frozen=True)
class DataFolder:
    """A folder with data files; None if there is none."""

    path: Path | None

    def has(self, name: str) -> bool:
        """Return whether the file is there."""
        return self.path is not None and (self.path / name).is_file()

    def file(self, name: str) -> Path:
        """Return the path of a file that is there."""
        if self.path is None or not self.has(name):
            raise InvalidParameter(f"data folder must hold {name}; got {self.path}. Name another with --data.")
        return self.path / name

    def digest(self, name: str) -> str:
        """Return the SHA-256 of a file, or 'absent'."""
        return _digest(self.file(name)) if self.has(name) else "absent"


def find_data(named: str | None) -> DataFolder:
    """Return the folder the user named, or DPCAPE_DATA, or ``../shared/data`` if it exists, or none."""
    if named is not None:
        if not Path(named).is_dir():
            raise InvalidParameter(f"--data must be a folder; got {named}.")
        return DataFolder(Path(named).resolve())
    for candidate in (os.environ.get("DPCAPE_DATA"), "../shared/data"):
        if candidate and Path(candidate).is_dir():
            return DataFolder(Path(candidate).resolve())
    return DataFolder(None)


@cache
def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
