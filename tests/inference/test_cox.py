"""Hazard ratios: those of pooled records without noise, intervals that cover, tests that hold, open where noise hides.

The full grid is ``experiments/everyday/cox.py``; its figures are in docs/analyses/cox.md. A cell of coverage is decided
by an exact one-sided binomial test at 1e-5, so that a true law fails one of these tests with a probability of at most
2e-4 (seeds are fixed).
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
from experiments.everyday import cox as cells
from scipy.optimize import brentq
from scipy.special import ndtri
from scipy.stats import binom

from dpcape import Cape, Cox, Exact, Federation, Independent, Replay, in_process, table
from dpcape.core.errors import DpcapeWarning, InvalidParameter
from dpcape.estimators.survival.hazards import Baseline, baseline_of

ROOT = Path(__file__).parents[2]
ALPHA = 1e-5
STORED = json.loads((ROOT / "experiments" / "everyday" / "cox.json").read_text("utf-8"))
quiet = pytest.mark.filterwarnings(
    "ignore::dpcape.core.errors.UtilityWarning", "ignore::dpcape.core.errors.UndeterminedWarning"
)
COLUMNS: dict[str, Any] = {
    "survival": {"time": "days", "event": "died", "range": [0, 1000]},
    "age": (20, 100),
    "stage": ["i", "ii", "iii"],
    "arm": ["usual", "new"],
    "site": ["a"],
}
TRUTH = np.array([0.03, 0.4, 0.8, -0.5])


@pytest.mark.parametrize(
    ("cell", "runs"),
    [
        (cells.Cell(2000, 2, 1.0), 40),
        (cells.Cell(4000, 5, 3.0, 1, "frequent"), 30),
        (cells.Cell(20_000, 5, 1.0, 1, "falling", 2.0), 15),
        # Hazards that fall steeply in the first days, and many events at the same times, once had intervals that never
        # covered.
        (cells.Cell(20_000, 2, 3.0, 1, "steep", 2.0), 12),
        (cells.Cell(20_000, 2, 3.0, 1, "at visits", 2.0), 12),
    ],
    ids=str,
)
def test_intervals_cover_in_quick_cells(cell: Any, runs: int) -> None:
    entry = cells.coverage(cell, runs)
    assert entry["p_value"] >= ALPHA, entry
    # Open intervals cover everything: most must be closed.
    assert entry["open"] < 0.75, entry


def test_the_stored_grid_refutes_no_interval_and_no_level() -> None:
    assert STORED["refuted"] == []
    for entry in STORED["coverage"]:
        columns = int(entry["cell"].split(", ")[1].split()[0])
        hits = round(entry["least"] * entry["trials"])
        assert columns * binom.cdf(hits, entry["trials"], 0.95) >= cells.FAMILY / len(STORED["coverage"]), entry
    for entry in STORED["chance"]:
        assert binom.sf(round(entry["share"] * entry["trials"]) - 1, entry["trials"], 0.05) >= 0.05, entry


def test_the_stored_differences_to_pooled_records_are_within_their_limit() -> None:
    found = {entry["cell"].partition(", hazard")[0]: entry["difference / SE"] for entry in STORED["size"]}
    assert found["N20000, 5 columns, eps 1, 4 sites"] <= 0.8


def test_the_hazard_of_a_usual_record_follows_from_that_of_all() -> None:
    """Lognormal hazards by their quantiles, without records: the share that is left, then back to the hazard of one."""
    spread, edges = 1.2, np.linspace(0, 1, 81)
    relative = np.exp(spread * ndtri((np.arange(20_000) + 0.5) / 20_000))
    own = 0.7 * edges**0.8
    left = np.exp(-np.outer(own, relative)).mean(axis=1)
    together = -np.diff(np.log(left)) / np.diff(edges)
    found = Baseline(edges, together, np.zeros(80), 0.6, 0.01).of_usual_record(spread**2)
    np.testing.assert_allclose(found.hazards[3:], np.diff(own)[3:] / np.diff(edges)[3:], rtol=0.02)
    # More events are expected of those who have one: by a factor of at most exp(variance).
    assert 0.01 < found.grain < 0.01 * np.exp(spread**2)
    assert np.abs(found.trend).max() == pytest.approx(1.0)


@pytest.mark.parametrize("place", ["beginning", "end"])
def test_what_bins_do_not_resolve_is_within_the_grain(place: str) -> None:
    """Two groups, all events of a bin at one of its ends, without sampling: the bias of a likelihood of exact times."""
    n_bins, truth, step = 16, 0.4, 0.08
    at_risk, events, exposed = np.array([0.5, 0.5]), np.zeros((n_bins, 2)), np.zeros((n_bins, 2))
    for at in range(n_bins):
        events[at] = at_risk * -np.expm1(-step * np.exp(truth * np.array([-1.0, 1.0])))
        exposed[at] = at_risk - (events[at] if place == "beginning" else 0.0)
        at_risk = at_risk - events[at]
    counts = 1e6 * np.concatenate([events.sum(axis=1), np.zeros(n_bins), [at_risk.sum(), 0.0]])
    grain = baseline_of(counts, noise=0.0, horizon=1.0).of_usual_record(truth**2).grain

    def score(beta: float) -> float:
        expected = exposed * np.exp(beta * np.array([-1.0, 1.0]))
        expected *= (events.sum(axis=1) / expected.sum(axis=1))[:, None]
        return float((events - expected)[:, 1].sum())

    bias = abs(brentq(score, -2, 2) / truth - 1)
    assert 0.01 < bias < grain < 3 * bias


def _people(n_records: int, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    age = rng.normal(60, 12, n_records)
    stage = rng.choice(np.array(["i", "ii", "iii"], dtype=object), n_records)
    arm = rng.choice(np.array(["usual", "new"], dtype=object), n_records)
    design = np.column_stack([np.clip(age, 20, 100) - 60, stage == "ii", stage == "iii", arm == "new"]).astype(float)
    time = 700 * rng.exponential(size=n_records) * np.exp(-design @ TRUTH)
    end = rng.uniform(200, 1600, n_records)
    site = np.full(n_records, "a", dtype=object)
    held = {"days": np.minimum(time, end), "died": (time <= end).astype(int), "age": age, "stage": stage, "arm": arm}
    return {**held, "site": site}


def _federation(protocol: Any, n_records: int, n_sites: int = 1, people: Any = None, **options: Any) -> Federation:
    people = _people(n_records) if people is None else people
    parts = np.array_split(np.arange(n_records), n_sites)
    held = {
        f"site-{at}": table({name: values[part] for name, values in people.items()}, columns=COLUMNS)
        for at, part in enumerate(parts)
    }
    return Federation(in_process(held, noise=Replay(3)), protocol=protocol, **options)


def _partial_likelihood(people: dict[str, Any], horizon: float) -> np.ndarray:
    """Return the maximum of Cox's partial likelihood by Newton steps; times are distinct."""
    design = np.column_stack(
        [people["age"] - 60, people["stage"] == "ii", people["stage"] == "iii", people["arm"] == "new"]
    ).astype(float)
    died = (people["died"] == 1) & (people["days"] < horizon)
    order = np.argsort(-np.minimum(people["days"], horizon), kind="stable")
    design, died, found = design[order], died[order], np.zeros(4)
    for _ in range(8):
        weights = np.exp(design @ found)
        total = np.cumsum(weights)
        means = np.cumsum(weights[:, None] * design, axis=0) / total[:, None]
        squares = np.cumsum(weights[:, None, None] * design[:, :, None] * design[:, None, :], axis=0)
        squares = squares / total[:, None, None] - means[:, :, None] * means[:, None, :]
        found = found + np.linalg.solve(squares[died].sum(axis=0), (design - means)[died].sum(axis=0))
    return found


@quiet
def test_without_noise_the_ratios_are_those_of_the_partial_likelihood() -> None:
    people = _people(20_000)
    people["age"] = np.clip(people["age"], 20, 100)
    model = Cox(["age", "stage", "arm"], epsilon=1.0, delta=1e-5).fit(_federation(Exact(), 20_000, people=people))
    assert list(model.names_) == ["age", "stage: ii against i", "stage: iii against i", "arm: new against usual"]
    # Rows are shortened and follow-up ends early by design: that costs a part of a standard error.
    exact = _partial_likelihood(people, 1000.0)
    np.testing.assert_array_less(np.abs(model.coef_ - exact), 0.5 * model.standard_errors_)
    np.testing.assert_allclose(model.hazard_ratio_, np.exp(model.coef_))
    assert model.noise_part_ == 0.0
    assert model.sd_[0] == pytest.approx(12, rel=0.05)
    assert model.n_complete_ == pytest.approx(20_000)


@quiet
def test_with_noise_ratios_are_found_and_written(tmp_path: Path) -> None:
    model = Cox(["age", "stage", "arm"], epsilon=2.0, delta=1e-5).fit(_federation(Cape(n_colluding=1), 15_000, 3))
    # Within six standard errors: a false alarm in less than 1e-8 of cases.
    assert (np.abs(model.coef_ - TRUTH) < 6 * model.standard_errors_).all()
    assert model.p_values_.max() < 0.01
    model.save(tmp_path / "model.npz")
    assert Cox.load(tmp_path / "model.npz").to_text() == model.to_text()
    written = list(csv.DictReader(io.StringIO(model.to_csv(tmp_path / "results.csv"))))
    assert [row["name"] for row in written] == list(model.names_)
    for row in written:
        assert float(row["low"]) < float(row["estimate"]) < float(row["high"])
    assert "stage: iii against i" in model.to_markdown()
    # A verdict on a ratio has the interval of the ratio, and says whether that holds 1.
    for at, verdict in enumerate(model.verdicts_):
        low, high = model.hazard_ratio_interval_[:, at]
        holds = "contains" if low <= 1 <= high else "excludes"
        assert verdict.reason == f"interval from {low:.3g} to {high:.3g} {holds} 1"
    drawn = model.plot_ratios()
    assert len(drawn.get_yticklabels()) == 4


@quiet
def test_nothing_is_claimed_where_noise_hides_the_curvature() -> None:
    model = Cox(["age", "stage", "arm"], epsilon=0.1, delta=1e-5).fit(_federation(Independent(), 500))
    assert np.isinf(model.standard_errors_).all()
    assert (model.p_values_ == 1).all()
    assert model.interval_[0].max() == -np.inf
    assert model.hazard_ratio_interval_[0].max() == 0.0
    assert {entry.word for entry in model.verdicts_} == {"not determined"}
    assert "not estimable" in model.to_text()
    model.plot_ratios()


def test_missing_values_leave_a_record_out() -> None:
    people = _people(4000)
    people["age"][::4] = np.nan
    people["days"][1::4] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DpcapeWarning)
        whole = Cox("age", epsilon=1.0, delta=1e-5).fit(_federation(Exact(), 4000, people=people))
    assert whole.n_complete_ == pytest.approx(2000)


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        (["height"], {}, "columns must name numbers, or categories"),
        (["died"], {}, "not part of the time to an event"),
        (["site"], {}, "at least two levels"),
        ([], {}, "at least one column"),
        (["age", "age"], {}, "different column names"),
        (["age"], {"event": "relapse"}, "event must name a time to an event"),
        (["age"], {"horizon": 1001}, "horizon must be a positive number up to 1000"),
        (["age"], {"confidence": 1.0}, "confidence must be"),
    ],
)
def test_what_cannot_be_estimated_is_refused_before_anything_is_charged(columns: Any, options: Any, words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        Cox(columns, epsilon=1.0, delta=1e-5, **options).fit(_federation(Independent(), 60))


def test_weights_of_sites_are_refused() -> None:
    weighted = _federation(Exact(), 60, 3, weights={"site-0": 0.8, "site-1": 0.1, "site-2": 0.1})
    with pytest.raises(InvalidParameter, match="counts every record once"):
        Cox("age", epsilon=1.0, delta=1e-5).fit(weighted)
