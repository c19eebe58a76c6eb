"""The [sites.NAME] tables of a study."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dpcape.files import NAME_RULE, is_name
from dpcape.privacy.terms import check_weights
from dpcape.protocols.dealt_noise import DEALER
from dpcape.study.toml_reader import TomlSource, TomlTable

MAX_SITES = 10_000


@dataclass(frozen=True)
class StudySite:
    """Entry of a study for one site.

    Attributes
    ----------
    data : str or None
        Data file for runs in one process, relative to the study; not needed on a federation.
    folder : str or None
        Site folder for runs in one process; its ledger and approvals then apply.
    records : int or None
        Number of records in rehearsals.
    weight : float or None
        Weight of the site in every mean; None weights sites by their number of records.
    """

    data: str | None = None
    folder: str | None = None
    records: int | None = None
    weight: float | None = None


def read_members(source: TomlSource) -> Mapping[str, StudySite]:
    """Return the content of the [sites.NAME] tables, checked."""
    sites = TomlTable(source, ("sites",))
    members = {name: _read_member(sites, name) for name in sites.names()}
    if len(members) > MAX_SITES:
        source.fail(("sites",), f"a study must have at most {MAX_SITES} sites; got {len(members)}. Remove sites.")
    weights = {name: member.weight for name, member in members.items() if member.weight is not None}
    if weights:
        names = tuple(sorted(members))
        sites.within(next(iter(weights)), lambda: check_weights(weights, names))
    return members


def _read_member(sites: TomlTable, name: str) -> StudySite:
    if not is_name(name) or name == DEALER:
        sites.source.fail(
            ("sites", name),
            f"a site's name must be {NAME_RULE}, and not {DEALER!r}; got {name[:80]!r}. Rename the site.",
            at_key=True,
        )
    section = TomlTable(sites.source, ("sites", name), required=False)
    member = StudySite(
        data=section.text("data", required=False),
        folder=section.text("folder", required=False),
        records=section.count("records", least=1, required=False),
        weight=section.number("weight", required=False),
    )
    section.finish()
    return member
