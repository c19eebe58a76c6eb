"""Starting a kit: FLARE's own start script in the foreground, under dpcape's preset."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from cryptography import x509
from cryptography.x509.oid import NameOID

from dpcape.errors import InvalidParameter
from dpcape.site.serving import SETTINGS_FILE, SiteSettings
from dpcape.transport.timing import PRESET


def prepare_site(
    kit: Path, folder: Path, *, data: str | None = None, replay_for_tests: int | None = None
) -> SiteSettings:
    """Write into a kit which site folder it serves."""
    path = kit / "local" / SETTINGS_FILE
    if not path.is_file():
        raise InvalidParameter(f"a kit must be made by 'dpcape federation init'; got {str(kit)!r}.")
    coordinator = SiteSettings.load(path).coordinator
    settings = SiteSettings(
        coordinator=coordinator, folder=str(folder.resolve()), data=data, replay_for_tests=replay_for_tests
    )
    settings.save(path)
    return settings


def require_own_kit(kit: Path, site: str) -> None:
    """Refuse the kit of another site before it connects under that site's name."""
    path = kit / "startup" / "client.crt"
    if not path.is_file():
        raise InvalidParameter(f"a site's kit must hold startup/client.crt; got {str(kit)!r}. Take the kit of {site}.")
    subject = x509.load_pem_x509_certificate(path.read_bytes()).subject
    names = [str(entry.value) for entry in subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    if names != [site]:
        raise InvalidParameter(
            f"the kit must be made for {site}, whose folder is served; got the kit of {', '.join(names) or 'nobody'}."
        )


def command(kit: Path) -> list[str]:
    """Return the command that runs a kit in the foreground; it replaces itself with the process it starts."""
    script = kit.resolve() / "startup" / "sub_start.sh"
    if not script.is_file():
        raise InvalidParameter(f"a kit must hold startup/sub_start.sh; got {str(kit)!r}.")
    return [str(script), "--once"]


def environment() -> dict[str, str]:
    """Return the environment of a kit's processes: this Python, one BLAS thread, short waits for the dead."""
    here = str(Path(sys.executable).parent)
    preset = {
        "PATH": os.pathsep.join([here, os.environ.get("PATH", os.defpath)]),
        "NVFLARE_CLIENT_OUTCOME_WAIT_TIMEOUT": str(PRESET.outcome_wait),
    }
    defaults = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    return {**defaults, **os.environ, **preset}


def become(kit: Path) -> None:
    """Replace this process by the kit's; files it writes are for its owner alone."""
    arguments = command(kit)
    os.umask(0o077)
    os.chdir(kit)
    os.execve(arguments[0], arguments, environment())
