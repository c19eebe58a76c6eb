"""One child: drops its remaining privileges, loads one package, answers one task, and exits silently.

Before the first line of foreign code runs, it can make no system call but those that arithmetic needs: it can start no
process, send no signal, make no socket, pass or change no descriptor, and open or look at no file. What that code
learns from a block cannot be left anywhere for the child that comes next. It has one socket, on which it receives one
task and answers once.
"""

from __future__ import annotations

import ctypes
import os
import signal
from functools import partial
from importlib import import_module
from typing import NoReturn

import msgspec
import numpy as np

from dpcape.analyses.description import Analysis
from dpcape.analyses.enclosed import plain_about, plain_outline
from dpcape.analyses.registry import own_analyses
from dpcape.core.enclosed import Enclosed
from dpcape.core.errors import InvalidParameter
from dpcape.core.messages import Array, decode_public
from dpcape.core.statistic import build
from dpcape.site.foreign.sources import DeclaredCode, Sources, install_finder
from dpcape.site.foreign.tasks import (
    MAX_TASK_BYTES,
    ContributeTask,
    DescribeTask,
    NoAnswer,
    OutlineTask,
    ProbeTask,
    Task,
    read_written,
    write_all,
    written,
)
from dpcape.site.vault.sandbox import limit
from dpcape.site.vault.seccomp import Filter, install
from dpcape.site.vault.self_test import succeeded
from dpcape.site.vault.syscalls import ARITHMETIC

_PR_SET_PDEATHSIG = 1
CHILD_FILTER = Filter(network=False, pairs=False, allowed=ARITHMETIC)
MEMORY_BYTES, CPU_SECONDS = 2**31, 120
_LIMITS = {"CPU": CPU_SECONDS, "FSIZE": 0, "NOFILE": 64, "CORE": 0, "MEMLOCK": 0, "MSGQUEUE": 0}


def run(connection: int, sources: Sources, held_bytes: int) -> NoReturn:
    """Answer one task on its own socket, then exit. ``held_bytes`` is the address space that libraries already use."""
    try:
        _give_up(held_bytes)
        install_finder(sources)
        read = partial(os.read, connection)
        task: Task = msgspec.msgpack.decode(read_written(read, MAX_TASK_BYTES), type=Task)
        if isinstance(task, ContributeTask):
            _contribute(connection, task, sources)
        elif isinstance(task, ProbeTask):
            write_all(connection, written(msgspec.msgpack.encode(succeeded(task.probes))))
        else:
            write_all(connection, written(_plain(task, sources)))
    except BaseException:  # whatever it is, its text must not leave the child
        os._exit(1)
    os._exit(0)


def _give_up(held_bytes: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    for name, value in {**_LIMITS, "AS": held_bytes + MEMORY_BYTES}.items():
        limit(name, value)
    if not install(CHILD_FILTER):
        os._exit(1)


def _plain(task: DescribeTask | OutlineTask, sources: Sources) -> bytes:
    """Return what an analysis says of itself, or that it refuses."""
    try:
        analysis = _analysis(task.package, task.analysis, sources)
        if isinstance(task, DescribeTask):
            return msgspec.msgpack.encode(plain_about(analysis))
        return msgspec.msgpack.encode(plain_outline(analysis, task.numbers))
    except Exception:  # its text is the package's, and stays here
        return msgspec.msgpack.encode(NoAnswer())


def _analysis(package: str, name: str, sources: Sources) -> Analysis:
    """Return an analysis of a package, or one of dpcape's own with the package's code loaded."""
    declared = sources.analysis(package, name)
    if declared is None:
        _load_all(package, sources)
        return own_analyses()[name]
    analysis = _loaded(declared)
    if not isinstance(analysis, Analysis):
        raise InvalidParameter(repr(declared.name), "be an Analysis", type(analysis).__name__)
    return analysis


def _load_all(package: str, sources: Sources) -> None:
    """Load what a package declares, which registers its statistics, losses and feature maps."""
    for declared in sources.of(package):
        _loaded(declared)


def _loaded(declared: DeclaredCode) -> object:
    value: object = import_module(declared.module)
    for name in declared.attribute.split("."):
        value = getattr(value, name)
    return value


def _contribute(connection: int, task: ContributeTask, sources: Sources) -> None:
    statistic = build(task.way, task.facts, decode_public(task.public))
    assert isinstance(statistic, Enclosed)
    _load_all(task.package, sources)
    code = build(statistic.inner, task.facts.shape_facts(), statistic.inner_public)
    block = msgspec.msgpack.decode(read_written(partial(os.read, connection), MAX_TASK_BYTES), type=list[Array])
    records = tuple(entry.decode().copy() for entry in block)
    answers = np.ascontiguousarray(statistic.computed_by(code, task.facts, records), dtype=np.float64)
    write_all(connection, answers.tobytes())
