"""Verdicts about published noise come from the authors' setting wherever it was run."""

from __future__ import annotations

from dataclasses import replace

from dpcape_papers.experiments.authors_setting import OURS, THEIRS, in_authors_setting
from dpcape_papers.experiments.replica import REPLICA
from dpcape_papers.experiments.results import NON_PRIVATE, PUBLISHED, VERIFIED, Results, Row, row
from dpcape_papers.experiments.verdict import Verdict
from dpcape_papers.figures.replicas import cca, network, pca, tensor
from dpcape_papers.verdicts import Curve, Yardstick, compare_curves, together

ERRORS = Yardstick("smaller")


def rows(panel: str, kind: str, cape: float, other: float) -> list[Row]:
    return [
        row(panel=panel, curve=curve, calibration=kind, x=1.0, measure="m", value=value + 0.01 * run, run=run)
        for curve, value in (("CAPE", cape), ("conventional", other))
        for run in range(4)
    ]


def judge(results: Results) -> list[Verdict]:
    parts = {
        kind: compare_curves(results, Curve("CAPE", kind), Curve("conventional", kind), ERRORS)
        for kind in (PUBLISHED, VERIFIED)
    }
    counted = Verdict("CAPE is better.", "here", *together(parts))
    return [counted, Verdict("A theorem holds.", "there", "fails", "as it was", measured=False)]


def translated(results: Results) -> Results:
    return Results({**r, "calibration": PUBLISHED} for r in results)


OWN = Results([*rows("own", PUBLISHED, 3.0, 2.0), *rows("own", VERIFIED, 5.0, 4.0)])
REP = replace(pca.REPLICA_4_1, translated=translated)


def test_published_noise_is_judged_by_the_authors_rows_and_verified_noise_by_ours() -> None:
    theirs = Results(rows("theirs", REPLICA, 1.0, 2.0))
    assert [verdict.outcome for verdict in judge(OWN)] == ["fails", "fails"]
    found = {verdict.claim: verdict for verdict in in_authors_setting(judge, OWN, theirs, REP)}
    assert found[f"CAPE is better ({THEIRS})"].outcome == "holds"
    assert found[f"CAPE is better ({OURS})"].outcome == "fails"
    assert found["A theorem holds."].numbers == "as it was"
    assert len(found) == 3


def test_without_the_authors_rows_our_own_decide() -> None:
    assert in_authors_setting(judge, OWN, Results([]), REP) == judge(OWN)
    # A judge that cannot do with the authors' points keeps ours.
    broken = replace(REP, translated=lambda results: Results([{**results[0], "calibration": PUBLISHED, "x": None}]))
    assert in_authors_setting(judge, OWN, Results(rows("t", REPLICA, 1.0, 2.0)), broken) == judge(OWN)


def made(panel: str, curve: str, x: float) -> Row:
    return row(panel=panel, curve=curve, calibration=REPLICA, x=x, measure="?", value=50.0, run=0, original="f")


def test_rows_are_translated_into_the_format_of_our_experiments() -> None:
    found = network._translated(Results([made("b", "CAPE", 0.1), made("c", "non-private", 1000.0)]))
    assert [(r["panel"], r["measure"], r["value"], r["calibration"]) for r in found] == [
        (network.BY_EPSILON, network.TEST, 0.5, PUBLISHED), (network.BY_RECORDS, network.TRAIN, 0.5, NON_PRIVATE)
    ]  # fmt: skip
    (found_pca,) = pca._translated(Results([made("g", "local", 0.01)]))
    assert str(found_pca["panel"]).endswith(", by delta")
    assert (found_pca["claimed_epsilon"], found_pca["delta"]) == (1.0, 0.01)
    # CH of one site counts its own records, a tenth of all: its separation is ten times CH per record.
    clusters = Results([made("a", curve, 1.0) for curve in ("CAPE", "local")])
    ratio = {r["curve"]: r["value"] for r in cca._translated("7.1", clusters) if r["measure"] == cca.RATIO}
    assert 9.9 < ratio["local"] / ratio["CAPE"] < 10.1
    (mixture,) = tensor._translated("5.1", Results([made("bottom-3", "CAPE", 20_000.0)]))
    assert (mixture["x"], mixture["site_size"], mixture["model"]) == (1.0, 20_000, "mixture")


def test_the_judges_of_the_figures_take_the_authors_rows() -> None:
    """Every scheme at every point of a panel, three runs: the judge of figure 5.1 decides by them."""
    points = [
        {**made(panel, curve, x), "value": value * (1 + 0.001 * run), "run": run}
        for panel, xs in (("top-1", (0.1, 1.0, 10.0)), ("bottom-1", (10_000.0, 160_000.0)))
        for x in xs
        for run in range(3)
        for curve, value in (("non-private", 0.1), ("CAPE", 0.2), ("conventional", 0.4), ("local", 0.8))
    ]
    from dpcape_papers.figures.tensor.verdicts import judge_sizes

    theirs = tensor.REPLICA_5_1.translated(Results(points))
    ours = [{**r, "calibration": VERIFIED} for r in theirs if r["calibration"] == PUBLISHED]
    found = judge_sizes(Results([*theirs, *ours]))
    outcome = {verdict.claim: verdict.outcome for verdict in found}
    assert outcome[f"capeAGN has lower error than conventional in all settings ({PUBLISHED})"] == "holds"
