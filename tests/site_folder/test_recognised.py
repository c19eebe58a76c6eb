"""What a site recognises of records it knows, what it does not, and that it then asks its steward.

The list in `dpcape.site.cohorts`, in the steward's guide and in the threat model is this one.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest
from click.testing import CliRunner

from dpcape.cli import main
from dpcape.core.errors import InvalidParameter
from dpcape.site.folder import SiteFolder

N_ROWS = 120
RNG = np.random.default_rng(13)
TABLE = polars.DataFrame(
    {
        "age": RNG.normal(50, 12, N_ROWS).round(2),
        "height": RNG.normal(170, 9, N_ROWS).round(2),
        "sex": RNG.choice(["F", "M"], N_ROWS),
        "thickness": RNG.normal(3, 0.4, N_ROWS),
    }
)
REVERSED = ["thickness", "sex", "height", "age"]
Change = Callable[[polars.DataFrame], polars.DataFrame]

RECOGNISED: dict[str, Change] = {
    "the same file": lambda table: table,
    "rows permuted": lambda table: table.sample(fraction=1.0, shuffle=True, seed=1),
    "named columns in another order": lambda table: table.select(REVERSED),
    "columns renamed in the same order": lambda table: table.rename({"age": "years", "sex": "gender"}),
    "a subset of rows": lambda table: table[10:50],
    "a few rows changed": lambda table: table.with_columns(
        polars.when(polars.int_range(polars.len()) < 5).then(0.0).otherwise(polars.col("age")).alias("age")
    ),
}
ASKED: dict[str, Change] = {
    "a column left out": lambda table: table.drop("height"),
    "a column added": lambda table: table.with_columns(polars.Series("visit", range(N_ROWS))),
    "renamed and permuted": lambda table: table.select(REVERSED).rename({"age": "years", "sex": "gender"}),
    "a column rescaled": lambda table: table.with_columns(polars.col("height") / 100),
    "a column rounded": lambda table: table.with_columns(polars.col("thickness").round(1)),
    "a column recoded": lambda table: table.with_columns(polars.col("sex").replace({"F": "female", "M": "male"})),
}
UNNOTICED: dict[str, Change] = {
    "a subset of rows and a column left out": lambda table: table[10:50].drop("height"),
    "most columns left out": lambda table: table.select("thickness"),
}
OUTCOMES = (
    [(how, "recognised") for how in RECOGNISED]
    + [(how, "asked") for how in ASKED]
    + [(how, "unnoticed") for how in UNNOTICED]
)
CHANGES = {**RECOGNISED, **ASKED, **UNNOTICED}


@pytest.fixture
def place(tmp_path: Path) -> SiteFolder:
    TABLE.write_csv(tmp_path / "cohort.csv")
    made = SiteFolder.create(tmp_path / "lyon", name="lyon")
    made.add_data("cohort", tmp_path / "cohort.csv", epsilon=1.0, delta=1e-5)
    return made


def add(place: SiteFolder, path: Path, **more: Any) -> None:
    place.add_data("again", path, epsilon=1.0, delta=1e-5, **more)


@pytest.mark.parametrize(("how", "outcome"), OUTCOMES)
def test_the_same_people_in_other_words(place: SiteFolder, tmp_path: Path, how: str, outcome: str) -> None:
    path = tmp_path / "other.csv"
    CHANGES[how](TABLE).write_csv(path)
    rows = place.chain.entries()
    if outcome == "unnoticed":
        add(place, path)
        return
    words = r"one budget; got one that is already|shares \d+(\.\d+)?% of its rows with 'cohort'"
    match = words if outcome == "recognised" else r"may be of the same people as cohort: 120 rows, 4 columns"
    with pytest.raises(InvalidParameter, match=match):
        add(place, path)
    # The answer to the question is no answer to what is recognised.
    if outcome == "recognised":
        with pytest.raises(InvalidParameter, match=words):
            add(place, path, different_people=True)
    assert place.chain.entries() == rows
    assert list(place.data_sets()) == ["cohort"]


def test_columns_without_names_are_counted(place: SiteFolder, tmp_path: Path) -> None:
    table = np.random.default_rng(3).normal(size=(90, 5))
    np.save(tmp_path / "a.npy", table)
    place.add_data("scans", tmp_path / "a.npy", epsilon=1.0, delta=1e-5)
    np.save(tmp_path / "b.npy", table[:, [4, 2, 0, 1, 3]])
    with pytest.raises(InvalidParameter, match="may be of the same people as scans: 90 rows, 5 columns"):
        add(place, tmp_path / "b.npy")


@pytest.mark.parametrize(
    "table",
    [np.zeros((60, 4)) + np.arange(60)[:, None], np.zeros((N_ROWS, 40)) + np.arange(N_ROWS)[:, None]],
    ids=["other rows", "other columns"],
)
def test_data_sets_of_another_size_are_not_asked_about(place: SiteFolder, tmp_path: Path, table: np.ndarray) -> None:
    np.save(tmp_path / "b.npy", table + 1)
    add(place, tmp_path / "b.npy")


def test_the_stewards_answer_is_a_row_and_holds_for_the_file_as_it_is(place: SiteFolder, tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    ASKED["a column rescaled"](TABLE).write_csv(path)
    add(place, path, different_people=True)
    note = next(entry for entry in place.chain.entries() if entry.kind == "note")
    assert "stated that it is of other people" in note.body["text"]
    add(place, path)
    assert sum(entry.kind == "note" for entry in place.chain.entries()) == 1
    ASKED["a column rounded"](TABLE).write_csv(path)
    with pytest.raises(InvalidParameter, match="--different-people"):
        add(place, path)


@pytest.mark.parametrize(("answer", "is_added"), [("y\n", True), ("n\n", False), ("\n", False)])
def test_the_command_asks(
    place: SiteFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, is_added: bool
) -> None:
    path = tmp_path / "other.csv"
    ASKED["a column left out"](TABLE).write_csv(path)
    words = ["site", "add", "again", str(path), "--epsilon", "1", "--delta", "1e-5", "--folder", str(place.path)]
    unasked = CliRunner().invoke(main, words)
    assert unasked.exit_code != 0
    assert "--different-people" in unasked.output
    monkeypatch.setattr("dpcape.cli.site._is_terminal", lambda: True)
    asked = CliRunner().invoke(main, words, input=answer)
    assert "cohort: 120 rows, 4 columns, 3 of the same name" in asked.output
    assert (asked.exit_code == 0) == is_added
    assert ("again" in place.data_sets()) == is_added


def test_the_flag_answers_without_a_question(place: SiteFolder, tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    ASKED["a column left out"](TABLE).write_csv(path)
    words = ["site", "add", "again", str(path), "--epsilon", "1", "--delta", "1e-5", "--folder", str(place.path)]
    added = CliRunner().invoke(main, [*words, "--different-people", "--json"])
    assert added.exit_code == 0, added.output
