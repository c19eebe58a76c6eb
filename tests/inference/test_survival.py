"""Survival curves: intervals cover however follow-up ends, the log-rank test keeps its level, and the tables say so.

The full grid is ``experiments/everyday/survival.py``; its figures are in docs/analyses/survival.md. A cell of coverage
is decided by an exact one-sided binomial test at 1e-5 for each of its figures, so that a true law fails one of these
tests with a probability of at most 2e-4 (seeds are fixed).
"""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from experiments.everyday import survival as cells
from scipy.stats import binom

from dpcape import Cape, Exact, Federation, Independent, KaplanMeier, LogRank, Replay, in_process, table
from dpcape.core.errors import InvalidParameter
from dpcape.estimators.survival.curves import curve_of, log_rank, median_of
from dpcape.postprocessing.group_summaries import CellCounts, Level

ROOT = Path(__file__).parents[2]
ALPHA = 1e-5
STORED = json.loads((ROOT / "experiments" / "everyday" / "survival.json").read_text("utf-8"))
quiet = pytest.mark.filterwarnings(
    "ignore::dpcape.core.errors.UtilityWarning", "ignore::dpcape.core.errors.UndeterminedWarning"
)


@pytest.mark.parametrize(
    ("cell", "runs"),
    [(cells.Cell(400, 1.0, 1, "late", "constant"), 60), (cells.Cell(3000, 1.0, 4, "two times", "at two times"), 25)],
    ids=str,
)
def test_intervals_cover_in_quick_cells(cell: Any, runs: int) -> None:
    for entry in cells.coverage(cell, runs):
        assert entry["p_value"] >= ALPHA, entry


def test_the_stored_grid_refutes_no_interval_and_no_level() -> None:
    assert STORED["refuted"] == []
    limit = cells.FAMILY / len(STORED["coverage"])
    for entry in STORED["coverage"]:
        assert binom.cdf(round(entry["share"] * entry["trials"]), entry["trials"], 0.95) >= limit, entry
    levels = [entry for entry in STORED["test"] if "p_value" in entry]
    assert len(levels) == 6
    for entry in levels:
        assert binom.sf(round(entry["share"] * entry["trials"]) - 1, entry["trials"], 0.05) >= 0.05, entry


def test_the_stored_figures_on_real_patients_are_within_their_limit() -> None:
    found = {entry["cell"]: entry["largest error"] for entry in STORED["gbsg2"]}
    assert found["gbsg2, 686 patients, eps 1"] <= 0.03


def test_the_log_rank_test_finds_nothing_where_there_is_nothing() -> None:
    entry = cells.differences(cells.Cell(500, 1.0), 60, unequal=True)
    assert entry["p_value"] >= ALPHA, entry


def _exact(events: list[float], ended: list[float], beyond: float) -> CellCounts:
    counts = np.array([*events, *ended, beyond, 0.0])
    return CellCounts(counts, np.zeros((len(counts), len(counts))))


@pytest.mark.parametrize("ends_first", [True, False])
def test_intervals_allow_for_any_order_within_a_bin(ends_first: bool) -> None:
    # Half of those at risk leave in each bin: the curve depends on whether that is before or after the events.
    events, ended, at_risk = [1e6, 4e5, 1e5], [2e6, 9e5, 2e5], 4.7e6
    curve, share, left = curve_of(_exact(events, ended, 1e5), Level(0.95)), 1.0, at_risk
    for at, (died, gone) in enumerate(zip(events, ended, strict=True)):
        share *= 1 - died / (left - gone if ends_first else left)
        left -= died + gone
        assert curve.low[at] - 1e-9 <= share <= curve.high[at] + 1e-9
        assert curve.high[at] - curve.low[at] < 0.9


def test_without_noise_and_censoring_the_curve_is_the_share_that_is_left() -> None:
    curve = curve_of(_exact([9000.0, 500.0, 400.0], [0.0, 0.0, 0.0], 100.0), Level(0.95))
    np.testing.assert_allclose(curve.survival, [0.1, 0.05, 0.01], rtol=1e-9)
    # Without censoring Greenwood's variance is that of a share.
    z, n = 1.959963984540054, 1e4
    wilson = (0.05 + z * z / (2 * n) + np.array([-1, 1]) * z * math.sqrt(0.05 * 0.95 / n + (z / (2 * n)) ** 2)) / (
        1 + z * z / n
    )
    np.testing.assert_allclose([curve.low[1], curve.high[1]], wilson, rtol=1e-6)


def test_where_nobody_is_known_to_be_at_risk_nothing_is_claimed() -> None:
    counts = np.array([10.0, 10.0, 10.0, 20.0, 950.0, 0.0, 0.0, 0.0])
    held = CellCounts(counts, 16.0 * np.eye(8))
    curve = curve_of(held, Level(0.95))
    assert curve.low[1] == curve.low[2] == 0.0
    assert curve.high[2] == curve.high[1] == curve.high[0] < 1.0
    hidden = curve_of(CellCounts(counts, 1e6 * np.eye(8)), Level(0.95))
    assert hidden.low.max() == 0.0
    assert hidden.high.min() == 1.0
    assert log_rank([CellCounts(counts, 1e6 * np.eye(8))] * 2).p_value == 1.0


def test_the_log_rank_test_without_noise_is_the_textbook_one() -> None:
    rng = np.random.default_rng(4)
    arm, time = rng.integers(0, 2, 4000), np.ceil(rng.exponential(40, 4000))
    n_bins = 64
    held = []
    for group in (0, 1):
        own = time[arm == group]
        events = [float(np.sum(own == day)) for day in range(1, n_bins + 1)]
        held.append(_exact(events, [0.0] * n_bins, float(np.sum(own > n_bins))))
    excess = variance = 0.0
    for day in range(1, n_bins + 1):
        at_risk, own = np.sum(time >= day), np.sum((time >= day) & (arm == 0))
        died = np.sum(time == day)
        excess += np.sum((time == day) & (arm == 0)) - died * own / at_risk
        variance += died * own / at_risk * (1 - own / at_risk) * (at_risk - died) / (at_risk - 1)
    found = log_rank(held)
    # Ties within a bin are the only difference.
    assert found.statistic == pytest.approx(excess**2 / variance, rel=0.05, abs=0.02)
    assert found.observed.sum() == pytest.approx(found.expected.sum())


def test_the_median_is_reported_only_as_far_as_the_intervals_go() -> None:
    times = np.linspace(0.0, 4.0, 5)
    curve = curve_of(_exact([2e5, 1e5, 3e5, 2e5], [0.0] * 4, 2e5), Level(0.95))
    value, (low, high) = median_of(curve, times)
    assert (low, high) == (2.0, 3.0)
    assert value == pytest.approx(2 + 2 / 3, abs=0.01)
    early = curve_of(_exact([1e5, 1e5, 1e5, 0.0], [0.0] * 4, 7e5), Level(0.95))
    assert median_of(early, times) == (math.inf, (4.0, math.inf))


COLUMNS: dict[str, Any] = {
    "survival": {"time": "days", "event": "died", "range": [0, 1000]},
    "arm": ["new", "old"],
    "age": (18, 90),
}


def _people(n_records: int, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    arm = rng.choice(np.array(["new", "old", None], dtype=object), n_records, p=[0.5, 0.45, 0.05])
    time, end = rng.exponential(np.where(arm == "old", 450, 900)), rng.uniform(100, 1500, n_records)
    days = np.minimum(time, end)
    days[::25] = np.nan
    return {"days": days, "died": (time <= end).astype(int), "arm": arm, "age": rng.uniform(18, 90, n_records)}


def _federation(protocol: Any, n_records: int = 3000, n_sites: int = 3, **options: Any) -> Federation:
    people = _people(n_records)
    parts = np.array_split(np.arange(n_records), n_sites)
    held = {
        f"site-{at}": table({name: values[part] for name, values in people.items()}, columns=COLUMNS)
        for at, part in enumerate(parts)
    }
    return Federation(in_process(held, noise=Replay(3)), protocol=protocol, **options)


@quiet
def test_without_noise_the_curves_are_those_of_the_records() -> None:
    model = KaplanMeier(epsilon=1.0, delta=1e-5, by="arm", bins=200).fit(_federation(Exact()))
    people = _people(3000)
    present = ~np.isnan(people["days"])
    for group in ("all", "new", "old"):
        chosen = present & np.array([group in ("all", arm) for arm in people["arm"]])
        at = list(model.groups_).index(group)
        time, event = people["days"][chosen], people["died"][chosen]
        exact = cells.product_limit(time, event, model.times_)
        np.testing.assert_allclose(model.survival_[:, at], exact, atol=0.003)
        at_risk = [np.sum(time >= moment) for moment in model.times_[:-1]]
        np.testing.assert_allclose(model.at_risk_[:-1, at], at_risk, atol=1e-6)
        # Those whose times were moved to the end of the range are followed up to there.
        assert model.at_risk_[-1, at] == pytest.approx(np.sum(time >= 1000), abs=1e-6)


@quiet
def test_groups_cost_no_noise_and_a_horizon_cuts_the_curve() -> None:
    federation = _federation(Cape(n_colluding=1))
    by = KaplanMeier(epsilon=1.0, delta=1e-5, by=["arm"]).fit(federation)
    plain = KaplanMeier(epsilon=1.0, delta=1e-5, horizon=400).fit(federation)
    assert by.releases_[0].scale == pytest.approx(plain.releases_[0].scale, rel=1e-6)
    assert plain.times_[-1] == 400
    assert np.isnan(plain.log_rank_).all()
    assert by.log_rank_[2] < 0.001
    assert by.at_risk_[0, 1:].sum() == pytest.approx(by.at_risk_[0, 0], abs=30)
    test = LogRank("arm", epsilon=1.0, delta=1e-5).fit(federation)
    assert test.p_values_ < 0.001
    assert test.observed_[1] > test.expected_[1]


@quiet
def test_the_curves_are_written_drawn_and_kept(tmp_path: Path) -> None:
    model = KaplanMeier(epsilon=3.0, delta=1e-5, by=["arm"]).fit(_federation(Cape(n_colluding=1)))
    model.save(tmp_path / "model.npz")
    assert KaplanMeier.load(tmp_path / "model.npz").to_text() == model.to_text()
    text = model.to_text()
    for words in ("median", "at risk after", "missing", "log-rank test", "df, p ="):
        assert words in text
    written = list(csv.DictReader(io.StringIO(model.to_csv(tmp_path / "results.csv"))))
    *figures, test = written
    assert len(figures) == len(model.groups_) * (2 * len(model.times_) + 1)
    for row in figures:
        assert float(row["low"]) - 1e-9 <= float(row["estimate"]) <= float(row["high"]) + 1e-9, row
    assert (test["quantity"], float(test["p_value"])) == ("log-rank chi2", pytest.approx(model.log_rank_[2]))
    assert ((model.survival_ >= 0) & (model.survival_ <= 1)).all()
    assert (np.diff(model.survival_, axis=0) <= 1e-12).all()
    drawn = model.plot_curves()
    assert len(drawn.get_lines()) == 2
    value, (low, high) = model.at(333.0, group="new")
    assert low <= value <= high
    with pytest.raises(KeyError, match="groups_ and times_"):
        model.at(1e6)
    with pytest.raises(KeyError, match="groups_ and times_"):
        model.at(1.0, group="none")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"by": ["age"]}, "by must name columns with public levels"),
        ({"by": ["died"]}, "not part of the time to an event"),
        ({"event": "relapse"}, "event must name a time to an event"),
        ({"horizon": 1001}, "horizon must be a positive number up to 1000"),
        ({"horizon": 0}, "horizon must be"),
        ({"bins": 1}, "bins must be"),
        ({"confidence": 1.0}, "confidence must be"),
    ],
)
def test_what_cannot_be_drawn_is_refused_before_anything_is_charged(options: Any, words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        KaplanMeier(epsilon=1.0, delta=1e-5, **options).fit(_federation(Independent(), 60, 1))


def test_tables_without_a_time_groups_and_weights_are_refused() -> None:
    plain = {"here": table({"age": np.linspace(20, 60, 50)}, columns={"age": (0, 100)})}
    federation = Federation(in_process(plain), protocol=Independent())
    with pytest.raises(InvalidParameter, match="of which there are: none"):
        KaplanMeier(epsilon=1.0, delta=1e-5).fit(federation)
    with pytest.raises(InvalidParameter, match="by must name at least one column"):
        LogRank([], epsilon=1.0, delta=1e-5).fit(_federation(Independent(), 60, 1))
    weighted = _federation(Exact(), 60, 3, weights={"site-0": 0.8, "site-1": 0.1, "site-2": 0.1})
    with pytest.raises(InvalidParameter, match="counts every record once"):
        KaplanMeier(epsilon=1.0, delta=1e-5).fit(weighted)
