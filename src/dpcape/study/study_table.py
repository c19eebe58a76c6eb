"""The [study] table: name, analysis, its parameters, epsilon and delta."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpcape.analyses.description import Analysis
from dpcape.analyses.parameters import REQUIRED
from dpcape.analyses.registry import own_analyses
from dpcape.core.privacy.terms import check_epsilons
from dpcape.study.sites import StudySite
from dpcape.study.toml_reader import TomlTable, is_number, without_dates


def read_head(section: TomlTable, members: Mapping[str, StudySite], known: Mapping[str, Analysis]) -> dict[str, Any]:
    """Return the content of the [study] table, checked."""
    named = section.value("analysis")
    spellings = tuple(sorted(name.replace("_", "-") for name in known))
    description = known[named if isinstance(named, str) and named in known else section.choice("analysis", spellings)]
    epsilon = _epsilon(section, members)
    head: dict[str, Any] = {"name": section.name("name"), "analysis": description.name, "epsilon": epsilon}
    delta = section.number("delta")
    if delta is None or not 0 < delta < 1:
        section.fail("delta", "strictly between 0 and 1")
    accepted = section.value("accept_large_delta")
    if not isinstance(accepted, bool | None):
        section.fail("accept_large_delta", "true or false", "Leave it out unless delta must be above 1/N.")
    head["accept_large_delta"] = accepted is True
    values = {parameter.name: section.value(parameter.name) for parameter in description.parameters}
    parameters = {name: value for name, value in values.items() if value is not None}
    for parameter in description.parameters:
        name = parameter.name
        if parameter.default is REQUIRED and name not in parameters:
            section.fail(name, f"given for {description.name}")
        if name in parameters and (isinstance(parameters[name], dict) or not without_dates(parameters[name])):
            section.fail(name, "a string, a number, true, false, or a list of these")
    section.finish()
    return {**head, "delta": delta, "parameters": parameters, "description": description}


def spell_analysis(content: Mapping[str, Any]) -> None:
    """Write the name of an analysis of dpcape as it is known inside: hyphens and underscores mean the same.

    It is done before anything reads the name, so that a study has one digest and one meaning under both spellings.
    """
    head = content.get("study")
    named = head.get("analysis") if isinstance(head, dict) else None
    if isinstance(head, dict) and isinstance(named, str) and named.replace("-", "_") in own_analyses():
        head["analysis"] = named.replace("-", "_")


def _epsilon(section: TomlTable, members: Mapping[str, StudySite]) -> float | dict[str, float]:
    value = section.value("epsilon")
    per_site = value if isinstance(value, dict) else dict.fromkeys(members, value)
    numbers = {str(site): float(entry) for site, entry in per_site.items() if is_number(entry)}
    if len(numbers) != len(per_site):
        section.fail("epsilon", "a positive finite number, or a table with one per site")
    section.within("epsilon", lambda: check_epsilons(numbers, tuple(sorted(members))))
    return numbers if isinstance(value, dict) else next(iter(numbers.values()))
