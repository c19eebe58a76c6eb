"""Records by a query: over local files with DuckDB (extra ``sql``), or in an SQLite database.

The query can read the tables it was given and nothing else. DuckDB reads the files named, before it sees the query;
then access to files, network and extensions is shut off and the configuration locked. SQLite is opened to read only,
and an authorizer allows SELECT alone.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import numpy as np

from dpcape.core.arrays import AnyArray
from dpcape.core.errors import DamagedFile, Failed, InvalidParameter
from dpcape.core.lazy import extra_module
from dpcape.records.readers.tables import ColumnsInMemory
from dpcape.records.sources import Source

if TYPE_CHECKING:
    import duckdb

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
_READERS = {
    (".csv", ".csv.gz"): "read_csv(?, delim = ',', header = true, sample_size = -1, nullstr = ['', 'NA', 'NaN', '.'])",
    (".tsv", ".tsv.gz"): "read_csv(?, delim = '\t', header = true, sample_size = -1, nullstr = ['', 'NA', 'NaN', '.'])",
    (".parquet", ".pq"): "read_parquet(?)",
}


@dataclass(frozen=True)
class Query(Source):
    """A query whose rows are records; made by :func:`sql`.

    Attributes
    ----------
    text : str
        One SELECT statement.
    tables : mapping
        Names that the query uses, to local files.
    database : Path or None
        An SQLite database, instead of tables.
    """

    text: str
    tables: Mapping[str, Path] = field(default_factory=dict)
    database: Path | None = None
    _kept: dict[str, AnyArray] = field(default_factory=dict, repr=False, compare=False)

    def holding(self) -> ColumnsInMemory:
        """Run the query the first time, and return its columns.

        A second run might return rows in a different order, and labels would be matched to the wrong people.
        """
        if not self._kept:
            columns = self._in_files() if self.database is None else _in_database(self.text, self.database)
            self._kept.update(columns)
        return ColumnsInMemory("the query's result", self._kept)

    def _in_files(self) -> dict[str, AnyArray]:
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
                columns = connection.execute(statements[0]).fetchnumpy()
            except duckdb.Error as error:
                raise _failed(error) from error
        return {name: _plain(column) for name, column in columns.items()}


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
    as codes that begin with zeros.

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


def _plain(column: AnyArray) -> AnyArray:
    """Return a column of numbers with NaN, or of objects with None, where values are missing."""
    absent = np.ma.getmaskarray(column)
    values = np.ma.getdata(column)
    if values.dtype.kind in "biuf":
        numbers = values.astype(np.float64)
        numbers[absent] = np.nan
        return numbers
    if values.dtype.kind == "M":
        values = np.array([_date_text(moment) for moment in values], dtype=object)
    objects = np.array(values, dtype=object)
    objects[absent] = None
    return objects


def _date_text(moment: np.datetime64) -> str:
    """Return a moment in ISO form: the date alone where it is midnight."""
    is_date = bool(np.isnat(moment)) or bool(moment == moment.astype("datetime64[D]"))
    return str(moment)[:10] if is_date else str(moment)


def _in_database(query: str, path: Path) -> dict[str, AnyArray]:
    connection = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)
    try:
        connection.set_authorizer(_only_reading)
        cursor = connection.execute(query)
        if cursor.description is None:
            raise _not_one_select()
        names = [entry[0] for entry in cursor.description]
        cells = list(zip(*cursor.fetchall(), strict=True)) or [()] * len(names)
    except (sqlite3.Error, sqlite3.Warning) as error:
        raise _failed(error) from error
    finally:
        connection.close()
    if len(set(names)) != len(names):
        raise InvalidParameter("Columns of a query", "have different names", "one twice", "Write AS.")
    return {name: _of_cells(name, values) for name, values in zip(names, cells, strict=True)}


def _only_reading(action: int, first: str | None, second: str | None, database: str | None, trigger: str | None) -> int:
    if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in _FORBIDDEN_FUNCTIONS:
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK if action in _READING else sqlite3.SQLITE_DENY


def _of_cells(name: str, values: tuple[object, ...]) -> AnyArray:
    if any(isinstance(value, bytes) for value in values):
        raise InvalidParameter(f"Column {name!r}", "hold numbers or text", "bytes", "Leave it out of the query.")
    if all(value is None or isinstance(value, int | float) for value in values):
        return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    return np.array(values, dtype=object)


def _not_one_select() -> InvalidParameter:
    remedy = "Prepare the data outside dpcape."
    return InvalidParameter("A query", "be one SELECT statement", "a statement that does more, or several", remedy)


def _failed(error: Exception) -> Failed:
    return Failed("The query failed", _first_line(error), "Correct it; it can read its own tables and nothing else.")


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(". ")
