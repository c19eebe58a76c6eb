"""Ledgers of sites that run in process: every charge is in the run's log before it is made."""

from __future__ import annotations

from dpcape.core.privacy.ledger import Charge, Ledger, Spending, other_terms
from dpcape.runs.folder import RunFolder


class LoggedLedger:
    """A ledger whose charges are logged first, so that a crashed run is never taken for an uncharged one."""

    def __init__(self, ledger: Spending, run: RunFolder, site: str) -> None:
        self._ledger, self._run, self._site = ledger, run, site

    def check(self, charge: Charge) -> None:
        """Refuse a charge that would pass a ceiling; change nothing."""
        self._ledger.check(charge)

    def charge(self, charge: Charge) -> None:
        """Log, then charge."""
        self._run.log("charging", site=self._site)
        self._ledger.charge(charge)

    def reopen(self, charge: Charge) -> int:
        """Continue an allowance under its own charge; return the next release's number."""
        return self._ledger.reopen(charge)

    def is_charged(self, allowance: str) -> bool:
        """Return whether the allowance has been charged here."""
        return self._ledger.is_charged(allowance)

    def next_release(self, allowance: str, release: int) -> None:
        """Count a release."""
        self._ledger.next_release(allowance, release)

    def head(self) -> tuple[int, str]:
        """Return length and hash of the ledger."""
        return self._ledger.head()

    def confirm(self, length: int, head: str) -> None:
        """Refuse if the ledger does not contain a head that was seen before."""
        self._ledger.confirm(length, head)

    def accepted(self) -> tuple[tuple[int, str], ...]:
        """Return the heads whose loss the steward accepted."""
        return self._ledger.accepted()


class RunLedger(Ledger):
    """The ledger of a site without a site folder: without ceiling; the run's log is its durable counter."""

    def __init__(self, run: RunFolder, site: str) -> None:
        super().__init__()
        self._run, self._site = run, site

    def charge(self, charge: Charge) -> None:
        """Log, then charge."""
        self._run.log("charging", site=self._site, allowance=charge.allowance, terms=charge.terms)
        super().charge(charge)

    def reopen(self, charge: Charge) -> int:
        """Continue an allowance that an earlier process logged; return the next release's number."""
        own = {"site": self._site, "allowance": charge.allowance}.items()
        mine = [event for event in self._run.events() if all(event.get(key) == value for key, value in own)]
        charged = [event for event in mine if event["event"] == "charging"]
        if charge.allowance in self._next or not charged:
            return super().reopen(charge)
        if charged[-1].get("terms") != charge.terms:
            raise other_terms()
        numbers = [event["number"] for event in mine if event["event"] == "counting"]
        self.charges.append(charge)
        self._next[charge.allowance] = max(numbers, default=-1) + 1
        return self._next[charge.allowance]

    def next_release(self, allowance: str, release: int) -> None:
        """Count a release in the log; it is on disk when this returns."""
        super().next_release(allowance, release)
        self._run.log("counting", site=self._site, allowance=allowance, number=release)
