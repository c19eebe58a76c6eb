"""What becomes of the claims of sections 6.3 and 6.5."""

from __future__ import annotations

from dpcape.reproduce.experiment import Outcome, Verdict
from dpcape.reproduce.figures.ica import gain
from dpcape.reproduce.figures.pairing import claims_hold, judged_trend, standing
from dpcape.reproduce.results import NON_PRIVATE, PUBLISHED, VERIFIED, Results

_CAPE, _EXACT = ("CAPE", PUBLISHED), ("non-private", NON_PRIVATE)
# q_NGI of no unmixing at all is about .3; this much more than without noise is called equal.
_CLOSE = 0.02


def judge_epsilon(results: Results) -> list[Verdict]:
    """Judge figure 6.2."""
    where = "section 6.5.1"
    rows = results.where(measure=gain.ERROR)
    return [
        *_better(rows, where),
        _falls(rows, "A higher epsilon per round gives a smaller q_NGI", where),
        _reaches(rows, "capeDJICA reaches the utility of djICA for some parameters", where, everywhere=False),
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
        _reaches(by_people, "capeDJICA performs very closely to djICA", where, everywhere=True),
        _overall_falls(totals),
        *_private(results),
    ]


def judge_delta(results: Results) -> list[Verdict]:
    """Judge figure 6.4."""
    where = "section 6.5.3"
    rows = results.where(measure=gain.ERROR)
    by_delta = gain.against(rows, "asked_delta", fixed="n_subjects", symbol="M")
    return [
        _reaches(by_delta, "capeDJICA achieves very close utility to djICA on both data sets", where, everywhere=True),
        _falls(by_delta, "A smaller delta means more noise, which affects the utility", where),
        _small(results, where),
        *_private(results),
    ]


def _better(rows: Results, where: str) -> list[Verdict]:
    pairs = [(gain.DP_DJICA, PUBLISHED), ("local", PUBLISHED), ("local", VERIFIED)]
    verdicts = []
    for other, kind in pairs:
        found = standing(rows, ("CAPE", kind), (other, kind))
        claim = f"capeDJICA has a smaller q_NGI than {other} ({kind})"
        verdicts.append(Verdict(claim, where, found.outcome, f"q_NGI of CAPE: {found}."))
    return verdicts


def _falls(rows: Results, claim: str, where: str) -> Verdict:
    outcome, published = judged_trend(rows, _CAPE)
    verified = judged_trend(rows, ("CAPE", VERIFIED))[1]
    return Verdict(claim, where, outcome, f"As published: {published}. Verified: {verified}.")


def _reaches(rows: Results, claim: str, where: str, *, everywhere: bool) -> Verdict:
    excess = []
    for panel in rows.values("panel"):
        part = rows.where(panel=panel)
        for x in part.where(curve="CAPE", calibration=PUBLISHED).values("x"):
            means = [part.mean(curve=curve, calibration=kind, x=x) for curve, kind in (_CAPE, _EXACT)]
            excess.append(means[0] - means[1])
    close = sum(value <= _CLOSE for value in excess)
    outcome: Outcome = "fails" if close == 0 else "holds under conditions"
    if close == len(excess) or (close and not everywhere):
        outcome = "holds"
    text = f"q_NGI at most {_CLOSE} above djICA's at {close} of {len(excess)} points; excess up to {max(excess):.3f}."
    return Verdict(claim, where, outcome, text)


def _smallest(results: Results, where: str) -> Verdict:
    """Judge "the smallest overall epsilon among the private methods" by what is true, not by what is claimed."""
    rows = results.where(measure=gain.ERROR, calibration=PUBLISHED)
    points = {(str(r["panel"]), float(r["x"])) for r in rows}  # type: ignore[arg-type]
    n_smaller = 0
    for panel, x in points:
        real = {
            str(r["curve"]): float(r["verified_epsilon"])  # type: ignore[arg-type]
            for r in rows.where(panel=panel, x=x)
        }
        n_smaller += real["CAPE"] < min(real["local"], real[gain.DP_DJICA])
    outcome: Outcome = "holds" if n_smaller == len(points) else "holds under conditions" if n_smaller else "fails"
    text = f"Real epsilon below that of local and DP-djICA at {n_smaller} of {len(points)} points"
    if n_smaller < len(points):
        text += ": a site alone has the same noise multiplier and no aggregator that sees its messages"
    text += "."
    return Verdict("capeDJICA guarantees the smallest overall epsilon of all", where, outcome, text)


def _small(results: Results, where: str) -> Verdict:
    rows = results.where(measure=gain.OVERALL)
    real = [float(r["value"]) for r in rows.where(curve=gain.TIME_POINT)]  # type: ignore[arg-type]
    person = [float(r["value"]) for r in rows.where(curve=gain.PERSON)]  # type: ignore[arg-type]
    outcome: Outcome = "holds" if max(real) <= 1 else "holds under conditions" if min(real) <= 1 else "fails"
    text = (
        f"Real epsilon of all rounds (small: at most 1) {min(real):.3g} to {max(real):.3g} for a time point, "
        f"{min(person):.3g} to {max(person):.3g} for a person."
    )
    return Verdict("The overall epsilon is very small", where, outcome, text)


def _overall_falls(totals: Results) -> Verdict:
    outcome, text = judged_trend(totals, (gain.TIME_POINT, VERIFIED))
    claim = "More people give a smaller overall epsilon at the same epsilon per round"
    text = f"Real epsilon of a time point: {text}; the noise is scaled to 1/N, so N cancels."
    return Verdict(claim, "figure 6.3, caption", outcome, text)


def _private(results: Results) -> list[Verdict]:
    rows = results.where(measure=gain.ERROR)
    outcome, text = claims_hold(rows.where(source="simulated"), "CAPE")
    verdicts = [
        Verdict("All rounds together are (2 J epsilon, 2 J delta)-private (simulated data)", "theorem 6.1", outcome,
                f"At the delta asked for, per time point, {text}; 2 J delta itself exceeds 1 at delta .01.")
    ]  # fmt: skip
    moments = results.where(curve=gain.MOMENTS)
    real = results.where(curve=gain.TIME_POINT)
    short = [
        float(r["value"]) / real.mean(panel=r["panel"], x=r["x"], asked_delta=r["asked_delta"])  # type: ignore[arg-type]
        for r in moments
    ]
    unsafe: Outcome = "fails" if not short or min(short) < 1 else "holds"
    text = f"Formula has a real root at {len(short)} of {len(real)} points"
    text += f", where it prints {min(short):.2g} to {max(short):.2g} times the real epsilon." if short else "."
    verdicts.append(Verdict("The moments accountant gives the overall epsilon", "section 6.3.2", unsafe, text))
    return verdicts
