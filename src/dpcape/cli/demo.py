"""``dpcape demo``."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("demo"),
    show_default=True,
    help="Folder for the report.",
)
@click.option("--replay", type=int, default=None, help="Seed for reproducible noise, which protects nothing.")
def demo(out: Path, replay: int | None) -> None:
    """Run a four-site CAPE study on bundled data and write a report."""
    from dpcape.cli.demo_study import run_demo

    run_demo(out, replay)
