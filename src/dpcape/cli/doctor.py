"""``dpcape doctor``."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from dpcape.study.study import Study

_folder = click.Path(path_type=Path, exists=True, file_okay=False)


@click.command()
@click.option("--study", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="Check for this study.")
@click.option("--folder", type=_folder, help="A site's folder: identity, ledger, approval, data.")
@click.option("--kit", type=_folder, help="A participant's kit: permissions, clock, TLS.")
@click.option("--federation", type=_folder, help="The coordinator's folder: versions and clocks on both ends.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def doctor(study: Path | None, folder: Path | None, kit: Path | None, federation: Path | None, as_json: bool) -> None:
    """Check readiness for a study and suggest fixes; exit with code 1 if anything needs one."""
    from dpcape.cli.diagnosis import Diagnosis, examine
    from dpcape.core.errors import DpcapeError

    findings, loaded = [], None
    try:
        loaded = None if study is None else _loaded(study, folder)
    except DpcapeError as error:
        findings = [Diagnosis("study", False, str(error))]
    findings += examine(study=loaded, folder=folder, kit=kit, federation=federation)
    good = all(finding.good for finding in findings)
    if as_json:
        click.echo(json.dumps({"good": good, "findings": [asdict(finding) for finding in findings]}))
    else:
        for finding in findings:
            click.echo(f"{'ok     ' if finding.good else 'NOT OK '}{finding.subject}: {finding.text}")
    sys.exit(0 if good else 1)


def _loaded(study: Path, folder: Path | None) -> Study:
    """Return the study. At a site no code of another package is loaded: this process can read records and keys."""
    from dpcape.analyses.registry import ANY_PACKAGE
    from dpcape.site.folder import SiteFolder
    from dpcape.study.study import Study

    return Study.load(study, packages=ANY_PACKAGE) if folder is None else SiteFolder(folder).load_study(study)
