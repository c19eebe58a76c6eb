"""``dpcape mechanisms``: mechanisms as verified, claimed or broken, and the evidence for claims of the papers."""

from __future__ import annotations

import difflib
import json
import shutil
import textwrap
from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import entry_points
from typing import Any

import click

from dpcape.analyses.description import CONDITIONAL
from dpcape.analyses.mechanisms import BROKEN, PUBLISHED, VERIFIED, Mechanism
from dpcape.analyses.mechanisms import mechanisms as own_mechanisms
from dpcape.core.errors import InvalidParameter

# Claims of papers are provided by the distribution that checks them.
Claim = Any


@click.command()
@click.option("--claims", "listing", is_flag=True, help="List every theorem and claim of the papers, with the verdict.")
@click.option("--claim", "key", help="Compute the evidence for the verdict on one claim.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
def mechanisms(listing: bool, key: str | None, as_json: bool) -> None:
    """List mechanisms as verified, claimed or broken, with reasons."""
    if key is not None:
        _show_claim(_claim(key), as_json)
    elif listing:
        _show_claims(as_json)
    else:
        _show_mechanisms(as_json)


def _claims() -> dict[str, Claim]:
    """Return the claims that installed distributions check."""
    return {key: entry for point in entry_points(group="dpcape.claims") for key, entry in point.load().items()}


def _claim(key: str) -> Claim:
    claims = _required_claims()
    if key not in claims:
        near = difflib.get_close_matches(key, claims, n=3)
        remedy = f" Did you mean {' or '.join(near)}?" if near else ""
        raise InvalidParameter("--claim", f"be one of {', '.join(claims)}", f"{key!r}.{remedy}")
    return claims[key]


def _required_claims() -> dict[str, Claim]:
    claims = _claims()
    if not claims:
        raise click.UsageError("The papers' claims are not installed. Run: pip install dpcape-papers")
    return claims


def _show_mechanisms(as_json: bool) -> None:
    """Show the mechanisms of dpcape and of installed distributions, verified ones first."""
    added: list[Mechanism] = [entry for point in entry_points(group="dpcape.mechanisms") for entry in point.load()]
    order = (VERIFIED, CONDITIONAL, PUBLISHED, BROKEN)
    entries = sorted([*added, *own_mechanisms()], key=lambda entry: order.index(entry.status))
    if as_json:
        click.echo(json.dumps([asdict(entry) for entry in entries]))
        return
    known = _claims()
    for entry in entries:
        audits = [f"dpcape audit {name}" for name in entry.analyses]
        see = [*audits, *(f"dpcape mechanisms --claim {name}" for name in entry.claims if name in known)]
        _entry(entry.name, entry.status, {"Why": entry.reason, "Source": entry.reference, "See": "\n".join(see)})


def _show_claims(as_json: bool) -> None:
    claims = _required_claims()
    if as_json:
        click.echo(json.dumps([_plain(entry) for entry in claims.values()]))
        return
    for entry in claims.values():
        _entry(entry.key, entry.verdict, _texts(entry))
    click.echo("For the evidence on a claim, run: dpcape mechanisms --claim NAME")


def _show_claim(entry: Claim, as_json: bool) -> None:
    evidence = entry.evidence()
    if as_json:
        click.echo(json.dumps({**_plain(entry), "numbers": evidence.lines, "borne_out": evidence.supports}))
        return
    _entry(entry.key, entry.verdict, _texts(entry))
    for line in evidence.lines:
        click.echo(_filled(line, "  * "))
    if not evidence.supports:
        click.echo("\nThe numbers above do not support the verdict.")
    if entry.figures:
        click.echo(f"\nTo draw the figures, run:\n  dpcape reproduce {' '.join(entry.figures)} --quick --out out")


def _plain(entry: Claim) -> dict[str, object]:
    return {name: getattr(entry, name) for name in ("key", "source", "says", "verdict", "correct", "figures")}


def _texts(entry: Claim) -> dict[str, str]:
    return {"Where": entry.source, "Says": entry.says, "Correct": entry.correct}


def _entry(name: str, standing: str, texts: Mapping[str, str]) -> None:
    """Print a name with its status, and texts under headings, wrapped to the width of the terminal."""
    click.echo(f"{click.style(name, bold=True)}: {standing}")
    for title, text in texts.items():
        for index, line in enumerate(text.splitlines()):
            click.echo(_filled(line, f"  {'' if index else title:<9}"))
    click.echo()


def _filled(text: str, start: str) -> str:
    width = min(shutil.get_terminal_size().columns, 120)
    # Names and numbers are not broken, so that they can be copied.
    return textwrap.fill(
        text,
        width,
        initial_indent=start,
        subsequent_indent=" " * len(start),
        break_on_hyphens=False,
        break_long_words=False,
    )
