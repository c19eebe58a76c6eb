"""What becomes of the claims of section 5.4 and of theorem 5.1."""

from __future__ import annotations

import math

from dpcape.published.tensor import agn_noise
from dpcape.reproduce.experiment import Outcome, Verdict
from dpcape.reproduce.figures.pairing import claims_hold, judged_trend, standing, worst_ratio
from dpcape.reproduce.figures.tensor.methods import N_COLLUDING, N_SITES
from dpcape.reproduce.results import NON_PRIVATE, PUBLISHED, VERIFIED, Results

DELTA = 0.01
_EXACT = ("non-private", NON_PRIVATE)
# Errors within this factor are called equal.
_CLOSE = 1.25
_WHERE = {"mixture": "section 5.4.1", "topics": "section 5.4.2"}


def split(results: Results, column: str, *, ends: bool) -> Results:
    """Return rows with one panel per value of a column, at its least and largest values only if ``ends``."""
    values = sorted(float(v) for v in results.values(column))  # type: ignore[arg-type]
    kept = {values[0], values[-1]} if ends else set(values)
    return Results({**r, "panel": f"{r['panel']}, N_s={r[column]:,}"} for r in results if r[column] in kept)


def mixed(results: Results, column: str, x: str) -> Results:
    """Return rows against another coordinate, at a middle and the largest value of ``column``."""
    values = sorted(float(v) for v in results.values(column))  # type: ignore[arg-type]
    kept = {values[len(values) // 2], values[-1]}
    return Results(
        {**r, "x": float(r[x]), "panel": f"{r['panel']}, ε={r[column]:g}"}  # type: ignore[arg-type]
        for r in results
        if r[column] in kept
    )


def judge_sizes(results: Results) -> list[Verdict]:
    """Judge figures 5.1 and 5.2."""
    model = str(results.values("model")[0])
    where = _WHERE[model]
    by_epsilon = split(results, "site_size", ends=False)
    by_size = Results({**r, "x": r["site_size"], "panel": f"{r['panel']} {r['asked_epsilon']}"} for r in results)
    verdicts = [_falls(by_epsilon, "Errors decrease as epsilon grows", where)]
    for calibration in (PUBLISHED, VERIFIED):
        for other in ("conventional", "local"):
            found = standing(by_epsilon, ("CAPE", calibration), (other, calibration))
            claim = f"capeAGN has lower error than {other} in all settings ({calibration})"
            verdicts.append(Verdict(claim, where, found.outcome, f"Error of CAPE: {found}."))
    verdicts.append(_matches(by_epsilon, where))
    verdicts.append(_falls(by_size, "More records per site make capeAGN better", where))
    if model == "topics":
        verdicts.append(_always_close(by_epsilon, where))
    verdicts.append(_theorem(results, model))
    return verdicts


def judge_delta(results: Results) -> list[Verdict]:
    """Judge figure 5.3."""
    rows = Results(
        {**r, "x": r["asked_delta"], "panel": f"{r['panel']} {r['site_size']} {r['asked_epsilon']}"} for r in results
    )
    least = min(float(d) for d in results.values("asked_delta"))  # type: ignore[arg-type]
    verdicts = [_falls(rows, "A smaller delta means more noise and a larger error", "section 5.4.1")]
    sizes, epsilons = ([float(v) for v in results.values(c)] for c in ("site_size", "asked_epsilon"))  # type: ignore[arg-type]
    for model, where in _WHERE.items():
        chosen = rows.where(model=model, site_size=int(max(sizes)), asked_epsilon=max(epsilons))
        claim = (
            "With large epsilon and many records capeAGN is close to the non-private error even for very small delta"
        )
        verdicts.append(_close(chosen, f"{claim} ({model})", where, [least]))
    return [*verdicts, *(_theorem(results.where(model=model), model) for model in _WHERE)]


def _falls(results: Results, claim: str, where: str) -> Verdict:
    """Judge a falling curve: the published calibration decides, the other one is told."""
    outcome, published = judged_trend(results, ("CAPE", PUBLISHED))
    verified = judged_trend(results, ("CAPE", VERIFIED))[1]
    return Verdict(claim, where, outcome, f"As published: {published}. Verified: {verified}.")


def _matches(results: Results, where: str) -> Verdict:
    most = max(float(x) for x in results.values("x"))  # type: ignore[arg-type]
    return _close(results, "capeAGN matches the non-private error for large epsilon", where, [most])


def _close(results: Results, claim: str, where: str, at: list[float]) -> Verdict:
    ratios = {kind: _ratios(results, kind, at) for kind in (PUBLISHED, VERIFIED)}
    text = "; ".join(f"{kind}: {low:.2f} to {high:.2f} times" for kind, (low, high) in ratios.items())
    low, high = ratios[PUBLISHED]
    outcome: Outcome = "holds" if high <= _CLOSE else "holds under conditions" if low <= _CLOSE else "fails"
    return Verdict(claim, where, outcome, f"Error relative to non-private over the panels, {text}.")


def _ratios(results: Results, calibration: str, at: list[float]) -> tuple[float, float]:
    found = [
        worst_ratio(results.where(panel=panel), ("CAPE", calibration), _EXACT, at) for panel in results.values("panel")
    ]
    known = [ratio for ratio in found if not math.isnan(ratio)]
    return (min(known), max(known)) if known else (math.nan, math.nan)


def _always_close(results: Results, where: str) -> Verdict:
    small = Results(r for r in results if r["n_features"] == min(results.values("n_features")))  # type: ignore[type-var]
    points = [float(x) for x in small.values("x")]  # type: ignore[arg-type]
    return _close(small, "At D = 10 capeAGN is always very close to the non-private error", where, points)


def _theorem(results: Results, model: str) -> Verdict:
    outcome, text = claims_hold(results, "CAPE")
    if model == "topics":
        row = next(r for r in results if r["calibration"] == PUBLISHED)
        text += _symmetrised(float(row["claimed_epsilon"]), float(row["delta"]))  # type: ignore[arg-type]
    return Verdict(f"The result is (epsilon, delta)-private as claimed ({model})", "theorem 5.1", outcome, text + ".")


def _symmetrised(epsilon: float, delta: float) -> str:
    noise = agn_noise(
        "topics", "CAPE", epsilon=epsilon, delta=delta, site_size=1, n_sites=N_SITES, n_colluding=N_COLLUDING,
        n_features=2,
    )  # fmt: skip
    return (
        "; the moments are not symmetric but the noise is, so that differences of mirror images are released bare. "
        f"Made symmetric first, claimed {epsilon:g} would be {noise.verified_symmetrised:.3g}"
    )
