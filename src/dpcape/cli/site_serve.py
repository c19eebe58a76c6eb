"""``dpcape site serve``: put a site folder on the federation."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    envvar="DPCAPE_SITE",
    help="The site's folder; the current one, or $DPCAPE_SITE, if absent.",
)
@click.option(
    "--kit",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    required=True,
    help="The kit with this site's certificate, from the coordinator.",
)
@click.option("--data", default=None, help="Serve this data set only; by default the one each approval names.")
@click.option(
    "--replay-for-tests",
    type=int,
    default=None,
    help="Seed of replayable noise. For tests alone: every guarantee then says 'no protection'.",
)
def serve(folder: Path, kit: Path, data: str | None, replay_for_tests: int | None) -> None:
    """Serve approved studies in the foreground, until stopped.

    Nothing runs here that was not approved with 'dpcape site approve'.
    """
    from dpcape.engines.flare.start_kit import become, prepare_site, require_own_kit
    from dpcape.site.folder import SiteFolder

    site = SiteFolder(folder)
    require_own_kit(kit, site.name)
    prepare_site(kit, folder, data=data, replay_for_tests=replay_for_tests)
    click.echo(
        f"{site.name} serves approved studies. Identity {site.identity.fingerprint()}. Ctrl-C ends it.", err=True
    )
    become(kit)
