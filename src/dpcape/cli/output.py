"""How commands print results: a table for people, one JSON object for scripts."""

from __future__ import annotations

import json
from collections.abc import Mapping

import click


def show(result: Mapping[str, object], as_json: bool) -> None:
    """Print a result as one JSON object, or as a table of names and values."""
    if as_json:
        click.echo(json.dumps(result))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for key, value in result.items():
        table.add_row(key.replace("_", " "), _shown(value))
    Console().print(table)


def _shown(value: object) -> str:
    if value is None:
        return "infinite: not protected"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        return "; ".join(str(entry) for entry in value)
    return str(value)
