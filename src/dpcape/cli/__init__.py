"""The command line. Commands live in modules of their own and are imported when they are called."""

from __future__ import annotations

import errno
import sys
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import click

from dpcape.core._version import __version__
from dpcape.core.errors import DpcapeError, LedgerRefused

# command -> (module, one line of help)
_COMMANDS = {
    "account": ("plan", "Compute the guarantee that given noise scales provide."),
    "audit": ("audit", "Attack analyses and compare measured leakage with the guarantee."),
    "demo": ("demo", "Run a four-site CAPE study on bundled data and write a report."),
    "doctor": ("doctor", "Check readiness for a study: clock, TLS, data, bounds, ledger, versions."),
    "federation": ("federation", "Set up and operate a federation on NVIDIA FLARE."),
    "mechanisms": ("mechanisms", "List mechanisms as verified, claimed or broken, with reasons."),
    "plan": ("plan", "Estimate a study's noise without spending budget."),
    "report": ("run", "Write the report of a run again, from its folder."),
    "run": ("run", "Run a study, in process or on the federation it names."),
    "schema": ("schema", "Propose a schema file from a REDCap data dictionary."),
    "site": ("site", "Manage a site: identity, data sets, ceilings, approvals, ledger."),
}
# Entry-point group of commands in other distributions, and the distributions of commands that users expect here.
_ADDED = "dpcape.commands"
_ELSEWHERE = {
    "papers": ("the names of the papers", "dpcape-papers"),
    "reproduce": ("the papers' figures", "dpcape-papers"),
}


def _added() -> dict[str, EntryPoint]:
    """Return commands that installed distributions add; dpcape's own names stay its own."""
    return {point.name: point for point in entry_points(group=_ADDED) if point.name not in _COMMANDS}


class _Commands(click.Group):
    """Imports a command on first use; turns dpcape's own errors into one line and exit code 2 (3: refused)."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*_COMMANDS, *_added()])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _COMMANDS:
            module = import_module(f"dpcape.cli.{_COMMANDS[cmd_name][0]}")
            command: click.Command = getattr(module, cmd_name.replace("-", "_"))
            return command
        if (added := _added().get(cmd_name)) is not None:
            command = added.load()
            return command
        if cmd_name in _ELSEWHERE:
            what, distribution = _ELSEWHERE[cmd_name]
            ctx.fail(f"{cmd_name} needs {what}, which are not installed. Run: pip install {distribution}")
        return None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            own = {name: text for name, (_, text) in _COMMANDS.items()}
            added = {name: point.load().get_short_help_str(limit=100) for name, point in _added().items()}
            formatter.write_dl(sorted({**own, **added}.items()))

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except DpcapeError as error:
            click.echo(f"dpcape: {error}", err=True)
            # Scripts distinguish a refusal (3) from a usage error (2).
            sys.exit(3 if isinstance(error, LedgerRefused) else 2)
        except OSError as error:
            if error.errno == errno.EPIPE:
                # The reader of the pipe closed it; click exits quietly.
                raise
            file = "a file" if error.filename is None else repr(str(error.filename))
            why = f"{file} could not be used because: {error.strerror or type(error).__name__}"
            click.echo(f"dpcape: {why}. Check the path, its permissions and the space on its disk.", err=True)
            sys.exit(2)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def main() -> None:
    """Run differentially private analyses across sites that cannot pool their data."""
