"""What a run leaves behind, and what may be done after a crash.

::

    study.toml          the study as it ran, with the files it names
    log.jsonl           what happened, one JSON object per line
    model.npz           the result: arrays and JSON, no code
    guarantee.json      what may be claimed
    participants.json   who took part, with which identity and ledger
    report.html         the page

A run that was charged and did not finish has cost what it cost: it is not repeated unless asked for, as a new run.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpcape.analyses.registry import ANY_PACKAGE
from dpcape.errors import InvalidParameter, LedgerRefused, ProtocolError
from dpcape.files import sync_folder, write_text
from dpcape.privacy.ledger import Charge, Spending
from dpcape.study import Study

if TYPE_CHECKING:
    from dpcape.estimators.estimator import FederatedEstimator

HEADS = "ledger-heads.json"


class RunFolder:
    """The folder of one run.

    Parameters
    ----------
    path : str or Path
        An existing run folder; :meth:`begin` makes one.

    Edge cases
    ----------
    ======================================  ===============================================
    finished                                ``is_finished``; it is not run again
    ended before anything was charged       begun again in the same folder
    ended after a charge, result not saved  refused, unless ``again`` opens a new folder
    ended after the result was saved        the page is written, nothing is computed again
    two processes at once                   the second is refused
    ======================================  ===============================================
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not (self.path / "log.jsonl").is_file():
            raise InvalidParameter(
                f"a run folder must hold log.jsonl; got {str(path)!r}. Name a folder `run` made, or a new one."
            )

    @classmethod
    def begin(cls, base: str | Path, study: Study, *, again: bool = False, rehearsal: bool = False) -> RunFolder:
        """Return the folder to run in: a new one, or one whose run may go on; refuse what would repeat a charge."""
        paths = _sequence(Path(base))
        latest = cls(paths[-1]) if paths else None
        if latest is not None:
            latest.require(study, rehearsal=rehearsal)
            if latest.is_finished and not again and not rehearsal:
                return latest
            if latest.has_result and not again:
                return latest
            if not latest.is_charged or rehearsal:
                latest.log("restarted")
                return latest
            if not again:
                latest.require_unspent()
        return cls._make(Path(base) if not paths else _numbered(Path(base), len(paths) + 1), study, rehearsal)

    @classmethod
    def _make(cls, path: Path, study: Study, rehearsal: bool) -> RunFolder:
        # Under another name until it is complete: what a crash or a full disk leaves is no run folder.
        draft = path.with_name(path.name + ".new")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700, parents=True)
        for file in study.data.files:
            copy = draft / file.relative_to(study.folder)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(file.read_bytes())
        (draft / "study.toml").write_text(study.text, encoding="utf-8")
        (draft / "log.jsonl").touch(mode=0o600)
        cls(draft).log("begun", study=study.name, digest=study.digest(), rehearsal=rehearsal)
        draft.rename(path)
        sync_folder(path.parent)
        return cls(path)

    def log(self, event: str, **fields: Any) -> None:
        """Add one line to the log; it is on disk when this returns."""
        line = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event, **fields}
        descriptor = os.open(self.path / "log.jsonl", os.O_APPEND | os.O_WRONLY)
        try:
            os.write(descriptor, json.dumps(line).encode("utf-8") + b"\n")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def events(self) -> list[dict[str, Any]]:
        """Return what happened; a last line cut short by a crash is left out."""
        found = []
        for line in (self.path / "log.jsonl").read_text(encoding="utf-8").splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:
                continue
        return found

    def lock(self) -> int:
        """Keep other processes out until the returned descriptor is closed or the process ends."""
        descriptor = os.open(self.path / "log.jsonl", os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            raise ProtocolError(f"a run must have its folder to itself; got {str(self.path)!r}, in use.") from error
        return descriptor

    @property
    def is_finished(self) -> bool:
        """Whether the run is complete."""
        return any(event.get("event") == "finished" for event in self.events())

    @property
    def is_charged(self) -> bool:
        """Whether a site may have been charged: it was about to be, or a federation's job ended after sites were asked.

        A job that was submitted and not seen to end does not count: the next run follows it instead of repeating it.
        """
        return any(event.get("event") == "charging" for event in self.events())

    @property
    def is_rehearsal(self) -> bool:
        """Whether the records were made up."""
        return any(event.get("event") == "begun" and event["rehearsal"] for event in self.events())

    @property
    def has_result(self) -> bool:
        """Whether the result was saved."""
        return (self.path / "model.npz").is_file()

    def require(self, study: Study, *, rehearsal: bool) -> None:
        """Refuse to mix studies, or rehearsals and runs, in one folder."""
        begun = next((event for event in self.events() if event.get("event") == "begun"), {})
        if begun.get("digest") != study.digest() or begun.get("rehearsal") != rehearsal:
            raise InvalidParameter(
                f"a run folder must belong to one study, as it was; got {str(self.path)!r} of another, or of a "
                "rehearsal. Choose another folder with --out."
            )

    def require_unspent(self) -> None:
        """Refuse to compute where a charge may have been made already."""
        if self.is_charged:
            raise LedgerRefused(
                f"a run that was charged must not be repeated unasked; got {str(self.path)!r}, which was charged and "
                "did not finish. Its charge stands. Run with --again for a new run, which is charged anew."
            )

    def study(self) -> Study:
        """Return the study as it ran."""
        return Study.load(self.path / "study.toml", packages=ANY_PACKAGE)

    def model(self) -> FederatedEstimator:
        """Return the saved result."""
        kind: Any = self.study().description.load()
        model: FederatedEstimator = kind.load(self.path / "model.npz")
        return model

    def participants(self) -> dict[str, Any]:
        """Return who took part: records, identity, ledger head; from the guarantee where a run left no more."""
        path = self.path / "participants.json"
        if path.is_file():
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            return found
        guarantee = self.model().guarantee_
        return {
            name: {
                "records": site.n_records,
                "identity": "",
                "took_part": name in guarantee.took_part,
                "ledger": [0, ""],
            }
            for name, site in guarantee.sites.items()
        }

    def save(self, model: FederatedEstimator, participants: Mapping[str, Mapping[str, Any]]) -> None:
        """Keep the result, what may be claimed and who took part; each file appears complete or not at all."""
        write_text(self.path / "guarantee.json", model.guarantee_.to_json() + "\n")
        write_text(self.path / "participants.json", json.dumps(participants, indent=1) + "\n")
        draft = self.path / "model.new.npz"
        model.save(draft)
        draft.replace(self.path / "model.npz")
        sync_folder(self.path)
        self.log("saved")

    def earlier(self) -> list[RunFolder]:
        """Return earlier runs of the same study beside this one that were charged."""
        base = self.path.parent / _base_name(self.path.name)
        runs = [RunFolder(path) for path in _sequence(base)]
        return [run for run in runs if run.path != self.path and run.is_charged and _number(run) < _number(self)]

    def seen_heads(self) -> dict[str, tuple[int, str]]:
        """Return the ledger heads that sites showed in runs kept beside this one."""
        path = self.path.parent / HEADS
        if not path.is_file():
            return {}
        content = json.loads(path.read_text(encoding="utf-8"))
        return {site: (int(length), str(head)) for site, (length, head) in content.items()}

    def keep_heads(self, heads: Mapping[str, tuple[int, str]]) -> None:
        """Keep the ledger heads sites show now, so that a restored backup is noticed next time."""
        known = self.seen_heads() | {site: head for site, head in heads.items() if head[0] > 0}
        if known:
            write_text(self.path.parent / HEADS, json.dumps(known, indent=1) + "\n")


class LoggedLedger:
    """A ledger whose charges are noted in the run's log first, so that a crash is never taken for a free run."""

    def __init__(self, ledger: Spending, run: RunFolder, site: str) -> None:
        self._ledger, self._run, self._site = ledger, run, site

    def check(self, charge: Charge) -> None:
        """Refuse a charge that would pass a ceiling; change nothing."""
        self._ledger.check(charge)

    def charge(self, charge: Charge) -> None:
        """Note, then charge."""
        self._run.log("charging", site=self._site)
        self._ledger.charge(charge)

    def is_charged(self, allowance: str) -> bool:
        """Tell whether the allowance has been charged here."""
        return self._ledger.is_charged(allowance)

    def next_release(self, allowance: str, release: int) -> None:
        """Count a release."""
        self._ledger.next_release(allowance, release)

    def head(self) -> tuple[int, str]:
        """Return length and hash of the ledger."""
        return self._ledger.head()

    def confirm(self, length: int, head: str) -> None:
        """Refuse if the ledger does not contain a head somebody saw before."""
        self._ledger.confirm(length, head)


def _sequence(base: Path) -> list[Path]:
    """Return the run folders of one name, in order: base, base-run2, base-run3."""
    found: list[Path] = []
    while (path := base if not found else _numbered(base, len(found) + 1)).is_dir():
        found.append(path)
    return found


def _numbered(base: Path, number: int) -> Path:
    return base.with_name(f"{base.name}-run{number}")


def _base_name(name: str) -> str:
    head, mark, number = name.rpartition("-run")
    return head if mark and number.isdigit() else name


def _number(run: RunFolder) -> int:
    _, mark, number = run.path.name.rpartition("-run")
    return int(number) if mark and number.isdigit() else 1
