"""The [sites.NAME] tables of a study."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dpcape.core.errors import InvalidParameter
from dpcape.core.files import NAME_RULE, is_name
from dpcape.core.privacy.terms import check_weights
from dpcape.core.protocols.dealt_noise import DEALER
from dpcape.records.sources import Source
from dpcape.study.toml_reader import TomlSource, TomlTable

MAX_SITES = 10_000


@dataclass(frozen=True)
class DeclaredQuery:
    """A query over local files or a database, as a study states it; paths are relative to the study."""

    text: str
    tables: Mapping[str, str] | None
    database: str | None

    def source(self, folder: Path) -> Source:
        """Return the query, with paths in a folder."""
        from dpcape.records.readers.sql import sql

        tables = None if self.tables is None else {name: folder / path for name, path in self.tables.items()}
        return sql(self.text, tables=tables, database=None if self.database is None else folder / self.database)


@dataclass(frozen=True)
class StudySite:
    """Entry of a study for one site.

    Attributes
    ----------
    data : str or DeclaredQuery or None
        Data file, or query, for runs in one process, relative to the study; not needed on a federation.
    folder : str or None
        Site folder for runs in one process; its ledger and approvals then apply.
    records : int or None
        Number of records in rehearsals.
    weight : float or None
        Weight of the site in every mean; None weights sites by their number of records.
    """

    data: str | DeclaredQuery | None = None
    folder: str | None = None
    records: int | None = None
    weight: float | None = None


def read_members(source: TomlSource) -> Mapping[str, StudySite]:
    """Return the content of the [sites.NAME] tables, checked."""
    sites = TomlTable(source, ("sites",))
    members = {name: _read_member(sites, name) for name in sites.names()}
    if len(members) > MAX_SITES:
        many = InvalidParameter("a study", f"have at most {MAX_SITES} sites", len(members), "Remove sites.")
        raise source.located(("sites",), many)
    weights = {name: member.weight for name, member in members.items() if member.weight is not None}
    if weights:
        names = tuple(sorted(members))
        sites.within(next(iter(weights)), lambda: check_weights(weights, names))
    return members


def _read_member(sites: TomlTable, name: str) -> StudySite:
    if not is_name(name) or name == DEALER:
        must = f"be {NAME_RULE}, and not {DEALER!r}"
        error = InvalidParameter("a site's name", must, repr(name[:80]), "Rename the site.")
        raise sites.source.located(("sites", name), error, at_key=True)
    section = TomlTable(sites.source, ("sites", name), required=False)
    member = StudySite(
        data=_read_source(section),
        folder=section.text("folder", required=False),
        records=section.count("records", least=1, required=False),
        weight=section.number("weight", required=False),
    )
    section.finish()
    return member


def _read_source(section: TomlTable) -> str | DeclaredQuery | None:
    """Return a site's data: a path, or a query."""
    if not isinstance(section.value("data"), dict):
        return section.text("data", required=False)
    query = TomlTable(section.source, (*section.path, "data"))
    text, database, tables = query.text("query"), query.text("database", required=False), query.value("tables")
    if tables is not None and not (isinstance(tables, dict) and all(isinstance(path, str) for path in tables.values())):
        query.fail("tables", "a table from name to file", 'Write tables = { visits = "visits.csv" }.')
    if (database is None) == (tables is None):
        query.fail("tables", "given if database is not, and only then", 'Write tables = { visits = "visits.csv" }.')
    query.finish()
    assert text is not None
    return DeclaredQuery(text, tables, database)
