"""``dpcape site serve-page``: the steward's page, in a browser on the same computer."""

from __future__ import annotations

import signal
from pathlib import Path

import click

from dpcape.cli.site_check import folder_option


@click.command("serve-page")
@click.argument("studies", nargs=-1, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@folder_option
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port on 127.0.0.1; by default any free one.")
@click.option(
    "--idle-minutes",
    type=click.IntRange(1, 480),
    default=30,
    show_default=True,
    help="Stop after this many minutes without a request.",
)
def serve_page(studies: tuple[Path, ...], folder: Path, port: int, idle_minutes: int) -> None:
    """Review and decide in the browser, on this computer only.

    STUDIES are study files to show on the page; those reviewed here before are shown already.
    """
    from dpcape.site.folder import SiteFolder
    from dpcape.steward.decisions import present
    from dpcape.steward.server import StewardServer

    site = SiteFolder(folder)
    for text in site.news():
        click.echo(f"Note: {text}")
    for path in studies:
        present(site, site.load_study(path))
    server = StewardServer(site, port=port, idle_seconds=60.0 * idle_minutes, tell=click.echo)
    signal.signal(signal.SIGTERM, lambda *_: server.stop())
    click.echo(f"The steward's page of {site.name}: {server.address}")
    click.echo(f"Code to sign in, works once: {server.door.code}")
    click.echo("For this computer only. Ctrl-C ends it.")
    try:
        idle = server.run()
    except KeyboardInterrupt:
        idle = False
    click.echo(f"Ended after {idle_minutes} minutes without a request." if idle else "Ended.")
