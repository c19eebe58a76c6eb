"""Verdicts on the paper's claims about figures 2 to 4."""

from __future__ import annotations

import math

import numpy as np

from dpcape_papers.experiments.experiment import Outcome, Verdict
from dpcape_papers.experiments.results import NON_PRIVATE, PUBLISHED, Results
from dpcape_papers.figures.factor.cells import (
    BEST,
    CHANCE,
    CREDIBLE,
    ERROR,
    FOUND,
    GUESSED,
    PREDICTIVE,
    PROPOSED,
    REBUILT,
    SVD,
    TWO_STAGE,
    WORST,
)
from dpcape_papers.verdicts import Curve, Yardstick, as_good, change, compare_curves, outcome_of, trend

ERRORS = Yardstick("smaller", log=True)
RELEASE = Curve(PROPOSED, PUBLISHED)
# "Minimal deterioration", "plateaus" and "no significant change" mean at most this relative change.
SMALL = 0.05


def judge_size(results: Results) -> list[Verdict]:
    """Judge figure 2."""
    rows = results.where(measure=ERROR)
    return [
        *_ordering(rows, "section V.A", "at every sample size"),
        _falls_with_size(rows),
        _minimal_loss(rows),
        _intervals(results),
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
        *_printed(rows),
        _guarantee(results),
    ]


def _runs(rows: Results) -> int:
    return len(rows.values("run"))


def _ordering(rows: Results, where: str, words: str) -> list[Verdict]:
    verdicts = []
    for other in (SVD, TWO_STAGE):
        found = compare_curves(rows, RELEASE, Curve(other, PUBLISHED), ERRORS)
        claim = f"The proposed release predicts better than {other} {words}"
        verdicts.append(Verdict(claim, where, found.outcome, f"{found} ({_runs(rows)} runs)"))
    return verdicts


def _falls_with_size(rows: Results) -> Verdict:
    found = trend(rows, RELEASE, ERRORS)
    numbers = f"{found} ({_runs(rows)} data sets)"
    return Verdict("The error falls as the sample size grows", "figure 2", found.outcome, numbers)


def _minimal_loss(rows: Results) -> Verdict:
    """Compare with ridge regression on the original features, which section V uses to define the loss of accuracy."""
    shares = {x: _mean(rows, PROPOSED, x) / _mean(rows, BEST, x) - 1 for x in _places(rows)}
    outcome = as_good([share <= SMALL for share in shares.values()])
    shown = ", ".join(f"{share:+.1%} at n = {x:g}" for x, share in shares.items())
    return Verdict("The loss of accuracy against the original features is minimal", "abstract", outcome, shown)


def _guarantee(results: Results) -> Verdict:
    """Judge by attacks: success beyond chance refutes a full guarantee; failure would not prove one."""
    rebuilt, shuffled, found, chance = (results.mean(measure=name) for name in (REBUILT, GUESSED, FOUND, CHANCE))
    outcome: Outcome = "fails" if rebuilt > max(shuffled, 0.0) + SMALL or found > 2 * chance else "not shown"
    numbers = (
        f"with some records known, {max(rebuilt, 0.0):.0%} of the variance of other people's features is reconstructed"
    )
    numbers += f"; {found:.0%} of them are identified from noisy values of 20 features (guessing: {chance:.1%}); "
    numbers += "no epsilon holds"
    claim = "The privacy of the original features is fully guaranteed"
    return Verdict(claim, "abstract", outcome, numbers, measured=False)


def _intervals(results: Results) -> Verdict:
    """Say what the intervals cover. They are of predicted values, whose truth is not known, not of responses."""
    credible, predictive = (results.mean(measure=name) for name in (CREDIBLE, PREDICTIVE))
    numbers = (
        f"the intervals are of predicted values and vary with the factors only; responses, of which the paper does not "
        f"speak, lie in {credible:.0%} of them, and in {predictive:.0%} of intervals that add the error of a response"
    )
    claim = "95% credible intervals measure the uncertainty of predicted values"
    return Verdict(claim, "section IV.D", "not shown", numbers)


# Mean squared test errors as printed in section V.B, with intervals where there are some.
_PRINTED = {"proposed": 3.63, "two-stage": 3.90, "SVD": 3.82, "best": 3.41, "worst": 3.99}
_PRINTED_INTERVALS = {"proposed": (3.56, 3.67), "two-stage": (3.82, 3.94)}
_TEST_PEOPLE = 15


def _printed(rows: Results) -> list[Verdict]:
    """Judge the printed results by arithmetic, and their significance by the spread over splits of our own data."""
    gaps = {
        name: (_outside(_PRINTED["best"], *interval), _outside(_PRINTED["worst"], *interval))
        for name, interval in _PRINTED_INTERVALS.items()
    }
    near = [gaps["proposed"][0] < gaps["two-stage"][0], gaps["two-stage"][1] < gaps["proposed"][1]]
    text = (
        f"as printed, the best case, 3.41, is {gaps['proposed'][0]:.2f} from the interval of the proposed release and "
        f"{gaps['two-stage'][0]:.2f} from that of two-stage; the worst case, 3.99, {gaps['proposed'][1]:.2f} and "
        f"{gaps['two-stage'][1]:.2f}"
    )
    claim = "Printed: the best case is nearer to the proposed release, the worst case to two-stage"
    order = Verdict(claim, "section V.B", outcome_of(sum(near), 2), text, measured=False)
    return [order, _significance(rows)]


def _outside(value: float, low: float, high: float) -> float:
    return max(low - value, value - high, 0.0)


def _significance(rows: Results) -> Verdict:
    """Compare the printed advantage with the spread of the same difference over random splits into 34 and 15 people."""
    places = [x for x in _places(rows) if x == 18.0] or _places(rows)[:1]
    here = {curve: rows.where(curve=curve, calibration=PUBLISHED, x=places[0]) for curve in (PROPOSED, TWO_STAGE, SVD)}
    printed = {TWO_STAGE: _PRINTED["two-stage"] / 3.63 - 1, SVD: _PRINTED["SVD"] / 3.63 - 1}
    parts, beyond = [], []
    for other, advantage in printed.items():
        ratios = [b / a - 1 for a, b in zip(here[PROPOSED].numbers("value"), here[other].numbers("value"), strict=True)]
        spread = float(np.std(ratios, ddof=1)) if len(ratios) > 1 else math.inf
        beyond.append(advantage > 2 * spread)
        parts.append(f"{advantage:.0%} over {other}, where one split varies by {spread:.0%}")
    outcome: Outcome = "holds" if all(beyond) else "not shown"
    numbers = (
        f"the printed advantage is {' and '.join(parts)} (ABIDE, {_TEST_PEOPLE} test subjects as in the paper); its "
        "intervals leave out which people were tested"
    )
    claim = "Printed: the proposed release has significant predictive advantages (3.63 against 3.90 and 3.82)"
    return Verdict(claim, "section V.B", outcome, numbers)


def _falls_then_flat(rows: Results) -> Verdict:
    places = _places(rows)
    middle = min(places, key=lambda x: abs(x - 10))
    first = change(rows, RELEASE, ERRORS, start=places[0], end=middle)
    end = _mean(rows, PROPOSED, places[-1]) / _mean(rows, PROPOSED, middle) - 1
    flat = abs(end) <= SMALL
    outcome: Outcome = "holds" if first.better and flat else "holds under conditions" if first.better else "fails"
    numbers = f"{middle:g} against {places[0]:g} factors: ratio {first.typical:.3g}; "
    numbers += f"{places[-1]:g} against {middle:g}: {end:+.1%}"
    return Verdict("The error falls with the number of factors, then plateaus", "section V.A", outcome, numbers)


def _flat_beyond(rows: Results) -> Verdict:
    places = _places(rows)
    beyond = _mean(rows, PROPOSED, places[-1]) / _mean(rows, PROPOSED, 25.0) - 1
    numbers = f"{places[-1]:g} against 25 factors: {beyond:+.1%}"
    outcome = outcome_of(int(abs(beyond) <= SMALL), 1)
    return Verdict("Beyond 25 factors the error does not change much", "section V.B", outcome, numbers)


def _lowest_at(rows: Results, number: int, claim: str, where: str) -> Verdict:
    """Judge "holds" if the mean is lowest there, "fails" if another is clearly lower, and otherwise "not shown"."""
    means = {x: _mean(rows, PROPOSED, x) for x in _places(rows)}
    best = min(means, key=lambda x: means[x])
    clear = best != number and change(rows, RELEASE, ERRORS, start=float(number), end=best).better
    outcome: Outcome = "holds" if best == number else "fails" if clear else "not shown"
    numbers = f"lowest at {best:g} ({means[best]:.3g}); at {number}: {means[float(number)]:.3g}"
    return Verdict(claim, where, outcome, f"{numbers}; the difference is {'' if clear else 'not '}beyond chance")


def _nearer_the_best(rows: Results) -> Verdict:
    """Compare at the number of factors with the lowest error, as the paper chose it."""
    best = min(_places(rows), key=lambda x: _mean(rows, PROPOSED, x))
    low, mine, high = (_mean(rows, curve, best) for curve in (BEST, PROPOSED, WORST))
    outcome: Outcome = "holds" if low < high and mine - low < high - mine else "fails"
    numbers = f"best case {low:.3g}, proposed {mine:.3g} with {best:g} factors, worst case {high:.3g}"
    return Verdict("The release is closer to the best case than to the worst case", "section V.B", outcome, numbers)


def _places(rows: Results) -> list[float]:
    return sorted(set(rows.numbers("x")))


def _mean(rows: Results, curve: str, x: float) -> float:
    return rows.mean(curve=curve, calibration=NON_PRIVATE if curve in (BEST, WORST) else PUBLISHED, x=x)
