"""The site looks at its own data: what is wrong is shown to the site, and to nobody else."""

from __future__ import annotations

import json
import logging
import shutil
import warnings
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner

from dpcape.cli import main
from dpcape.core.errors import InvalidParameter
from dpcape.core.messages import Describe, encode
from dpcape.core.noise import Replay
from dpcape.core.privacy.ledger import Ledger
from dpcape.core.secure_sum.identity import Identity
from dpcape.core.site import Site
from dpcape.records.own_check import SENTINELS, check_column
from dpcape.schema.column import Column
from dpcape.site.folder import SiteFolder
from dpcape.study.study import Study
from dpcape.transport.request_handler import refusal_of

from .place import Place
from .visitor import Visitor

TEXT = """
[study]
name = "habits"
analysis = "mean"
epsilon = 1.0
delta = 1e-5
[protocol]
kind = "independent"
[sites.lyon]
[data]
kind = "rows"
[data.columns]
age = [18, 90]
score = { range = [0, 100], missing = 50 }
sex = { levels = ["F", "M"] }
"""
N = 200


def columns(**changes: dict[int, object]) -> dict[str, list[object]]:
    rng = np.random.default_rng(6)
    made: dict[str, list[object]] = {
        "subject_id": [f"p{number}" for number in range(N)],
        "age": [int(value) for value in rng.integers(20, 89, N)],
        "score": [float(value) for value in rng.uniform(5, 95, N).round(2)],
        "sex": ["FM"[value] for value in rng.integers(0, 2, N)],
    }
    for name, entries in changes.items():
        for row, value in entries.items():
            made[name][row] = value
    return made


def written(path: Path, table: dict[str, list[object]]) -> Path:
    lines = [",".join(table), *(",".join(map(str, line)) for line in zip(*table.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def site_with(home: Path, table: dict[str, list[object]], text: str = TEXT) -> tuple[SiteFolder, Path]:
    home.mkdir(exist_ok=True)
    folder = SiteFolder.create(home / "lyon", name="lyon")
    folder.add_data("cohort", written(home / "cohort.csv", table), epsilon=3.0, delta=1e-4)
    (home / "study.toml").write_text(text, encoding="utf-8")
    return folder, home / "study.toml"


def checked(folder: SiteFolder, study: Path, *words: str) -> tuple[int, dict[str, Any]]:
    arguments = ["site", "check", str(study), "--folder", str(folder.path), *words, "--json"]
    result = CliRunner().invoke(main, arguments, catch_exceptions=False)
    return result.exit_code, json.loads(result.stdout)


def test_clean_data_raise_no_alarm(tmp_path: Path) -> None:
    folder, study = site_with(tmp_path, columns())
    code, found = checked(folder, study)
    assert (code, found["alarms"], found["n_records"], found["person"]) == (0, [], N, "subject_id")
    assert all(entry["codes"] == {} for entry in found["columns"])


FIRST = range(30)
ALARMS = [
    ({"score": dict.fromkeys(FIRST, -9999)}, "Column 'score': 30 of 200 (15.0%) are -9999"),
    ({"score": dict.fromkeys(FIRST, 99)}, "Column 'score': 30 of 200 (15.0%) are 99"),
    ({"age": dict.fromkeys(FIRST, 700)}, "Column 'age': 30 of 200 (15.0%) are outside the public range"),
    ({"sex": dict.fromkeys(FIRST, "female")}, "Column 'sex': 30 of 200 (15.0%) are not on the public list"),
    ({"sex": dict.fromkeys(FIRST, "9")}, "Column 'sex': 30 of 200 (15.0%) are 9, which"),
    ({"score": dict.fromkeys(range(120), "NA")}, "Column 'score': 120 of 200 (60.0%) are missing"),
    ({"score": dict.fromkeys(range(N), 200.5)}, "Column 'score': all values become the same number"),
    ({"age": dict.fromkeys(FIRST, "")}, "30 of 200 (15.0%) records cannot be read"),
    ({"subject_id": dict.fromkeys(FIRST, "p199")}, "1 people have several rows (column 'subject_id')"),
]


@pytest.mark.parametrize(("changes", "words"), ALARMS, ids=[words[:40] for _, words in ALARMS])
def test_what_makes_a_study_meaningless_is_a_red_line(
    tmp_path: Path, changes: dict[str, dict[int, object]], words: str
) -> None:
    folder, study = site_with(tmp_path, columns(**changes))
    code, found = checked(folder, study)
    assert code == 1
    assert any(text.startswith(words) for text in found["alarms"]), found["alarms"]


def test_rows_that_are_there_twice_and_rows_beyond_the_bound(tmp_path: Path) -> None:
    table = columns()
    for values in table.values():
        values[:20] = values[20:40]
    folder, study = site_with(tmp_path, table, TEXT.replace('kind = "rows"', 'kind = "rows"\nbound = 0.2'))
    code, found = checked(folder, study)
    assert (code, found["twice"], found["several"]) == (1, 20, 20)
    assert found["clipped"] > 0.9 * N
    text = CliRunner().invoke(main, ["site", "check", str(study), "--folder", str(folder.path)]).output
    assert "RED: 20 of 200 (10.0%) rows are there more than once." in text
    assert "rows are longer than the bound" in text


def test_the_column_of_people_may_be_named(tmp_path: Path) -> None:
    table = columns()
    table["household"] = [number // 2 for number in range(N)]
    folder, study = site_with(tmp_path, table)
    assert checked(folder, study, "--person", "household")[1]["several"] == N // 2
    result = CliRunner().invoke(main, ["site", "check", str(study), "--folder", str(folder.path), "--person", "hous"])
    assert result.exit_code == 2
    assert "--person must name a column" in result.output


def test_other_kinds_of_records_are_checked_too(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    np.save(tmp_path / "x.npy", np.where(rng.uniform(size=(50, 3)) < 0.1, -999.0, rng.uniform(0, 1, (50, 3))))
    np.savez(tmp_path / "series.npz", X=rng.normal(size=(6, 8, 3)) * 9)
    cases = {
        'kind = "rows"\nfeatures = 3\nranges = [0, 1]': ("x.npy", "mean", ""),
        'kind = "table"\n[data.columns]\nage = [18, 90]\nsex = { levels = ["F", "M"] }': ("cohort.csv", "summary", ""),
        'kind = "labelled"\ntarget = "sex"\nclasses = ["F", "M"]\n[data.columns]\nage = [18, 90]': (
            "cohort.csv",
            "logistic_regression",
            "",
        ),
        'kind = "subjects"\nfeatures = 3\nbound = 1.0\nunit = "subject"\nrows_per_subject = 8': (
            "series.npz",
            "joint_ica",
            "n_components = 2\nn_timepoints = 8\ninsist = true",
        ),
    }
    written(tmp_path / "cohort.csv", columns(age=dict.fromkeys(FIRST, -9999)))
    from dpcape.records.own_check import check_own
    from dpcape.records.readers.files import open_file

    found = []
    for data, (file, analysis, parameters) in cases.items():
        head = (
            TEXT.split("[data]")[0]
            .replace('"mean"', f'"{analysis}"')
            .replace("delta = 1e-5", f"delta = 1e-5\n{parameters}")
        )
        study = Study.parse(f"{head}[data]\n{data}\n")
        found.append(check_own(open_file(tmp_path / file, study.data), study.data))
    assert any("-999" in text for text in found[0].alarms)
    assert any("-9999" in text for text in found[1].alarms)
    assert any("-9999" in text for text in found[2].alarms)
    assert (found[3].n_rows, found[3].clipped) == (48, 48)


def test_a_code_inside_the_range_must_stand_out() -> None:
    """Ages of 88 and scores of 99 are no codes; a false alarm on smooth data is rare (none in 200 columns here)."""
    rng = np.random.default_rng(9)
    for _ in range(100):
        assert check_column(Column(name="age", range=(18, 95)), rng.integers(18, 95, 500).astype(float)).codes == {}
        assert check_column(Column(name="x"), rng.normal(80, 20, 500).round()).codes == {}
    spiked = np.append(rng.normal(20, 3, 300), np.full(20, 88.0))
    assert check_column(Column(name="x", range=(0, 100)), spiked).codes == {88.0: 20}
    for code in SENTINELS:
        assert check_column(Column(name="x", range=(0.5, 1.5)), np.array([1.0, 1.2, code])).codes == {float(code): 1}


def state_of(home: Path) -> dict[Path, bytes]:
    """Return the content of all files but SQLite's table of locks, which any reading changes."""
    return {path: path.read_bytes() for path in home.rglob("*") if path.is_file() and not path.name.endswith("-shm")}


def test_a_check_writes_says_and_spends_nothing_elsewhere(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder, study = site_with(tmp_path, columns(score=dict.fromkeys(FIRST, -9999), age=dict.fromkeys(FIRST, "")))
    before = state_of(tmp_path)
    with warnings.catch_warnings(), caplog.at_level(logging.DEBUG):
        # A warning would carry a count into a log.
        warnings.simplefilter("error")
        assert checked(folder, study)[0] == 1
    # The lock of the ledger says that it was taken, and nothing of data.
    assert [entry.name for entry in caplog.records if entry.name != "filelock"] == []
    assert state_of(tmp_path) == before


@pytest.mark.filterwarnings("ignore::dpcape.core.errors.UtilityWarning")
def test_what_the_coordinator_gets_does_not_depend_on_what_the_check_finds(tmp_path: Path) -> None:
    """The same description and the same texts, whatever is wrong with the data."""
    described = []
    for name, table in (
        ("clean", columns()),
        ("codes", columns(score=dict.fromkeys(FIRST, -9999))),
        ("unreadable", columns(age=dict.fromkeys(FIRST, ""))),
        ("twice", columns(subject_id=dict.fromkeys(FIRST, "p199"))),
    ):
        folder, study = site_with(tmp_path / name, table)
        checked(folder, study)
        records = Study.load(study).records_for("lyon", tmp_path / name / "cohort.csv")
        site = Site("lyon", records, ledger=Ledger(), identity=identity, noise=Replay(1))
        described.append(site.answer(encode(Describe())))
    assert len(set(described)) == 1
    for error in (
        InvalidParameter("cohort.csv, line 17: column 'score' must hold numbers"),
        InvalidParameter("Column 'score': 30 of 200 are -9999"),
        ValueError("17"),
    ):
        sent = msgspec.json.encode(refusal_of(error)).decode()
        assert "17" not in sent
        assert "score" not in sent
        assert "9999" not in sent


identity = Identity.generate()


def test_nothing_that_answers_the_coordinator_knows_the_check() -> None:
    import subprocess
    import sys

    code = (
        "import sys, dpcape.core.site, dpcape.site.folder, dpcape.site.vault.server, dpcape.transport.request_handler;"
        "print([name for name in sys.modules if 'own_check' in name or 'own_data' in name])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_the_page_shows_it_to_the_steward_alone(place: Place, steward: Visitor) -> None:
    before = len(place.kinds())
    study = steward.page(f"study/{place.study.digest()}")
    assert "Computed for the 40 records of this data set" in study.text
    page = steward.page(f"study/{place.study.digest()}/check?data=cohort")
    assert "what this study would find" in page.text
    assert "rows longer than the bound" in page.text
    assert len(place.kinds()) == before
    assert not any("clipped" in line or "longer" in line for line in place.terminal)


def test_a_review_counts_the_records_there_are(tmp_path: Path) -> None:
    folder, study = site_with(tmp_path, columns())
    run = CliRunner().invoke(main, ["site", "review", str(study), "--folder", str(folder.path)])
    assert "Computed for the 200 records of this data set." in run.output
    small = {name: values[:50] for name, values in columns().items()}
    written(tmp_path / "cohort.csv", small)
    run = CliRunner().invoke(main, ["site", "review", str(study), "--folder", str(folder.path)])
    assert "Computed for the 50 records of this data set." in run.output
    (tmp_path / "cohort.csv").write_text("age\nx\n")
    run = CliRunner().invoke(main, ["site", "review", str(study), "--folder", str(folder.path)])
    assert "could not be read: see dpcape site check" in run.output
    shutil.rmtree(tmp_path / "lyon")
