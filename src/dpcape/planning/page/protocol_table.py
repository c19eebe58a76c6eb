"""Script and options of the planner page for protocols, generated from their descriptions."""

from __future__ import annotations

import json
from dataclasses import asdict

from dpcape.core.protocols.independent import Independent
from dpcape.core.protocols.protocol import Protocol
from dpcape.core.protocols.registry import make_protocol, parameters, plannable
from dpcape.planning.page.traced import Paths, Traced, javascript_functions, written


def protocol_script() -> str:
    """Return the script that defines ``PROTOCOLS``, and ``INDEPENDENT``, the name of the protocol for one site."""
    rows = "\n".join(f"  {json.dumps(name)}: {_row(protocol)}," for name, protocol in plannable().items())
    return f"const PROTOCOLS = {{\n{rows}\n}};\nconst INDEPENDENT = {json.dumps(Independent.name)};"


def protocol_options() -> dict[str, str]:
    """Return the option text of each protocol, by name."""
    return {name: f"{_sentence_case(protocol.title)}: {protocol.summary}" for name, protocol in plannable().items()}


def parameter_titles() -> dict[str, str]:
    """Return the labels of the protocols' parameters, by name."""
    return {name: parameter.title for name, parameter in parameters().items() if parameter.kind != "name"}


def _row(protocol: type[Protocol]) -> str:
    paths = Paths()
    numbers = [Traced(name, paths) for name in ("sites", "honest", "ratio")]
    with javascript_functions():
        # Exactly one path, because a closed form has no branches.
        [(shared, exposure)] = [protocol.closed_form(*numbers) for _ in paths.runs()]  # type: ignore[arg-type]  # traced
    described = {
        "python": protocol.__name__,
        "title": _sentence_case(protocol.title),
        "parameters": {entry.name: asdict(entry) for entry in protocol.parameters if entry.kind != "name"},
        "refused": dict(protocol.refused),
        "least_sites": protocol.least_sites,
        "too_few": protocol.too_few,
        "vectors": protocol.vectors,
        "equal_demands": protocol.equal_demands,
        "adversaries": _adversaries(protocol.name),
        "assumptions": list(make_protocol(protocol.name, n_colluding=0).assumptions()),
    }
    # "<" in a text could end the script element.
    fields = [f"{name}: {json.dumps(value).replace('<', chr(92) + 'u003c')}" for name, value in described.items()]
    form = f"closed_form: (sites, honest, ratio) => [{written(shared)}, {written(exposure)}]"
    return f"{{ {', '.join([*fields, form])} }}"


def _adversaries(name: str) -> list[str]:
    """Return the description of the adversary for 0, 1 and more colluding sites."""
    none, one, two = (make_protocol(name, n_colluding=count).adversary() for count in range(3))
    return [none, one, two.replace("2", "{n}")]


def _sentence_case(text: str) -> str:
    return text[0].upper() + text[1:]
