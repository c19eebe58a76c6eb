"""Runs in process: what they leave, what is refused, what goes on after a crash."""

from __future__ import annotations

import errno
import json
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import dpcape.runs.page
from dpcape import PCA, Cape, Federation, Replay, in_process, rows
from dpcape.analyses.registry import analyses
from dpcape.cli import main
from dpcape.core.errors import DpcapeWarning, Failed, InvalidParameter, LedgerRefused, ProtocolError
from dpcape.core.privacy.calibration import plan_release
from dpcape.estimators.estimator import FederatedEstimator
from dpcape.planning.outline import outline
from dpcape.planning.rehearsal import enough_records
from dpcape.runs.folder import RunFolder
from dpcape.runs.in_process import run_in_process, run_on_federation
from dpcape.site.folder import SiteFolder
from dpcape.statistics.moments import second_moment
from dpcape.steward.review import how_noisy, review
from dpcape.study.study import Study

from .texts import ANALYSES, text_of

SITES = ("lima", "lyon", "oslo")
FILES = {
    "study.toml",
    "log.jsonl",
    "model.npz",
    "guarantee.json",
    "participants.json",
    "report.html",
    "results.csv",
    "results.json",
    "methods.md",
    "releases",
}


@pytest.fixture
def study(tmp_path: Path) -> Study:
    rng = np.random.default_rng(1)
    text = text_of("pca")
    for name in SITES:
        np.savez(tmp_path / f"{name}.npz", X=rng.normal(size=(80, 6)) * 0.2)
        text = text.replace(f"[sites.{name}]", f'[sites.{name}]\ndata = "{name}.npz"')
    (tmp_path / "study.toml").write_text(text, encoding="utf-8")
    return Study.load(tmp_path / "study.toml")


def events(run: RunFolder) -> list[str]:
    return [event["event"] for event in run.events()]


def test_a_run_leaves_everything(study: Study, tmp_path: Path) -> None:
    seen: list[int] = []
    run = run_in_process(study, tmp_path / "run", progress=lambda release: seen.append(release.number))
    assert {path.name for path in run.path.iterdir()} - {".lock"} == FILES
    assert events(run) == ["begun", "formed", *["charging", "counting"] * 3, "release", "saved", "finished"]
    assert seen == [0]
    model = PCA.load(run.path / "model.npz")
    claimed = json.loads((run.path / "guarantee.json").read_text(encoding="utf-8"))
    assert claimed["status"] == "verified"
    assert claimed["sentence"] == model.guarantee_.sentence()
    members = json.loads((run.path / "participants.json").read_text(encoding="utf-8"))
    assert {name: entry["records"] for name, entry in members.items()} == dict.fromkeys(SITES, 80)
    page = (run.path / "report.html").read_text(encoding="utf-8")
    assert claimed["sentence"].split(";")[0] in page
    assert "REHEARSAL" not in page
    assert "ledger" in members["lyon"]
    assert '"ledger"' not in page
    assert run.study().digest() == study.digest()


def test_a_replayed_run_equals_the_library(study: Study, tmp_path: Path) -> None:
    run = run_in_process(study, tmp_path / "run", noise=Replay(4))
    held = {name: rows(np.load(tmp_path / f"{name}.npz")["X"], bound=1.0) for name in SITES}
    federation = Federation(in_process(held, noise=Replay(4)), protocol=Cape(n_colluding=1))
    direct = PCA(2, epsilon=2.0, delta=1e-5, center=False).fit(federation)
    model = run.model()
    assert isinstance(model, PCA)
    assert np.array_equal(model.components_, direct.components_)
    assert "REPLAYABLE: NO PROTECTION" in (run.path / "guarantee.json").read_text(encoding="utf-8")


def test_a_finished_run_is_not_run_again_unless_asked(study: Study, tmp_path: Path) -> None:
    first = run_in_process(study, tmp_path / "run")
    before = (first.path / "log.jsonl").read_bytes()
    assert run_in_process(study, tmp_path / "run").path == first.path
    assert (first.path / "log.jsonl").read_bytes() == before
    second = run_in_process(study, tmp_path / "run", again=True)
    assert second.path != first.path
    page = (second.path / "report.html").read_text(encoding="utf-8")
    assert "charged 1 time before" in page
    # Two runs at mu each are sqrt(2) mu: more than one, less than twice.
    together = float(page.split("All runs together are (")[1].split(",")[0])
    assert 2.0 < together < 4.0


def test_a_crash_before_any_charge_may_begin_again(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(Study, "records_for", _crash)
        with pytest.raises(KeyboardInterrupt):
            run_in_process(study, tmp_path / "run")
    run = run_in_process(study, tmp_path / "run")
    assert events(run)[:3] == ["begun", "restarted", "formed"]
    assert run.is_finished


def test_a_crash_after_a_charge_is_said_and_refused(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(FederatedEstimator, "save", _crash)
        with pytest.raises(KeyboardInterrupt):
            run_in_process(study, tmp_path / "run")
    with pytest.raises(LedgerRefused, match="was charged and did not finish"):
        run_in_process(study, tmp_path / "run")
    second = run_in_process(study, tmp_path / "run", again=True)
    assert second.path.name == "run-run2"
    assert "charged 1 time before" in (second.path / "report.html").read_text(encoding="utf-8")


def test_a_crash_after_the_result_was_saved_loses_nothing(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(dpcape.runs.page, "write_run_page", _crash)
        with pytest.raises(KeyboardInterrupt):
            run_in_process(study, tmp_path / "run")
    saved = (tmp_path / "run" / "model.npz").read_bytes()
    run = run_in_process(study, tmp_path / "run")
    assert events(run).count("charging") == 3
    assert (run.path / "model.npz").read_bytes() == saved
    assert run.is_finished


def test_two_processes_cannot_share_a_folder(study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(Study, "records_for", _crash)
        with pytest.raises(KeyboardInterrupt):
            run_in_process(study, tmp_path / "run")
    with RunFolder(tmp_path / "run").locked(), pytest.raises(ProtocolError, match="another process"):
        run_in_process(study, tmp_path / "run")
    assert run_in_process(study, tmp_path / "run").is_finished


def test_a_folder_belongs_to_one_study(study: Study, tmp_path: Path) -> None:
    run_in_process(study, tmp_path / "run")
    other = Study.parse(study.text.replace("2.0", "1.5"), path=tmp_path / "study.toml")
    with pytest.raises(Failed, match="Choose another folder"):
        run_in_process(other, tmp_path / "run")
    with pytest.raises(Failed, match="Choose another folder"):
        run_in_process(study, tmp_path / "run", rehearse=True)
    with pytest.raises(InvalidParameter, match=r"must hold log\.jsonl"):
        RunFolder(tmp_path)


def test_a_site_without_data_is_named(tmp_path: Path) -> None:
    with pytest.raises(Failed, match=r"'lima'.*Write data = "):
        run_in_process(Study.parse(text_of("pca"), path=tmp_path / "study.toml"), tmp_path / "run")


@pytest.mark.parametrize("analysis", sorted(ANALYSES))
def test_every_analysis_rehearses_without_touching_files(
    analysis: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if analysis not in analyses():
        pytest.skip(f"{analysis} is not public yet")
    monkeypatch.setattr(Study, "records_for", _crash)
    study = Study.parse(text_of(analysis), path=tmp_path / "study.toml")
    with warnings.catch_warnings():
        # How useful made-up records are is not the question here.
        warnings.simplefilter("ignore", DpcapeWarning)
        run = run_in_process(study, tmp_path / "run", rehearse=True)
    assert run.is_rehearsal
    assert "REHEARSAL ON SYNTHETIC RECORDS" in (run.path / "report.html").read_text(encoding="utf-8")
    assert {release.statistic for release in run.model().releases_} <= study.statistics()


def test_a_rehearsal_may_be_repeated(study: Study, tmp_path: Path) -> None:
    for _ in range(2):
        assert run_in_process(study, tmp_path / "run", rehearse=True).is_rehearsal


def test_the_outline_is_what_a_run_then_does(study: Study, tmp_path: Path) -> None:
    run = run_in_process(study, tmp_path / "run")
    planned = outline(study, dict.fromkeys(SITES, 80))
    guarantee, steps = planned.guarantee(), planned.steps("lyon")
    model = run.model()
    assert guarantee.sites == model.guarantee_.sites
    assert [step.statistic for step in steps] == [release.statistic for release in model.releases_]
    assert [step.mean_scale for step in steps] == [release.scale for release in model.releases_]


def test_noise_at_a_site_is_what_its_release_carries() -> None:
    """The draws add to nothing, so a site keeps less of its own than it drew; counted by the protocol's view."""
    text = text_of("pca").replace("n_colluding = 1", "n_colluding = 1\ncancelling_ratio = 4.0")
    study = Study.parse(text)
    planned = outline(study, {"lima": 50, "lyon": 80, "oslo": 200})
    (step,) = planned.steps("lyon")
    plan = plan_release(planned.terms, 0, second_moment(planned.terms.facts), planned.protocol)
    own, shared = (np.array([scales[name] for name in SITES]) for scales in (plan.own_scales, plan.shared_scales))
    view = planned.protocol.view(3, own_scales=own, shared_scales=shared)
    released = view.mixing[1] ** 2 @ view.variances
    assert step.site_scale == pytest.approx(np.sqrt(released) / 80, rel=1e-9)


@pytest.mark.parametrize(("analysis", "third"), [("mixture_model", "third_moment"), ("topic_model", "word_triples")])
def test_either_design_is_approved_where_the_first_result_decides(analysis: str, third: str) -> None:
    auto = Study.parse(text_of(analysis))
    assert {third, f"whitened_{third}"} <= auto.statistics()
    fixed = Study.parse(text_of(analysis).replace("n_components", 'design = "whitened"\nn_components'))
    assert third not in fixed.statistics()
    assert "third_moment" not in Study.parse(text_of("pca")).statistics()


def test_a_review_says_what_it_was_computed_for(tmp_path: Path) -> None:
    place = SiteFolder.create(tmp_path / "site", name="lyon")
    np.savez(tmp_path / "lyon.npz", X=np.zeros((8, 6)))
    place.add_data("cohort", tmp_path / "lyon.npz", epsilon=2.5, delta=1e-5)
    plain, some, every = (text_of("mixture_model"),) * 3
    for count, name in enumerate(SITES):
        every = every.replace(f"[sites.{name}]", f"[sites.{name}]\nrecords = 300")
        some = every if count == 0 else some
    said = [" ".join(how_noisy(review(place, Study.parse(text), "cohort"))) for text in (plain, some, every)]
    for text in said[:2]:
        assert "for the 8 records of this data set, and 1000 records at each site that declared no number" in text
    assert "for the 8 records of this data set and the numbers that the other sites declared." in said[2]
    assert "whitened third moment or third moment is released" in said[0]


def test_repeated_runs_promise_nothing_that_a_seed_takes_away(study: Study, tmp_path: Path) -> None:
    for again in (False, True):
        run = run_in_process(study, tmp_path / "run", again=again, noise=Replay(4))
    page = (run.path / "report.html").read_text(encoding="utf-8")
    assert "No protection; with fresh noise it would be: all runs together are" in page


def test_an_outline_computes_nothing_for_its_last_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second moment of 6 000 columns holds 18 million numbers; a review of it makes none of them."""
    made = Study.synthetic_records

    def few(study: Study, site: str, n_records: int) -> Any:
        assert n_records == 4, "the facts take four records, the outline none"
        return made(study, site, n_records)

    monkeypatch.setattr(Study, "synthetic_records", few)
    study = Study.parse(text_of("pca").replace("features = 6", "features = 6000"))
    (step,) = outline(study, dict.fromkeys(SITES, 80)).steps("lyon")
    assert step.size == 6_000 * 6_001 // 2 + 1


def test_made_up_records_are_few_if_they_are_wide() -> None:
    assert enough_records(6) == 400
    assert enough_records(1000) == 3000
    assert enough_records(200_000) == 100
    assert enough_records(10**8) == 8


def test_runs_on_site_folders_use_their_ledgers_and_keep_their_heads(study: Study, tmp_path: Path) -> None:
    text = study.text
    for name in SITES:
        text = text.replace(f'data = "{name}.npz"', f'folder = "site-{name}"')
    (tmp_path / "folders.toml").write_text(text, encoding="utf-8")
    guarded = Study.load(tmp_path / "folders.toml")
    folders = {name: SiteFolder.create(tmp_path / f"site-{name}", name=name) for name in SITES}
    for place in folders.values():
        for other in folders.values():
            place.pin(other.name, other.identity.public.hex())
        place.add_data("cohort", tmp_path / f"{place.name}.npz", epsilon=2.5, delta=1e-5)
    with pytest.raises(LedgerRefused, match=r"^lima: .*has not approved"):
        run_in_process(guarded, tmp_path / "runs" / "one")
    for place in folders.values():
        place.approve(guarded, runs=2)
    run = run_in_process(guarded, tmp_path / "runs" / "one")
    heads = json.loads((tmp_path / "runs" / "ledger-heads.json").read_text(encoding="utf-8"))
    assert {name: tuple(head) for name, head in heads.items()} == {n: f.chain.head() for n, f in folders.items()}
    assert run.participants()["lyon"]["ledger"] == list(folders["lyon"].chain.head())
    assert run.participants()["lyon"]["identity"] == folders["lyon"].identity.fingerprint()
    with pytest.raises(LedgerRefused, match=r"would exceed the ceiling of this data set \(epsilon 2\.5"):
        run_in_process(guarded, tmp_path / "runs" / "one", again=True)
    assert [len(place.state().charges) for place in folders.values()] == [1, 1, 1]


def test_a_full_disk_at_the_beginning_leaves_no_run(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: RunFolder, event: str, **fields: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(RunFolder, "log", full)
        with pytest.raises(OSError, match="No space"):
            RunFolder.begin(tmp_path / "runs" / "one", study)
    assert not (tmp_path / "runs" / "one").exists()
    assert run_in_process(study, tmp_path / "runs" / "one").is_finished
    assert sorted(path.name for path in (tmp_path / "runs").iterdir() if path.is_dir()) == ["one"]


def test_commands(study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rehearsed = json.loads(typed("run", "study.toml", "--rehearse", "--json").stdout)
    assert rehearsed["rehearsal"]
    assert rehearsed["run"].startswith("rehearsals")
    ran = json.loads(typed("run", "study.toml", "--json").stdout)
    assert ran["run"] == f"runs/first-{study.digest()[:8]}"
    assert ran["guarantee"]["status"] == "verified"
    page = tmp_path / ran["run"] / "report.html"
    written = page.read_text(encoding="utf-8")
    page.unlink()
    assert "Report: " in typed("report", ran["run"]).stdout
    assert page.read_text(encoding="utf-8") == written
    assert typed("run", "nowhere.toml").exit_code == 2
    assert typed("report", ".").exit_code == 2


def test_a_study_that_names_a_federation_goes_to_its_engine(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = study.text + '\n[federation]\nengine = "flare"\n'
    federated = Study.parse(text, path=tmp_path / "study.toml")
    asked: list[Path] = []

    def run_study(given: Study, out: Path) -> None:
        asked.append(out)
        RunFolder(out).log("charging", site="any")  # as the engine's side notes when a job has ended
        if len(asked) == 1:
            raise ProtocolError("a site must not vanish; got one that did.")
        in_process = Study.parse(study.text, path=tmp_path / "study.toml")
        run_in_process(in_process, tmp_path / "elsewhere").model().save(out / "model.npz")

    monkeypatch.setitem(sys.modules, "dpcape.engines.flare", SimpleNamespace(run_study=run_study))
    with pytest.raises(ProtocolError, match="vanish"):
        run_on_federation(federated, tmp_path / "run")
    # Sites may have been charged before the job failed.
    with pytest.raises(LedgerRefused, match="--again"):
        run_on_federation(federated, tmp_path / "run")
    run = run_on_federation(federated, tmp_path / "run", again=True)
    assert run.path.name == "run-run2"
    assert run.is_finished
    assert (run.path / "report.html").is_file()
    assert run_on_federation(federated, tmp_path / "run").path == run.path
    assert len(asked) == 2


def typed(*words: str) -> Result:
    return CliRunner().invoke(main, list(words), catch_exceptions=False)


def _crash(*args: object, **options: object) -> None:
    raise KeyboardInterrupt
