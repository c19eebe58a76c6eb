"""A site's ledger on disk: charges, ceilings, approvals and pinned identities as rows of one chain.

Everything the site must not forget is a row, so one hash covers it all. What is spent, allowed and approved is
computed from the rows each time, inside the lock under which the next row is written.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from dpcape.core.errors import InvalidParameter, LedgerRefused, ProtocolError
from dpcape.core.privacy.ledger import Charge, other_terms, over_ceiling, spent_epsilon
from dpcape.core.privacy.unit import PER_RECORD, Unit, read_unit
from dpcape.site.hash_chain import Entry, HashChain, RowBody
from dpcape.site.release_count import next_release, releases_may_be_lost


@dataclass(frozen=True)
class Ceiling:
    """The most that may ever be spent on a data set, in all and by one study; at one delta, per one unit."""

    epsilon: float
    delta: float
    per_study: float | None = None
    unit: Unit = PER_RECORD

    def __post_init__(self) -> None:
        if not (0 < self.epsilon < float("inf") and 0 < self.delta < 1):
            must = "have a positive finite epsilon and a delta strictly between 0 and 1"
            remedy = "Write for example --epsilon 3 --delta 1e-4."
            raise InvalidParameter("A ceiling", must, f"{self.epsilon!r} and {self.delta!r}", remedy)
        if self.per_study is not None and not 0 < self.per_study < float("inf"):
            remedy = "Leave it out for no ceiling per study."
            raise InvalidParameter("per_study", "be a positive finite epsilon", repr(self.per_study), remedy)

    def spent(self, charges: Sequence[Charge]) -> float:
        """Return the epsilon of charges together, at the ceiling's delta and per the ceiling's unit.

        Infinite if the ceiling does not state the number of records per subject that a charge per record needs.
        """
        return _spent(charges, self.delta, self.unit)

    def after(self, charges: Sequence[Charge], charge: Charge) -> float:
        """Return the same with one more charge; refused if charges cannot be counted per the ceiling's unit."""
        return spent_epsilon([*charges, charge.stated(self.unit)], self.delta, self.unit)

    def uncounted(self, charge: Charge) -> str:
        """Return why a charge cannot be counted per the ceiling's unit, for the steward only; empty if it can."""
        try:
            charge.stated(self.unit)
        except LedgerRefused as error:
            hint = f" The longest series of this data set has {charge.longest} records: state at least that many."
            return f"{error}{hint if charge.longest else ''}"
        return ""

    def row(self) -> RowBody:
        """Return the fields of a ledger's row."""
        per_study = None if self.per_study is None else repr(self.per_study)
        numbers = {"epsilon": repr(self.epsilon), "delta": repr(self.delta), "per_study": per_study}
        return {**numbers, **self.unit.row()}


@dataclass(frozen=True)
class ChargedTo:
    """A charge with the data set and the study it is for."""

    charge: Charge
    data: str
    study: str


@dataclass
class State:
    """What the rows of a ledger say now.

    Attributes
    ----------
    ceilings : mapping
        By data set.
    charges : list of ChargedTo
        In the order in which they were made.
    releases : mapping
        Next release number by allowance.
    closed : set of str
        Allowances that were charged before the steward accepted a ledger that lost rows.
    approvals : mapping
        (data set, runs allowed since) by study digest; absent when denied, revoked or never approved.
    runs : mapping
        Charges since the last approval, by study digest.
    names : mapping
        Study names by digest.
    pins : mapping
        Public keys by site.
    coordinator : bytes or None
        Public key of the coordinator, the only sender of requests.
    packages : set of str
        Distributions besides dpcape whose analyses may be loaded here.
    has_old_rows : bool
        Whether a charge or a ceiling was written before rows stated their unit; such rows are per record.
    notices : set of str
        Names of the notices that the steward has seen.
    overlaps, dealt : mapping
        Share of rows in common that the steward accepted, by (data set, other data set); (study, terms) by allowance.
    """

    ceilings: dict[str, Ceiling] = field(default_factory=dict)
    charges: list[ChargedTo] = field(default_factory=list)
    releases: dict[str, int] = field(default_factory=dict)
    closed: set[str] = field(default_factory=set)
    approvals: dict[str, tuple[str, int]] = field(default_factory=dict)
    runs: dict[str, int] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    pins: dict[str, bytes] = field(default_factory=dict)
    accepted: list[tuple[int, str]] = field(default_factory=list)
    coordinator: bytes | None = None
    packages: set[str] = field(default_factory=set)
    record_by_record: set[str] = field(default_factory=set)
    has_old_rows: bool = False
    notices: set[str] = field(default_factory=set)
    overlaps: dict[tuple[str, str], float] = field(default_factory=dict)
    dealt: dict[str, tuple[str, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> State:
        """Compute the state from all rows."""
        state = cls()
        for entry in entries:
            getattr(state, f"_{entry.kind}")(entry.body)
        return state

    def charges_of(self, data: str, study: str | None = None) -> list[Charge]:
        """Return the charges of a data set, all of them or those of one study."""
        return [entry.charge for entry in self.charges if entry.data == data and study in (None, entry.study)]

    def spent(self, data: str, delta: float, study: str | None = None) -> float:
        """Return the epsilon spent on a data set at ``delta``, per the unit of its ceiling."""
        return _spent(self.charges_of(data, study), delta, self.unit_of(data))

    def unit_of(self, data: str) -> Unit:
        """Return the unit of a data set's ceiling."""
        return self.ceilings[data].unit if data in self.ceilings else PER_RECORD

    def _start(self, body: RowBody) -> None:
        self.pins[body["site"]] = bytes.fromhex(body["identity"])

    def _ceiling(self, body: RowBody) -> None:
        per_study = None if body["per_study"] is None else float(body["per_study"])
        self.has_old_rows |= "unit" not in body
        self.ceilings[body["data"]] = Ceiling(float(body["epsilon"]), float(body["delta"]), per_study, read_unit(body))

    def _approve(self, body: RowBody) -> None:
        self.approvals[body["study"]] = (body["data"], body["runs"])
        self.runs[body["study"]] = 0
        self.names[body["study"]] = body["name"]

    def _deny(self, body: RowBody) -> None:
        self.approvals.pop(body["study"], None)
        self.names[body["study"]] = body["name"]

    _revoke = _deny

    _pin = _start

    def _coordinator(self, body: RowBody) -> None:
        self.coordinator = bytes.fromhex(body["identity"])

    def _serve(self, body: RowBody) -> None:
        """How the site was served; nothing is computed from it."""

    def _deal(self, body: RowBody) -> None:
        self.dealt[body["allowance"]] = (body["study"], body["terms"])
        self.runs[body["study"]] = self.runs.get(body["study"], 0) + 1

    def _allow(self, body: RowBody) -> None:
        self.packages.add(body["package"])
        if body.get("record_by_record"):
            self.record_by_record.add(body["package"])
        else:
            self.record_by_record.discard(body["package"])

    def _disallow(self, body: RowBody) -> None:
        self.packages.discard(body["package"])
        self.record_by_record.discard(body["package"])

    def _charge(self, body: RowBody) -> None:
        charge = Charge(
            allowance=body["allowance"],
            mu=float(body["mu"]),
            gap=float(body["gap"]),
            tail=float(body["tail"]),
            n_releases=body["n_releases"],
            unit=read_unit(body),
            # Charges of rows without terms cannot be continued.
            terms=body.get("terms", ""),
        )
        self.has_old_rows |= "unit" not in body
        self.charges.append(ChargedTo(charge, body["data"], body["study"]))
        self.releases[charge.allowance] = 0
        self.runs[body["study"]] = self.runs.get(body["study"], 0) + 1

    def _release(self, body: RowBody) -> None:
        self.releases[body["allowance"]] = max(self.releases.get(body["allowance"], 0), body["number"] + 1)

    def _accept(self, body: RowBody) -> None:
        self.accepted.append((body["length"], body["head"]))
        # A lost row may have revoked or used up an approval, so the steward must approve again.
        self.approvals.clear()
        # A lost row may have counted a release; repeated with fresh noise it would be released twice under one charge.
        self.closed |= self.releases.keys()

    def _overlap(self, body: RowBody) -> None:
        self.overlaps[body["data"], body["other"]] = float(body["share"])

    def _note(self, body: RowBody) -> None:
        """Notes change nothing but which notices the steward has seen."""
        if "told" in body:
            self.notices.add(body["told"])


class SiteLedger:
    """The ledger of one data set for one study, on disk; the same surface as :class:`~dpcape.core.privacy.Ledger`.

    Parameters
    ----------
    chain : HashChain
        The site's chain.
    data : str
        Name of the data set.
    study : str
        Digest of the study that spends.

    Privacy
    -------
    A charge is on disk before :meth:`charge` returns, so before a record is read. Everything ever charged on the data
    set composes exactly (mu^2 adds) under the ceiling, all charges of this study under the ceiling per study. Charges
    per record count with the number of records per subject under a ceiling per subject, which must state it.
    """

    def __init__(self, chain: HashChain, *, data: str, study: str) -> None:
        self._chain, self._data, self._study = chain, data, study
        # Allowances this process charged: another process must not go on with them.
        self._mine: dict[str, int] = {}

    def check(self, charge: Charge) -> None:
        """Refuse a charge without approval or above a ceiling; change nothing."""
        self._check(State.of(self._chain.entries()), charge)

    def charge(self, charge: Charge) -> None:
        """Take a charge; when this returns it is on disk."""
        # Store the number of records per subject stated now; a number stated later does not lower this charge.
        stated = charge.stated(State.of(self._chain.entries()).unit_of(self._data))
        body = charge_row(stated, data=self._data, study=self._study)
        self._chain.append("charge", body, check=lambda entries: self._check(State.of(entries), charge))
        self._mine[charge.allowance] = charge.n_releases

    def reopen(self, charge: Charge) -> int:
        """Resume an allowance that an earlier process charged; return the next release's number.

        The row of the charge must be for the same data set, study and terms, and the study still approved.
        """
        state = State.of(self._chain.entries())
        if charge.allowance not in state.releases:
            self._check(state, charge)
            return 0
        check_approved(state, self._study, self._data, allowance=charge.allowance)
        if charge.allowance in state.closed:
            raise releases_may_be_lost()
        if not any(entry.is_continued_by(charge) for entry in state.charges_of(self._data, self._study)):
            raise other_terms()
        self._mine[charge.allowance] = charge.n_releases
        return state.releases[charge.allowance]

    def is_charged(self, allowance: str) -> bool:
        """Return whether this process has charged or resumed the allowance."""
        return allowance in self._mine

    def next_release(self, allowance: str, release: int) -> None:
        """Count a release durably; each happens at most once and in order."""
        n_releases = self._mine.get(allowance)
        if n_releases is None:
            raise ProtocolError("The release was refused", "its allowance was not charged here", "Start a new run.")
        if release >= n_releases:
            why, remedy = f"its allowance has {n_releases} releases", "Start a new run, which is charged separately."
            raise LedgerRefused(f"Release {release + 1} was refused", why, remedy)

        def check(entries: Sequence[Entry]) -> None:
            if release < next_release(entries, allowance):
                raise ProtocolError(f"Release {release + 1} was refused", "it happened before", "Start a new run.")

        # Like every row, it moves the copy of the head; without it `reopen` would repeat the release.
        self._chain.append("release", {"allowance": allowance, "number": release}, check=check)

    def spent(self, delta: float | None = None) -> float:
        """Return the epsilon spent on the data set per the ceiling's unit, at ``delta`` (the ceiling's if None)."""
        state = State.of(self._chain.entries())
        return state.spent(self._data, self._ceiling(state).delta if delta is None else delta)

    def head(self) -> tuple[int, str]:
        """Return length and hash of the chain."""
        return self._chain.head()

    def confirm(self, length: int, head: str) -> None:
        """Refuse if the chain does not contain a head the coordinator saw, unless the steward accepted its loss."""
        confirm(self._chain.entries(), length, head)

    def accepted(self) -> tuple[tuple[int, str], ...]:
        """Return the heads whose loss the steward accepted."""
        return tuple(State.of(self._chain.entries()).accepted)

    def _ceiling(self, state: State) -> Ceiling:
        if self._data not in state.ceilings:
            what = f"The data set {self._data!r} has no ceiling"
            raise LedgerRefused(what, remedy="Set it with: dpcape site budget.")
        return state.ceilings[self._data]

    def _check(self, state: State, charge: Charge) -> None:
        check_approved(state, self._study, self._data)
        if charge.allowance in state.releases:
            raise LedgerRefused("The allowance was refused", "it is already charged", "Start a new run.")
        ceiling = self._ceiling(state)
        if ceiling.per_study is not None:
            charges = state.charges_of(self._data, self._study)
            _stay_below(ceiling.per_study, ceiling, charges, charge, what="one study on this data set")
        _stay_below(ceiling.epsilon, ceiling, state.charges_of(self._data), charge, what="this data set")


def unit_after(now: Ceiling | None, per: str | None, rows_per_subject: int | None) -> Unit:
    """Return the unit of a new ceiling; parts that are None stay as they are now."""
    unit = PER_RECORD if now is None else now.unit
    return Unit(per or unit.kind, unit.rows_per_subject if rows_per_subject is None else rows_per_subject)


def charge_row(charge: Charge, *, data: str, study: str) -> RowBody:
    """Return a charge as the ledger's row keeps it."""
    return {
        "data": data,
        "study": study,
        "allowance": charge.allowance,
        # As text, so that floats are exact and an unprotected release can be "inf".
        "mu": repr(float(charge.mu)),
        "gap": repr(float(charge.gap)),
        "tail": repr(float(charge.tail)),
        "n_releases": charge.n_releases,
        "terms": charge.terms,
        **charge.unit.row(),
    }


def check_approved(state: State, study: str, data: str | None = None, *, allowance: str = "") -> str:
    """Return the data set a study is approved for; refuse if it is not approved, or its runs are used up.

    An ``allowance`` that was charged already is a resumed run, not another one.
    """
    if study not in state.approvals:
        remedy = "No records were read. Ask for approval (dpcape site review, then dpcape site approve)."
        raise LedgerRefused(f"The study {study[:16]} was refused", "this site's steward has not approved it", remedy)
    approved, runs = state.approvals[study]
    if data is not None and data != approved:
        why = "it was approved for a different data set"
        raise LedgerRefused("The study was refused", why, "No records were read. Ask for approval.")
    known = {entry.charge.allowance for entry in state.charges if entry.study == study}
    known |= {name for name, (digest, _) in state.dealt.items() if digest == study}
    if state.runs.get(study, 0) >= runs and allowance not in known:
        remedy = "No records were read. Ask for another approval."
        raise LedgerRefused("The study was refused", f"its approved runs ({runs}) are used up", remedy)
    return approved


def confirm(entries: tuple[Entry, ...], length: int, head: str) -> None:
    """Refuse a head that is neither in the chain nor accepted as lost."""
    if length == 0:
        return
    known = 1 <= length <= len(entries) and entries[length - 1].hash == head
    if not known and (length, head) not in State.of(entries).accepted:
        what = "The ledger was refused"
        remedy = "A restored backup may hide spending. See docs/steward.md, 'Recover from a restored ledger'."
        raise LedgerRefused(what, f"it does not contain the head it showed before (row {length})", remedy)


def last_decision(entries: Sequence[Entry]) -> int:
    """Return the number of the last row that says more than that a charged release went out."""
    return next((entry.number for entry in reversed(entries) if entry.kind != "release"), 0)


def check_seen(entries: Sequence[Entry], seen: int) -> None:
    """Refuse a decision made in sight of an older ledger; ``seen`` is the :func:`last_decision` of that time."""
    if last_decision(entries) != seen:
        why = "the ledger changed after you opened it"
        raise LedgerRefused("The decision was not saved", why, "Reload, then decide.")


def _spent(charges: Sequence[Charge], delta: float, unit: Unit) -> float:
    """Return what was spent; infinite if it cannot be counted in a unit, so that a ledger can still be shown."""
    try:
        return spent_epsilon(charges, delta, unit)
    except LedgerRefused:
        return math.inf


def _stay_below(epsilon: float, ceiling: Ceiling, charges: list[Charge], charge: Charge, *, what: str) -> None:
    after = ceiling.after(charges, charge)
    if after > epsilon:
        raise over_ceiling(what, epsilon, ceiling.delta, before=ceiling.spent(charges), after=after, unit=ceiling.unit)
