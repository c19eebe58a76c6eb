"""Values of the ledger and of kept studies, as the pages show them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dpcape.core.errors import DpcapeError, Failed, LedgerRefused, ProtocolError
from dpcape.core.privacy.ledger import Charge
from dpcape.pages.numbers import round_up
from dpcape.site.folder import SiteFolder
from dpcape.site.hash_chain import Entry
from dpcape.site.ledger import Ceiling, State, last_decision
from dpcape.study.study import Study

_DIGEST = re.compile(r"[0-9a-f]{64}")
_DECISIONS = ("approve", "deny", "revoke")


@dataclass(frozen=True)
class LedgerView:
    """One reading of the ledger, so that everything on a page is about the same rows."""

    entries: Sequence[Entry]
    state: State

    @classmethod
    def read(cls, folder: SiteFolder) -> LedgerView:
        """Read all rows; refuse a damaged chain, as every command does."""
        entries = folder.chain.entries()
        return cls(entries, State.of(entries))

    @property
    def seen(self) -> int:
        """The row that a decision made on this reading is bound to."""
        return last_decision(self.entries)

    def decision(self, digest: str) -> Entry | None:
        """Return the last decision about a study."""
        rows = (entry for entry in reversed(self.entries) if entry.kind in _DECISIONS)
        return next((entry for entry in rows if entry.body["study"] == digest), None)


@dataclass(frozen=True)
class KeptStudy:
    """A study that was reviewed here.

    Attributes
    ----------
    status : str
        "pending", "approved", "used up", "denied" or "revoked".
    decision : Entry or None
        The last row about it.
    runs_left : int
        How often it may still run.
    """

    digest: str
    name: str
    status: str
    decision: Entry | None
    runs_left: int


@dataclass(frozen=True)
class DataSetSpending:
    """A data set's spending against its ceiling, at the ceiling's delta and per the ceiling's unit.

    Attributes
    ----------
    spent : float
        Epsilon of everything charged.
    committed : float or None
        Epsilon if every approved study also ran as often as it may; None if that is unknown.
    """

    data: str
    ceiling: Ceiling
    spent: float
    committed: float | None
    n_charges: int
    n_studies: int


def kept_digests(folder: SiteFolder) -> list[str]:
    """Return the digests of the studies that were reviewed here."""
    entries = (folder.path / "studies").iterdir()
    return sorted(
        entry.name for entry in entries if _DIGEST.fullmatch(entry.name) and _file(folder, entry.name).exists()
    )


def kept_study(folder: SiteFolder, digest: str) -> Study:
    """Return the study with exactly this digest; refuse one whose file has changed since."""
    if digest not in kept_digests(folder):
        raise Failed("The study was not reviewed here", remedy="Review it first with: dpcape site review.")
    study = folder.load_study(_file(folder, digest))
    if study.digest() != digest:
        why = f"the kept study {digest[:16]} has changed since it was reviewed"
        raise ProtocolError("Nothing was done", why, "Remove the changed copy and review the study again.")
    return study


def kept_studies(folder: SiteFolder, ledger: LedgerView) -> list[KeptStudy]:
    """Return all studies that were reviewed here: undecided ones first, then by the newest decision."""
    studies = [kept(folder, ledger, digest) for digest in kept_digests(folder)]
    return sorted(
        studies, key=lambda entry: (0, 0, entry.name) if entry.decision is None else (1, -entry.decision.number, "")
    )


def kept(folder: SiteFolder, ledger: LedgerView, digest: str) -> KeptStudy:
    """Return what was decided about a study."""
    decision = ledger.decision(digest)
    if decision is None:
        try:
            name = kept_study(folder, digest).name
        except DpcapeError:
            name = "(changed since it was reviewed)"
        return KeptStudy(digest, name, "pending", None, 0)
    approved = ledger.state.approvals.get(digest)
    runs_left = max(approved[1] - ledger.state.runs.get(digest, 0), 0) if approved else 0
    status = {"deny": "denied", "revoke": "revoked"}.get(decision.kind, "approved" if runs_left else "used up")
    return KeptStudy(digest, decision.body["name"], status, decision, runs_left)


def spendings(folder: SiteFolder, ledger: LedgerView) -> list[DataSetSpending]:
    """Return the spending of every data set."""
    return [spending(folder, ledger, data) for data in sorted(ledger.state.ceilings)]


def spending(folder: SiteFolder, ledger: LedgerView, data: str) -> DataSetSpending:
    """Return the spending of one data set."""
    state = ledger.state
    if data not in state.ceilings:
        raise Failed("The data set is not registered at this site", remedy="Choose one on the page of ceilings.")
    ceiling, charges = state.ceilings[data], state.charges_of(data)
    committed = _committed(folder, ledger, data, ceiling)
    return DataSetSpending(
        data=data,
        ceiling=ceiling,
        spent=ceiling.spent(charges),
        committed=None if committed is None else ceiling.spent([*charges, *committed]),
        n_charges=len(charges),
        n_studies=len({entry.study for entry in state.charges if entry.data == data}),
    )


def objections(folder: SiteFolder, ledger: LedgerView, study: Study, data: str) -> list[str]:
    """Return why the site would refuse to run the study now, were it approved."""
    state, charge, sentences = ledger.state, folder.real_charge(study, data), []
    ceiling = state.ceilings[data]
    total, refusal = counted(ceiling, state.charges_of(data), charge)
    if refusal:
        sentences.append(refusal)
    elif total > ceiling.epsilon:
        sentences.append(
            f"Spending on {data} would be epsilon {epsilon_text(total)} {ceiling.unit.per}, above its ceiling "
            f"{ceiling.epsilon:g}."
        )
    alone, _ = counted(ceiling, state.charges_of(data, study.digest()), charge)
    if not refusal and ceiling.per_study is not None and alone > ceiling.per_study:
        text = f"Spending of this one study would be epsilon {epsilon_text(alone)}, above the ceiling per study "
        sentences.append(text + f"{ceiling.per_study:g}.")
    missing = sorted(set(study.participants) - set(state.pins))
    if missing:
        sentences.append(f"The identity of {', '.join(missing)} is not pinned here yet (dpcape site pin).")
    return sentences


def counted(ceiling: Ceiling, charges: Sequence[Charge], charge: Charge) -> tuple[float, str]:
    """Return the epsilon after one more charge, per the ceiling's unit, and why it is unknown, if so."""
    try:
        return ceiling.after(charges, charge), ""
    except LedgerRefused as error:
        return math.inf, ceiling.uncounted(charge) or str(error)


def epsilon_text(value: float) -> str:
    """Return an epsilon as text, rounded up; an infinite one means no protection."""
    return round_up(value) if math.isfinite(value) else "without limit"


def _committed(folder: SiteFolder, ledger: LedgerView, data: str, ceiling: Ceiling) -> list[Charge] | None:
    """Return the charges that approvals already given would still allow."""
    charges: list[Charge] = []
    for digest, (approved, runs) in ledger.state.approvals.items():
        runs_left = runs - ledger.state.runs.get(digest, 0)
        if approved != data or runs_left <= 0:
            continue
        try:
            charge = kept_study(folder, digest).charge(folder.name)
        except DpcapeError:
            # Its file is gone or changed; the study itself may still run.
            return None
        # The site refuses a study that it cannot count in the ceiling's unit.
        if not counted(ceiling, [], charge)[1]:
            charges.extend(_repeated(charge.stated(ceiling.unit), runs_left))
    return charges


def _repeated(charge: Charge, times: int) -> list[Charge]:
    """Return charges that weigh as much as ``times`` equal ones: mu^2 adds, and so do the reserves."""
    others = times - 1
    together = replace(charge, mu=charge.mu * math.sqrt(others), gap=charge.gap * others, tail=charge.tail * others)
    # One charge keeps its own tail, which the range of the proof depends on.
    return [charge, together] if others else [charge]


def _file(folder: SiteFolder, digest: str) -> Path:
    return folder.path / "studies" / digest / "study.toml"
