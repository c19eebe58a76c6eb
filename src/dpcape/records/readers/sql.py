"""Records by a query: over local files with DuckDB (extra ``sql``), or in an SQLite database.

The query can read the tables it was given and nothing else. DuckDB reads the files named, before it sees the query;
then access to files, network and extensions is shut off and the configuration locked. SQLite is opened to read only,
and an authorizer allows SELECT alone.
"""

from __future__ import annotations

import datetime
import itertools
import math
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import quote

from dpcape.core.errors import DamagedFile, Failed, InvalidParameter
from dpcape.core.lazy import extra_module
from dpcape.records.readers.cells import Batch, Wanted, arrow_column, column_of
from dpcape.records.readers.tables import ByColumn
from dpcape.records.sources import is_much

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    _Cells: TypeAlias = "dict[str, pa.Array | list[object]]"

_READING = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE)
_FORBIDDEN_FUNCTIONS = ("load_extension", "fts3_tokenizer")
_AT_START = {
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_unsigned_extensions": "false",
    # Never spill to disk, even when memory runs out.
    "temp_directory": "",
    "threads": "1",
}
# The last setting locks all others. A setting that a version does not know is an error, and nothing is read.
_BEFORE_THE_QUERY = (
    "SET python_enable_replacements = false",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)
# Rows that are fetched together from a query whose result is kept.
_KEPT_ROWS = 2**15
_READERS = {
    (".csv", ".csv.gz"): "read_csv(?, delim = ',', header = true, sample_size = -1, nullstr = ['', 'NA', 'NaN', '.'])",
    (".tsv", ".tsv.gz"): "read_csv(?, delim = '\t', header = true, sample_size = -1, nullstr = ['', 'NA', 'NaN', '.'])",
    (".parquet", ".pq"): "read_parquet(?)",
}


class Query(ByColumn):
    """A query whose rows are records; made by :func:`sql`.

    Parameters
    ----------
    text : str
        One SELECT statement.
    tables : mapping or None
        Names that the query uses, to local files.
    database : Path or None
        An SQLite database, instead of tables.
    """

    def __init__(self, text: str, tables: Mapping[str, Path] | None = None, database: Path | None = None) -> None:
        super().__init__("the query's result")
        self.text, self.tables, self.database = text, dict(tables or {}), database
        self._kept: list[_Cells] | None = None

    def names(self) -> Sequence[str]:
        """Return the names of all columns."""
        if not self.is_large():
            return list(self._rows()[0])
        return list(next(self._run(1)))

    def is_large(self) -> bool:
        """Return whether what the query reads is large; other results are kept."""
        paths = self.tables.values() if self.database is None else [self.database]
        files = itertools.chain(*(path.rglob("*") if path.is_dir() else [path] for path in paths))
        return is_much(sum(file.stat().st_size for file in files if file.is_file()))

    def _batches(self, wanted: Sequence[Wanted], n_rows: int) -> Iterator[Batch]:
        start = 0
        for cells in self._run(n_rows) if self.is_large() else self._rows():
            columns: Batch = {}
            for name, is_text in wanted:
                values = cells[name]
                read = column_of if isinstance(values, list) else arrow_column
                column = columns[name, is_text] = read(values, is_text, _as_text)
                self._look_at(name, values, column, start)
            yield columns
            start += len(cells[wanted[0][0]])

    def _rows(self) -> list[_Cells]:
        """Run the query the first time, and return its rows.

        A second run might return rows in a different order, and labels would be matched to the wrong people.
        """
        if self._kept is None:
            self._kept = list(self._run(_KEPT_ROWS))
        return self._kept

    def _run(self, n_rows: int) -> Iterator[_Cells]:
        """Yield the cells of all columns, some rows at a time; at least once, also without rows."""
        yield from self._in_files(n_rows) if self.database is None else _in_database(self.text, self.database, n_rows)

    def _in_files(self, n_rows: int) -> Iterator[_Cells]:
        duckdb = extra_module("duckdb", "The package duckdb for queries over files", "sql")
        # Errors are reported with the first line of their message only: the rest may contain data values.
        with duckdb.connect(":memory:", config=dict(_AT_START)) as connection:
            for name, path in self.tables.items():
                _load(connection, duckdb.Error, name, path)
            for setting in _BEFORE_THE_QUERY:
                connection.execute(setting)
            try:
                statements = connection.extract_statements(self.text)
                if [statement.type for statement in statements] != [duckdb.StatementType.SELECT]:
                    raise _not_one_select()
                yield from _fetched(connection.sql(self.text), n_rows)
            except duckdb.Error as error:
                raise _failed(error) from error


def sql(query: str, *, tables: Mapping[str, str | Path] | None = None, database: str | Path | None = None) -> Query:
    """Return a query whose rows are records, to be given to `rows`, `labelled`, `views`, `documents` or `table`.

    Parameters
    ----------
    query : str
        One SELECT statement. Its columns are those of the records.
    tables : mapping or None
        Names that the query uses, to local files: CSV, TSV or Parquet, a folder of Parquet files, or a pattern of such
        files. Needs DuckDB, the extra ``sql``.
    database : str or Path or None
        A local SQLite database to ask instead.

    Privacy
    -------
    A query that joins, filters or counts makes one row from several, or leaves rows out. One record of the result is
    what is protected, so each person must have at most one row in it; ``GROUP BY`` the person, or select one visit by
    a public rule. DuckDB finds the type of a CSV column from all its lines: cast a column whose spelling matters, such
    as codes that begin with zeros, and write ``TRY_CAST(age AS DOUBLE)`` where the query computes with a column in
    which a text may be. A query that fails because of one cell makes the site refuse, which tells others of it.

    Examples
    --------
    >>> import sqlite3, tempfile
    >>> from contextlib import closing
    >>> from dpcape import rows
    >>> path = tempfile.mkdtemp() + "/cohort.sqlite"
    >>> with closing(sqlite3.connect(path)) as connection, connection:
    ...     _ = connection.execute("CREATE TABLE people (age REAL, wave INTEGER)")
    ...     _ = connection.execute("INSERT INTO people VALUES (34, 1), (71, 1), (35, 2)")
    >>> rows(sql("SELECT age FROM people WHERE wave = 1", database=path), ranges={"age": (18, 90)})
    Rows(n_records=2, widths=(1,), bounds=(1.000000001,), unit='record')
    """
    if not isinstance(query, str) or not query.strip():
        raise InvalidParameter("query", "be one SELECT statement", repr(query), "Write sql('SELECT ...', ...).")
    if (tables is None) == (database is None):
        got = "neither" if tables is None else "both"
        raise InvalidParameter("Either tables or database", "be given", got, "Name files, or a database.")
    if database is not None:
        return Query(query, database=_existing(Path(database)))
    return Query(query, {str(name): _existing(Path(path)) for name, path in (tables or {}).items()})


def _existing(path: Path) -> Path:
    absolute = path.absolute()
    if not absolute.exists() and not any(absolute.parent.glob(absolute.name)):
        raise DamagedFile(f"The data file {str(path)!r} does not exist", remedy="Correct the path.")
    return absolute


def _load(connection: duckdb.DuckDBPyConnection, errors: type[Exception], name: str, path: Path) -> None:
    """Read a file into a table in memory."""
    source = path / "**" / "*.parquet" if path.is_dir() else path
    reader = next((text for ends, text in _READERS.items() if source.name.lower().endswith(ends)), None)
    if reader is None:
        must = "be .csv, .tsv or .parquet, or a folder of Parquet files"
        raise InvalidParameter("A table of a query", must, repr(path.name), "Convert it.")
    quoted = name.replace('"', '""')
    try:
        connection.execute(f'CREATE TABLE "{quoted}" AS SELECT * FROM {reader}', [str(source)])
    except errors as error:
        what = f"{path.name} could not be read as the table {name!r},"
        raise DamagedFile(what, _first_line(error), "Check the file.") from error


def _fetched(relation: duckdb.DuckDBPyRelation, n_rows: int) -> Iterator[_Cells]:
    """Yield the rows of a DuckDB query: as Arrow has them, or one by one without pyarrow."""
    names = _checked_names(relation.columns)
    try:
        import_module("pyarrow")
    except ImportError:
        yield from _by_row(relation, names, n_rows)
        return
    # Older versions have another name for it.
    open_reader = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
    is_empty = True
    for batch in open_reader(n_rows):
        yield dict(zip(names, batch.columns, strict=True))
        is_empty = False
    if is_empty:
        yield {name: [] for name in names}


def _by_row(cursor: sqlite3.Cursor | duckdb.DuckDBPyRelation, names: list[str], n_rows: int) -> Iterator[_Cells]:
    """Yield the rows of a cursor, column by column."""
    is_first = True
    while (rows := cursor.fetchmany(n_rows)) or is_first:
        yield {name: [row[at] for row in rows] for at, name in enumerate(names)}
        is_first = False


def _checked_names(names: list[str]) -> list[str]:
    if len(set(names)) != len(names):
        raise InvalidParameter("Columns of a query", "have different names", "one twice", "Write AS.")
    return names


def _as_text(value: object) -> str | None:
    """Return a cell as a CSV file would hold it: a whole number without a point, a date in ISO form.

    It depends on the value alone: text elsewhere in the column must not change how its numbers are written.
    """
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float | Decimal):
        if value != value:
            return None
        return str(int(value)) if math.isfinite(value) and value == int(value) else str(value)
    if isinstance(value, datetime.datetime):
        is_date = value.time() == datetime.time()
        return str(value.date()) if is_date else value.isoformat()
    return str(value)


def _in_database(query: str, path: Path, n_rows: int) -> Iterator[_Cells]:
    try:
        # A thread that reads ahead may leave the closing to another.
        where = f"file:{quote(str(path))}?mode=ro"
        with closing(sqlite3.connect(where, uri=True, check_same_thread=False)) as connection:
            connection.set_authorizer(_only_reading)
            cursor = connection.execute(query)
            if cursor.description is None:
                raise _not_one_select()
            yield from _by_row(cursor, _checked_names([entry[0] for entry in cursor.description]), n_rows)
    except (sqlite3.Error, sqlite3.Warning) as error:
        raise _failed(error) from error


def _only_reading(action: int, first: str | None, second: str | None, database: str | None, trigger: str | None) -> int:
    if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in _FORBIDDEN_FUNCTIONS:
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK if action in _READING else sqlite3.SQLITE_DENY


def _not_one_select() -> InvalidParameter:
    remedy = "Prepare the data outside dpcape."
    return InvalidParameter("A query", "be one SELECT statement", "a statement that does more, or several", remedy)


def _failed(error: Exception) -> Failed:
    return Failed("The query failed", _first_line(error), "Correct it; it can read its own tables and nothing else.")


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(". ")
