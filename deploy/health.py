#!/usr/bin/env python3
"""Tell whether what a container serves is alive: exit code 0 or 1, and one line. Opens neither ledger nor data.

``dpcape-health`` looks at the processes: a site has a vault and an engine, a coordinator has FLARE's server.
``dpcape-health --port 8002`` asks in addition whether the server accepts connections on this machine.
"""

from __future__ import annotations

import argparse
import socket
import sys
from pathlib import Path

PARTS = {
    "site": {"vault": "dpcape.site.vault.server", "engine": "dpcape.engines.flare.site_client"},
    "coordinator": {"server": "nvflare.private.fed.app.server.server_train"},
}


def commands(proc: Path = Path("/proc")) -> list[str]:
    """Return the command lines of all processes that can be seen."""
    found = []
    for path in proc.glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
        except OSError:
            continue  # it ended meanwhile
    return found


def missing(running: list[str]) -> list[str]:
    """Return the parts that should run here and do not."""
    serves_site = any(" site serve" in command for command in running)
    parts = PARTS["site" if serves_site else "coordinator"]
    return [part for part, module in parts.items() if not any(module in command for command in running)]


def accepts(port: int) -> bool:
    """Return whether something listens on a port of this machine."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=3):
            return True
    except OSError:
        return False


def main() -> int:
    """Look, say one line, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, help="port on which the server must accept connections")
    port = parser.parse_args().port
    lost = missing(commands())
    if port is not None and not accepts(port):
        lost.append(f"port {port}")
    print(f"not running: {', '.join(lost)}" if lost else "running")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
