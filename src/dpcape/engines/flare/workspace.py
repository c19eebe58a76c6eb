"""A fresh work folder of FLARE's client for each start; the kit, read once, gives certificates and server."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from importlib.resources import files
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from dpcape.core.errors import Failed, InvalidParameter
from dpcape.core.files import write_private
from dpcape.engines.flare.config import authorization, comm_config, site_resources

_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?")
# A host whose last part is one of these is taken for an address, in one of many forms.
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")
_PORT = re.compile(r"[1-9][0-9]{0,4}")
_DNS_PORT = 53
_CERTIFICATES = ("client.crt", "rootCA.pem")
_MOST_BYTES = 2**20


@dataclass(frozen=True)
class SiteKit:
    """What a kit from the coordinator said when it was read, once: a kit that is replaced later changes nothing here.

    The address decides which port the engine may connect to, on every machine. So the steward confirms it, and what was
    confirmed is what every start uses.

    Attributes
    ----------
    identity : str
        The server's name in its certificate.
    host, port : str, int
        Where the server is.
    certificates : tuple of (str, bytes)
        File names, and the certificates that the engine gets under them.
    """

    identity: str
    host: str
    port: int
    certificates: tuple[tuple[str, bytes], ...]

    @classmethod
    def read(cls, path: Path) -> SiteKit:
        """Read the kit in a folder, and refuse one that names no server or holds no certificates."""
        startup = path / "startup"
        try:
            content = json.loads((startup / "fed_client.json").read_text(encoding="utf-8"))
            entry = content["servers"][0]
            host, _, port = str(entry["service"]["target"]).rpartition(":")
            identity = str(entry["identity"])
        except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
            got = f"{type(error).__name__} in {str(path)!r}"
            raise InvalidParameter("A kit", "name its server", got, "Ask for a new kit.") from error
        if not (_is_host(host) and _HOST.fullmatch(identity) and _PORT.fullmatch(port) and int(port) < 65536):
            raise Failed("The kit does not name its server as HOST:PORT", remedy="Ask for a new kit.")
        return cls(identity, host, int(port), tuple((name, _certificates(startup / name)) for name in _CERTIFICATES))

    @property
    def address(self) -> str:
        """The server as HOST:PORT."""
        return f"{self.host}:{self.port}"

    @property
    def own_certificate(self) -> bytes:
        """The site's certificate, and those that follow it in its file."""
        return dict(self.certificates)[_CERTIFICATES[0]]

    def ports(self) -> tuple[int, ...]:
        """Return the TCP ports the client must reach: the server's, and name look-ups unless it is this machine."""
        return (self.port,) if self.host in ("localhost", "127.0.0.1") else (self.port, _DNS_PORT)

    def command(self, work: Path, site: str) -> list[str]:
        """Return the arguments that start FLARE's client of a site in a work folder."""
        options = ["secure_train=true", f"uid={site}", f"org={site.replace('-', '_')}", "config_folder=config"]
        module = "dpcape.engines.flare.site_client"
        return ["-u", "-m", module, "-m", str(work), "-s", "fed_client.json", "--set", *options]

    def fill(self, work: Path, *, site: str, tls_key: str, port: int) -> None:
        """Fill a new work folder of a site, whose own processes meet on a port."""
        for name in ("startup", "local", "transfer", "tmp"):
            (work / name).mkdir(mode=0o700)
        for name, content in self.certificates:
            write_private(work / "startup" / name, content)
        write_private(work / "startup" / "client.key", tls_key)
        _write(work / "startup" / "fed_client.json", self._client(site))
        _write(work / "local" / "resources.json", site_resources())
        _write(work / "local" / "authorization.json", authorization(at_server=False))
        _write(work / "local" / "comm_config.json", comm_config(port))
        log_config = files("nvflare") / "fuel" / "utils" / "log_config.json"
        write_private(work / "local" / "log_config.json", log_config.read_bytes())

    def _client(self, site: str) -> dict[str, Any]:
        service = {"target": self.address, "scheme": "grpc"}
        client = {
            "ssl_private_key": "client.key",
            "ssl_cert": "client.crt",
            "ssl_root_cert": "rootCA.pem",
            "fqsn": site,
            "is_leaf": True,
            "connection_security": "mtls",
        }
        servers = [{"name": "dpcape", "service": service, "identity": self.identity}]
        return {"format_version": 2, "servers": servers, "client": client}


def _is_host(host: str) -> bool:
    """Return whether it is a name or a dotted quad; ``0``, ``127.1`` and ``0x7f.1`` hide which machine they are."""
    if not _HOST.fullmatch(host):
        return False
    if not _NUMBER.fullmatch(host.rpartition(".")[2]):
        return True
    try:
        return not IPv4Address(host).is_unspecified
    except ValueError:
        return False


# Name look-ups over TCP through libc, since the sandbox has no UDP.
ENVIRONMENT = {"GRPC_DNS_RESOLVER": "native", "RES_OPTIONS": "use-vc"}


def _certificates(path: Path) -> bytes:
    """Return the certificates in a file of a kit, and nothing else of it: the engine can read what is copied.

    A kit comes from elsewhere. A link in it may lead to a secret, which this process can read and the engine cannot.
    """
    try:
        if not path.is_file() or path.stat().st_size > _MOST_BYTES:
            raise ValueError("no file of certificates")
        certificates = x509.load_pem_x509_certificates(path.read_bytes())
    except (OSError, ValueError) as error:
        why = f"startup/{path.name} is not a file of certificates"
        raise Failed("The kit was refused", why, "Ask for a new kit.") from error
    return b"".join(entry.public_bytes(Encoding.PEM) for entry in certificates)


def _write(path: Path, value: Any) -> None:
    write_private(path, json.dumps(value, indent=1).encode())
