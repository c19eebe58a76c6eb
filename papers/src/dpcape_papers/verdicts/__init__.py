"""The rules by which a claim of a paper becomes a verdict; they are the same for every figure.

Points. Two curves are compared at every panel and x they share. They are compared run by run, because a run uses the
same data under every scheme. A difference counts if Student's t test over the paired runs finds it (two-sided, 5%) and
if it exceeds a relative tolerance, 1% unless the figure states another. A single run decides nothing unless the values
are computed and do not vary. With three runs, as in most quick runs, the mean difference must be 2.5 times the standard
deviation of the differences. Differences are those of the values, or of their logarithms where errors span orders of
magnitude. The tests are not corrected for the number of points: of 40 points without any difference, one is expected to
look better and one worse.

"A is better than B" holds if A is nowhere worse, and better at half of the points or more. It is not shown if no point
differs either way; more runs may show a difference. It fails if points differ, but A is better at no more points than
it is worse. Otherwise it holds under conditions. The typical ratio is the median over the points, above 1 where A is
better.

"A is as good as B" or "A is never worse than B" holds if A falls short nowhere, fails if it falls short at more than
half of the points, and otherwise holds under conditions. If a margin is stated ("within 5%"), A falls short where its
mean lies outside the margin, so that a wide spread does not count as equality. If no margin is stated, A falls short
where it is worse by the rule above.

"A grows with x" is judged by the ends: in every panel the last point is compared with the first, by the rule for
"better". If any step between neighbouring points goes the other way, "holds" becomes "holds under conditions" and "not
shown" becomes "fails".

Curves that start within 1% of the best possible cannot get better, and are left out.

"For large enough x" is judged at the largest x of every panel. Where that is not enough, a larger one may be: the claim
is not shown, and does not fail.

Measured claims need at least three runs; with fewer, they are not shown. Panels whose data replace the paper's are
named; a claim that fails only because of them is judged without them. A claim about the paper's own size does not fail
in a quick run, which is smaller.

A statement that is true or false of each setting, such as a formula or a count of bytes, holds if it is true of all
settings, fails if it is true of none, and otherwise holds under conditions. A statement that something happens for some
parameters holds if one setting shows it. If no point or setting can decide a claim, it is not shown.

A guarantee of privacy fails if it is broken at any setting shown. The numbers say how many settings break it, which is
the worst, and where it is kept because the classical formula adds more noise than needed. Where a paper uses the
classical formula as cited, which is proved for epsilon up to 1, and the claim is broken only beyond, it holds under
conditions.

If a claim does not say which noise it refers to, it is judged separately for the published and for the verified
calibration. If both outcomes agree, that is the outcome. If one is "fails" and the other "not shown", the claim fails.
Otherwise it holds under conditions. Where the figure was also run as its authors ran it, such a claim has two verdicts:
one on published noise in the authors' setting, one on verified noise in ours.
"""

from __future__ import annotations

from dpcape_papers.verdicts.comparing import Curve, Yardstick, change, compare_curves, ratios
from dpcape_papers.verdicts.outcomes import Tally, agreed, as_good, judging_only, outcome_of, reached, together
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
    "judging_only",
    "outcome_of",
    "privacy_claim",
    "ratios",
    "reached",
    "together",
    "trend",
]
