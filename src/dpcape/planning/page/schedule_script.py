"""Schedules as JavaScript, generated from the descriptions of analyses: one generator function per variant."""

from __future__ import annotations

import json

from dpcape.analyses.description import Analysis, Public, Variant, alternatives
from dpcape.analyses.parameters import REQUIRED, WHOLE, Parameter
from dpcape.analyses.registry import variants
from dpcape.analyses.release import Refusal, Release
from dpcape.formula import Formula, written

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
    """Return the script that defines ``SCHEDULES``: per variant, a function from public numbers to releases."""
    entries = [
        f"  {json.dumps(name)}: function* (p) {{\n{_body(analysis, variant)}\n  }},"
        for name, (analysis, variant) in variants().items()
    ]
    return "const SCHEDULES = {\n" + "\n".join(entries) + "\n};\n"


def traced(analysis: Analysis, variant: Variant) -> Public:
    """Return public numbers as formulas, each the JavaScript expression that reads it."""
    values: dict[str, object] = {name: Formula(f"p.{name}") for name in _FACTS}
    for parameter in (*analysis.parameters, *analysis.facts):
        if parameter.name in variant.options:
            values[parameter.name] = Formula(f"p.{parameter.name}")
        elif parameter.default is not REQUIRED:
            values[parameter.name] = parameter.default
    if "n_classes" not in variant.options:
        values["n_classes"] = variant.classes
    # Three or more views only where the page asks for them.
    values["n_views"] = Formula("p.n_views") if analysis.has_many_views else 2 if analysis.records == "views" else 1
    plain = {"kind": analysis.records, "unit": variant.unit, "single": False, "facts": None}
    return Public({**values, **variant.fixed, **plain})


def _body(analysis: Analysis, variant: Variant) -> str:
    public = traced(analysis, variant)
    asked = [parameter for parameter in (*analysis.parameters, *analysis.facts) if parameter.name in variant.options]
    lines = [line for parameter in asked if (line := _check(parameter, public))]
    running, number = analysis.schedule(public), 0
    answer: Formula | None = None
    while True:
        try:
            step = running.send(answer)
        except StopIteration:
            return "\n".join(f"    {line}" for line in lines)
        answer = None
        if isinstance(step, Refusal):
            if step.when is not False:
                values = ", ".join(f"{name}: {written(value)}" for name, value in step.values.items())
                lines.append(f"if ({written(step.when)}) refuseStudy({json.dumps(step.text)}, {{ {values} }});")
            continue
        release = alternatives(step)[0]
        if release.when is False:
            continue
        guard = "" if release.when is True else f"if ({written(release.when)}) "
        if release.feeds:
            number += 1
            answer = Formula(f"noise{number}")
            lines += [f"let noise{number} = 1;", f"{guard}noise{number} = yield {_release(release)};"]
        else:
            lines.append(f"{guard}yield {_release(release)};")


def _release(release: Release) -> str:
    extent = release.extent
    return (
        f"{{ share: {written(release.share)}, times: {written(release.times)}, known: {written(release.known)}, "
        f"feeds: {written(release.feeds)}, statistic: {{ name: {written(release.statistic)}, "
        f"size: {written(extent.released_size)}, diameter: {written(extent.diameter)}, "
        f"radius: {written(extent.radius)}, "
        f"rounding: (n) => {written(extent.rounding(Formula('n')))}, "
        f"sensitivity: (n) => {written(extent.sensitivity(Formula('n')))} }} }}"
    )


def _check(parameter: Parameter, public: Public) -> str:
    """Return the line that checks the range of a whole number; other kinds are checked where they are read."""
    if parameter.kind != WHOLE:
        return ""
    least, most = map(written, parameter.ends(public))
    name = "optionalWhole" if parameter.optional else "requireWhole"
    return f"{name}({json.dumps(parameter.name)}, p.{parameter.name}, {least}, {most});"
