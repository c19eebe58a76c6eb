"""Privacy guarantees: values that accompany every result."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any
from typing import Protocol as Interface

import msgspec

from dpcape.core.privacy.calibration import ReleaseNoise, Scheme, target_mus
from dpcape.core.privacy.collusion import epsilons_by_colluders
from dpcape.core.privacy.gaussian import compose
from dpcape.core.privacy.terms import Terms, epsilon_reserve, is_large, printed_epsilon, tail_reserve
from dpcape.guarantee.separation import cluster_lines, is_unseparated, separation_lines
from dpcape.pages.numbers import round_up

VERIFIED = "verified"
CONDITIONAL = "conditional on a sensitivity that was searched, not proved"
PUBLISHED = "published claim"
NONE = "no guarantee"
UNSEPARATED = "not separated: a site's records lie open to every member and the coordinator"


class SiteGuarantee(msgspec.Struct, frozen=True, kw_only=True):
    """Privacy guarantee of one site's records."""

    mu: float
    epsilon: float
    delta: float
    n_records: int


class Guarantee(msgspec.Struct, frozen=True, kw_only=True):
    """Privacy guarantee of a result, with its adversary and assumptions.

    Attributes
    ----------
    epsilon, delta, mu : float
        The figures of the least protected site; ``sites`` has every site's.
    epsilon_output_only : float
        Epsilon against someone who sees only the result.
    unit : str
        What is protected: "record" or "subject"; ``owner_note`` says how a person relates to it.
    against : str
        The adversary, in words.
    public : tuple of str
        Facts that are public and not protected.
    releases : int
        Number of releases that were charged.
    minimum_sites, n_colluding : int
        Number of sites that must finish, and of sites that may collude.
    took_part : tuple of str
        Sites that finished every release.
    assumptions : tuple of str
        Assumptions of the figures.
    status : str
        "verified", "published claim" or "no guarantee"; or conditional, where an author's statement is assumed; or not
        separated, where a site serves records that its engine can read.
    replayable : bool
        Whether noise came from a seed: then nothing is protected, whatever the figures say.
    by_colluders : tuple of float
        Epsilon against the aggregator with 0, 1, ... other sites; beyond ``n_colluding`` from a site's own noise alone.
        Empty if not known.
    by_site : bool
        Whether the result has a noisy total of each site, which every protocol then shows.
    own_pairs : dict
        Where every site has a delta of its own: its epsilon at that delta, and that delta. The other figures hold, too:
        they are the same noise at one delta for all.
    """

    epsilon: float
    delta: float
    mu: float
    epsilon_output_only: float
    unit: str
    owner_note: str
    against: str
    protocol: str
    public: tuple[str, ...]
    releases: int
    n_colluding: int
    minimum_sites: int
    took_part: tuple[str, ...]
    sites: dict[str, SiteGuarantee]
    assumptions: tuple[str, ...]
    status: str = VERIFIED
    replayable: bool = False
    neighbours: str = "replace one"
    by_colluders: tuple[float, ...] = ()
    by_site: bool = False
    own_pairs: dict[str, tuple[float, float]] = {}

    def sentence(self) -> str:
        """Return the guarantee as one sentence a data steward can read."""
        if self.status == NONE:
            return f"No privacy guarantee: exact totals of every site were released ({self.protocol})."
        note = f" ({self.owner_note})" if self.owner_note else ""
        text = (
            f"({round_up(self.epsilon)}, {round_up(self.delta, 6)})-differentially private per {self.unit}{note}, when "
            f"one {self.unit} of one site is replaced, against {self.against}; {self.releases} "
            f"release{'s' if self.releases > 1 else ''}, at least {self.minimum_sites} of {len(self.sites)} "
            f"site{'s' if len(self.sites) > 1 else ''} finishing; public: {', '.join(self.public)}; "
            f"{f'{BY_SITE}; ' if self.by_site else ''}"
            f"{f'at the delta of each site: {self._pairs()}; ' if self.own_pairs else ''}"
            f"exact integer noise; {self.status}. Assumed: {'; '.join(self.assumptions)}."
        )
        if self.replayable:
            return f"REPLAYABLE: NO PROTECTION. The noise came from a seed. With fresh noise this would be: {text}"
        return text

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; infinities become null."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        plain["sentence"] = self.sentence()
        for name in ("by_site", "own_pairs"):
            if not plain[name]:
                del plain[name]
        return _without_infinities(plain)  # type: ignore[no-any-return]  # a mapping in, a mapping out

    def to_json(self) -> str:
        """Return the guarantee as a JSON object."""
        return msgspec.json.encode(self.to_dict()).decode()

    def __str__(self) -> str:
        return self.sentence()

    def _repr_html_(self) -> str:
        # Imported only where a card is shown.
        from dpcape.guarantee.card import card_html, card_of

        return card_html(card_of(self))

    def _pairs(self) -> str:
        pairs = [f"{site} ({round_up(one)}, {round_up(delta, 6)})" for site, (one, delta) in self.own_pairs.items()]
        return ", ".join(pairs)

    def lines(self) -> list[tuple[str, str]]:
        """Return the guarantee as labelled lines, for cards and tables."""
        if self.status == NONE:
            return [("guarantee", self.sentence())]
        lines = [
            ("epsilon", f"{round_up(self.epsilon)} at delta {round_up(self.delta, 6)} (mu {round_up(self.mu, 5)})"),
            (
                "protects",
                f"one {self.unit} of one site, replaced" + (f"; {self.owner_note}" if self.owner_note else ""),
            ),
            ("against", self.against),
            ("result alone", f"epsilon {round_up(self.epsilon_output_only)}"),
            ("releases", str(self.releases)),
            ("took part", ", ".join(self.took_part)),
            ("must finish", f"{self.minimum_sites} of {len(self.sites)} sites"),
            ("public", ", ".join(self.public)),
            *([("each site's own", self._pairs())] if self.own_pairs else []),
            *([("shows", BY_SITE)] if self.by_site else []),
            ("assumes", "; ".join(self.assumptions)),
            ("status", self.status),
        ]
        if self.replayable:
            lines.insert(0, ("warning", "replayable: no protection. The noise came from a seed."))
        return lines


def _without_infinities(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_infinities(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_without_infinities(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


BY_SITE = "the result has a noisy total of each site that it names, visible under every protocol"
RANGES_AND_LEVELS = "ranges and levels of columns"
PUBLIC_FACTS = ("site sizes", "dimensions", "names of columns and classes", "bounds", "number of releases")

# If invalid records are refused, a run makes public that there are none.
ALL_VALID = "that all records are valid"
LEDGER_HEADS = "heads of the sites' ledgers, which change when a site takes part in a study"

ONE_SITE_EACH = "a person appears at one site only (one at k sites is protected less: mu is up to k times larger)"


class DescribedScheme(Scheme, Interface):
    """A scheme that describes its adversary and assumptions in words."""

    def adversary(self) -> str:
        """Return the adversary, in words."""

    def assumptions(self) -> tuple[str, ...]:
        """Return the assumptions of the guarantee, in words."""


def guarantee_of(
    terms: Terms,
    protocol: DescribedScheme,
    plans: Sequence[ReleaseNoise],
    *,
    took_part: Sequence[str] = (),
    replayable: bool = False,
    stated: tuple[str, ...] = (),
    separation: Mapping[str, str] | None = None,
    clusters: Mapping[str, str] | None = None,
    shows_heads: bool = False,
    by_site: bool = False,
    deltas: Mapping[str, float] | None = None,
) -> Guarantee:
    """Return the guarantee of an allowance whose first releases followed ``plans``; the rest counts in full.

    ``took_part`` are the sites in every release so far. ``stated`` are assumptions of the statistics' authors; with
    any, the figures are conditional, not verified. ``separation`` has each site's mode, for sites behind an engine;
    ``clusters`` has the cluster of each site that computes on one. ``shows_heads`` says that sites have ledgers on
    disk, whose heads the coordinator and the other sites see. ``by_site`` says that a release has a part for each site.

    ``deltas`` has a delta of each site's own. A site's view is mu-GDP up to (gap, tail) whatever delta is asked about:
    its epsilon at its own delta is read off the same curve, and takes nothing from the figures at the terms' delta.
    """
    modes = separation or {}
    sites = {site: _site_guarantee(terms, plans, site) for site in terms.sites}
    worst = max(sites.values(), key=lambda entry: entry.epsilon)
    return Guarantee(
        epsilon=worst.epsilon,
        delta=terms.delta,
        mu=worst.mu,
        epsilon_output_only=_output_only(terms, plans),
        unit=terms.facts.unit,
        owner_note=terms.facts.owner_note,
        against=protocol.adversary(),
        protocol=type(protocol).__name__,
        public=(
            *PUBLIC_FACTS,
            *((RANGES_AND_LEVELS,) if terms.facts.kind == "table" else ()),
            *((ALL_VALID,) if terms.facts.invalid == "refuse" else ()),
            *((LEDGER_HEADS,) if shows_heads else ()),
        ),
        releases=len(terms.shares),
        n_colluding=terms.settings.n_colluding,
        minimum_sites=terms.settings.minimum_sites,
        took_part=tuple(sorted(took_part)),
        sites=sites,
        assumptions=(
            ONE_SITE_EACH,
            *protocol.assumptions(),
            *separation_lines(modes),
            *cluster_lines(clusters or {}),
            *_large_delta(terms, max([terms.delta, *(deltas or {}).values()])),
            *stated,
        ),
        status=_status(terms, stated, modes),
        replayable=replayable,
        by_colluders=epsilons_by_colluders(terms, protocol, plans),
        by_site=by_site,
        own_pairs={
            site: (_epsilon(terms, site, sites[site].mu, delta), delta) for site, delta in (deltas or {}).items()
        },
    )


def _large_delta(terms: Terms, delta: float) -> tuple[str, ...]:
    """Return what a delta above 1/N means; nothing for a smaller delta."""
    unit, n_records = terms.facts.unit, terms.total_records
    if not terms.epsilons or not is_large(delta, n_records):
        return ()
    return (
        f"delta is above 1/N (N = {n_records} {unit}s), which was accepted: these figures allow that about "
        f"{round_up(delta * n_records, 2)} whole {unit}s are revealed",
    )


def _status(terms: Terms, stated: tuple[str, ...], modes: Mapping[str, str]) -> str:
    if not terms.epsilons:
        return NONE
    if is_unseparated(modes):
        return UNSEPARATED
    return CONDITIONAL if stated else VERIFIED


def _site_guarantee(terms: Terms, plans: Sequence[ReleaseNoise], site: str) -> SiteGuarantee:
    if not terms.epsilons:
        mu, epsilon = math.inf, math.inf
    else:
        mu = compose([*(plan.mus[site] for plan in plans), _unused_mu(terms, plans, site)])
        epsilon = _epsilon(terms, site, mu)
    return SiteGuarantee(mu=mu, epsilon=epsilon, delta=terms.delta, n_records=terms.n_records[site])


def _unused_mu(terms: Terms, plans: Sequence[ReleaseNoise], site: str) -> float:
    """Return the mu of releases that are allowed and were not made."""
    return target_mus(terms)[site] * math.sqrt(math.fsum(terms.shares[len(plans) :]))


def _epsilon(terms: Terms, site: str, mu: float, delta: float | None = None) -> float:
    """Return a site's epsilon at ``delta``, by default that of the terms, by which integer noise is drawn."""
    gap, tail = epsilon_reserve(terms.epsilons[site]), tail_reserve(terms.delta)
    return printed_epsilon(terms.delta if delta is None else delta, mu, gap=gap, tail=tail)


def _output_only(terms: Terms, plans: Sequence[ReleaseNoise]) -> float:
    """Return the worst site's epsilon against someone who sees only the results.

    The result carries the own noise of at least ``minimum_sites`` sites; those with the least are counted.
    """
    if not terms.epsilons:
        return math.inf
    least = terms.settings.minimum_sites
    epsilons = []
    for site in terms.sites:
        mus = []
        for plan in plans:
            others = sorted(scale for name, scale in plan.own_scales.items() if name != site)[: least - 1]
            covered = math.hypot(plan.own_scales[site], *others)
            mus.append(plan.output_sensitivities[site] / covered)
        epsilons.append(_epsilon(terms, site, compose([*mus, _unused_mu(terms, plans, site)])))
    return max(epsilons)
