"""Summaries: intervals cover whatever the distribution, figures are those of the records, and the table says them.

The full grid is ``experiments/everyday/summary.py``; its figures are in docs/analyses/summary.md. A cell of coverage is
decided by an exact one-sided binomial test at 1e-5 for each of its figures, so that a true law fails one of these
tests with a probability of at most 1.5e-3 (seeds are fixed).
"""

from __future__ import annotations

import csv
import io
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from experiments.everyday import summary as cells
from scipy.stats import binom

from dpcape import Cape, Exact, Federation, Independent, Replay, Summary, in_process, table
from dpcape.core.errors import DpcapeWarning, InvalidParameter
from dpcape.postprocessing.group_summaries import CellCounts, Level, quantile_and_interval, size_interval

ROOT = Path(__file__).parents[2]
ALPHA = 1e-5
quiet = pytest.mark.filterwarnings(
    "ignore::dpcape.core.errors.UtilityWarning", "ignore::dpcape.core.errors.UndeterminedWarning"
)


STORED = json.loads((ROOT / "experiments" / "everyday" / "summary.json").read_text("utf-8"))


@pytest.mark.parametrize(("cell", "runs"), [(cells.Cell(800, 1.0), 25), (cells.Cell(5000, 3.0, 4), 15)], ids=str)
def test_intervals_cover_in_quick_cells(cell: Any, runs: int) -> None:
    for entry in cells.coverage(cell, runs):
        assert entry["p_value"] >= ALPHA, entry


def test_the_stored_grid_refutes_no_interval_and_reaches_large_tables() -> None:
    assert STORED["refuted"] == []
    limit = cells.FAMILY / len(STORED["coverage"])
    for entry in STORED["coverage"]:
        assert binom.cdf(round(entry["share"] * entry["trials"]), entry["trials"], 0.95) >= limit, entry
    assert any("N100000" in entry["cell"] for entry in STORED["coverage"])


def test_the_encoding_beats_a_histogram() -> None:
    found = {entry["bins"]: entry["ratio"] for entry in cells.encoding_ratios()}
    assert found[32] <= 0.65
    stored = {entry["bins"]: entry["ratio"] for entry in STORED["encoding"]}
    assert found == pytest.approx(stored, rel=1e-9)


def test_the_stored_figures_on_real_people_are_within_their_limits() -> None:
    found = {entry["cell"]: entry for entry in STORED["abide"]}["ABIDE, 833 people, eps 3"]
    assert found["age median"] <= 0.5
    assert found["count"] <= 4


def _lump(place: float, n_bins: int, size: float) -> CellCounts:
    """Return exact counts of records that all have one value."""
    knots = np.arange(n_bins + 1.0)
    return CellCounts(size * np.maximum(1 - np.abs(knots - place), 0.0), np.zeros((n_bins + 1, n_bins + 1)))


@pytest.mark.parametrize("place", [0.0, 3.0, 3.3, 3.5, 3.999, 8.0])
@pytest.mark.parametrize("q", [0.05, 0.5, 0.9])
def test_the_interval_of_a_quantile_holds_for_a_single_value(place: float, q: float) -> None:
    _, (low, high) = quantile_and_interval(_lump(place, 8, 1e6), q, Level(0.95))
    # Points are tried at sixteenths of a bin.
    assert low - 1 / 16 <= place <= high + 1 / 16
    assert high - low <= 2.2


def _people(n_records: int, seed: int = 0) -> dict[str, Any]:
    generator = np.random.default_rng(seed)
    group = generator.choice(np.array(["new", "old", None], dtype=object), n_records, p=[0.5, 0.45, 0.05])
    age = generator.gamma(9, 5, n_records) + 4 * (group == "old")
    age[::11] = np.nan
    seen = np.datetime64("2020-01-01") + generator.integers(0, 1000, n_records)
    return {
        "age": age,
        "seen": seen,
        "sex": generator.choice(np.array(["F", "M"], dtype=object), n_records),
        "arm": group,
    }


COLUMNS: dict[str, Any] = {
    "age": (0, 120),
    "seen": {"range": ["2020-01-01", "2023-12-31"]},
    "sex": ["F", "M"],
    "arm": ["new", "old"],
}


def _federation(
    protocol: Any, n_records: int = 4000, n_sites: int = 3, seed: int = 0
) -> tuple[Federation, dict[str, Any]]:
    people = _people(n_records)
    parts = np.array_split(np.arange(n_records), n_sites)
    held = {
        f"site-{at}": table({name: values[part] for name, values in people.items()}, columns=COLUMNS)
        for at, part in enumerate(parts)
    }
    return Federation(in_process(held, noise=Replay(seed)), protocol=protocol), people


@quiet
def test_without_noise_the_figures_are_those_of_the_records() -> None:
    federation, people = _federation(Exact())
    model = Summary(epsilon=1.0, delta=1e-5, by="arm", bins=256).fit(federation)
    for group in ("all", "new", "old", "missing"):
        inside = np.array([group in ("all", arm if arm is not None else "missing") for arm in people["arm"]])
        age = people["age"][inside]
        sex = people["sex"][inside]
        assert model.figure("", "records", group=group) == pytest.approx(inside.sum(), abs=1e-6)
        assert model.figure("age", "count", "missing", group=group) == pytest.approx(np.isnan(age).sum(), abs=1e-6)
        assert model.figure("age", "mean", group=group) == pytest.approx(np.nanmean(np.clip(age, 0, 120)), abs=1e-6)
        assert model.figure("age", "sd", group=group) == pytest.approx(np.nanstd(age), abs=0.02)
        assert model.figure("age", "quantile", "0.5", group=group) == pytest.approx(np.nanmedian(age), abs=0.5)
        assert model.figure("sex", "share", "F", group=group) == pytest.approx((sex == "F").mean(), abs=1e-9)
        days = (people["seen"][inside] - np.datetime64("1970-01-01")).astype(float)
        assert model.figure("seen", "quantile", "0.25", group=group) == pytest.approx(np.quantile(days, 0.25), abs=12)


@quiet
def test_groups_sum_to_all_and_cost_no_noise() -> None:
    federation, _ = _federation(Cape(n_colluding=1), 4000)
    model = Summary(epsilon=2.0, delta=1e-5, by=["arm"]).fit(federation)
    plain = Summary(epsilon=2.0, delta=1e-5, columns=["age", "seen", "sex"]).fit(federation)
    assert model.releases_[0].scale == pytest.approx(plain.releases_[0].scale, rel=1e-6)
    counts = model.table_[0]
    assert counts[1:].sum() == pytest.approx(counts[0], abs=1e-6)
    assert counts[0] == 4000


@quiet
def test_a_weight_moves_noise_from_one_column_to_another() -> None:
    widths = {}
    for weights in (None, [4.0, 1.0, 1.0]):
        federation, _ = _federation(Independent(), 2000, 1)
        model = Summary(epsilon=1.0, delta=1e-5, columns=["age", "seen", "sex"], bins=32, weights=weights).fit(
            federation
        )
        low, high = model.interval("age", "count", "missing")
        other = model.interval("sex", "count", "F")
        widths[weights is None] = (high - low, other[1] - other[0])
    assert widths[False][0] < widths[True][0] < widths[False][1] / 1.5


@quiet
def test_a_group_that_noise_hides_is_said_to_be_unknown() -> None:
    federation, _ = _federation(Independent(), 40, 1)
    model = Summary(epsilon=0.1, delta=1e-5, by="arm").fit(federation)
    assert model.interval("age", "quantile", "0.5", group="new") == (0.0, 120.0)
    assert model.interval("age", "mean", group="new") == (0.0, 120.0)
    assert model.interval("sex", "share", "F", group="new") == (0.0, 1.0)
    assert not any(entry.word == "determined" for entry in model.verdicts_)


@quiet
def test_the_table_is_written_in_every_form(tmp_path: Path) -> None:
    federation, _ = _federation(Cape(n_colluding=1), 4000)
    model = Summary(epsilon=3.0, delta=1e-5, by=["arm"]).fit(federation)
    model.save(tmp_path / "model.npz")
    again = Summary.load(tmp_path / "model.npz")
    text = model.to_text()
    assert again.to_text() == text
    for words in (
        "age, median [25%, 75%]",
        "age, mean (SD)",
        "sex: F, n (%)",
        "seen, median",
        "records in group missing",
    ):
        assert words in text
    assert "seen, mean" not in text
    shown = model.to_markdown().splitlines()
    assert shown[0] == "|  | all | new | old |"
    assert {line.count("|") for line in shown if line.startswith("|")} == {5}
    assert " to " in model.to_markdown(intervals=True)
    latex = model.to_latex()
    assert latex.startswith(r"\begin{tabular}{lrrr}")
    assert r"n (\%)" in latex
    written = list(csv.DictReader(io.StringIO(model.to_csv(tmp_path / "results.csv"))))
    assert (tmp_path / "results.csv").read_text("utf-8") == model.to_csv()
    assert len(written) == model.table_.size
    median = next(row for row in written if (row["name"], row["part"], row["group"]) == ("seen", "0.5", "new"))
    assert median["low"] <= median["estimate"] <= median["high"]
    assert median["estimate"].startswith("202")
    assert ((model.interval_[0] <= model.table_ + 1e-9) & (model.table_ <= model.interval_[1] + 1e-9)).all()


def test_names_with_marks_of_latex_and_markdown_stay_names() -> None:
    people = {"a|b_1%": np.linspace(0, 1, 3000), "g": np.array(["x&y", "z"] * 1500, dtype=object)}
    records = table(people, columns={"a|b_1%": (0, 1), "g": ["x&y", "z"]})
    federation = Federation(in_process({"here": records}, noise=Replay(1)), protocol=Independent())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DpcapeWarning)
        model = Summary(epsilon=1.0, delta=1e-5, by="g").fit(federation)
    assert r"a\|b_1%" in model.to_markdown()
    assert r"a|b\_1\%" in model.to_latex()
    assert r"x\&y" in model.to_latex()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"by": ["age"]}, "by must name columns with public levels"),
        ({"by": ["no"]}, "by must name columns of the table"),
        ({"columns": ["arm"], "by": ["arm"]}, "no column that is in by"),
        ({"quantiles": (0.5, 1.0)}, "quantiles must be"),
        ({"quantiles": ()}, "quantiles must be"),
        ({"weights": [1.0]}, "weights must be 4 numbers"),
        ({"bins": 1}, "bins must be"),
    ],
)
def test_what_cannot_be_summarised_is_refused_before_anything_is_charged(options: Any, words: str) -> None:
    federation, _ = _federation(Independent(), 50, 1)
    with pytest.raises(InvalidParameter, match=words):
        Summary(epsilon=1.0, delta=1e-5, **options).fit(federation)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"sex": ["F", "missing"], "arm": ["new", "old"]}, "must not be called 'missing'"),
        ({"sex": ["F", "M"], "arm": ["new", "all"]}, "must not be called 'all'"),
    ],
)
def test_levels_that_could_be_mistaken_are_refused(columns: Any, words: str) -> None:
    people = {"sex": np.array(["F"] * 30, dtype=object), "arm": np.array(["new"] * 30, dtype=object)}
    federation = Federation(in_process({"here": table(people, columns=columns)}), protocol=Independent())
    with pytest.raises(InvalidParameter, match=words):
        Summary(epsilon=1.0, delta=1e-5, by="arm").fit(federation)


@quiet
def test_groups_of_two_columns_are_their_combinations_and_sites_have_no_weights() -> None:
    people = _people(3000)
    parts = np.array_split(np.arange(3000), 3)
    held = {
        name: table({column: values[part] for column, values in people.items()}, columns=COLUMNS)
        for name, part in zip(("ava", "bob", "cid"), parts, strict=True)
    }
    line = in_process(held, noise=Replay(2))
    federation = Federation(line, protocol=Exact())
    model = Summary(epsilon=1.0, delta=1e-5, by=["arm", "sex"], columns=["age"]).fit(federation)
    assert model.groups_.tolist()[:3] == ["all", "arm=new, sex=F", "arm=new, sex=M"]
    assert model.complete_.sum() == 5
    assert len(model.groups_) == 10
    weighted = Federation(line, protocol=Exact(), weights={"ava": 0.8, "bob": 0.1, "cid": 0.1})
    with pytest.raises(InvalidParameter, match="counts every record once"):
        Summary(epsilon=1.0, delta=1e-5).fit(weighted)


def test_a_figure_that_is_not_in_the_table_is_named() -> None:
    federation, _ = _federation(Exact(), 500, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DpcapeWarning)
        model = Summary(epsilon=1.0, delta=1e-5).fit(federation)
    with pytest.raises(KeyError, match="median"):
        model.figure("age", "median")


def test_sizes_stay_between_none_and_all_records() -> None:
    """Noise can take a count beyond the public number of records, or below zero, by more than its interval is wide."""
    assert size_interval(2410.0, 4.0, Level(0.95), 2400.0) == (pytest.approx(2400 - 3.92, abs=1e-3), 2400.0)
    # An interval from 0 to 0 would say that nobody is there.
    assert size_interval(-9.0, 4.0, Level(0.95), 2400.0) == (0.0, pytest.approx(3.92, abs=1e-3))
