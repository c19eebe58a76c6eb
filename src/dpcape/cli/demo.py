"""``dpcape demo``."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), default=Path("demo"), show_default=True)
@click.option("--replay", type=int, default=None, help="Seed for replayable noise: reproducible, and no protection.")
def demo(out: Path, replay: int | None) -> None:
    """Run a 4-site CAPE study on bundled data and write a report page."""
    from dpcape.cli.demo_study import run_demo

    run_demo(out, replay)
