"""``dpcape plan`` and ``dpcape account``: what a study would cost, before anything is spent."""

from __future__ import annotations

from typing import Any

import click

from dpcape.cli.output import show


def _privacy_options(command: Any) -> Any:
    for option in (
        click.option("--sites", type=click.IntRange(min=1), required=True, help="Number of sites."),
        click.option("--colluding", type=click.IntRange(min=0), required=True, help="Sites that may collude."),
        click.option("--protocol", type=click.Choice(["cape", "secure-sum", "independent", "dealer"]), required=True),
        click.option(
            "--minimum-sites",
            type=click.IntRange(min=1),
            default=None,
            help="Sites that must finish; all if absent.",
        ),
        click.option("--delta", type=float, required=True),
        click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else."),
    ):
        command = option(command)
    return command


@click.command()
@click.option("--analysis", type=click.Choice(["mean", "pca", "cca", "centred-pca"]), required=True)
@click.option("--features", required=True, help="Columns; for cca of both views, e.g. 60,40 (one number is halved).")
@click.option("--records", type=click.IntRange(min=1), required=True, help="Records of all sites together.")
@click.option("--bound", default="1", show_default=True, help="Largest norm of a record; for cca one or two numbers.")
@click.option("--epsilon", type=float, required=True)
@click.option("--cancelling-ratio", type=float, default=100.0, show_default=True)
@_privacy_options
def plan(
    analysis: str,
    features: str,
    records: int,
    bound: str,
    epsilon: float,
    cancelling_ratio: float,
    sites: int,
    colluding: int,
    protocol: str,
    minimum_sites: int | None,
    delta: float,
    as_json: bool,
) -> None:
    """Tell how noisy a study would be, before anything is spent."""
    from dpcape import planning

    widths = _pair(features, int, "features", analysis == "cca", halve=True)
    bounds = _pair(bound, float, "bound", analysis == "cca", halve=False)
    scheme = planning.make_protocol(
        protocol, n_colluding=colluding, minimum_sites=minimum_sites, cancelling_ratio=cancelling_ratio
    )
    result = planning.plan_study(
        statistic=planning.statistic_of(analysis, widths, bounds),
        sizes=planning.equal_sites(records, sites),
        protocol=scheme,
        epsilon=epsilon,
        delta=delta,
    )
    show({"analysis": analysis, "features": list(widths), **result}, as_json)


@click.command()
@click.option("--sensitivity", type=float, required=True, help="Of one site's statistic.")
@click.option("--own-scale", type=float, required=True, help="Standard deviation of a site's own noise.")
@click.option("--shared-scale", type=float, default=0.0, show_default=True, help="Of a site's cancelling draw.")
@_privacy_options
def account(
    sensitivity: float,
    own_scale: float,
    shared_scale: float,
    sites: int,
    colluding: int,
    protocol: str,
    minimum_sites: int | None,
    delta: float,
    as_json: bool,
) -> None:
    """Tell which guarantee given noise scales really have."""
    from dpcape import planning

    result = planning.account(
        protocol=planning.make_protocol(protocol, n_colluding=colluding, minimum_sites=minimum_sites),
        n_sites=sites,
        sensitivity=sensitivity,
        own_scale=own_scale,
        shared_scale=shared_scale,
        delta=delta,
    )
    show(result, as_json)


def _pair(text: str, kind: type, name: str, two: bool, *, halve: bool) -> tuple[Any, ...]:
    """Read one number, or for two views two (one number stands for both, or is halved)."""
    try:
        values = tuple(kind(part) for part in text.split(","))
    except ValueError as error:
        raise click.BadParameter(f"must be numbers separated by a comma; got {text!r}", param_hint=name) from error
    if len(values) > (2 if two else 1):
        raise click.BadParameter(
            f"takes {'one or two numbers' if two else 'one number'}; got {text!r}", param_hint=name
        )
    if two and len(values) == 1:
        value = values[0]
        return (value - value // 2, value // 2) if halve else (value, value)
    return values
