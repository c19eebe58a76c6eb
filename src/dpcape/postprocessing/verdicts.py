"""Verdicts: in one word per quantity, whether a result says more than noise and sampling would.

Every verdict follows from released and public numbers, so it costs no budget. *Determined* is a finding: where there is
none, it is said at most once in twenty times. *Not determined* means that the result is compatible with anything.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpcape.core.arrays import FloatArray

DETERMINED, UNCERTAIN, NOT_DETERMINED = WORDS = ("determined", "uncertain", "not determined")
LEVEL = 0.05
"""Largest p-value of a finding."""

# Above this p-value, noise alone explains the result.
_HOPELESS = 0.2
# Shares of its range that the interval of a mean takes: up to the first it is determined, from the second it is not.
_NARROW, _WIDE = 0.1, 0.5
_NOT_CLUSTERS = "any records can be divided, also without clusters"
_HIDDEN = "varies so little within its range that noise hides how sites differ; it stays as it is"
# Shares of the variance between sites after harmonisation.
_LITTLE, _MUCH = 0.02, 0.05
# A difference that Cohen calls large, in standard deviations.
_LARGE_DIFFERENCE = 0.8
# How many quantities a sentence names.
_NAMED = 3


@dataclass(frozen=True)
class Verdict:
    """Verdict on one quantity of a result.

    Attributes
    ----------
    quantity : str
        What is judged, such as "component 1".
    word : str
        "determined", "uncertain" or "not determined".
    reason : str
        Why, with the numbers it follows from.
    """

    quantity: str
    word: str
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.quantity}: {self.word}" + (f" ({self.reason})" if self.reason else "")


def of_tests(quantities: Sequence[str], p_values: Sequence[float] | FloatArray) -> list[Verdict]:
    """Return verdicts on quantities that are tested in order, such as components.

    A quantity is determined if its p-value and all earlier ones are at most 0.05; none is judged better than an
    earlier one. Testing stops at the first failure, so that the level holds for all of them together.

    Parameters
    ----------
    quantities : sequence of str
        Names of the quantities.
    p_values : sequence of float
        Their p-values, in the same order.
    """
    verdicts, worst = [], 0
    for quantity, p_value in zip(quantities, p_values, strict=True):
        worst = max(worst, int(p_value > LEVEL) + int(p_value > _HOPELESS))
        verdicts.append(Verdict(quantity, WORDS[worst], f"p = {p_value:.3g}"))
    return verdicts


def of_correlations(
    quantities: Sequence[str], low: FloatArray, high: FloatArray, p_values: FloatArray
) -> list[Verdict]:
    """Return verdicts on correlations by p-values that are adjusted for their number, and by their intervals.

    Parameters
    ----------
    quantities : sequence of str
        Names of the pairs.
    low, high : array
        Ends of their intervals.
    p_values : array
        Adjusted p-values.
    """
    verdicts = []
    for quantity, first, last, p_value in zip(quantities, low, high, p_values, strict=True):
        # An interval covering half of the possible correlations is uninformative.
        word = DETERMINED if p_value <= LEVEL else NOT_DETERMINED if last - first >= 1 else UNCERTAIN
        verdicts.append(Verdict(quantity, word, f"interval {first:.2g} to {last:.2g}, adjusted p = {p_value:.2g}"))
    return verdicts


def of_coefficients(
    quantities: Sequence[str], low: FloatArray, high: FloatArray, *, effect_bound: float = math.inf, none: int = 0
) -> list[Verdict]:
    """Return verdicts on coefficients by their intervals.

    A coefficient is determined if its interval excludes no effect, and not determined if the interval reaches from one
    end of what was possible beforehand to the other.

    Parameters
    ----------
    quantities : sequence of str
        Names of the coefficients.
    low, high : array of shape (D,)
        Ends of their intervals; infinite where nothing is known.
    effect_bound : float
        Largest absolute value that was assumed possible.
    none : int
        Value of no effect: 0, or 1 of ratios, which are positive.
    """
    verdicts, lowest = [], 0.0 if none else -math.inf
    for quantity, first, last in zip(quantities, low, high, strict=True):
        interval = f"interval {_reach(first, last, digits=3, lowest=lowest)}"
        word, holds = (DETERMINED, "excludes") if first > none or last < none else (UNCERTAIN, "contains")
        if first <= max(-effect_bound, lowest) and last >= effect_bound:
            verdicts.append(Verdict(quantity, NOT_DETERMINED, interval))
        else:
            verdicts.append(Verdict(quantity, word, f"{interval} {holds} {none}"))
    return verdicts


def of_discoveries(quantities: Sequence[str], rates: FloatArray, low: FloatArray, high: FloatArray) -> list[Verdict]:
    """Return verdicts on many differences that are tested together.

    A difference is determined if it is a discovery at a rate of false ones of 5%: where there are no differences at
    all, one is found at most once in twenty times. It is not determined if its interval holds large differences of
    both signs, of 0.8 standard deviations.

    Parameters
    ----------
    quantities : sequence of str
        Names of the differences.
    rates : array of shape (V,)
        Rates of false discoveries at which each is one.
    low, high : array of shape (V,)
        Ends of their intervals, in standard deviations.
    """
    verdicts = []
    for quantity, rate, first, last in zip(quantities, rates, low, high, strict=True):
        reason = f"q = {rate:.3g}, d {_reach(first, last)}"
        if first <= -_LARGE_DIFFERENCE and last >= _LARGE_DIFFERENCE:
            verdicts.append(Verdict(quantity, NOT_DETERMINED, reason))
        else:
            verdicts.append(Verdict(quantity, DETERMINED if rate <= LEVEL else UNCERTAIN, reason))
    return verdicts


def of_left_over(before: float, left: float, hidden: Sequence[str] = ()) -> list[Verdict]:
    """Return the verdict on harmonisation: determined if sites explain at most 2% of the variance afterwards.

    Parameters
    ----------
    before : float
        Variance between sites before, over the variance within sites.
    left : float
        Upper limit of the same afterwards. From 5% on, nothing is determined.
    hidden : sequence of str
        Columns that were left as they are.
    """
    share = left / (1 + left)
    word = DETERMINED if share <= _LITTLE else UNCERTAIN if share < _MUCH else NOT_DETERMINED
    was, after = 100 * before / (1 + before), 100 * share
    reason = f"sites explain {was:.2g}% of the variance before, at most {after:.2g}% after"
    others = [Verdict(f"harmonised {name}", NOT_DETERMINED, _HIDDEN) for name in hidden]
    return [Verdict("harmonised sites", word, reason), *others]


def of_between_sites(
    quantities: Sequence[str], low: FloatArray, high: FloatArray, half_ranges: FloatArray
) -> list[Verdict]:
    """Return verdicts on differences between sites, by the interval of their standard deviation.

    Determined if the interval excludes zero, and not determined if it reaches half of the range of the column.

    Parameters
    ----------
    quantities : sequence of str
        Names of the columns.
    low, high : array of shape (V,)
        Ends of the intervals.
    half_ranges : array of shape (V,)
        Half of the length of each range.
    """
    verdicts = []
    for quantity, first, last, half_range in zip(quantities, low, high, half_ranges, strict=True):
        word = DETERMINED if first > 0 else NOT_DETERMINED if last >= half_range else UNCERTAIN
        reason = f"standard deviation between sites {_reach(first, last, digits=3, lowest=0.0)}"
        verdicts.append(Verdict(f"difference of sites in {quantity}", word, reason))
    return verdicts


def of_ranges(
    quantities: Sequence[str], half_widths: FloatArray, half_ranges: FloatArray, *, clipped: FloatArray
) -> list[Verdict]:
    """Return verdicts on means by the width of their intervals, against the ranges that were possible beforehand.

    A mean is determined if its interval takes at most 10% of its range, and not determined from 50%. Where
    more than half of the width is due to clipping, it is at most uncertain.

    Parameters
    ----------
    quantities : sequence of str
        Names of the means.
    half_widths : array of shape (D,)
        Half widths of the intervals.
    half_ranges : array of shape (D,)
        Half widths of the ranges.
    clipped : array of shape (D,)
        The part of each half width that is due to clipping.
    """
    verdicts = []
    for quantity, half_width, half_range, clipped_part in zip(
        quantities, half_widths, half_ranges, clipped, strict=True
    ):
        share = half_width / half_range
        word = DETERMINED if share <= _NARROW else UNCERTAIN if share < _WIDE else NOT_DETERMINED
        reason = f"interval takes {100 * share:.2g}% of the range"
        if clipped_part > half_width / 2:
            word = max(word, UNCERTAIN, key=WORDS.index)
            reason += ", mostly due to clipping: choose a larger bound"
        verdicts.append(Verdict(quantity, word, reason))
    return verdicts


def of_strengths(
    quantities: Sequence[str], values: Sequence[float] | FloatArray, noise: float, *, what: str = "strength"
) -> list[Verdict]:
    """Return verdicts on quantities by how far they stand from what noise alone reaches.

    Parameters
    ----------
    quantities : sequence of str
        Names of the quantities.
    values : sequence of float
        How strong each is; compared by absolute value.
    noise : float
        The 95% quantile of the largest value in a result of noise alone.
    what : str
        What the values measure, in words.
    """
    verdicts = []
    for quantity, value in zip(quantities, np.abs(np.asarray(values, dtype=np.float64)), strict=True):
        # Noise often reaches half of its upper level.
        word = DETERMINED if value > noise else UNCERTAIN if value > noise / 2 else NOT_DETERMINED
        verdicts.append(Verdict(quantity, word, f"{what} {value:.3g}; noise alone reaches {noise:.3g}"))
    return verdicts


def of_parts(
    quantities: Sequence[str],
    strengths: Sequence[float] | FloatArray,
    noise: float,
    *,
    eigenvalues: FloatArray,
    floor: float,
) -> list[Verdict]:
    """Return verdicts on the parts of a decomposition, such as topics, that starts from so many directions.

    If a direction is not above what noise and sampling reach, the parts are mixed with it: the weakest ones are not
    determined, one for each such direction, and nothing is determined. Otherwise a part is determined if it is twice
    as strong as noise.

    Parameters
    ----------
    quantities : sequence of str
        Names of the parts.
    strengths : sequence of float
        Their strengths.
    noise : float
        Strength that noise alone has.
    eigenvalues : array
        Eigenvalues of the directions, as many as there are parts.
    floor : float
        Eigenvalue that noise and sampling reach in 5% of studies at most.
    """
    values = np.asarray(strengths, dtype=np.float64)
    hidden = int(np.count_nonzero(np.asarray(eigenvalues) <= floor))
    if not hidden:
        return of_strengths(quantities, values, 2 * noise)
    weakest = set(np.argsort(values, kind="stable")[:hidden].tolist())
    reason = f"only {len(values) - hidden} of {len(values)} directions are above noise and sampling"
    return [
        Verdict(quantity, NOT_DETERMINED if at in weakest else UNCERTAIN, reason)
        for at, quantity in enumerate(quantities)
    ]


def of_clearance(quantities: Sequence[str], clearance: float, least: float, clear: float) -> list[Verdict]:
    """Return the verdict on components that a rotation found together: the same for all.

    Parameters
    ----------
    quantities : sequence of str
        Names of the components.
    clearance : float
        Their mean strength over what the same search finds in noise; NaN if there is none.
    least : float
        Clearance that pure noise practically never reaches.
    clear : float
        Clearance from which on all simulated results were good.
    """
    if math.isnan(clearance):
        return [Verdict(quantity, UNCERTAIN, "this solver has no test against noise") for quantity in quantities]
    word = NOT_DETERMINED if clearance < least else UNCERTAIN if clearance < max(least, clear) else DETERMINED
    reason = f"clearance {clearance:.2f}; noise and sampling reach {least:.2f}"
    return [Verdict(quantity, word, reason) for quantity in quantities]


def of_centres(quantities: Sequence[str], centres: FloatArray, errors: FloatArray, *, farthest: float) -> list[Verdict]:
    """Return verdicts on centres by how far noise may have moved them, against the way to the next centre.

    A centre is determined if it and any other are together off by less than half of the way between them, and not
    determined if they might be the same. With errors that hold for all centres together at 95%, centres that are the
    same without noise are told apart in 5% of studies at most. Whether records form clusters at all is another
    question: any records can be divided.

    Parameters
    ----------
    quantities : sequence of str
        Names of the centres.
    centres : array of shape (K, D)
        The centres.
    errors : array of shape (K,)
        How far noise may have moved each; infinite for one that has no records above noise.
    farthest : float
        How far from another a centre can be at most; the way to the next one where there is only one.
    """
    between = np.linalg.norm(centres[:, np.newaxis] - centres, axis=2)
    together = errors[:, np.newaxis] + errors
    np.fill_diagonal(between, farthest)
    np.fill_diagonal(together, errors)
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.where(between > 0, together / between, np.inf).max(axis=1)
    verdicts = []
    for quantity, share, error in zip(quantities, shares, errors, strict=True):
        if math.isinf(error):
            verdicts.append(Verdict(quantity, NOT_DETERMINED, "its records cannot be told from noise"))
            continue
        word = DETERMINED if share < 0.5 else UNCERTAIN if share < 1 else NOT_DETERMINED
        taken = f"up to {100 * share:.2g}%" if math.isfinite(share) else "all"
        reason = f"noise takes {taken} of the way to another centre; {_NOT_CLUSTERS}"
        verdicts.append(Verdict(quantity, word, reason))
    return verdicts


def numbered(noun: str, count: int) -> list[str]:
    """Return names such as "component 1"."""
    return [f"{noun} {number}" for number in range(1, count + 1)]


def at_most_uncertain(verdicts: Iterable[Verdict], reason: str) -> list[Verdict]:
    """Return the verdicts with nothing determined, for a result on which something unknown may bear."""
    return [
        replace(entry, word=UNCERTAIN, reason=f"{entry.reason}; {reason}" if entry.reason else reason)
        if entry.word == DETERMINED
        else entry
        for entry in verdicts
    ]


def summary(verdicts: Sequence[Verdict]) -> str:
    """Return one sentence that counts the verdicts; empty if there are none."""
    if not verdicts:
        return ""
    counts = {word: sum(entry.word == word for entry in verdicts) for word in WORDS}
    parts = [f"{count} {'is' if count == 1 else 'are'} {word}" for word, count in counts.items() if count]
    noun = "quantity" if len(verdicts) == 1 else "quantities"
    listed = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
    return f"Of {len(verdicts)} {noun}, {listed}."


def warning_of(verdicts: Sequence[Verdict]) -> str:
    """Return the warning that the verdicts call for; empty if none."""
    remedy = "Raise epsilon, add records, lower the bound or ask for fewer quantities."
    if verdicts and not any(entry.word == DETERMINED for entry in verdicts):
        return f"nothing in this result is determined: noise and sampling alone could explain it. {remedy}"
    hidden = [entry.quantity for entry in verdicts if entry.word == NOT_DETERMINED]
    if not hidden:
        return ""
    more = f" and {len(hidden) - _NAMED} more" if len(hidden) > _NAMED else ""
    return (
        f"{len(hidden)} of {len(verdicts)} quantities must not be read as findings, because they are not determined: "
        f"{', '.join(hidden[:_NAMED])}{more}. {remedy}"
    )


def _reach(first: float, last: float, *, digits: int = 2, lowest: float = -math.inf) -> str:
    """Return an interval in words; an end that is not known, or the lowest there is, is left open."""
    start, end = (f"{value:.{digits}g}" for value in (first, last))
    if first <= lowest:
        return "unknown" if math.isinf(last) else f"of {end} or less"
    return f"of {start} or more" if math.isinf(last) else f"from {start} to {end}"
