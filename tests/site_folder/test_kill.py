"""Killed at any instant, a ledger loses no charge it has acknowledged; together processes never pass a ceiling."""

from __future__ import annotations

import os
import random
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpcape.core.errors import LedgerRefused
from dpcape.core.privacy.ledger import Ledger
from dpcape.site.hash_chain import HashChain
from dpcape.site.ledger import State

from .ledgers import approve, ceiling, charge, new_chain, opened

SCRIPT = Path(__file__).with_name("charging.py")
SECONDS = 60.0


class Forker:
    """A process that forks charging children on demand."""

    def __init__(self, folder: Path, mu: float) -> None:
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, str(SCRIPT), str(folder), repr(mu)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        self._text = b""

    def send(self, line: str) -> None:
        self._input.write(line.encode() + b"\n")
        self._input.flush()

    def line(self) -> str:
        while b"\n" not in self._text:
            ready, _, _ = select.select([self._output], [], [], SECONDS)
            assert ready, "the charging process must answer"
            data = os.read(self._output.fileno(), 65536)
            assert data, "the charging process must not end"
            self._text += data
        line, _, self._text = self._text.partition(b"\n")
        return line.decode()

    def until(self, last: str) -> list[str]:
        lines = [self.line()]
        while lines[-1] != last:
            lines.append(self.line())
        return lines

    def close(self) -> None:
        self._input.close()
        self._output.close()
        self._process.wait(SECONDS)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    chain = new_chain(tmp_path)
    ceiling(chain, 1e6, 1e-5)
    approve(chain)
    chain.close()
    return tmp_path


def killed_charges(folder: Path, n_kills: int, seed: int) -> tuple[list[str], list[str]]:
    """Kill ``n_kills`` charging processes at random instants; return the charges and releases they acknowledged."""
    rng = random.Random(seed)
    charged: list[str] = []
    released: list[str] = []
    forker = Forker(folder, 1e-3)
    try:
        for child in range(n_kills):
            forker.send(f"wait-{child}")
            pid = int(forker.line().split()[1])
            # A few acknowledgements first, whatever the machine's speed, then an instant within the next operation.
            lines = [forker.line() for _ in range(rng.randrange(5))]
            time.sleep(rng.uniform(0.0, 0.015))
            os.kill(pid, signal.SIGKILL)
            words = [line.split() for line in (*lines, *forker.until("over")[:-1])]
            charged += [word[1] for word in words if word[0] == "charged"]
            released += [word[1] for word in words if word[0] == "released"]
            check_nothing_lost(folder, charged, released, child + 1)
    finally:
        forker.close()
    return charged, released


def check_nothing_lost(folder: Path, charged: list[str], released: list[str], n_kills: int) -> None:
    chain = opened(folder)
    chain.verify()
    state = State.of(chain.entries())
    chain.close()
    kept = [entry.charge.allowance for entry in state.charges]
    assert set(charged) <= set(kept)
    # At most one charge per killed process was written and not acknowledged.
    assert len(kept) <= len(charged) + n_kills
    assert all(state.releases[name] == 1 for name in released)


def test_no_acknowledged_charge_is_lost_by_killing(folder: Path) -> None:
    charged, released = killed_charges(folder, n_kills=40, seed=1)
    assert len(charged) > 20
    assert len(released) > 10


@pytest.mark.slow
def test_no_acknowledged_charge_is_lost_by_killing_often(folder: Path) -> None:
    charged, _ = killed_charges(folder, n_kills=600, seed=2)
    assert len(charged) > 300


def test_a_process_killed_in_the_lock_lets_go(folder: Path) -> None:
    """The next process goes on at once; nothing must be cleaned up by hand."""
    killed_charges(folder, n_kills=3, seed=3)
    chain = opened(folder)
    before = time.monotonic()
    chain.append("note", {}, check=lambda entries: None)
    assert time.monotonic() - before < 5.0


def test_concurrent_processes_take_exactly_what_one_would(tmp_path: Path) -> None:
    chain = new_chain(tmp_path)
    ceiling(chain, 0.5, 1e-5)
    approve(chain)
    chain.close()
    forker = Forker(tmp_path, 0.03)
    try:
        for child in range(3):
            forker.send(f"go-{child}")
        lines: list[str] = []
        while lines.count("done") < 3:
            lines.append(forker.line())
    finally:
        forker.close()
    n_taken = sum(line.startswith("charged") for line in lines)
    assert n_taken == _alone() > 10
    assert len({line.split("-")[1] for line in lines if line.startswith("charged go")}) > 1
    assert len(State.of(HashChain(tmp_path / "ledger.sqlite", tmp_path / "ledger.head").entries()).charges) == n_taken


def _alone() -> int:
    book = Ledger(epsilon=0.5, delta=1e-5)
    for number in _naturals():
        try:
            book.charge(charge(str(number), 0.03))
        except LedgerRefused:
            return number
    raise AssertionError


def _naturals() -> Iterator[int]:
    number = 0
    while True:
        yield number
        number += 1
