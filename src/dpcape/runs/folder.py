"""The folder of a run, and what may be done after a crash.

::

    study.toml          the study as it ran, with the files it names
    log.jsonl           what happened, one JSON object per line
    .lock               held while a process works here
    model.npz           the result: arrays and JSON, no code
    guarantee.json      what may be claimed
    participants.json   sites that took part, with identity and ledger head
    releases/           each release as it arrived: the result can be rebuilt from them
    results.csv         all figures, one per line, with interval, noise, p-value and unit
    results.json        the same, with the guarantee and what to cite
    methods.md          a paragraph on methods for a paper, with references
    maps.nii.gz         maps of components or sources, for a study with a mask
    x_maps.nii.gz       loadings of a view with a mask; y_maps.nii.gz those of the second
    report.html         the report

The charge of a run that did not finish stays. ``--resume`` continues it where it stopped; ``--again`` starts a new run,
charged separately.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpcape.analyses.registry import ANY_PACKAGE
from dpcape.core.errors import DamagedFile, DpcapeError, Failed, InvalidParameter, LedgerRefused, ProtocolError
from dpcape.core.files import locked, sync_folder, write_text
from dpcape.federation.kept_releases import KeptReleases
from dpcape.runs.participants import Participant
from dpcape.study.study import Study

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
    refused before anything was charged     the folder is removed
    stopped before anything was charged     started again in the same folder
    ended after a charge, result not saved  refused, unless ``resume`` continues or ``again`` opens a new folder
    ended after the result was saved        the report is written, nothing is computed again
    two processes at once                   the second is refused
    ======================================  ===============================================
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not (self.path / "log.jsonl").is_file():
            remedy = "Name a folder written by dpcape run, or a new one."
            raise InvalidParameter("A run folder", "hold log.jsonl", f"{str(path)!r}, which has none", remedy)

    @classmethod
    def begin(
        cls, base: str | Path, study: Study, *, again: bool = False, rehearsal: bool = False, resume: bool = False
    ) -> RunFolder:
        """Return the folder to run in: a new one, or one whose run may continue; refuse to repeat a charge."""
        paths = _sequence(Path(base))
        latest = cls(paths[-1]) if paths else None
        if latest is None and resume:
            raise Failed(f"There is no run to resume in {str(base)!r}", remedy="Run without --resume.")
        if latest is not None:
            latest.require(study, rehearsal=rehearsal)
            if resume:
                latest.log("resumed")
                return latest
            if not again and (latest.has_result or (latest.is_finished and not rehearsal)):
                return latest
            if not latest.is_charged or rehearsal:
                latest.log("restarted")
                return latest
            if not again:
                latest.require_unspent()
        return cls._make(_numbered(Path(base), len(paths) + 1), study, rehearsal)

    @classmethod
    def _make(cls, path: Path, study: Study, rehearsal: bool) -> RunFolder:
        # Write under a temporary name, so that a crash or a full disk leaves no incomplete run folder.
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

    def log(self, event: str, **fields: object) -> None:
        """Add one line to the log; it is on disk when this returns."""
        entry = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event, **fields}
        with open(self.path / "log.jsonl", "a+b", buffering=0) as stream:
            start = b""
            if stream.tell() > 0:
                stream.seek(-1, os.SEEK_END)
                # Start a new line if a crash cut the last one short.
                start = b"" if stream.read(1) == b"\n" else b"\n"
            os.write(stream.fileno(), start + json.dumps(entry).encode("utf-8") + b"\n")
            os.fsync(stream.fileno())

    def events(self) -> list[dict[str, Any]]:
        """Return what happened; a last line cut short by a crash is left out."""
        events = []
        for line in (self.path / "log.jsonl").read_text(encoding="utf-8", errors="replace").splitlines():
            with suppress(ValueError, TypeError, RecursionError):
                event = json.loads(line)
                is_event = isinstance(event, dict) and isinstance(event.get("event"), str)
                if is_event and datetime.fromisoformat(event.get("time")).tzinfo is not None:
                    events.append(event)
        return events

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes out of the run, until the block or the process ends."""
        with ExitStack() as stack:
            try:
                stack.enter_context(locked(self.path / ".lock", wait=False))
            except TimeoutError as error:
                why = f"another process is using {str(self.path)!r}"
                raise ProtocolError("The run failed", why, "Wait, or choose --out.") from error
            yield

    def discard_if_refused(self) -> None:
        """Remove the folder of a first attempt that ended before a site was charged or an engine was asked."""
        untouched = {event["event"] for event in self.events()} <= {"begun", "formed"}
        if untouched and not self.has_result and not self.is_charged:
            shutil.rmtree(self.path, ignore_errors=True)
            with suppress(OSError):
                # The folder of all runs, if this was the only one.
                self.path.parent.rmdir()

    @property
    def is_finished(self) -> bool:
        """Whether the run is complete."""
        return any(event.get("event") == "finished" for event in self.events())

    @property
    def is_charged(self) -> bool:
        """Whether a site may have been charged: it was about to be, or a federation's job ended after sites were asked.

        A job that was submitted and not seen to end does not count: the next run follows it instead of repeating it.
        """
        has_releases = any(self.path.glob("releases/release-*.kept"))
        return has_releases or any(event.get("event") == "charging" for event in self.events())

    @property
    def is_rehearsal(self) -> bool:
        """Whether the records were synthetic."""
        return any(event.get("event") == "begun" and event.get("rehearsal") for event in self.events())

    @property
    def has_result(self) -> bool:
        """Whether the result was saved."""
        return (self.path / "model.npz").is_file()

    def require(self, study: Study, *, rehearsal: bool) -> None:
        """Refuse to mix studies, or rehearsals and runs, in one folder."""
        begun = next((event for event in self.events() if event.get("event") == "begun"), {})
        if begun.get("digest") != study.digest() or begun.get("rehearsal") != rehearsal:
            why = f"{str(self.path)!r} holds a run of a different study, or a rehearsal"
            raise Failed("The run did not start", why, "Choose another folder with --out.")

    def require_unspent(self) -> None:
        """Refuse to compute where a charge may have been made already."""
        if self.is_charged:
            what = "The run was not repeated"
            remedy = "Use --resume to continue it under its charge, or --again for a new run, charged separately."
            raise LedgerRefused(what, f"{str(self.path)!r} was charged and did not finish", remedy)

    def study(self) -> Study:
        """Return the study as it ran."""
        return Study.load(self.path / "study.toml", packages=ANY_PACKAGE)

    def model(self) -> FederatedEstimator:
        """Return the saved result."""
        kind: Any = self.study().description.load()
        model: FederatedEstimator = kind.load(self.path / "model.npz")
        return model

    @property
    def releases(self) -> KeptReleases:
        """The releases of the run, as they arrived."""
        return KeptReleases(self.path / "releases")

    def is_readable(self) -> bool:
        """Return whether the saved result can be read."""
        try:
            self.model()
        except DpcapeError:
            return False
        return True

    def guarantee(self) -> dict[str, Any]:
        """Return the guarantee as it was written; from the result if that file is damaged."""
        try:
            content = _mapping_of(self.path / "guarantee.json")
        except DamagedFile:
            content = {}
        return content if isinstance(content.get("sentence"), str) else self.model().guarantee_.to_dict()

    def participants(self) -> dict[str, Participant]:
        """Return records, identity and ledger head of each site; from the guarantee if the run left nothing else."""
        path = self.path / "participants.json"
        if path.is_file():
            with suppress(DamagedFile):
                members = _participants_in(path)
                # The file is used only if it lists exactly the sites of the guarantee.
                if set(members) == set(self.model().guarantee_.sites):
                    return members
        guarantee = self.model().guarantee_
        sites, took_part = guarantee.sites.items(), guarantee.took_part
        return {
            name: {"records": site.n_records, "identity": "", "took_part": name in took_part, "ledger": [0, ""]}
            for name, site in sites
        }

    def save(self, model: FederatedEstimator, participants: Mapping[str, Participant]) -> None:
        """Save the result, the guarantee and the participants; each file appears complete or not at all."""
        write_text(self.path / "guarantee.json", model.guarantee_.to_json() + "\n")
        write_text(self.path / "participants.json", json.dumps(participants, indent=1) + "\n")
        draft = self.path / "model.new.npz"
        model.save(draft)
        draft.replace(self.path / "model.npz")
        sync_folder(self.path)
        self.log("saved")

    def earlier(self) -> list[RunFolder]:
        """Return earlier runs of the same study in the same place that were charged."""
        name, number = _split(self.path)
        runs = [RunFolder(path) for path in _sequence(self.path.parent / name)]
        return [run for run in runs if run.path != self.path and run.is_charged and _split(run.path)[1] < number]

    def seen_heads(self) -> dict[str, tuple[int, str]]:
        """Return the ledger heads that sites showed in runs in the same place."""
        path = self.path.parent / HEADS
        if not path.is_file():
            return {}
        content = _mapping_of(path)
        try:
            return {site: (int(length), str(head)) for site, (length, head) in content.items()}
        except (TypeError, ValueError) as error:
            raise _damaged(path, error) from error

    def keep_heads(self, heads: Mapping[str, tuple[int, str]]) -> None:
        """Save the ledger heads sites show now, so that a restored backup is noticed next time."""
        known = self.seen_heads() | {site: head for site, head in heads.items() if head[0] > 0}
        if known:
            write_text(self.path.parent / HEADS, json.dumps(known, indent=1) + "\n")


def _mapping_of(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file of a run folder."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise _damaged(path, error) from error
    if not isinstance(content, dict):
        raise _damaged(path, TypeError())
    return content


def _participants_in(path: Path) -> dict[str, Participant]:
    """Return the participants, if every entry is as :func:`~dpcape.runs.participants.participants` writes it."""
    content = _mapping_of(path)
    wanted = {"records": int, "identity": str, "took_part": bool, "ledger": list}
    for entry in content.values():
        if not isinstance(entry, dict) or not all(isinstance(entry.get(key), kind) for key, kind in wanted.items()):
            raise _damaged(path, TypeError())
    return content


def _damaged(path: Path, error: Exception) -> DamagedFile:
    return DamagedFile(
        f"{str(path)!r} cannot be read",
        f"it is missing or damaged ({type(error).__name__})",
        "Restore it from a backup; a result is rebuilt from the run's releases with: dpcape run --resume.",
    )


def _sequence(base: Path) -> list[Path]:
    """Return the run folders of one name, in order: base, base-run2, base-run3."""
    folders: list[Path] = []
    while (path := _numbered(base, len(folders) + 1)).is_dir():
        folders.append(path)
    return folders


def _numbered(base: Path, number: int) -> Path:
    return base if number == 1 else base.with_name(f"{base.name}-run{number}")


def _split(path: Path) -> tuple[str, int]:
    """Return the name that the runs of one sequence share, and this run's number in it."""
    name, mark, number = path.name.rpartition("-run")
    return (name, int(number)) if mark and number.isdigit() else (path.name, 1)
