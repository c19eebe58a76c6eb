"""``dpcape site check``: the site looks at its own data for a study."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from dpcape.site.folder import SiteFolder
    from dpcape.study.study import Study

folder_option = click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    envvar="DPCAPE_SITE",
    help="The site's folder; by default $DPCAPE_SITE, else the current folder.",
)


def study_of(site_folder: SiteFolder, reference: str) -> Study:
    """Return a study by the path of its file, or one that was reviewed here by name or digest."""
    return site_folder.load_study(Path(reference)) if Path(reference).is_file() else site_folder.study(reference)


@click.command()
@click.argument("study")
@click.option("--data", default=None, help="Data set; needed if there are several.")
@click.option(
    "--person", default=None, metavar="COLUMN", help="Column that says whose a row is; usual names are found."
)
@folder_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def check(study: str, data: str | None, person: str | None, folder: Path, as_json: bool) -> None:
    """Show what a study would find in this site's data: for the site alone, nothing is sent or kept.

    Values outside ranges and levels, missing ones and codes for missing, rows that are clipped or there twice, people
    with several rows. Exit code 1 if a red line says that the study would be meaningless here.
    """
    from dpcape.site.folder import SiteFolder
    from dpcape.steward.own_data import check_data, check_lines

    site_folder = SiteFolder(folder)
    loaded, chosen = study_of(site_folder, study), site_folder.chosen(data)
    result = check_data(site_folder, loaded, chosen, person=person)
    if as_json:
        click.echo(json.dumps({"study": loaded.name, "data": chosen, **asdict(result)}))
    else:
        for line in [f"Data set {chosen!r} for study {loaded.name!r}: this stays here.", "", *check_lines(result)]:
            click.secho(line, fg="red" if line.startswith("RED: ") else None)
    sys.exit(1 if result.alarms else 0)
