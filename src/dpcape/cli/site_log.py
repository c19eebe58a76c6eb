"""``dpcape site log``: show, verify, export and repair a site's ledger."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpcape.cli.output import show
from dpcape.core.errors import InvalidParameter
from dpcape.core.privacy.ledger import Charge
from dpcape.pages.numbers import round_up
from dpcape.site.chain_head import Head
from dpcape.site.hash_chain import Entry
from dpcape.site.ledger import State

if TYPE_CHECKING:
    from dpcape.site.folder import SiteFolder


def show_rows(site_folder: SiteFolder, data: str | None, as_json: bool) -> None:
    """Print the rows, all of them or those of one data set; below a charge, what was spent before and after it."""
    rows = site_folder.chain.entries()
    known = sorted(State.of(rows).ceilings)
    if data is not None and data not in known:
        raise InvalidParameter("DATA", f"be one of {', '.join(known)}", repr(data), "See: dpcape site log.")
    entries = [entry for entry in rows if data is None or entry.body.get("data") == data]
    if as_json:
        click.echo(json.dumps({"site": site_folder.name, "rows": [entry._asdict() for entry in entries]}))
        return
    spending = _spending(rows)
    for entry in entries:
        texts = {key: str(value) for key, value in sorted(entry.body.items()) if value is not None}
        detail = ", ".join(f"{key} {text if len(text) <= 40 else text[:16] + '...'}" for key, text in texts.items())
        click.echo(f"{entry.number:>6}  {entry.time}  {entry.kind:<8} {detail}")
        if entry.number in spending:
            click.echo(f"{'':>6}  {spending[entry.number]}")


def _spending(rows: Sequence[Entry]) -> dict[int, str]:
    """Return, by number of a charge's row, what its data set had spent before and after it."""
    state, texts = State.of(rows), {}
    numbers = [entry.number for entry in rows if entry.kind == "charge"]
    charges: dict[str, list[Charge]] = {}
    for number, charged in zip(numbers, state.charges, strict=True):
        ceiling, paid = state.ceilings.get(charged.data), charges.setdefault(charged.data, [])
        if ceiling is None:
            continue
        before = round_up(ceiling.spent(paid))
        paid.append(charged.charge)
        after = round_up(ceiling.spent(paid))
        limit = f"at delta {ceiling.delta:g} {ceiling.unit}, today's ceiling {ceiling.epsilon:g}"
        texts[number] = f"{charged.data}: epsilon {before} before, {after} after ({limit})"
    return texts


def verify(site_folder: SiteFolder, as_json: bool) -> None:
    """Check every row and the copy of the head."""
    head = site_folder.chain.verify()
    show({"site": site_folder.name, "verified": True, "rows": head.length, "head": head.hash}, as_json)


def export(site_folder: SiteFolder, path: Path, as_json: bool) -> None:
    """Write every row as one JSON line, with its hash: enough to check the chain elsewhere."""
    entries = site_folder.chain.entries()
    lines = (json.dumps(entry._asdict(), sort_keys=True) for entry in entries)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    show({"site": site_folder.name, "rows": len(entries), "file": str(path), "head": entries[-1].hash}, as_json)


def accept_head(site_folder: SiteFolder, *, reason: str, lost: Sequence[str], seen: str | None) -> None:
    """Accept a ledger that lost rows, with what may have been spent in them."""
    if not lost:
        remedy = "Write --lost DATA:EPSILON:DELTA per data set, or --lost none if certain."
        raise InvalidParameter("--lost", "state what the missing rows may have spent", "no --lost", remedy)
    pairs = [] if tuple(lost) == ("none",) else [_amount(text) for text in lost]
    amounts = dict(pairs)
    if len(amounts) != len(pairs):
        raise InvalidParameter("--lost", "be given once per data set", "one data set twice", "Add the amounts up.")
    site_folder.accept_head(reason=reason, lost=amounts, seen=None if seen is None else _head(seen))


def _amount(text: str) -> tuple[str, tuple[float, float]]:
    try:
        name, epsilon, delta = text.split(":")
        return name, (float(epsilon), float(delta))
    except ValueError as error:
        remedy = "Write for example --lost cohort:0.5:1e-6."
        raise InvalidParameter("--lost", "be DATA:EPSILON:DELTA", repr(text), remedy) from error


def _head(text: str) -> Head:
    length, _, digest = text.partition(":")
    if not length.isdigit() or len(digest) != 64:
        raise InvalidParameter("--seen", "be LENGTH:HASH", repr(text), "Copy both from the coordinator.")
    return Head(int(length), digest)
