"""``dpcape schema``: a schema file from a public data dictionary."""

from __future__ import annotations

from pathlib import Path

import click

from dpcape.cli.output import show


@click.command()
@click.argument("dictionary", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("schema.toml"),
    show_default=True,
    help="Schema file to write.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def schema(dictionary: Path, out: Path, as_json: bool) -> None:
    """Propose ranges and levels from a REDCap data dictionary, which is public; no record is read."""
    from dpcape.core.errors import Failed
    from dpcape.schema.redcap import read_dictionary

    proposal = read_dictionary(dictionary)
    # Raises if the proposal is not a valid schema.
    proposal.schema()
    if out.exists():
        raise Failed(f"{str(out)!r} exists", remedy="Choose another name with --out.")
    out.write_text(proposal.toml(), encoding="utf-8")
    show({"schema": str(out), "columns": len(proposal.columns), "left_out": len(proposal.left_out)}, as_json)
