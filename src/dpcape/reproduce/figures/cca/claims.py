"""What chapter 7 and the paper on capeCCA say about their figures, and what the poster says, judged from the rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from dpcape.reproduce.experiment import Verdict
from dpcape.reproduce.figures.cca.methods import CH, ERROR, KEPT, OWN_RECORDS, RATIO
from dpcape.reproduce.fusion import CORRELATIONS
from dpcape.reproduce.judging import (
    Curve,
    Tally,
    Trend,
    Yardstick,
    agreed,
    as_good,
    compare_curves,
    judge_privacy,
    outcome_of,
    ratios,
    together,
    trend,
)
from dpcape.reproduce.results import NON_PRIVATE, PUBLISHED, VERIFIED, Results, number

OPTIMUM = Curve("non-private", NON_PRIVATE)
KINDS = (PUBLISHED, VERIFIED)
SEPARATION, CORRELATION, MISTAKE = Yardstick("larger"), Yardstick("larger"), Yardstick("smaller")
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
        ours, best = (curve.of(inside), OPTIMUM.of(inside))
        found[str(panel)] = {
            x: (_NOTHING - ours.mean(x=x)) / (_NOTHING - best.mean(x=x)) for x in sorted(set(ours.numbers("x")))
        }
    return {panel: points for panel, points in found.items() if points}


def _panels(results: Results, *by: str) -> Results:
    return Results(r for r in results if str(r["panel"]).rsplit(", by ", 1)[1] in by)


def _against(rows: Results, left: Curve, right: Curve) -> Tally:
    """Compare clusters by separation and correlations by error."""
    clusters = compare_curves(rows.where(measure=RATIO), left, right, SEPARATION)
    return clusters + compare_curves(rows.where(measure=ERROR), left, right, MISTAKE)


def _along(rows: Results, curve: Curve) -> Trend:
    return trend(rows.where(measure=RATIO), curve, SEPARATION) + trend(rows.where(measure=ERROR), curve, MISTAKE)


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
    return [
        _improves(results, "CAPE", "A larger delta improves the result of capeCCA.", text.delta),
        _small_delta(results, text.delta),
        _approaches(
            Results(r for r in results if number(r, "x") >= 1e-2),
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
    verdicts = [_improves(results, "pooled", claim, "remarks")]
    if by == "epsilon":
        strict = Results(r for r in results if number(r, "x") <= 0.1)
        claim = "Utility is meaningful even with strict privacy (epsilon 0.1)."
        verdicts.append(_approaches(strict, "pooled", claim, "remarks", enough=0.8))
    return [*verdicts, judge_privacy(results, theorem="step 2", where="algorithm", curve="pooled")]


def _improves(rows: Results, curve: str, claim: str, where: str) -> Verdict:
    outcome, numbers = together({kind: _along(rows, Curve(curve, kind)) for kind in KINDS})
    return Verdict(claim, where, outcome, numbers)


def _approaches(rows: Results, curve: str, claim: str, where: str, enough: float = _REACHED) -> Verdict:
    """Ask for a share of the non-private utility at the last point of every panel."""
    last = {
        kind: {panel: points[max(points)] for panel, points in utility(rows, Curve(curve, kind)).items()}
        for kind in KINDS
    }
    outcome = agreed(as_good([value >= enough for value in found.values()]) for found in last.values())
    numbers = "; ".join(f"{kind}: {_shares(found)}" for kind, found in last.items())
    numbers += f" of the non-private utility (asked: {100 * enough:.0f} %)"
    return Verdict(claim, where, outcome, numbers)


def _shares(found: dict[str, float]) -> str:
    return ", ".join(f"{100 * value:.0f} % in {panel[:3]}" for panel, value in found.items())


def _outperforms(results: Results, other: str, where: str) -> Verdict:
    pairs = {kind: (Curve("CAPE", kind), Curve(other, kind)) for kind in KINDS}
    outcome, numbers = together({kind: _against(results, *pair) for kind, pair in pairs.items()})
    rows = results.where(measure=KEPT)
    kept = sum((compare_curves(rows, *pair, CORRELATION) for pair in pairs.values()), Tally())
    numbers += f"; by the correlation its directions keep: {kept}"
    return Verdict(f"capeCCA outperforms {other}.", where, outcome, numbers)


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
    return Verdict(claim, where, outcome_of(sum(value > 0.8 for value in values), len(values)), numbers)


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
    return Verdict(claim, where, outcome_of(sum(agreed), len(agreed)), numbers)


def _larger(rows: Results, where: str) -> Verdict:
    cape, conventional, local = (
        {kind: _along(rows, Curve(name, kind)) for kind in KINDS} for name in ("CAPE", "conventional", "local")
    )
    outcome, numbers = together({kind: cape[kind] + conventional[kind] + local[kind] for kind in KINDS})
    return Verdict("More records improve all algorithms.", where, outcome, f"CAPE, conventional and local, {numbers}")


def _copies(rows: Results, where: str) -> Verdict:
    """Repeating records lowers the noise only if copies are counted as people."""
    found = {kind: _along(rows, Curve("CAPE", kind)) for kind in KINDS}
    published = Curve("CAPE", PUBLISHED).of(rows)
    real, claimed = published.numbers("verified_epsilon"), sorted(set(published.numbers("claimed_epsilon")))
    numbers = "; ".join(f"{kind}: separation {one}" for kind, one in found.items())
    numbers += (
        f"; claimed epsilon {', '.join(f'{value:g}' for value in claimed)} is really {min(real):.3g} to {max(real):.3g}"
    )
    claim = "Repeating the samples p times improves capeCCA at the same epsilon."
    return Verdict(claim, where, found[VERIFIED].outcome, numbers)


def _index_grows(rows: Results, where: str) -> Verdict:
    """CH of the non-private result grows with N, and with copies, though its clusters are separated no better."""
    coarse = Yardstick("larger", tolerance=0.05)
    index, separation = (trend(rows.where(measure=measure), OPTIMUM, coarse) for measure in (CH, RATIO))
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
    return Verdict(
        claim, where, outcome_of(sum(flags), len(flags)), f"{numbers} of the non-private utility at delta 1e-5"
    )


def _pooled(results: Results, where: str) -> Verdict:
    """Ask for at most five points of utility less than pooled, at every point."""
    ours, pooled = (utility(results, Curve(name, VERIFIED)) for name in ("CAPE", "pooled"))
    gaps = [pooled[panel][x] - value for panel, points in ours.items() for x, value in points.items()]
    near = [gap <= 0.05 for gap in gaps]
    numbers = f"verified: within 5 points of pooled utility at {sum(near)} of {len(near)} points, at worst "
    numbers += f"{100 * max(gaps):.0f} below"
    return Verdict("capeCCA has the utility of private CCA on pooled data.", where, as_good(near), numbers)


__all__: Sequence[str] = ("CHAPTER", "PAPER", "by_delta", "by_size", "poster", "utility")
