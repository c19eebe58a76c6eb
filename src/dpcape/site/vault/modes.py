"""How well a site's records are separated from the engine, and the line that says so wherever a result is shown."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path

from dpcape.core.errors import InvalidParameter
from dpcape.guarantee.separation import LINES
from dpcape.site.vault.accounts import accounts_for
from dpcape.site.vault.landlock import abi as landlock_abi
from dpcape.site.vault.seccomp import ARCHITECTURES


@dataclass(frozen=True)
class Mode:
    """One degree of separation.

    Attributes
    ----------
    name : str
        Name of the mode in messages.
    line : str
        What is printed: what holds, and what it rests on.
    reached : frozenset of str
        Probes of the self-test that succeed inside the sandbox in this mode; every other must fail.
    """

    name: str
    line: str
    reached: frozenset[str] = frozenset()


_SIGNAL, _CONNECT, _PAGE = "signal the vault", "connect elsewhere", "reach the steward's page"

ACCOUNT = Mode("account", LINES["account"])
CONFINED = Mode("confined", LINES["confined"])
SIGNALS = Mode("signals", LINES["signals"], frozenset({_SIGNAL}))
PORTS = Mode("ports", LINES["ports"], frozenset({_SIGNAL, _CONNECT, _PAGE}))
NONE = Mode("none", LINES["none"])

MODES = {mode.name: mode for mode in (ACCOUNT, CONFINED, SIGNALS, PORTS, NONE)}


def mode_of(*, abi: int, seccomp: bool, separate_account: bool) -> Mode:
    """Return the mode that a machine allows.

    Parameters
    ----------
    abi : int
        Version of Landlock that is in force; 0 for none.
    seccomp : bool
        Whether the filter of system calls is in force.
    separate_account : bool
        Whether vault and engine run under different accounts. Below version 4 the engine can still connect to any
        port, so the weaker mode is named.
    """
    if abi < 1 or not seccomp:
        return NONE
    if separate_account and abi >= 4:
        return ACCOUNT
    if abi >= 6:
        return CONFINED
    return SIGNALS if abi >= 4 else PORTS


def mode_here(folder: Path) -> Mode:
    """Return the mode in which a site folder would be served on this machine by this account."""
    if platform.system() != "Linux":
        return NONE
    try:
        is_separate = accounts_for(folder, vault=None, engine=None).are_separate
    except InvalidParameter:
        # There is no account for the engine; `site serve` reports it.
        is_separate = False
    has_seccomp = platform.machine() in ARCHITECTURES
    return mode_of(abi=landlock_abi(), seccomp=has_seccomp, separate_account=is_separate)
