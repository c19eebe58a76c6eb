"""``dpcape mechanisms``: what is verified, what is only claimed, what is broken; and the numbers behind it."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from dpcape.published.claims import Claim


@click.command()
@click.option("--claims", "listing", is_flag=True, help="List every theorem and claim of the papers with its verdict.")
@click.option("--claim", "key", help="Compute the numbers behind one claim.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
def mechanisms(listing: bool, key: str | None, as_json: bool) -> None:
    """Print mechanisms as verified, published claim only or broken, with reasons and references."""
    if key is not None:
        from dpcape.published.claims import claim

        _show_claim(claim(key), as_json)
    elif listing:
        _show_claims(as_json)
    else:
        _show_mechanisms(as_json)


def _show_mechanisms(as_json: bool) -> None:
    from dpcape.mechanisms import MECHANISMS

    if as_json:
        click.echo(json.dumps([asdict(entry) for entry in MECHANISMS]))
        return
    _table(
        ("standing", "mechanism", "why", "reference", "see"),
        [
            (
                entry.status,
                entry.name,
                entry.reason,
                entry.reference,
                ", ".join([*(f"audit {name}" for name in entry.analyses), *entry.claims]),
            )
            for entry in MECHANISMS
        ],
    )
    click.echo("\nSee: dpcape audit ANALYSIS, dpcape mechanisms --claim NAME.")


def _show_claims(as_json: bool) -> None:
    from dpcape.published.claims import CLAIMS

    if as_json:
        click.echo(json.dumps([_plain(entry) for entry in CLAIMS.values()]))
        return
    _table(
        ("verdict", "claim", "where", "says", "correct"),
        [(entry.verdict, entry.key, entry.source, entry.says, entry.correct) for entry in CLAIMS.values()],
    )


def _show_claim(entry: Claim, as_json: bool) -> None:
    evidence = entry.evidence()
    if as_json:
        click.echo(json.dumps({**_plain(entry), "numbers": evidence.lines, "borne_out": evidence.supports}))
        return
    click.echo(f"{entry.key}: {entry.verdict}\n")
    click.echo(f"Where    {entry.source}\nSays     {entry.says}\nCorrect  {entry.correct}\n")
    for line in evidence.lines:
        click.echo(f"  * {line}")
    if not evidence.supports:
        click.echo("\nThe numbers above do not bear the verdict out.")
    if entry.figures:
        click.echo(f"\nIn pictures: dpcape reproduce {' '.join(entry.figures)} --quick --out out")


def _plain(entry: Claim) -> dict[str, object]:
    keys = ("key", "source", "says", "verdict", "correct", "figures")
    return {name: getattr(entry, name) for name in keys}


def _table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(header_style="bold", show_lines=True)
    for title in header:
        table.add_column(title, overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console().print(table)
