"""Check readiness for a study, one point at a time, and suggest a fix for each.

Everything here is read-only and spends nothing. What is said about data is public: that it can be read, and that it has
the columns and bounds of the study.
"""

from __future__ import annotations

import json
import shutil
import socket
import ssl
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from cryptography import x509

from dpcape.core._version import __version__
from dpcape.core.errors import DpcapeError, Failed, InvalidParameter, UtilityWarning
from dpcape.core.secure_sum.identity import fingerprint_of
from dpcape.records.kinds import Records
from dpcape.records.policy import MOST_INVALID
from dpcape.site.folder import SiteFolder
from dpcape.site.ledger import check_approved
from dpcape.site.tls import TLS_KEY
from dpcape.site.vault.landlock import abi
from dpcape.site.vault.modes import NONE, mode_here
from dpcape.study.study import Study

TESTED_ENGINE = "2.9."
_MIN_FREE_BYTES = 2**30
_SOON = timedelta(days=30)


@dataclass(frozen=True)
class Diagnosis:
    """One check: its subject, whether it is in order, and what was seen."""

    subject: str
    good: bool
    text: str


def examine(
    *, study: Study | None = None, folder: Path | None = None, kit: Path | None = None, federation: Path | None = None
) -> list[Diagnosis]:
    """Look at everything that the given parts allow to look at."""
    checks: list[tuple[str, Callable[[], str]]] = [("versions", _versions), ("disk", _disk)]
    if folder is not None:
        checks += [("separation", lambda: _separation(folder)), ("identity", lambda: _identity(folder))]
        checks += [("ledger", lambda: f"{SiteFolder(folder).chain.verify().length} rows, chain and head agree")]
    if folder is not None and study is not None:
        checks += [("approval", lambda: _approval(folder, study)), ("data and bounds", lambda: _data(folder, study))]
    if kit is not None:
        checks += [("permissions", lambda: _permissions(kit)), ("clock", lambda: _certificates(kit))]
        checks += [("TLS", lambda: _handshake(kit, folder))]
    findings = [_checked(subject, check) for subject, check in checks]
    if federation is not None:
        findings += _both_ends(federation, study)
    return findings


def _checked(subject: str, check: Callable[[], str]) -> Diagnosis:
    try:
        return Diagnosis(subject, True, check())
    except (DpcapeError, OSError, ValueError, KeyError) as error:
        return Diagnosis(subject, False, f"{error}" or type(error).__name__)


def _versions() -> str:
    try:
        engine = version("nvflare")
    except PackageNotFoundError:
        return f"dpcape {__version__}; NVIDIA FLARE is not installed, which only a federation needs"
    if not engine.startswith(TESTED_ENGINE):
        must = f"be {TESTED_ENGINE}*, which was tested"
        raise InvalidParameter("nvflare", must, engine, "Run: pip install 'dpcape[engine]'.")
    return f"dpcape {__version__}, nvflare {engine}"


def _disk() -> str:
    free = shutil.disk_usage(Path.cwd()).free
    if free < _MIN_FREE_BYTES:
        raise InvalidParameter("At least 1 GiB", "be free here", f"{free / 2**30:.2f} GiB", "Free some space.")
    return f"{free / 2**30:.0f} GiB free"


def _identity(folder: Path) -> str:
    site = SiteFolder(folder)
    others = ", ".join(sorted(set(site.pinned()) - {site.name})) or "nobody yet"
    known = f"pinned: {others}; coordinator {fingerprint_of(site.coordinator())}"
    return f"{site.name}, fingerprint {site.identity.fingerprint()}; {known}"


def _separation(folder: Path) -> str:
    """Return how well an engine started here by this account would be separated from the records."""
    mode = mode_here(folder)
    if mode is NONE:
        raise Failed(mode.line, remedy="This machine has no Landlock; use Linux 5.13 or newer, or a container on it.")
    return f"{mode.line} (Landlock version {abi()})"


def _approval(folder: Path, study: Study) -> str:
    data = check_approved(SiteFolder(folder).state(), study.digest())
    return f"{study.name} ({study.digest()[:16]}) is approved {f'for data set {data}' if data else 'to deal noise'}"


def _data(folder: Path, study: Study) -> str:
    site = SiteFolder(folder)
    sets = site.data_sets()
    if site.name == study.dealer:
        return f"{site.name} deals noise in this study and needs no data set"
    if not sets:
        raise Failed("The site has no data set", remedy="Register one with: dpcape site add.")
    approved = site.state().approvals.get(study.digest())
    name = approved[0] if approved else next(iter(sets))
    with warnings.catch_warnings():
        # Reported below as a diagnosis.
        warnings.simplefilter("ignore", UtilityWarning)
        records = study.records_for(site.name, sets[name]["path"])
    facts, n_invalid = records.facts(), records.n_invalid
    if n_invalid > MOST_INVALID * records.n_records:
        raise InvalidParameter(
            f"At least {100 * (1 - MOST_INVALID):g}% of the records",
            "be valid",
            f"{n_invalid} of {records.n_records} that are not, and they contribute zero",
            "Correct them, or declare missing= in the study. This number stays here.",
        )
    _require_usable(records)
    if facts.shape_facts() != study.facts():
        must = "have the columns and bounds the study declares"
        raise InvalidParameter("Records", must, "different ones", "Check the study's [data] table against the file.")
    return f"data set {name} can be read; columns and bounds are the study's"


def _require_usable(records: Records) -> None:
    """Refuse a table in which many entries of a column are not on the list of levels, or cannot be read."""
    for name, count in getattr(records, "unusable", {}).items():
        if count > MOST_INVALID * records.n_records:
            raise InvalidParameter(
                f"At least {100 * (1 - MOST_INVALID):g}% of the entries of column {name!r}",
                "be readable and among its levels",
                f"{count} of {records.n_records} that are not, and they count as missing",
                "Correct them, or the columns of the study. This number stays here.",
            )


def _permissions(kit: Path) -> str:
    open_to_others = [path.name for path in kit.rglob("*.key") if path.stat().st_mode & 0o077]
    if open_to_others:
        got = f"wider permissions of {open_to_others[0]}"
        raise InvalidParameter("Keys", "be readable only by their owner", got, "Run chmod 600.")
    return "keys of the kit are private"


def _certificates(kit: Path) -> str:
    """Compare this machine's clock with the certificates' time of validity."""
    now = datetime.now(UTC)
    certificate = x509.load_pem_x509_certificate(_startup(kit, "client.crt", "server.crt").read_bytes())
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if not start <= now <= end:
        must = f"lie within the certificate's time ({start:%Y-%m-%d} to {end:%Y-%m-%d})"
        got, remedy = f"{now:%Y-%m-%d %H:%M} UTC", "Set the clock, or ask for a new kit."
        raise InvalidParameter("the clock", must, got, remedy)
    remaining = end - now
    hint = "; ask for a new kit soon" if remaining < _SOON else ""
    return f"{now:%Y-%m-%d %H:%M:%S} UTC; the certificate is valid for {remaining.days} more days{hint}"


def _handshake(kit: Path, folder: Path | None) -> str:
    """Connect to the server with the kit's certificate, as FLARE would; a site's key is in its folder."""
    host, port = _server_of(kit)
    key = _startup(kit, "server.key") if folder is None else SiteFolder(folder).keys / TLS_KEY
    context = ssl.create_default_context(cafile=str(kit / "startup" / "rootCA.pem"))
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(_startup(kit, "client.crt", "server.crt"), key)
    context.set_alpn_protocols(["h2"])
    what, remedy = f"The connection to {host}:{port} failed", "Use the kit of this federation."
    try:
        with (
            socket.create_connection((host, port), timeout=5) as raw,
            context.wrap_socket(raw, server_hostname=host) as secured,
        ):
            # Under TLS 1.3 a refused client certificate shows at the first read, not at the handshake.
            secured.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
            answered = bool(secured.recv(9))
            protocol = secured.version()
    except OSError as error:
        raise Failed(what, f"the server did not accept this kit ({error})", remedy) from error
    if not answered:
        raise Failed(what, "the server closed it", remedy)
    return f"{host}:{port} accepts this kit ({protocol}, both sides authenticated)"


def _server_of(kit: Path) -> tuple[str, int]:
    for name in ("fed_client.json", "fed_server.json"):
        path = kit / "startup" / name
        if path.is_file():
            target = json.loads(path.read_text(encoding="utf-8"))["servers"][0]["service"]["target"]
            host, _, port = str(target).rpartition(":")
            return host, int(port)
    raise Failed("The kit does not name its server", remedy="Give the kit of a site or of the server.")


def _startup(kit: Path, *names: str) -> Path:
    for name in names:
        if (kit / "startup" / name).is_file():
            return kit / "startup" / name
    raise Failed(f"The kit does not hold {names[0]}", remedy="For a site's kit, name its folder too.")


def _both_ends(federation: Path, study: Study | None) -> list[Diagnosis]:
    """Ask the server who is there and, with a study, every site whether it is ready: versions and clocks of all."""
    from dpcape.engines.flare.admin_session import opened
    from dpcape.engines.flare.kits import FederationFolder
    from dpcape.engines.flare.submit import check_sites

    def present() -> str:
        folder = FederationFolder(federation)
        with opened(folder.admin_kit) as coordination:
            absent = sorted(set(folder.site_names()) - set(coordination.connected()))
        if absent:
            what = f"The sites {', '.join(absent)} are not connected"
            raise Failed(what, remedy="Start them with 'dpcape site serve'.")
        return "every site is connected"

    findings = [_checked("federation", present)]
    if study is None or not findings[0].good:
        return findings
    with tempfile.TemporaryDirectory() as folder:

        def ready() -> str:
            check_sites(study, Path(folder))
            return "every site is ready and holds what the study declares"

        finding = _checked("sites", ready)
        ends = Path(folder) / "ends.json"
        known = json.loads(ends.read_text(encoding="utf-8")) if ends.is_file() else {}
    return [*findings, finding, *(_end(name, entry) for name, entry in known.items() if name != "coordinator")]


def _end(site: str, entry: dict[str, Any]) -> Diagnosis:
    from dpcape.runs.study_run import MAX_CLOCK_SECONDS

    apart = float(entry["clock_apart"])
    good = entry["dpcape"] == __version__ and apart <= MAX_CLOCK_SECONDS
    return Diagnosis(f"site {site}", good, f"dpcape {entry['dpcape']} (here {__version__}), clock {apart:.1f} s apart")
