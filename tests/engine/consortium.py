"""A provisioned federation on loopback: a server and site processes, each with its own folder, ledger and identity."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import numpy as np
import psutil

from dpcape.site_folder import SiteFolder
from dpcape.study import Study
from dpcape.transport.flare import serving
from dpcape.transport.flare.kits import FederationFolder
from dpcape.transport.flare.session import opened

SITES = ["lima", "lyon", "oslo", "pune"]
SEED = 11


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def write_data(folder: Path, sites: list[str], n_records: int = 300) -> None:
    """Four columns with two directions that stand out; the last two follow the first two, for CCA."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, site in enumerate(sites):
        draw = np.random.default_rng(number)
        latent = draw.laplace(size=(n_records + 10 * number, 2))
        mixed = np.hstack([latent @ [[1.0, 0.4], [0.2, 0.8]], latent @ [[0.7, -0.5], [0.3, 0.9]]])
        np.savez(folder / f"{site}.npz", X=0.2 * (mixed + 0.1 * draw.normal(size=mixed.shape)))


class Consortium:
    """Processes and folders of one federation under ``path``; :meth:`stop` leaves no process behind."""

    def __init__(self, path: Path, sites: list[str] | None = None) -> None:
        self.path, self.sites = path, list(SITES if sites is None else sites)
        self.federation = FederationFolder(path / "federation")
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self._seen: dict[int, float] = {}

    def create(self, *, epsilon: float = 1000.0, delta: float = 1e-3) -> None:
        self.federation.create(self.sites, host="localhost", port=free_port())
        write_data(self.path / "data", self.sites)
        folders = {site: SiteFolder.create(self.folder(site), name=site) for site in self.sites}
        for site, folder in folders.items():
            folder.add_data("main", self.path / "data" / f"{site}.npz", epsilon=epsilon, delta=delta)
            for other in folders.values():
                folder.pin(other.name, other.identity.public.hex())

    def folder(self, site: str) -> Path:
        return self.path / "folders" / site

    def kit(self, name: str) -> Path:
        return self.federation.kits / name

    def approve(self, study: Study, sites: list[str] | None = None, *, runs: int = 1) -> None:
        for site in self.sites if sites is None else sites:
            SiteFolder(self.folder(site)).approve(study, runs=runs)

    def start(self, *, replay: int | None = SEED) -> None:
        for site in self.sites:
            serving.prepare_site(self.kit(site), self.folder(site), replay_for_tests=replay)
        for name in ["server", *self.sites]:
            self.start_one(name)
        self.await_connected(self.sites)

    def start_one(self, name: str, kit: Path | None = None) -> None:
        where = self.kit(name) if kit is None else kit
        out = (self.path / f"{name}.out").open("ab")
        self.running[name] = subprocess.Popen(
            serving.command(where),
            env=serving.environment(),
            cwd=where,
            stdout=out,
            stderr=out,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            umask=0o077,
        )

    def await_connected(self, sites: list[str], seconds: float = 60.0) -> None:
        end = time.monotonic() + seconds
        while True:
            try:
                with opened(self.federation.admin_kit) as coordination:
                    while time.monotonic() < end:
                        if set(sites) <= set(coordination.connected()):
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
        self._seen |= {process.pid: process.create_time() for process in members}
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
        """Processes that still run a kit of this federation; job processes name it on their command line."""
        mark, found = str(self.path), []
        for process in psutil.process_iter(["pid", "cmdline"]):
            if process.pid != os.getpid() and any(mark in part for part in process.info["cmdline"] or []):
                found.append(f"{process.pid}: {' '.join(process.info['cmdline'])[:200]}")
        return found
