"""A federation with a noise dealer: a participant with a kit, keys and no records."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from dpcape import Dealer, Federation, Replay, in_process
from dpcape.site.folder import SiteFolder
from dpcape.study.study import Study

from .consortium import ROWS, SEED, Consortium, registration

DEALER = "kiel"
SITES = ["lima", "lyon"]
TEXT = """[study]
name = "{name}"
analysis = "{analysis}"
epsilon = {epsilon}
delta = 1e-5
{parameters}
[protocol]
kind = "dealer"
dealer = "{dealer}"
n_colluding = 0
deadline = "60s"
{sites}{data}[federation]
engine = "flare"
folder = "federation"
start = 40
"""


class Dealing(Consortium):
    """Two sites and a dealer, each with its own process and folder."""

    def __init__(self, path: Path, sites: list[str] | None = None) -> None:
        super().__init__(path, SITES if sites is None else sites)

    def create(self, **options: Any) -> None:
        super().create(**options)
        dealer = SiteFolder.create(self.folder(DEALER), name=DEALER)
        self.federation.add(registration(dealer))
        dealer.pin("coordinator", self.federation.coordinator().public.hex())
        for site in self.sites:
            folder = SiteFolder(self.folder(site))
            dealer.pin(site, folder.identity.public.hex())
            folder.pin(DEALER, dealer.identity.public.hex())

    def start(self, *, replay: int | None = SEED) -> None:
        self.replay = replay
        for name in ["server", *self.sites, DEALER]:
            self.start_one(name)
        self.await_connected([*self.sites, DEALER])

    def study(self, name: str, analysis: str, **options: Any) -> Study:
        chosen = {"parameters": "", "data": ROWS, "epsilon": 5.0, "dealer": DEALER, **options}
        tables = "".join(f"[sites.{site}]\n" for site in self.sites)
        path = self.path / f"{name}.toml"
        path.write_text(TEXT.format(name=name, analysis=analysis, sites=tables, **chosen), encoding="utf-8")
        return Study.load(path)

    def approve(self, study: Study, sites: list[str] | None = None, *, runs: int = 1) -> None:
        super().approve(study, [*self.sites, DEALER] if sites is None else sites, runs=runs)

    def model_in_process(self, study: Study) -> Any:
        """Fit the study in this process with the same draws, also of the dealer's."""
        records = {site: study.records_for(site, self.path / "data" / f"{site}.npz") for site in study.sites}
        protocol = study.protocol()
        assert isinstance(protocol, Dealer)
        with threadpool_limits(limits=1):
            line = in_process(records, noise=Replay(SEED))
            return study.estimator().fit(Federation(line, protocol=replace(protocol, dealer="")))

    def charges(self, study: Study) -> list[int]:
        """Number of charges of a study at each site."""
        states = [SiteFolder(self.folder(site)).state() for site in self.sites]
        return [len(state.charges_of("main", study.digest())) for state in states]
