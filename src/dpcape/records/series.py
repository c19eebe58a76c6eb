"""Time series of several people, one table per person."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from dpcape.core.errors import InvalidParameter
from dpcape.records.features import Features


def series_of(
    arrays: object,
    longest: int | None,
    *,
    bound: float,
    missing: object,
    feature_names: Sequence[str] | None,
    invalid: str,
    precision: str | None = None,
) -> tuple[list[Features], int]:
    """Return the valid series, all with the same columns, and how many were given."""
    if isinstance(arrays, str | Mapping) or not isinstance(arrays, Iterable):
        raise InvalidParameter(
            f"arrays must be a list with one array per subject; got {type(arrays).__name__}. "
            "Write [first, second, ...]."
        )
    listed = list(arrays)
    if not listed:
        raise InvalidParameter("arrays must hold at least one subject; got an empty list. Leave such a site out.")
    lenient = longest is not None and invalid == "zero"

    def opened(array: object) -> Features | None:
        """Return one subject's table, or None if it is not a table and the policy makes the subject invalid."""
        try:
            return Features(
                array,
                subject="the array of a subject",
                bound=bound,
                missing=missing,
                feature_names=feature_names,
                invalid=invalid,
                precision=precision,
            )
        except InvalidParameter:
            if not lenient:
                raise
            return None

    tables = [opened(array) for array in listed]
    shapes = [(part.n_features, part.names) for part in tables if part is not None]
    if not shapes:
        raise InvalidParameter(
            "arrays must hold at least one readable table (time points x voxels); got 0. Leave such a site out."
        )
    usual = max(set(shapes), key=lambda shape: (shapes.count(shape), shape))
    same = [part for part in tables if part is not None and (part.n_features, part.names) == usual]
    if len(same) < len(listed) and not lenient:
        raise InvalidParameter(
            "All subjects must have the same columns; got different ones. Use one mask or atlas for every subject."
        )
    kept = [part for part in same if longest is None or part.n_rows <= longest]
    if len(kept) < len(same) and not lenient:
        raise InvalidParameter(
            f"A subject must have at most rows_per_subject ({longest}) time points; "
            "got a longer series. Cut long series by a public rule."
        )
    # With no valid series at all, the first one still gives the columns; it contributes zero like the others.
    return kept or [same[0].emptied()], len(listed)


def longest_of(rows_per_subject: int | None, by_subject: bool) -> int:
    """Return the public largest number of time points of a subject; it is not needed for single time points."""
    if rows_per_subject is None and not by_subject:
        return 1
    number = isinstance(rows_per_subject, int | np.integer) and not isinstance(rows_per_subject, bool)
    if rows_per_subject is None or not number or rows_per_subject < 1:
        raise InvalidParameter(
            f"rows_per_subject must be a positive whole number for unit='subject'; got {rows_per_subject!r}. "
            "Choose it from public knowledge, such as the length of a session, never from the longest series."
        )
    return int(rows_per_subject)
