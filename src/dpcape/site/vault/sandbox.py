"""What a process gives up before it runs code that is not trusted: files, network, capabilities, resources.

Used for the engine, for the vault itself, and for any child that needs neither network nor files. Everything here is
irrevocable for the calling process and inherited by all it starts; call it while the process has one thread.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dpcape.site.vault.landlock import Rules, restrict
from dpcape.site.vault.seccomp import Filter, install, no_new_privileges

_PR_SET_DUMPABLE, _PR_CAPBSET_DROP, _PR_CAP_AMBIENT, _AMBIENT_CLEAR = 4, 24, 47, 4
_CAPABILITY_VERSION = 0x20080522
_N_CAPABILITIES = 64

# Environment variables that are passed on, by name; everything else is left behind.
KEPT_VARIABLES = ("LANG", "LC_ALL", "TZ", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")

_SYSTEM_FILES = (
    "/etc/ld.so.cache",
    "/etc/hosts",
    "/etc/resolv.conf",
    "/etc/nsswitch.conf",
    "/etc/host.conf",
    "/etc/gai.conf",
    "/etc/localtime",
    "/etc/ssl/openssl.cnf",
    "/usr/lib/ssl/openssl.cnf",
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/usr/share/zoneinfo",
    "/dev/urandom",
    "/dev/random",
    "/dev/zero",
)
_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib")
_LOADERS = ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1")


@dataclass(frozen=True)
class Sandbox:
    """What a process keeps.

    Attributes
    ----------
    rules : Rules
        Files and TCP ports (Landlock).
    filter : Filter
        System calls (seccomp).
    limits : mapping
        Resource limits by name, for instance ``{"NOFILE": 1024}``.
    expendable : bool
        Whether the kernel ends this process first when memory runs out.
    most_abi : int or None
        Highest version of Landlock to use, for tests.
    with_seccomp : bool
        False for tests alone: shows what the filter is for.
    """

    rules: Rules = field(default_factory=Rules)
    filter: Filter = field(default_factory=Filter)
    limits: Mapping[str, int] = field(default_factory=dict)
    expendable: bool = True
    most_abi: int | None = None
    with_seccomp: bool = True


@dataclass(frozen=True)
class Confinement:
    """What was really put in force: version of Landlock (0: none), and whether the filter of system calls is."""

    abi: int
    seccomp: bool


def confine(sandbox: Sandbox) -> Confinement:
    """Confine this process and all it will start."""
    with contextlib.suppress(PermissionError):
        # Already the leader of its session, without a terminal.
        os.setsid()
    for name, value in {"CORE": 0, **sandbox.limits}.items():
        limit(name, value)
    if sandbox.expendable:
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    drop_capabilities()
    no_new_privileges()
    version = restrict(sandbox.rules, at_most=sandbox.most_abi)
    return Confinement(version, sandbox.with_seccomp and install(sandbox.filter))


def drop_capabilities() -> None:
    """Give up every capability; a refusal is accepted if none was held."""
    libc = ctypes.CDLL(None, use_errno=True)
    for number in range(_N_CAPABILITIES):
        libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0)
    libc.prctl(_PR_CAP_AMBIENT, _AMBIENT_CLEAR, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    none = (ctypes.c_uint32 * 6)()
    libc.capset(ctypes.byref(header), ctypes.byref(none))
    permitted = next(
        line for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines() if line.startswith("CapPrm")
    )
    if int(permitted.split()[1], 16):
        raise PermissionError("capabilities could not be dropped")


def hide_memory() -> None:
    """Keep other processes of the account from reading this one's memory, and the kernel from writing it to disk."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    limit("CORE", 0)


def limit(name: str, value: int) -> None:
    """Lower a limit of this process and all it starts, by the kernel's name for it; it cannot be raised again."""
    import resource  # not on Windows

    kind = getattr(resource, f"RLIMIT_{name}")
    _, hard = resource.getrlimit(kind)
    least = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (least, least))


def python_read_paths() -> tuple[Path, ...]:
    """Return the paths that the running Python reads to import its own packages, and no others."""
    base = Path(sys.base_prefix)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    # The distribution's Python has all of /usr as its prefix.
    prefixes = [base / "lib" / version, base / "lib"] if base == Path("/usr") else [base]
    if sys.prefix != sys.base_prefix:
        prefixes.append(Path(sys.prefix))
    entries = [Path(entry) for entry in sys.path if entry and Path(entry).is_dir()]
    return tuple(dict.fromkeys(path.resolve() for path in [*prefixes, *entries]))


def system_read_paths() -> tuple[Path, ...]:
    """Return the files of the system that Python, TLS and name look-ups read."""
    return tuple(Path(name) for name in (*_LIBRARIES, *_SYSTEM_FILES))


def interpreter_paths() -> tuple[Path, ...]:
    """Return what must be executable to start this Python again: the interpreter and the loader, no shell."""
    return (Path(sys.executable).resolve(), *(Path(name) for name in _LOADERS))


def clean_environment(**more: str) -> dict[str, str]:
    """Return an environment that contains only known variables."""
    passed_on = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    defaults = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    return {**defaults, **passed_on, "PYTHONDONTWRITEBYTECODE": "1", **more}
