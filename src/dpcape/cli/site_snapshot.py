"""``dpcape site snapshot``: a local copy of a remote source, or of a query."""

from __future__ import annotations

from pathlib import Path

import click

from dpcape.cli.output import show


@click.command()
@click.argument("source", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.argument("target", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--replace", is_flag=True, help="Replace TARGET if it exists.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def snapshot(source: Path, target: Path, replace: bool, as_json: bool) -> None:
    """Copy what SOURCE describes into the local file TARGET, before it is registered with 'dpcape site add'.

    A process of its own reads the source: it connects to the one host that SOURCE names, sees neither ledger nor keys,
    and can write nothing but the copy. The vault reads only the copy.
    """
    from dpcape.site.snapshot import SourceFile
    from dpcape.site.snapshot import snapshot as copy

    size = copy(SourceFile.load(source), target, replace=replace)
    show({"snapshot": str(target), "bytes": size}, as_json)
