"""How many records a data set has for a study, and one subject in it: read at the site, for its steward."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import NamedTuple

from dpcape.core.errors import DpcapeError, UtilityWarning
from dpcape.study.study import Study

# Cached by study and state of the files, because the page asks every time it is shown.
_known: dict[tuple[object, ...], Measured] = {}
_MOST_KNOWN = 64


class Measured(NamedTuple):
    """Number of records, which is public, and length of the longest series, which stays here; zero without series."""

    n_records: int
    longest: int


def measured(study: Study, path: Path, rows_per_subject: int | None) -> Measured | None:
    """Return the sizes of a data set for a study; None if it cannot be read.

    Parameters
    ----------
    study : Study
        The study.
    path : Path
        Where the data set is.
    rows_per_subject : int or None
        What the steward states of it.
    """
    from dpcape.records.readers.files import data_files, open_file

    try:
        state = tuple((file, file.stat().st_mtime_ns, file.stat().st_size) for file in data_files(path))
        key = (study.digest(), str(path), rows_per_subject, state)
        if key not in _known:
            plan = study.data.stating(rows_per_subject)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UtilityWarning)
                records = plan.records(open_file(path, plan))
            if len(_known) >= _MOST_KNOWN:
                _known.clear()
            _known[key] = Measured(records.n_records, getattr(records, "longest_series", 0))
        return _known[key]
    except (DpcapeError, OSError):
        return None
