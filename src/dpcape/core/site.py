"""THE BOUNDARY: left of this file code may touch records, right of it code sees releases only.

A site answers messages. It computes scale and mu of every release itself from public facts, refuses what differs,
charges its ledger, counts the release, and only then reads records. On doubt it does not answer.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

import msgspec
import numpy as np

from dpcape.core._version import __version__
from dpcape.core.arrays import FloatArray, IntArray
from dpcape.core.enclosed import Contributor, Enclosed
from dpcape.core.errors import DpcapeError, InvalidParameter, LedgerRefused, ProtocolError
from dpcape.core.facts import PublicFacts
from dpcape.core.limits import check_site
from dpcape.core.messages import (
    Agreed,
    Describe,
    Described,
    FromSite,
    Open,
    Refused,
    Reopen,
    Reopened,
    Request,
    ToSite,
    decode_public,
    decode_to_site,
    encode,
)
from dpcape.core.noise import NoiseSource
from dpcape.core.peer_heads import PeerHeads, require_genuine
from dpcape.core.plain_text import one_line
from dpcape.core.privacy.calibration import NoisePlans, ReleaseNoise, target_mus
from dpcape.core.privacy.ledger import Charge, Spending
from dpcape.core.privacy.terms import Terms, check_terms, epsilon_reserve, tail_reserve
from dpcape.core.privacy.unit import Unit
from dpcape.core.protocols.protocol import Protocol as NoiseProtocol
from dpcape.core.protocols.protocol import SiteContext, SiteRole, on_grid, request_digest
from dpcape.core.protocols.registry import from_settings
from dpcape.core.record_blocks import HeldRecords
from dpcape.core.secure_sum.identity import Identity
from dpcape.core.secure_sum.signed_head import SignedHead
from dpcape.core.statistic import AnyStatistic, build, is_own
from dpcape.core.totals import released_total, required

_log = logging.getLogger(__name__)

# Most allowances open at once; the least recently used one is dropped, because its coordinator has abandoned it.
MOST_OPEN = 64

Laws: TypeAlias = Callable[[AnyStatistic, PublicFacts], object]
"""Search for records that refute what another package states of a statistic; raises if there are any."""


class Approval(Protocol):
    """What the site's steward agreed to; both methods raise on anything else."""

    def check_terms(self, terms: Terms) -> None:
        """Refuse an allowance that was not agreed to."""

    def check_request(self, request: Request, n_records: Mapping[str, int]) -> None:
        """Refuse a release that was not agreed to."""


class Site:
    """One data holder: its records, its ledger, its identity.

    Parameters
    ----------
    name : str
        The name the consortium knows the site by.
    records : HeldRecords
        What the site holds, clipped to public bounds.
    ledger : Spending
        Guards what has been spent: a Ledger in memory, or one on disk.
    identity : Identity
        Signs secure-sum messages.
    noise : NoiseSource
        Where this site's noise comes from.
    approval : Approval or None
        What the steward agreed to; None, for sites of one's own, agrees to everything the ledger allows.
    separation : str
        Mode in which an engine is kept from the records (docs/threat_model.md); empty without an engine.
    contributor : Contributor or None
        Runs the code of other packages on blocks of records; None refuses it.
    peers : PeerHeads or None
        Where the heads of the other sites' ledgers are kept.
    laws : Laws or None
        Searches what other packages state of their statistics for counterexamples; None refuses such statistics.

    Privacy
    -------
    ``answer`` is the only way out. Its replies hold releases, masked vectors, and public facts. When the last release
    of an allowance is complete, its draws and keys are overwritten and it is forgotten with the next message about
    anything else; the ledger keeps refusing it.
    """

    def __init__(
        self,
        name: str,
        records: HeldRecords,
        *,
        ledger: Spending,
        identity: Identity,
        noise: NoiseSource,
        approval: Approval | None = None,
        separation: str = "",
        contributor: Contributor | None = None,
        peers: PeerHeads | None = None,
        laws: Laws | None = None,
    ) -> None:
        self.name = name
        self.ledger = ledger
        self.identity = identity
        self._records = records
        self._facts: PublicFacts = records.facts()
        self._noise = noise
        self.approval = approval
        self._separation = separation
        self.contributor = contributor
        self.peers = peers
        self._laws = laws
        self._pinned: dict[str, bytes] = {name: identity.public}
        # Least recently used first.
        self._allowances: dict[str, _Guarded] = {}
        self._n_opened = 0
        self._searched: set[bytes] = set()

    def pin(self, identities: Mapping[str, bytes]) -> None:
        """Fix the public keys of the consortium's sites; others are refused."""
        if identities.get(self.name) != self.identity.public:
            remedy = "Pin the site's own public key."
            raise InvalidParameter(f"The pinned identity of {self.name!r}", "be its own", "a different key", remedy)
        self._pinned = dict(identities)

    def answer(self, data: bytes) -> bytes:
        """Answer one message, or refuse it in words that hold nothing about records."""
        allowance = ""
        try:
            allowance, message = decode_to_site(data)
            reply = self._answer(allowance, message)
        except DpcapeError as error:  # dpcape's own words hold nothing about records
            reply = Refused(error=type(error).__name__, text=one_line(str(error)))
        except Exception:  # fail closed: an unexpected error must not carry data out
            # The reason stays at the site, in its log.
            _log.exception("%s could not answer", self.name)
            reply = Refused(error="ProtocolError", text="the site failed; its own log says why.")
        return encode(reply, allowance=allowance)

    def _answer(self, allowance: str, message: ToSite) -> FromSite:
        # Forget finished allowances except the one of this message, which other sites may still need.
        for name in [name for name, entry in self._allowances.items() if entry.is_finished and name != allowance]:
            self._allowances.pop(name).forget()
        if isinstance(message, Describe):
            self.ledger.confirm(message.seen_length, message.seen_head)
            length, head = self.ledger.head()
            # A ledger in memory has no head to sign.
            accepted = self.ledger.accepted() if length else ()
            return Described(
                facts=self._facts,
                identity=self.identity.public,
                replayable=self._noise.replayable,
                version=__version__,
                ledger_length=length,
                ledger_head=head,
                separation=self._separation,
                signed=SignedHead.of(self.identity, self.name, length, head, accepted) if length else None,
                peers=() if self.peers is None else self.peers.kept(self._pinned),
                computed_on=self._records.computed_on or msgspec.UNSET,
            )
        if isinstance(message, Open | Reopen):
            self._take_heads(message.heads)
            return self._open(message.terms) if isinstance(message, Open) else self._reopen(message.terms)
        if allowance not in self._allowances:
            raise ProtocolError("The message was refused", "its allowance is not open", "Start a new run.")
        # Move to the end, because the least recently used allowance is dropped first.
        guarded = self._allowances[allowance] = self._allowances.pop(allowance)
        reply = guarded.role.answer(message)
        guarded.is_finished |= guarded.role.completes(message) == len(guarded.terms.shares) - 1
        return reply

    def _take_heads(self, heads: Sequence[SignedHead]) -> None:
        """Find this site's own heads, as peers keep them, in its ledger; keep the heads of the peers."""
        if self.peers is None:
            return
        for head in (entry for entry in heads if entry.site == self.name):
            require_genuine(head, self._pinned)
            self.ledger.confirm(head.length, head.head)
        self.peers.take([head for head in heads if head.site != self.name], self._pinned)

    def _open(self, terms: Terms) -> FromSite:
        if terms.allowance in self._allowances:
            raise ProtocolError("The allowance was refused", "it is already open", "Start a new run.")
        protocol = self._checked(terms)
        self.ledger.check(self._charge(terms))
        self._check_unchanged()
        return Agreed(key=self._guard(terms, protocol).role.key())

    def _check_unchanged(self) -> None:
        """Refuse an allowance, before anything is charged, if the source of the records has changed."""
        try:
            self._records.check_unchanged()
        except ProtocolError as error:
            raise ProtocolError(f"{error} Nothing was charged") from error

    def _reopen(self, terms: Terms) -> FromSite:
        """Continue an allowance after a crash: its charge and its counter stay, secrets are drawn again."""
        protocol = self._checked(terms)
        next_release = self.ledger.reopen(self._charge(terms))
        return Reopened(next_release=next_release, key=self._guard(terms, protocol).role.key())

    def _guard(self, terms: Terms, protocol: NoiseProtocol) -> _Guarded:
        # Number all allowances ever opened, so that no two draw noise under the same labels.
        noise = self._noise.child(self.name, "allowance", self._n_opened)
        guarded = _Guarded(self, terms, protocol, noise)
        self._n_opened += 1
        while len(self._allowances) >= MOST_OPEN:
            self._allowances.pop(next(iter(self._allowances))).forget()
        self._allowances[terms.allowance] = guarded
        return guarded

    def _checked(self, terms: Terms) -> NoiseProtocol:
        """Return the protocol of terms that are this site's."""
        protocol = from_settings(terms.settings)
        check_terms(terms, adds_noise=protocol.adds_noise)
        if protocol.settings(len(terms.n_records)) != terms.settings:
            why = "the protocol's parameters do not fit the number of sites"
            raise ProtocolError("The allowance was refused", why, "Install the same dpcape version everywhere.")
        if terms.n_records.get(self.name) != self._facts.n_records:
            why = f"its number of records for {self.name} is not the site's"
            raise ProtocolError("The allowance was refused", why, "Form the federation again.")
        # Double precision is always possible; single precision, which rounds more, only if the facts say so.
        own = self._facts.shape_facts()
        if terms.facts not in (own, own.in_double()):
            why = f"its facts about the records of {self.name} are not the site's"
            raise ProtocolError("The allowance was refused", why, "Form the federation again.")
        if not set(terms.sites) <= set(self._pinned):
            unknown = sorted(set(terms.sites) - set(self._pinned))
            why = f"{', '.join(unknown)} is not pinned at {self.name}"
            raise ProtocolError("The allowance was refused", why, "Pin it with: dpcape site pin.")
        if self.approval is not None:
            self.approval.check_terms(terms)
        return protocol

    @property
    def pinned(self) -> Mapping[str, bytes]:
        """Public keys of the consortium's sites."""
        return self._pinned

    @property
    def facts(self) -> PublicFacts:
        """Public facts of the records."""
        return self._facts

    def search(self, statistic: AnyStatistic, request: Request) -> None:
        """Refuse a statistic that is not part of dpcape if synthetic records refute it; each is searched once."""
        encoded = msgspec.msgpack.encode([request.statistic, request.public])
        if encoded not in self._searched:
            if self._laws is None:
                raise ProtocolError("Statistics of other packages are refused here", remedy="Use one of dpcape.")
            self._laws(statistic, self._facts)
            self._searched.add(encoded)

    def context(self, allowance: str) -> SiteContext:
        """Return the context of an open allowance's site role, for audits in the site's own process."""
        return self._allowances[allowance]

    def _charge(self, terms: Terms) -> Charge:
        """Return what the whole allowance costs this site: all its releases, whether used or not."""
        if terms.epsilons:
            mu = target_mus(terms)[self.name] * math.sqrt(math.fsum(terms.shares))
            gap, tail = epsilon_reserve(terms.epsilons[self.name]), tail_reserve(terms.delta)
        else:
            mu, gap, tail = math.inf, 0.0, 0.0
        # rows_per_subject is stated by the study or the steward; longest_series is measured at the site.
        unit = Unit(terms.facts.unit, getattr(self._records, "rows_per_subject", None))
        return Charge(
            allowance=terms.allowance,
            mu=mu,
            gap=gap,
            tail=tail,
            n_releases=len(terms.shares),
            unit=unit,
            terms=terms.digest().hex(),
            longest=getattr(self._records, "longest_series", 0),
        )


class _Guarded:
    """Implements ``protocols.protocol.SiteContext`` for one open allowance."""

    def __init__(self, site: Site, terms: Terms, protocol: NoiseProtocol, noise: NoiseSource) -> None:
        self.name, self.terms = site.name, terms
        self.identity, self.pinned = site.identity, site.pinned
        self._site, self._protocol, self._noise = site, protocol, noise
        self._noise_plans = NoisePlans(terms, protocol)
        # Compare digests, as masks do: in Python 1 == 1.0 == True, and NaN differs from itself.
        self._begun: dict[int, tuple[bytes, ReleaseNoise, AnyStatistic]] = {}
        self.is_finished = False
        self.role: SiteRole = protocol.site_role(self)

    def forget(self) -> None:
        """Overwrite secrets and drop every reference to them."""
        self.role.forget()
        self._begun.clear()
        # Break the reference cycle between the role and this object, so that both are freed immediately.
        del self.role

    def begin(self, request: Request) -> ReleaseNoise:
        if not 0 <= request.release < len(self.terms.shares):
            raise LedgerRefused(
                f"Release {request.release + 1} was refused",
                f"its allowance has {len(self.terms.shares)} releases",
                "Open a new allowance, which is charged separately.",
            )
        if request.release in self._begun:
            known, plan, _ = self._begun[request.release]
            if known != request_digest(request):
                why = "its statistic differs from the one asked for under the same number"
                raise ProtocolError("The release was refused", why, "Start a new run.")
            return plan
        if self._site.approval is not None:
            self._site.approval.check_request(request, self.terms.n_records)
        statistic = self._statistic(request)
        # Before anything is charged.
        if isinstance(statistic, Enclosed):
            required(self._site.contributor)
        elif not is_own(type(statistic)):
            self._site.search(statistic, request)
        facts = self._site.facts
        is_charged = self._site.ledger.is_charged(self.terms.allowance)
        check_site(statistic.name, statistic.released_size, facts.n_features, facts.n_records, is_charged=is_charged)
        plan = self._noise_plans.plan(request.release, statistic)
        if not plan.agrees_with(request.plan):
            why = "the requested noise differs from this site's calculation"
            raise ProtocolError("The release was refused", why, "Install the same dpcape version everywhere.")
        self._begun = {request.release: (request_digest(request), plan, statistic)}
        return plan

    def size(self, request: Request) -> int:
        known, _, statistic = self._begun.get(request.release, (b"", None, None))
        if statistic is None or known != request_digest(request):
            statistic = self._statistic(request)
        return statistic.released_size

    def steps(self, request: Request) -> IntArray:
        plan = self.begin(request)
        statistic = self._begun[request.release][2]
        ledger = self._site.ledger
        if not ledger.is_charged(self.terms.allowance):
            ledger.charge(self._site._charge(self.terms))
        ledger.next_release(self.terms.allowance, request.release)
        # Records enter an answer here, and only here.
        total = self._computed(statistic) * self.terms.coefficient(self.name)
        if total.shape != (statistic.released_size,) or not np.isfinite(total).all():
            why = "the statistic's total is not a finite vector of its size"
            raise ProtocolError("The release failed", why, "The site sent nothing. Correct the statistic.")
        return on_grid(total, plan.step)

    def _computed(self, statistic: AnyStatistic) -> FloatArray:
        """Return the total; the text of an error raised while reading records stays at the site."""
        try:
            return released_total(statistic, self._site._records, self._site.contributor)
        except DpcapeError as error:
            _log.exception("%s could not compute a total", self.name)
            raise ProtocolError("the site failed; its own log says why") from error

    def noise(self, *labels: str | int) -> NoiseSource:
        return self._noise.child(*labels)

    def _statistic(self, request: Request) -> AnyStatistic:
        # This site's facts, with its numbers of records and rows, in the precision that all sites have.
        facts = msgspec.structs.replace(self._site.facts, precision=self.terms.facts.precision)
        built = build(request.statistic, facts, decode_public(request.public))
        return built.at(self.terms.sites.index(self.name))
