"""Schedules as JavaScript, generated from the descriptions of analyses: one generator function per variant."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from dpcape.analyses.description import Analysis, Noise, Public, Variant, alternatives
from dpcape.analyses.parameters import REQUIRED, WHOLE, Parameter
from dpcape.analyses.registry import variants
from dpcape.analyses.release import Refusal, Release
from dpcape.planning.page.traced import Event, Paths, Traced, choice, expression, javascript_functions, tree, written

# What an extent may depend on: public numbers, and the noise of earlier releases.
_PUBLIC = "p, noise1, noise2, noise3"
_NOISES = "    let noise1 = 1, noise2 = 1, noise3 = 1;\n"
# Facts of the records on the page; everything else a schedule uses is an option, or fixed.
_FACTS = (
    "n_features",
    "first",
    "narrowest",
    "widest",
    "bound",
    "n_records",
    "n_participants",
    "mu",
    "total_mu",
    "n_classes",
)


def schedule_script() -> str:
    """Return the script that defines ``SCHEDULES`` and ``NOISE``.

    Per variant these are functions from public numbers to releases, and from public numbers and scales to the size of
    the noise.
    """
    extents: dict[str, int] = {}
    entries = [
        f"  {json.dumps(name)}: function* (p) {{\n{_NOISES}{tree(ways(analysis, variant, extents))}  }},"
        for name, (analysis, variant) in variants().items()
    ]
    shared = "".join(f"  ({_PUBLIC}) => ({text}),\n" for text in extents)
    measures = "\n".join(
        f"  {json.dumps(name)}: (p, scales) => {_noise(analysis.measure, analysis, variant)},"
        for name, (analysis, variant) in variants().items()
        if isinstance(analysis.measure, Noise)
    )
    schedules = "\n".join(entries)
    return f"const EXTENTS = [\n{shared}];\nconst SCHEDULES = {{\n{schedules}\n}};\nconst NOISE = {{\n{measures}\n}};\n"


class _Scales(Sequence[Any]):
    """The noise scales of releases, whose number is known in the browser only."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths

    def __getitem__(self, at: Any) -> Any:
        return Traced(f"scales.at({at})", self._paths)

    def __len__(self) -> int:
        raise TypeError("The number of releases is known in the browser only; ask for what it depends on first.")


def _noise(noise: Noise, analysis: Analysis, variant: Variant) -> str:
    with javascript_functions():
        return choice(lambda paths: noise.value(traced(analysis, variant, paths), _Scales(paths)))


def traced(analysis: Analysis, variant: Variant, paths: Paths) -> Public:
    """Return public numbers that are known in the browser only, each the JavaScript expression that reads it."""
    values: dict[str, object] = {name: Traced(f"p.{name}", paths) for name in _FACTS}
    for parameter in (*analysis.parameters, *analysis.facts):
        if parameter.name in variant.options:
            own = Traced(f"p.{parameter.name}", paths)
            # What may be left out is None on one way and a number on the other.
            values[parameter.name] = None if parameter.optional and paths.decide(f"({own.text} === null)") else own
        elif parameter.default is not REQUIRED:
            values[parameter.name] = parameter.default
    if "n_classes" not in variant.options:
        values["n_classes"] = variant.classes
    # Three or more views only where the page asks for them.
    many = analysis.has_many_views
    values["n_views"] = Traced("p.n_views", paths) if many else 2 if analysis.records == "views" else 1
    poisson = {name: f"poissonLoss(p.n_features, p.bound).{name}" for name in ("size", "diameter", "radius")}
    values["poisson_numbers"] = {name: Traced(text, paths) for name, text in poisson.items()}
    plain = {"kind": analysis.records, "unit": variant.unit, "facts": None}
    return Public({**values, **variant.fixed, **plain})


def ways(analysis: Analysis, variant: Variant, extents: dict[str, int]) -> list[list[Event]]:
    """Return what a schedule does on every way through it; ``extents`` collects what releases share."""
    paths, runs = Paths(), []
    with javascript_functions():
        for _ in paths.runs():
            _run(analysis, variant, paths, extents)
            runs.append(paths.events)
    return runs


def _run(analysis: Analysis, variant: Variant, paths: Paths, extents: dict[str, int]) -> None:
    """Run a schedule along one way, and note what it releases."""
    public = traced(analysis, variant, paths)
    parameters = [
        parameter for parameter in (*analysis.parameters, *analysis.facts) if parameter.name in variant.options
    ]
    paths.events += [line for parameter in parameters if (line := _check(parameter, public))]
    running, number = analysis.schedule(public), 0
    answer: Any = None
    while True:
        try:
            step = running.send(answer)
        except StopIteration:
            return
        answer = None
        if isinstance(step, Refusal):
            if step.when:
                values = ", ".join(f"{name}: {written(value)}" for name, value in step.values.items())
                paths.events.append(f"refuseStudy({json.dumps(str(step.error))}, {{ {values} }});")
                return
            continue
        release = alternatives(step)[0]
        number += release.feeds
        assignment = f"noise{number} = " if release.feeds else ""
        if release.when:
            paths.events.append(f"{assignment}yield {_release(release, paths, extents)};")
            answer = Traced(f"noise{number}", paths) if release.feeds else None
        else:
            answer = 1 if release.feeds else None


def _release(release: Release, paths: Paths, extents: dict[str, int]) -> str:
    """Return a release; extents that are computed alike are written once, for all schedules."""
    extent, known = release.extent, paths.known
    text = (
        f"{{ name: {written(release.statistic)}, size: {written(extent.released_size)}, "
        f"diameter: {written(extent.diameter)}, radius: {written(extent.radius)}, "
        f"rounding: (n) => {expression(extent.rounding, 'n', known=known)}, "
        f"sensitivity: (n) => {expression(extent.sensitivity, 'n', known=known)} }}"
    )
    number = extents.setdefault(text, len(extents))
    return (
        f"{{ share: {written(release.share)}, times: {written(release.times)}, known: {written(release.known)}, "
        f"feeds: {written(release.feeds)}, statistic: EXTENTS[{number}]({_PUBLIC}) }}"
    )


def _check(parameter: Parameter, public: Public) -> str:
    """Return the line that checks the range of a whole number; other kinds are checked where they are read."""
    if parameter.kind != WHOLE:
        return ""
    least, most = map(written, parameter.ends(public))
    name = "optionalWhole" if parameter.optional else "requireWhole"
    return f"{name}({json.dumps(parameter.name)}, p.{parameter.name}, {least}, {most});"
