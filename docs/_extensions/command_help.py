"""The directive ``command-help``: the help text of every command, taken from the commands themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
from docutils import nodes
from docutils.parsers.rst import Directive


def commands(command: click.Command, path: str, parent: click.Context | None = None) -> Iterator[tuple[str, str]]:
    """Yield path and help text of a command and everything below it."""
    context = click.Context(command, info_name=path.split()[-1], parent=parent, terminal_width=84, max_content_width=84)
    yield path, command.get_help(context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None and not below.hidden:
                yield from commands(below, f"{path} {name}", context)


class CommandHelp(Directive):
    """A section per command, with its help text."""

    def run(self) -> list[nodes.Node]:
        """Return the sections."""
        from dpcape.cli import main

        sections: list[nodes.Node] = []
        for path, text in commands(main, "dpcape"):
            section = nodes.section(ids=[nodes.make_id(path)], names=[nodes.fully_normalize_name(path)])
            section += nodes.title(text=path)
            section += nodes.literal_block(text, text, language="text")
            sections.append(section)
        return sections


def setup(app: Any) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_directive("command-help", CommandHelp)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
