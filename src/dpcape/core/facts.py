"""Public facts about the records of a site.

They are assumed known to everyone and are printed in every guarantee; nothing else about the records is public.
"""

from __future__ import annotations

import msgspec

# Range of a bound in which no quotient by it, and no square of the noise of third moments, overflows (records/clip.py).
SMALLEST_BOUND, LARGEST_BOUND = 1e-40, 1e40
# Views of one record, at most.
MOST_VIEWS = 32
# The ``owner_note`` of time series of people whose unit is "record".
MANY_TIME_POINTS = "a person owns many time points; one time point is protected, not a person"


class PublicRange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Public range of one prepared column.

    Attributes
    ----------
    low, high : float
        Its ends in original units.
    least, most : float
        What they became: -1 and 1 for a number with a range, 0 and 1 for a level.
    """

    low: float
    high: float
    least: float
    most: float


class PublicColumn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Public description of one raw column of a table.

    Attributes
    ----------
    name : str
        Name of the column.
    kind : str
        "number", "date" (a number of days since 1970) or "category".
    low, high : float
        Ends of the range of a number or a date.
    levels : tuple of str
        Levels of a category, as text.
    """

    name: str
    kind: str
    low: float = 0.0
    high: float = 0.0
    levels: tuple[str, ...] = ()


class SchemaColumn(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One raw column of a public schema.

    Attributes
    ----------
    name : str
        Name of the column.
    range : tuple[float, float] or None
        Public ends of a number, or of a date in days since 1970.
    levels : tuple or None
        Public values of a category, as they are in the table.
    missing : str, float or None
        What replaces a missing value, in original units.
    unit : str
        Unit of a number, such as "years".
    dates : bool
        Whether the column holds dates.
    """

    name: str
    range: tuple[float, float] | None = None
    levels: tuple[str | bool | int | float, ...] | None = None
    missing: str | bool | int | float | None = None
    unit: str = ""
    dates: bool = False


class PublicSchema(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Public preparation of the columns of one table, as :class:`~dpcape.Schema` has it.

    Attributes
    ----------
    columns : tuple of SchemaColumn
        The raw columns, in the order of the features.
    named : bool
        Whether columns are found in a table by name.
    """

    columns: tuple[SchemaColumn, ...]
    named: bool = True


class PublicEvent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Two columns of a table that together are a time to an event.

    Attributes
    ----------
    name : str
        Name of the pair.
    time : str
        Column with the time to the event or to the end of observation.
    event : str
        Column that says whether the event occurred.
    occurred : str
        Level of that column which says that it did, as text.
    """

    name: str
    time: str
    event: str
    occurred: str


class TypedColumns(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Public columns of a table, and which of them are a time to an event."""

    columns: tuple[PublicColumn, ...]
    events: tuple[PublicEvent, ...] = ()


class PublicFacts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Public description of one site's records.

    Attributes
    ----------
    kind : str
        "rows" | "views" | "labelled" | "documents" | "subjects" | "table".
    unit : str
        What one neighbouring data set replaces: "record" or "subject".
    n_records : int
        Number of protected units (rows, documents, time points or subjects).
    widths : tuple of int
        Columns per view; one entry except for views.
    bounds : tuple of float
        Largest Euclidean norm of a row, per view; (1.0,) for documents and tables.
    response : tuple[float, float] or None
        Public (low, high) of the response of labelled records, else None.
    classes : tuple of str or None
        Public list of class labels, else None.
    feature_names : tuple of str
        Names of the columns, all views concatenated, else empty.
    rows_per_unit : int
        Largest number of rows one unit owns (1 unless the unit is a subject).
    owner_note : str
        How a person relates to the unit, in words, e.g. that a person owns many time points; may be empty.
    preparation : str
        Digest of the public preparation (ranges, levels, fill values), equal at all sites.
    ranges : tuple of PublicRange
        Public ranges of all columns; empty unless every column has one.
    longest : tuple of float
        Largest norm that the ranges allow, per view; empty if there are none.
    invalid : str
        What happens to records that cannot be read: "zero" counts them with a contribution of zero, which tells nobody
        that there are any; "refuse" makes it public that there are none.
    typed : TypedColumns or msgspec.UNSET
        Columns of a table; not set, and not sent, for other kinds.
    schemas : tuple of PublicSchema or msgspec.UNSET
        How raw columns become features, one entry per view, None for a view whose numbers are taken as they are; not
        set, and not sent, if all are.
    labels_are : str or msgspec.UNSET
        What class labels are at the sites: "integers", "numbers" or "booleans"; not set, and not sent, for text.
    """

    kind: str
    unit: str
    n_records: int
    widths: tuple[int, ...]
    bounds: tuple[float, ...]
    response: tuple[float, float] | None = None
    classes: tuple[str, ...] | None = None
    feature_names: tuple[str, ...] = ()
    rows_per_unit: int = 1
    owner_note: str = ""
    preparation: str = ""
    ranges: tuple[PublicRange, ...] = ()
    longest: tuple[float, ...] = ()
    invalid: str = "zero"
    typed: TypedColumns | msgspec.UnsetType = msgspec.UNSET
    schemas: tuple[PublicSchema | None, ...] | msgspec.UnsetType = msgspec.UNSET
    labels_are: str | msgspec.UnsetType = msgspec.UNSET

    @property
    def columns(self) -> tuple[PublicColumn, ...]:
        """Columns of a table; empty for other kinds."""
        return () if self.typed is msgspec.UNSET else self.typed.columns

    @property
    def events(self) -> tuple[PublicEvent, ...]:
        """Times to an event of a table; empty for other kinds."""
        return () if self.typed is msgspec.UNSET else self.typed.events

    @property
    def n_features(self) -> int:
        """Number of columns, over all views."""
        return sum(self.widths)

    def shape_facts(self) -> PublicFacts:
        """Return the facts that must be equal at all sites: these, without the number of records."""
        return msgspec.structs.replace(self, n_records=0, rows_per_unit=0)
