"""The planner as one offline page: the same numbers as ``dpcape plan``, computed in the browser.

The releases of each analysis are generated from its description; calibration and measures are ported to JavaScript.
Constants and words come from the Python code when the page is written, and ``tests/browser`` compares every number with
Python's in a real browser.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

import numpy as np
from jinja2 import Environment, PackageLoader, select_autoescape
from markupsafe import Markup

from dpcape.analyses.description import Analysis, Variant
from dpcape.analyses.registry import variants
from dpcape.analyses.regression import AVERAGED, LARGEST_UNIT, LOGISTIC_NOISE, LOGISTIC_UNITS, UNIT_NOISE
from dpcape.core._version import __version__
from dpcape.core.facts import LARGEST_BOUND, MOST_VIEWS, SMALLEST_BOUND
from dpcape.core.limits import MOST_NUMBERS, REMEDY
from dpcape.core.noise import LARGEST_SCALE
from dpcape.core.privacy.integer_gap import CUTOFF, TAIL_EXPONENT
from dpcape.core.privacy.terms import DELTA_RESERVE, epsilon_reserve, tail_reserve
from dpcape.guarantee.guarantee import BY_SITE, ONE_SITE_EACH, PUBLIC_FACTS, RANGES_AND_LEVELS
from dpcape.pages.style import stylesheet
from dpcape.planning.declared import Declared
from dpcape.planning.measures import EXPLAINED, MEASURES, measure_of
from dpcape.planning.page.protocol_table import parameter_titles, protocol_options, protocol_script
from dpcape.planning.page.schedule_script import schedule_script
from dpcape.planning.planned import facts_of, least_asked, parameters_of, start_of
from dpcape.postprocessing.tensor_power import noise_strength

SCRIPTS = (
    "gaussian.js",
    "schedule.js",
    "calibrate.js",
    "measures.js",
    "study.js",
    "snippet.js",
    "chart.js",
    "reading.js",
    "ledger.js",
    "page.js",
)


def write_planner(path: Path, start: Mapping[str, object] | None = None) -> None:
    """Write the planner page.

    Parameters
    ----------
    path : Path
        File to write; missing folders are created.
    start : mapping or None
        Initial values of controls, by their names in ``page.js``; other controls keep their defaults.
    """
    script = "\n".join([_constants(start or {}), protocol_script(), schedule_script(), *map(_read, SCRIPTS)])
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
        groups={group: list(members) for group, members in itertools.groupby(variants().items(), _group)},
        protocols=protocol_options(),
        titles=parameter_titles(),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")


def constants() -> dict[str, object]:
    """Return the constants that the scripts take from Python: calibration, words of the guarantee, analyses."""
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
        "bounds": [SMALLEST_BOUND, LARGEST_BOUND],
        "most_views": MOST_VIEWS,
        "most_numbers": MOST_NUMBERS,
        "fewer_numbers": REMEDY,
        "spin": noise_strength(1.0, np.eye(1)),
        "averaged": AVERAGED,
        "residual_units": {"noise": UNIT_NOISE, "smallest": 1.0, "largest": LARGEST_UNIT},
        "logistic_units": {"noise": LOGISTIC_NOISE, "smallest": LOGISTIC_UNITS[0], "largest": LOGISTIC_UNITS[1]},
        "one_site_each": ONE_SITE_EACH,
        "by_site": BY_SITE,
        "public": list(PUBLIC_FACTS),
        "public_of_tables": RANGES_AND_LEVELS,
        "analyses": {name: _analysis(name) for name in variants()},
    }


def _group(item: tuple[str, tuple[Analysis, Variant]]) -> str:
    return item[1][0].group


def _options_of(analysis: Analysis, variant: Variant) -> dict[str, dict[str, object]]:
    """Return titles, kinds and limits of a variant's options."""
    facts = {entry.name for entry in analysis.facts}
    return {
        entry.name: {
            "title": entry.title,
            "kind": entry.kind,
            "least": least_asked(entry),
            "left_out": entry.left_out,
            "is_fact": entry.name in facts,
        }
        for entry in map(analysis.parameter, variant.options)
    }


def _analysis(name: str) -> dict[str, object]:
    analysis, variant = variants()[name]
    n_views = 3 if analysis.has_many_views else 2
    widths, bounds = ((2,) * n_views, (1.0,) * n_views) if analysis.records == "views" else ((8,), (1.0,))
    start = start_of(analysis, variant)
    options = {**start, **({"n_components": 2} if "n_components" in start else {})}
    facts = facts_of(name, widths, bounds, options)
    measure = measure_of(analysis, facts, parameters_of(name, options), Declared())
    assert measure is not None
    return {
        "title": variant.title,
        "study": analysis.spelling,
        "python": analysis.python,
        "kind": analysis.records,
        "many_views": analysis.has_many_views,
        "labels": variant.labels or analysis.labels,
        "options": start,
        "asked": _options_of(analysis, variant),
        "fixed": dict(variant.fixed),
        "measure": measure.title,
        "measure_name": analysis.measure if analysis.measure in MEASURES else None,
        "measured_in": measure.unit,
        "is_error": measure.is_error,
        "spectral": analysis.measure in MEASURES,
        "explained": analysis.measure in EXPLAINED,
        "yardstick": variant.yardstick,
        "unit": variant.unit,
        "owner_note": facts.owner_note,
        "note": variant.note,
    }


def _constants(start: Mapping[str, object]) -> str:
    # "<" could end the script element, or begin a comment that hides its end.
    return "\n".join(
        f"const {name} = {json.dumps(value).replace('<', chr(92) + 'u003c')};"
        for name, value in (("CONSTANTS", constants()), ("START", dict(start)))
    )


def _read(name: str) -> str:
    return files("dpcape.planning.page").joinpath(name).read_text(encoding="utf-8")
