"""The folder of the papers' data files."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from dpcape.core.errors import InvalidParameter


@dataclass(frozen=True)
class DataFolder:
    """A folder of data files; ``path`` is None if there is no folder."""

    path: Path | None

    def has(self, name: str) -> bool:
        """Return whether the file exists."""
        return self.path is not None and (self.path / name).is_file()

    def file(self, name: str) -> Path:
        """Return the path of a file, which must exist."""
        if self.path is None or not self.has(name):
            where = "no data folder" if self.path is None else f"{self.path} without it"
            raise InvalidParameter("The data folder", f"contain {name}", where, "Choose a folder with --data.")
        return self.path / name

    def digest(self, name: str) -> str:
        """Return the SHA-256 of a file, or 'absent'."""
        return _digest(self.file(name)) if self.has(name) else "absent"


def find_data(named: str | None) -> DataFolder:
    """Return the folder given by the user, else that of the variable DPCAPE_DATA; without a path if none is given."""
    given = os.environ.get("DPCAPE_DATA") if named is None else named
    if not given:
        return DataFolder(None)
    if not Path(given).is_dir():
        option = "DPCAPE_DATA" if named is None else "--data"
        raise InvalidParameter(option, "be an existing folder", given, "Check the path.")
    return DataFolder(Path(given).resolve())


@cache
def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
