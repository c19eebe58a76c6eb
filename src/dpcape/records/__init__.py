"""What one site holds, clipped to public bounds.

::

    rows(X, bound=...)                                  one table
    views(X, Y, bounds=(..., ...))                      two or more tables with the same records
    labelled(X, y, bound=..., response=(low, high))     a table and a response, or classes=[...]
    documents(counts)                                   word counts
    subjects(arrays, bound=..., unit=...)               one time series per person
    table(data, columns={...})                          typed columns: numbers, dates, categories, times to an event

Bounds, ranges, levels, classes and fill values are public: agree on them before looking at records. Nothing
here takes any of them from the data. Arrays and tables are kept as they are (memory maps stay mapped), never
copied whole and never changed, and are read in blocks. Each takes a path or a query (:func:`dpcape.sql`) too.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpcape.core.errors import InvalidParameter
from dpcape.core.facts import MOST_VIEWS
from dpcape.records.clip import checked_bound
from dpcape.records.features import one_per_view
from dpcape.records.kinds import Documents, Labelled, Records, Rows, Subjects, Views
from dpcape.records.policy import checked_policy, warned
from dpcape.records.recipes import OfLabelled, OfRows, OfViews
from dpcape.records.sources import SchemaOrPath, described, raw_table, raw_target
from dpcape.records.streamed import Streamed, is_streamed, stream_records
from dpcape.records.typed_table import TypedTable, table
from dpcape.records.words_and_series import documents, subjects
from dpcape.schema.schema import Ranges

__all__ = [
    "Documents",
    "Labelled",
    "Records",
    "Rows",
    "Streamed",
    "Subjects",
    "TypedTable",
    "Views",
    "documents",
    "labelled",
    "rows",
    "subjects",
    "table",
    "views",
]


def rows(
    X: object,
    *,
    bound: float | None = None,
    ranges: Ranges | None = None,
    missing: object = None,
    feature_names: Sequence[str] | None = None,
    invalid: str = "zero",
    schema: SchemaOrPath | None = None,
    precision: str | None = None,
    progress: bool = False,
) -> Rows | Streamed:
    """Return the rows of a table as records.

    Values are mapped by the public ranges, if any, and each row x becomes x * min(1, bound / norm(x)).

    Parameters
    ----------
    X : object
        Array (also memory-mapped), list of lists, pandas or polars table; one row per record. Or the path of a CSV,
        Parquet, Arrow or NumPy file, of a folder of Parquet files, or a query; columns of the schema alone are read. Or
        a stream, which is read again for every release and never held whole: a data set of pyarrow, a query of DuckDB
        or any other object that gives an Arrow stream when asked, an iterable of Arrow record batches that can be gone
        through again, or a function that returns one. Tables of more than 1 GiB are streams. Or an array or table of
        Dask, whose totals are computed on the site's cluster.
    bound : float or None
        Public largest Euclidean norm of a row, after ranges are applied. With public ranges (or levels) for all D
        columns no row is longer than sqrt(D): a larger bound is lowered to that, and None stands for it.
    ranges : Ranges or None
        Public (low, high) per column, mapped to [-1, 1] with values outside clamped; or a mapping from column name to
        (low, high), to a list of levels (one 0/1 feature per level, all zero for a value not on the list), or to a
        mapping with "range" or "levels" and perhaps "missing"; or a Schema. A mapping or a Schema chooses and orders
        the columns.
    missing : object
        Public constant, or mapping from column to constant, that replaces missing values, in original units. With None,
        records with missing values are invalid.
    feature_names : sequence of str or None
        Names of the columns of X; by default those of the table, if it has any. Of a file, the columns to read.
    invalid : str
        Public policy for records that cannot be read, such as those with a NaN without `missing`. With "zero" they
        count, contribute zero, and a local warning gives their number; "refuse" raises an error, so that an analysis
        that runs makes public that all records are valid.
    schema : SchemaOrPath or None
        Another name of `ranges`; or the path of a schema file.
    precision : str or None
        Precision in which second moments are summed, if all sites have the same: "single" takes half the time of
        "double", for 0.6% more noise. None is "single" for arrays of float32 without ranges, else "double".
    progress : bool
        Whether to show a bar on standard error while a stream is read.

    Privacy
    -------
    One row is one record. Public: number of rows and columns, names, bound, ranges, levels, fills, precision. The exact
    norm of every row an analysis sees is at most `bound`, rounding included.

    Edge cases
    ----------
    ==============================================  =============================================
    situation                                       outcome
    ==============================================  =============================================
    row of zeros                                    stays zero
    row so large that its norm overflows            clipped like any other
    NaN or a null                                   filled if `missing` says how, else as `invalid` says
    infinity, a row of another length               as `invalid` says
    text among numbers, or a number among text      as `invalid` says
    no rows or no columns                           refused
    stream that gives other rows the next time      refused; if noticed before the run, nothing is charged
    stream that can be read only once               refused
    ==============================================  =============================================

    Examples
    --------
    >>> records = rows([[3.0, 4.0], [0.3, 0.4]], bound=1.0)
    >>> records
    Rows(n_records=2, widths=(2,), bounds=(1.0,), unit='record')
    >>> next(records.blocks()).round(6)
    array([[0.6, 0.8],
           [0.3, 0.4]])
    """
    ranges = described(schema, ranges)
    recipe = _of_rows(bound, ranges, missing, feature_names, invalid, precision)
    if is_streamed(X):
        return warned(stream_records(recipe, X, progress=progress))
    data, names = raw_table(X, ranges, feature_names, invalid=invalid)
    return warned(recipe.named([names]).records(data))


def views(
    X: object,
    Y: object,
    *more: object,
    bounds: Sequence[float | None] | None = None,
    ranges: Sequence[Ranges | None] | None = None,
    missing: object = None,
    feature_names: Sequence[Sequence[str] | None] | None = None,
    invalid: str = "zero",
    precision: str | None = None,
    progress: bool = False,
) -> Views | Streamed:
    """Return two or more tables with the same records, in the same order, as records.

    Parameters
    ----------
    X, Y : object
        See `rows`; row i of all views belongs to the same record. The same path or stream may be given for all of
        them, with other columns in `ranges` or `feature_names`.
    *more : object
        Further views, up to 32 in all.
    bounds : sequence of float or None
        Public largest norms of a row, one per view; each view is clipped to its own. None as for `rows`.
    ranges : sequence of Ranges or None
        One entry per view, each as for `rows` or None.
    missing : object
        As for `rows`, for all views; or a tuple, one entry for each.
    feature_names : sequence or None
        One list of names per view; each may be None.
    invalid : str
        As for `rows`; a record is invalid if it is in any view.
    precision : str or None
        As for `rows`; None is "single" if all views are arrays of float32 without ranges.
    progress : bool
        As for `rows`.

    Privacy
    -------
    One record is a row of X with its row of every other view: its norm is at most the root of the sum of all squared
    bounds.

    Examples
    --------
    >>> views([[3.0, 4.0]], [[2.0]], bounds=(1.0, 2.0))
    Views(n_records=1, widths=(2, 1), bounds=(1.0, 2.0), unit='record')
    """
    sources: tuple[object, ...] = (X, Y, *more)
    n_views = len(sources)
    if n_views > MOST_VIEWS:
        raise InvalidParameter("views", f"be at most {MOST_VIEWS}", n_views, "Stack some of them.")
    options = zip(
        (
            None if bound is None else checked_bound(bound, subject="each of bounds")
            for bound in one_per_view(bounds, "bounds", n_views)
        ),
        one_per_view(ranges, "ranges", n_views),
        one_per_view(missing if isinstance(missing, tuple) else (missing,) * n_views, "missing", n_views),
        one_per_view(feature_names, "feature_names", n_views),
        strict=True,
    )
    policy = checked_policy(invalid)
    recipe = OfViews(tuple(OfRows(*of_view, policy, precision) for of_view in options), policy)
    if any(map(is_streamed, sources)):
        return warned(stream_records(recipe, *sources, progress=progress))
    tables = [
        raw_table(data, one.ranges, one.feature_names, invalid=invalid)
        for data, one in zip(sources, recipe.tables, strict=True)
    ]
    return warned(recipe.named([names for _, names in tables]).records(*(values for values, _ in tables)))


def labelled(
    X: object,
    y: object,
    *,
    bound: float | None = None,
    response: tuple[float, float] | None = None,
    classes: Sequence[object] | None = None,
    ranges: Ranges | None = None,
    missing: object = None,
    outside: str = "clip",
    feature_names: Sequence[str] | None = None,
    invalid: str = "zero",
    schema: SchemaOrPath | None = None,
    precision: str | None = None,
    progress: bool = False,
) -> Labelled | Streamed:
    """Return rows with a response or a class label as records.

    Parameters
    ----------
    X : object
        See `rows`. Of a file without a schema, all columns but `y` are read.
    y : object
        One response or label per row; a record without one is invalid. Of a file or a stream, the name of the column.
    bound : float
        See `rows`.
    response : tuple[float, float] or None
        Public (low, high) of a numeric response, which is mapped to [-1, 1].
    classes : sequence of object or None
        Public list of all labels; a label becomes its position in the list. Give either `response` or `classes`.
    ranges : Ranges or None
        See `rows`.
    missing : object
        See `rows`.
    outside : str
        "clip" moves responses outside the range to its ends; with "refuse" such records are invalid. A record with a
        label that is not in `classes` is always invalid.
    feature_names : sequence of str or None
        See `rows`.
    invalid : str
        See `rows`.
    schema : SchemaOrPath or None
        See `rows`.
    precision : str or None
        See `rows`.
    progress : bool
        See `rows`.

    Privacy
    -------
    One record is a row of X with its y. Public besides what `rows` says: `response` or `classes`.

    Examples
    --------
    >>> records = labelled([[3.0, 4.0]], [75.0], bound=1.0, response=(0, 100))
    >>> block, responses = next(records.blocks())
    >>> responses
    array([0.5])
    """
    if (response is None) == (classes is None):
        must, remedy = "be given", "Use response=(low, high) for numbers and classes=[...] for labels."
        raise InvalidParameter("Either response or classes", must, "neither" if response is None else "both", remedy)
    ranges = described(schema, ranges)
    recipe = OfLabelled(_of_rows(bound, ranges, missing, feature_names, invalid, precision), response, classes, outside)
    if is_streamed(X):
        return warned(stream_records(recipe, X, y, progress=progress))
    target = y if isinstance(y, str) else None
    data, names = raw_table(X, ranges, feature_names, besides=target, invalid=invalid)
    values = raw_target(X, y, text=recipe.is_text, invalid=invalid)
    return warned(recipe.named([names]).records(data, values))


def _of_rows(
    bound: float | None,
    ranges: Ranges | None,
    missing: object,
    names: Sequence[str] | None,
    invalid: str,
    precision: str | None,
) -> OfRows:
    checked = None if bound is None else checked_bound(bound)
    return OfRows(checked, ranges, missing, names, checked_policy(invalid), precision)
