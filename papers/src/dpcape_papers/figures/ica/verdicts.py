"""Verdicts on the claims of sections 6.3 and 6.5."""

from __future__ import annotations

from dpcape_papers.experiments.experiment import Outcome, Verdict
from dpcape_papers.experiments.results import EXACT, NON_PRIVATE, PUBLISHED, VERIFIED, Results, number
from dpcape_papers.figures.ica import gain
from dpcape_papers.verdicts import (
    Curve,
    Yardstick,
    as_good,
    compare_curves,
    outcome_of,
    privacy_claim,
    together,
    trend,
)

INDEX, OVERALL = Yardstick("smaller"), Yardstick("smaller", exact=True)
_CAPE, _EXACT = Curve("CAPE", PUBLISHED), Curve("non-private", NON_PRIVATE)
# q_NGI without any unmixing is about 0.3; an excess of at most this over the result without noise counts as equal.
_CLOSE = 0.02


def judge_epsilon(results: Results) -> list[Verdict]:
    """Judge figure 6.2."""
    where = "section 6.5.1"
    rows = results.where(measure=gain.ERROR)
    return [
        *_better(rows, where),
        _falls(rows, "A higher epsilon per round gives a smaller q_NGI", where),
        _reaches(
            rows, "capeDJICA reaches the utility of djICA for some parameters (as published)", where, everywhere=False
        ),
        _falls(
            gain.against(rows, "n_subjects", fixed="asked_epsilon", symbol="ε"),
            "At the same epsilon per round more people give a better result", where,
        ),
        _smallest(results, where),
        *_private(results),
    ]  # fmt: skip


def judge_people(results: Results) -> list[Verdict]:
    """Judge figure 6.3."""
    where = "section 6.5.2"
    rows = results.where(measure=gain.ERROR)
    by_people = gain.against(rows, "n_subjects", fixed="asked_epsilon", symbol="ε")
    totals = gain.against(results.where(measure=gain.OVERALL), "n_subjects", fixed="asked_epsilon", symbol="ε")
    return [
        *_better(by_people, where),
        _falls(by_people, "More people give a smaller q_NGI", where),
        _reaches(by_people, "capeDJICA performs very closely to djICA (as published)", where, everywhere=True),
        _overall_falls(totals),
        *_private(results),
    ]


def judge_delta(results: Results) -> list[Verdict]:
    """Judge figure 6.4."""
    where = "section 6.5.3"
    rows = results.where(measure=gain.ERROR)
    by_delta = gain.against(rows, "asked_delta", fixed="n_subjects", symbol="M")
    return [
        _reaches(
            by_delta,
            "capeDJICA achieves very close utility to djICA on both data sets (as published)",
            where,
            everywhere=True,
        ),
        _falls(by_delta, "A smaller delta means more noise, which reduces the utility", where),
        _small(results, where),
        *_private(results),
    ]


def _better(rows: Results, where: str) -> list[Verdict]:
    pairs = [(gain.DP_DJICA, PUBLISHED), ("local", PUBLISHED), ("local", VERIFIED)]
    verdicts = []
    for other, kind in pairs:
        found = compare_curves(rows, Curve("CAPE", kind), Curve(other, kind), INDEX)
        claim = f"capeDJICA has a smaller q_NGI than {other} ({kind})"
        verdicts.append(Verdict(claim, where, found.outcome, f"q_NGI of CAPE: {found}."))
    return verdicts


def _falls(rows: Results, claim: str, where: str) -> Verdict:
    outcome, numbers = together({kind: trend(rows, Curve("CAPE", kind), INDEX) for kind in (PUBLISHED, VERIFIED)})
    return Verdict(claim, where, outcome, f"q_NGI of CAPE, {numbers}.")


def _reaches(rows: Results, claim: str, where: str, *, everywhere: bool) -> Verdict:
    """Judge whether the result without noise is reached at every point, or at one."""
    excess = []
    for panel in rows.values("panel"):
        noisy, exact = (curve.of(rows.where(panel=panel)) for curve in (_CAPE, _EXACT))
        excess += [noisy.mean(x=x) - exact.mean(x=x) for x in noisy.values("x")]
    near = [value <= _CLOSE for value in excess]
    outcome: Outcome = as_good(near) if everywhere else "holds" if any(near) else "fails"
    text = f"q_NGI at most {_CLOSE} above djICA's at {sum(near)} of {len(near)} points; excess up to {max(excess):.3f}."
    return Verdict(claim, where, outcome, text, needs_size=True)


def _smallest(results: Results, where: str) -> Verdict:
    """Judge "the smallest overall epsilon among the private methods" by the real epsilons, not the claimed ones."""
    rows = results.where(measure=gain.ERROR, calibration=PUBLISHED)
    points = {(str(r["panel"]), number(r, "x")) for r in rows}
    n_smaller = 0
    for panel, x in points:
        real = {str(r["curve"]): number(r, "verified_epsilon") for r in rows.where(panel=panel, x=x)}
        n_smaller += real["CAPE"] < min(real["local"], real[gain.DP_DJICA])
    text = f"Real epsilon below that of local and DP-djICA at {n_smaller} of {len(points)} points"
    if n_smaller < len(points):
        text += ": a single site has the same noise multiplier, and no aggregator sees its messages"
    text += "."
    return Verdict(
        "capeDJICA guarantees the smallest overall epsilon of all methods",
        where,
        outcome_of(n_smaller, len(points)),
        text,
        measured=False,
    )


def _small(results: Results, where: str) -> Verdict:
    rows = results.where(measure=gain.OVERALL)
    real, person = (rows.where(curve=curve).numbers("value") for curve in (gain.TIME_POINT, gain.PERSON))
    text = (
        f"Real epsilon of all rounds (small means at most 1): {min(real):.3g} to {max(real):.3g} for a time point, "
        f"{min(person):.3g} to {max(person):.3g} for a person."
    )
    outcome = outcome_of(sum(e <= 1 for e in real), len(real))
    return Verdict("The overall epsilon is very small", where, outcome, text, measured=False)


def _overall_falls(totals: Results) -> Verdict:
    """Judge by the ends: these epsilons are computed, so chance plays no part."""
    found = trend(totals, Curve(gain.TIME_POINT, EXACT), OVERALL)
    claim = "More people give a smaller overall epsilon at the same epsilon per round"
    text = f"Real epsilon of a time point: {found}; the noise is proportional to 1/N, so N cancels."
    outcome = outcome_of(found.ends.better, found.ends.n)
    return Verdict(claim, "figure 6.3, caption", outcome, text, measured=False)


def _private(results: Results) -> list[Verdict]:
    return [*(_all_rounds(results.where(source=source), str(source)) for source in results.values("source")),
            _moments(results)]  # fmt: skip


def _all_rounds(results: Results, source: str) -> Verdict:
    outcome, text = privacy_claim(results.where(measure=gain.ERROR), "CAPE")
    text = f"At the stated delta, per time point, {text}"
    # Section 6.5 reduces the real data by a PCA without noise.
    text += "; the PCA before the rounds is not protected" if source == "real" else ""
    claim = f"All rounds together are (2 J epsilon, 2 J delta)-private ({source} data)"
    text += "; 2 J delta itself exceeds 1 at delta 0.01."
    return Verdict(claim, "theorem 6.1", outcome, text, measured=False)


def _moments(results: Results) -> Verdict:
    moments = results.where(curve=gain.MOMENTS)
    real = results.where(curve=gain.TIME_POINT)
    short = [number(r, "value") / real.mean(panel=r["panel"], x=r["x"], asked_delta=r["asked_delta"]) for r in moments]
    unsafe: Outcome = "fails" if not short or min(short) < 1 else "holds"
    text = f"The formula has a real root at {len(short)} of {len(real)} points"
    text += f", where it gives {min(short):.2g} to {max(short):.2g} times the real epsilon." if short else "."
    claim = "The moments accountant gives the overall epsilon"
    return Verdict(claim, "section 6.3.2", unsafe, text, measured=False)
