"""Verdicts on the paper's claims about figures 2 to 4."""

from __future__ import annotations

from dpcape_papers.experiments.experiment import Outcome, Verdict
from dpcape_papers.experiments.results import NON_PRIVATE, PUBLISHED, Results
from dpcape_papers.figures.factor.cells import (
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
    """Judge "holds" if the mean is lowest there, and "holds under conditions" if no other number is clearly lower."""
    means = {x: _mean(rows, PROPOSED, x) for x in _places(rows)}
    best = min(means, key=lambda x: means[x])
    clear = best != number and change(rows, RELEASE, ERRORS, start=float(number), end=best).better
    outcome: Outcome = "holds" if best == number else "fails" if clear else "holds under conditions"
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
