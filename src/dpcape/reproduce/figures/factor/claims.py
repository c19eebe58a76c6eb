"""What the text says about figures 2 to 4, judged from their rows."""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import t as student

from dpcape.reproduce.experiment import Outcome, Verdict
from dpcape.reproduce.figures.factor.cells import (
    BEST,
    CHANCE,
    ERROR,
    FOUND,
    GUESSED,
    PROPOSED,
    REBUILT,
    SVD,
    TWO_STAGE,
    WORST,
)
from dpcape.reproduce.figures.log_points import Score, ends, score
from dpcape.reproduce.results import NON_PRIVATE, PUBLISHED, Results

# "Minimal deterioration", "plateaus" and "no significant change": at most this share.
SMALL = 0.05
RELEASED = (PROPOSED, SVD, TWO_STAGE)


def judge_size(results: Results) -> list[Verdict]:
    """Judge figure 2."""
    rows = results.where(measure=ERROR)
    return [
        *_ordering(rows, "section V.A", "at every sample size"),
        _falls_with_size(rows),
        _minimal_loss(rows),
        _guarantee(results),
    ]


def judge_number(results: Results) -> list[Verdict]:
    """Judge figure 3."""
    rows = results.where(measure=ERROR)
    return [
        _falls_then_flat(rows),
        _lowest_at(rows, 12, "The lowest error is at 12 factors, not at the true number, 10", "section V.A"),
        *_ordering(rows, "section V.A", "at every number of factors"),
    ]


def judge_connectivity(results: Results) -> list[Verdict]:
    """Judge figure 4."""
    rows = results.where(measure=ERROR)
    return [
        _lowest_at(rows, 18, "The lowest error is at 18 factors", "section V.B"),
        _flat_beyond(rows),
        *_ordering(rows, "section V.B", "on brain data"),
        _nearer_the_best(rows),
        _guarantee(results),
    ]


def _runs(rows: Results) -> int:
    return len(rows.values("run"))


def _ordering(rows: Results, where: str, words: str) -> list[Verdict]:
    verdicts = []
    for other in (SVD, TWO_STAGE):
        found = score(rows, (PROPOSED, PUBLISHED), (other, PUBLISHED), close=1.0)
        claim = f"The proposed release predicts better than {other} {words}"
        verdicts.append(Verdict(claim, where, found.outcome, f"{found} ({_runs(rows)} runs)"))
    return verdicts


def _falls_with_size(rows: Results) -> Verdict:
    """Fit a power of n to each data set's errors; the mean exponent is judged against its standard error."""
    powers = []
    for run in rows.values("run"):
        mine = rows.where(curve=PROPOSED, run=run)
        x, y = (np.log([float(r[name] or 1.0) for r in mine]) for name in ("x", "value"))
        powers.append(float(np.polyfit(x, y, 1)[0]))
    mean, several = float(np.mean(powers)), len(powers) > 1
    error = float(np.std(powers, ddof=1)) / math.sqrt(len(powers)) if several else math.inf
    clear = several and abs(mean) > float(student.ppf(0.975, len(powers) - 1)) * error
    outcome: Outcome = "fails" if mean >= 0 else "holds" if clear else "holds under conditions"
    numbers = f"error grows like n to the power {mean:+.2f} ± {error:.2f} over {len(powers)} data sets"
    return Verdict("The error falls as the sample size grows", "figure 2", outcome, numbers)


def _minimal_loss(rows: Results) -> Verdict:
    """Compare with ridge regression on the features themselves, as section V defines the loss of accuracy."""
    shares = {x: _mean(rows, PROPOSED, x) / _mean(rows, BEST, x) - 1 for x in _places(rows)}
    small = [share <= SMALL for share in shares.values()]
    outcome: Outcome = "holds" if all(small) else "holds under conditions" if any(small) else "fails"
    shown = ", ".join(f"{share:+.1%} at n = {x:g}" for x, share in shares.items())
    return Verdict("The loss of accuracy against the original features is minimal", "abstract", outcome, shown)


def _guarantee(results: Results) -> Verdict:
    """Attack the release: anything rebuilt or found beyond chance contradicts a full guarantee."""
    rebuilt, shuffled, found, chance = (results.mean(measure=name) for name in (REBUILT, GUESSED, FOUND, CHANCE))
    outcome: Outcome = "fails" if rebuilt > max(shuffled, 0.0) + SMALL or found > 2 * chance else "holds"
    numbers = f"with some records known, {max(rebuilt, 0.0):.0%} of the variance of other people's features is rebuilt"
    numbers += f"; {found:.0%} of them are found by noisy knowledge of 20 features (guessing {chance:.1%}); no epsilon"
    return Verdict("The privacy of the original features is fully guaranteed", "abstract", outcome, numbers)


def _falls_then_flat(rows: Results) -> Verdict:
    places = _places(rows)
    middle = min(places, key=lambda x: abs(x - 10))
    first, end = (
        _step(rows, places[0], middle),
        _mean(rows, PROPOSED, places[-1]) / _mean(rows, PROPOSED, middle) - 1,
    )
    flat = abs(end) <= SMALL
    outcome: Outcome = "holds" if first.better and flat else "holds under conditions" if first.better else "fails"
    numbers = f"{middle:g} against {places[0]:g} factors: ratio {first.ratio:.3g}; "
    numbers += f"{places[-1]:g} against {middle:g}: {end:+.1%}"
    return Verdict("The error falls with the number of factors, then plateaus", "section V.A", outcome, numbers)


def _flat_beyond(rows: Results) -> Verdict:
    places = _places(rows)
    change = _mean(rows, PROPOSED, places[-1]) / _mean(rows, PROPOSED, 25.0) - 1
    outcome: Outcome = "holds" if abs(change) <= SMALL else "fails"
    numbers = f"{places[-1]:g} against 25 factors: {change:+.1%}"
    return Verdict("Beyond 25 factors the error does not change much", "section V.B", outcome, numbers)


def _lowest_at(rows: Results, number: int, claim: str, where: str) -> Verdict:
    """Holds if the mean is lowest there; under conditions if no number is clearly lower."""
    means = {x: _mean(rows, PROPOSED, x) for x in _places(rows)}
    best = min(means, key=lambda x: means[x])
    clear = best != number and _step(rows, float(number), best).better
    outcome: Outcome = "holds" if best == number else "fails" if clear else "holds under conditions"
    numbers = f"lowest at {best:g} ({means[best]:.3g}); at {number}: {means[float(number)]:.3g}"
    return Verdict(claim, where, outcome, f"{numbers}; the difference is {'' if clear else 'not '}beyond chance")


def _nearer_the_best(rows: Results) -> Verdict:
    """Compare at the number of factors with the lowest error, as the paper chose it."""
    best = min(_places(rows), key=lambda x: _mean(rows, PROPOSED, x))
    low, mine, high = (_mean(rows, curve, best) for curve in (BEST, PROPOSED, WORST))
    outcome: Outcome = "holds" if low < high and mine - low < high - mine else "fails"
    numbers = f"best case {low:.3g}, proposed {mine:.3g} with {best:g} factors, worst case {high:.3g}"
    return Verdict("The release comes nearer the best case than the worst case", "section V.B", outcome, numbers)


def _places(rows: Results) -> list[float]:
    return sorted(float(x) for x in rows.values("x") if x is not None)


def _mean(rows: Results, curve: str, x: float) -> float:
    kind = NON_PRIVATE if curve in (BEST, WORST) else PUBLISHED
    return float(np.mean([float(r["value"] or 0.0) for r in rows.where(curve=curve, calibration=kind, x=x)]))


def _step(rows: Results, start: float, end: float) -> Score:
    """Compare the error at ``end`` with that at ``start``, wherever they lie."""
    two = Results(r for r in rows if r["x"] in (start, end))
    turned = two if start < end else Results({**r, "x": -float(r["x"] or 0.0)} for r in two)
    return ends(turned, (PROPOSED, PUBLISHED), close=1.0)
