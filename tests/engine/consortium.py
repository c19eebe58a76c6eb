"""A provisioned federation on loopback: a server and site processes, each with its own folder, ledger and identity."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from threadpoolctl import threadpool_limits

from dpcape import Federation, Replay, in_process
from dpcape.engines.flare import start_kit as serving
from dpcape.engines.flare.admin_session import opened
from dpcape.engines.flare.kits import FederationFolder
from dpcape.engines.flare.registration import Registration
from dpcape.engines.flare.submit import Listener, compute
from dpcape.engines.flare.workspace import SiteKit
from dpcape.runs.folder import RunFolder
from dpcape.site.folder import SiteFolder
from dpcape.site.tls import certificate_request
from dpcape.study.study import Study
from dpcape.transport.transport import Transport

from .accounts import engine_environment

SITES = ["lima", "lyon", "oslo", "pune"]
SEED = 11
N_WIDE = 2400
"""So many columns that a second moment is sent in pieces."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def write_data(folder: Path, sites: list[str], n_records: int = 300) -> None:
    """Write rows of two Laplace sources in four columns, the same as two views, and a few rows of many columns."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, site in enumerate(sites):
        draw = np.random.default_rng(number)
        latent = draw.laplace(size=(n_records + 10 * number, 2))
        mixed = np.hstack([latent @ [[1.0, 0.4], [0.2, 0.8]], latent @ [[0.7, -0.5], [0.3, 0.9]]])
        rows = 0.2 * (mixed + 0.1 * draw.normal(size=mixed.shape))
        arrays = {"X": rows, "left": rows[:, :2], "right": rows[:, 2:], "wide": draw.normal(size=(40, N_WIDE)) / 60}
        np.savez(folder / f"{site}.npz", starts=[0, n_records // 2, len(rows)], **arrays)


HEAD = """[study]
name = "{name}"
analysis = "{analysis}"
epsilon = {epsilon}
delta = 1e-5
{parameters}
[protocol]
kind = "{kind}"
n_colluding = 0
minimum_sites = {minimum}
deadline = "60s"
"""
ROWS = """[data]
kind = "rows"
features = 4
array = "X"
bound = 1.0
"""
WIDE = f"""[data]
kind = "rows"
features = {N_WIDE}
array = "wide"
bound = 1.0
"""
VIEWS = """[data]
kind = "views"
bounds = [1.0, 1.0]
x = { features = 2, array = "left" }
y = { features = 2, array = "right" }
"""
SUBJECTS = """[data]
kind = "subjects"
features = 4
array = "X"
subject = "starts"
bound = 1.0
unit = "record"
"""


def study_text(
    name: str,
    analysis: str,
    *,
    data: str = ROWS,
    parameters: str = "",
    kind: str = "cape",
    minimum: int = 3,
    epsilon: float = 5.0,
    extra: str = "",
    sites: list[str] | None = None,
) -> str:
    """The text of a study; ``extra`` ends the [federation] table."""
    head = HEAD.format(name=name, analysis=analysis, epsilon=epsilon, parameters=parameters, kind=kind, minimum=minimum)
    tables = "".join(f"[sites.{site}]\n" for site in sites or SITES)
    return f'{head}{tables}{data}[federation]\nengine = "flare"\nfolder = "federation"\n{extra}'


class Consortium:
    """Processes and folders of one federation under ``path``; :meth:`stop` leaves no process behind."""

    def __init__(self, path: Path, sites: list[str] | None = None) -> None:
        self.path, self.sites = path, list(SITES if sites is None else sites)
        self.federation = FederationFolder(path / "federation")
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.replay: int | None = None
        self.options: list[str] = []
        self.environment: dict[str, str] = {}
        self.started: dict[str, float] = {}

    def create(self, *, epsilon: float = 1000.0, delta: float = 1e-3) -> None:
        write_data(self.path / "data", self.sites)
        folders = {site: SiteFolder.create(self.folder(site), name=site) for site in self.sites}
        registered = [registration(folder) for folder in folders.values()]
        self.federation.create(registered, host="localhost", port=free_port())
        for site, folder in folders.items():
            folder.pin("coordinator", self.federation.coordinator().public.hex())
            folder.add_data("main", self.path / "data" / f"{site}.npz", epsilon=epsilon, delta=delta)
            for other in folders.values():
                folder.pin(other.name, other.identity.public.hex())

    def folder(self, site: str) -> Path:
        return self.path / "folders" / site

    def kit(self, name: str) -> Path:
        return self.federation.kits / name

    def study(self, name: str, analysis: str, **options: Any) -> Study:
        """Write a study beside the federation's folder."""
        path = self.path / f"{name}.toml"
        path.write_text(study_text(name, analysis, **options), encoding="utf-8")
        return Study.load(path)

    def run(self, study: Study, listen: Listener | None = None) -> RunFolder:
        """Run a study on this federation, in a run folder of its own."""
        run = RunFolder.begin(self.path / "runs" / study.name, study)
        compute(study, run, listen=listen)
        return run

    def model_in_process(self, study: Study) -> Any:
        """Fit the study to the same records in this process, with the same draws."""
        records = {site: study.records_for(site, self.path / "data" / f"{site}.npz") for site in study.sites}
        line = in_process(records, noise=Replay(SEED))
        # The same number of BLAS threads as at the sites: sums then round alike.
        with threadpool_limits(limits=1):
            return self._fit(study, line)

    @staticmethod
    def _fit(study: Study, line: Transport) -> Any:
        return study.estimator().fit(Federation(line, protocol=study.protocol(), weights=study.weights or None))

    def approve(self, study: Study, sites: list[str] | None = None, *, runs: int = 1) -> None:
        for site in self.sites if sites is None else sites:
            SiteFolder(self.folder(site)).approve(study, runs=runs)

    def start(self, *, replay: int | None = SEED) -> None:
        self.replay = replay
        for name in ["server", *self.sites]:
            self.start_one(name)
        self.await_connected(self.sites)

    def start_one(self, name: str, kit: Path | None = None) -> None:
        where = self.kit(name) if kit is None else kit
        self.started[name] = time.time()
        if name == "server":
            command, environment = serving.command(where), serving.environment()
        else:
            command, environment = self.serve_command(name, where), {**engine_environment(), **self.environment}
        with (self.path / f"{name}.out").open("ab") as out:
            self.running[name] = subprocess.Popen(
                command,
                env=environment,
                cwd=where,
                stdout=out,
                stderr=out,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                umask=0o077,
            )

    def serve_command(self, site: str, kit: Path) -> list[str]:
        """What a steward types, with replayable noise."""
        replay = [] if self.replay is None else ["--replay-for-tests", str(self.replay)]
        command = [sys.executable, "-m", "dpcape", "site", "serve", "--folder", str(self.folder(site))]
        return [*command, "--kit", str(kit), "--server", SiteKit.read(kit).address, *replay, *self.options]

    def await_connected(self, sites: list[str], seconds: float = 60.0) -> None:
        end = time.monotonic() + seconds
        while True:
            try:
                with opened(self.federation.admin_kit) as coordination:
                    while time.monotonic() < end:
                        # FLARE calls a site connected for a while after it was killed.
                        heard = {client.name: float(client.last_connect_time) for client in coordination._clients()}
                        if all(heard.get(site, 0.0) > self.started.get(site, 0.0) for site in sites):
                            return
                        time.sleep(0.2)
            except Exception:
                if time.monotonic() > end:
                    raise
                time.sleep(0.5)
            assert time.monotonic() < end, f"not connected: {sites}"

    def processes(self, name: str) -> list[psutil.Process]:
        """The processes of one participant: the one that was started, and those it started for jobs."""
        try:
            parent = psutil.Process(self.running[name].pid)
            members = [parent, *parent.children(recursive=True)]
        except psutil.NoSuchProcess:
            members = []
        return members

    def kill(self, name: str) -> None:
        """Kill -9 everything a participant runs, as a power cut would."""
        for process in self.processes(name):
            try:
                process.send_signal(signal.SIGKILL)
            except psutil.NoSuchProcess:
                continue
        self.running[name].wait(timeout=10)

    def stop(self) -> None:
        for name in self.running:
            self.kill(name)

    def survivors(self) -> list[str]:
        """Processes that still run a kit of this federation, or were started for one of its sites."""
        return [f"{process.pid}: {' '.join(process.cmdline())[:200]}" for process in running_under(self.path)]


def registration(folder: SiteFolder) -> Registration:
    """What a site sends to join."""
    request = certificate_request(folder.name, folder.keys, folder.identity)
    return Registration(site=folder.name, public_key=folder.identity.public.hex(), **request)


def running_under(path: Path) -> list[psutil.Process]:
    """Processes of kits below a folder: FLARE's processes name their kit on the command line."""
    mark, found = str(path), []
    for process in psutil.process_iter(["cmdline"]):
        command = process.info["cmdline"] or []
        if (
            process.pid != os.getpid()
            and any(word in " ".join(command) for word in ("nvflare", "dpcape"))
            and any(mark in part for part in command)
        ):
            found.append(process)
    return found
