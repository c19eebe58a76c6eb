"""A site folder with a study that waits, and a server that shows it."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np

from dpcape.core.secure_sum.identity import Identity
from dpcape.site.folder import SiteFolder
from dpcape.steward.server import StewardServer
from dpcape.study.study import Study

TEXT = """
[study]
name = "thickness"
analysis = "pca"
n_components = 2
epsilon = 1.0
delta = 1e-5

[protocol]
kind = "cape"
n_colluding = 1

[sites.lima]
[sites.lyon]
[sites.oslo]

[data]
kind = "rows"
columns = ["a", "b", "c"]
bound = 1.0
"""


class Place:
    """The site "lyon", its steward's page, and what the terminal of the page shows."""

    def __init__(self, home: Path) -> None:
        self.home = home
        rows = np.random.default_rng(3).normal(size=(40, 3)) * 0.3
        for name in ("cohort", "registry"):
            np.savetxt(home / f"{name}.csv", rows + (name == "registry"), delimiter=",", header="a,b,c", comments="")
        self.folder = SiteFolder.create(home / "lyon", name="lyon")
        for other in ("lima", "oslo"):
            self.folder.pin(other, Identity.generate().public.hex())
        self.folder.add_data("cohort", home / "cohort.csv", epsilon=1.2, delta=1e-5)
        self.study = self.written(TEXT)
        self.folder.keep(self.study)
        self.terminal: list[str] = []
        # Opened a second time, as another process would.
        self.server = StewardServer(SiteFolder(self.folder.path), tell=self.terminal.append)
        self.server.timeout = 0.05
        self._thread = threading.Thread(target=self.server.run)
        self._thread.start()

    def written(self, text: str, name: str = "study.toml") -> Study:
        (self.home / name).write_text(text, encoding="utf-8")
        return Study.load(self.home / name)

    def variant(self, old: str, new: str) -> Study:
        """A study that differs, kept at the site."""
        assert old in TEXT
        study = self.written(TEXT.replace(old, new), "variant.toml")
        self.folder.keep(study)
        return study

    def kinds(self) -> list[str]:
        """What the rows of the ledger are, read anew."""
        return [entry.kind for entry in SiteFolder(self.folder.path).chain.entries()]

    def kept_file(self) -> Path:
        return self.folder.path / "studies" / self.study.digest() / "study.toml"

    def close(self) -> None:
        self.server.stop()
        self._thread.join(timeout=30)
        assert not self._thread.is_alive()
