"""Files of a BIDS derivatives folder: chosen by a pattern, one per subject, with entities that agree.

Names of files may hold labels of people, so these messages stay at the site, as every InvalidParameter does.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from pathlib import Path

from dpcape.core.errors import InvalidParameter, UtilityWarning

_ENTITY = re.compile(r"([a-zA-Z]+)-([a-zA-Z0-9+]+)")
# Entities that must agree across subjects, so that rows are comparable.
_SHARED = ("task", "acq", "space", "atlas", "seg", "res", "den", "hemi", "desc", "cohort")


def is_bids(files: Sequence[Path]) -> bool:
    """Tell whether files are named as BIDS names them."""
    return bool(files) and all(file.name.startswith("sub-") and "_" in file.name for file in files)


def check_entities(files: Sequence[Path]) -> None:
    """Refuse files whose names disagree with their folders or with each other, and a subject with several files."""
    known = {file: _entities(file) for file in files}
    by_subject: dict[str, Path] = {}
    for file, entities in known.items():
        subject = entities["sub"]
        folder = next((name for name in reversed(file.parts[:-1]) if name.startswith("sub-")), f"sub-{subject}")
        if folder != f"sub-{subject}":
            raise InvalidParameter(file.name, "be in the folder of its subject", folder, "Move it.")
        if subject in by_subject:
            other = known[by_subject[subject]]
            differ = [key for key in {**entities, **other} if entities.get(key) != other.get(key)]
            raise InvalidParameter(
                "A subject",
                "have one file",
                f"two for sub-{subject}, which differ in {', '.join(differ) or 'folder'}",
                "Name one of them in the pattern, such as sub-*_ses-01_*.",
            )
        by_subject[subject] = file
    for key in _SHARED:
        values = {entities.get(key) for entities in known.values()}
        if len(values) > 1:
            shown = ", ".join(sorted("none" if value is None else value for value in values)[:4])
            remedy = f"Write one of them into the pattern, such as *_{key}-..._*."
            raise InvalidParameter("All files", f"have the same {key}", shown, remedy)


def warn_of_absent(folder: Path, files: Sequence[Path]) -> None:
    """Warn locally of subjects that have a folder and no file."""
    there = {name for file in files for name in file.parts if name.startswith("sub-")}
    absent = {entry.name for entry in folder.glob("sub-*") if entry.is_dir()} - there
    if absent:
        warnings.warn(
            f"{len(absent)} subjects of {folder.name} have a folder and no file that fits the pattern; they are left "
            "out. This number stays here.",
            UtilityWarning,
            stacklevel=2,
        )


def _entities(file: Path) -> dict[str, str]:
    """Return the entities in a file's name, the suffix without extension included."""
    *pairs, suffix = file.name.split(".", maxsplit=1)[0].split("_")
    matches = [_ENTITY.fullmatch(pair) for pair in pairs]
    if not pairs or None in matches or not suffix.isalnum():
        must = "be named sub-LABEL_KEY-VALUE_..._SUFFIX, as BIDS has it"
        remedy = "Rename it, or choose other files by the pattern."
        raise InvalidParameter(file.name, must, "parts that are not", remedy)
    entities = {match[1]: match[2] for match in matches if match is not None}
    if len(entities) != len(pairs):
        raise InvalidParameter(file.name, "have every entity once", "one twice", "Rename it.")
    return {**entities, "suffix": suffix}
