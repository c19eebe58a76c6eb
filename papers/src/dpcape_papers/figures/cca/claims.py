"""Verdicts on the claims of chapter 7, the capeCCA paper and the poster about their figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from dpcape_papers.experiments.experiment import Outcome, Verdict
from dpcape_papers.experiments.results import PUBLISHED, VERIFIED, Results, number
from dpcape_papers.figures.cca import index_claims
from dpcape_papers.figures.cca.methods import ERROR, KEPT, RATIO
from dpcape_papers.figures.cca.utility import CORRELATION, KINDS, MISTAKE, REACHED, SEPARATION, along, utility
from dpcape_papers.published.cape import assumed_colluding, cape_exposure
from dpcape_papers.published.cca import CAPECCA_HONEST, CAPECCA_SENSITIVITY
from dpcape_papers.published.pca import verified_epsilon
from dpcape_papers.verdicts import (
    Curve,
    Tally,
    agreed,
    as_good,
    compare_curves,
    judge_privacy,
    outcome_of,
    reached,
    together,
)


@dataclass(frozen=True)
class Text:
    """The sections in which a text makes its claims, and the number of sites it allows to collude."""

    trade_off: str
    size: str
    delta: str
    theorem: str
    proved: str
    n_colluding: int


_N_SITES = 10
CHAPTER = Text(
    "section 7.3.1", "section 7.3.2", "section 7.3.2", "theorem 7.1", "section 7.2", assumed_colluding(_N_SITES)
)
PAPER = Text("section 4", "section 4", "section 4", "theorem 1", "section 3", _N_SITES - CAPECCA_HONEST)


def _panels(results: Results, *by: str) -> Results:
    return Results(r for r in results if str(r["panel"]).rsplit(", by ", 1)[1] in by)


def _against(rows: Results, left: Curve, right: Curve) -> Tally:
    """Compare two curves: by separation for clusters, by error for correlations."""
    clusters = compare_curves(rows.where(measure=RATIO), left, right, SEPARATION)
    return clusters + compare_curves(rows.where(measure=ERROR), left, right, MISTAKE)


def by_size(text: Text) -> Callable[[Results], list[Verdict]]:
    """Return the judge of figures 7.1 and capeCCA 2."""
    return partial(_by_size, text)


def _by_size(text: Text, results: Results) -> list[Verdict]:
    epsilon = _panels(results, "epsilon")
    size = _panels(results, "records", "replication")
    return [
        _approaches(
            epsilon,
            "CAPE",
            "capeCCA approaches the non-private result as epsilon grows.",
            text.trade_off,
            open_ended=True,
        ),
        _outperforms(results, "conventional", text.trade_off),
        _outperforms(results, "local", text.trade_off),
        index_claims.own_records(results, text.trade_off),
        index_claims.index_measures(results, text.trade_off),
        _larger(_panels(results, "records"), text.size),
        index_claims.copies(_panels(results, "replication"), text.size),
        index_claims.index_grows(size, text.size),
        _small_epsilon(size, text.size),
        _pooled(results, text.proved),
        _private(results, text),
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
        _private(results, text),
    ]


def _private(results: Results, text: Text) -> Verdict:
    """Judge privacy, and report separately what copies cost: a person has all copies of a record."""
    verdict = judge_privacy(results, theorem=text.theorem, where=text.proved)
    rows = Curve("CAPE", PUBLISHED).of(results)
    claimed, delta = max((number(r, "claimed_epsilon"), number(r, "delta")) for r in rows)
    alone = verified_epsilon(
        epsilon=claimed,
        delta=delta,
        exposure=cape_exposure(_N_SITES, text.n_colluding),
        sensitivity=CAPECCA_SENSITIVITY,
    )
    without = f"; without copies the real epsilon for a claimed {claimed:g} would be {alone:.3g} at delta {delta:g}"
    return replace(verdict, numbers=verdict.numbers + without)


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
    return [*verdicts, judge_privacy(results, theorem="step 2", where="algorithm", curve="pooled", up_to=1.0)]


def _improves(rows: Results, curve: str, claim: str, where: str) -> Verdict:
    outcome, numbers = together({kind: along(rows, Curve(curve, kind)) for kind in KINDS})
    return Verdict(claim, where, outcome, numbers)


def _approaches(
    rows: Results, curve: str, claim: str, where: str, *, enough: float = REACHED, open_ended: bool = False
) -> Verdict:
    """Judge whether the last point of every panel has enough of the non-private utility.

    ``open_ended`` if the text does not say which x is large enough.
    """
    last = {
        kind: {panel: points[max(points)] for panel, points in utility(rows, Curve(curve, kind)).items()}
        for kind in KINDS
    }
    rule = reached if open_ended else as_good
    outcome = agreed(rule([value >= enough for value in found.values()]) for found in last.values())
    numbers = "; ".join(f"{kind}: {_shares(found)}" for kind, found in last.items())
    numbers += f" of the non-private utility (required: {100 * enough:.0f}%)"
    return Verdict(claim, where, outcome, numbers)


def _shares(found: dict[str, float]) -> str:
    return ", ".join(f"{100 * value:.0f}% in {panel[:3]}" for panel, value in found.items())


def _outperforms(results: Results, other: str, where: str) -> Verdict:
    pairs = {kind: (Curve("CAPE", kind), Curve(other, kind)) for kind in KINDS}
    outcome, numbers = together({kind: _against(results, *pair) for kind, pair in pairs.items()})
    rows = results.where(measure=KEPT)
    kept = sum((compare_curves(rows, *pair, CORRELATION) for pair in pairs.values()), Tally())
    numbers += f"; by the correlation that its directions retain: {kept}"
    return Verdict(f"capeCCA outperforms {other}.", where, outcome, numbers)


def _larger(rows: Results, where: str) -> Verdict:
    cape, conventional, local = (
        {kind: along(rows, Curve(name, kind)) for kind in KINDS} for name in ("CAPE", "conventional", "local")
    )
    outcome, numbers = together({kind: cape[kind] + conventional[kind] + local[kind] for kind in KINDS})
    return Verdict("More records improve all algorithms.", where, outcome, f"CAPE, conventional and local, {numbers}")


def _small_epsilon(rows: Results, where: str) -> Verdict:
    claim = "Even at small epsilon capeCCA performs nearly as well as non-private CCA, given enough samples."
    return _approaches(rows, "CAPE", claim, where, open_ended=True)


def _small_delta(results: Results, where: str) -> Verdict:
    """Judge at the smallest delta, which is below 1/N in every panel if copies are not counted."""
    first = {
        kind: {panel: points[min(points)] for panel, points in utility(results, Curve("CAPE", kind)).items()}
        for kind in KINDS
    }
    flags = [value < REACHED for found in first.values() for value in found.values()]
    claim = "A delta of 1/N or less may leave no meaningful utility unless epsilon is large."
    numbers = "; ".join(f"{kind}: {_shares(found)}" for kind, found in first.items())
    return Verdict(
        claim, where, outcome_of(sum(flags), len(flags)), f"{numbers} of the non-private utility at delta 1e-5"
    )


def _pooled(results: Results, where: str) -> Verdict:
    """Judge whether utility is at most five percentage points below pooled everywhere."""
    ours, pooled = (utility(results, Curve(name, VERIFIED)) for name in ("CAPE", "pooled"))
    gaps = [pooled[panel][x] - value for panel, points in ours.items() for x, value in points.items()]
    near = [gap <= 0.05 for gap in gaps]
    numbers = f"verified: at most 5 percentage points below pooled at {sum(near)} of {len(near)} points, at worst "
    numbers += f"{100 * max(gaps):.0f} below"
    claim = "With the same guarantee capeCCA has the utility of private CCA on pooled data."
    # Without collusion the noise is that of pooled data by construction.
    outcome: Outcome = "holds" if all(near) else "holds under conditions"
    return Verdict(claim, where, outcome, f"{numbers}; in the published calibration they are equal")
