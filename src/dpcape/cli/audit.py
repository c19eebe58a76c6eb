"""``dpcape audit``: attack analyses through the real protocols and compare the result with the guarantee."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import click

from dpcape.errors import InvalidParameter
from dpcape.protocols import PLANNABLE
from dpcape.protocols.dealer import DEALER

if TYPE_CHECKING:
    from rich.console import Console

    from dpcape.audit import Adversary, AuditResult, Case
    from dpcape.noise import NoiseSource

_HALF = {"own": 0.5, "draw": 0.5, DEALER: 0.5}


@click.command()
@click.argument("analyses", nargs=-1)
@click.option("--all", "every", is_flag=True, help="Audit every analysis.")
@click.option("--list", "listing", is_flag=True, help="List the analyses and the adversaries.")
@click.option("--protocol", type=click.Choice(list(PLANNABLE)), help="Use only adversaries of this protocol.")
@click.option("--epsilon", type=float, default=1.0, show_default=True, help="Privacy parameter epsilon to test.")
@click.option(
    "--delta",
    type=float,
    default=1e-2,
    show_default=True,
    help="Privacy parameter delta to test; a smaller delta needs more trials.",
)
@click.option(
    "--trials",
    type=click.IntRange(min=1000),
    default=100_000,
    show_default=True,
    help="Trials with each of two neighbouring data sets.",
)
@click.option("--seed", type=int, help="Seed for reproducible noise; by default noise comes from the operating system.")
@click.option("--half-noise", is_flag=True, help="Halve the noise to confirm that the audit detects it.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON list and nothing else.")
def audit(
    analyses: tuple[str, ...],
    every: bool,
    listing: bool,
    protocol: str | None,
    epsilon: float,
    delta: float,
    trials: int,
    seed: int | None,
    half_noise: bool,
    as_json: bool,
) -> None:
    """Attack analyses and compare measured leakage with the guarantee.

    Each audit runs the analysis once on synthetic records of four sites and searches for the two people whose data
    change the releases most. It then repeats the releases many times through the real protocol code, with the data of
    either person, and applies the best test to the adversary's whole view. Hits and false alarms give lower bounds on
    epsilon. The exit status is 1 if a guarantee is refuted.
    """
    from dpcape.audit import ADVERSARIES, CASES
    from dpcape.audit import audit as attacked

    if listing:
        _list()
        return
    # Study files write linear_regression.
    names = tuple(CASES) if every else tuple(name.replace("_", "-") for name in analyses)
    unknown = sorted(set(names) - set(CASES))
    if unknown or not names:
        got = f"got {', '.join(unknown)}" if unknown else "none was named"
        raise InvalidParameter(f"ANALYSES must be some of {', '.join(CASES)}; {got}. Name them, or use --all.")
    adversaries = [a for a in ADVERSARIES if protocol in (None, a.protocol.name)]
    jobs = [(CASES[name], adversary) for name in names for adversary in adversaries]
    factors = _HALF if half_noise else {}
    noise = _noise(seed)

    def attack(case: Case, adversary: Adversary) -> AuditResult:
        return attacked(case, adversary, epsilon=epsilon, delta=delta, n_trials=trials, noise=noise, factors=factors)

    findings = _run(jobs, attack)
    if as_json:
        click.echo(json.dumps([finding.to_dict() for finding in findings]))
    else:
        _show(findings, half_noise)
    sys.exit(any(finding.refuted for finding in findings))


def _noise(seed: int | None) -> Callable[[int], NoiseSource]:
    from dpcape.noise import OsNoise, Replay

    def source(batch: int) -> NoiseSource:
        return OsNoise() if seed is None else Replay(seed).child(batch)

    return source


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
    for name, found in groupby(findings, lambda finding: finding.analysis):
        _show_analysis(console, name, list(found))
    console.print(
        f"Epsilons at delta {first.delta:g}, from {first.n_trials} trials with each of two people. 'At least' is the "
        "lower bound from hits and false alarms only, 'Gaussian' the one from the largest mu they exclude; a bound "
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
    for found in findings:
        table.add_row(
            found.adversary,
            f"{found.claimed_epsilon:.4g}",
            f"{found.epsilon:.3f}",
            f"{found.gaussian_epsilon:.3f}",
            f"{100 * found.reached:.0f}%",
            "[bold red]REFUTED[/]" if found.refuted else "not refuted",
        )
    console.print(table)
    console.print()


def _list() -> None:
    from dpcape.audit import ADVERSARIES, CASES

    click.echo("analyses: " + ", ".join(CASES))
    click.echo("adversaries:")
    for adversary in ADVERSARIES:
        click.echo(f"  {adversary.name} ({adversary.protocol.name})")
