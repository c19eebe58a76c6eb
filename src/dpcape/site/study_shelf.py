"""The studies in a site's folder, and which packages besides dpcape they may use."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING

from dpcape.core.enclosed import RECORD_BY_RECORD
from dpcape.core.errors import InvalidParameter, LedgerRefused
from dpcape.core.files import NAME_RULE, is_name
from dpcape.site.foreign.own_workers import OwnWorkers
from dpcape.site.hash_chain import RowBody
from dpcape.site.kept_studies import keep_study, kept_study, require_allowed
from dpcape.site.ledger import State
from dpcape.study.study import Study

if TYPE_CHECKING:
    from dpcape.site.foreign.workers import Workers


class StudyShelf(ABC):
    """The part of a site's folder that reads and keeps studies. No code of another package is loaded for that."""

    path: Path
    _workers: OwnWorkers

    @abstractmethod
    def state(self) -> State:
        """Return what the ledger says now."""

    @abstractmethod
    def _append(self, kind: str, body: RowBody, seen: int | None = None) -> None:
        """Write a row of the ledger."""

    def allow_package(self, package: str, *, allowed: bool = True, record_by_record: bool = False) -> None:
        """Let studies name the analyses of a distribution other than dpcape, or no longer.

        Its code then runs in sandboxed children. ``record_by_record`` accepts, for studies that ask for it, that its
        statistics treat each record by itself, which nothing enforces.
        """
        if not is_name(package) or not (allowed or package in self.state().packages):
            rule = NAME_RULE if allowed else "one that was allowed"
            raise InvalidParameter("a package's name", f"be {rule}", f"{package[:80]!r}, which is not")
        if allowed:
            from dpcape.site.foreign.installed import require_inert

            require_inert(package)
        accepted = {"record_by_record": True} if record_by_record and allowed else {}
        self._append("allow" if allowed else "disallow", {"package": package, **accepted})

    def load_study(self, path: Path) -> Study:
        """Read a study file; analyses of other packages only as far as the steward allowed them.

        Such an analysis is not loaded here: a sandboxed child finds out what must be known of it.
        """
        return Study.load(path, packages=self.state().packages, describe=self._workers.described)

    def keep(self, study: Study) -> str:
        """Keep a copy of a study and of the files it names, by digest; return the digest."""
        return keep_study(self.path / "studies", study, self.state().packages, self._workers.described)

    def study(self, reference: str) -> Study:
        """Return a kept study by its name, its digest, or the first digits of its digest."""
        return kept_study(self.path / "studies", reference, self.state().packages, self._workers.described)

    def served_study(self, digest: str, workers: Workers | None) -> Study:
        """Return a kept study as a vault runs it: ``workers`` run code of other packages; without them it is refused.

        A package that the steward disallowed since the site was started is refused too.
        """
        packages = frozenset() if workers is None else frozenset(self.state().packages)
        require_allowed(self.path / "studies", digest, packages)
        describe = self._workers.described if workers is None else workers.described
        return kept_study(self.path / "studies", digest, packages, describe)

    def require_accepted(self, study: Study) -> None:
        """Refuse a study that rests on an assumption about another package which the steward did not accept."""
        enclosure = study.enclosure
        if enclosure is None or enclosure.way != RECORD_BY_RECORD:
            return
        if enclosure.package not in self.state().record_by_record:
            raise LedgerRefused(
                "The study was refused",
                f"it assumes that the package {enclosure.package!r} treats each record by itself, and this site's "
                "steward has not accepted that",
                f"No records were read. Accept it with: dpcape site allow-analysis {enclosure.package} "
                '--record-by-record; or ask for way = "sampled".',
            )
