"""A process that forks children which charge a ledger until they are killed, or refused.

Usage: charging.py FOLDER MU. Each line on standard input forks a child; the child prints its process id, and then the
name of every charge after the ledger took it. "done" follows when the child ended by itself.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from dpcape.core.errors import LedgerRefused
from dpcape.core.privacy.ledger import Charge
from dpcape.site.hash_chain import HashChain
from dpcape.site.ledger import SiteLedger


def say(text: str) -> None:
    os.write(1, text.encode() + b"\n")


def charge_until_stopped(folder: Path, mu: float, child: str) -> None:
    chain = HashChain(folder / "ledger.sqlite", folder / "ledger.head")
    ledger = SiteLedger(chain, data="cohort", study="a" * 64)
    number = 0
    while True:
        name = f"{child}-{number}"
        try:
            ledger.charge(Charge(allowance=name, mu=mu, gap=1e-7, tail=1e-13, n_releases=2))
            say(f"charged {name}")
            ledger.next_release(name, 0)
            say(f"released {name}")
        except LedgerRefused:
            say("done")
            return
        number += 1


def main() -> None:
    folder, mu = Path(sys.argv[1]), float(sys.argv[2])
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            say(f"pid {os.getpid()}")
            charge_until_stopped(folder, mu, line.strip())
            os._exit(0)
        if line.startswith("wait"):
            os.waitpid(child, 0)
            say("over")


main()
