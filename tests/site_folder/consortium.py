"""Three sites with folders of their own, pinned to each other, and a study."""

from __future__ import annotations

from pathlib import Path

from dpcape import Federation
from dpcape.core.noise import OsNoise
from dpcape.core.protocols.noise_dealer import NoiseDealer
from dpcape.core.secure_sum.identity import Identity
from dpcape.core.site import Site
from dpcape.site.folder import SiteFolder
from dpcape.site.in_process import InProcess
from dpcape.study.study import Study

SITES = ("lima", "lyon", "oslo")

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


class Consortium:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "study.toml").write_text(TEXT, encoding="utf-8")
        self.study = Study.load(folder / "study.toml")
        self.sites = {name: SiteFolder.create(folder / name, name=name) for name in SITES}
        for place in self.sites.values():
            for other in self.sites.values():
                place.pin(other.name, other.identity.public.hex())
            place.add_data("cohort", folder / f"{place.name}.csv", epsilon=1.2, delta=1e-5)

    def approve(self, study: Study | None = None, runs: int = 1) -> None:
        for place in self.sites.values():
            place.approve(study or self.study, runs=runs)

    def variant(self, old: str, new: str) -> Study:
        assert old in TEXT
        return Study.parse(TEXT.replace(old, new), path=self.folder / "study.toml")

    def line(self, study: Study | None = None) -> tuple[InProcess, dict[str, Site]]:
        members = {name: place.site_for(study or self.study) for name, place in self.sites.items()}
        return InProcess(members, NoiseDealer(Identity.generate(), OsNoise())), members

    def federation(self, study: Study | None = None) -> Federation:
        return Federation(self.line(study)[0], protocol=(study or self.study).protocol())
