"""What code inside a captured engine tries: run by a job that brings code, as only a rogue root of trust can."""

import json
import os
import socket
from pathlib import Path

from nvflare.apis.fl_component import FLComponent

from dpcape.site.vault.client import VaultClient
from dpcape.site.vault.self_test import Probes, succeeded


def _reads(path):
    with open(path, "rb") as file:
        file.read(1)


def _asks_the_vault():
    assert VaultClient.inherited().ask(b"\x00\x00\x00\x01x" + bytes(64))


class Battery(FLComponent):
    """Tries everything when the job starts, and leaves the list of what succeeded in the work folder."""

    def __init__(self, probes, others, supervisor):
        super().__init__()
        done = succeeded(Probes(**probes))
        attempts = {
            "ask the vault": _asks_the_vault,
            "read its own TLS key": lambda: _reads(Path.cwd() / "startup" / "client.key"),
            "read the list of accounts": lambda: _reads("/etc/passwd"),
            "list the temporary folder": lambda: os.listdir("/tmp"),
            "look at the supervisor": lambda: _reads(f"/proc/{supervisor}/status"),
            "signal the supervisor": lambda: os.kill(supervisor, 0),
            "become root": lambda: os.setuid(0),
            "make a namespace": lambda: (_ for _ in ()).throw(OSError()) if _unshare() else None,
            "use an abstract socket": lambda: socket.socket(socket.AF_UNIX).connect("\0dpcape-hostile"),
            **{f"read {path}": (lambda path=path: _reads(path)) for path in others},
        }
        for name, attempt in attempts.items():
            try:
                attempt()
            except Exception:
                continue
            done.append(name)
        draft = Path.cwd() / "battery.new"
        draft.write_text(json.dumps({"succeeded": sorted(done), "uid": os.getuid()}))
        draft.rename(Path.cwd() / "battery.json")


def _unshare():
    import ctypes

    return ctypes.CDLL(None).unshare(0x10000000)
