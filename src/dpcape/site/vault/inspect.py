"""Facts about a site folder that the supervisor needs, read under the vault's own account.

Root must not open the ledger itself: files it made there could not be used by the vault's account afterwards.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

from dpcape.core.errors import DpcapeError, Failed
from dpcape.site.vault.accounts import Account
from dpcape.site.vault.sandbox import clean_environment


class SiteFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Name, identity, places, the key the engine needs for TLS, and packages whose code may run in sandboxes.

    ``confirmed`` is the server that the steward confirmed last, HOST:PORT, or empty.
    """

    name: str
    fingerprint: str
    keys: str
    secret_files: list[str]
    tls_key: str
    packages: list[str] = []
    confirmed: str = ""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """Which folder, whether the kit is its own, and the settings to note in its ledger.

    ``certificate`` is what was read from the kit: the engine gets this one, whatever the kit holds by then. Settings
    are noted only if the steward confirmed the server in them: now (``confirms``) or before.
    """

    folder: str
    kit: str
    certificate: str
    settings: dict[str, Any]
    confirms: bool = False


def facts_of(question: Question) -> SiteFacts:
    """Open a site folder, check that it can be served with this kit, and return what the supervisor needs."""
    from cryptography.hazmat.primitives import serialization

    from dpcape.site.folder import SiteFolder
    from dpcape.site.foreign.installed import require_inert
    from dpcape.site.tls import require_own_certificate, tls_key

    folder = SiteFolder(question.folder)
    folder.coordinator()
    key = tls_key(folder.keys)
    require_own_certificate(question.certificate.encode("ascii"), Path(question.kit), folder.name, key)
    packages = sorted(folder.state().packages)
    for package in packages:
        # The installed package may have changed since it was allowed.
        require_inert(package)
    last = folder.last_served()
    # Empty if the steward has confirmed no server yet.
    confirmed = str(last["server"]) if last.get("confirmed") else ""
    if question.confirms or confirmed == question.settings["server"]:
        confirmed = str(question.settings["server"])
        folder.note_serving({**question.settings, "confirmed": True})
    encoding = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    files = [folder.keys / "identity.key", folder.keys / "ledger.head", folder.path / "ledger.sqlite"]
    return SiteFacts(
        name=folder.name,
        fingerprint=folder.identity.fingerprint(),
        keys=str(folder.keys.resolve()),
        secret_files=[str(path.resolve()) for path in (*files, *_records(folder.data_sets()))],
        tls_key=key.private_bytes(*encoding).decode("ascii"),
        packages=packages,
        confirmed=confirmed,
    )


def _records(data_sets: dict[str, dict[str, Any]]) -> list[Path]:
    """Return one file of every data set."""
    record_files = []
    for entry in data_sets.values():
        path = Path(entry["path"])
        matching = sorted(path.iterdir() if path.is_dir() else path.parent.glob(path.name))
        record_files += [file for file in matching if file.is_file()][:1]
    return record_files


def ask(question: Question, account: Account) -> SiteFacts:
    """Return the facts of a site folder, read by a process of the vault's account."""
    if account == Account.current():
        return facts_of(question)
    done = subprocess.run(
        [sys.executable, "-I", "-m", "dpcape.site.vault.inspect"],
        input=msgspec.json.encode(question),
        capture_output=True,
        env=clean_environment(),
        cwd="/",
        check=False,
        **account.options(),
    )
    if done.returncode:
        raise Failed(done.stderr.decode("utf-8", "replace").strip()[-1000:] or "The folder was not opened.")
    return msgspec.json.decode(done.stdout, type=SiteFacts)


def main() -> None:
    """Answer the question on standard input."""
    os.umask(0o077)
    try:
        facts = facts_of(msgspec.json.decode(sys.stdin.buffer.read(), type=Question))
    except (DpcapeError, OSError) as error:
        sys.exit(str(error))
    sys.stdout.buffer.write(msgspec.json.encode(facts))


if __name__ == "__main__":
    main()
