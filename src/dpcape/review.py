"""What a study would do at one site, in words its data steward understands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpcape.privacy.guarantee import Guarantee, round_up
from dpcape.privacy.ledger import spent_epsilon
from dpcape.study import Study
from dpcape.study.outline import Step, outline

if TYPE_CHECKING:
    from dpcape.site_folder import SiteFolder

# Sizes of sites are not known before the sites say so; noise is shown for this many unless the study declares them.
ASSUMED_RECORDS = 1000


@dataclass(frozen=True)
class Review:
    """A study seen from one site.

    Attributes
    ----------
    guarantee : what could be claimed afterwards.
    steps : what would be released.
    spent, after : the ledger's epsilon before and after the study, at the ceiling's delta.
    ceiling : the data set's epsilon.
    """

    study: Study
    data: str
    sizes: Mapping[str, int]
    guarantee: Guarantee
    steps: Sequence[Step]
    spent: float
    after: float
    ceiling: float
    delta: float


def review(folder: SiteFolder, study: Study, data: str) -> Review:
    """Compute a review; no data is read, nothing is spent."""
    sizes = {name: member.records or ASSUMED_RECORDS for name, member in study.members.items()}
    guarantee, steps = outline(study, sizes, folder.name)
    state = folder.state()
    ceiling = state.ceilings[data]
    charges = state.charges_of(data)
    return Review(
        study=study,
        data=data,
        sizes=sizes,
        guarantee=guarantee,
        steps=steps,
        spent=spent_epsilon(charges, ceiling.delta),
        after=spent_epsilon([*charges, study.charge(folder.name)], ceiling.delta),
        ceiling=ceiling.epsilon,
        delta=ceiling.delta,
    )


def review_text(folder: SiteFolder, study: Study, data: str) -> str:
    """Return the review as a page of text."""
    seen = review(folder, study, data)
    title = f"Study {study.name!r}: {study.analysis}, at site {folder.name}, on data set {data!r}"
    parts = [
        [title, "=" * len(title), f"Digest (what approval is bound to): {study.digest()}"],
        ["What leaves this site", *_what_leaves(seen)],
        ["To whom", *_to_whom(seen)],
        ["How noisy", *_how_noisy(seen)],
        ["What is promised", f"  {seen.guarantee.sentence()}"],
        ["What the ledger would show", *_ledger_lines(seen)],
    ]
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def _what_leaves(seen: Review) -> list[str]:
    n_numbers = sum(step.size for step in seen.steps)
    kinds = sorted({step.statistic.replace("_", " ") for step in seen.steps})
    allowed = seen.guarantee.releases
    lines = [
        f"  At most {allowed} release{'s' if allowed > 1 else ''} of totals over all records ({', '.join(kinds)}), "
        f"about {n_numbers} numbers together.",
        "  No record leaves, and no total without noise." if seen.guarantee.status != "no guarantee" else "",
        f"  Known to everybody: {', '.join(seen.guarantee.public)}.",
    ]
    return [line for line in lines if line]


def _to_whom(seen: Review) -> list[str]:
    others = [name for name in seen.study.sites]
    return [
        f"  To the aggregator, which forms the result over {len(others)} sites ({', '.join(others)}).",
        f"  The promise below holds against {seen.guarantee.against}.",
        f"  At least {seen.guarantee.minimum_sites} sites must finish, or there is no result; a run that was started "
        "is charged all the same.",
    ]


def _how_noisy(seen: Review) -> list[str]:
    if seen.guarantee.status == "no guarantee":
        return ["  NOT AT ALL: this protocol releases exact totals. Do not approve it for records of people."]
    first = seen.steps[0]
    declared = all(member.records for member in seen.study.members.values())
    size = next(iter(seen.sizes.values()))
    basis = "the declared numbers of records" if declared else f"{size} records per site, as an example"
    return [
        f"  Computed for {basis}.",
        f"  One record can move this site's own mean by at most {first.reach:.3g}; the noise on what this site sends "
        f"has standard deviation {first.site_scale:.3g}, that is {first.site_scale / first.reach:.3g} times as much.",
        f"  In the mean over all sites, noise of standard deviation {first.mean_scale:.3g} is left.",
    ]


def _ledger_lines(seen: Review) -> list[str]:
    verdict = "within the ceiling" if seen.after <= seen.ceiling else "ABOVE THE CEILING: the site would refuse"
    return [
        f"  Data set {seen.data!r}, everything ever released from it, at delta {seen.delta:g}:",
        f"  before: epsilon {round_up(seen.spent)} of {seen.ceiling:g}",
        f"  after:  epsilon {round_up(seen.after)} of {seen.ceiling:g} ({verdict})",
    ]
