"""Verdicts on the claims of section 5.4 and on theorem 5.1."""

from __future__ import annotations

from collections.abc import Collection

from dpcape_papers.experiments.experiment import Outcome, Verdict
from dpcape_papers.experiments.results import NON_PRIVATE, PUBLISHED, VERIFIED, Results, number
from dpcape_papers.figures.tensor.methods import N_COLLUDING, N_SITES
from dpcape_papers.published.tensor import AgnNoise, agn_noise
from dpcape_papers.verdicts import (
    Curve,
    Yardstick,
    agreed,
    as_good,
    compare_curves,
    privacy_claim,
    ratios,
    reached,
    together,
    trend,
)

DELTA = 0.01
ERRORS = Yardstick("smaller", log=True)
_KINDS = (PUBLISHED, VERIFIED)
_EXACT = Curve("non-private", NON_PRIVATE)
# "Matches" and "very close" mean at most this many times the non-private error.
_CLOSE = 1.25
_WHERE = {"mixture": "section 5.4.1", "topics": "section 5.4.2"}


def split(results: Results, column: str, *, ends: bool) -> Results:
    """Return rows with one panel per value of a column; with ``ends``, only at its smallest and largest value."""
    values = sorted(set(results.numbers(column)))
    kept = {values[0], values[-1]} if ends else set(values)
    return Results({**r, "panel": f"{r['panel']}, N_s={r[column]:,}"} for r in results if r[column] in kept)


def mixed(results: Results, column: str, x: str) -> Results:
    """Return rows with column ``x`` as horizontal coordinate, at a middle and the largest value of ``column``."""
    values = sorted(set(results.numbers(column)))
    kept = {values[len(values) // 2], values[-1]}
    return Results(
        {**r, "x": number(r, x), "panel": f"{r['panel']}, ε={r[column]:g}"} for r in results if r[column] in kept
    )


def judge_sizes(results: Results) -> list[Verdict]:
    """Judge figures 5.1 and 5.2."""
    model = str(results.values("model")[0])
    where = _WHERE[model]
    by_epsilon = split(results, "site_size", ends=False)
    by_size = Results({**r, "x": r["site_size"], "panel": f"{r['panel']} {r['asked_epsilon']}"} for r in results)
    verdicts = [_falls(by_epsilon, "Errors decrease as epsilon grows", where)]
    for kind in _KINDS:
        for other in ("conventional", "local"):
            found = compare_curves(by_epsilon, Curve("CAPE", kind), Curve(other, kind), ERRORS)
            claim = f"capeAGN has lower error than {other} in all settings ({kind})"
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
    least = min(results.numbers("asked_delta"))
    verdicts = [_falls(rows, "A smaller delta means more noise and a larger error", "section 5.4.1")]
    size, epsilon = (max(results.numbers(column)) for column in ("site_size", "asked_epsilon"))
    for model, where in _WHERE.items():
        chosen = rows.where(model=model, site_size=size, asked_epsilon=epsilon)
        claim = (
            "With large epsilon and many records capeAGN is close to the non-private error even for very small delta"
        )
        verdicts.append(_close(chosen, f"{claim} ({model})", where, [least]))
    return [*verdicts, *(_theorem(results.where(model=model), model) for model in _WHERE)]


def _falls(results: Results, claim: str, where: str) -> Verdict:
    outcome, numbers = together({kind: trend(results, Curve("CAPE", kind), ERRORS) for kind in _KINDS})
    return Verdict(claim, where, outcome, f"Error of CAPE, {numbers}.")


def _matches(results: Results, where: str) -> Verdict:
    most = max(results.numbers("x"))
    return _close(results, "capeAGN matches the non-private error for large epsilon", where, [most])


def _close(results: Results, claim: str, where: str, at: Collection[float], *, open_ended: bool = True) -> Verdict:
    """Judge whether CAPE is close; ``open_ended`` if the text does not say which size or epsilon is large enough."""
    found = {kind: _ratios(results, kind, at) for kind in _KINDS}
    text = "; ".join(f"{kind}: {min(values):.2f} to {max(values):.2f} times" for kind, values in found.items())
    rule = reached if open_ended else as_good
    outcome = agreed(rule([value <= _CLOSE for value in values]) for values in found.values())
    return Verdict(
        claim, where, outcome, f"Error relative to non-private (close: at most {_CLOSE:g}), by panel: {text}."
    )


def _ratios(results: Results, kind: str, at: Collection[float]) -> list[float]:
    found = ratios(results, Curve("CAPE", kind), _EXACT)
    return [value for points in found.values() for x, value in points.items() if x in at]


def _always_close(results: Results, where: str) -> Verdict:
    small = results.where(n_features=min(results.numbers("n_features")))
    claim = "At D = 10 capeAGN is always very close to the non-private error"
    return _close(small, claim, where, set(small.numbers("x")), open_ended=False)


def _theorem(results: Results, model: str) -> Verdict:
    outcome, text = privacy_claim(results, "CAPE")
    if model == "topics":
        row = next(r for r in results if r["calibration"] == PUBLISHED)
        text += _symmetrised(number(row, "claimed_epsilon"), number(row, "delta"))
    elif outcome == "fails":
        outcome, words = _second_alone(results)
        text += words
    claim = f"The result is (epsilon, delta)-private as claimed ({model})"
    return Verdict(claim, "theorem 5.1", outcome, text + ".", measured=False)


def _second_alone(results: Results) -> tuple[Outcome, str]:
    """Confirm a broken claim by the exact epsilon of the second moment; that of both moments is an upper bound."""
    settings = {(number(r, "claimed_epsilon"), number(r, "delta")) for r in Curve("CAPE", PUBLISHED).of(results)}
    real = {one: _noise("mixture", *one).verified_second for one in settings}
    claimed, delta = worst = max(settings, key=lambda one: real[one] / one[0])
    text = "; an upper bound, which adds up the worst cases of both moments; "
    text += f"M2 by itself: claimed {claimed:g}, real {real[worst]:.3g}"
    return ("fails" if real[worst] > claimed else "not shown"), f"{text} at delta {delta:g}"


def _noise(model: str, epsilon: float, delta: float) -> AgnNoise:
    return agn_noise(
        model, "CAPE", epsilon=epsilon, delta=delta, site_size=1, n_sites=N_SITES, n_colluding=N_COLLUDING,
        n_features=2,
    )  # fmt: skip


def _symmetrised(epsilon: float, delta: float) -> str:
    noise = _noise("topics", epsilon, delta)
    return (
        "; the moments are not symmetric but the noise is, so differences of mirrored entries are released without "
        f"noise. With symmetric moments the real epsilon for a claimed {epsilon:g} would be "
        f"{noise.verified_symmetrised:.3g}"
    )
