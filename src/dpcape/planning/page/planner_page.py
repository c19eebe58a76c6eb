"""The planner as one offline page: the same numbers as ``dpcape plan``, computed in the browser.

The scripts port the formulas; constants and words come from the Python code when the page is written, and
``tests/browser/test_planner.py`` holds every number against Python's in a real browser.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, select_autoescape
from markupsafe import Markup

from dpcape._version import __version__
from dpcape.estimators.topic_model import WORD_SHARE
from dpcape.guarantee.guarantee import ONE_SITE_EACH, PUBLIC_FACTS
from dpcape.noise import LARGEST_SCALE
from dpcape.pages.style import stylesheet
from dpcape.planning.analyses import PLANNED, PlannedAnalysis, facts_of, parameters_of
from dpcape.planning.expected_error import Declared, measure_of
from dpcape.postprocessing.tensor_power import noise_strength
from dpcape.privacy.integer_gap import CUTOFF, TAIL_EXPONENT
from dpcape.privacy.terms import DELTA_RESERVE, epsilon_reserve, tail_reserve
from dpcape.protocols.registry import PROTOCOLS, make_protocol
from dpcape.statistics.infomax_scores import MOST_CONDITION
from dpcape.statistics.polynomials import LARGEST_SIZE
from dpcape.statistics.statistic import BLOCK_ROWS
from dpcape.statistics.word_moments import LARGEST_TENSOR
from dpcape.study.analyses import analyses

SCRIPTS = (
    "gaussian.js",
    "releases.js",
    "calibrate.js",
    "errors.js",
    "study.js",
    "snippet.js",
    "chart.js",
    "reading.js",
    "ledger.js",
    "page.js",
)


def write_planner(path: Path, start: Mapping[str, Any] | None = None) -> None:
    """Write the page.

    Parameters
    ----------
    path : Path
        Where to.
    start : mapping or None
        Values the controls start with, by their names in ``page.js``; the rest has usual ones.
    """
    script = "\n".join([_constants(start or {}), *map(_read, SCRIPTS)])
    environment = Environment(
        loader=PackageLoader("dpcape.planning.page", "."),
        autoescape=select_autoescape(),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = environment.get_template("page.html").render(
        version=__version__,
        style=Markup(stylesheet() + _read("planner.css")),
        script=Markup(script),
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        groups={group: list(members) for group, members in itertools.groupby(PLANNED.items(), _group)},
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")


def constants() -> dict[str, Any]:
    """Return what the scripts take from Python: numbers of the calibration, words of the guarantee, analyses."""
    small, large = 1e-3, 1e9
    return {
        "version": __version__,
        "gap_share": epsilon_reserve(small) / small,
        "largest_gap": epsilon_reserve(large),
        "tail_share": tail_reserve(1.0),
        "delta_reserve": DELTA_RESERVE,
        "cutoff": CUTOFF,
        "tail_exponent": TAIL_EXPONENT,
        "largest_scale": LARGEST_SCALE,
        "block_rows": BLOCK_ROWS,
        "largest_tensor": LARGEST_TENSOR,
        "largest_loss": LARGEST_SIZE,
        "most_condition": MOST_CONDITION,
        "word_share": WORD_SHARE,
        "spin": noise_strength(1.0, np.eye(1)),
        "one_site_each": ONE_SITE_EACH,
        "public": list(PUBLIC_FACTS),
        "adversaries": {name: _adversaries(name) for name in PROTOCOLS},
        "assumptions": {name: list(make_protocol(name, n_colluding=0).assumptions()) for name in PROTOCOLS},
        "analyses": {name: _analysis(name) for name in PLANNED},
    }


def _group(item: tuple[str, PlannedAnalysis]) -> str:
    return item[1].group


def _adversaries(name: str) -> list[str]:
    """Words for 0, 1 and more colluding sites."""
    words = [make_protocol(name, n_colluding=count).adversary() for count in range(3)]
    return [*words[:2], words[2].replace("2", "{n}")]


def _analysis(name: str) -> dict[str, Any]:
    planned = PLANNED[name]
    widths, bounds = ((2, 2), (1.0, 1.0)) if planned.kind == "views" else ((8,), (1.0,))
    options = {**planned.options, **({"n_components": 2} if "n_components" in planned.options else {})}
    facts = facts_of(name, widths, bounds, options)
    measure = measure_of(planned.study, facts, parameters_of(name, options), Declared())
    assert measure is not None
    return {
        "title": planned.title,
        "study": planned.study,
        "python": analyses()[planned.study].__name__,
        "kind": planned.kind,
        "options": dict(planned.options),
        "fixed": dict(planned.fixed),
        "measure": measure.title,
        "measured_in": measure.unit,
        "is_error": measure.is_error,
        "unit": planned.unit,
        "owner_note": facts.owner_note,
        "note": planned.note,
    }


def _constants(start: Mapping[str, Any]) -> str:
    # "<" could end the script element, or begin a comment in which its end is not seen.
    return "\n".join(
        f"const {name} = {json.dumps(value).replace('<', chr(92) + 'u003c')};"
        for name, value in (("CONSTANTS", constants()), ("START", dict(start)))
    )


def _read(name: str) -> str:
    return files("dpcape.planning.page").joinpath(name).read_text(encoding="utf-8")
