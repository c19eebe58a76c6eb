"""Studies that were reviewed at a site, kept by digest with the files they name."""

from __future__ import annotations

import tomllib
from collections.abc import Container
from pathlib import Path

from dpcape.analyses.registry import needed_code, package_of
from dpcape.core.errors import DamagedFile, InvalidParameter, LedgerRefused, ProtocolError
from dpcape.core.files import write_private
from dpcape.study.other_packages import Describe
from dpcape.study.study import Study


def keep_study(studies: Path, study: Study, packages: Container[str], describe: Describe) -> str:
    """Keep a copy of a study and of the files it names; return its digest."""
    digest = study.digest()
    folder = studies / digest
    if not (folder / "study.toml").exists():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for file in study.data.files:
            copy = folder / file.relative_to(study.folder)
            copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_private(copy, file.read_bytes())
        write_private(folder / "study.toml", study.text)
    if Study.load(folder / "study.toml", packages=packages, describe=describe).digest() != digest:
        raise ProtocolError("The study was not kept", "one of its files changed during the review", "Review it again.")
    return digest


def kept_study(studies: Path, reference: str, packages: Container[str], describe: Describe) -> Study:
    """Return a kept study by its name, its digest, or the first digits of its digest."""
    known = {entry.name: entry for entry in sorted(studies.iterdir())}
    matching = [entry for digest, entry in known.items() if len(reference) >= 8 and digest.startswith(reference)]
    loaded = [_loaded(entry, packages, describe) for entry in matching or known.values()]
    matches = loaded if matching else [study for study in loaded if study.name == reference]
    if len(matches) != 1:
        must, got = "be a file, or one that was reviewed here", f"{reference!r}, which matches {len(matches)}"
        raise InvalidParameter("a study", must, got, "Give the path of the study file, or its digest.")
    return matches[0]


def require_allowed(studies: Path, digest: str, packages: Container[str]) -> None:
    """Refuse a kept study that needs code of a package which is not among ``packages``; nothing is loaded."""
    head = tomllib.loads((studies / digest / "study.toml").read_text(encoding="utf-8")).get("study", {})
    needed = needed_code(head, packages)
    if needed is not None and package_of(needed) not in packages:
        raise LedgerRefused(
            "The study was refused",
            f"{needed.name!r} is code of the package {package_of(needed)!r}, which this site does not run",
            "Ask its steward to allow the package (dpcape site allow-analysis) and to start the site again, on Linux "
            "with Landlock; or use an analysis of dpcape.",
        )


def _loaded(entry: Path, packages: Container[str], describe: Describe) -> Study:
    """Load a kept study, which must still be what was kept."""
    study = Study.load(entry / "study.toml", packages=packages, describe=describe)
    if study.digest() != entry.name:
        remedy = "Remove that folder and review the study file again."
        raise DamagedFile(f"The kept study in {entry} was refused", "it changed after the review", remedy)
    return study
