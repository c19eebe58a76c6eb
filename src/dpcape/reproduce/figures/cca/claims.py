"""What chapter 7 and the paper on capeCCA say about their figures, and what the poster says, judged from the rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from dpcape.reproduce.experiment import Verdict
from dpcape.reproduce.figures.cca.methods import CH, ERROR, KEPT, OWN_RECORDS, RATIO
from dpcape.reproduce.figures.judging import Curve, Tally, all_or_some, by_point, compare_curves, ratios, trend
from dpcape.reproduce.figures.privacy_claims import judge_privacy
from dpcape.reproduce.fusion import CORRELATIONS
from dpcape.reproduce.results import NON_PRIVATE, PUBLISHED, VERIFIED, Results

OPTIMUM = Curve("non-private", NON_PRIVATE)
KINDS = (PUBLISHED, VERIFIED)
# What err_corr is if no correlation is found at all.
_NOTHING = float(np.linalg.norm(CORRELATIONS)) / len(CORRELATIONS)
_REACHED = 0.95


@dataclass(frozen=True)
class Text:
    """Where a text makes its claims, by subject."""

    trade_off: str
    size: str
    delta: str
    theorem: str
    proved: str


CHAPTER = Text("7.3.1", "7.3.2", "7.3.2", "theorem 7.1", "7.2")
PAPER = Text("4", "4", "4", "theorem 1", "3")


def utility(rows: Results, curve: Curve) -> dict[str, dict[float, float]]:
    """Return a curve's share of the non-private utility, by panel and point.

    Of clusters: their separation relative to the non-private one, which unlike CH does not grow with the number of
    records. Of correlations: 1 for the error of the non-private result, 0 for that of finding none.
    """
    found = ratios(rows.where(measure=RATIO), curve, OPTIMUM)
    errors = rows.where(measure=ERROR)
    for panel in errors.values("panel"):
        inside = errors.where(panel=panel)
        ours, best = (_means(inside, one) for one in (curve, OPTIMUM))
        found[str(panel)] = {x: (_NOTHING - ours[x]) / (_NOTHING - best[x]) for x in ours}
    return {panel: points for panel, points in found.items() if points}


def _means(rows: Results, curve: Curve) -> dict[float, float]:
    return {x: float(np.mean(list(runs.values()))) for x, runs in sorted(by_point(rows, curve).items())}


def _panels(results: Results, *by: str) -> Results:
    return Results(r for r in results if str(r["panel"]).rsplit(", by ", 1)[1] in by)


def _against(rows: Results, left: Curve, right: Curve) -> Tally:
    """Compare clusters by separation and correlations by error."""
    clusters = compare_curves(rows.where(measure=RATIO), left, right)
    return clusters + compare_curves(rows.where(measure=ERROR), left, right, smaller=True)


def _steps(rows: Results, curve: Curve, measure: str = RATIO) -> Tally:
    return trend(rows.where(measure=measure), curve) + trend(rows.where(measure=ERROR), curve, smaller=True)


def by_size(text: Text) -> Callable[[Results], list[Verdict]]:
    """Return the judge of figures 7.1 and capeCCA 2."""
    return partial(_by_size, text)


def _by_size(text: Text, results: Results) -> list[Verdict]:
    epsilon = _panels(results, "epsilon")
    size = _panels(results, "records", "replication")
    return [
        _approaches(epsilon, "CAPE", "capeCCA approaches the non-private result as epsilon grows.", text.trade_off),
        _outperforms(results, "conventional", text.trade_off),
        _outperforms(results, "local", text.trade_off),
        _own_records(results, text.trade_off),
        _index_measures(results, text.trade_off),
        _larger(_panels(results, "records"), text.size),
        _copies(_panels(results, "replication"), text.size),
        _index_grows(size, text.size),
        _small_epsilon(size, text.size),
        _pooled(results, text.proved),
        judge_privacy(results, theorem=text.theorem, where=text.proved),
    ]


def by_delta(text: Text) -> Callable[[Results], list[Verdict]]:
    """Return the judge of figures 7.2 and capeCCA 3."""
    return partial(_by_delta, text)


def _by_delta(text: Text, results: Results) -> list[Verdict]:
    tallies = {kind: _steps(results, Curve("CAPE", kind)) for kind in KINDS}
    return [
        _verdict_of(tallies, "A larger delta improves the result of capeCCA.", text.delta),
        _small_delta(results, text.delta),
        _approaches(
            Results(r for r in results if float(r["x"]) >= 1e-2),  # type: ignore[arg-type]  # x is a number
            "CAPE",
            "At delta of about 0.01 capeCCA performs like non-private CCA.",
            text.delta,
        ),
        _outperforms(results, "conventional", text.delta),
        _outperforms(results, "local", text.delta),
        judge_privacy(results, theorem=text.theorem, where=text.proved),
    ]


def poster(results: Results) -> list[Verdict]:
    """Judge a plot of the poster."""
    by = str(results[0]["panel"]).rsplit(", by ", 1)[1]
    claim = {
        "epsilon": "At a fixed sample size a higher epsilon gives a better result.",
        "records": "At a fixed epsilon more samples give a better result.",
        "delta": "A larger delta gives a better result.",
    }[by]
    tallies = {kind: _steps(results, Curve("pooled", kind)) for kind in KINDS}
    verdicts = [_verdict_of(tallies, claim, "remarks")]
    if by == "epsilon":
        strict = Results(r for r in results if float(r["x"]) <= 0.1)  # type: ignore[arg-type]  # x is a number
        claim = "Utility is meaningful even with strict privacy (epsilon 0.1)."
        verdicts.append(_approaches(strict, "pooled", claim, "remarks", enough=0.8))
    return [*verdicts, judge_privacy(results, theorem="step 2", where="algorithm", curve="pooled")]


def _verdict_of(tallies: dict[str, Tally], claim: str, where: str) -> Verdict:
    total = sum(tallies.values(), Tally())
    return Verdict(claim, where, total.outcome, "; ".join(f"{kind}: {tally}" for kind, tally in tallies.items()))


def _approaches(rows: Results, curve: str, claim: str, where: str, enough: float = _REACHED) -> Verdict:
    """Ask for a share of the non-private utility at the last point of every panel."""
    last = {
        kind: {panel: points[max(points)] for panel, points in utility(rows, Curve(curve, kind)).items()}
        for kind in KINDS
    }
    flags = [value >= enough for found in last.values() for value in found.values()]
    numbers = "; ".join(f"{kind}: {_shares(found)}" for kind, found in last.items())
    numbers += f" of the non-private utility (asked: {100 * enough:.0f} %)"
    return Verdict(claim, where, all_or_some(flags), numbers)


def _shares(found: dict[str, float]) -> str:
    return ", ".join(f"{100 * value:.0f} % in {panel[:3]}" for panel, value in found.items())


def _outperforms(results: Results, other: str, where: str) -> Verdict:
    tallies = {kind: _against(results, Curve("CAPE", kind), Curve(other, kind)) for kind in KINDS}
    found = _verdict_of(tallies, f"capeCCA outperforms {other}.", where)
    kept = sum(
        (compare_curves(results.where(measure=KEPT), Curve("CAPE", kind), Curve(other, kind)) for kind in KINDS),
        Tally(),
    )
    return replace(found, numbers=f"{found.numbers}; by the correlation its directions keep: {kept}")


def _own_records(results: Results, where: str) -> Verdict:
    """Show what becomes of CH if a site's directions are judged on its own records only, as the authors' scripts do."""
    index = results.where(measure=CH)
    pairs = ratios(index, Curve(OWN_RECORDS, PUBLISHED), Curve("local", PUBLISHED))
    values = [value for points in pairs.values() for value in points.values()]
    claim = "A low CH of local means worse directions (in the authors' scripts it is computed on the site's records)."
    numbers = (
        f"the same directions score {100 * min(values):.0f} to {100 * max(values):.0f} % of their CH when judged on "
        "one site's records instead of all: CH counts records"
    )
    return Verdict(claim, where, all_or_some([value > 0.8 for value in values]), numbers)


def _index_measures(results: Results, where: str) -> Verdict:
    """Set the separation of clusters against the correlation kept, over all private points with clusters."""
    curves = [Curve(name, kind) for kind in KINDS for name in ("CAPE", "conventional", "local")]
    shares, kept = [], []
    for curve in curves:
        clusters = results.where(measure=RATIO)
        of_panels = ratios(clusters, curve, OPTIMUM)
        correlation = ratios(Results(r for r in results.where(measure=KEPT) if r["panel"] in of_panels), curve, OPTIMUM)
        shares += [value for points in of_panels.values() for value in points.values()]
        kept += [value for points in correlation.values() for value in points.values()]
    misled = [(share, part) for share, part in zip(shares, kept, strict=True) if share >= _REACHED > part]
    claim = "CH of K-means on the projections tells how good the CCA subspaces are."
    numbers = (
        f"of {len(shares)} private points {len(misled)} reach 95 % of the non-private separation without 95 % of its "
    )
    numbers += "correlation" + (f", down to {100 * min(part for _, part in misled):.0f} %" if misled else "")
    agreed = [not (share >= _REACHED > part) for share, part in zip(shares, kept, strict=True) if share >= _REACHED]
    return Verdict(claim, where, all_or_some(agreed), numbers)


def _larger(rows: Results, where: str) -> Verdict:
    curves = [Curve(name, kind) for kind in KINDS for name in ("CAPE", "conventional", "local")]
    tallies = {f"{curve.name} {curve.calibration}": _steps(rows, curve) for curve in curves}
    return _verdict_of(tallies, "More records improve all algorithms.", where)


def _copies(rows: Results, where: str) -> Verdict:
    """Repeating records lowers the noise only if copies are counted as people."""
    tallies = {kind: _steps(rows, Curve("CAPE", kind)) for kind in KINDS}
    real = [float(r["verified_epsilon"]) for r in rows.where(curve="CAPE", calibration=PUBLISHED)]  # type: ignore[arg-type]
    claimed = sorted({float(r["claimed_epsilon"]) for r in rows.where(curve="CAPE", calibration=PUBLISHED)})  # type: ignore[arg-type]
    numbers = "; ".join(f"{kind}: separation {tally}" for kind, tally in tallies.items())
    numbers += (
        f"; claimed epsilon {', '.join(f'{value:g}' for value in claimed)} is really {min(real):.3g} to {max(real):.3g}"
    )
    claim = "Repeating the samples p times improves capeCCA at the same epsilon."
    return Verdict(claim, where, tallies[VERIFIED].outcome, numbers)


def _index_grows(rows: Results, where: str) -> Verdict:
    """CH of the non-private result grows with N, and with copies, though its clusters are separated no better."""
    index, separation = (trend(rows.where(measure=measure), OPTIMUM, tolerance=0.05) for measure in (CH, RATIO))
    claim = "A larger CH at larger N means better clusters (non-private CCA)."
    return Verdict(claim, where, separation.outcome, f"CH: {index}; separation between over within: {separation}")


def _small_epsilon(rows: Results, where: str) -> Verdict:
    claim = "Even at small epsilon capeCCA performs nearly as well as non-private CCA, given enough samples."
    return _approaches(rows, "CAPE", claim, where)


def _small_delta(results: Results, where: str) -> Verdict:
    """Look at the smallest delta, which is below 1/N in every panel if copies are not counted."""
    first = {
        kind: {panel: points[min(points)] for panel, points in utility(results, Curve("CAPE", kind)).items()}
        for kind in KINDS
    }
    flags = [value < _REACHED for found in first.values() for value in found.values()]
    claim = "A delta of 1/N or less may leave no meaningful utility unless epsilon is large."
    numbers = "; ".join(f"{kind}: {_shares(found)}" for kind, found in first.items())
    return Verdict(claim, where, all_or_some(flags), f"{numbers} of the non-private utility at delta 1e-5")


def _pooled(results: Results, where: str) -> Verdict:
    """Ask for at most five points of utility less than pooled, at every point."""
    ours, pooled = (utility(results, Curve(name, VERIFIED)) for name in ("CAPE", "pooled"))
    gaps = [pooled[panel][x] - value for panel, points in ours.items() for x, value in points.items()]
    near = [gap <= 0.05 for gap in gaps]
    numbers = f"verified: within 5 points of pooled utility at {sum(near)} of {len(near)} points, at worst "
    numbers += f"{100 * max(gaps):.0f} below"
    return Verdict("capeCCA has the utility of private CCA on pooled data.", where, all_or_some(near), numbers)


__all__: Sequence[str] = ("CHAPTER", "PAPER", "by_delta", "by_size", "poster", "utility")
