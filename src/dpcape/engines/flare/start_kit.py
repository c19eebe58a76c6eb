"""Starting the server's kit: FLARE's own start script in the foreground, under dpcape's preset."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from dpcape.core.errors import InvalidParameter
from dpcape.transport.timing import PRESET


def command(kit: Path) -> list[str]:
    """Return the command that runs a kit in the foreground; it replaces itself with the process it starts."""
    script = kit.resolve() / "startup" / "sub_start.sh"
    if not script.is_file():
        remedy = "Use a kit made by: dpcape federation init."
        raise InvalidParameter("A kit", "hold startup/sub_start.sh", repr(str(kit)), remedy)
    return [str(script), "--once"]


def environment() -> dict[str, str]:
    """Return the environment of a kit's processes: this Python, one BLAS thread, short time-outs for lost peers."""
    python_folder = str(Path(sys.executable).parent)
    preset = {
        "PATH": os.pathsep.join([python_folder, os.environ.get("PATH", os.defpath)]),
        "NVFLARE_CLIENT_OUTCOME_WAIT_TIMEOUT": str(PRESET.outcome_wait),
        # Compiled modules that only their owner can read would be compiled again at every start by other accounts.
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    defaults = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    return {**defaults, **os.environ, **preset}


def become(kit: Path) -> None:
    """Replace this process by the kit's; files it writes are readable only by their owner."""
    arguments = command(kit)
    os.umask(0o077)
    os.chdir(kit)
    os.execve(arguments[0], arguments, environment())
