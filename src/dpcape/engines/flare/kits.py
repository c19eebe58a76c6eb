"""Start-up kits through FLARE's own provisioning, then hardened: policy, stores, permissions, keys.

Sites make their own TLS keys and send requests; what FLARE made for them is thrown away before a kit exists.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpcape.core.errors import Failed, InvalidParameter, TransportError
from dpcape.core.files import write_private
from dpcape.core.protocols.dealt_noise import DEALER
from dpcape.core.secure_sum.identity import Identity
from dpcape.engines.flare.config import COORDINATOR_KEY, IDENTITIES, authorization, server_resources
from dpcape.engines.flare.registration import Registration, certified

PROJECT = "dpcape"
ADMIN = "coordinator@dpcape.org"
SERVER_KIT, ADMIN_KIT = "server", "admin"
_RESERVED = {SERVER_KIT, ADMIN_KIT, "localhost", DEALER, "coordinator"}
# FLARE reads a dot as a level of its names.
_SITE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_PROVISION_SECONDS = 120


@dataclass(frozen=True)
class FederationFolder:
    """A coordinator's folder: project file, kits, and the keys that must not leave it.

    ::

        project.yml       what FLARE provisions from
        coordinator.key   signs every request to a site
        identities.json   public keys of the sites, which replies are checked with
        provision/        FLARE's workspace; state/cert.json holds the root key of all certificates
        kits/NAME         one kit per participant: server, admin, and every site
    """

    path: Path

    @property
    def kits(self) -> Path:
        """Where the kits stand."""
        return self.path / "kits"

    @property
    def server_kit(self) -> Path:
        """The server's kit."""
        return self.kits / SERVER_KIT

    @property
    def admin_kit(self) -> Path:
        """The kit that submits studies."""
        return self.kits / ADMIN_KIT

    def coordinator(self) -> Identity:
        """Return the coordinator's signing key."""
        return Identity.from_private_bytes((self.path / COORDINATOR_KEY).read_bytes())

    def site_names(self) -> list[str]:
        """Return the sites that have a kit."""
        return sorted(entry.name for entry in self.kits.iterdir() if entry.name not in (SERVER_KIT, ADMIN_KIT))

    def identities(self) -> dict[str, str]:
        """Return the sites' public keys, in hexadecimal."""
        path = self.path / IDENTITIES
        known: dict[str, str] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        return known

    def create(self, registered: list[Registration], *, host: str, port: int) -> None:
        """Make project file, keys and kits for sites that sent their registrations."""
        sites = [entry.site for entry in registered]
        check_names(sites)
        if not 1024 <= port <= 65535:
            raise InvalidParameter("port", "be between 1024 and 65535", port)
        if (self.path / "project.yml").exists():
            raise Failed("The federation was not made", f"{str(self.path)!r} is one already", "Choose another folder.")
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path.chmod(0o700)
        write_private(self.path / COORDINATOR_KEY, Identity.generate().private_bytes())
        write_private(self.path / "project.yml", project_text(sites, host=host, port=port).encode())
        self._provision(registered, [host, ADMIN])

    def add(self, registration: Registration) -> None:
        """Make a kit for a further site; certificates of the others stay valid."""
        site = registration.site
        check_names([site])
        if site in self.site_names():
            remedy = "Use: dpcape federation replace-site."
            raise InvalidParameter("A site", "be new to be added", f"{site!r}, which has a kit", remedy)
        text = (self.path / "project.yml").read_text(encoding="utf-8")
        write_private(self.path / "project.yml", text.replace(_END_OF_SITES, _site_line(site) + _END_OF_SITES).encode())
        self._provision([registration])

    def replace(self, registration: Registration) -> None:
        """Make a new kit for a site whose machine or certificate is lost; see docs/consortium.md for the old one."""
        site = registration.site
        if site not in self.site_names():
            remedy = "Use: dpcape federation add-site."
            raise InvalidParameter("A site", "have a kit to be replaced", repr(site), remedy)
        shutil.rmtree(self.kits / site)
        self._provision([registration])

    def _provision(self, registered: list[Registration], others: list[str] | None = None) -> None:
        """Call FLARE's provisioning and take over the kits of new sites, and of the server and the administrator."""
        before = os.umask(0o077)
        try:
            work = self.path / "provision"
            _call_flare(["provision", "-p", str(self.path / "project.yml"), "-w", str(work), "--force"])
            provisioned = max((work / PROJECT).glob("prod_*"))
            for name in others or []:
                kind = ADMIN_KIT if name == ADMIN else SERVER_KIT
                shutil.copytree(provisioned / name, self.kits / kind)
                self._harden(self.kits / kind, kind)
            root = self._forget_site_keys([*self.site_names(), *(entry.site for entry in registered)])
            for entry in registered:
                self._site_kit(provisioned / entry.site, entry, root)
            shutil.rmtree(provisioned)
            keys = {**self.identities(), **{entry.site: entry.public_key for entry in registered}}
            for folder in (self.path, self.server_kit / "local"):
                _write_json(folder / IDENTITIES, keys)
        finally:
            os.umask(before)
        # Remove all permissions of others: FLARE writes the root key readable for everyone.
        for path in [self.path, *self.path.rglob("*")]:
            if not path.is_symlink():
                path.chmod(path.stat().st_mode & 0o700)

    def _forget_site_keys(self, sites: list[str]) -> bytes:
        """Remove what FLARE keeps of sites' keys; return the root key, which signs certificates."""
        state = self.path / "provision" / PROJECT / "state" / "cert.json"
        content = json.loads(state.read_text(encoding="utf-8"))
        for site in sites:
            content.pop(site, None)
        write_private(state, json.dumps(content).encode())
        return str(content["root_pri_key"]).encode("ascii")

    def _site_kit(self, provisioned: Path, registration: Registration, root: bytes) -> None:
        """Make a site's kit: the server's address and certificates, no private key and no settings."""
        startup = self.kits / registration.site / "startup"
        startup.mkdir(parents=True)
        for name in ("fed_client.json", "rootCA.pem"):
            shutil.copyfile(provisioned / "startup" / name, startup / name)
        template = (provisioned / "startup" / "client.crt").read_bytes()
        write_private(startup / "client.crt", certified(registration, template, root))

    def _harden(self, kit: Path, kind: str) -> None:
        local = kit / "local"
        if kind == ADMIN_KIT:
            return
        default = json.loads((local / "resources.json.default").read_text(encoding="utf-8"))
        store = (kit / "store").resolve()
        for name in ("jobs", "snapshots"):
            (store / name).mkdir(parents=True)
        write_private(local / COORDINATOR_KEY, self.coordinator().private_bytes())
        _write_json(local / "resources.json", server_resources(default, store))
        _write_json(local / "authorization.json", authorization(at_server=True))
        shutil.copyfile(local / "log_config.json.default", local / "log_config.json")


_END_OF_SITES = "  # sites end here\n"


def project_text(sites: list[str], *, host: str, port: int) -> str:
    """Return FLARE's project file. The server's name decides what it listens on: "localhost" means loopback only."""
    members = "".join(_site_line(site) for site in sites)
    return f"""api_version: 3
name: {PROJECT}
description: dpcape federation
participants:
  - {{name: {host}, type: server, org: coordinator, fed_learn_port: {port}, admin_port: {port}}}
{members}{_END_OF_SITES}  - {{name: {ADMIN}, type: admin, org: coordinator, role: project_admin}}
builders:
  - {{path: nvflare.lighter.impl.workspace.WorkspaceBuilder, args: {{template_file: [master_template.yml]}}}}
  - {{path: nvflare.lighter.impl.static_file.StaticFileBuilder, args: {{config_folder: config, scheme: grpc}}}}
  - {{path: nvflare.lighter.impl.cert.CertBuilder}}
  - {{path: nvflare.lighter.impl.signature.SignatureBuilder}}
"""


def check_names(sites: list[str]) -> None:
    """Refuse site names that FLARE or dpcape would read as something else."""
    for site in sites:
        if not _SITE_NAME.fullmatch(site) or site in _RESERVED:
            raise InvalidParameter(
                "a site's name",
                "be 1 to 63 of a-z, A-Z, 0-9, '_' and '-', starting with a letter or digit, and none of "
                f"{', '.join(sorted(_RESERVED))}",
                repr(site[:80]),
                "FLARE allows no others.",
            )
    if not sites or len(set(sites)) != len(sites):
        remedy = "Use --site once per site."
        raise InvalidParameter("Sites of a federation", "be named, each once", "no name, or one twice", remedy)


def _site_line(site: str) -> str:
    return f"  - {{name: {site}, type: client, org: {site.replace('-', '_')}}}\n"


def _call_flare(arguments: list[str]) -> None:
    """Run one of FLARE's own commands in a process of its own."""
    command = [sys.executable, "-m", "nvflare.cli", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PROVISION_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        what = f"FLARE's provisioning was stopped after {_PROVISION_SECONDS} s"
        raise TransportError(what, remedy="Run the command again.") from error
    if done.returncode:
        raise TransportError(f"FLARE's provisioning failed: {(done.stdout + done.stderr).strip()[-400:]}")


def _write_json(path: Path, value: Any) -> None:
    write_private(path, json.dumps(value, indent=1).encode())
