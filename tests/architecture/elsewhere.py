"""Make this process look like Windows to dpcape: what only POSIX or Linux has is gone. For a process of its own.

Other libraries are loaded first: they have code of their own for each system.
"""

from __future__ import annotations

import ast
import os
import platform
import signal
import socket
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

MODULES = ("crypt", "fcntl", "grp", "nis", "posix", "pty", "pwd", "resource", "spwd", "syslog", "termios", "tty")
LINUX_ONLY = ("landlock_", "memfd_", "pidfd_", "posix_", "sched_", "set", "wait")
FUNCTIONS = (
    "chown", "fchown", "fdatasync", "fork", "forkpty", "geteuid", "getegid", "getgid", "getgroups", "getuid",
    "killpg", "lchown", "mkfifo", "nice", "openpty", "pread", "preadv", "pwrite", "pwritev", "sysconf", "uname",
)  # fmt: skip
# The library that locks files needs O_NONBLOCK and fchmod on the system that really runs here.
FLAGS = ("O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "O_PATH")
SIGNALS = ("SIGALRM", "SIGCHLD", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGUSR1", "SIGUSR2")


def load_other_libraries(package: Path) -> None:
    """Import everything that dpcape's sources import from elsewhere, where it is installed."""
    found = {name for path in package.rglob("*.py") for name in _imports(path)}
    for name in sorted(found):
        if name.split(".")[0] not in {"dpcape", "nvflare", "torch", *MODULES} and find_spec(name.split(".")[0]):
            import_module(name)


def _imports(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    plain = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    taken = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    return plain | taken


def leave_linux() -> None:
    """Take away modules, functions, flags and signals that Windows does not have."""
    for name in MODULES:
        sys.modules[name] = None  # type: ignore[assignment]  # refuses the import
    for owner, names in ((os, (*FUNCTIONS, *FLAGS)), (signal, SIGNALS), (socket, ("AF_UNIX",))):
        for name in names:
            delattr(owner, name)
    for name in [name for name in vars(os) if name.startswith(LINUX_ONLY) and callable(getattr(os, name))]:
        delattr(os, name)
    opened = os.open

    def open_no_folder(path: str | Path, *others: int, **more: int) -> int:
        if os.path.isdir(path):
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *others, **more)

    os.open = open_no_folder  # type: ignore[assignment]  # as Windows does
    platform.system = lambda: "Windows"
