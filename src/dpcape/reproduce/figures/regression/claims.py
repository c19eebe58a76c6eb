"""What the text says about figures 8.1 to 8.3, judged from their rows."""

from __future__ import annotations

import math

from dpcape.reproduce.comparison import PUBLISHED, VERIFIED
from dpcape.reproduce.experiment import Outcome, Verdict
from dpcape.reproduce.figures.log_points import Curve, Score, ends, reached_at, score, total, weaker
from dpcape.reproduce.figures.regression.methods import DP_FM, ERROR, LOSS, OBJECTIVE
from dpcape.reproduce.results import Results

CAPE: tuple[Curve, Curve] = (("CAPE", VERIFIED), ("CAPE", PUBLISHED))
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
    return [*verdicts, _promise(rows, "CAPE"), _promise(rows, "local"), _pure(rows)]


def _where(measure: str, section: str) -> str:
    return f"section {'8.4.4' if measure == 'err_w' else section}"


def _both(verified: Score, published: Score) -> tuple[Outcome, str]:
    outcome = weaker([verified.outcome, published.outcome])
    return outcome, f"verified: {verified}; as published: {published}"


def _falls(rows: Results, claim: str, where: str) -> Verdict:
    curves = ("CAPE", "conventional", "local")
    verified, published = (
        total([ends(rows, (curve, kind)) for curve in curves]) for kind in (VERIFIED, PUBLISHED)
    )  # fmt: skip
    outcome, numbers = _both(verified, published)
    return Verdict(claim, where, outcome, f"last against first value, over curves and panels: {numbers}")


def _outperforms(rows: Results, other: str, where: str) -> Verdict:
    kinds = (VERIFIED, PUBLISHED) if other in ("conventional", "local") else (PUBLISHED, PUBLISHED)
    verified, published = (score(rows, cape, (other, kind)) for cape, kind in zip(CAPE, kinds, strict=True))
    outcome, numbers = _both(verified, published)
    return Verdict(f"CAPE outperforms {other} at equal claimed epsilon", where, outcome, f"CAPE is {numbers}")


def _like_pooled(rows: Results) -> Verdict:
    found = score(rows, ("pooled", VERIFIED), ("CAPE", VERIFIED))
    outcome: Outcome = "holds" if found.better == 0 else "holds under conditions" if found.equal else "fails"
    numbers = f"verified, pooled is {found}"
    return Verdict("With equal sites CAPE does as well as noise on pooled records", "section 8.3.2", outcome, numbers)


def _reaches(rows: Results, measure: str) -> Verdict:
    claim = "For large N and epsilon CAPE reaches the non-private result"
    worst = {kind: _distance(rows, (name, kind)) for name, kind in CAPE}
    best = {kind: min(values) for kind, values in worst.items()}
    near = [value <= REACHED for values in worst.values() for value in values]
    outcome: Outcome = "holds" if all(near) else "holds under conditions" if any(near) else "fails"
    shown = "; ".join(f"{kind} {best[kind]:.3g} to {max(worst[kind]):.3g}" for kind in worst)
    numbers = f"{measure} over the non-private one at the largest N or epsilon of each panel: {shown}"
    return Verdict(claim, _where(measure, "8.4.2"), outcome, numbers)


def _distance(rows: Results, curve: Curve) -> list[float]:
    """Return CAPE over non-private at the largest x of each panel."""
    found = []
    for panel in rows.values("panel"):
        (noisy,) = rows.series(panel=panel, curve=curve[0], calibration=curve[1])
        (plain,) = rows.series(panel=panel, curve="non-private")
        found.append(float(noisy.mean[-1] / plain.mean[-1]))
    return found


def _dimension(rows: Results, vary: str, measure: str, where: str) -> Verdict:
    """Compare the least epsilon or N at which CAPE comes near the non-private result, D = 20 against D = 50."""
    needed = {"epsilon": "a smaller epsilon gives the same utility", "N": "the decrease with N is sharper"}
    target, words = (SAME_ERROR, f"err_w {SAME_ERROR}") if measure == "err_w" else (None, "twice the non-private loss")
    pairs = [
        tuple(reached_at(rows.where(panel=panel), curve, target) for panel in panels)
        for curve in CAPE
        for panels in zip(*(_panels(rows, width) for width in (20, 50)), strict=True)
    ]
    smaller = [low < high for low, high in pairs if min(low, high) < math.inf]
    outcome: Outcome = "holds" if smaller and all(smaller) else "holds under conditions" if any(smaller) else "fails"
    shown = ", ".join(f"{low:.3g} against {high:.3g}" for low, high in pairs)
    numbers = f"{vary} at which CAPE comes down to {words}, D = 20 against 50: {shown}"
    return Verdict(f"With fewer dimensions {needed[vary]}", where, outcome, numbers)


def _panels(rows: Results, width: int) -> list[str]:
    return [str(name) for name in rows.values("panel") if f"D = {width}" in str(name)]


def _unmoved(rows: Results) -> Verdict:
    """Tell whether dp-fm and objective perturbation, being pure, give the same result at every delta."""
    moved = 0.0
    for curve in (DP_FM, OBJECTIVE):
        for panel in rows.values("panel"):
            for run in rows.values("run"):
                values = [float(r["value"] or 0) for r in rows.where(curve=curve, panel=panel, run=run)]
                moved = max(moved, max(values) / min(values) - 1)
    outcome: Outcome = "holds" if moved < 1e-9 else "fails"
    claim = "dp-fm and objective perturbation do not vary with delta"
    return Verdict(claim, "section 8.4.3", outcome, f"largest relative change {moved:.2g}")


def _best_at_moderate(rows: Results, measure: str) -> Verdict:
    """Compare CAPE with all others at deltas of 1e-5 and above."""
    moderate = Results(r for r in rows if float(r["x"] or 0) >= 1e-5)
    verified, published = (
        total([score(moderate, cape, (other, kind)) for other in ("conventional", "local")]
              + [score(moderate, cape, (other, PUBLISHED)) for other in (DP_FM, OBJECTIVE)])
        for cape, kind in zip(CAPE, (VERIFIED, PUBLISHED), strict=True)
    )  # fmt: skip
    outcome, numbers = _both(verified, published)
    claim = "At moderate delta CAPE easily outperforms the other private schemes"
    return Verdict(claim, "section 8.4.3" if measure != "err_w" else "section 8.4.4", outcome, f"CAPE is {numbers}")


def _promise(rows: Results, curve: str) -> Verdict:
    """Compare claimed and verified epsilon of the published noise."""
    claims = {
        "CAPE": ("capeFM is (epsilon, delta) private against the aggregator and colluding sites", "section 8.3.2"),
        "local": ("Algorithm 8.1 is (epsilon, delta) private (one holder)", "theorem 8.1"),
    }
    pairs = sorted({
        (float(r["claimed_epsilon"] or 0), float(r["verified_epsilon"] or 0), float(r["delta"] or 0))
        for r in rows.where(curve=curve, calibration=PUBLISHED)
    })  # fmt: skip
    broken = [pair for pair in pairs if pair[1] > pair[0]]
    outcome: Outcome = "fails" if broken else "holds"
    worst = max(broken or pairs, key=lambda pair: pair[1] / pair[0])
    numbers = f"real epsilon above the claim in {len(broken)} of {len(pairs)} settings"
    numbers += f"; worst: claimed {worst[0]:g} is {worst[1]:.3g} at delta {worst[2]:g}"
    return Verdict(claims[curve][0], claims[curve][1], outcome, numbers)


def _pure(rows: Results) -> Verdict:
    """Tell which of the two competitors keep their pure epsilon."""
    kept = {}
    for curve in (DP_FM, OBJECTIVE):
        found = [(float(r["verified_epsilon"] or 0), float(r["claimed_epsilon"] or 0)) for r in rows.where(curve=curve)]
        kept[curve] = all(real <= claimed for real, claimed in found)
    outcome: Outcome = "holds" if all(kept.values()) else "holds under conditions" if any(kept.values()) else "fails"
    shown = "; ".join(f"{curve}: {'holds' if holds else 'no pure epsilon holds'}" for curve, holds in kept.items())
    numbers = f"{shown} (the slope of the squared loss is not bounded)" if not kept[OBJECTIVE] else shown
    return Verdict(
        "dp-fm and objective perturbation offer pure epsilon-differential privacy", "section 8.4", outcome, numbers
    )


def _less_pronounced(real: Results, synthetic: Results) -> Verdict:
    """Compare how much CAPE's loss changes with delta."""
    change = [
        max(ends(rows.where(vary="delta"), curve).ratio for curve in CAPE) for rows in (real, synthetic)
    ]  # fmt: skip
    outcome: Outcome = "holds" if change[0] < change[1] else "fails"
    numbers = f"loss at the smallest delta over that at the largest: real {change[0]:.3g}, synthetic {change[1]:.3g}"
    return Verdict("Variation with delta is less pronounced than for synthetic data", "section 8.4.3", outcome, numbers)


def _objective_off_the_scale(rows: Results) -> Verdict:
    """Tell whether objective perturbation is above every other curve where the paper leaves it out."""
    chosen = Results(r for r in rows if r["vary"] in ("N", "delta"))
    others = [("CAPE", PUBLISHED), ("conventional", PUBLISHED), ("local", PUBLISHED), (DP_FM, PUBLISHED)]
    found = total([score(chosen, other, (OBJECTIVE, PUBLISHED)) for other in others])
    numbers = f"the published others are {found}"
    return Verdict("err_w of objective perturbation is too large to show", "section 8.4.4", found.outcome, numbers)
