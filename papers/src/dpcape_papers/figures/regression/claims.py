"""Verdicts on the text's claims about figures 8.1 to 8.3."""

from __future__ import annotations

import math

from dpcape_papers.experiments.authors_setting import NOTHING
from dpcape_papers.experiments.experiment import Outcome, Verdict
from dpcape_papers.experiments.results import NON_PRIVATE, PUBLISHED, VERIFIED, Results, number
from dpcape_papers.figures.regression.methods import DP_FM, ERROR, LOSS, OBJECTIVE
from dpcape_papers.figures.regression.reached import reached_at
from dpcape_papers.verdicts import (
    Curve,
    Tally,
    Yardstick,
    agreed,
    compare_curves,
    outcome_of,
    privacy_claim,
    ratios,
    reached,
    together,
    trend,
)

CAPE = {kind: Curve("CAPE", kind) for kind in (VERIFIED, PUBLISHED)}
LOSSES = Yardstick("smaller", log=True)
# "Reaches the non-private result" means at most a quarter above it. "The same utility" in err_w means this value.
REACHED = 1.25
SAME_ERROR = 0.01


def judge_loss(results: Results) -> list[Verdict]:
    """Judge figure 8.1."""
    return _judge(results.where(measure=LOSS), "f_D(w)", synthetic=True)


def judge_real(results: Results) -> list[Verdict]:
    """Judge figure 8.2; the rows of synthetic data are used only for the claim that compares the two."""
    rows = results.where(measure=LOSS)
    synthetic, real = (
        Results(r for r in rows if str(r["source"]).startswith("synthetic") is wanted) for wanted in (True, False)
    )
    return [*_judge(real, "f_D(w)", synthetic=False), _less_pronounced(real, synthetic)]


def judge_error(results: Results) -> list[Verdict]:
    """Judge figure 8.3."""
    rows = results.where(measure=ERROR)
    return [*_judge(rows, "err_w", synthetic=True), _objective_off_the_scale(rows)]


def _judge(rows: Results, measure: str, *, synthetic: bool) -> list[Verdict]:
    by_epsilon, by_number, by_delta = (rows.where(vary=name) for name in ("epsilon", "N", "delta"))
    section = "8.4.4" if measure == "err_w" else "8.4.1"
    verdicts = [_falls(by_epsilon, f"{measure} falls as epsilon grows", f"section {section}")]
    for other in ("conventional", "local", DP_FM, OBJECTIVE):
        verdicts.append(_outperforms(by_epsilon, other, f"section {section}"))
    verdicts.append(_like_pooled(by_epsilon))
    verdicts.append(_falls(by_number, f"{measure} falls as N grows", _where(measure, "8.4.2")))
    verdicts.append(_reaches(Results([*by_number, *by_epsilon]), measure))
    if synthetic:
        verdicts += [_dimension(by_epsilon, "epsilon", measure, f"section {section}")]
        verdicts += [_dimension(by_number, "N", measure, _where(measure, "8.4.2"))]
    verdicts += [_falls(by_delta, f"{measure} of CAPE, conventional and local grows as delta shrinks", "section 8.4.3")]
    verdicts += [_unmoved(by_delta), _best_at_moderate(by_delta, measure)]
    return [*verdicts, *(_guarantee(rows, curve) for curve in _GUARANTEES)]


def _where(measure: str, section: str) -> str:
    return f"section {'8.4.4' if measure == 'err_w' else section}"


def _falls(rows: Results, claim: str, where: str) -> Verdict:
    cape, conventional, local = (
        {kind: trend(rows, Curve(curve, kind), LOSSES) for kind in CAPE} for curve in ("CAPE", "conventional", "local")
    )
    outcome, numbers = together({kind: cape[kind] + conventional[kind] + local[kind] for kind in CAPE})
    return Verdict(claim, where, outcome, f"CAPE, conventional and local, {numbers}")


def _against(rows: Results, other: str) -> dict[str, Tally]:
    """Compare both calibrations of CAPE with the other method; dp-fm and objective perturbation have only one."""
    kinds = {kind: kind if other in ("conventional", "local") else PUBLISHED for kind in CAPE}
    return {kind: compare_curves(rows, CAPE[kind], Curve(other, its), LOSSES) for kind, its in kinds.items()}


def _outperforms(rows: Results, other: str, where: str) -> Verdict:
    outcome, numbers = together(_against(rows, other))
    return Verdict(f"CAPE outperforms {other} at equal claimed epsilon", where, outcome, f"CAPE, {numbers}")


def _like_pooled(rows: Results) -> Verdict:
    found = compare_curves(rows, CAPE[VERIFIED], Curve("pooled", VERIFIED), LOSSES)
    claim = "With equal sites and the same guarantee CAPE does as well as noise on pooled records"
    numbers = f"verified: {found}; in the published calibration they are equal"
    return Verdict(claim, "section 8.3.2", found.never_worse, numbers)


def _reaches(rows: Results, measure: str) -> Verdict:
    claim = "For large N and epsilon CAPE reaches the non-private result"
    found = {kind: _distances(rows, curve) for kind, curve in CAPE.items()}
    if not all(found.values()):
        return Verdict(claim, _where(measure, "8.4.2"), "not shown", f"{NOTHING} with the result without noise")
    shown = "; ".join(f"{kind} {min(values):.3g} to {max(values):.3g}" for kind, values in found.items())
    numbers = f"{measure} divided by the non-private one, at the largest N or epsilon of each panel: {shown}"
    outcome = agreed(reached([value <= REACHED for value in values]) for values in found.values())
    return Verdict(claim, _where(measure, "8.4.2"), outcome, f"{numbers} (required: at most {REACHED:g})")


def _distances(rows: Results, curve: Curve) -> list[float]:
    """Return the ratio of CAPE to non-private at the largest x of each panel."""
    found = ratios(rows, curve, Curve("non-private", NON_PRIVATE))
    return [points[max(points)] for points in found.values()]


def _dimension(rows: Results, vary: str, measure: str, where: str) -> Verdict:
    """Compare the smallest epsilon or N at which CAPE approaches the non-private result, for D = 20 and D = 50."""
    needed = {"epsilon": "a smaller epsilon gives the same utility", "N": "the decrease with N is sharper"}
    target, words = (SAME_ERROR, f"err_w {SAME_ERROR}") if measure == "err_w" else (None, "twice the non-private loss")
    pairs = [
        (reached_at(rows.where(panel=low), curve, target), reached_at(rows.where(panel=high), curve, target))
        for curve in CAPE.values()
        for low, high in _twins(curve.of(rows))
    ]
    claim = f"With fewer dimensions {needed[vary]}"
    if not all(_twins(curve.of(rows)) for curve in CAPE.values()):
        return Verdict(claim, where, "not shown", f"{NOTHING}: no two panels differ in D alone")
    smaller = [low < high for low, high in pairs if min(low, high) < math.inf]
    shown = ", ".join(f"{low:.3g} and {high:.3g}" for low, high in pairs)
    numbers = f"{vary} at which CAPE falls to {words}, for D = 20 and D = 50: {shown}"
    return Verdict(claim, where, outcome_of(sum(smaller), len(smaller)), numbers)


def _twins(rows: Results) -> list[tuple[str, str]]:
    """Return pairs of panels of D = 20 and D = 50 whose other settings are the same."""
    names = [str(name) for name in rows.values("panel")]
    pairs = [(name, name.replace("D = 20", "D = 50")) for name in names if "D = 20" in name]
    return [pair for pair in pairs if pair[1] in names]


def _unmoved(rows: Results) -> Verdict:
    """Judge whether dp-fm and objective perturbation, which have delta 0, give the same result at every delta."""
    moved = 0.0
    for curve in (DP_FM, OBJECTIVE):
        for panel in rows.values("panel"):
            for run in rows.values("run"):
                values = rows.where(curve=curve, panel=panel, run=run).numbers("value")
                moved = max([moved, *([max(values) / min(values) - 1] if values else [])])
    outcome: Outcome = "holds" if moved < 1e-9 else "fails"
    claim = "dp-fm and objective perturbation do not vary with delta"
    # A run has the same draws at every delta, so that any change is one of the formula.
    numbers = f"largest relative change {moved:.2g}"
    return Verdict(claim, "section 8.4.3", outcome, numbers, measured=False)


def _best_at_moderate(rows: Results, measure: str) -> Verdict:
    """Compare CAPE with all others at deltas of 1e-5 and above."""
    moderate = Results(r for r in rows if number(r, "x") >= 1e-5)
    parts = [_against(moderate, other) for other in ("conventional", "local", DP_FM, OBJECTIVE)]
    outcome, numbers = together({kind: sum((part[kind] for part in parts), Tally()) for kind in CAPE})
    claim = "At moderate delta CAPE easily outperforms the other private schemes"
    return Verdict(claim, "section 8.4.3" if measure != "err_w" else "section 8.4.4", outcome, f"CAPE, {numbers}")


_GUARANTEES = {
    "CAPE": ("capeFM is (epsilon, delta)-private against the aggregator and colluding sites", "section 8.3.2"),
    "local": ("Algorithm 8.1 is (epsilon, delta)-private (one holder of all records)", "theorem 8.1"),
    DP_FM: ("dp-fm offers pure epsilon-differential privacy", "section 8.4"),
    OBJECTIVE: ("Objective perturbation offers pure epsilon-differential privacy", "section 8.4"),
}


def _guarantee(rows: Results, curve: str) -> Verdict:
    outcome, numbers = privacy_claim(rows, curve, pure=curve in (DP_FM, OBJECTIVE))
    if curve == OBJECTIVE and outcome == "fails":
        numbers += " (the slope of the squared loss is unbounded)"
    return Verdict(*_GUARANTEES[curve], outcome, numbers, measured=False)


def _less_pronounced(real: Results, synthetic: Results) -> Verdict:
    """Compare how much CAPE's loss varies with delta on real and on synthetic data."""
    claim = "Variation with delta is less pronounced than for synthetic data"
    found = [
        [trend(rows.where(vary="delta"), curve, LOSSES).ends for curve in CAPE.values()] for rows in (real, synthetic)
    ]
    if not all(ends.n for side in found for ends in side):
        return Verdict(claim, "section 8.4.3", "not shown", f"{NOTHING} in one of the two")
    change = [max(ends.typical for ends in side) for side in found]
    outcome: Outcome = "holds" if change[0] < change[1] else "fails"
    numbers = (
        f"loss at the smallest delta divided by loss at the largest: real {change[0]:.3g}, synthetic {change[1]:.3g}"
    )
    return Verdict(claim, "section 8.4.3", outcome, numbers)


def _objective_off_the_scale(rows: Results) -> Verdict:
    """Judge whether objective perturbation is above every other curve in the panels where the paper omits it."""
    chosen = Results(r for r in rows if r["vary"] in ("N", "delta"))
    others = [Curve(name, PUBLISHED) for name in ("CAPE", "conventional", "local", DP_FM)]
    pairs = [compare_curves(chosen, other, Curve(OBJECTIVE, PUBLISHED), LOSSES) for other in others]
    found = sum(pairs, Tally())
    numbers = f"the other published schemes, against it: {found}"
    return Verdict("err_w of objective perturbation is too large to show", "section 8.4.4", found.outcome, numbers)
