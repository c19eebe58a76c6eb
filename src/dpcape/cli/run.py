"""``dpcape run`` and ``dpcape report``."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from dpcape.guarantee.release_record import ReleaseRecord
    from dpcape.postprocessing.verdicts import Verdict
    from dpcape.runs.folder import RunFolder
    from dpcape.study.study import Study

# Number of quantities listed on the console.
_SHOWN_VERDICTS = 20
_json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")


@click.command()
@click.argument("study_file", metavar="STUDY.toml", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--rehearse", is_flag=True, help="Run in one process on synthetic records; open no data files.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), default=None, help="Folder of the run.")
@click.option("--again", is_flag=True, help="Start another run after one that was charged; it is charged too.")
@click.option("--resume", is_flag=True, help="Continue a run that stopped, under its charge; nothing is charged again.")
@_json_option
def run(study_file: Path, rehearse: bool, out: Path | None, again: bool, resume: bool, as_json: bool) -> None:
    """Run a study: in process on the files it names, or on the federation it names."""
    from dpcape.analyses.registry import ANY_PACKAGE
    from dpcape.study.study import Study

    study = Study.load(study_file, packages=ANY_PACKAGE)
    default = Path("rehearsals" if rehearse else "runs") / f"{study.name}-{study.digest()[:8]}"
    base = default if out is None else out
    if study.federation is not None and not rehearse:
        from dpcape.runs.in_process import run_on_federation

        folder = run_on_federation(study, base, again=again, resume=resume)
    else:
        folder = _in_process(study, base, rehearse=rehearse, again=again, resume=resume, quiet=as_json)
    _show(folder, as_json)


@click.command()
@click.argument("folder", metavar="RUN", type=click.Path(path_type=Path, file_okay=False))
@_json_option
def report(folder: Path, as_json: bool) -> None:
    """Write the report of a run again, from its folder."""
    from dpcape.core.errors import Failed
    from dpcape.runs.folder import RunFolder
    from dpcape.runs.page import write_run_page
    from dpcape.runs.results import write_results

    run_folder = RunFolder(folder)
    if not run_folder.has_result:
        why = f"the run in {str(folder)!r} has no result yet"
        raise Failed("There is no report", why, "Continue it with: dpcape run STUDY.toml --resume.")
    write_results(run_folder)
    write_run_page(run_folder)
    _show(run_folder, as_json)


def _in_process(study: Study, base: Path, *, rehearse: bool, again: bool, resume: bool, quiet: bool) -> RunFolder:
    from dpcape.runs.in_process import run_in_process

    def progress(release: ReleaseRecord) -> None:
        if not quiet:
            click.echo(f"release {release.number + 1} of {release.n_releases}: {release.statistic}", err=True)

    return run_in_process(study, base, again=again, rehearse=rehearse, resume=resume, progress=progress)


def _show(folder: RunFolder, as_json: bool) -> None:
    guarantee, model = folder.guarantee(), folder.model()
    verdicts = model.verdicts_
    if as_json:
        result = {
            "run": str(folder.path),
            "rehearsal": folder.is_rehearsal,
            "guarantee": guarantee,
            "assumptions": list(model.result().assumptions),
            "verdicts": [asdict(verdict) for verdict in verdicts],
        }
        click.echo(json.dumps(result))
        return
    if folder.is_rehearsal:
        click.echo("Rehearsal on synthetic records: no data file was opened, nothing was charged.")
    if sys.stdout.isatty():
        _print_card(folder)
    click.echo(model.to_text())
    _print_verdicts(verdicts)
    click.echo(f"Guarantee: {guarantee['sentence']}")
    click.echo(f"Figures: {folder.path / 'results.csv'}, results.json; methods for a paper: methods.md")
    click.echo(f"Report: {folder.path / 'report.html'}")


def _print_verdicts(verdicts: Sequence[Verdict]) -> None:
    """Print each quantity with its verdict, and how many there are of each."""
    from dpcape.postprocessing.verdicts import summary

    for verdict in verdicts[:_SHOWN_VERDICTS]:
        click.echo(str(verdict))
    if len(verdicts) > _SHOWN_VERDICTS:
        click.echo(f"... and {len(verdicts) - _SHOWN_VERDICTS} more, in the report")
    if verdicts:
        click.echo(summary(verdicts))


def _print_card(folder: RunFolder) -> None:
    from rich.console import Console

    from dpcape.guarantee.card import card_terminal
    from dpcape.runs.page import run_card

    Console().print(card_terminal(run_card(folder)))
