"""Records that are not rows of one table: word counts of documents, and time series of people."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from dpcape.core.errors import InvalidParameter
from dpcape.core.facts import MANY_TIME_POINTS, PublicFacts
from dpcape.records.clip import checked_bound
from dpcape.records.counts import Counts
from dpcape.records.features import facts_of
from dpcape.records.kinds import Documents, Subjects
from dpcape.records.policy import checked_policy, warned
from dpcape.records.series import columns_of, longest_of, series_of
from dpcape.records.sources import raw_counts, raw_series


def documents(counts: object, *, feature_names: Sequence[str] | None = None, invalid: str = "zero") -> Documents:
    """Return word counts as records, one row per document.

    A document with fewer than three words contributes zero, and still counts as a record.

    Parameters
    ----------
    counts : object
        Scipy sparse array or matrix, or a dense array or table, of whole numbers from 0. Or the path of a file, or a
        query, as for `rows`; a sparse matrix as SciPy's ``save_npz`` writes it.
    feature_names : sequence of str or None
        The vocabulary, one word per column. Of a file with names, the columns to read.
    invalid : str
        As for `rows`; a document is invalid if an entry is no count.

    Privacy
    -------
    One document is one record. Public: number of documents, vocabulary. The number of words in a document is
    not.

    Examples
    --------
    >>> records = documents([[2, 1, 0], [1, 1, 0]])
    >>> next(records.blocks()).toarray()
    array([[2., 1., 0.],
           [0., 0., 0.]])
    """
    raw, names = raw_counts(counts, feature_names, invalid)
    table = Counts(raw, feature_names=names, invalid=checked_policy(invalid))
    facts = PublicFacts(
        kind="documents",
        unit="record",
        n_records=table.shape[0],
        widths=(table.shape[1],),
        bounds=(1.0,),
        feature_names=table.names,
        invalid=invalid,
    )
    return warned(Documents(table, facts))


def subjects(
    arrays: object,
    *,
    bound: float,
    unit: str,
    missing: object = None,
    rows_per_subject: int | None = None,
    n_features: int | None = None,
    feature_names: Sequence[str] | None = None,
    invalid: str = "zero",
    mask: str | Path | None = None,
    pattern: str | None = None,
    subject: str | None = None,
    precision: str | None = None,
) -> Subjects:
    """Return time series of several people as records.

    Parameters
    ----------
    arrays : object
        One (time points x voxels) array per subject; time points may differ in number, voxels not. Or paths, one per
        subject; or a folder or pattern of files; or one file, with `subject`.
    bound : float
        Public largest Euclidean norm of a time point, in either unit.
    unit : str
        "subject" protects a whole person, "record" protects one time point of a person. There is no default.
    missing : object
        See `rows`.
    rows_per_subject : int or None
        Public largest number of time points of a subject, needed for unit "subject"; a longer series is invalid.
    n_features : int or None
        Public number of voxels or regions, needed for unit "subject" unless `feature_names`, `mask` or one file of all
        subjects states it; a series with another number is invalid.
    feature_names : sequence of str or None
        Names of the voxels or regions.
    invalid : str
        As for `rows`; in unit "subject" one time point that cannot be read makes the whole series invalid.
    mask : str or Path or None
        Public mask of NIfTI files, whose voxels are the columns; needs the extra ``neuro``.
    pattern : str or None
        Names of the files to read in a folder and the folders in it, such as ``sub-*_task-rest_*_bold.nii.gz`` of a
        BIDS derivatives folder. There must be one file per subject, and entities such as task and space must agree.
    subject : str or None
        Of one table: the column that says whose a row is. Of an ``.npz`` file: the array of offsets.
    precision : str or None
        As for `rows`, in unit "record"; a subject's contribution is always computed in double precision.

    Privacy
    -------
    Unit "subject": one person's whole series is one record. Unit "record": one time point is one record, and
    its guarantee does not hold for a person, who owns many: a person's mu is larger by the number of time
    points.

    Examples
    --------
    >>> people = [[[3.0, 4.0]], [[1.0, 0.0], [0.0, 1.0]]]
    >>> subjects(people, bound=1.0, unit="subject", rows_per_subject=2, n_features=2)
    Subjects(n_records=2, widths=(2,), bounds=(1.0,), unit='subject')
    """
    if unit not in ("subject", "record"):
        remedy = "'subject' protects a person, 'record' one time point of a person."
        raise InvalidParameter("unit", "be 'subject' or 'record'", repr(unit), remedy)
    by_subject = unit == "subject"
    longest = longest_of(rows_per_subject, by_subject)
    raw, feature_names, in_one_file = raw_series(
        arrays,
        mask=mask,
        pattern=pattern,
        subject=subject,
        names=feature_names,
        width=n_features,
        by_subject=by_subject,
        invalid=checked_policy(invalid),
    )
    width = columns_of(n_features, feature_names, in_one_file, by_subject)
    series, n_given = series_of(
        raw,
        longest if by_subject else None,
        bound=checked_bound(bound),
        missing=missing,
        feature_names=feature_names,
        invalid=checked_policy(invalid),
        n_features=width,
        precision=precision,
    )
    is_single = not by_subject and all(features.is_single for features in series)
    facts = msgspec.structs.replace(
        facts_of("subjects", series[0], invalid=invalid),
        precision="single" if is_single else msgspec.UNSET,
        unit=unit,
        n_records=n_given if by_subject else sum(features.n_rows for features in series),
        rows_per_unit=longest if by_subject else 1,
        owner_note="" if by_subject else MANY_TIME_POINTS,
    )
    return warned(Subjects(series, facts, None if rows_per_subject is None else longest))
