"""A fresh work folder of FLARE's client for each start; of the kit it takes certificates and the server's address."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from dpcape.core.errors import InvalidParameter
from dpcape.core.files import write_private
from dpcape.engines.flare.config import authorization, comm_config, site_resources

_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?")
_DNS_PORT = 53
_CERTIFICATES = ("client.crt", "rootCA.pem")
_MOST_BYTES = 2**20


@dataclass(frozen=True)
class SiteKit:
    """A kit as it came from the coordinator; nothing in it decides what the site may do.

    Attributes
    ----------
    path : Path
        The kit's folder, which is only read.
    site : str
        Name of the site.
    """

    path: Path
    site: str

    def server(self) -> tuple[str, str, int]:
        """Return name in the certificate, host and port of the server."""
        try:
            content = json.loads((self.path / "startup" / "fed_client.json").read_text(encoding="utf-8"))
            entry = content["servers"][0]
            host, _, port = str(entry["service"]["target"]).rpartition(":")
            identity, number = str(entry["identity"]), int(port)
        except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
            raise InvalidParameter(
                f"A kit must name its server; got {type(error).__name__} in {str(self.path)!r}. Ask for a new kit."
            ) from error
        if not (_HOST.fullmatch(host) and _HOST.fullmatch(identity) and 0 < number < 65536):
            raise InvalidParameter("The kit does not name its server as HOST:PORT. Ask for a new kit.")
        return identity, host, number

    def ports(self) -> tuple[int, ...]:
        """Return the TCP ports the client must reach: the server's, and name look-ups unless it is this machine."""
        _, host, port = self.server()
        return (port,) if host in ("localhost", "127.0.0.1") else (port, _DNS_PORT)

    def command(self, work: Path) -> list[str]:
        """Return the arguments that start FLARE's client in a work folder."""
        options = ["secure_train=true", f"uid={self.site}", f"org={_org(self.site)}", "config_folder=config"]
        module = "dpcape.engines.flare.site_client"
        return ["-u", "-m", module, "-m", str(work), "-s", "fed_client.json", "--set", *options]

    def fill(self, work: Path, *, tls_key: str, port: int) -> None:
        """Fill a new work folder."""
        for name in ("startup", "local", "transfer", "tmp"):
            (work / name).mkdir(mode=0o700)
        for name in _CERTIFICATES:
            write_private(work / "startup" / name, _certificates(self.path / "startup" / name))
        write_private(work / "startup" / "client.key", tls_key)
        _write(work / "startup" / "fed_client.json", self._client())
        _write(work / "local" / "resources.json", site_resources())
        _write(work / "local" / "authorization.json", authorization(at_server=False))
        _write(work / "local" / "comm_config.json", comm_config(port))
        write_private(work / "local" / "log_config.json", _log_config())

    def _client(self) -> dict[str, Any]:
        identity, host, port = self.server()
        service = {"target": f"{host}:{port}", "scheme": "grpc"}
        client = {
            "ssl_private_key": "client.key",
            "ssl_cert": "client.crt",
            "ssl_root_cert": "rootCA.pem",
            "fqsn": self.site,
            "is_leaf": True,
            "connection_security": "mtls",
        }
        servers = [{"name": "dpcape", "service": service, "identity": identity}]
        return {"format_version": 2, "servers": servers, "client": client}


# Name look-ups over TCP through libc, since the sandbox has no UDP.
ENVIRONMENT = {"GRPC_DNS_RESOLVER": "native", "RES_OPTIONS": "use-vc"}


def _certificates(path: Path) -> bytes:
    """Return the certificates in a file of a kit, and nothing else of it: the engine can read what is copied.

    A kit comes from elsewhere. A link in it may lead to a secret, which this process can read and the engine cannot.
    """
    try:
        if not path.is_file() or path.stat().st_size > _MOST_BYTES:
            raise ValueError("no file of certificates")
        found = x509.load_pem_x509_certificates(path.read_bytes())
    except (OSError, ValueError) as error:
        raise InvalidParameter(
            f"The kit was refused because startup/{path.name} is not a file of certificates. Ask for a new kit."
        ) from error
    return b"".join(entry.public_bytes(Encoding.PEM) for entry in found)


def _org(site: str) -> str:
    return site.replace("-", "_")


def _log_config() -> bytes:
    return (files("nvflare") / "fuel" / "utils" / "log_config.json").read_bytes()


def _write(path: Path, value: Any) -> None:
    write_private(path, json.dumps(value, indent=1).encode())
