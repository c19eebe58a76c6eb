"""The steward's decisions on the page, made by the same functions as the commands'."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dpcape.core.errors import Failed, InvalidParameter
from dpcape.core.files import NAME_RULE, is_name
from dpcape.core.privacy.unit import Unit
from dpcape.site.folder import SiteFolder
from dpcape.site.ledger import Ceiling
from dpcape.steward.forms import Fields
from dpcape.steward.ledger_view import kept_study
from dpcape.steward.review import review
from dpcape.study.study import Study


def approve(folder: SiteFolder, digest: str, fields: Fields) -> str:
    """Approve the study that was shown (``dpcape site approve``); return what was done."""
    study = kept_study(folder, digest)
    data, runs = fields.text("data"), fields.count("runs", "how often the study may run")
    folder.approve(study, data, runs=runs, seen=_seen(fields))
    return f"Approved: {study.name} on {data}, {runs} run{'s' if runs > 1 else ''}."


def deny(folder: SiteFolder, digest: str, fields: Fields) -> str:
    """Record a denial (``dpcape site deny``)."""
    folder.deny(study := kept_study(folder, digest), seen=_seen(fields))
    return f"Denied: {study.name}."


def revoke(folder: SiteFolder, digest: str, fields: Fields) -> str:
    """Take an approval back (``dpcape site revoke``)."""
    folder.revoke(study := kept_study(folder, digest), seen=_seen(fields))
    return f"Revoked: {study.name}. What was charged stays charged."


def read_ceiling(fields: Fields) -> Ceiling:
    """Return the ceiling a form asks for."""
    rows = fields.count("rows_per_subject", "records per subject") if fields.text("rows_per_subject") else None
    return Ceiling(
        fields.number("epsilon", "epsilon"),
        fields.number("delta", "delta"),
        fields.optional_number("per_study", "the ceiling of one study"),
        Unit(fields.text("per"), rows),
    )


def set_ceiling(folder: SiteFolder, data: str, fields: Fields) -> str:
    """Set a ceiling that was shown and confirmed (``dpcape site budget``)."""
    ceiling = read_ceiling(fields)
    folder.set_ceiling(data, ceiling, seen=_seen(fields))
    return f"Ceiling of {data} set: epsilon {ceiling.epsilon:g} at delta {ceiling.delta:g} {ceiling.unit}."


def present(folder: SiteFolder, study: Study) -> str:
    """Keep a study so that it waits for a decision (``dpcape site review``); return its digest. Nothing is spent."""
    data = sorted(folder.data_sets())
    if folder.name == study.dealer:
        return folder.present(study)
    if not data:
        raise Failed("The study cannot be reviewed", "the site has no data set", "Register one with: dpcape site add.")
    digest = folder.present(study)
    review(folder, study, folder.chosen(data[0]))
    return digest


def add_study(folder: SiteFolder, files: Mapping[str, bytes]) -> str:
    """Present a study that was sent with the files it names; return its digest."""
    if "study.toml" not in files:
        raise Failed("The study file is missing", remedy="Choose it first.")
    for name in files:
        if not is_name(name):
            raise InvalidParameter("The name of a file", f"be {NAME_RULE}", repr(name[:40]), "Rename the file.")
    with tempfile.TemporaryDirectory(prefix="dpcape-review-") as draft:
        for name, content in files.items():
            Path(draft, name).write_bytes(content)
        return present(folder, folder.load_study(Path(draft, "study.toml")))


@dataclass(frozen=True)
class Change:
    """One part of a ceiling, before and after."""

    label: str
    before: str
    after: str
    raised: bool


def changes(before: Ceiling, after: Ceiling) -> list[Change]:
    """Return what a new ceiling changes; a part is raised if it permits more disclosure."""
    changed = [
        Change(label, f"{old:g}", f"{new:g}", new > old)
        for label, old, new in (("epsilon", before.epsilon, after.epsilon), ("delta", before.delta, after.delta))
        if old != new
    ]
    if before.per_study != after.per_study:
        old, new = (float("inf") if value is None else value for value in (before.per_study, after.per_study))
        changed.append(Change("epsilon of one study", _limit(before.per_study), _limit(after.per_study), new > old))
    if before.unit.kind != after.unit.kind:
        # The same epsilon permits more disclosure about a person if it is counted per record.
        changed.append(Change("what it is per", before.unit.kind, after.unit.kind, after.unit.kind == "record"))
    fewer, more = (unit.rows_per_subject for unit in (after.unit, before.unit))
    if fewer != more:
        lowered = more is not None and (fewer is None or fewer < more)
        changed.append(Change("records per subject at most", _stated(more), _stated(fewer), lowered))
    return changed


def _limit(value: float | None) -> str:
    return "no ceiling of its own" if value is None else f"{value:g}"


def _stated(rows: int | None) -> str:
    return "not stated" if rows is None else str(rows)


def _seen(fields: Fields) -> int:
    return fields.count("seen", "the row that was seen")
