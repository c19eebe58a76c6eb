"""Nothing is charged that cannot finish: sizes and memory are checked when planning, and again before the charge."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from experiments.memory import campaign

from dpcape import PCA, Cape, Correlation, Federation, Independent, Ledger, in_process, rows
from dpcape.analyses.correlation import CORRELATION
from dpcape.analyses.footprint import footprint_of, site_footprint
from dpcape.analyses.registry import variants
from dpcape.cli import main
from dpcape.core import limits
from dpcape.core.errors import Failed, InvalidParameter, UtilityWarning
from dpcape.federation.kept_releases import KeptReleases
from dpcape.planning.consortium import Consortium
from dpcape.planning.outline import outline
from dpcape.planning.planned import public_of
from dpcape.site.approval import ApprovedStudy
from dpcape.statistics.fourth_moments import fourth_moment
from dpcape.statistics.moments import second_moment
from dpcape.study.study import Study
from dpcape.transport.transport import Passing

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
    with pytest.raises(Failed, match=r"sites and coordinator in one process would need about .* Nothing was charged\."):
        PCA(2, epsilon=1.0, delta=1e-5, center=False).fit(federation)
    monkeypatch.setattr(Federation, "require_memory", lambda *_, **__: None)
    with pytest.raises(Failed, match=r"a: The release .* the site would need about .* Nothing was charged\."):
        PCA(2, epsilon=1.0, delta=1e-5, center=False).fit(federation)
    assert all(not ledger.charges for ledger in ledgers.values())
    monkeypatch.undo()
    assert PCA(2, epsilon=1.0, delta=1e-5, center=False).fit(federation).guarantee_


def _write(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text, encoding="ascii")


def test_free_memory_is_what_the_system_and_the_control_group_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups, proc = tmp_path / "groups", tmp_path / "proc"
    monkeypatch.setattr(limits, "_CGROUP", groups)
    monkeypatch.setattr(limits, "_PROC", proc)
    _write(proc, meminfo="MemTotal: 9 kB\nMemAvailable:    2048 kB\n")
    assert limits.free_memory() == 2048 * 1024
    _write(proc / "self", cgroup="0::/\n")
    _write(groups, memory__max="1000000\n", memory__current="400000\n", memory__stat="anon 1\ninactive_file 50000\n")
    assert limits.free_memory() == 650_000
    _write(groups, memory__max="max\n")
    assert limits.free_memory() == 2048 * 1024
    _write(proc, meminfo="MemAvailable: many kB\n")
    assert limits.free_memory() is None


def test_every_control_group_around_the_process_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit of a service stands in its own group, which is not the root; a group around it may leave less."""
    groups, proc = tmp_path / "groups", tmp_path / "proc"
    monkeypatch.setattr(limits, "_CGROUP", groups)
    monkeypatch.setattr(limits, "_PROC", proc)
    _write(proc / "self", cgroup="0::/../system/dpcape/site\n")
    stat = "inactive_file 0\n"
    _write(groups / "system", memory__max="9000\n", memory__current="2000\n", memory__stat=stat)
    _write(groups / "system" / "dpcape", memory__max="8000\n", memory__current="500\n", memory__stat=stat)
    _write(groups / "system" / "dpcape" / "site", memory__max="max\n", memory__current="100\n", memory__stat=stat)
    assert limits.free_memory() == 7000
    _write(groups / "system" / "dpcape", memory__max="3000\n")
    assert limits.free_memory() == 2500
    # Version 1 has a file system for memory alone.
    _write(proc / "self", cgroup="5:cpu:/\n4:memory,hugetlb:/job\n0::/\n")
    numbers = {"memory__limit_in_bytes": "6000\n", "memory__usage_in_bytes": "5000\n"}
    _write(groups / "memory" / "job", **numbers, memory__stat="total_inactive_file 40\n")
    assert limits.free_memory() == 1040


_PROGRAM = """
import resource
import numpy as np
from dpcape import *
from dpcape.core.errors import Failed
ledgers = {{name: Ledger() for name in "abc"}}
def federation(records):
    return Federation(in_process(dict.fromkeys("abc", records), ledgers=ledgers), protocol=Cape(n_colluding=1))
budget = dict(epsilon=1.0, delta=1e-5)
made = federation({records})
resource.setrlimit(resource.{kind}, ({n_bytes}, {n_bytes}))
try:
    {model}.fit(made)
    print("finished")
except Failed as error:
    print(error)
except MemoryError:
    print("ran out of memory")
print("charged", sum(len(ledger.charges) for ledger in ledgers.values()))
"""


def under_limit(gigabytes: float, records: str, model: str, kind: str = "RLIMIT_AS") -> str:
    """Fit a model in a process with a limit of memory; return what it says, and how many sites were charged."""
    program = _PROGRAM.format(records=records, model=model, n_bytes=int(gigabytes * 2**30), kind=kind)
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("kind", ["RLIMIT_AS", "RLIMIT_DATA"])
def test_a_wide_pca_is_refused_under_a_limit_of_the_process_with_nothing_spent(kind: str) -> None:
    said = under_limit(2.5, "rows(np.zeros((2, 8000)), bound=1.0)", "PCA(2, center=False, **budget)", kind)
    assert "PCA was refused because sites and coordinator in one process would need about" in said
    assert said.endswith("Nothing was charged. Use fewer columns, or a public basis with fewer columns.\ncharged 0\n")


def test_nothing_is_spent_for_a_first_release_if_a_later_one_does_not_fit() -> None:
    """A centred PCA of many records releases a mean and lengths first, of a few thousand numbers; then 18 million."""
    said = under_limit(2.0, "rows(np.zeros((400, 6000)), bound=1.0)", "PCA(2, clip=Quantile(0.9), **budget)")
    assert "PCA was refused" in said
    assert said.endswith("charged 0\n")


@pytest.mark.parametrize(
    ("width", "records", "model"),
    [
        (2000, "rows(np.zeros((2, 2000)), bound=1.0)", "Correlation(scale='none', **budget)"),
        (
            1600,
            "views(np.zeros((2, 800)), np.zeros((2, 800)), bounds=(1.0, 1.0))",
            "CCA(2, center=False, **budget)",
        ),
    ],
    ids=["verdicts of all pairs", "draws of unrelated views"],
)
def test_results_that_do_not_fit_are_refused_with_nothing_spent(width: int, records: str, model: str) -> None:
    """The releases fit: a PCA of as many columns finishes."""
    said = under_limit(1.0, records, model)
    assert "was refused" in said
    assert said.endswith("charged 0\n")
    said = under_limit(1.0, f"rows(np.zeros((2, {width})), bound=1.0)", "PCA(2, center=False, **budget)")
    assert said == "finished\ncharged 3\n"


class Elsewhere(Passing):
    """Sites in processes of their own: the coordinator's memory is not theirs."""

    @property
    def in_one_process(self) -> bool:
        return False


def test_the_coordinator_refuses_what_it_cannot_compute_from_releases(monkeypatch: pytest.MonkeyPatch) -> None:
    ledgers = {name: Ledger() for name in "abc"}
    held = {name: rows(np.eye(300), bound=1.0) for name in "abc"}
    federation = Federation(Elsewhere(in_process(held, ledgers=ledgers)), protocol=Independent())
    model = Correlation(epsilon=1.0, delta=1e-5, scale="none")
    needed = footprint_of(CORRELATION, model.public(federation))
    assert needed.postprocessing > needed.coordinator
    monkeypatch.setattr(limits, "free_memory", lambda: int(needed.postprocessing) + limits._RESERVED_BYTES - 1)
    with pytest.raises(Failed, match=r"Correlation was refused because the coordinator .* Nothing was charged\."):
        model.fit(federation)
    assert all(not ledger.charges for ledger in ledgers.values())
    monkeypatch.setattr(limits, "free_memory", lambda: int(needed.postprocessing) + limits._RESERVED_BYTES + 1)
    with pytest.warns(UtilityWarning, match="useless"):
        assert model.fit(federation).guarantee_


@pytest.mark.parametrize("variant", variants())
def test_every_plan_says_how_much_memory_it_needs(variant: str) -> None:
    """From public numbers alone; ten times the columns never need less."""
    analysis = variants()[variant][0]
    setting = Consortium({"lima": 4000, "lyon": 4000, "oslo": 4000}, Cape(n_colluding=1), 1.0, 1e-6)
    needed = []
    for width in (24, 240):
        widths = (width // 2,) * 2 if analysis.records == "views" else (width,)
        if variant == "polynomial-loss":
            widths = (width // 24,)
        _, _, public = public_of(variant, widths, (1.0,) * len(widths), {}, setting=setting)
        needed.append(footprint_of(analysis, public))
        assert needed[-1].at_site == site_footprint(analysis, public)
        assert needed[-1].in_one_process(3) >= needed[-1].at_coordinator
    for name in ("site", "held", "coordinator", "postprocessing"):
        assert 0 < getattr(needed[0], name) <= getattr(needed[1], name)


def test_the_command_and_plans_show_it(capsys: pytest.CaptureFixture[str]) -> None:
    sites = "--records 3000 --sites 3 --colluding 1 --protocol cape --epsilon 1 --delta 1e-5"
    words = f"plan --analysis uncentred-pca --features 8000 {sites}".split()
    main(words, standalone_mode=False)
    assert "about 2.4 GB at a site, about 2.9 GB at the coordinator" in " ".join(capsys.readouterr().out.split())
    main([*words, "--json"], standalone_mode=False)
    memory, vector = json.loads(capsys.readouterr().out)["memory"], 8 * (8000 * 8001 // 2 + 1)
    # Eight tiles of 32 rows.
    assert memory == {"site": 10 * vector + 8 * 8 * 32 * 8000, "coordinator": 12 * vector}
    federation = Federation(in_process({"a": rows(np.eye(3), bound=1.0)}), protocol=Independent())
    plan = federation.plan(PCA(1, epsilon=1.0, delta=1e-5))
    assert ("memory", "less than 0.1 GB at a site and at the coordinator") in plan.lines()


STUDY = f"""
[study]
name = "wide"
analysis = "pca"
n_components = 2
center = true
epsilon = 1.0
delta = 1e-6

[protocol]
kind = "cape"
n_colluding = 1

[sites.lima]
[sites.lyon]
[sites.oslo]

[data]
kind = "rows"
columns = {[f"c{at}" for at in range(300)]}
bound = 1.0
"""


def test_a_site_refuses_a_study_of_which_any_release_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """It knows all releases of the approved study before it agrees to the terms."""
    study = Study.parse(STUDY)
    sizes = dict.fromkeys(study.sites, 1000)
    planned, approved = outline(study, sizes), ApprovedStudy(study)
    numbers = [release.statistic.released_size for release in planned.releases]
    assert numbers[0] < 1000 < 45_000 < numbers[-1]
    approved.check_terms(planned.terms)
    needed = site_footprint(study.description, study.public(sizes))
    monkeypatch.setattr(limits, "free_memory", lambda: int(needed) + limits._RESERVED_BYTES - 1)
    with pytest.raises(Failed, match=r"The study was refused because the site would need .* Nothing was charged\."):
        approved.check_terms(planned.terms)


def test_a_resumed_study_is_not_called_uncharged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its allowance was charged when it was begun."""
    held = {name: rows(np.eye(200), bound=1.0) for name in "abc"}
    line, model = in_process(held), PCA(2, epsilon=1.0, delta=1e-5, center=False)
    model.fit(Federation(line, protocol=Independent(), releases=KeptReleases(tmp_path)))
    federation = Federation(line, protocol=Independent(), releases=KeptReleases(tmp_path))
    monkeypatch.setattr(limits, "free_memory", lambda: limits._RESERVED_BYTES + 1000)
    with pytest.raises(Failed, match=r"Nothing further was charged; what was charged before stands"):
        model.fit(federation)


def test_memory_that_is_gone_after_the_first_release_is_no_promise_that_nothing_was_charged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By the coordinator, and by a site where the coordinator does not check again."""
    line = in_process({name: rows(np.eye(200), bound=1.0) for name in "abc"})
    federation = Federation(line, protocol=Independent())
    private = federation.allow(1.0, 1e-5, shares=(0.5, 0.5))
    private.mean(second_moment(federation.facts))
    monkeypatch.setattr(limits, "free_memory", lambda: limits._RESERVED_BYTES + 1000)
    for private.memory_checked, machine in ((False, "in one process"), (True, "the site")):
        with pytest.raises(Failed, match=rf"{machine} would need .* what was charged before stands"):
            private.mean(second_moment(federation.facts))


@pytest.mark.parametrize(
    ("name", "width", "outcome"),
    [
        ("PCA", 1200, "finished"),
        ("CCA", 600, "finished"),
        ("Correlation", 600, "finished"),
        ("PCA", 4000, "refused"),
    ],
)
def test_an_analysis_keeps_to_the_memory_it_declares_or_is_refused(name: str, width: int, outcome: str) -> None:
    """A few cells of experiments/memory, which has all analyses; in 1 GiB of address space."""
    cell = campaign.computed(name, width, 1.0, 60)
    assert campaign.judged(cell) == "", cell
    assert cell["outcome"] == outcome


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
