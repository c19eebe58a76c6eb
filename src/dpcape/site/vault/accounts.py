"""Which accounts vault and engine run under. The engine never runs as root."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpcape.core.errors import Failed, InvalidParameter

ENGINE_ACCOUNTS = ("dpcape-engine", "nobody")


@dataclass(frozen=True)
class Account:
    """A user and its main group, by number."""

    uid: int
    gid: int

    @classmethod
    def current(cls) -> Account:
        """Return the account of this process."""
        return cls(os.geteuid(), os.getegid())

    @classmethod
    def named(cls, name: str) -> Account:
        """Return the account of a name or number."""
        import pwd  # not on Windows

        try:
            entry = pwd.getpwuid(int(name)) if name.isdigit() else pwd.getpwnam(name)
        except KeyError:
            if name.isdigit():
                return cls(int(name), int(name))
            raise InvalidParameter("An account", "exist on this machine", repr(name), "Make it first.") from None
        return cls(entry.pw_uid, entry.pw_gid)

    def options(self) -> dict[str, Any]:
        """Return what starts a process under this account; nothing if it is the present one."""
        if self == Account.current():
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}


@dataclass(frozen=True)
class Accounts:
    """The accounts of one site."""

    vault: Account
    engine: Account

    @property
    def are_separate(self) -> bool:
        """Whether vault and engine run under different accounts."""
        return self.vault.uid != self.engine.uid


def accounts_for(folder: Path, *, vault: str | None, engine: str | None) -> Accounts:
    """Return the accounts to use.

    An ordinary user runs both under its own account. Root runs the vault as the owner of the site folder, and the
    engine as ``dpcape-engine`` if there is such an account, else as ``nobody``; both can be named.
    """
    current = Account.current()
    if current.uid != 0:
        if vault is not None or engine is not None:
            raise Failed("Accounts can be named by root alone", remedy="Leave the two options out, or start as root.")
        return Accounts(current, current)
    owner = folder.stat()
    vault_account = Account(owner.st_uid, owner.st_gid) if vault is None else Account.named(vault)
    engine_account = _first_known() if engine is None else Account.named(engine)
    if engine_account.uid == 0:
        remedy = "Name an ordinary account with --engine-user."
        raise InvalidParameter("The engine's account", "not be root", remedy=remedy)
    return Accounts(vault_account, engine_account)


def _first_known() -> Account:
    import pwd  # not on Windows

    for name in ENGINE_ACCOUNTS:
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return Account(entry.pw_uid, entry.pw_gid)
    remedy = "Make an account 'dpcape-engine', or name one with --engine-user."
    raise InvalidParameter("The engine", "not run as root, and there is no account for it", remedy=remedy)
