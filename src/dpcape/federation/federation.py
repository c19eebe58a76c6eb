"""Sites behind a transport, under one protocol, and allowances for a fixed number of releases."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol as Interface
from typing import TypeVar

import msgspec
import numpy as np

from dpcape.core.enclosed import Enclosure
from dpcape.core.errors import InvalidMessage, InvalidParameter, ProtocolError, SiteLost
from dpcape.core.facts import PublicFacts
from dpcape.core.limits import NEGLIGIBLE_BYTES, STANDS, UNCHARGED, check_memory
from dpcape.core.messages import (
    Agreed,
    DealerDescribed,
    Describe,
    Described,
    Open,
    Reopen,
    Reopened,
    encode,
)
from dpcape.core.privacy.site_deltas import at_one_delta
from dpcape.core.privacy.terms import Terms, check_delta, check_terms
from dpcape.core.privacy.unused_epsilon import warn_of_unused
from dpcape.core.protocols.protocol import Protocol
from dpcape.core.secure_sum.signed_head import SignedHead
from dpcape.federation.allowance import Allowance
from dpcape.federation.kept_releases import KeptAllowance, KeptReleases, same_terms
from dpcape.guarantee.release_record import ReleaseRecord
from dpcape.transport.footprint import Footprint
from dpcape.transport.messenger import SiteMessenger
from dpcape.transport.transport import Transport

M = TypeVar("M")
DeclaredT = TypeVar("DeclaredT")
DeclaredT_contra = TypeVar("DeclaredT_contra", contravariant=True)
PlanT = TypeVar("PlanT")
PlanT_co = TypeVar("PlanT_co", covariant=True)
# Remedies for public facts whose names do not say what to change.
_REMEDIES = {
    "widths": "Give every site the same columns.",
    "preparation": "Give every site the same ranges, levels and fills; these are their digests.",
}


class Plannable(Interface[DeclaredT_contra, PlanT_co]):
    """Interface of an analysis that can be planned."""

    def plan(self, federation: Federation, *, declared: DeclaredT_contra | None = None) -> PlanT_co:
        """Return the plan of the analysis for a federation."""


class Federation:
    """Sites behind a transport, under one protocol.

    Parameters
    ----------
    sites : Transport
        For instance ``in_process({...})``; the sites report their names, sizes and schema.
    protocol : Protocol
        Cape, SecureSum, Independent, Dealer or Exact; there is no default.
    weights : mapping or None
        Weight of each site in every mean, summing to one; None weights sites by their number of records.
    deadline : float or None
        Seconds to wait for each answer; None waits without limit.
    on_release : callable or None
        Function called with a :class:`ReleaseRecord` after each release, for progress.
    seen_heads : mapping or None
        (length, hash) of each site's ledger as it was last seen; a site whose ledger does not contain it any more
        refuses, because a backup was restored there.
    releases : KeptReleases or None
        Where releases are kept as they arrive. If an allowance is kept there already, it goes on: its releases are
        taken from the folder, and the sites are asked for the rest under the same charge.
    enclosure : Enclosure or None
        How statistics of another package are computed at the sites, as a study states it; None runs them with the
        diameter that their author states, which sites behind a vault refuse.
    accept_large_delta : bool
        Accept a delta above 1/N, N the number of records over all sites; it is refused otherwise. The guarantee says
        so.

    Attributes
    ----------
    facts : PublicFacts
        Public facts that are equal at all sites.
    n_records : int
        Number of records, over all sites.

    Examples
    --------
    >>> import numpy as np
    >>> from dpcape import Federation, Independent, in_process, rows
    >>> fed = Federation(in_process({"lyon": rows(np.eye(4), bound=1.0)}), protocol=Independent())
    >>> fed.n_records, fed.n_features
    (4, 4)
    """

    def __init__(
        self,
        sites: Transport,
        *,
        protocol: Protocol,
        weights: Mapping[str, float] | None = None,
        deadline: float | None = None,
        on_release: Callable[[ReleaseRecord], None] | None = None,
        seen_heads: Mapping[str, tuple[int, str]] | None = None,
        releases: KeptReleases | None = None,
        enclosure: Enclosure | None = None,
        accept_large_delta: bool = False,
    ) -> None:
        self._check(sites, protocol, weights)
        self.accept_large_delta = accept_large_delta is True
        self.protocol = protocol
        self.weights = {site: _as_float("each of weights", weight) for site, weight in (weights or {}).items()}
        self._transport = sites
        self._deadline = deadline
        self._on_release = on_release
        self._releases = releases
        self.enclosure = enclosure
        described = self._describe(seen_heads or {})
        self._described = described
        self.sites: dict[str, int] = {name: entry.facts.n_records for name, entry in described.items()}
        self.facts: PublicFacts = _common_facts(described)
        self._dealers = self._describe_dealer() if protocol.needs_dealer else {}
        everyone: dict[str, Described | DealerDescribed] = {**described, **self._dealers}
        self.replayable = any(entry.replayable for entry in everyone.values())
        self.separation: dict[str, str] = {name: entry.separation for name, entry in everyone.items()}
        self.clusters: dict[str, str] = {
            name: entry.computed_on for name, entry in described.items() if isinstance(entry.computed_on, str)
        }
        self.shows_heads = any(entry.ledger_length for entry in described.values())
        self._identities = {name: entry.identity for name, entry in described.items()}
        protocol.settings(len(self.sites))

    @staticmethod
    def _check(sites: object, protocol: object, weights: object) -> None:
        """Refuse arguments that are not a transport, a protocol and weights."""
        if not isinstance(sites, Transport):
            remedy = "Write Federation(in_process({name: records, ...}), protocol=...)."
            raise InvalidParameter("sites", "be a transport", _named(sites), remedy)
        if not isinstance(protocol, Protocol):
            remedy = "Write for example protocol=Cape(n_colluding=1)."
            raise InvalidParameter("protocol", "be a protocol instance", _named(protocol), remedy)
        if weights is not None and not isinstance(weights, Mapping):
            raise InvalidParameter("weights", "map each site to a number", _named(weights), "Write {site: weight}.")

    @property
    def n_records(self) -> int:
        """Number of records, over all sites."""
        return sum(self.sites.values())

    @property
    def n_features(self) -> int:
        """Number of columns, over all views."""
        return self.facts.n_features

    def allow(
        self,
        epsilon: float | Mapping[str, float],
        delta: float | Mapping[str, float],
        shares: Sequence[float] = (1.0,),
        *,
        stated: Sequence[str] = (),
    ) -> Allowance:
        """Return an allowance of ``len(shares)`` releases; every site agrees to it, and nothing is charged yet.

        Parameters
        ----------
        epsilon : float or mapping
            Epsilon of all sites, or of each site.
        delta : float or mapping
            Delta of all sites, or of each site; then the terms restate every pair at the smallest delta.
        shares : sequence of float
            Parts of mu^2, one per release, adding to at most one.
        stated : sequence of str
            What the guarantee rests on besides proof, in words; with any, it is conditional.
        """
        terms = self.terms(epsilon, delta, shares)
        deltas = _as_floats("delta", delta) if isinstance(delta, Mapping) and terms.epsilons else {}
        largest = msgspec.structs.replace(terms, delta=max(deltas.values(), default=terms.delta))
        check_delta(largest, accepted=self.accept_large_delta)
        warn_of_unused(terms, self.protocol)
        kept_allowance = None if self._releases is None else self._releases.allowance()
        if kept_allowance is not None:
            terms = same_terms(kept_allowance.terms, terms)
        messenger = SiteMessenger(self._transport, terms.allowance, self._identities, self._deadline)
        kind = Open if kept_allowance is None else Reopen
        replies, missing = messenger.ask({site: kind(terms=terms, heads=self._heads_for(site)) for site in terms.sites})
        if len(replies) < terms.settings.minimum_sites:
            raise SiteLost(
                "The study did not start",
                f"only {len(replies)} of {terms.settings.minimum_sites} required sites agreed to it (missing: "
                f"{', '.join(missing)})",
                "Nothing was charged. Start the missing sites, then try again.",
            )
        messenger.keys = {site: reply.key for site, reply in replies.items() if isinstance(reply, Agreed | Reopened)}
        begun = [reply.next_release for reply in replies.values() if isinstance(reply, Reopened)]
        n_begun, on_release = max(begun, default=0), self._on_release
        if self._releases is not None and kept_allowance is None:
            described = {site: encode(reply) for site, reply in self._described.items()}
            dealers = {name: encode(reply) for name, reply in self._dealers.items()}
            self._releases.begin(
                KeptAllowance(terms=terms, described=described, enclosure=self.enclosure, dealers=dealers)
            )
        return Allowance(
            self,
            terms,
            messenger,
            on_release,
            releases=self._releases,
            n_begun=n_begun,
            stated=stated,
            deltas=deltas,
        )

    def require_memory(self, what: str, footprint: Footprint, *, is_charged: bool = False) -> None:
        """Refuse what does not fit into the free memory of this computer; sites check their own.

        Parameters
        ----------
        what : str
            What is refused, in words.
        footprint : Footprint
            What it needs.
        is_charged : bool
            Whether something has been charged already.
        """
        machine, needed = "the coordinator", footprint.at_coordinator
        if self._transport.in_one_process:
            machine, needed = "sites and coordinator in one process", footprint.in_one_process(len(self.sites))
        if needed <= NEGLIGIBLE_BYTES:
            return
        goes_on = self._releases is not None and self._releases.allowance() is not None
        check_memory(what, needed, machine, STANDS if is_charged or goes_on else UNCHARGED)

    def _heads_for(self, site: str) -> tuple[SignedHead, ...]:
        """Return the ledger heads of the other sites, and those of this site that the others keep."""
        others = [entry for name, entry in self._described.items() if name != site]
        own_heads = {head for entry in others for head in entry.peers if head.site == site}
        shown = [entry.signed for entry in others if entry.signed is not None]
        return (*shown, *sorted(own_heads, key=lambda head: (head.length, head.head)))

    def terms(
        self,
        epsilon: float | Mapping[str, float],
        delta: float | Mapping[str, float],
        shares: Sequence[float] = (1.0,),
    ) -> Terms:
        """Return the public terms that an allowance would have; spends no budget."""
        per_site = dict(epsilon) if isinstance(epsilon, Mapping) else dict.fromkeys(self.sites, epsilon)
        if isinstance(delta, Mapping):
            per_site, delta = _restated(per_site, _as_floats("delta", delta))
        terms = Terms(
            allowance=secrets.token_hex(16),
            settings=self.protocol.settings(len(self.sites)),
            epsilons=_as_floats("epsilon", per_site) if self.protocol.adds_noise else {},
            delta=_as_float("delta", delta),
            shares=_as_shares(shares),
            n_records=dict(self.sites),
            weights=self.weights,
            facts=self.facts,
        )
        check_terms(terms, adds_noise=self.protocol.adds_noise)
        return terms

    def plan(self, estimator: Plannable[DeclaredT, PlanT], *, declared: DeclaredT | None = None) -> PlanT:
        """Return what fitting an estimator would release, its noise and its cost; spends no budget.

        The plan uses only the public facts of this federation: no site is contacted.

        Parameters
        ----------
        estimator : object
            An analysis, not fitted; it is not changed.
        declared : Declared or None
            Public knowledge about the records, for the expected error.
        """
        if not hasattr(estimator, "plan"):
            remedy = "Write for example plan(PCA(...))."
            raise InvalidParameter("The argument of plan()", "be an analysis", _named(estimator), remedy)
        return estimator.plan(self, declared=declared)

    @property
    def identities(self) -> Mapping[str, bytes]:
        """Public keys of the sites, as the sites stated them."""
        return dict(self._identities)

    def ledger_heads(self) -> dict[str, tuple[int, str]]:
        """Return the current head of each site's ledger, to be passed as ``seen_heads`` the next time."""
        described = self._describe({})
        return {name: (entry.ledger_length, entry.ledger_head) for name, entry in described.items()}

    def _describe(self, seen: Mapping[str, tuple[int, str]]) -> dict[str, Described]:
        messenger = SiteMessenger(self._transport, "", {}, self._deadline)
        heads = {name: seen.get(name, (0, "")) for name in self._transport.sites}
        messages = {name: Describe(seen_length=length, seen_head=head) for name, (length, head) in heads.items()}
        replies, missing = messenger.ask(messages)
        if missing:
            remedy = "Start the missing sites, then try again."
            raise SiteLost("The federation was not formed", f"{', '.join(missing)} did not answer", remedy)
        described: dict[str, Described] = {}
        for name, reply in replies.items():
            if not isinstance(reply, Described):
                remedy = "Install the same dpcape version everywhere."
                raise InvalidMessage(name, "describe its records", type(reply).__name__, remedy)
            described[name] = reply
        return described

    def _describe_dealer(self) -> dict[str, DealerDescribed]:
        """Ask the noise dealer to describe itself: a result must state if its noise is replayable or readable."""
        name = self._transport.dealer
        if name is None:
            must = "have a transport with a noise dealer"
            raise InvalidMessage("Dealer", must, "a transport without one", "Use in_process(), or choose Cape.")
        replies, _ = SiteMessenger(self._transport, "", {}, self._deadline).ask({name: Describe()})
        reply = replies.get(name)
        if not isinstance(reply, DealerDescribed):
            remedy = "Nothing was charged. Start it, then try again."
            raise ProtocolError("The federation was not formed", f"the noise dealer {name} did not answer", remedy)
        return {name: reply}

    def __repr__(self) -> str:
        return f"Federation({len(self.sites)} sites, {self.n_records} records, {self.protocol!r})"


def _common_facts(described: Mapping[str, Described]) -> PublicFacts:
    """Return the facts that are equal at all sites, or raise if they differ.

    Precision may differ: it is single only where it is so at all sites.
    """
    names = sorted(described)
    shapes = {name: entry.facts.shape_facts() for name, entry in described.items()}
    if not all(shape.is_single for shape in shapes.values()):
        shapes = {name: shape.in_double() for name, shape in shapes.items()}
    first = shapes[names[0]]
    for name in names[1:]:
        other = shapes[name]
        if other != first:
            field = next(
                entry.name
                for entry in msgspec.structs.fields(PublicFacts)
                if getattr(other, entry.name) != getattr(first, entry.name)
            )
            must = "be the same at all sites"
            got = f"{_short(getattr(first, field))} at {names[0]} and {_short(getattr(other, field))} at {name}"
            raise InvalidParameter(field, must, got, _REMEDIES.get(field, "Prepare the records in the same way."))
    return first


def _short(value: object) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:57] + "..."


def _named(value: object) -> str:
    """Return the type of a value for a message; a class by its own name."""
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__


def _as_shares(shares: object) -> tuple[float, ...]:
    if isinstance(shares, str) or not isinstance(shares, Sequence | np.ndarray):
        raise InvalidParameter("shares", "be a list of numbers, one per release", _short(shares), "Write (1.0,).")
    return tuple(_as_float("each of shares", share) for share in shares)


def _as_floats(subject: str, values: Mapping[str, object]) -> dict[str, float]:
    return {str(site): _as_float(subject, value) for site, value in values.items()}


def _restated(epsilons: Mapping[str, float], deltas: Mapping[str, float]) -> tuple[dict[str, float], float]:
    """Return epsilons at the smallest delta, where every site has a delta of its own (dissertation, section 3.3.7)."""
    if epsilons.keys() != deltas.keys():
        must = f"be one number, or one for each site ({', '.join(sorted(epsilons))})"
        raise InvalidParameter("delta", must, sorted(deltas), "Name every site once.")
    return at_one_delta({site: (epsilon, deltas[site]) for site, epsilon in _as_floats("epsilon", epsilons).items()})


def _as_float(subject: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.floating | np.integer):
        raise InvalidParameter(subject, "be a number", _short(value), "Write for example 0.5.")
    return float(value)
