"""A protocol is described once, and the description is true: closed forms, parameters, properties, the page's table."""

from __future__ import annotations

import inspect
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from itertools import combinations, product
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

import dpcape
from dpcape.core.errors import InvalidParameter
from dpcape.core.privacy.calibration import worst_exposures
from dpcape.core.privacy.terms import ProtocolSettings
from dpcape.core.protocols.protocol import Protocol
from dpcape.core.protocols.registry import PROTOCOLS, from_settings, make_protocol, parameters, plannable, protocol_of
from dpcape.planning.page.planner_page import write_planner
from dpcape.planning.page.protocol_table import protocol_options
from dpcape.report.plots import curves
from dpcape.study.study import Study

ROOT = Path(__file__).parents[2]
each_protocol = pytest.mark.parametrize("name", PROTOCOLS)
PLANNABLE, PARAMETERS = plannable(), parameters()
each_plannable = pytest.mark.parametrize("name", PLANNABLE)
PARAMETERS_OF = {name: {parameter.name for parameter in protocol.parameters} for name, protocol in PROTOCOLS.items()}
ClosedForm = Callable[[float, float, float], tuple[float, float]]
# Values that are not the usual ones, for many sites: a sparse graph needs them.
N_SITES = 60
UNUSUAL: dict[str, Any] = {
    "n_colluding": 1,
    "minimum_sites": 58,
    "cancelling_ratio": 7.0,
    "dealer": "kiel",
    "n_neighbours": 14,
}
STUDY = """\
[study]
name = "first"
analysis = "mean"
epsilon = 2.0
delta = 1e-5
[protocol]
kind = "{kind}"
{lines}
{sites}
[data]
kind = "rows"
features = 6
bound = 1.0
"""


def protocols_of(name: str, n_sites: int) -> Iterator[Protocol]:
    """Yield every feasible protocol of this name, over some values of each of its parameters."""
    values = {
        "n_colluding": range(n_sites),
        "minimum_sites": (None, n_sites - 1),
        "cancelling_ratio": (0.01, 1.0, 100.0),
        "dealer": ("",),
        "n_neighbours": (None,),
    }
    own = [parameter.name for parameter in PROTOCOLS[name].parameters]
    for chosen in product(*(values[key] for key in own)):
        protocol = make_protocol(name, **dict(zip(own, chosen, strict=True)))
        try:
            protocol.settings(n_sites)
        except InvalidParameter:
            continue
        yield protocol


# Closed forms against the view.


def exposures_of_the_view(protocol: Protocol, demands: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return each site's exposure to the worst coalition, by trying all of them."""
    own, shared = protocol.unit_scales(demands)
    worst = np.zeros(demands.size)
    for honest in combinations(range(demands.size), protocol.n_honest(demands.size)):
        seen = protocol.view(demands.size, honest=honest, own_scales=own, shared_scales=shared).exposures()
        worst[list(honest)] = np.maximum(worst[list(honest)], seen[list(honest)])
    return worst


def difference(protocol: Protocol, n_sites: int, form: ClosedForm, *, more_honest: int = 0) -> float:
    """Return how far a closed form is from the view, relative, in the worst of scales and exposures."""
    demands = np.arange(1.0, n_sites + 1)
    own, shared = protocol.unit_scales(demands)
    ratio = getattr(protocol, "cancelling_ratio", 100.0)
    form_shared, form_exposure = form(n_sites, protocol.n_honest(n_sites) + more_honest, ratio)
    off = [exposures_of_the_view(protocol, demands) * own / form_exposure - 1, shared / own - form_shared]
    off[1] /= max(1.0, form_shared)
    return float(np.abs(off).max())


@each_plannable
@pytest.mark.parametrize("n_sites", [3, 4, 5])
def test_closed_forms_are_those_of_the_view(name: str, n_sites: int) -> None:
    tried = list(protocols_of(name, n_sites))
    assert tried
    demands = np.arange(1.0, n_sites + 1)
    for protocol in tried:
        wanted = np.ones(n_sites) if protocol.equal_demands else demands
        np.testing.assert_array_equal(protocol.unit_scales(demands)[0], wanted)
        assert difference(protocol, n_sites, protocol.closed_form) < 1e-12


@each_plannable
def test_closed_forms_are_those_of_plans(name: str) -> None:
    for protocol in protocols_of(name, 12):
        own, shared = protocol.unit_scales(np.ones(12))
        found = float(np.max(worst_exposures(protocol, own, shared)))
        exposure = protocol.closed_form(12, protocol.n_honest(12), getattr(protocol, "cancelling_ratio", 100.0))[1]
        assert exposure == pytest.approx(found, rel=1e-12)


@each_plannable
def test_closed_forms_that_are_wrong_are_found_out(name: str) -> None:
    """One honest site too many, or another protocol's form, is far outside the tolerance."""
    for protocol in protocols_of(name, 4):
        if "n_colluding" in PARAMETERS_OF[name]:
            assert difference(protocol, 4, protocol.closed_form, more_honest=1) > 1e-4
        if protocol.n_honest(4) > 1:
            others = {other.closed_form for other in PLANNABLE.values()} - {protocol.closed_form}
            assert others
            assert min(difference(protocol, 4, other) for other in others) > 1e-4


# Parameters.


@each_protocol
def test_parameters_are_those_of_the_constructor(name: str) -> None:
    signature = inspect.signature(PROTOCOLS[name]).parameters
    described = PROTOCOLS[name].parameters
    assert [parameter.name for parameter in described] == list(signature)
    for parameter in described:
        default = signature[parameter.name].default
        assert parameter.required == (default is inspect.Parameter.empty)
        if not parameter.required:
            assert parameter.default == default
        # The same name means the same thing everywhere.
        assert parameter == PARAMETERS[parameter.name]


@each_protocol
def test_names_travel_and_come_back(name: str) -> None:
    own = {parameter.name: UNUSUAL[parameter.name] for parameter in PROTOCOLS[name].parameters}
    protocol = make_protocol(name, **own)
    sent = protocol.settings(N_SITES)
    assert sent.name == name
    again = from_settings(msgspec.msgpack.decode(msgspec.msgpack.encode(sent), type=ProtocolSettings))
    assert again == protocol
    assert protocol_of(type(protocol).__name__) is PROTOCOLS[name]
    assert getattr(dpcape, type(protocol).__name__) is PROTOCOLS[name]


@each_protocol
def test_parameters_of_other_protocols_are_ignored_or_refused(name: str) -> None:
    own = {parameter.name: UNUSUAL[parameter.name] for parameter in PROTOCOLS[name].parameters}
    others = {key: value for key, value in UNUSUAL.items() if key not in own}
    assert set(PROTOCOLS[name].refused) <= set(others)
    for key, value in others.items():
        assert make_protocol(name, **own, **{key: None}) == make_protocol(name, **own)
        if key in PROTOCOLS[name].refused:
            with pytest.raises(InvalidParameter, match=f"^{key} must be left out for {name}: "):
                make_protocol(name, **own, **{key: value})
        else:
            assert make_protocol(name, **own, **{key: value}) == make_protocol(name, **own)


def test_what_no_protocol_has_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(InvalidParameter, match=r"^protocol must be one of .*; got 'cap'\. Did you mean 'cape'\?$"):
        make_protocol("cap", n_colluding=1)
    with pytest.raises(InvalidParameter, match=r"got 'n_coluding'\. Did you mean 'n_colluding'\?$"):
        make_protocol("cape", n_coluding=1)
    with pytest.raises(InvalidParameter, match=r"^n_colluding must be given for cape; got nothing\. "):
        make_protocol("cape")
    with pytest.raises(InvalidParameter, match=r"^parameters of exact must be left out; got 'colours'"):
        make_protocol("exact", colours=2)


def study_of(kind: str, values: dict[str, Any]) -> Study:
    lines = "\n".join(f"{name} = {json.dumps(value)}" for name, value in values.items())
    sites = "\n".join(f"[sites.site{k:02d}]" for k in range(N_SITES))
    # A noise dealer has a name on an engine alone.
    engine = '[federation]\nengine = "flare"\n' if "dealer" in values else ""
    return Study.parse(STUDY.format(kind=kind, lines=lines, sites=sites) + engine)


@each_protocol
def test_a_study_takes_exactly_the_described_parameters(name: str) -> None:
    own = {parameter.name: UNUSUAL[parameter.name] for parameter in PROTOCOLS[name].parameters}
    study = study_of(name, own)
    assert study.settings == {"kind": name, **own}
    assert study.protocol() == make_protocol(name, **own)
    required = {parameter.name: own[parameter.name] for parameter in PROTOCOLS[name].parameters if parameter.required}
    assert study_of(name, required).protocol() == make_protocol(name, **required)
    for missing in required:
        with pytest.raises(InvalidParameter, match=rf"{missing} of \[protocol\] must be a whole number"):
            study_of(name, {key: value for key, value in required.items() if key != missing})
    known = ", ".join(sorted({"deadline", "kind", *own}))
    for other in (*(key for key in UNUSUAL if key not in own), "colours"):
        with pytest.raises(InvalidParameter, match=rf"'{other}' is not a field of .* fields are {known}\."):
            study_of(name, {**required, other: 1})


@each_protocol
def test_a_study_names_the_nearest_parameter(name: str) -> None:
    parameters = PROTOCOLS[name].parameters
    required = {parameter.name: UNUSUAL[parameter.name] for parameter in parameters if parameter.required}
    for parameter in parameters:
        if not parameter.required:
            with pytest.raises(InvalidParameter, match=f"Did you mean '{parameter.name}'"):
                study_of(name, {**required, parameter.name[:-1]: UNUSUAL[parameter.name]})
        if parameter.kind == "count":
            with pytest.raises(InvalidParameter, match=f"a whole number of at least {parameter.least}; got"):
                study_of(name, {**required, parameter.name: parameter.least - 1})


# Properties and words.


@each_protocol
def test_properties_are_what_the_protocol_does(name: str) -> None:
    protocol = next(protocols_of(name, 5))
    own, shared = protocol.unit_scales(np.arange(1.0, 6.0))
    assert bool((own > 0).all()) == protocol.adds_noise
    assert bool((shared > 0).all()) == bool((shared > 0).any()) == protocol.shares_noise
    assert any("dealer" in text for text in protocol.assumptions()) == protocol.needs_dealer
    if protocol.least_sites > 1:
        with pytest.raises(InvalidParameter, match=rf"at least {protocol.least_sites} sites; got \d+\. .*[Uu]se "):
            protocol.settings(protocol.least_sites - 1)
    required = {"n_colluding": 0} if "n_colluding" in PARAMETERS_OF[name] else {}
    assert make_protocol(name, **required).settings(protocol.least_sites).name == name


def test_protocols_are_told_apart() -> None:
    described = list(PROTOCOLS.values())
    for words in ("name", "title", "summary", "seen", "rank", "__name__"):
        found = [getattr(protocol, words) for protocol in described]
        assert all(found)
        assert len(set(found)) == len(found), words
    assert [protocol.rank for protocol in described] == sorted(protocol.rank for protocol in described)
    assert all(protocol.seen.endswith(".") and not protocol.summary.endswith(".") for protocol in described)


def test_no_protocol_is_drawn_like_the_ways_it_is_compared_with() -> None:
    for protocol in PLANNABLE.values():
        names = ("pooled data", protocol.title, "conventional", "largest site alone")
        lines = curves([1.0, 2.0], {name: [1.0, 2.0] for name in names}, labels=("epsilon", "error")).get_lines()
        assert len({line.get_color() for line in lines}) == len({line.get_linestyle() for line in lines}) == 4
        plt.close("all")


# Names are typed in one place.

_COMPARED = re.compile(
    r"""(?:protocol(?:\(\))?\.name|settings\.name|settings\["kind"\]|\bkind)\s*(?:[!=]==?|in)\s*\(?["']"""
)


def sources() -> dict[Path, str]:
    found = [path for kind in ("py", "js", "html") for path in (ROOT / "src" / "dpcape").rglob(f"*.{kind}")]
    return {path: path.read_text(encoding="utf-8") for path in found}


def test_a_name_is_typed_in_the_file_of_its_protocol_alone() -> None:
    wanted = {path for path, text in sources().items() if '"secure-sum"' in text}
    folder = ROOT / "src" / "dpcape" / "core" / "protocols"
    assert wanted == {folder / "names.py", folder / "secure_sum.py"}
    names = re.compile(rf"""["'`](?:{"|".join(PROTOCOLS)})["'`]""")
    for path, text in sources().items():
        if path.parent.name == "page" and path.suffix in (".js", ".html"):
            # A release may be known exactly; that is no protocol.
            assert {found.strip("\"'`") for found in names.findall(text)} <= {"exact"}, path


def test_nobody_asks_for_a_protocol_by_name() -> None:
    assert _COMPARED.search('if protocol.name == "exact":')
    assert _COMPARED.search('if kind in ("cape", "dealer"):')
    names = "|".join(PROTOCOLS)
    for path, text in sources().items():
        asked = [line for line in text.splitlines() if _COMPARED.search(line) and re.search(rf'"(?:{names})"', line)]
        assert not asked, (path, asked)


# The page's table.

_RUNNER = """
const fs = require("fs"), vm = require("vm");
const context = vm.createContext({ console });
try { vm.runInContext(fs.readFileSync("page.js", "utf8"), context); } catch (error) { void error; }
context.asked = JSON.parse(fs.readFileSync("asked.json", "utf8"));
fs.writeFileSync("found.json", vm.runInContext(`JSON.stringify({
  names: Object.keys(PROTOCOLS), independent: INDEPENDENT,
  described: Object.fromEntries(Object.entries(PROTOCOLS).map(([name, { closed_form, ...rest }]) => [name, rest])),
  answers: asked.map(({ protocol, sites }) => {
    try {
      const settings = settingsOf(protocol, sites);
      return [settings, PROTOCOLS[protocol.name].closed_form(sites, settings.honest, protocol.ratio)];
    } catch (error) { return error.message; }
  }) })`, context));
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the page's own scripts say of every protocol, over many settings."""
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    folder = tmp_path_factory.mktemp("page")
    write_planner(folder / "plan.html")
    scripts = re.findall(r"<script>(.*?)</script>", (folder / "plan.html").read_text(encoding="utf-8"), re.DOTALL)
    asked = [
        {"protocol": {"name": name, "colluding": colluding, "minimum": minimum, "ratio": ratio}, "sites": sites}
        for name in PLANNABLE
        for sites in range(1, 7)
        for colluding in range(7)
        for minimum in (None, *range(8))
        for ratio in (0.3, 100.0)
    ]
    for file, text in {"page.js": "\n".join(scripts), "asked.json": json.dumps(asked), "run.js": _RUNNER}.items():
        (folder / file).write_text(text, encoding="utf-8")
    subprocess.run(["node", "run.js"], cwd=folder, check=True)
    return {"asked": asked, **json.loads((folder / "found.json").read_text(encoding="utf-8"))}


def test_the_page_has_every_plannable_protocol(page: dict[str, Any]) -> None:
    assert page["names"] == list(PLANNABLE) == list(protocol_options())
    assert PLANNABLE[page["independent"]].least_sites == 1
    for name, row in page["described"].items():
        protocol = PLANNABLE[name]
        assert row["python"] == protocol.__name__
        assert row["title"].lower() == protocol.title.lower()
        assert row["vectors"] == protocol.vectors
        # No figure depends on a name.
        assert list(row["parameters"]) == [entry.name for entry in protocol.parameters if entry.kind != "name"]
        assert row["assumptions"] == list(make_protocol(name, n_colluding=0).assumptions())


def answer_of(protocol: dict[str, Any], sites: int) -> Any:
    """Return what Python says where the page is asked: settings and closed form, or the words of the refusal."""
    name, colluding, minimum, ratio = protocol.values()
    try:
        made = make_protocol(name, n_colluding=colluding, minimum_sites=minimum, cancelling_ratio=ratio)
        settings = made.settings(sites)
    except InvalidParameter as error:
        return str(error)
    honest = made.n_honest(sites)
    counts = {"colluding": settings.n_colluding, "minimum": settings.minimum_sites, "honest": honest}
    return [counts, list(made.closed_form(sites, honest, ratio))]


def test_the_page_takes_and_refuses_what_protocols_do(page: dict[str, Any]) -> None:
    """Settings, the words of refusals, and closed forms, in the page's scripts and in Python."""
    wanted = [answer_of(**asked) for asked in page["asked"]]
    assert page["answers"] == wanted
    refused = sum(isinstance(answer, str) for answer in wanted)
    assert 100 < refused < len(wanted) - 100
