"""The command line. Commands live in modules of their own and are imported when they are called."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import click

from dpcape._version import __version__
from dpcape.errors import DpcapeError

# command -> (module, one line of help)
_COMMANDS = {
    "account": ("planning", "Tell which guarantee given noise scales really have."),
    "demo": ("demo", "Run a 4-site CAPE study on bundled data and write a report page."),
    "plan": ("planning", "Tell how noisy a study would be, before anything is spent."),
}


class _Commands(click.Group):
    """Imports a command on first use; turns dpcape's own errors into one line and exit code 2."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = import_module(f"dpcape.cli.{_COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, cmd_name.replace("-", "_"))
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in sorted(_COMMANDS.items())])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except DpcapeError as error:
            click.echo(f"dpcape: {error}", err=True)
            sys.exit(2)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def main() -> None:
    """Joint analyses across sites that may not pool their data, under differential privacy."""
