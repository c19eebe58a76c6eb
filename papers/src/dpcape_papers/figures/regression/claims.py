"""What the text says about figures 8.1 to 8.3, judged from their rows."""

from __future__ import annotations

import math

from dpcape_papers.experiments.experiment import Outcome, Verdict
from dpcape_papers.experiments.results import NON_PRIVATE, PUBLISHED, VERIFIED, Results, number
from dpcape_papers.figures.regression.methods import DP_FM, ERROR, LOSS, OBJECTIVE
from dpcape_papers.figures.regression.reached import reached_at
from dpcape_papers.verdicts import (
    Curve,
    Tally,
    Yardstick,
    agreed,
    as_good,
    compare_curves,
    outcome_of,
    privacy_claim,
    ratios,
    together,
    trend,
)

CAPE = {kind: Curve("CAPE", kind) for kind in (VERIFIED, PUBLISHED)}
LOSSES = Yardstick("smaller", log=True)
# "Reaches the non-private result": at most a quarter above it. "The same utility" in err_w: this distance.
REACHED = 1.25
SAME_ERROR = 0.01


def judge_loss(results: Results) -> list[Verdict]:
    """Judge figure 8.1."""
    return _judge(results.where(measure=LOSS), "f_D(w)", synthetic=True)


def judge_real(results: Results) -> list[Verdict]:
    """Judge figure 8.2; the rows of synthetic data are there for the claim that compares with them."""
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
    return [*verdicts, *(_promise(rows, curve) for curve in _PROMISES)]


def _where(measure: str, section: str) -> str:
    return f"section {'8.4.4' if measure == 'err_w' else section}"


def _falls(rows: Results, claim: str, where: str) -> Verdict:
    cape, conventional, local = (
        {kind: trend(rows, Curve(curve, kind), LOSSES) for kind in CAPE} for curve in ("CAPE", "conventional", "local")
    )
    outcome, numbers = together({kind: cape[kind] + conventional[kind] + local[kind] for kind in CAPE})
    return Verdict(claim, where, outcome, f"CAPE, conventional and local, {numbers}")


def _against(rows: Results, other: str) -> dict[str, Tally]:
    """Compare both of CAPE's calibrations with the other's; dp-fm and objective perturbation have only one."""
    kinds = {kind: kind if other in ("conventional", "local") else PUBLISHED for kind in CAPE}
    return {kind: compare_curves(rows, CAPE[kind], Curve(other, its), LOSSES) for kind, its in kinds.items()}


def _outperforms(rows: Results, other: str, where: str) -> Verdict:
    outcome, numbers = together(_against(rows, other))
    return Verdict(f"CAPE outperforms {other} at equal claimed epsilon", where, outcome, f"CAPE, {numbers}")


def _like_pooled(rows: Results) -> Verdict:
    found = compare_curves(rows, CAPE[VERIFIED], Curve("pooled", VERIFIED), LOSSES)
    claim = "With equal sites and the same guarantee CAPE does as well as noise on pooled records"
    numbers = f"verified: {found}; at the published noise they are equal"
    return Verdict(claim, "section 8.3.2", found.never_worse, numbers)


def _reaches(rows: Results, measure: str) -> Verdict:
    claim = "For large N and epsilon CAPE reaches the non-private result"
    found = {kind: _distances(rows, curve) for kind, curve in CAPE.items()}
    shown = "; ".join(f"{kind} {min(values):.3g} to {max(values):.3g}" for kind, values in found.items())
    numbers = f"{measure} over the non-private one at the largest N or epsilon of each panel: {shown}"
    outcome = agreed(as_good([value <= REACHED for value in values]) for values in found.values())
    return Verdict(claim, _where(measure, "8.4.2"), outcome, f"{numbers} (reached: {REACHED:g})")


def _distances(rows: Results, curve: Curve) -> list[float]:
    """Return CAPE over non-private at the largest x of each panel."""
    found = ratios(rows, curve, Curve("non-private", NON_PRIVATE))
    return [points[max(points)] for points in found.values()]


def _dimension(rows: Results, vary: str, measure: str, where: str) -> Verdict:
    """Compare the least epsilon or N at which CAPE comes near the non-private result, D = 20 against D = 50."""
    needed = {"epsilon": "a smaller epsilon gives the same utility", "N": "the decrease with N is sharper"}
    target, words = (SAME_ERROR, f"err_w {SAME_ERROR}") if measure == "err_w" else (None, "twice the non-private loss")
    pairs = [
        tuple(reached_at(rows.where(panel=panel), curve, target) for panel in panels)
        for curve in CAPE.values()
        for panels in zip(*(_panels(rows, width) for width in (20, 50)), strict=True)
    ]
    smaller = [low < high for low, high in pairs if min(low, high) < math.inf]
    shown = ", ".join(f"{low:.3g} against {high:.3g}" for low, high in pairs)
    numbers = f"{vary} at which CAPE comes down to {words}, D = 20 against 50: {shown}"
    return Verdict(f"With fewer dimensions {needed[vary]}", where, outcome_of(sum(smaller), len(smaller)), numbers)


def _panels(rows: Results, width: int) -> list[str]:
    return [str(name) for name in rows.values("panel") if f"D = {width}" in str(name)]


def _unmoved(rows: Results) -> Verdict:
    """Tell whether dp-fm and objective perturbation, being pure, give the same result at every delta."""
    moved = 0.0
    for curve in (DP_FM, OBJECTIVE):
        for panel in rows.values("panel"):
            for run in rows.values("run"):
                values = rows.where(curve=curve, panel=panel, run=run).numbers("value")
                moved = max(moved, max(values) / min(values) - 1)
    outcome: Outcome = "holds" if moved < 1e-9 else "fails"
    claim = "dp-fm and objective perturbation do not vary with delta"
    return Verdict(claim, "section 8.4.3", outcome, f"largest relative change {moved:.2g}")


def _best_at_moderate(rows: Results, measure: str) -> Verdict:
    """Compare CAPE with all others at deltas of 1e-5 and above."""
    moderate = Results(r for r in rows if number(r, "x") >= 1e-5)
    parts = [_against(moderate, other) for other in ("conventional", "local", DP_FM, OBJECTIVE)]
    outcome, numbers = together({kind: sum((part[kind] for part in parts), Tally()) for kind in CAPE})
    claim = "At moderate delta CAPE easily outperforms the other private schemes"
    return Verdict(claim, "section 8.4.3" if measure != "err_w" else "section 8.4.4", outcome, f"CAPE, {numbers}")


_PROMISES = {
    "CAPE": ("capeFM is (epsilon, delta) private against the aggregator and colluding sites", "section 8.3.2"),
    "local": ("Algorithm 8.1 is (epsilon, delta) private (one holder)", "theorem 8.1"),
    DP_FM: ("dp-fm offers pure epsilon-differential privacy", "section 8.4"),
    OBJECTIVE: ("Objective perturbation offers pure epsilon-differential privacy", "section 8.4"),
}


def _promise(rows: Results, curve: str) -> Verdict:
    outcome, numbers = privacy_claim(rows, curve, pure=curve in (DP_FM, OBJECTIVE))
    if curve == OBJECTIVE and outcome == "fails":
        numbers += " (the slope of the squared loss is not bounded)"
    return Verdict(*_PROMISES[curve], outcome, numbers)


def _less_pronounced(real: Results, synthetic: Results) -> Verdict:
    """Compare how much CAPE's loss changes with delta."""
    change = [
        max(trend(rows.where(vary="delta"), curve, LOSSES).ends.typical for curve in CAPE.values())
        for rows in (real, synthetic)
    ]
    outcome: Outcome = "holds" if change[0] < change[1] else "fails"
    numbers = f"loss at the smallest delta over that at the largest: real {change[0]:.3g}, synthetic {change[1]:.3g}"
    return Verdict("Variation with delta is less pronounced than for synthetic data", "section 8.4.3", outcome, numbers)


def _objective_off_the_scale(rows: Results) -> Verdict:
    """Tell whether objective perturbation is above every other curve where the paper leaves it out."""
    chosen = Results(r for r in rows if r["vary"] in ("N", "delta"))
    others = [Curve(name, PUBLISHED) for name in ("CAPE", "conventional", "local", DP_FM)]
    pairs = [compare_curves(chosen, other, Curve(OBJECTIVE, PUBLISHED), LOSSES) for other in others]
    found = sum(pairs, Tally())
    numbers = f"the published others: {found}"
    return Verdict("err_w of objective perturbation is too large to show", "section 8.4.4", found.outcome, numbers)
