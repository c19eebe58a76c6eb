"""Audits of studies: the declared analysis, protocol and delta, through real sites, on synthetic records.

A true guarantee is refuted with probability at most 1e-6 per audit (Clopper-Pearson limits over all thresholds); seeds
are fixed. Teeth: half the noise, a statistic that mixes records, and a message that depends on records are noticed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from click.testing import CliRunner, Result

from dpcape import Replay
from dpcape.analyses.registry import ANY_PACKAGE
from dpcape.audit.messages import differences
from dpcape.audit.neighbours import Neighbours
from dpcape.audit.study_audit import StudyAudit, audit_study, compared_messages
from dpcape.audit.study_case import NumbersHeld, numbers_per_unit, study_case
from dpcape.cli import main
from dpcape.core.errors import InvalidParameter
from dpcape.core.facts import PublicFacts
from dpcape.core.site import Site
from dpcape.statistics.losses import RecordLoss, known_loss
from dpcape.study.data import read_data
from dpcape.study.made_up import MadeUp
from dpcape.study.study import Study
from dpcape.study.toml_reader import TomlSource, TomlTable

HALF = {"own": 0.5, "draw": 0.5, "dealer": 0.5}
TRIALS = 20_000
ROWS = 'kind = "rows"\ncolumns = ["a", "b"]\nbound = 1.0'
LABELLED = 'kind = "labelled"\ncolumns = ["a", "b"]\nbound = 1.0\ntarget = "y"\nresponse = [-1, 1]'
TABLE = 'kind = "table"\n[data.columns]\nage = { range = [0, 9] }\narm = { levels = ["a", "b"] }'
CAPE = 'kind = "cape"\nn_colluding = 1'
STUDIES = {
    "mean": ("mean", "", 'kind = "independent"', ROWS),
    "pca": ("pca", "n_components = 1", CAPE, ROWS),
    "regression": ("linear_regression", "", 'kind = "secure-sum"\nn_colluding = 1\nminimum_sites = 3', LABELLED),
    "kmeans": ("kmeans", "n_clusters = 2\nn_iter = 2", 'kind = "dealer"\nn_colluding = 1', ROWS),
    "summary": ("summary", 'by = ["arm"]\nbins = 4', CAPE, TABLE),
    "poisson": ("polynomial_loss", 'loss = "poisson"', CAPE, LABELLED.replace("[-1, 1]", "[0, 10]")),
}


def text_of(analysis: str, parameters: str, protocol: str, data: str, *, epsilon: float = 1.0) -> str:
    sites = "\n".join(f"[sites.{name}]\nrecords = 60" for name in ("ava", "bob", "cid", "dot"))
    head = f'[study]\nname = "audited"\nanalysis = "{analysis}"\nepsilon = {epsilon}\ndelta = 1e-5\n{parameters}'
    return f"{head}\n[protocol]\n{protocol}\n{sites}\n[data]\n{data}\n"


def audited(study: Study, factors: Mapping[str, float] | None = None, **options: Any) -> list[StudyAudit]:
    return audit_study(study, noise=Replay, **{"n_trials": TRIALS, "factors": factors, **options})


@pytest.mark.parametrize("name", STUDIES)
def test_a_true_guarantee_is_kept_and_half_the_noise_is_noticed(name: str) -> None:
    study = Study.parse(text_of(*STUDIES[name]))
    for found in audited(study):
        assert not found.refuted
        assert not found.messages
        assert found.delta == 1e-5
        assert found.tested_delta == pytest.approx(100 / TRIALS)
        assert found.claimed_epsilon <= 1
        # An attack far below the claim would be a poor attack, not good privacy.
        assert found.tightness > 0.25
        assert 0.8 < found.reached <= 1 + 1e-6
    assert all(found.gaussian_epsilon > found.claimed_epsilon for found in audited(study, HALF))


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An installed package with losses; its name."""
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2]))
    from tests.site_folder.parts_package import PACKAGE, forget, install

    monkeypatch.syspath_prepend(str(install(tmp_path)))
    yield PACKAGE
    forget()


def test_code_of_another_package_is_attacked_as_the_sites_compute_it(package: str) -> None:
    """The loss makes one record of a block everybody's. Enclosed, that is paid for; as its author states it, not."""
    text = text_of("polynomial_loss", 'loss = "grabber"', 'kind = "independent"', LABELLED)
    study = Study.parse(text + "[package]\nblock = 6\n", packages=ANY_PACKAGE)
    assert study.enclosure is not None
    assert study.enclosure.package == package
    for found in audited(study):
        assert not found.refuted
        assert not found.messages
        assert found.status.startswith("conditional")
        assert 0.95 < found.reached <= 1 + 1e-6
    assert all(found.gaussian_epsilon > found.claimed_epsilon for found in audited(study, HALF))
    assert all(found.refuted for found in audited(replace(study, enclosure=None)))


KINDS = {
    "ranges": 'kind = "rows"\nbound = 1.0\ncolumns = ["a", "b"]\nranges = [[20, 90], [0, 1]]',
    "classes": LABELLED.replace("response = [-1, 1]", 'classes = ["no", "yes"]'),
    "views": 'kind = "views"\nbounds = [1.0, 2.0]\nx = { columns = ["a", "b"] }\ny = { columns = ["c"] }',
    "documents": 'kind = "documents"\nfeatures = 5',
    "table": f'{TABLE}\nseen = {{ range = ["2020-01-01", "2024-12-31"] }}',
    "time points": 'kind = "subjects"\nfeatures = 3\nbound = 2.0\nunit = "record"',
    "people": 'kind = "subjects"\nfeatures = 3\nbound = 2.0\nunit = "subject"\nrows_per_subject = 5',
}


@pytest.mark.parametrize("data", KINDS.values(), ids=KINDS)
def test_numbers_make_records_of_every_declared_shape(data: str) -> None:
    plan = read_data(TomlTable(TomlSource(f"[data]\n{data}\n", "study.toml"), ("data",)), Path())
    wanted = plan.records(MadeUp(plan, 7, 0)).facts().shape_facts()
    for size in (0.0, 1.0, -1e3, 1e100):
        records = plan.records(NumbersHeld(plan, np.full((7, numbers_per_unit(plan)), size)))
        assert records.n_records == 7
        assert records.facts().shape_facts() == wanted


def test_lost_sites_are_a_second_adversary_and_each_site_can_be_attacked() -> None:
    study = Study.parse(text_of(*STUDIES["regression"]))
    first, second = audited(study, n_trials=2000, site="cid")
    assert first.site == second.site == "cid"
    assert (first.adversary, second.adversary) == (
        "secure-sum, 1 site colluding",
        "secure-sum, 1 site colluding, 1 site lost",
    )
    with pytest.raises(InvalidParameter, match="site must be one of ava, bob, cid, dot; got 'eve'"):
        audited(study, site="eve")


def test_a_study_without_noise_has_nothing_to_audit() -> None:
    with pytest.raises(InvalidParameter, match="got 'exact', which guarantees nothing"):
        audited(Study.parse(text_of("mean", "", 'kind = "exact"', ROWS)))


@known_loss
class Mixing(RecordLoss):
    """Standardises within its block."""

    name: ClassVar[str] = "test audit, standardised"
    degree: ClassVar[int] = 1
    parameter_bound: ClassVar[float] = 1.0
    vectorised: ClassVar[bool] = True

    def coefficients(self, rows: Any, targets: Any, facts: PublicFacts) -> Any:
        slopes = np.asarray(targets)[:, np.newaxis] * rows
        return [np.zeros((len(rows), 1)), slopes / (np.abs(slopes).max(axis=0) + 1e-3)]

    def bound(self, facts: PublicFacts) -> float:
        return 1.0


def test_a_loss_that_mixes_records_is_refuted_where_the_search_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The attack compares totals: one record that changes what 59 others contribute is far beyond the diameter."""
    parameters = 'loss = "test audit, standardised"'
    with pytest.raises(InvalidParameter, match="must depend on their own record only"):
        Study.parse(text_of("polynomial_loss", parameters, 'kind = "independent"', LABELLED))
    monkeypatch.setattr("dpcape.statistics.block_search.require_separate_records", lambda *_: None)
    study = Study.parse(text_of("polynomial_loss", parameters, 'kind = "independent"', LABELLED))
    (found,) = audited(study)
    assert found.reached > 1.5
    assert found.refuted
    assert found.status.startswith("conditional")


def test_a_message_that_depends_on_records_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = Site.__init__

    def leaking(self: Any, name: str, records: Any, **options: Any) -> None:
        facts(self, name, records, **options)
        longest = max(float(np.abs(block).max()) for block in records.feature_blocks())
        self._facts = type(self._facts)(
            **{field: getattr(self._facts, field) for field in self._facts.__struct_fields__ if field != "owner_note"},
            owner_note="" if name != "ava" or longest < 0.999 else "somebody is at the bound",
        )

    study = Study.parse(text_of("mean", "", 'kind = "independent"', ROWS))
    case = study_case(study)
    pair = Neighbours(np.zeros(2), np.array([30.0, 0.0]), 1.0)
    assert compared_messages(case, study, pair, seed=1) == ()
    monkeypatch.setattr(Site, "__init__", leaking)
    assert "reply 1 of ava (Described)" in compared_messages(case, study, pair, seed=1)


def test_runs_of_different_length_differ() -> None:
    one = [("ava", "Agreed", {"key": ("bytes", 32)})]
    assert differences(one, one) == []
    assert differences(one, [("ava", "Refused", {"text": ""})]) == ["reply 1 of ava (Agreed)"]
    assert differences(one, []) == ["the number of replies (1 and 0)"]


# The command


def command(*words: str) -> Result:
    return CliRunner().invoke(main, ["audit", *words], catch_exceptions=False)


@pytest.fixture
def study_file(tmp_path: Path) -> Path:
    path = tmp_path / "study.toml"
    path.write_text(text_of(*STUDIES["mean"]))
    return path


def test_the_command_prints_the_tightness_and_its_exit_code_says_the_same(study_file: Path) -> None:
    words = (str(study_file), "--trials", "4000", "--seed", "1")
    kept = command(*words, "--json")
    assert kept.exit_code == 0
    (found,) = json.loads(kept.stdout)
    assert found["tightness"] == pytest.approx(found["gaussian_epsilon"] / found["claimed_epsilon"])
    halved = command(*words, "--half-noise")
    assert halved.exit_code == 1
    shown = " ".join(halved.stdout.split())
    assert "independent, 3 sites colluding: REFUTED" in shown
    assert "reached / claimed:" in shown
    assert "Delta 1e-05 needs about 10000000 trials to be counted" in shown
    assert "never prove it" in shown


def test_the_report_of_a_run_shows_its_audit(study_file: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    CliRunner().invoke(main, ["run", str(study_file), "--rehearse", "--out", str(run)], catch_exceptions=False)
    assert "reached / claimed" not in (run / "report.html").read_text()
    done = command(str(study_file), "--trials", "1000", "--seed", "1", "--run", str(run))
    assert done.exit_code == 0
    assert json.loads((run / "audit.json").read_text())[0]["study"] == "audited"
    page = (run / "report.html").read_text()
    assert "reached / claimed" in page
    assert "1,000 trials with either" in page
    # An audit of another study is not shown.
    other = json.loads((run / "audit.json").read_text())
    other[0]["digest"] = "0"
    (run / "audit.json").write_text(json.dumps(other))
    CliRunner().invoke(main, ["report", str(run)], catch_exceptions=False)
    assert "reached / claimed" not in (run / "report.html").read_text()


def test_what_a_study_says_itself_is_not_given_besides(study_file: Path, tmp_path: Path) -> None:
    for words in (("--epsilon", "2"), ("--delta", "0.1"), ("--all",), ("pca",)):
        refused = command(str(study_file), *words)
        assert refused.exit_code == 2
        assert "with its own epsilon, delta and protocol" in refused.stderr
    assert command("mean", "--site", "ava").exit_code == 2
    CliRunner().invoke(main, ["run", str(study_file), "--rehearse", "--out", str(tmp_path / "run")])
    study_file.write_text(text_of(*STUDIES["mean"], epsilon=2.0))
    refused = command(str(study_file), "--run", str(tmp_path / "run"))
    assert refused.exit_code == 2
    assert "must be the folder of a finished run of this study" in refused.stderr
