"""The commands ``dpcape papers`` and ``dpcape reproduce``, which this package adds to dpcape."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console
    from rich.progress import TaskID

    from dpcape_papers.experiments.experiment import Experiment, RunSetting
    from dpcape_papers.experiments.runner import Report


@click.command(
    short_help="Say what a name of the papers, such as capeCCA, is in dpcape.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
def papers(name: str | None, as_json: bool) -> None:
    """Say what a name of the papers, such as capeCCA or DP-djICA, is in dpcape, and what is corrected.

    Without NAME, list all names.
    """
    from dpcape_papers.names.shown import shown_list, shown_name

    click.echo(shown_list(as_json=as_json) if name is None else shown_name(name, as_json=as_json))


@click.command(short_help="Reproduce the papers' figures and tables, with a verdict on each claim.")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--list", "as_list", is_flag=True, help="List all figures and tables, then exit; + accepts --method.")
@click.option("--all", "every", is_flag=True, help="Run all figures and tables.")
@click.option("--quick", is_flag=True, help="Use fewer runs and smaller sizes: about 30 s each.")
@click.option("--data", default=None, help="Folder of the papers' data files (default: the variable DPCAPE_DATA).")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), default=Path("out"), show_default=True,
              help="Output folder.")  # fmt: skip
@click.option(
    "--runs",
    type=click.IntRange(min=1),
    default=None,
    help="Runs to average (default: 10, as in the papers; fewer with --quick).",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True,
              help="Draw other data and other noise.")  # fmt: skip
@click.option("--full", is_flag=True, help="Run every public point at full size; cells already stored are kept.")
@click.option("--stored", is_flag=True, help="Compare the stored full run with the papers' numbers, then exit.")
@click.option("--store", type=click.Path(path_type=Path, file_okay=False), default=None,
              help="Folder of the full run's cells (default: that of the package).")  # fmt: skip
@click.option("--compare", is_flag=True, help="Compare this run with the stored runs at the papers' sizes.")
@click.option("--jobs", type=click.IntRange(min=1), default=2, show_default=True, help="Number of parallel processes.")
@click.option(
    "--method",
    "methods",
    multiple=True,
    metavar="MODULE:NAME",
    help="Add your own method to the comparison; repeatable.",
)
@click.option(
    "--cache",
    type=click.Path(path_type=Path, file_okay=False),
    default=None,
    help="Cache folder (default: OUT/.cache).",
)
def reproduce(
    names: tuple[str, ...],
    as_list: bool,
    every: bool,
    quick: bool,
    data: str | None,
    out: Path,
    runs: int | None,
    seed: int,
    full: bool,
    stored: bool,
    store: Path | None,
    compare: bool,
    jobs: int,
    methods: tuple[str, ...],
    cache: Path | None,
) -> None:
    """Reproduce figures and tables of the papers: data, picture and a verdict on each claim of the text."""
    from dpcape_papers.experiments.registry import choose, experiments

    if as_list:
        _list(list(experiments().values()))
        return
    # Imported here because these modules take a second to load, and --list does not need them.
    from dpcape_papers.experiments.comparison import load_method
    from dpcape_papers.experiments.data import find_data
    from dpcape_papers.experiments.experiment import RunSetting

    chosen = choose(list(experiments()) if every or ((full or stored) and not names) else names)
    if full or stored:
        _full(chosen, RunSetting(quick=False, data=find_data(data), runs=runs, seed=seed), store, full, jobs)
        return
    if not chosen:
        raise click.UsageError("Missing argument NAME. Give at least one name, or use --all; --list shows the names.")
    for method in methods:
        load_method(method)  # report a wrong name before anything runs
    setting = RunSetting(quick=quick, data=find_data(data), runs=runs, methods=methods, seed=seed)
    _run(chosen, setting, out, cache or out / ".cache", jobs)
    if compare:
        _compare(chosen, out)


def _full(chosen: Sequence[Experiment], setting: RunSetting, store: Path | None, compute: bool, jobs: int) -> None:
    """Compute what the full run still lacks, if asked for, and print the three rates of what is stored."""
    from dpcape_papers.experiments.full import FOLDER, full_cells, is_stored, run_full, stored_comparison, summarise
    from dpcape_papers.experiments.index import rates_table

    folder = FOLDER if store is None else store
    cells = full_cells(chosen, setting, folder)
    # Treat SIGTERM like Ctrl-C: finished cells are kept.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        for one in run_full(cells, setting.data, jobs) if compute else ():
            click.echo(f"{one.figure} {one.path.stem}", err=True)
    finally:
        if compute:
            summarise(chosen, folder)
        n_stored = sum(is_stored(one, setting.data) for one in cells)
        click.echo(f"{n_stored} of {len(cells)} cells are stored in {folder}.")
        click.echo(rates_table(stored_comparison(chosen, setting.data, folder)))


def _compare(chosen: Sequence[Experiment], out: Path) -> None:
    """Print how the figures just run agree with the stored ones."""
    from dpcape_papers.experiments.folder import read_rows
    from dpcape_papers.experiments.stored import load, recheck

    for one in chosen:
        found = recheck(one.name, read_rows(out / one.name))
        if found.n_points:
            click.echo(str(found))
        else:
            why = "it needs the authors' numbers in the data folder" if load(one.name) else "none is stored"
            click.echo(f"{one.name}: not compared with a stored run: {why}")


def _list(known: Sequence[Experiment]) -> None:
    width = max(len(one.name) for one in known)
    for one in known:
        mark = "+" if one.extendable else " "
        click.echo(f"{one.name:<{width}} {mark} {one.label}: {one.title}")


def _run(chosen: Sequence[Experiment], setting: RunSetting, out: Path, cache: Path, jobs: int) -> None:
    import matplotlib as mpl
    from rich.console import Console

    from dpcape_papers.experiments.index import comparison_table, write_index
    from dpcape_papers.experiments.registry import experiments
    from dpcape_papers.experiments.runner import run

    mpl.use("Agg")
    # Treat SIGTERM like Ctrl-C: finished cells and figures are kept.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with _Bars(Console(stderr=True)) as progress:
            reports = run(chosen, setting, out, cache=cache, jobs=jobs, progress=progress)
    finally:
        click.echo(f"Index: {write_index(out, list(experiments()))}")
        click.echo(comparison_table(out, [one.name for one in chosen]))
    failed = [report for report in reports if report.failures]
    for report in failed:
        for failure in report.failures:
            click.echo(f"{report.experiment.name}: {failure}", err=True)
    if failed:
        click.echo(f"{len(failed)} of {len(reports)} experiments failed; the others are complete.", err=True)
        sys.exit(1)


class _Bars:
    """Progress display: one bar per running experiment, replaced by one line when it ends."""

    def __init__(self, console: Console) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._bars = Progress(*columns, console=console, transient=True)
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> _Bars:
        self._bars.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bars.stop()

    def begin(self, experiment: Experiment, n_cells: int, n_kept: int) -> None:
        self._tasks[experiment.name] = self._bars.add_task(experiment.name, total=n_cells, completed=n_kept)

    def advance(self, experiment: Experiment) -> None:
        self._bars.advance(self._tasks[experiment.name])

    def end(self, report: Report) -> None:
        from dpcape_papers.experiments.index import outcome_counts

        self._bars.remove_task(self._tasks.pop(report.experiment.name))
        said = "failed" if report.failures else outcome_counts([verdict.outcome for verdict in report.verdicts])
        self._bars.console.print(f"{report.experiment.name}: {said}", highlight=False)
