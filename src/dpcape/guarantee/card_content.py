"""Content of a privacy card: facts and sentences, independent of where they are shown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from dpcape.core.privacy.inference import most_hits, most_right
from dpcape.core.protocols.registry import protocol_of
from dpcape.guarantee.card_ledger import Part, RunCharges, Spent, charges_part, decimal, ledger_part
from dpcape.guarantee.guarantee import BY_SITE, NONE, PUBLISHED, UNSEPARATED, VERIFIED, Guarantee
from dpcape.pages.numbers import round_up

FALSE_ALARMS = 0.05
_OWN_ALONE = "site's own noise alone; not guaranteed"
NEARLY_CERTAIN = 0.9

_REASONS = {
    "verified": "The sensitivity to one {unit} is proved, everything the adversary sees is counted, releases are "
    "composed exactly, and noise is drawn in exact integers.",
    "conditional": "These figures hold if the stated sensitivity to one {unit} is correct. It was searched for "
    "violations, not proved.",
    "published": "The figures are those of a publication. They were not confirmed here and are not a guarantee.",
    "none": "Exact totals are released. Nothing bounds what they reveal about one {unit}.",
    "replayable": "The noise came from a seed, so that the run can be repeated. Who knows the seed can take the noise "
    "away: nothing is protected. The figures would hold with fresh noise.",
    "unseparated": "A site was served without separation: every member and the coordinator could read "
    "its records directly. The figures hold for those who see the result alone.",
}
STATUS = {
    "verified": "Verified",
    "conditional": "Conditional",
    "published": "Published claim, not confirmed",
    "none": "No protection",
    "replayable": "Replayable: no protection",
    "unseparated": "Not separated: no protection from members",
}


# Stated before any figure of the card.
LIMITS = {
    "verified": "",
    "conditional": "If the stated sensitivity is right",
    "published": "Claimed, not confirmed",
    "none": "",
    "replayable": "No protection; with fresh noise it would be",
    "unseparated": "Not against members or the coordinator",
}


class ReleaseFacts(Protocol):
    """Facts about a release, of a run or of a planned study, that a card needs."""

    @property
    def statistic(self) -> str: ...

    @property
    def size(self) -> int: ...


@dataclass(frozen=True)
class Odds:
    """Upper bounds on what can be found out about one unit.

    Attributes
    ----------
    right : float
        Largest probability that a guess between two equally likely candidates is right; 0.5 is a coin toss.
    hits : float
        Largest hit rate of a test with ``false_alarms`` false alarms.
    """

    epsilon: float
    delta: float
    mu: float
    right: float
    hits: float
    false_alarms: float = FALSE_ALARMS

    @classmethod
    def of(cls, epsilon: float, delta: float, mu: float = math.inf) -> Odds:
        """Compute the odds of a guarantee; ``mu`` is infinite where it is not Gaussian."""
        bound = {"epsilon": epsilon, "delta": delta, "mu": mu}
        return cls(epsilon, delta, mu, most_right(**bound), most_hits(FALSE_ALARMS, **bound))


@dataclass(frozen=True)
class Card:
    """Content of a privacy card, in order.

    Attributes
    ----------
    tone : "verified", "conditional", "published", "none", "replayable" or "unseparated"
    status, reason : str
        The tone in words, and why.
    headline : str
        The guarantee in one line.
    parts : tuple of Part
        Questions with their answers.
    odds : Odds or None
        Bounds shown in the pictures; None if nothing is bounded.
    spent : Spent or None
        The ledger; None if it is not known.
    """

    tone: str
    status: str
    reason: str
    headline: str
    parts: tuple[Part, ...]
    odds: Odds | None = None
    spent: Spent | None = None

    @property
    def sentences(self) -> tuple[str, ...]:
        """All that the card says, every cell of its tables included, in order."""
        texts = [self.status, self.reason, self.headline]
        for part in self.parts:
            texts += [part.title, *part.sentences, *part.points, *(cell for row in part.table for cell in row)]
        return tuple(texts)

    def _repr_html_(self) -> str:
        from dpcape.guarantee.card import card_html

        return card_html(self)


def card_of(
    guarantee: Guarantee,
    *,
    releases: Sequence[ReleaseFacts] = (),
    spent: Spent | None = None,
    charged: RunCharges | None = None,
    planned: bool = False,
) -> Card:
    """Return the card of a guarantee.

    Parameters
    ----------
    guarantee : Guarantee
        The guarantee.
    releases : sequence of ReleaseFacts
        Releases that were, or would be, made; named in the card.
    spent : Spent or None
        Ledger of one site before and after; the card is then that site's.
    charged : RunCharges or None
        Charges to the ledgers of all sites; the card is then that of a run.
    planned : bool
        True before a study has run.
    """
    tone = tone_of(guarantee)
    which = "this" if spent is not None else "each"
    title = f"What {'leaves' if planned else 'left'} {which} site"
    parts: list[Part | None] = [_learnt(guarantee), _what(guarantee, releases, title), _who_sees(guarantee)]
    if guarantee.status != NONE:
        assumptions = tuple(f"{text[0].upper()}{text[1:]}." for text in guarantee.assumptions)
        parts += [_unit(guarantee), _collusion(guarantee), Part("What is assumed", points=assumptions)]
    if spent is not None:
        parts.append(ledger_part(spent))
    if charged is not None and guarantee.status != NONE:
        parts.append(charges_part(charged))
    return Card(
        tone=tone,
        status=STATUS[tone],
        reason=_REASONS[tone].format(unit=guarantee.unit),
        headline=_headline(guarantee),
        parts=tuple(part for part in parts if part is not None),
        odds=odds_of(guarantee),
        spent=spent,
    )


def tone_of(guarantee: Guarantee) -> str:
    """Return how a guarantee is to be shown; what weakens it most comes first."""
    if guarantee.status == NONE:
        return "none"
    if guarantee.replayable:
        return "replayable"
    if guarantee.status == UNSEPARATED:
        return "unseparated"
    if guarantee.status == PUBLISHED:
        return "published"
    return "verified" if guarantee.status == VERIFIED else "conditional"


def odds_of(guarantee: Guarantee) -> Odds | None:
    """Return the bounds that follow from a guarantee; None if nothing is bounded."""
    if guarantee.status == NONE or not math.isfinite(guarantee.epsilon):
        return None
    # A published epsilon and delta need not be those of Gaussian noise, nor match mu.
    mu = math.inf if guarantee.status == PUBLISHED else guarantee.mu
    return Odds.of(guarantee.epsilon, guarantee.delta, mu)


def percent(share: float) -> str:
    """Return a share as a percentage, rounded up to a tenth.

    Examples
    --------
    >>> percent(0.55331), percent(0.5)
    ('55.4%', '50%')
    """
    return f"{math.ceil(share * 1000 - 1e-9) / 10:g}%"


def _headline(guarantee: Guarantee) -> str:
    if guarantee.status == NONE:
        return "No bound on what is revealed"
    pair = f"epsilon {round_up(guarantee.epsilon)} at delta {decimal(guarantee.delta)} per {guarantee.unit}"
    pair = f"{pair}, against {guarantee.against}"
    limit = LIMITS[tone_of(guarantee)]
    return f"{limit}: {pair}" if limit else f"{pair[0].upper()}{pair[1:]}"


def _what(guarantee: Guarantee, releases: Sequence[ReleaseFacts], title: str) -> Part:
    count = guarantee.releases
    kinds = list(dict.fromkeys(release.statistic.replace("_", " ") for release in releases))
    named = f" ({', '.join(kinds)})" if kinds else ""
    numbers = sum(release.size for release in releases)
    amount = f", about {numbers} numbers together" if numbers else ""
    limit = f"At most {count} release{'s' if count > 1 else ''} of totals over all records{named}{amount}."
    noise = "No record leaves the site, and no total leaves without noise."
    if guarantee.status == NONE:
        noise = "No record leaves the site, but totals leave without noise. Do not approve this for records of people."
    return Part(title, (limit, noise, f"Public, not protected: {', '.join(guarantee.public)}."))


def _who_sees(guarantee: Guarantee) -> Part:
    finish = (
        f"If fewer than {guarantee.minimum_sites} of {len(guarantee.sites)} sites finish, there is no result. Sites "
        "already charged stay charged."
    )
    if len(guarantee.sites) == 1:
        finish = "There is only one site."
    described = protocol_of(guarantee.protocol)
    aggregator = "" if described is None else described.seen
    by_site = f"{BY_SITE[0].upper()}{BY_SITE[1:]}." if guarantee.by_site else ""
    return Part("Who can see it", tuple(sentence for sentence in (aggregator, by_site, finish) if sentence))


def _learnt(guarantee: Guarantee) -> Part:
    unit, odds = guarantee.unit, odds_of(guarantee)
    title = f"What can be learnt about one {unit} at most"
    if odds is None:
        return Part(title, (f"There is no bound: exact totals may reveal everything about one {unit}.",))
    result_only = f"Against someone who sees only the result: epsilon {round_up(guarantee.epsilon_output_only)}."
    sentences = [_guess(odds, unit), _test(odds, unit), _definition(odds, unit), result_only]
    if len({round_up(site.epsilon) for site in guarantee.sites.values()}) > 1:
        sentences.append("These are the figures of the least protected site.")
    limit = LIMITS[tone_of(guarantee)]
    if limit:
        sentences.insert(0, f"{limit}:")
    if odds.right > NEARLY_CERTAIN:
        sentences.insert(2 if limit else 1, "That is close to certain: this guarantee protects little.")
    return Part(title, tuple(sentences))


def _guess(odds: Odds, unit: str) -> str:
    return (
        f"Suppose an adversary knows every other {unit} and has narrowed this one down to two equally likely "
        f"candidates. A coin toss picks correctly 50% of the time; everything they see here, at most "
        f"{percent(odds.right)}."
    )


def _test(odds: Odds, unit: str) -> str:
    return (
        f"Any test for one {unit} with {percent(odds.false_alarms)} false alarms detects it at most "
        f"{percent(odds.hits)} of the time."
    )


def _definition(odds: Odds, unit: str) -> str:
    factor = f"{float(round_up(math.exp(odds.epsilon), 3)):,.4g}" if odds.epsilon < 9 else f"e^{round_up(odds.epsilon)}"
    return (
        f"Formally: the probability of anything they could see is at most {factor} times what it would be with this "
        f"{unit} replaced, plus {decimal(odds.delta)} (epsilon {round_up(odds.epsilon)}, delta {decimal(odds.delta)})."
    )


def _unit(guarantee: Guarantee) -> Part:
    unit = guarantee.unit
    sentences = [f"One {unit} of one site: the guarantee compares the data with data in which it is replaced."]
    if guarantee.owner_note:
        sentences.append(f"Note: {guarantee.owner_note}.")
    elif unit == "record":
        sentences.append("A person with several records is protected less than one record is.")
    return Part("Who is protected", tuple(sentences))


def _collusion(guarantee: Guarantee) -> Part | None:
    n_sites, agreed, epsilons = len(guarantee.sites), guarantee.n_colluding, guarantee.by_colluders
    title = "If sites collude"
    if n_sites == 1 or not epsilons:
        return None
    described = protocol_of(guarantee.protocol)
    if max(epsilons) == min(epsilons):
        return Part(title, (f"Nothing changes: the figures hold against {guarantee.against}.",))
    rows = [
        (_company(count), round_up(epsilons[count]), "guaranteed" if count == agreed else "stronger than guaranteed")
        for count in range(agreed + 1)
    ]
    least, most = agreed + 1, n_sites - 1
    if least <= most:
        more = _company(most) if least == most else f"{least} to {most} other sites"
        rows.append((more, round_up(epsilons[-1]), _OWN_ALONE))
    if described is not None and described.needs_dealer:
        rows.append(("the noise dealer", round_up(epsilons[-1]), _OWN_ALONE))
    header = ("aggregator and", "epsilon", "")
    others = f"{agreed} other site{'s' if agreed != 1 else ''}"
    sentence = f"The epsilon holds against the aggregator colluding with up to {others}."
    if agreed == 0:
        sentence = "The epsilon holds against the aggregator, with no other site colluding."
    return Part(title, (sentence,), table=(header, *rows))


def _company(count: int) -> str:
    return "no other site" if count == 0 else f"{count} other site{'s' if count > 1 else ''}"
