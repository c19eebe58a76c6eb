"""PyTorch modules of other packages at sites that are served: in sandboxed children, a real vault and the real engine.

Without Landlock these tests fail; they are never skipped for that reason.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("nvflare")

import torch
from tests.engine.consortium import SEED, Consortium, study_text
from tests.hostile.test_foreign_code import Served, Site, _environment
from tests.torch.module_package import PACKAGE, forget, install

from dpcape import Federation, in_process, labelled
from dpcape.analyses.registry import ANY_PACKAGE
from dpcape.core.enclosed import IN_THIS_PROCESS, Enclosed, RecordByRecord, Sampled
from dpcape.core.errors import InvalidParameter, LedgerRefused
from dpcape.core.noise import Replay
from dpcape.core.totals import released_total
from dpcape.records.kinds import Records
from dpcape.runs.in_process import run_in_process
from dpcape.site.folder import SiteFolder
from dpcape.site.foreign.workers import Workers, start_zygote
from dpcape.statistics.modules import module_of
from dpcape.steward.review import review_text
from dpcape.study.study import Study

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("default")]
# Enough on a busy machine: a late answer counts as zeros.
SECONDS = 1.5
N_RECORDS, SIDE = 22, 4
IMAGES = np.random.default_rng(3).uniform(0.05, 0.4, (N_RECORDS, SIDE**2))
LABELS = np.arange(N_RECORDS) % 2
STUDY = """
[study]
name = "bars"
analysis = "torch_classifier"
module = "bars"
n_iter = 2
epsilon = 2.0
delta = 1e-6
[protocol]
kind = "independent"
[sites.lyon]
data = "lyon.npz"
[data]
kind = "labelled"
features = 16
array = "images"
target = "labels"
classes = [0, 1]
bound = 2.0
[package]
way = "{way}"
block = 11
seconds = 1.5
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    place = install(tmp_path_factory.mktemp("modules"))
    sys.path.insert(0, str(place))
    before = torch.get_num_threads()
    # As in a child: sums then round alike.
    torch.set_num_threads(1)
    import module_code  # noqa: F401  (registers its modules here)

    yield place
    torch.set_num_threads(before)
    sys.path.remove(str(place))
    forget()


@pytest.fixture(scope="module")
def workers(installed: Path) -> Iterator[Workers]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        zygote = start_zygote(theirs, [PACKAGE])
    made = Workers(ours)
    yield made
    made.close()
    assert zygote.wait(10) == 0


def held(images: Any = IMAGES, labels: Any = LABELS) -> Records:
    return labelled(images, labels, bound=2.0, classes=[0, 1])


def gradient(module: str, kind: type[Enclosed], weights: Any, *, block: int = 11) -> Enclosed:
    its = {"its_module": module, "its_weights": weights, "its_clip": 1.0}
    return kind(
        held().facts(),
        inner="module_gradient",
        package=PACKAGE,
        size=len(weights),
        radius=1.0,
        block=block,
        seconds=SECONDS,
        **its,
    )


# Of the modules that are one linear layer.
LINEAR = np.tile([1.0, -1.0], SIDE**2 + 1)


@pytest.mark.parametrize(("module", "kind"), [("bars", Sampled), ("bars", RecordByRecord), ("attending", Sampled)])
def test_children_compute_the_gradients_that_this_process_computes(
    workers: Workers, module: str, kind: type[Enclosed]
) -> None:
    statistic = gradient(module, kind, module_of(module).start(SIDE**2, 2, 0))
    found = released_total(statistic, held(), workers)
    assert np.array_equal(found, released_total(statistic, held(), IN_THIS_PROCESS))
    assert found[-1] == statistic.count_weight * N_RECORDS
    assert np.linalg.norm(found[:-1]) > 0.1


def test_record_by_record_is_one_call_per_record(workers: Workers) -> None:
    """A block of any length gives what single records give, but for rounding."""
    weights = module_of("bars").start(SIDE**2, 2, 0)
    single = released_total(gradient("bars", RecordByRecord, weights, block=1), held(IMAGES), IN_THIS_PROCESS)
    found = released_total(gradient("bars", RecordByRecord, weights), held(), workers)
    np.testing.assert_allclose(found, single, atol=1e-12)


def test_a_module_that_shows_one_record_as_everybodys_is_contained_where_blocks_are_sampled(workers: Workers) -> None:
    """Records have one class, so that the gradients it invents do not cancel."""
    statistic = gradient("thief", Sampled, LINEAR)
    totals = []
    for first in (np.full(SIDE**2, 0.4), np.geomspace(1e-3, 0.4, SIDE**2), np.full(SIDE**2, np.nan)):
        images = IMAGES.copy()
        images[11] = first
        totals.append(released_total(statistic, held(images, np.zeros(N_RECORDS, dtype=int)), workers))
    assert statistic.diameter == pytest.approx(2 * 11)
    for other in totals[1:]:
        assert np.linalg.norm(totals[0] - other) <= statistic.sensitivity(N_RECORDS)
    # The attack works: a gradient of one record that is counted as one moves a total by at most 2.
    assert np.linalg.norm(totals[0] - totals[1]) > 4.0


def test_a_record_without_a_finite_gradient_costs_itself_alone(workers: Workers) -> None:
    images = np.full((N_RECORDS, SIDE**2), 0.3)
    images[:, 0] = 0.6
    images[[2, 15], 0] = 0.1
    found = released_total(gradient("forgetful", RecordByRecord, LINEAR), held(images), workers)
    statistic = gradient("forgetful", RecordByRecord, LINEAR)
    assert found[-1] == statistic.count_weight * (N_RECORDS - 2)
    others = np.delete(np.arange(N_RECORDS), [2, 15])
    kept = labelled(images[others], LABELS[others], bound=2.0, classes=[0, 1])
    np.testing.assert_allclose(found[:-1], released_total(statistic, kept, IN_THIS_PROCESS)[:-1], atol=1e-12)


def test_a_module_that_sleeps_loses_its_own_block_after_the_fixed_time(workers: Workers) -> None:
    images = IMAGES.copy()
    images[15, 3] = 0.95
    statistic = gradient("sleeper", RecordByRecord, LINEAR)
    begun = time.monotonic()
    found = released_total(statistic, held(images), workers)
    assert 2 * SECONDS <= time.monotonic() - begun < 2 * SECONDS + 1.0
    assert found[-1] == statistic.count_weight * 11
    first = labelled(IMAGES[:11], LABELS[:11], bound=2.0, classes=[0, 1])
    assert np.array_equal(found[:-1], released_total(statistic, first, IN_THIS_PROCESS)[:-1])


def test_nothing_is_within_reach_of_a_module_through_pytorch(workers: Workers, installed: Path) -> None:
    """Outside, every attempt succeeds."""
    found = released_total(gradient("escaper", Sampled, LINEAR), held(), workers)
    assert found[-1] == pytest.approx(N_RECORDS, abs=1e-3)
    assert not found[:-1].any()
    code = (
        "import module_code\n"
        "for number, attempt in enumerate(module_code.attempts()):\n"
        "    try: attempt()\n"
        "    except BaseException as error: print(number, repr(error))\n"
    )
    environment = {"PYTHONPATH": str(installed), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    for name in ("module-code.pt", "module-code.bin"):
        (Path("/tmp") / name).unlink(missing_ok=True)
    assert done.stdout == ""


def test_a_module_that_adds_records_up_is_refused_before_anything_is_planned(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY.format(way="sampled").replace('"bars"', '"mixing"'))
    with pytest.raises(InvalidParameter, match=r"own record only|single record"):
        Study.load(tmp_path / "study.toml", packages=ANY_PACKAGE).planned({"lyon": N_RECORDS})


@pytest.mark.parametrize("way", ["sampled", "record_by_record"])
def test_a_study_runs_through_the_vault_and_equals_the_run_in_process(
    tmp_path: Path, installed: Path, way: str
) -> None:
    site = Site(tmp_path, installed, STUDY.format(way=way), images=IMAGES, labels=LABELS)
    path = tmp_path / "study.toml"
    with pytest.raises(InvalidParameter, match="allow-analysis"):
        site.folder.load_study(path)
    site.folder.allow_package(PACKAGE)
    if way == "record_by_record":
        with pytest.raises(LedgerRefused, match="--record-by-record"):
            site.folder.approve(site.folder.load_study(path))
        site.folder.allow_package(PACKAGE, record_by_record=True)
    there = site.folder.load_study(path)
    seen = " ".join(review_text(site.folder, there).split())
    assert "conditional" in seen
    assert ("treats each record by itself" if way == "record_by_record" else "one block of 11 records") in seen
    site.folder.approve(there)
    with site.served((PACKAGE,)) as client:
        line = Served(client, site.folder.identity.public, site.study)
        assert line.ready().state == "ok"
        model = site.study.estimator().fit(_federation(site.study, line))
    records = {"lyon": site.study.records_for("lyon", tmp_path / "lyon.npz")}
    again = site.study.estimator().fit(_federation(site.study, in_process(records, noise=Replay(7))))
    assert np.array_equal(model.weights_, again.weights_)
    assert {release.statistic for release in model.releases_} == {way}
    assert model.guarantee_.status.startswith("conditional")
    assert any(PACKAGE in text for text in model.guarantee_.assumptions)
    run = run_in_process(site.study, tmp_path / "run", noise=Replay(7))
    assert np.array_equal(run.model().weights_, model.weights_)


def _federation(study: Study, line: Any) -> Federation:
    return Federation(line, protocol=study.protocol(), enclosure=study.enclosure)


ENGINE_STUDY = """
[data]
kind = "labelled"
features = 16
array = "images"
target = "labels"
classes = [0, 1]
bound = 2.0
[package]
way = "record_by_record"
block = 60
seconds = 4.0
"""


def test_a_module_is_trained_across_sites_on_the_real_engine(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Server, three sites with their vaults and children, mutual TLS; the model is that of a run in one process."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setattr(sys, "executable", str(_environment(tmp_path / "environment", installed)))
    consortium = Consortium(tmp_path / "federation", ["lima", "lyon", "oslo"])
    consortium.path.mkdir()
    consortium.create()
    draw = np.random.default_rng(4)
    for site in consortium.sites:
        images, labels = draw.uniform(0.05, 0.4, (40, SIDE**2)), draw.integers(0, 2, 40)
        np.savez(consortium.path / "data" / f"{site}.npz", images=images, labels=labels)
        SiteFolder(consortium.folder(site)).allow_package(PACKAGE, record_by_record=True)
    path = consortium.path / "bars.toml"
    parameters = 'module = "bars"\nn_iter = 2'
    path.write_text(
        study_text("bars", "torch_classifier", parameters=parameters, data=ENGINE_STUDY, sites=consortium.sites)
    )
    study = Study.load(path, packages=ANY_PACKAGE)
    for site in consortium.sites:
        folder = SiteFolder(consortium.folder(site))
        folder.approve(folder.load_study(path))
    try:
        consortium.start()
        run = consortium.run(study)
    finally:
        consortium.stop()
        assert consortium.survivors() == []
    data = {site: study.records_for(site, consortium.path / "data" / f"{site}.npz") for site in study.sites}
    wanted = study.estimator().fit(_federation(study, in_process(data, noise=Replay(SEED))))
    assert np.array_equal(run.model().weights_, wanted.weights_)
    assert run.model().guarantee_.status.startswith("conditional")
    assert any(PACKAGE in text for text in run.model().guarantee_.assumptions)
