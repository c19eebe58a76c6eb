"""CCA as published, simulated fMRI and EEG, the figures' cells, and verdicts that can fail."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from verdict_search import about

from dpcape.metrics import calinski_harabasz
from dpcape.postprocessing.eigen import canonical
from dpcape_papers.experiments.comparison import Method, MethodResult, Task
from dpcape_papers.experiments.data import DataFolder
from dpcape_papers.experiments.experiment import RunSetting
from dpcape_papers.experiments.fusion import CORRELATIONS, potentials, simulated_fusion
from dpcape_papers.experiments.results import NON_PRIVATE, PUBLISHED, VERIFIED, Results, Row, row
from dpcape_papers.figures.cca import EXPERIMENTS
from dpcape_papers.figures.cca.claims import CHAPTER, PAPER, Text, by_delta, by_size, poster
from dpcape_papers.figures.cca.methods import CH, ERROR, KEPT, OWN_RECORDS, RATIO, judged, separation, task
from dpcape_papers.figures.cca.pairs import VIEW_BOUND, clustered, fusion_pairs
from dpcape_papers.figures.cca.utility import utility
from dpcape_papers.published.cape import assumed_colluding, cape_exposure
from dpcape_papers.published.cca import canonical_directions
from dpcape_papers.published.pca import verified_epsilon
from dpcape_papers.verdicts import Curve

NOWHERE = DataFolder(None)
BY_NAME = {experiment.name: experiment for experiment in EXPERIMENTS}


def moment_of(pairs: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    stacked = np.hstack(pairs)
    return np.asarray(stacked.T @ stacked / len(stacked))


def test_printed_eigenvectors_are_the_canonical_directions_of_a_clean_moment() -> None:
    people = fusion_pairs(400, [1])
    moment = moment_of((people.x, people.y))
    weights = canonical(moment, (5, 5), 0.0)
    for printed, ours in zip(canonical_directions(moment, 5, 5), weights[:2], strict=True):
        unit = ours / np.linalg.norm(ours, axis=0)
        assert np.abs(np.sum(printed * unit, axis=0)) == pytest.approx(np.ones(5), abs=1e-7)


def test_printed_eigenvectors_of_an_indefinite_moment_are_real_and_independent() -> None:
    noise = np.random.default_rng(2).standard_normal((12, 12))
    for directions in canonical_directions(noise + noise.T, 6, 4):
        assert directions.shape == (6, 4)
        assert np.linalg.matrix_rank(directions) == 4


def test_colluders_of_theorem_7_1() -> None:
    assert [assumed_colluding(n) for n in (3, 4, 5, 10)] == [0, 1, 1, 3]


def test_profiles_have_exactly_the_stated_correlations() -> None:
    people = simulated_fusion(np.random.default_rng(3), n_people=300)
    first, second = people.fmri_profiles, people.eeg_profiles
    assert first.T @ first / 300 == pytest.approx(np.eye(5), abs=1e-12)
    assert second.T @ second / 300 == pytest.approx(np.eye(5), abs=1e-12)
    assert first.T @ second / 300 == pytest.approx(np.diag(CORRELATIONS), abs=1e-12)
    assert np.allclose(people.fmri, first @ people.maps)
    assert people.eeg.shape == (300, 6360)


def test_potentials_are_distinct_waves_of_norm_one() -> None:
    waves = potentials(np.random.default_rng(4), 5, 1000)
    assert np.linalg.norm(waves, axis=1) == pytest.approx(np.ones(5))
    assert np.linalg.matrix_rank(waves) == 5


def test_every_record_keeps_the_public_bound() -> None:
    for pairs in (fusion_pairs(500, [5]), clustered(NOWHERE, "MOCHA-TIMIT"), clustered(NOWHERE, "Synthetic")):
        for view in (pairs.x, pairs.y):
            assert np.linalg.norm(view, axis=1).max() <= VIEW_BOUND * (1 + 1e-12)
    assert "stand-in" in clustered(NOWHERE, "MOCHA-TIMIT").name


def test_reduced_people_keep_their_correlations_but_for_clipping() -> None:
    people = fusion_pairs(2000, [6])
    assert canonical(moment_of((people.x, people.y)), (5, 5), 0.0)[2] == pytest.approx(np.array(CORRELATIONS), abs=0.01)


def test_drawing_takes_equally_many_of_each_group() -> None:
    drawn = clustered(NOWHERE, "Synthetic").draw(503, [7])
    assert sorted(np.bincount(drawn.groups).tolist()) == [100, 100, 101, 101, 101]


def small(copies: int = 1, scheme: str = "chapter") -> object:
    pairs = clustered(NOWHERE, "Synthetic").draw(1000, [8])
    return task(pairs, n_sites=10, delta=0.01, copies=copies, scheme=scheme, seed=0, n_judged=1000)


def test_index_is_that_of_the_metric_and_counts_copies() -> None:
    once, often = small(), small(copies=10)
    pairs = once.options["pairs"]
    directions = canonical(moment_of((pairs.x, pairs.y)), (20, 20), 0.0)[:2]
    directions = (directions[0][:, :4], directions[1][:, :4])
    first, second = judged(directions, once), judged(directions, often)
    assert first[KEPT] == pytest.approx(1.0)
    assert second[RATIO] == first[RATIO]
    assert second[CH] / first[CH] == pytest.approx((10000 - 5) / (1000 - 5))
    scores = pairs.x @ np.linalg.qr(directions[0])[0]
    from sklearn.cluster import KMeans

    labels = KMeans(5, n_init=2, random_state=0).fit_predict(scores)
    assert first[CH] == pytest.approx(calinski_harabasz(scores, labels))
    # Repeating every record ten times is the same as stating the index for ten times as many.
    assert calinski_harabasz(np.tile(scores, (10, 1)), np.tile(labels, 10)) == pytest.approx(second[CH])
    assert separation(scores, 5, 0) == pytest.approx(first[RATIO])


def test_useless_directions_score_less() -> None:
    held = small()
    pairs = held.options["pairs"]
    best = canonical(moment_of((pairs.x, pairs.y)), (20, 20), 0.0)[:2]
    found = judged((best[0][:, -4:], best[1][:, -4:]), held)
    good = judged((best[0][:, :4], best[1][:, :4]), held)
    assert found[KEPT] < 0.3
    assert found[RATIO] < 0.3 * good[RATIO]


@pytest.mark.parametrize(("name", "n_colluding"), [("dissertation-7.1", 3), ("capecca-2", 8)])
def test_a_tiny_cell_has_every_curve_and_both_epsilons(name: str, n_colluding: int) -> None:
    cell = next(c for c in BY_NAME[name].cells(RunSetting(quick=True, data=NOWHERE)) if c.options["letter"] == "e")
    rows = cell.compute(NOWHERE, **{**cell.options, "points": [1.0]})
    errors = {(r["curve"], r["calibration"]): r for r in rows if r["measure"] == ERROR}
    assert len(errors) == 9
    assert float(errors[("non-private", NON_PRIVATE)]["value"]) < 0.01
    for curve in ("pooled", "CAPE", "conventional", "local"):
        assert 0.999 < float(errors[(curve, VERIFIED)]["verified_epsilon"]) <= 1.0
    expected = verified_epsilon(epsilon=1.0, delta=0.01, exposure=cape_exposure(10, n_colluding))
    assert errors[("CAPE", PUBLISHED)]["verified_epsilon"] == pytest.approx(expected)


def fit_first_columns(held: Task, epsilon: float, seed: int) -> MethodResult:
    """Return a scheme that looks at nothing: the first coordinates of both views."""
    return MethodResult((np.eye(5), np.eye(5)), 0.0)  # rows are not drawn


LOOKS_AT_NOTHING = Method("nothing", VERIFIED, fit_first_columns)


def test_a_method_of_ones_own_joins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mine", sys.modules[__name__])
    cells = BY_NAME["dissertation-7.1"].cells(RunSetting(quick=True, data=NOWHERE, runs=1))
    assert {c.options["run"] for c in cells} == {0}
    cell = next(c for c in cells if c.options["letter"] == "e")
    rows = cell.compute(NOWHERE, **{**cell.options, "points": [1.0], "methods": ["mine:LOOKS_AT_NOTHING"]})
    (own,) = (r for r in rows if r["curve"] == "nothing" and r["measure"] == ERROR)
    assert own["verified_epsilon"] == 0.0
    assert float(own["value"]) > 0.05


def test_copies_are_people_only_in_published_calibrations() -> None:
    cells = BY_NAME["dissertation-7.1"].cells(RunSetting(quick=True, data=NOWHERE))
    cell = next(c for c in cells if c.options["letter"] == "j")
    rows = cell.compute(NOWHERE, **{**cell.options, "points": [50], "n_records": 500, "n_judged": 300})
    assert "stand-in for XRMB" in str(rows[0]["panel"])
    real = {(r["curve"], r["calibration"]): r["verified_epsilon"] for r in rows}
    assert float(real[("CAPE", VERIFIED)]) <= 0.5
    expected = verified_epsilon(epsilon=0.5, delta=0.01, exposure=cape_exposure(10, 3), copies=50)
    assert real[("CAPE", PUBLISHED)] == pytest.approx(expected)
    assert expected > 100
    index = {(r["curve"], r["calibration"]): float(r["value"]) for r in rows if r["measure"] == CH}
    assert index[(OWN_RECORDS, PUBLISHED)] < 0.5 * index[("local", PUBLISHED)]


def test_the_poster_stays_within_its_claim_at_small_epsilon() -> None:
    assert verified_epsilon(epsilon=1.0, delta=0.01, sensitivity=math.sqrt(2)) < 1.0
    # The classical formula fails from 6.78 on at delta 1e-2.
    assert verified_epsilon(epsilon=6.7, delta=0.01, sensitivity=math.sqrt(2)) < 6.7
    assert verified_epsilon(epsilon=6.9, delta=0.01, sensitivity=math.sqrt(2)) > 6.9


def test_full_runs_have_all_panels_and_ten_runs() -> None:
    for name, letters in (("dissertation-7.1", "abcdefghijkl"), ("capecca-3", "abc"), ("poster-2", "abc")):
        cells = BY_NAME[name].cells(RunSetting(quick=False, data=NOWHERE))
        assert {(c.options["letter"], c.options["run"]) for c in cells} == {(a, r) for a in letters for r in range(10)}


def made(
    panel: str, curve: str, kind: str, values: dict[str, list[float]], points: list[float], real: float
) -> list[Row]:
    return [
        row(
            panel=panel, curve=curve, calibration=kind, x=x, measure=measure, value=value * (1 + 1e-7 * run),
            claimed_epsilon=1.0, verified_epsilon=real, delta=0.01, run=run,
        )
        for measure, held in values.items()
        for x, value in zip(points, held, strict=True)
        for run in range(3)
    ]  # fmt: skip


def figure(bys: list[str], cape: list[float], other: list[float], real: float) -> Results:
    rows: list[Row] = []
    for letter, by in zip("abc", bys, strict=False):
        panel, points = f"({letter}) MNIST, by {by}", [1e-5, 1e-2]
        for curve in ("non-private", "pooled", "CAPE", "conventional", "local", OWN_RECORDS):
            for kind in (NON_PRIVATE,) if curve == "non-private" else (PUBLISHED, VERIFIED):
                values = {"non-private": [1.0, 1.0], "CAPE": cape, "pooled": cape}.get(curve, other)
                measured = {CH: [10 * values[0], 50 * values[1]], RATIO: values, KEPT: values}
                rows += made(panel, curve, kind, measured, points, real)
    return Results(rows)


def test_verdicts_of_sizes_follow_the_rows() -> None:
    bys = ["epsilon", "records", "replication"]
    good = {v.claim: v.outcome for v in by_size(CHAPTER)(figure(bys, [0.5, 0.99], [0.2, 0.6], 0.9))}
    bad = {v.claim: v.outcome for v in by_size(CHAPTER)(figure(bys, [0.5, 0.3], [0.6, 0.9], 2.0))}
    for words in ("outperforms conventional", "outperforms local", "theorem 7.1"):
        assert (about(good, words), about(bad, words)) == ("holds", "fails")
    # A larger epsilon than those tried may be enough.
    assert (about(good, "approaches the non-private"), about(bad, "approaches the non-private")) == (
        "holds",
        "not shown",
    )
    # CH grows by the number of records alone.
    assert about(good, "larger CH at larger N") == "not shown"


@pytest.mark.parametrize(("text", "n_colluding"), [(CHAPTER, 3), (PAPER, 8)])
def test_what_copies_cost_is_told_apart_from_the_theorem(text: Text, n_colluding: int) -> None:
    (found,) = (v for v in by_delta(text)(figure(["delta"], [0.5, 0.9], [0.2, 0.6], 400.0)) if "stated" in v.claim)
    alone = verified_epsilon(epsilon=1.0, delta=0.01, exposure=cape_exposure(10, n_colluding))
    *_, last = found.numbers.split("; ")
    assert "without copies" in last
    assert f"{alone:.3g} at delta 0.01" in last


def test_verdicts_of_delta_and_of_the_poster_follow_the_rows() -> None:
    good = {v.claim: v.outcome for v in by_delta(CHAPTER)(figure(["delta"], [0.5, 0.99], [0.2, 0.6], 0.9))}
    bad = {v.claim: v.outcome for v in by_delta(CHAPTER)(figure(["delta"], [0.97, 0.6], [0.2, 0.6], 0.9))}
    for words in ("larger delta", "delta of about 0.01", "delta of 1/N"):
        assert (about(good, words), about(bad, words)) == ("holds", "fails")
    outcomes = [v.outcome for v in poster(figure(["records"], [0.5, 0.9], [0.1, 0.1], 2.0))]
    assert outcomes == ["holds", "fails"]


def test_utility_of_errors_runs_from_nothing_found_to_the_non_private_result() -> None:
    nothing = float(np.linalg.norm(CORRELATIONS)) / 5
    rows = made("(a) p, by epsilon", "non-private", NON_PRIVATE, {ERROR: [0.0, 0.0]}, [1, 2], 1.0)
    rows += made("(a) p, by epsilon", "CAPE", VERIFIED, {ERROR: [nothing, 0.0]}, [1, 2], 1.0)
    found = utility(Results(rows), Curve("CAPE", VERIFIED))["(a) p, by epsilon"]
    assert [found[1.0], found[2.0]] == pytest.approx([0.0, 1.0], abs=1e-6)
