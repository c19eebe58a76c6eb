"""Nothing is charged that cannot finish: sizes and memory are checked when planning, and again before the charge."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dpcape import PCA, Cape, Federation, Independent, Ledger, in_process, rows
from dpcape.cli import main
from dpcape.core import limits
from dpcape.core.errors import Failed, InvalidParameter
from dpcape.statistics.fourth_moments import fourth_moment
from dpcape.statistics.moments import second_moment

WIDE = 60_000


def wide_federation() -> Federation:
    held = {name: rows(np.zeros((2, WIDE), dtype=np.float32), bound=1.0) for name in "abc"}
    return Federation(in_process(held), protocol=Cape(n_colluding=1))


def test_pca_of_sixty_thousand_columns_is_refused_when_planned_and_when_fitted() -> None:
    federation = wide_federation()
    model = PCA(2, epsilon=1.0, delta=1e-5, center=False)
    for act in (federation.plan, lambda estimator: estimator.fit(federation)):
        with pytest.raises(InvalidParameter, match=r"at most 268,427,264 numbers.*got 1,800,030,001.*public basis"):
            act(model)


def test_the_command_refuses_to_plan_it(capsys: pytest.CaptureFixture[str]) -> None:
    sites = "--records 3000 --sites 3 --colluding 1 --protocol cape --epsilon 1 --delta 1e-5"
    words = f"plan --analysis pca --features {WIDE} {sites}".split()
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert "to fit into a message" in capsys.readouterr().err


def test_short_memory_is_refused_before_the_charge(monkeypatch: pytest.MonkeyPatch) -> None:
    ledgers = {name: Ledger() for name in "abc"}
    held = {name: rows(np.eye(200), bound=1.0) for name in "abc"}
    line = in_process(held, ledgers=ledgers)
    federation = Federation(line, protocol=Independent())
    monkeypatch.setattr(limits, "free_memory", lambda: limits._RESERVED_BYTES + 1000)
    with pytest.raises(Failed, match=r"the aggregator would need about .* Nothing was charged for it"):
        PCA(2, epsilon=1.0, delta=1e-5, center=False).fit(federation)
    monkeypatch.setattr("dpcape.federation.allowance.check_aggregator", lambda *_: None)
    with pytest.raises(Failed, match=r"a: The release .* the site would need about"):
        PCA(2, epsilon=1.0, delta=1e-5, center=False).fit(federation)
    assert all(not ledger.charges for ledger in ledgers.values())
    monkeypatch.undo()
    assert PCA(2, epsilon=1.0, delta=1e-5, center=False).fit(federation).guarantee_


def test_free_memory_is_what_the_system_and_the_control_group_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "_CGROUP", tmp_path)
    monkeypatch.setattr(limits, "_MEMINFO", tmp_path / "meminfo")
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:    2048 kB\n", encoding="ascii")
    assert limits.free_memory() == 2048 * 1024
    (tmp_path / "memory.max").write_text("1000000\n", encoding="ascii")
    (tmp_path / "memory.current").write_text("400000\n", encoding="ascii")
    (tmp_path / "memory.stat").write_text("anon 1\ninactive_file 50000\n", encoding="ascii")
    assert limits.free_memory() == 650_000
    (tmp_path / "memory.max").write_text("max\n", encoding="ascii")
    assert limits.free_memory() == 2048 * 1024
    (tmp_path / "meminfo").write_text("MemAvailable: many kB\n", encoding="ascii")
    assert limits.free_memory() is None


_MEASURE = """
import resource, sys
import numpy as np
from dpcape import PCA, Cape, Federation, in_process, rows
line = in_process({name: rows(np.full((20, 1200), 0.01), bound=1.0) for name in "abc"})
federation = Federation(line, protocol=Cape(n_colluding=1))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
PCA(2, epsilon=1.0, delta=1e-5).fit(federation)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


def test_a_fit_needs_no_more_memory_than_is_asked_for() -> None:
    """Sites and aggregator in one process, so both needs together bound what is used; 16 MB for what is imported."""
    used = int(subprocess.run([sys.executable, "-W", "ignore", "-c", _MEASURE], capture_output=True, check=True).stdout)
    size = 1200 * 1201 // 2
    asked = 8 * size * (limits._AGGREGATOR_VECTORS + limits._VECTORS_PER_SITE * 3 + limits._SITE_VECTORS)
    assert used <= asked + 16 * 2**20


def test_a_statistic_of_usual_size_passes() -> None:
    federation = Federation(in_process({"a": rows(np.eye(3), bound=1.0)}), protocol=Independent())
    assert federation.allow(1.0, 1e-5).plan(second_moment(federation.facts)).mus["a"] > 0


@pytest.mark.parametrize("clip", [1e-77, 1e-55, 1e55, 1e76])
def test_totals_that_lose_digits_or_overflow_are_refused_before_any_charge(clip: float) -> None:
    """The bound of their rounding would be false, or a site would refuse because of what its records are."""
    ledger = Ledger()
    line = in_process({"a": rows(np.eye(3), bound=1.0)}, ledgers={"a": ledger})
    federation = Federation(line, protocol=Independent())
    with pytest.raises(InvalidParameter, match="diameter of the release 'fourth_moment'"):
        federation.allow(1.0, 1e-5).mean(fourth_moment(federation.facts, np.eye(3, 2), clip=clip))
    assert not ledger.charges
