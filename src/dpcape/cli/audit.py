"""``dpcape audit``: attack analyses through the real protocols and compare the result with the guarantee."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from dpcape.core.errors import InvalidParameter
from dpcape.core.protocols.dealt_noise import DEALER
from dpcape.core.protocols.registry import plannable

if TYPE_CHECKING:
    from rich.console import Console

    from dpcape.audit.adversaries import Adversary
    from dpcape.audit.audit import AuditResult
    from dpcape.audit.cases import Case
    from dpcape.core.noise import NoiseSource

_TRIALS = 100_000
_HALF = {"own": 0.5, "draw": 0.5, DEALER: 0.5}


@click.command()
@click.argument("analyses", nargs=-1, metavar="[ANALYSIS]... | STUDY.toml")
@click.option("--all", "every", is_flag=True, help="Audit every analysis.")
@click.option("--list", "listing", is_flag=True, help="Name the analyses and the adversaries.")
@click.option("--protocol", type=click.Choice(list(plannable())), help="Only adversaries of this protocol.")
@click.option("--epsilon", type=float, default=1.0, show_default=True, help="Privacy parameter epsilon.")
@click.option("--delta", type=float, default=1e-2, show_default=True, help="Smaller values need more trials.")
@click.option("--trials", type=click.IntRange(min=1000), help="Default: 100000; for a study 50000.")
@click.option("--seed", type=int, help="Seed for repeatable noise; by default the operating system's.")
@click.option("--half-noise", is_flag=True, help="Halve the noise to confirm that the audit detects it.")
@click.option("--site", help="With a study: the site to attack; by default the first.")
@click.option(
    "--run",
    "run_folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="With a study: folder of its run; the findings are added to its report.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON list and nothing else.")
@click.pass_context
def audit(
    context: click.Context,
    analyses: tuple[str, ...],
    every: bool,
    listing: bool,
    protocol: str | None,
    epsilon: float,
    delta: float,
    trials: int | None,
    seed: int | None,
    half_noise: bool,
    site: str | None,
    run_folder: Path | None,
    as_json: bool,
) -> None:
    """Attack analyses and compare measured leakage with the guarantee.

    Each audit runs the analysis once on synthetic records of four sites and searches for the two persons whose
    releases differ most. It then repeats the releases many times through both sides of the protocol, with either
    person, and distinguishes them with the best test. Hits and false alarms give lower bounds on epsilon.

    With a study file, the study's own analysis, protocol, sites, epsilon and delta are attacked, on synthetic records
    of the shape it declares; everything that sites send except noisy vectors is compared between neighbouring data
    sets.
    """
    from dpcape.audit.adversaries import ADVERSARIES
    from dpcape.audit.audit import audit as attacked
    from dpcape.audit.cases import CASES

    if listing:
        _list()
        return
    factors = _HALF if half_noise else {}
    study = _study_file(context, analyses)
    if study is not None:
        from dpcape.audit.study_audit import TRIALS
        from dpcape.cli.audit_study import audit_study_file

        options: Any = {"site": site, "factors": factors, "run": run_folder, "as_json": as_json}
        sys.exit(audit_study_file(study, n_trials=trials or TRIALS, noise=_noise(seed), **options))
    if site is not None or run_folder is not None:
        raise InvalidParameter("--site and --run", "come with a study file", "none", "Write: dpcape audit STUDY.toml.")
    # Hyphens and underscores mean the same, as in study files.
    names = tuple(CASES) if every else tuple(name.replace("_", "-") for name in analyses)
    unknown = sorted(set(names) - set(CASES))
    if unknown or not names:
        got = ", ".join(unknown) if unknown else "no name"
        raise InvalidParameter("ANALYSIS", f"be one of {', '.join(CASES)}", got, "Name some, or use --all.")
    adversaries = [a for a in ADVERSARIES if protocol in (None, a.protocol.name)]
    jobs = [(CASES[name], adversary) for name in names for adversary in adversaries]
    noise, n_trials = _noise(seed), trials or _TRIALS

    def attack(case: Case, adversary: Adversary) -> AuditResult:
        return attacked(case, adversary, epsilon=epsilon, delta=delta, n_trials=n_trials, noise=noise, factors=factors)

    findings = _run(jobs, attack)
    if as_json:
        click.echo(json.dumps([finding.to_dict() for finding in findings]))
    else:
        _show(findings, half_noise)
    sys.exit(any(finding.refuted for finding in findings))


def _study_file(context: click.Context, named: tuple[str, ...]) -> Path | None:
    """Return the study file that was named, if any; refuse options that the study file states itself."""
    files = [name for name in named if name.endswith(".toml")]
    if not files:
        return None
    stated = ("epsilon", "delta", "protocol", "every")
    besides = [name for name in stated if context.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    if len(named) > 1 or besides:
        got = f"--{'all' if besides[0] == 'every' else besides[0]}" if besides else f"{len(named)} names"
        must = "be audited with its own epsilon, delta and protocol"
        raise InvalidParameter("A study file", must, f"{got} as well", "Write: dpcape audit STUDY.toml.")
    return Path(files[0])


def _noise(seed: int | None) -> Callable[[int], NoiseSource]:
    from dpcape.core.noise import OsNoise, Replay

    return lambda batch: OsNoise() if seed is None else Replay(seed).child(batch)


def _run(jobs: Sequence[tuple[Case, Adversary]], attack: Callable[[Case, Adversary], AuditResult]) -> list[AuditResult]:
    from rich.console import Console
    from rich.progress import Progress

    findings = []
    # Progress goes to standard error, so that --json stays clean.
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=len(jobs))
        for case, adversary in jobs:
            progress.update(task, description=f"{case.name}: {adversary.name}")
            findings.append(attack(case, adversary))
            progress.advance(task)
    return findings


def _show(findings: list[AuditResult], half_noise: bool) -> None:
    from rich.console import Console

    first = findings[0]
    console = Console()
    if half_noise:
        console.print("[bold]With half the noise[/]: every guarantee should be refuted.\n")
    for name, group in groupby(findings, lambda finding: finding.analysis):
        _show_analysis(console, name, list(group))
    console.print(
        f"Epsilons at delta {first.delta:g}, from {first.n_trials} trials with each of two people. 'At least' is the "
        "lower bound from hits and false alarms, 'Gaussian' the one from the largest mu they exclude; a bound "
        f"above the guarantee is wrong with probability at most {first.alpha:g}. 'Reached' is the share of the "
        "sensitivity that the worst pair found uses. An audit can refute a guarantee, never prove it.",
        style="dim",
    )


def _show_analysis(console: Console, name: str, findings: list[AuditResult]) -> None:
    from rich.table import Table

    n_releases = findings[0].n_releases
    console.print(f"[bold]{name}[/], {n_releases} release{'s' if n_releases > 1 else ''}")
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("adversary")
    for title in ("guaranteed", "at least", "Gaussian", "reached"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("finding", no_wrap=True)
    for finding in findings:
        table.add_row(
            finding.adversary,
            f"{finding.claimed_epsilon:.4g}",
            f"{finding.epsilon:.3f}",
            f"{finding.gaussian_epsilon:.3f}",
            f"{100 * finding.reached:.0f}%",
            "[bold red]REFUTED[/]" if finding.refuted else "not refuted",
        )
    console.print(table)
    console.print()


def _list() -> None:
    from dpcape.audit.adversaries import ADVERSARIES
    from dpcape.audit.cases import CASES

    click.echo("analyses: " + ", ".join(CASES))
    click.echo("adversaries:")
    for adversary in ADVERSARIES:
        click.echo(f"  {adversary.name} ({adversary.protocol.name})")
