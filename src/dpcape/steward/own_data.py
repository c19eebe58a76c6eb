"""The site's own data as its steward sees them: a check for a study, and the real number of records. Nothing leaves."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

from dpcape.core.errors import DpcapeError, UtilityWarning
from dpcape.records.data_plan import DataPlan
from dpcape.records.own_check import OwnCheck, check_own, share_text
from dpcape.records.readers.files import data_files, open_file
from dpcape.site.folder import SiteFolder
from dpcape.study.study import Study

# Sizes by study and state of the files: the page asks each time it is shown.
_known_sizes: dict[tuple[object, ...], int] = {}
_MOST_SIZES = 64


def check_data(folder: SiteFolder, study: Study, data: str, *, person: str | None = None) -> OwnCheck:
    """Return what a data set holds, for a study; reads it, spends nothing, writes nothing.

    Parameters
    ----------
    folder : SiteFolder
        The site's folder.
    study : Study
        The study.
    data : str
        Name of the data set.
    person : str or None
        Column that says whose a row is; None looks for a usual name.
    """
    plan, path = _plan(folder, study, data), _path(folder, data)
    return check_own(open_file(path, plan), plan, person)


def real_size(folder: SiteFolder, study: Study, data: str) -> int | None:
    """Return the number of records that a data set has for a study; None if it cannot be read.

    Numbers of records are public.
    """
    path = _path(folder, data)
    try:
        state = tuple((file, file.stat().st_mtime_ns, file.stat().st_size) for file in data_files(path))
        key = (str(folder.path), study.digest(), data, state)
        if key not in _known_sizes:
            plan = _plan(folder, study, data)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UtilityWarning)
                size = plan.records(open_file(path, plan)).n_records
            if len(_known_sizes) >= _MOST_SIZES:
                _known_sizes.clear()
            _known_sizes[key] = size
        return _known_sizes[key]
    except (DpcapeError, OSError):
        return None


def check_lines(found: OwnCheck) -> list[str]:
    """Return a check as lines of text: what would make the study meaningless first."""
    lines = [f"RED: {text}" for text in found.alarms] or ["Nothing here would make the study meaningless."]
    lines += ["", *(f"{name}: {value}" for name, value in found.facts())]
    if not found.columns:
        return lines
    rows: list[tuple[str, ...]] = [("column", "missing", "outside range", "not a level", "codes for missing")]
    for entry in found.columns:
        codes = ", ".join(f"{code:g}: {share_text(count, entry.n)}" for code, count in entry.codes.items())
        counts = (entry.missing, entry.outside, entry.unlisted)
        rows.append((entry.name, *(f"{100 * count / max(entry.n, 1):.1f}%" for count in counts), codes or "-"))
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    padded = ([cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in rows)
    return [*lines, "", *("  ".join(row).rstrip() for row in padded)]


def _path(folder: SiteFolder, data: str) -> Path:
    return Path(folder.data_sets()[data]["path"])


def _plan(folder: SiteFolder, study: Study, data: str) -> DataPlan:
    """Return the study's plan, with what the steward stated of the data set."""
    stated = folder.state().unit_of(data).rows_per_subject
    known = [rows for rows in (stated, study.data.rows_per_subject) if rows is not None]
    return replace(study.data, rows_per_subject=min(known)) if known else study.data
