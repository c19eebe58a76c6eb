"""Readers of one site's files: tables, NumPy arrays, folders of series. Only columns of the study are kept."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from dpcape.core.arrays import AnyArray
from dpcape.core.errors import DamagedFile, InvalidParameter
from dpcape.records.data_plan import Columns, DataPlan, Holding, selected
from dpcape.records.readers.array_files import ArrayFile
from dpcape.records.readers.bids import check_entities, is_bids, warn_of_absent
from dpcape.records.readers.tables import ByColumn, CsvFile, TableFiles
from dpcape.records.sources import Source

NIFTI = (".nii", ".nii.gz")
"""How names of brain images end."""


ARROW = (".arrow", ".feather")
"""How names of Arrow files end."""


TABLES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".pq", *ARROW)
"""How names of tables end."""


def open_file(path: str | Path | Source, plan: DataPlan) -> Holding:
    """Return a reader for a file, a folder of Parquet files, a folder with one file per subject, or a query."""
    if isinstance(path, ByColumn):
        return path
    assert not isinstance(path, Source)
    data_path = Path(path)
    suffixes = "".join(data_path.suffixes).lower()
    # One file per person, unless a column identifies the person of each row.
    by_file = plan.kind == "subjects" and plan.subject is None
    if data_path.is_dir() and not by_file and next(data_path.rglob("*.parquet"), None) is not None:
        return TableFiles(data_path)
    if data_path.is_dir() or _is_pattern(data_path):
        return SeriesFolder(data_path, plan)
    if not data_path.is_file():
        raise DamagedFile(f"The data file {str(path)!r} does not exist", remedy="Correct the path.")
    if suffixes.endswith(TABLES):
        return table_file(data_path)
    if suffixes.endswith((".npz", ".npy")):
        return ArrayFile(data_path)
    if suffixes.endswith(NIFTI):
        return SeriesFolder(data_path, plan)
    raise unknown_suffix(data_path)


def table_file(path: Path) -> ByColumn:
    """Return the reader of a table, by how its name ends."""
    name = path.name.lower()
    if name.endswith((".parquet", ".pq", *ARROW)):
        return TableFiles(path, "ipc" if name.endswith(ARROW) else "parquet")
    return CsvFile(path)


def fingerprint(path: Path) -> str:
    """Return a digest of a data set's content, to notice the same one under another name; stays at the site."""
    total = hashlib.sha256()
    for file in data_files(path):
        with file.open("rb") as stream:
            total.update(hashlib.file_digest(stream, "sha256").digest())
    return total.hexdigest()


def data_files(path: Path) -> list[Path]:
    """Return all files of a data set: one, those of a folder and of folders in it, or those of a pattern."""
    if path.is_dir():
        return sorted(file for file in path.rglob("*") if file.is_file())
    return series_files(path, hidden=True)


def series_files(path: Path, *, hidden: bool = False) -> list[Path]:
    """Return the files of subjects: one, those of a folder, or those of a pattern, which may hold ``**``."""
    entries = [path] if path.is_file() else sorted(path.iterdir() if path.is_dir() else _matching(path))
    return [file for file in entries if file.is_file() and (hidden or file.name[0] != ".")]


def _files_of(path: Path | Sequence[Path], pattern: str | None) -> list[Path]:
    """Return the files of subjects: those listed, or those in a folder, chosen by a pattern."""
    if not isinstance(path, Path):
        absent = [file for file in path if not file.is_file()]
        if absent:
            raise DamagedFile(f"The data file {str(absent[0])!r} does not exist", remedy="Correct the path.")
        return list(path)
    if not path.is_dir() or pattern is None:
        return series_files(path, hidden=not path.is_dir())
    matches = path.glob(pattern) if "/" in pattern else path.rglob(pattern)
    return sorted(file for file in matches if file.is_file())


def _is_pattern(path: Path) -> bool:
    return any(mark in str(path) for mark in "*?[")


def _matching(pattern: Path) -> list[Path]:
    """Return the files of a pattern, which begins in the first folder that is one."""
    parts = pattern.parts
    start = next((at for at, name in enumerate(parts) if _is_pattern(Path(name))), len(parts) - 1)
    return list(Path(*parts[:start]).glob(str(Path(*parts[start:]))))


class SeriesFolder:
    """One file per subject: a folder or a pattern of .npy, .csv or NIfTI files, such as a BIDS derivatives folder."""

    def __init__(self, path: Path | Sequence[Path], plan: DataPlan) -> None:
        self._plan = plan
        self._files = _files_of(path, plan.pattern)
        if not self._files:
            pattern = "" if plan.pattern is None else f", or the pattern {plan.pattern!r}"
            raise DamagedFile(f"No files of subjects were found in {str(path)!r}", remedy=f"Correct the path{pattern}.")
        if is_bids(self._files):
            check_entities(self._files)
            if isinstance(path, Path) and path.is_dir():
                warn_of_absent(path, self._files)

    def first(self) -> Holding:
        """Return the first file, whose columns all others must have too."""
        if self._files[0].name.lower().endswith(NIFTI):
            raise InvalidParameter("mask", "be given for NIfTI files", "none", "Write mask='mask.nii.gz'.")
        return open_file(self._files[0], self._plan)

    def series(self, columns: Columns, subject: str | None) -> Sequence[AnyArray | None]:
        """Return one array per file, in the order of their names; None for a person whose file cannot be read.

        What is wrong with the names of files, or with all of them, is refused. What is wrong with one person's file
        makes that person invalid where whole people are protected: a refusal would tell others of this person.
        """
        self._check_names(columns)
        return [self._one(path, columns) for path in self._files]

    def _check_names(self, columns: Columns) -> None:
        """Refuse files that could not be read, of whichever person they are."""
        names = [path.name.lower() for path in self._files]
        for path, name in zip(self._files, names, strict=True):
            if not name.endswith((*TABLES, ".npy", ".npz", *NIFTI)):
                raise unknown_suffix(path)
        if any(name.endswith(TABLES) for name in names) and not columns.names:
            selected((), columns, subject="the files of subjects")
        if any(name.endswith(NIFTI) for name in names):
            from dpcape.records.readers.nifti import n_voxels

            if self._plan.mask is None:
                raise InvalidParameter(
                    "mask", "be given in [data] for NIfTI files", "none", 'Write mask = "mask.nii.gz".'
                )
            n_voxels(self._plan.mask)

    def _one(self, path: Path, columns: Columns) -> AnyArray | None:
        try:
            return self._values(path, columns)
        except (InvalidParameter, DamagedFile):
            if self._plan.unit != "subject" or self._plan.invalid == "refuse":
                raise
            return None

    def _values(self, path: Path, columns: Columns) -> AnyArray:
        if path.name.lower().endswith(NIFTI):
            from dpcape.records.readers.nifti import masked_series

            return masked_series(path, self._plan.mask)
        holding = open_file(path, self._plan)
        if isinstance(holding, ArrayFile):
            return holding.one_series(columns)
        values = cast("AnyArray", holding.table(columns))
        if isinstance(holding, ByColumn):
            holding.tell(refuses=self._plan.invalid == "refuse")
        return values

    def table(self, columns: Columns) -> Any:
        """Refuse: a folder holds series."""
        raise _series_only()

    def vector(self, name: str, *, text: bool) -> AnyArray:
        """Refuse: a folder holds series."""
        raise _series_only()

    def counts(self, columns: Columns) -> object:
        """Refuse: a folder holds series."""
        raise _series_only()


def unknown_suffix(path: Path) -> InvalidParameter:
    """Return the error for a file of a kind that cannot be read."""
    must = "be .csv, .csv.gz, .tsv, .parquet, .arrow, .npz, .npy or .nii(.gz)"
    return InvalidParameter("A data file", must, repr(path.name), "Convert it to one of these.")


def _series_only() -> InvalidParameter:
    must = 'be read as kind = "subjects"'
    return InvalidParameter("A folder or pattern of files", must, "a study of another kind", "Name one file instead.")
