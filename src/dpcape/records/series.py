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
    n_features: int | None,
    precision: str | None = None,
) -> tuple[list[Features], int]:
    """Return the valid series, all with the same columns, and how many were given.

    With ``longest``, of whole people, the columns are the ``n_features`` that were stated: replacing a person must not
    change what is public. A series with others is invalid.
    """
    if isinstance(arrays, str | Mapping) or not isinstance(arrays, Iterable):
        remedy = "Write [first, second, ...]."
        raise InvalidParameter("arrays", "be a list with one array per subject", type(arrays).__name__, remedy)
    given = list(arrays)
    if not given:
        raise InvalidParameter("arrays", "hold at least one subject", "an empty list", "Leave such a site out.")
    lenient = longest is not None and invalid == "zero"

    def features(array: object) -> Features:
        return Features(
            array,
            subject="the array of a subject",
            bound=bound,
            missing=missing,
            feature_names=feature_names,
            invalid=invalid,
            precision=precision,
        )

    by_subject = longest is not None
    # Replacing a time point cannot change the columns of a series, so that those of the first are public in that unit.
    pattern = features(np.zeros((1, n_features or 0)) if by_subject else given[0])
    if n_features not in (None, pattern.n_features):
        pattern = features(np.zeros((1, n_features or 0)))

    def opened(array: object) -> Features | None:
        """Return one subject's table, or None if it is not a table and the policy makes the subject invalid."""
        try:
            table = features(array)
        except InvalidParameter:
            if not lenient:
                raise
            return None
        if by_subject or invalid == "refuse" or table.n_features == pattern.n_features:
            return table
        # Its time points count, and are invalid.
        return features(np.broadcast_to(np.inf, (table.n_rows, pattern.n_features)))

    tables = [opened(array) for array in given]
    expected = (pattern.n_features, pattern.names)
    if by_subject and not pattern.names and all(table is not None and table.names for table in tables):
        must = "be given for unit='subject' where the tables of subjects have names of their own"
        raise InvalidParameter("feature_names", must, "None", "List the public ones as feature_names=[...].")
    same = [table for table in tables if table is not None and (table.n_features, table.names) == expected]
    if len(same) < len(given) and not lenient:
        remedy = "Use one mask or atlas for every subject."
        raise InvalidParameter("All subjects", "have the same columns", "different ones", remedy)
    short_enough = [table for table in same if longest is None or table.n_rows <= longest]
    if len(short_enough) < len(same) and not lenient:
        must = f"have at most rows_per_subject ({longest}) time points"
        raise InvalidParameter("A subject", must, "a longer series", "Cut long series by a public rule.")
    # Even without a valid series, the number of columns is known.
    return short_enough or [pattern.emptied()], len(given)


def columns_of(
    n_features: int | None, feature_names: Sequence[str] | None, in_one_file: int | None, by_subject: bool
) -> int | None:
    """Return the public number of columns of a series; None where single time points are protected and none is stated.

    Parameters
    ----------
    n_features : int or None
        Number that was stated.
    feature_names : sequence of str or None
        Names that were stated, or those of a public mask.
    in_one_file : int or None
        Columns of a file that holds the series of all subjects, which no subject alone can change.
    by_subject : bool
        Whether whole people are protected.
    """
    is_count = isinstance(n_features, int | np.integer) and not isinstance(n_features, bool) and n_features >= 1
    if n_features is not None and not is_count:
        remedy = "Write the number of voxels or regions."
        raise InvalidParameter("n_features", "be a positive whole number", repr(n_features), remedy)
    named = len(feature_names) if feature_names else in_one_file
    if n_features is not None and named is not None and n_features != named:
        remedy = "Leave one out."
        raise InvalidParameter("n_features", f"be the number of columns that are named ({named})", n_features, remedy)
    stated = named if n_features is None else int(n_features)
    if stated is None and by_subject:
        raise InvalidParameter(
            "n_features",
            "be given for unit='subject' where neither feature_names nor a mask states it",
            "None",
            "Take it from public knowledge such as an atlas, never from the series, which another person might change.",
        )
    return stated


def longest_of(rows_per_subject: int | None, by_subject: bool) -> int:
    """Return the public largest number of time points of a subject; it is not needed for single time points."""
    if rows_per_subject is None and not by_subject:
        return 1
    number = isinstance(rows_per_subject, int | np.integer) and not isinstance(rows_per_subject, bool)
    if rows_per_subject is None or not number or rows_per_subject < 1:
        must = "be a positive whole number for unit='subject'"
        remedy = "Choose it from public knowledge, such as the length of a session, never from the longest series."
        raise InvalidParameter("rows_per_subject", must, repr(rows_per_subject), remedy)
    return int(rows_per_subject)
