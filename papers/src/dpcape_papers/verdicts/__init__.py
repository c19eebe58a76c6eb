"""How a claim of a paper becomes a verdict: one set of rules for every figure.

Points. Two curves are compared at every panel and x they share, run by run, because a run has the same data under
every scheme. A difference counts if Student's t over the paired runs finds it (two-sided, 5 %) and if it also exceeds
a relative tolerance, 1 % unless the figure states another. With one run only the tolerance decides; with three, as in
most quick runs, the mean difference must be 2.5 times the standard deviation of the differences. Differences are taken
of the values, or of their logarithms where errors span orders of magnitude. The tests are not corrected for the number
of points: of 40 points without any difference, one is expected to look better and one worse.

"A is better than B" holds if A is nowhere worse and better at half of the points or more. It fails if A is not better
more often than worse, and is not shown if no point differs either way: more runs may tell. In between it holds under
conditions. The typical ratio is the median over the points, above 1 where A is better.

"A is as good as B", "A is never worse than B" holds if A falls short nowhere, fails if it falls short at more than
half of the points, and holds under conditions in between. Where a margin is stated ("within 5 %"), A falls short where
its mean lies outside, so that a wide spread proves nothing equal; otherwise where it is worse as above.

"A grows with x" is judged from end to end: in every panel the last point against the first, by the rule of "better".
A single step between neighbouring points that goes the other way leaves conditions of what holds by its ends, and
nothing of what is not shown by them.

A statement that is true or false of every setting, such as a formula or a count of bytes, holds if it is true of all,
fails if it is true of none, and holds under conditions in between. That something happens for some parameters holds if
one setting shows it. Without a single point or setting that tells, a claim is not shown, whatever it says.

A guarantee of privacy fails if it is broken at any setting shown, however many it keeps: the numbers say how many
break it, which is the worst, and where it is kept because the classical formula has noise to spare.

Where a claim does not say whose noise it speaks of, it is judged apart for the published and for the verified
calibration: it holds if it holds for both, fails if it fails for one and holds for neither, is not shown if shown for
neither, and otherwise holds under conditions.
"""

from __future__ import annotations

from dpcape_papers.verdicts.comparing import Curve, Yardstick, change, compare_curves, ratios
from dpcape_papers.verdicts.outcomes import Tally, agreed, as_good, outcome_of, together
from dpcape_papers.verdicts.privacy import judge_privacy, privacy_claim
from dpcape_papers.verdicts.trends import Trend, trend

__all__ = [
    "Curve",
    "Tally",
    "Trend",
    "Yardstick",
    "agreed",
    "as_good",
    "change",
    "compare_curves",
    "judge_privacy",
    "outcome_of",
    "privacy_claim",
    "ratios",
    "together",
    "trend",
]
