"""Sites behind a transport, under one protocol; and the right to a fixed number of releases."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from dpcape.errors import AllowanceExceeded, InvalidParameter, ProtocolError, SiteLost
from dpcape.facts import Facts
from dpcape.guarantee.guarantee import Guarantee, guarantee_of
from dpcape.guarantee.release_record import Release
from dpcape.privacy.calibration import ReleaseNoise, plan_release
from dpcape.privacy.terms import Terms, check_terms
from dpcape.protocols.protocol import Protocol
from dpcape.statistics.statistic import Statistic
from dpcape.transport.messages import Agreed, Describe, Described, Open, Request, ToSite, public_arrays
from dpcape.transport.messenger import SiteMessenger
from dpcape.transport.transport import Transport

# Fields of Facts whose names do not say what to change.
_REMEDIES = {
    "widths": "Give every site the same columns.",
    "preparation": "Give every site the same ranges, levels and fills, which these digests stand for.",
}


class Federation:
    """Sites behind a transport, under one protocol.

    Parameters
    ----------
    sites : Transport
        For instance ``in_process({...})``; names, sizes and schema are learnt from the sites.
    protocol : Protocol
        Cape, SecureSum, Independent, Dealer or Exact; there is no default.
    weights : mapping or None
        Weight of each site in every mean, adding to one; None weighs sites by their records.
    deadline : float or None
        Seconds to wait for each answer; None waits as long as it takes.
    on_release : callable or None
        Called after each release with a :class:`Release`, for progress.
    seen_heads : mapping or None
        (length, hash) of each site's ledger as it was last seen; a site whose ledger does not contain it any more
        refuses, because a backup was restored there.

    Attributes
    ----------
    facts : Facts
        What is public and equal at all sites.
    n_records : int
        Records of all sites together.

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
        on_release: Callable[[Release], None] | None = None,
        seen_heads: Mapping[str, tuple[int, str]] | None = None,
    ) -> None:
        self._check(sites, protocol, weights)
        self.protocol = protocol
        self.weights = {site: _as_float("each of weights", weight) for site, weight in (weights or {}).items()}
        self._transport = sites
        self._deadline = deadline
        self._on_release = on_release
        described = self._describe(seen_heads or {})
        self.sites: dict[str, int] = {name: entry.facts.n_records for name, entry in described.items()}
        self.facts: Facts = _common_facts(described)
        self.replayable = any(entry.replayable for entry in described.values())
        self.separation: dict[str, str] = {name: entry.separation for name, entry in described.items()}
        self._identities = {name: entry.identity for name, entry in described.items()}
        protocol.settings(len(self.sites))

    @staticmethod
    def _check(sites: Any, protocol: Any, weights: Any) -> None:
        """Refuse what is not a line of sites, a protocol and weights."""
        if not isinstance(sites, Transport):
            raise InvalidParameter(
                f"sites must be on a line; got {_named(sites)}. "
                "Write Federation(in_process({name: records, ...}), protocol=...)."
            )
        if not isinstance(protocol, Protocol):
            raise InvalidParameter(
                f"protocol must be a protocol with its parameters; got {_named(protocol)}. "
                "Write for example protocol=Cape(n_colluding=1)."
            )
        if weights is not None and not isinstance(weights, Mapping):
            raise InvalidParameter(
                f"weights must map each site to a number; got {_named(weights)}. Write {{site: weight}}."
            )

    @property
    def n_records(self) -> int:
        """Records of all sites together."""
        return sum(self.sites.values())

    @property
    def n_features(self) -> int:
        """Columns of all views together."""
        return self.facts.n_features

    def allow(
        self,
        epsilon: float | Mapping[str, float],
        delta: float,
        shares: Sequence[float] = (1.0,),
    ) -> Allowance:
        """Open the right to exactly ``len(shares)`` releases; every site agrees, nothing is charged yet.

        Parameters
        ----------
        epsilon : float or mapping
            One number, or one per site.
        delta : float
            One number.
        shares : sequence of float
            Parts of mu^2, one per release, adding to at most one.
        """
        terms = self.terms(epsilon, delta, shares)
        line = SiteMessenger(self._transport, terms.allowance, self._identities, self._deadline)
        replies, missing = line.ask(dict.fromkeys(terms.sites, Open(terms=terms)))
        if len(replies) < terms.settings.minimum_sites:
            raise SiteLost(
                f"at least {terms.settings.minimum_sites} sites must agree to the study; got {len(replies)} "
                f"(missing: {', '.join(missing)}). Nothing was charged."
            )
        line.keys = {site: reply.key for site, reply in replies.items() if isinstance(reply, Agreed)}
        return Allowance(self, terms, line, self._on_release)

    def terms(self, epsilon: float | Mapping[str, float], delta: float, shares: Sequence[float] = (1.0,)) -> Terms:
        """Return the public terms an allowance would have; spends nothing."""
        per_site = dict(epsilon) if isinstance(epsilon, Mapping) else dict.fromkeys(self.sites, epsilon)
        terms = Terms(
            allowance=secrets.token_hex(16),
            settings=self.protocol.settings(len(self.sites)),
            epsilons={} if self.protocol.name == "exact" else _as_floats(per_site),
            delta=_as_float("delta", delta),
            shares=_as_shares(shares),
            n_records=dict(self.sites),
            weights=self.weights,
            facts=self.facts,
        )
        check_terms(terms)
        return terms

    def plan(self, estimator: Any, *, declared: Any = None) -> Any:
        """Return what fitting an estimator would release, how noisy, and what it would cost; spends nothing.

        The analysis runs on made-up records with the public facts of this federation: no site is asked for anything.

        Parameters
        ----------
        estimator : object
            An analysis, not fitted; it stays as it is.
        declared : dpcape.planning.Declared
            What is known in public about the records, for the expected error.
        """
        if not hasattr(estimator, "plan"):
            raise InvalidParameter(f"plan must be given an analysis, such as PCA(...); got {type(estimator).__name__}.")
        return estimator.plan(self, declared=declared)

    @property
    def identities(self) -> Mapping[str, bytes]:
        """Public keys of the sites, as they described themselves."""
        return dict(self._identities)

    def ledger_heads(self) -> dict[str, tuple[int, str]]:
        """Ask every site for the head of its ledger now, to be shown to it the next time (``seen_heads``)."""
        described = self._describe({})
        return {name: (entry.ledger_length, entry.ledger_head) for name, entry in described.items()}

    def _describe(self, seen: Mapping[str, tuple[int, str]]) -> dict[str, Described]:
        line = SiteMessenger(self._transport, "", {}, self._deadline)
        messages: dict[str, ToSite] = {
            name: Describe(seen_length=length, seen_head=head)
            for name, (length, head) in ((name, seen.get(name, (0, ""))) for name in self._transport.sites)
        }
        replies, missing = line.ask(messages)
        if missing:
            raise SiteLost(
                f"every site must answer when a federation is formed; got nothing from {', '.join(missing)}."
            )
        described: dict[str, Described] = {}
        for name, reply in replies.items():
            if not isinstance(reply, Described):
                raise ProtocolError(f"{name} must describe its records; got {type(reply).__name__}.")
            described[name] = reply
        return described

    def __repr__(self) -> str:
        return f"Federation({len(self.sites)} sites, {self.n_records} records, {self.protocol!r})"


class Allowance:
    """A calibrated right to a fixed number of releases.

    ``mean`` is the only verb. Each release uses its own share of mu^2; one more than allowed raises, before anything
    leaves a site.
    """

    def __init__(
        self,
        federation: Federation,
        terms: Terms,
        line: SiteMessenger,
        on_release: Callable[[Release], None] | None,
    ) -> None:
        self._federation, self._terms = federation, terms
        self._protocol = federation.protocol
        self._coordinator = self._protocol.coordinator(line, terms)
        self._plans: list[ReleaseNoise] = []
        self._stated: list[str] = []
        self._on_release = on_release
        self.releases: list[Release] = []

    @property
    def left(self) -> int:
        """Releases not yet used."""
        return len(self._terms.shares) - len(self._plans)

    def plan(self, statistic: Statistic, release: int | None = None) -> ReleaseNoise:
        """Return the noise the next release (or release number ``release``) would have; spends nothing."""
        number = len(self._plans) if release is None else release
        if not 0 <= number < len(self._terms.shares):
            raise AllowanceExceeded(
                f"an allowance of {len(self._terms.shares)} releases must not be exceeded; got number {number + 1}. "
                "Open a new allowance, which is charged anew."
            )
        return plan_release(self._terms, number, statistic, self._protocol)

    def mean(self, statistic: Statistic) -> Any:
        """Return the private mean of a statistic over the records of all sites that finish."""
        number = len(self._plans)
        plan = self.plan(statistic)
        # Counted first: whatever happens from here on, the release is used up.
        self._plans.append(plan)
        if statistic.assumption and statistic.assumption not in self._stated:
            self._stated.append(statistic.assumption)
        request = Request(release=number, statistic=statistic.name, public=public_arrays(statistic.public), plan=plan)
        outcome = self._coordinator.run(request, plan, statistic.size)
        divisor = self._terms.divisor(outcome.survivors)
        mean = outcome.total.astype(np.float64) * (plan.step / divisor)
        self._note(number, statistic, plan, outcome.survivors, divisor, float(np.linalg.norm(mean)))
        return statistic.unpack(mean)

    def _note(
        self,
        number: int,
        statistic: Statistic,
        plan: ReleaseNoise,
        survivors: tuple[str, ...],
        divisor: float,
        length: float | None = None,
    ) -> None:
        release = Release(
            number=number,
            n_releases=len(self._terms.shares),
            statistic=statistic.name,
            scale=plan.sum_scale(survivors) / divisor,
            survivors=survivors,
            n_records=sum(self._terms.n_records[site] for site in survivors),
            mus=dict(plan.mus),
            size=statistic.size,
            length=length,
        )
        self.releases.append(release)
        if self._on_release is not None:
            self._on_release(release)

    def guarantee(self) -> Guarantee:
        """Return what may be claimed for everything this allowance may release, used or not."""
        took_part = set(self._terms.sites) if self.releases else set()
        return guarantee_of(
            self._terms,
            self._protocol,
            self._plans,
            took_part=tuple(took_part.intersection(*(release.survivors for release in self.releases))),
            replayable=self._federation.replayable,
            stated=tuple(self._stated),
            separation=self._federation.separation,
        )


def _common_facts(described: Mapping[str, Described]) -> Facts:
    """Return the facts all sites share, or say where they differ."""
    names = sorted(described)
    first = described[names[0]].facts.shape_facts()
    for name in names[1:]:
        other = described[name].facts.shape_facts()
        if other != first:
            field = next(
                entry.name
                for entry in msgspec.structs.fields(Facts)
                if getattr(other, entry.name) != getattr(first, entry.name)
            )
            raise InvalidParameter(
                f"{field} must be the same at all sites; got {_short(getattr(first, field))} at {names[0]} and "
                f"{_short(getattr(other, field))} at {name}. "
                f"{_REMEDIES.get(field, 'Prepare the records in the same way.')}"
            )
    return first


def _short(value: object) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:57] + "..."


def _named(value: object) -> str:
    """Return what something is, for a message: a class by its own name."""
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__


def _as_shares(shares: Any) -> tuple[float, ...]:
    if isinstance(shares, str) or not isinstance(shares, Sequence | np.ndarray):
        raise InvalidParameter(f"shares must be a list of numbers, one per release; got {_short(shares)}.")
    return tuple(_as_float("each of shares", share) for share in shares)


def _as_floats(values: Mapping[str, Any]) -> dict[str, float]:
    return {str(site): _as_float("epsilon", value) for site, value in values.items()}


def _as_float(subject: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.floating | np.integer):
        raise InvalidParameter(f"{subject} must be a number; got {_short(value)}.")
    return float(value)
