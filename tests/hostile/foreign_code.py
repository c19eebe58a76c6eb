"""A package that registers an analysis and many statistics, most of them hostile, installed in a folder of its own."""

from __future__ import annotations

from pathlib import Path

PACKAGE = "foreign-code"
ANALYSIS = "tanh_means"
SOURCE = '''
import builtins
import ctypes
import math
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from typing import ClassVar

import numpy as np

from dpcape.analyses.description import Analysis
from dpcape.analyses.parameters import WHOLE, Parameter
from dpcape.analyses.release import Release
from dpcape.statistics import Extent, Statistic, known
from dpcape.core.extent import rounding_in_blocks
from .more import scaled

try:
    from dpcape.estimators.estimator import FederatedEstimator
except ImportError:
    FederatedEstimator = object

HOARD = []


class Foreign(Statistic):
    kinds: ClassVar = frozenset({"rows", "labelled"})
    units: ClassVar = frozenset({"record"})

    @staticmethod
    def extent(*, n_features):
        length = math.sqrt(n_features)
        return Extent(n_features, 2 * length, length, rounding_in_blocks(n_features, length))

    @property
    def numbers(self):
        return {"n_features": self.facts.n_features}

    def total(self, records):
        rows = np.vstack([np.array(block) for block in records.feature_blocks(5)])
        return self.of(rows)

    def vector(self, value):
        return np.full(self.size, float(value))


@known
class Tanh(Foreign):
    name = "f_tanh"

    def __init__(self, facts, *, shift=0.0, offsets=None):
        super().__init__(facts, shift=shift, offsets=np.zeros(facts.n_features) if offsets is None else offsets)

    def of(self, rows):
        return np.tanh(scaled(rows) + self.public["shift"] + self.public["offsets"]).sum(axis=0)


@known
class RecordZero(Foreign):
    """Record 0 of a block as everybody's contribution, and larger."""

    name = "f_record_zero"

    def of(self, rows):
        return 1e6 * len(rows) * rows[0]


@known
class Hoarder(Foreign):
    """Keeps what it saw wherever it can."""

    name = "f_hoarder"

    def of(self, rows):
        places = builtins.__dict__.setdefault("hoard", []), sys.modules["numpy"].__dict__.setdefault("h", [])
        for place in (HOARD, *places):
            place.append(rows)
        n_seen = max(len(HOARD), len(builtins.hoard), len(np.h), int(os.environ.get("HOARD", "0")) + 1)
        os.environ["HOARD"] = str(n_seen)
        return len(rows) * self.vector(n_seen)


def attempts():
    def shared():
        libc = ctypes.CDLL(None, use_errno=True)
        for number in (29, 68, 240, 319):
            if libc.syscall(number, 4242, 64, 0o1666) >= 0:
                return
        raise OSError

    def passed():
        for number in range(3, 20):
            try:
                line = socket.socket(fileno=os.dup(number))
            except OSError:
                continue
            socket.send_fds(line, [b"x"], [0])
            return
        raise OSError

    def limited():
        resource.setrlimit(resource.RLIMIT_AS, (2**40, 2**40))

    return {
        "fork": lambda: os.fork() or os._exit(0),
        "thread": lambda: __import__("_thread").start_new_thread(int, ()),
        "exec": lambda: subprocess.run(["/bin/sh", "-c", "exit 0"], check=True),
        "signal the parent": lambda: os.kill(os.getppid(), 0),
        "signal anybody": lambda: os.kill(1, 0),
        "make a socket": lambda: socket.socket(),
        "make a Unix socket": lambda: socket.socket(socket.AF_UNIX),
        "make a pair": lambda: socket.socketpair(),
        "read a file": lambda: open("/etc/hostname").read(),
        "read Python's own file": lambda: open(os.__file__).read(),
        "look at a file": lambda: os.stat(os.__file__),
        "list a folder": lambda: os.listdir("/"),
        "write a file": lambda: open("/tmp/foreign-code", "w"),
        "read /proc": lambda: open("/proc/self/status").read(),
        "share memory": shared,
        "pass a descriptor": passed,
        "raise a limit": limited,
        "change a time": lambda: os.utime("/tmp") if os.stat("/tmp") else None,
    }


@known
class Escaper(Foreign):
    """Counts what it can still do; each bit of the answer is an attempt that succeeded."""

    name = "f_escaper"

    def of(self, rows):
        reached = 0
        for bit, attempt in enumerate(attempts().values()):
            try:
                attempt()
            except BaseException:
                continue
            reached += 2**bit
        return len(rows) * self.vector(reached / 2**20)


def marks():
    # Descriptors that children inherit are one open file: its flags, owner, signal and hint outlive a child.
    import fcntl

    def flags(number):
        found = fcntl.fcntl(number, fcntl.F_GETFL)
        fcntl.fcntl(number, fcntl.F_SETFL, found | os.O_NONBLOCK)
        return bool(found & os.O_NONBLOCK)

    def owner(number):
        found = fcntl.fcntl(number, fcntl.F_GETOWN)
        fcntl.fcntl(number, fcntl.F_SETOWN, os.getpid())
        return bool(found)

    def signals(number):
        found = fcntl.fcntl(number, 11)
        fcntl.fcntl(number, 10, signal.SIGUSR1)
        return bool(found)

    def hint(number):
        place = ctypes.c_uint64(0)
        libc = ctypes.CDLL(None, use_errno=True)
        libc.fcntl(number, 1035, ctypes.byref(place))
        found, place.value = place.value, 3
        libc.fcntl(number, 1036, ctypes.byref(place))
        return found == 3

    def limit(number):
        found = resource.prlimit(os.getppid(), resource.RLIMIT_SIGPENDING)
        resource.prlimit(os.getppid(), resource.RLIMIT_SIGPENDING, (found[0] - 1, found[1]))
        return found[0] != found[1]

    return [(attempt, number) for attempt in (flags, owner, signals, hint, limit) for number in range(3)]


@known
class Marker(Foreign):
    """Leaves marks on what children have in common, and counts those it finds."""

    name = "f_marker"

    def of(self, rows):
        found = 0
        for attempt, number in marks():
            try:
                found += attempt(number)
            except Exception:
                continue
        return len(rows) * self.vector(found)


@known
class Talker(Foreign):
    name = "f_talker"

    def of(self, rows):
        print("RECORDS", rows)
        print("RECORDS", rows, file=sys.stderr)
        os.write(2, b"RECORDS")
        raise ValueError(f"RECORDS {rows}")


@known
class Looper(Foreign):
    """Endless for some records alone, deaf to signals."""

    name = "f_looper"

    def of(self, rows):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while rows[0, 0] > 0:
            pass
        return rows.sum(axis=0)


@known
class Glutton(Foreign):
    name = "f_glutton"

    def of(self, rows):
        held = []
        while True:
            held.append(np.ones(2**24))


@known
class Crasher(Foreign):
    name = "f_crasher"

    def of(self, rows):
        ctypes.string_at(0)


@known
class Leaver(Foreign):
    name = "f_leaver"

    def of(self, rows):
        os._exit(0)


@known
class Shapeless(Foreign):
    name = "f_shapeless"

    def of(self, rows):
        return np.zeros(1000)


@known
class NotFinite(Foreign):
    name = "f_not_finite"

    def of(self, rows):
        return self.vector(np.nan)


@known
class Forger(Foreign):
    """Answers by itself, with the largest numbers there are, and goes on sending."""

    name = "f_forger"

    def of(self, rows):
        for number in range(3, 20):
            try:
                os.write(number, np.full(1000, 1e308).tobytes())
            except OSError:
                continue
        time.sleep(0.01)
        return self.vector(0)


def _schedule(p):
    scale = yield Release("f_tanh", {"n_features": p.n_features}, share=0.5, feeds=True)
    assert scale > 0
    yield Release("first_moments", {"n_features": p.n_features, "bound": p.bound}, share=0.5)


ANALYSIS = Analysis(
    "tanh_means", "foreign_code:TanhMeans", "Others", frozenset({"rows"}), "rows",
    (Parameter("shift", WHOLE, default=0, least=0, most=9),), _schedule, law="says so itself",
)


class TanhMeans(FederatedEstimator):
    analysis = ANALYSIS
    _fitted: ClassVar = ("mean_", "plain_")

    def __init__(self, shift=0, *, epsilon=1.0, delta=1e-6):
        self.shift, self.epsilon, self.delta = shift, epsilon, delta

    def _fit(self, federation, private):
        from dpcape.statistics import first_moments

        offsets = 0.1 * np.arange(federation.n_features)
        self.mean_ = private.mean(Tanh(federation.facts, shift=float(self.shift), offsets=offsets))
        self.plain_ = private.mean(first_moments(federation.facts))[0]
'''


def install(folder: Path) -> Path:
    """Write the package as an installer would; return the folder to put on the path."""
    place = folder / "installed"
    (place / "foreign_code").mkdir(parents=True)
    (place / "foreign_code" / "__init__.py").write_text(SOURCE)
    (place / "foreign_code" / "more.py").write_text("def scaled(rows):\n    return 2 * rows\n")
    about = place / "foreign_code-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: 1\n")
    (about / "entry_points.txt").write_text(f"[dpcape.analyses]\n{ANALYSIS} = foreign_code:ANALYSIS\n")
    return place
