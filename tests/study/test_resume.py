"""Nothing paid for is lost: runs that stop go on under the same charge, and results are rebuilt for free."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import msgspec
import numpy as np
import pytest
from click.testing import CliRunner

import dpcape.core.files
from dpcape import PCA, Federation, Independent, JointICA, KMeans, Ledger, Replay, SecureSum, in_process, rows, subjects
from dpcape.cli import main
from dpcape.core.errors import DpcapeError, Failed, InvalidParameter, LedgerRefused, ReleaseLost, UtilityWarning
from dpcape.core.messages import Reopen, decode_from_site, encode
from dpcape.core.privacy.unit import Unit
from dpcape.core.site import Site
from dpcape.federation.kept_releases import KeptReleases
from dpcape.federation.rebuilt import ReleaseMissing
from dpcape.runs.folder import RunFolder
from dpcape.runs.in_process import run_in_process
from dpcape.site.folder import SiteFolder
from dpcape.site.ledger import Ceiling
from dpcape.statistics.moments import first_moments, second_moment
from dpcape.study.study import Study
from dpcape.transport.transport import Passing

from .texts import text_of

SITES = ("lima", "lyon", "oslo")
pytestmark = pytest.mark.filterwarnings("ignore::dpcape.core.errors.UtilityWarning")


class Cut(BaseException):
    """Stands for a killed process: nothing in dpcape may catch it."""


def study_in(folder: Path, analysis: str = "kmeans", *, guarded: bool = False) -> Study:
    """Return a study on files of three sites, or on their site folders."""
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(1)
    text = text_of(analysis)
    for name in SITES:
        np.savez(folder / f"{name}.npz", X=rng.normal(size=(80, 6)) * 0.2)
        place = f'folder = "{name}-site"' if guarded else f'data = "{name}.npz"'
        text = text.replace(f"[sites.{name}]", f"[sites.{name}]\n{place}")
    (folder / "study.toml").write_text(text, encoding="utf-8")
    study = Study.load(folder / "study.toml")
    if guarded:
        places = {name: SiteFolder.create(folder / f"{name}-site", name=name) for name in SITES}
        for place in places.values():
            for other in places.values():
                place.pin(other.name, other.identity.public.hex())
            place.add_data("cohort", folder / f"{place.name}.npz", epsilon=2.5, delta=1e-5)
            place.approve(study)
            place.chain.close()
    return study


def cut_after(n_messages: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the in-process line break after so many messages to sites."""
    real, seen = Site.answer, [0]

    def answer(self: Site, data: bytes) -> bytes:
        if seen[0] == n_messages:
            raise Cut
        seen[0] += 1
        return real(self, data)

    monkeypatch.setattr(Site, "answer", answer)


def charges(folder: Path) -> list[int]:
    return [len(SiteFolder(folder / f"{name}-site").state().charges) for name in SITES]


def n_messages_of(study: Study, out: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    real, seen = Site.answer, [0]

    def answer(self: Site, data: bytes) -> bytes:
        seen[0] += 1
        return real(self, data)

    monkeypatch.setattr(Site, "answer", answer)
    run_in_process(study, out, noise=Replay(3))
    monkeypatch.undo()
    return seen[0]


def test_every_release_is_on_disk_and_rebuilds_the_result(tmp_path: Path) -> None:
    study = study_in(tmp_path)
    run = run_in_process(study, tmp_path / "run", noise=Replay(3))
    model = run.model()
    assert sorted(run.releases.releases()) == [0, 1, 2]
    rebuilt = KMeans.from_releases(run.path / "releases", n_clusters=3, n_iter=3)
    np.testing.assert_array_equal(rebuilt.cluster_centers_, model.cluster_centers_)
    assert rebuilt.guarantee_ == model.guarantee_
    assert rebuilt.releases_ == model.releases_
    with pytest.raises(InvalidParameter, match="made under other terms"):
        KMeans.from_releases(run.path / "releases", n_clusters=3, n_iter=4)
    with pytest.raises(DpcapeError, match="of something else than the analysis"):
        KMeans.from_releases(run.path / "releases", n_clusters=2, n_iter=3)
    with pytest.raises(Failed, match="holds no kept releases"):
        KMeans.from_releases(tmp_path / "nowhere", n_clusters=3, n_iter=3)


def test_a_free_parameter_may_change_when_a_result_is_rebuilt(tmp_path: Path) -> None:
    held = {name: rows(np.random.default_rng(2).normal(size=(50, 4)), bound=1.0) for name in "abc"}
    kept = KeptReleases(tmp_path / "releases")
    federation = Federation(in_process(held), protocol=Independent(), releases=kept)
    first = PCA(1, epsilon=1.0, delta=1e-5, center=False).fit(federation)
    both = PCA.from_releases(tmp_path / "releases", n_components=2, center=False)
    np.testing.assert_allclose(both.components_[0], first.components_[0], rtol=1e-9)
    assert both.guarantee_ == first.guarantee_


@pytest.fixture
def undrawn() -> Iterator[None]:
    """Pictures are left out of reports where dozens of runs are: to draw them takes longest, and writes no file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dpcape.report.page.svg_of", lambda figure, **_: plt.close(figure) or "<svg></svg>")
        yield


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("guarded", [False, True])
def test_a_run_cut_at_any_message_goes_on_under_one_charge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, guarded: bool
) -> None:
    """Cut before every message in turn: the result is that of an uncut run, or one round is lost and it says so."""
    whole = study_in(tmp_path / "whole")
    n_messages = n_messages_of(whole, tmp_path / "whole" / "run", monkeypatch)
    expected = RunFolder(tmp_path / "whole" / "run").model().cluster_centers_
    equal = lost = uncharged = 0
    for n in range(3, n_messages, 4 if guarded else 2):
        place = tmp_path / f"cut-{n}"
        study = study_in(place, guarded=guarded)
        cut_after(n, monkeypatch)
        with pytest.raises(Cut):
            run_in_process(study, place / "run", noise=Replay(3))
        monkeypatch.undo()
        if not RunFolder(place / "run").is_charged:
            uncharged += 1
        else:
            with pytest.raises(LedgerRefused, match="--resume"):
                run_in_process(study, place / "run", noise=Replay(3))
        run = run_in_process(study, place / "run", noise=Replay(3), resume=True)
        model = run.model()
        assert run.is_finished
        if guarded:
            assert charges(place) == [1, 1, 1]
        if any("lost" in text for text in model.warnings_):
            lost += 1
            assert len(model.releases_) == 2
            assert model.guarantee_.releases == 3
        else:
            equal += 1
            np.testing.assert_array_equal(model.cluster_centers_, expected)
    assert equal
    assert lost
    assert uncharged


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("kind", ["record", "subject"])
@pytest.mark.parametrize(("before", "after"), [(3, 3), (3, 5), (None, 3), (5, 3)])
def test_a_run_goes_on_whatever_a_ceiling_states_of_rows_per_subject(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, before: int | None, after: int
) -> None:
    """A charge is kept with the number as it was stated then; the allowance goes on by its name and its terms."""
    study = study_in(tmp_path, guarded=True)

    def state(rows_per_subject: int | None) -> None:
        unit = Unit("record" if rows_per_subject is None else kind, rows_per_subject)
        for name in SITES:
            SiteFolder(tmp_path / f"{name}-site").set_ceiling("cohort", Ceiling(25.0, 1e-5, unit=unit))

    state(before)
    cut_after(30, monkeypatch)
    with pytest.raises(Cut):
        run_in_process(study, tmp_path / "run")
    monkeypatch.undo()
    assert charges(tmp_path) == [1, 1, 1]
    state(after)
    run = run_in_process(study, tmp_path / "run", resume=True)
    assert run.is_finished
    assert charges(tmp_path) == [1, 1, 1]
    paid = SiteFolder(tmp_path / "lyon-site").state().charges[0].charge
    assert paid.unit == Unit("record", before)


def test_an_allowance_in_process_goes_on_whatever_its_ledger_states(tmp_path: Path) -> None:
    books = {name: Ledger(epsilon=9.0, delta=1e-5, per="subject", rows_per_subject=3) for name in "abc"}
    line = in_process({name: rows(np.eye(4) / 2, bound=1.0) for name in "abc"}, ledgers=books)
    kept = KeptReleases(tmp_path / "releases")
    first = Federation(line, protocol=Independent(), releases=kept)
    first.allow(1.0, 1e-5, shares=(0.5, 0.5)).mean(second_moment(first.facts))
    again = Federation(line, protocol=Independent(), releases=kept).allow(1.0, 1e-5, shares=(0.5, 0.5))
    again.mean(second_moment(first.facts))
    assert again.mean(first_moments(first.facts))[0].shape == (4,)
    assert [len(book.charges) for book in books.values()] == [1, 1, 1]


def test_a_lost_release_without_which_there_is_no_result_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = study_in(tmp_path, "pca")
    n_messages = n_messages_of(study, tmp_path / "whole", monkeypatch)
    cut_after(n_messages - 4, monkeypatch)
    with pytest.raises(Cut):
        run_in_process(study, tmp_path / "run")
    monkeypatch.undo()
    for _ in range(2):
        with pytest.raises(ReleaseLost, match=r"numbered 1 was begun and is lost.*charge stands.*--again"):
            run_in_process(study, tmp_path / "run", resume=True)
    assert run_in_process(study, tmp_path / "run", again=True).is_finished


def test_a_finished_allowance_is_rebuilt_without_a_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed between the last release and the result: no data file is needed any more, and nothing is charged."""
    study = study_in(tmp_path, guarded=True)

    def full(*_: Any, **__: Any) -> None:
        raise Cut

    monkeypatch.setattr(RunFolder, "save", full)
    with pytest.raises(Cut):
        run_in_process(study, tmp_path / "run")
    monkeypatch.undo()
    for name in SITES:
        (tmp_path / f"{name}.npz").unlink()
        shutil.move(tmp_path / f"{name}-site", tmp_path / f"{name}-elsewhere")
    result = CliRunner().invoke(
        main, ["run", str(tmp_path / "study.toml"), "--out", str(tmp_path / "run"), "--resume"], catch_exceptions=False
    )
    assert result.exit_code == 0, result.output
    assert RunFolder(tmp_path / "run").is_finished
    assert "rebuilt" in [event["event"] for event in RunFolder(tmp_path / "run").events()]


def test_other_terms_cannot_use_a_charge(tmp_path: Path) -> None:
    """A coordinator that used a small share first and asks for the rest of mu^2 at once is refused."""
    line = in_process({name: rows(np.eye(4) / 2, bound=1.0) for name in "abc"})
    kept = KeptReleases(tmp_path / "releases")
    first = Federation(line, protocol=Independent(), releases=kept)
    private = first.allow(1.0, 1e-5, shares=(0.25,) * 4)
    released = private.mean(second_moment(first.facts))
    opened = kept.allowance()
    assert opened is not None
    forged = msgspec.structs.replace(opened.terms, shares=(0.01, 0.01, 0.01, 0.97))
    reply = decode_from_site(line.site("a").answer(encode(Reopen(terms=forged), allowance=forged.allowance)))[1]
    assert reply.error == "LedgerRefused"
    assert "not those it was charged for" in reply.text
    again = Federation(line, protocol=Independent(), releases=kept).allow(1.0, 1e-5, shares=(0.25,) * 4)
    assert (again.left, again.lost) == (4, frozenset())
    np.testing.assert_array_equal(again.mean(second_moment(first.facts)), released)
    assert again.mean(first_moments(first.facts))[0].shape == (4,)
    assert [len(line.site(name).ledger.charges) for name in "abc"] == [1, 1, 1]
    with pytest.raises(InvalidParameter, match="other terms"):
        Federation(line, protocol=SecureSum(n_colluding=1), releases=kept).allow(1.0, 1e-5, shares=(0.25,) * 4)


def test_infomax_goes_on_without_a_lost_round(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    line = in_process({n: subjects([rng.laplace(size=(400, 3))], bound=3.0, unit="record") for n in "abc"})

    class Failing(Passing):
        n = 0

        def ask(self, messages_by_site: Any, deadline: float | None) -> Any:
            replies = super().ask(messages_by_site, deadline)
            self.n += any(b"Submit" in data for data in messages_by_site.values())
            if self.n == 4:
                self.n += 1
                raise Cut
            return replies

    model = JointICA(2, epsilon=5.0, delta=1e-5, solver="infomax", n_iter=5, tol=1e-30)
    kept = KeptReleases(tmp_path / "releases")
    with pytest.raises(Cut):
        model.fit(Federation(Failing(line), protocol=Independent(), releases=kept))
    with pytest.raises(ReleaseMissing, match="release 4 of 7 is not in the folder"):
        JointICA.from_releases(tmp_path / "releases", n_components=2, solver="infomax", n_iter=5, tol=1e-30)
    with pytest.warns(UtilityWarning, match="numbered 4 was begun and is lost"):
        model.fit(Federation(line, protocol=Independent(), releases=kept))
    assert [release.number for release in model.releases_] == [0, 1, 2, 4, 5, 6]
    assert all(len(site.ledger.charges) == 1 for site in (line.site(name) for name in "abc"))


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], list[int]]]:
    """Let the process end at write number ``n``: before, or in the middle of what it writes."""
    real_write, real_replace = os.write, Path.replace

    def arm(n: int) -> list[int]:
        seen = [0]

        def count() -> bool:
            seen[0] += 1
            return seen[0] == n

        def write(descriptor: int, data: bytes) -> int:
            if count():
                real_write(descriptor, data[: len(data) // 2])
                raise Cut
            return real_write(descriptor, data)

        def replace(self: Path, target: Any) -> Path:
            if count():
                raise Cut
            return real_replace(self, target)

        monkeypatch.setattr(os, "write", write)
        monkeypatch.setattr(Path, "replace", replace)
        return seen

    yield arm
    monkeypatch.undo()


@pytest.mark.usefixtures("undrawn")
def test_a_run_cut_at_any_write_gives_its_result_or_one_sentence(
    tmp_path: Path, writes: Callable[[int], list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    study = study_in(tmp_path / "whole")
    seen = writes(0)
    run_in_process(study, tmp_path / "whole" / "run", noise=Replay(3))
    n_writes = seen[0]
    monkeypatch.undo()
    expected = RunFolder(tmp_path / "whole" / "run").model().cluster_centers_
    assert n_writes > 20
    outcomes = set()
    for n in range(1, n_writes + 1):
        place = tmp_path / f"cut-{n}"
        cut = study_in(place)
        writes(n)
        with pytest.raises(Cut):
            run_in_process(cut, place / "run", noise=Replay(3))
        monkeypatch.undo()
        try:
            run = run_in_process(cut, place / "run", noise=Replay(3))
        except LedgerRefused:
            run = run_in_process(cut, place / "run", noise=Replay(3), resume=True)
        model = run.model()
        same = bool((model.cluster_centers_ == expected).all())
        assert same or any("lost" in text for text in model.warnings_)
        outcomes.add(same)
        assert run.is_finished
        json.loads((run.path / "guarantee.json").read_text(encoding="utf-8"))
    assert outcomes == {True, False}


def test_a_full_disk_is_noticed_before_the_charge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = study_in(tmp_path, guarded=True)
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1000))
    with pytest.raises(Failed, match=r"not begun because the disk .* has 0 MB left and 33 MB may be needed"):
        run_in_process(study, tmp_path / "run")
    assert charges(tmp_path) == [0, 0, 0]
    monkeypatch.undo()
    assert run_in_process(study, tmp_path / "run").is_finished


def test_a_write_is_durable_before_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    sync, replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda descriptor: (order.append("sync"), sync(descriptor))[1])
    monkeypatch.setattr(Path, "replace", lambda self, to: (order.append("name"), replace(self, to))[1])
    dpcape.core.files.write_private(tmp_path / "file", b"content")
    assert order == ["sync", "name", "sync"]
