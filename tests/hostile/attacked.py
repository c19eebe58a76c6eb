"""A federation under attack: how to be a rogue member, a rogue root of trust, and to find a site's processes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
from tests.engine.accounts import engine_environment
from tests.engine.consortium import Consortium

from dpcape.engines.flare.workspace import SiteKit
from dpcape.site.folder import SiteFolder

HERE = Path(__file__).parent


class Attacked(Consortium):
    """A federation whose sites are served as the guide says, with work folders that a test can look into."""

    def create(self, **options: Any) -> None:
        super().create(**options)
        work = self.path / "work"
        work.mkdir()
        work.chmod(0o711)
        self.options = ["--work", str(work)]
        # A hostile coordinator lets its server accept jobs that bring code.
        policy = self.kit("server") / "local" / "authorization.json"
        rights = json.loads(policy.read_text())
        rights["permissions"]["project_admin"]["byoc"] = "any"
        policy.write_text(json.dumps(rights))

    def part(self, site: str, word: str) -> psutil.Process:
        """The process of a site whose command line has a word: vault, engine or job."""
        words = {"vault": "vault.server", "engine": "site_client", "job": "worker_process"}
        end = time.monotonic() + 30
        while time.monotonic() < end:
            for process in self.processes(site):
                try:
                    if words[word] in " ".join(process.cmdline()):
                        return process
                except psutil.Error:
                    continue
            time.sleep(0.1)
        raise AssertionError(f"{site} has no {word}")

    def work_of(self, site: str) -> Path:
        """The work folder of a site's engine."""
        command = self.part(site, "engine").cmdline()
        return Path(command[command.index("-s") - 1])

    def secrets_of(self, site: str) -> list[str]:
        folder = self.folder(site)
        files = [folder / "keys" / "identity.key", folder / "ledger.sqlite", self.path / "data" / f"{site}.npz"]
        return [str(path) for path in files]

    def client(self, site: str, *, rogue: Path | None = None) -> None:
        """Run FLARE's own client with a member's certificate, unconfined: stock, or a rogue that takes orders."""
        self.started[site] = time.time()
        work = self.path / f"unconfined-{site}"
        work.mkdir()
        key = (self.folder(site) / "keys" / "tls.key").read_text()
        kit = SiteKit.read(self.kit(site))
        from tests.engine.consortium import free_port

        kit.fill(work, site=site, tls_key=key, port=free_port())
        arguments = kit.command(work, site)[3:]
        program = ["-m", "nvflare.private.fed.app.client.client_train"]
        if rogue is not None:
            program = [str(HERE / "rogue.py"), str(rogue)]
        with (self.path / f"{site}-unconfined.out").open("wb") as out:
            self.running[site] = subprocess.Popen(
                [sys.executable, *program, *arguments],
                env=engine_environment(),
                stdout=out,
                stderr=out,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def order(self, orders: Path, wanted: list[dict[str, str]]) -> list[str]:
        """Have the rogue do something and return what came back."""
        done = orders.with_suffix(".done")
        done.unlink(missing_ok=True)
        draft = orders.with_suffix(".draft")
        draft.write_text(json.dumps(wanted))
        draft.replace(orders)
        end = time.monotonic() + 90
        while not done.exists():
            assert time.monotonic() < end, "the rogue did not answer"
            time.sleep(0.1)
        answers: list[str] = json.loads(done.read_text())
        return answers

    def identity_text(self, site: str) -> str:
        return SiteFolder(self.folder(site)).identity.private_bytes().hex()
