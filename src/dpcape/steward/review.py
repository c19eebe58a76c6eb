"""Review of a study at one site, for its data steward."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpcape.analyses.description import stated_of
from dpcape.core.privacy.unit import Unit
from dpcape.core.privacy.unused_epsilon import unused_epsilons, unused_text
from dpcape.core.secure_sum.identity import fingerprint_of
from dpcape.guarantee.card import Card, Spent, card_of, card_text
from dpcape.guarantee.guarantee import Guarantee
from dpcape.planning.outline import Step, outline
from dpcape.site.vault.modes import mode_here
from dpcape.steward.ledger_view import counted
from dpcape.steward.own_data import real_size
from dpcape.study.study import Study

if TYPE_CHECKING:
    from dpcape.site.folder import SiteFolder

# Records per site for which noise is shown unless the study declares them.
ASSUMED_RECORDS = 1000
_TRUSTED = (
    "It is trusted to keep secret the noise that it sends to the sites. It holds no records and receives no totals."
)


@dataclass(frozen=True)
class Review:
    """A study seen from one site.

    Attributes
    ----------
    guarantee : Guarantee
        Guarantee after the study.
    steps : sequence of Step
        The releases.
    spent, after : float
        The ledger's epsilon before and after the study, at the ceiling's delta and per its unit.
    ceiling : float
        The data set's epsilon.
    alone, per_study : float or None
        Epsilon of this study's own runs, and their ceiling, if there is one.
    unit : Unit
        Unit of the ceiling.
    refusal : str
        Why the study cannot be counted in this unit; empty if it can.
    own_size : int or None
        Number of records that the data set really has; None if it cannot be read.
    unused : str
        Epsilons of sites that bring nothing, in words; empty if all of them count.
    memory : str
        Memory that the study needs, in words.
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
    alone: float
    per_study: float | None
    unit: Unit
    refusal: str
    own_size: int | None = None
    unused: str = ""
    memory: str = ""


def review(folder: SiteFolder, study: Study, data: str) -> Review:
    """Compute a review; of the data the number of records is read, which is public, and nothing is spent."""
    sizes = {name: member.records or ASSUMED_RECORDS for name, member in study.members.items()}
    own_size = real_size(folder, study, data)
    if own_size:
        sizes[folder.name] = own_size
    planned = outline(study, sizes)
    state = folder.state()
    ceiling = state.ceilings[data]
    charge = folder.real_charge(study, data)
    # On an engine the guarantee depends on its separation from the records; other sites state theirs when they join.
    separation = {} if study.federation is None else {folder.name: mode_here(folder.path).name}
    after, refusal = counted(ceiling, state.charges_of(data), charge)
    unused = unused_epsilons(planned.terms, study.protocol())
    return Review(
        study=study,
        data=data,
        sizes=sizes,
        guarantee=planned.guarantee(stated=stated_of(study.description), separation=separation, shows_heads=True),
        steps=planned.steps(folder.name),
        spent=ceiling.spent(state.charges_of(data)),
        after=after,
        ceiling=ceiling.epsilon,
        delta=ceiling.delta,
        alone=counted(ceiling, state.charges_of(data, study.digest()), charge)[0],
        per_study=ceiling.per_study,
        unit=ceiling.unit,
        refusal=refusal,
        own_size=own_size,
        unused=unused_text(planned.terms, unused) if unused.spent else "",
        memory=f"Memory: {planned.footprint}",
    )


def review_card(seen: Review) -> Card:
    """Return the review as the privacy card of this site."""
    spent = Spent(
        data=seen.data,
        before=seen.spent,
        after=seen.after,
        ceiling=seen.ceiling,
        delta=seen.delta,
        alone=seen.alone,
        per_study=seen.per_study,
        unit=seen.unit,
        study_unit=seen.study.unit.stated(seen.unit),
        refusal=seen.refusal,
    )
    return card_of(seen.guarantee, releases=seen.steps, spent=spent, planned=True)


def review_text(folder: SiteFolder, study: Study, data: str | None = None) -> str:
    """Return the review as text, and keep the study; of the data, the number of records is read. Nothing is spent."""
    folder.present(study)
    seen = review(folder, study, folder.chosen(data))
    noise = "\n".join(["Noise", *(f"  {line}" for line in how_noisy(seen))])
    sentence = f"In one sentence\n  {seen.guarantee.sentence()}"
    return "\n\n".join([review_head(folder, seen), card_text(review_card(seen), width=100), noise, sentence]) + "\n"


def review_head(folder: SiteFolder, seen: Review) -> str:
    """Return the study's title and the digest that an approval is bound to."""
    study = seen.study
    title = f"Study {study.name!r}: {study.description.spelling}, at site {folder.name}, on data set {seen.data!r}"
    digest = f"Digest (approval is bound to it): {study.digest()}"
    lines = [title, "=" * len(title), digest, f"Sites: {', '.join(study.sites)}", seen.memory]
    return "\n".join([*lines, *dealer_lines(folder, study)])


def dealer_lines(folder: SiteFolder, study: Study) -> list[str]:
    """Return who deals noise in a study, what it is trusted with, and its fingerprint; empty without a dealer."""
    if not study.dealer:
        return []
    key = folder.pinned().get(study.dealer)
    known = "not pinned here yet (dpcape site pin)" if key is None else f"fingerprint {fingerprint_of(key)}"
    return [f"Noise dealer: {study.dealer}, {known}. {_TRUSTED}"]


def how_noisy(seen: Review) -> list[str]:
    """Return sentences that compare the noise with the influence of one record."""
    if seen.guarantee.status == "no guarantee":
        return ["NO NOISE: this protocol releases exact totals. Do not approve it for records of people."]
    first, unit = seen.steps[0], seen.guarantee.unit
    choices = {(step.statistic, step.instead) for step in seen.steps if step.instead}
    chosen = [f"{first} or {second}".replace("_", " ") for first, second in sorted(choices)]
    return [
        f"Computed for {_basis(seen)}.",
        f"One {unit} can change this site's own mean by at most {first.reach:.3g}; the noise on what this site sends "
        f"has standard deviation {first.site_scale:.3g}, or {first.site_scale / first.reach:.3g} times as much.",
        f"In the mean over all sites, noise of standard deviation {first.mean_scale:.3g} remains.",
        *(f"The first result decides whether {names} is released." for names in chosen),
        *([seen.unused] if seen.unused else []),
    ]


def _basis(seen: Review) -> str:
    """Say which sizes of sites the noise was computed for."""
    unit, members = seen.guarantee.unit, seen.study.members
    declared = [name for name, member in members.items() if member.records]
    example = f"{ASSUMED_RECORDS} {unit}s"
    if not seen.own_size:
        unread = " (the data set could not be read: see dpcape site check)" if seen.own_size is None else ""
        if len(declared) == len(members):
            return f"the declared numbers of {unit}s{unread}"
        if declared:
            return f"the numbers some sites declared and {example} at each of the others, as an example{unread}"
        return f"{example} per site, as an example{unread}"
    own = f"the {seen.own_size} {unit}s of this data set"
    others = len(members) - 1
    if not others:
        return own
    known = sum(1 for name in declared if seen.sizes.get(name) == members[name].records)
    if known >= others:
        return f"{own} and the numbers that the other sites declared"
    return f"{own}, and {example} at each site that declared no number, as an example"
