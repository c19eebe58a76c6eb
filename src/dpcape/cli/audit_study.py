"""``dpcape audit STUDY.toml``: attack a study on synthetic records of its declared shape."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpcape.core.errors import InvalidParameter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dpcape.audit.study_audit import StudyAudit
    from dpcape.core.noise import NoiseSource
    from dpcape.study.study import Study


def audit_study_file(
    path: Path,
    *,
    n_trials: int,
    noise: Callable[[int], NoiseSource],
    site: str | None,
    factors: Mapping[str, float],
    run: Path | None,
    as_json: bool,
) -> bool:
    """Audit a study file, show or save the findings; return whether its guarantee was refuted."""
    from rich.console import Console
    from rich.progress import Progress

    from dpcape.analyses.registry import ANY_PACKAGE
    from dpcape.audit.study_audit import audit_study
    from dpcape.study.study import Study

    study = Study.load(path, packages=ANY_PACKAGE)
    if run is not None:
        _require_run(run, study)
        if factors:
            remedy = "A report shows the study's noise: leave one out."
            raise InvalidParameter("--run", "be used without --half-noise", "both", remedy)
    # Progress goes to standard error, so that --json stays clean.
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=1.0)
        findings = audit_study(
            study,
            progress=lambda words, share: progress.update(task, description=words, completed=share),
            n_trials=n_trials,
            noise=noise,
            site=site,
            factors=factors,
        )
    if run is not None:
        _keep(run, findings)
    if as_json:
        click.echo(json.dumps([finding.to_dict() for finding in findings]))
    else:
        _show(findings)
    return any(finding.refuted for finding in findings)


def _require_run(path: Path, study: Study) -> None:
    from dpcape.runs.folder import RunFolder

    folder = RunFolder(path)
    if not folder.has_result or folder.study().digest() != study.digest():
        must = "be the folder of a finished run of this study"
        raise InvalidParameter("--run", must, repr(str(path)), "Check the path.")


def _keep(path: Path, findings: list[StudyAudit]) -> None:
    """Write the findings into the folder of a run, and its report again."""
    from dpcape.core.files import write_text
    from dpcape.runs.folder import RunFolder
    from dpcape.runs.page import AUDIT, write_run_page

    write_text(path / AUDIT, json.dumps([finding.to_dict() for finding in findings], indent=1) + "\n")
    write_run_page(RunFolder(path))


def _show(findings: list[StudyAudit]) -> None:
    first = findings[0]
    click.echo(
        f"{first.study}: {first.n_releases} release{'' if first.n_releases == 1 else 's'}, one {first.unit} of "
        f"{first.site} replaced, {first.n_trials} trials with either"
    )
    for finding in findings:
        click.echo(f"\n{finding.adversary}: {'REFUTED' if finding.refuted else 'not refuted'}")
        click.echo(
            f"  reached / claimed: {finding.gaussian_epsilon:.3f} / {finding.claimed_epsilon:.4g} = "
            f"{finding.tightness:.2f} (epsilon at delta {finding.delta:g}, Gaussian)"
        )
        click.echo(
            f"  from counts alone: {finding.epsilon:.3f} / {finding.claimed_at_tested:.4g} "
            f"(epsilon at delta {finding.tested_delta:g})"
        )
        click.echo(f"  part of the sensitivity that the two records use: {100 * finding.reached:.0f}%")
        click.echo(f"  messages that differ between neighbours: {', '.join(finding.messages) or 'none'}")
    if first.tested_delta > first.delta:
        click.echo(
            f"\nDelta {first.delta:g} needs about {100 / first.delta:.0f} trials to be counted, so counts are compared "
            f"with what the guarantee says at delta {first.tested_delta:g}."
        )
    click.echo(
        f"\nA true guarantee is refuted with probability at most {first.alpha:g}. Records are synthetic. An audit can "
        "refute a guarantee, never prove it."
    )
