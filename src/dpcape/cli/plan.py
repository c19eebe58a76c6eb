"""``dpcape plan`` and ``dpcape account``: noise and guarantees from public numbers, without spending budget."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dpcape.analyses.registry import variants
from dpcape.cli.output import show
from dpcape.core.facts import MOST_VIEWS
from dpcape.core.protocols.registry import make_protocol, parameters, plannable

if TYPE_CHECKING:
    from dpcape.planning.study_plan import ReleaseNumbers

_Command = TypeVar("_Command", bound=Callable[..., object])
_N = TypeVar("_N", int, float)
# Options that a plan requires; the page does not.
NEEDED = ("analysis", "features", "records", "epsilon", "sites", "colluding", "protocol", "delta")
USUAL_RATIO = parameters()["cancelling_ratio"].default


def _privacy_options(*, required: bool) -> Callable[[_Command], _Command]:
    options = (
        click.option("--sites", type=click.IntRange(min=1), required=required, help="Number of sites."),
        click.option(
            "--colluding", type=click.IntRange(min=0), required=required, help="Number of sites that may collude."
        ),
        click.option(
            "--protocol", type=click.Choice(list(plannable())), required=required, help="Protocol of the sites."
        ),
        click.option(
            "--minimum-sites",
            type=click.IntRange(min=1),
            default=None,
            help="Number of sites that must finish; all by default.",
        ),
        click.option("--delta", type=float, required=required, help="Privacy parameter delta."),
        click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else."),
    )

    def decorated(command: _Command) -> _Command:
        for option in options:
            command = option(command)
        return command

    return decorated


@click.command(context_settings={"token_normalize_func": lambda name: name.replace("_", "-")})
@click.option("--analysis", type=click.Choice(tuple(variants())), default=None, help="Analysis to plan.")
@click.option("--features", default=None, help="Number of columns; of views one number each: 60,40 (one is split).")
@click.option("--records", type=click.IntRange(min=1), default=None, help="Number of records, over all sites.")
@click.option(
    "--bound", default="1", show_default=True, help="Maximum norm of a record; of views one for all, or each."
)
@click.option("--epsilon", type=float, default=None, help="Privacy parameter epsilon.")
@click.option(
    "--cancelling-ratio",
    type=float,
    default=USUAL_RATIO,
    show_default=True,
    help="Variance of a site's cancelling draw over n times that of its own noise, for n sites.",
)
@click.option(
    "--neighbours",
    type=click.IntRange(min=4),
    default=None,
    help="Sites that a site shares masks with, for hundreds of sites; all by default. Noise does not depend on it.",
)
@click.option(
    "--parameter",
    "parameters",
    multiple=True,
    metavar="NAME=VALUE",
    help="Parameter of the analysis, as in a study file: n_iter=20.",
)
@click.option(
    "--html",
    type=click.Path(path_type=Path, dir_okay=False),
    default=None,
    help="Write the planner as an offline page that starts with the given numbers; none is required.",
)
@_privacy_options(required=False)
def plan(html: Path | None, as_json: bool, **options: Any) -> None:
    """Estimate a study's noise without spending budget."""
    missing = [name for name in NEEDED if options[name] is None]
    if html is None and missing:
        raise click.UsageError(f"Missing option '--{missing[0].replace('_', '-')}'.")
    result = None if missing else _planned(**options)
    if html is not None:
        _write_page(html, options, quiet=as_json)
    if result is not None:
        needed = result["memory"]
        in_bytes = {"site": math.ceil(needed.at_site), "coordinator": math.ceil(needed.at_coordinator)}
        show({**result, "memory": in_bytes} if as_json else _readable({**result, "memory": str(needed)}), as_json)


def _readable(result: dict[str, Any]) -> dict[str, object]:
    """Return a plan with one line per release instead of all its numbers."""
    lines = {f"release {number}": _line(entry) for number, entry in enumerate(result.get("releases", []), start=1)}
    last = {"expect": result["expect"]} if "expect" in result else {}
    return {**{name: value for name, value in result.items() if name not in ("releases", "expect")}, **lines, **last}


def _line(entry: ReleaseNumbers) -> str:
    often = f", {entry['times']} times" if entry["times"] > 1 else ""
    limits = {"relative": ", relative to the largest contribution", "at most": " at most"}
    limit, name = limits.get(entry.get("known", ""), ""), entry["statistic"].replace("_", " ")
    return f"{name}{often}: aggregate scale {entry['aggregate_scale']:.6g}{limit}; share {entry['share']:.4g} of mu^2"


def _planned(
    *,
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
    neighbours: int | None,
    delta: float,
    parameters: Sequence[str],
) -> dict[str, Any]:
    from dpcape.analyses.footprint import footprint_of
    from dpcape.planning import study_plan as planning
    from dpcape.planning.consortium import Consortium
    from dpcape.planning.planned import public_of, releases_of

    widths, bounds = _shape(analysis, features, bound)
    scheme = make_protocol(
        protocol,
        n_colluding=colluding,
        minimum_sites=minimum_sites,
        cancelling_ratio=cancelling_ratio,
        n_neighbours=neighbours,
    )
    sizes = planning.equal_sites(records, sites)
    consortium = Consortium(sizes, scheme, epsilon, delta)
    chosen = _parameters(parameters)
    releases = releases_of(analysis, widths, bounds, chosen, setting=consortium)
    result = planning.plan_study(releases=releases, sizes=sizes, protocol=scheme, epsilon=epsilon, delta=delta)
    terms = planning.terms_of(releases, sizes, scheme, epsilon, delta)
    expect = _expectation(analysis, widths, bounds, chosen, planning.aggregate_scales(releases, terms, scheme))
    described, _, public = public_of(analysis, widths, bounds, chosen, setting=consortium)
    more = {"note": variants()[analysis][1].note, "expect": expect}
    return {
        "analysis": analysis,
        "features": list(widths),
        **result,
        "memory": footprint_of(described, public),
        **({} if neighbours is None else {"n_neighbours": neighbours}),
        **{key: text for key, text in more.items() if text},
    }


def _expectation(
    analysis: str, widths: Sequence[int], bounds: Sequence[float], chosen: dict[str, object], scales: Sequence[float]
) -> str:
    """Return what to expect, for records as declared by default; empty where nothing can be said."""
    from dpcape.core.errors import InvalidParameter
    from dpcape.planning.declared import Declared
    from dpcape.planning.measures import measure_of
    from dpcape.planning.planned import facts_of, options_of, parameters_of

    options = options_of(analysis, chosen)
    facts = facts_of(analysis, widths, bounds, options)
    try:
        measure = measure_of(variants()[analysis][0], facts, parameters_of(analysis, options), Declared())
        return "" if measure is None else measure.expectation(scales)
    except InvalidParameter:
        # A default option does not fit these dimensions.
        return ""


def _write_page(path: Path, values: dict[str, Any], *, quiet: bool) -> None:
    from dpcape.planning.page.planner_page import write_planner
    from dpcape.planning.planned import options_of
    from dpcape.planning.study_plan import equal_sites

    if values["cancelling_ratio"] != USUAL_RATIO:
        raise click.UsageError(
            f"The planner page always uses --cancelling-ratio {USUAL_RATIO:g}. Leave out --cancelling-ratio or --html."
        )
    if values["neighbours"] is not None:
        raise click.UsageError(
            "The planner page has no control for --neighbours, on which the noise does not depend. Add n_neighbours to "
            "the study file, and leave out --neighbours or --html."
        )
    # Values of the page's controls, by the names of the controls.
    start = {name: values[name] for name in ("analysis", "sites", "protocol", "colluding", "epsilon", "delta")}
    start["minimum"] = values["minimum_sites"]
    if values["features"] is not None and values["analysis"] is not None:
        start |= _shape_on_page(values["analysis"], *_shape(values["analysis"], values["features"], values["bound"]))
    if values["records"] is not None and values["sites"] is not None:
        sizes = list(equal_sites(values["records"], values["sites"]).values())
        start["records"] = sizes[0] if len(set(sizes)) == 1 else ", ".join(map(str, sizes))
    options = _parameters(values["parameters"])
    # The page starts with PCA.
    options_of(values["analysis"] or "pca", options)
    write_planner(path, {**{name: value for name, value in start.items() if value is not None}, "options": options})
    click.echo(f"Wrote {path}", err=quiet)


def _shape(analysis: str, features: str, bound: str) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Return the columns and the bounds of all views; one number of columns is split evenly, one bound repeated."""
    described = variants()[analysis][0]
    default_views, most_views = (3, MOST_VIEWS) if described.has_many_views else (2, 2)
    if described.records != "views":
        default_views = most_views = 1
    widths = _numbers(features, int, "features", most_views)
    if len(widths) == 1:
        # The first views have one column more where the number does not divide.
        widths = tuple((widths[0] + default_views - 1 - view) // default_views for view in range(default_views))
    bounds = _numbers(bound, float, "bound", most_views)
    if len(bounds) not in (1, len(widths)):
        what = f"must be one number, or one for each of the {len(widths)} views; got {bound!r}"
        raise click.BadParameter(what, param_hint="bound")
    return widths, bounds * len(widths) if len(bounds) == 1 else bounds


def _shape_on_page(analysis: str, widths: Sequence[int], bounds: Sequence[float]) -> dict[str, object]:
    """Return the values of the page's controls for columns and bounds."""
    if variants()[analysis][0].has_many_views:
        return {"features": ", ".join(map(str, widths)), "bound": ", ".join(f"{bound:g}" for bound in bounds)}
    names = ("features", "features-y")[: len(widths)], ("bound", "bound-y")[: len(bounds)]
    return {**dict(zip(names[0], widths, strict=True)), **dict(zip(names[1], bounds, strict=True))}


def _parameters(texts: Sequence[str]) -> dict[str, object]:
    """Return the parameters in NAME=VALUE texts, with values as in a study file."""
    read: dict[str, object] = {}
    for text in texts:
        name, _, value = text.partition("=")
        try:
            read[name.strip()] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError as error:
            raise click.BadParameter(f"must be NAME=VALUE, such as n_iter=20; got {text!r}") from error
    return read


@click.command()
@click.option("--sensitivity", type=float, required=True, help="Sensitivity of one site's statistic.")
@click.option("--own-scale", type=float, required=True, help="Standard deviation of a site's own noise.")
@click.option(
    "--shared-scale", type=float, default=0.0, show_default=True, help="Standard deviation of a site's cancelling draw."
)
@_privacy_options(required=True)
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
    """Compute the guarantee that given noise scales provide."""
    from dpcape.planning import study_plan as planning

    result = planning.account(
        protocol=make_protocol(protocol, n_colluding=colluding, minimum_sites=minimum_sites),
        n_sites=sites,
        sensitivity=sensitivity,
        own_scale=own_scale,
        shared_scale=shared_scale,
        delta=delta,
    )
    show(dict(result), as_json)


def _numbers(text: str, kind: type[_N], name: str, most: int) -> tuple[_N, ...]:
    """Return the numbers in a text, at most so many."""
    try:
        values = tuple(kind(number) for number in text.split(","))
    except ValueError as error:
        raise click.BadParameter(f"must be numbers separated by a comma; got {text!r}", param_hint=name) from error
    if len(values) > most:
        words = {1: "one number", 2: "one or two numbers"}.get(most, f"at most {most} numbers")
        raise click.BadParameter(f"must be {words}; got {text!r}", param_hint=name)
    return values
