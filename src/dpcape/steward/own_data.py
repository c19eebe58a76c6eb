"""The site's own data as its steward sees them: a check for a study, and the real number of records. Nothing leaves."""

from __future__ import annotations

from pathlib import Path

from dpcape.records.own_check import OwnCheck, check_own, share_text
from dpcape.records.readers.files import open_file
from dpcape.site.folder import SiteFolder
from dpcape.site.measured import measured
from dpcape.study.study import Study


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
    plan = study.data.stating(folder.state().unit_of(data).rows_per_subject)
    return check_own(open_file(_path(folder, data), plan), plan, person)


def real_size(folder: SiteFolder, study: Study, data: str) -> int | None:
    """Return the number of records that a data set has for a study; None if it cannot be read.

    Numbers of records are public.
    """
    size = measured(study, _path(folder, data), folder.state().unit_of(data).rows_per_subject)
    return None if size is None else size.n_records


def check_lines(check: OwnCheck) -> list[str]:
    """Return a check as lines of text: what would make the study meaningless first."""
    lines = [f"RED: {text}" for text in check.alarms] or ["Nothing here would make the study meaningless."]
    lines += ["", *(f"{name}: {value}" for name, value in check.facts())]
    if not check.columns:
        return lines
    rows: list[tuple[str, ...]] = [("column", "missing", "outside range", "not a level", "codes for missing")]
    for entry in check.columns:
        codes = ", ".join(f"{code:g}: {share_text(count, entry.n)}" for code, count in entry.codes.items())
        counts = (entry.missing, entry.outside, entry.unlisted)
        rows.append((entry.name, *(f"{100 * count / max(entry.n, 1):.1f}%" for count in counts), codes or "-"))
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    padded = ([cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in rows)
    return [*lines, "", *("  ".join(row).rstrip() for row in padded)]


def _path(folder: SiteFolder, data: str) -> Path:
    return Path(folder.data_sets()[data]["path"])
