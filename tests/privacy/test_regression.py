"""Privacy regression: what every estimator releases under every protocol at one standard setting, compared with a file.

``guarantees.toml`` is edited by hand when a change is meant: ``python tests/privacy/test_regression.py`` prints what
the code does now. A change needs an entry under *Privacy* in the changelog and a second reviewer; a smaller scale at
equal epsilon never passes silently.
"""

from __future__ import annotations

import importlib.util
import math
import sys
import tomllib
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from dpcape import Cape, Dealer, Federation, Independent, Replay, SecureSum, in_process
from dpcape.core.errors import DpcapeWarning
from dpcape.core.privacy.calibration import NoisePlans, ReleaseNoise
from dpcape.core.protocols.protocol import Protocol

EPSILON, DELTA = 1.0, 1e-5
PROTOCOLS: dict[str, Protocol] = {
    "independent": Independent(),
    "cape": Cape(n_colluding=1),
    "secure-sum": SecureSum(n_colluding=1),
    "dealer": Dealer(n_colluding=1),
}
FILE = Path(__file__).with_name("guarantees.toml")


def _cases() -> list[Any]:
    path = Path(__file__).parents[1] / "laws" / "estimator_case.py"
    spec = importlib.util.spec_from_file_location("dpcape_estimator_case", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return list(module.all_estimators())


CASES = {case.label: case for case in _cases()}


def recorded(case: Any, protocol: Protocol) -> dict[str, Any]:
    """Fit once; return what was released, from plans and statistics, and what is printed."""
    planned: dict[int, tuple[Any, ReleaseNoise]] = {}

    plan_of = NoisePlans.plan

    def keep(plans: NoisePlans, release: int, statistic: Any) -> ReleaseNoise:
        plan = plan_of(plans, release, statistic)
        planned[release] = statistic, plan
        return plan

    transport = in_process(case.records(), noise=Replay(7))
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore", DpcapeWarning)
        patch.setattr(NoisePlans, "plan", keep)
        model = case.make(EPSILON, DELTA).fit(Federation(transport, protocol=protocol))
    used = [planned[number] for number in range(len(model.releases_))]
    worst = max(model.guarantee_.sites, key=lambda site: model.guarantee_.sites[site].epsilon)
    return {
        "releases": model.guarantee_.releases,
        "statistics": [statistic.name for statistic, _ in used],
        "diameters": [statistic.diameter for statistic, _ in used],
        "scales": [release.scale for release in model.releases_],
        # By how much the view exceeds one Gaussian of the site's own scale.
        "exposures": [plan.mus[worst] * plan.own_scales[worst] / plan.output_sensitivities[worst] for _, plan in used],
        "mu": model.guarantee_.mu,
        "epsilon": model.guarantee_.epsilon,
        "epsilon_output_only": model.guarantee_.epsilon_output_only,
    }


@cache
def _expected() -> dict[str, Any]:
    return tomllib.loads(FILE.read_text())


def same(found: Any, wanted: Any, tolerance: float = 1e-12) -> bool:
    """Compare; figures to what different linear-algebra kernels leave alike.

    A later release may depend on an earlier one (a whitener, say), whose last digits they do not leave alike.
    """
    if isinstance(wanted, list):
        pairs = enumerate(zip(found, wanted, strict=False))
        return len(found) == len(wanted) and all(same(f, w, 1e-6 if i else tolerance) for i, (f, w) in pairs)
    if isinstance(wanted, float):
        return math.isclose(found, wanted, rel_tol=tolerance)
    return bool(found == wanted)


def test_the_file_lists_every_estimator_under_every_protocol() -> None:
    expected = _expected()
    assert expected["setting"] == {"epsilon": EPSILON, "delta": DELTA, "n_sites": 4, "n_colluding": 1}
    listed = {(label, name) for label, entries in expected.items() if label != "setting" for name in entries}
    assert listed == {(label, name) for label in CASES for name in PROTOCOLS}


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("label", CASES)
def test_releases_are_as_listed(label: str, protocol: str) -> None:
    expected = _expected().get(label, {}).get(protocol)
    assert expected is not None, f"list {label} in {FILE.name}: python tests/golden/renew.py new"
    found = recorded(CASES[label], PROTOCOLS[protocol])
    assert {key for key in expected if not same(found[key], expected[key])} == set()
    assert found.keys() == expected.keys()


def test_a_smaller_scale_does_not_pass() -> None:
    entry = _expected()["PCA"]["cape"]
    assert not same([0.999999 * entry["scales"][0]], entry["scales"])


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(_text(entry) for entry in value) + "]"
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _entries(label: str) -> str:
    """Return what an estimator releases under every protocol, as the file has it."""
    lines = []
    for name, protocol in PROTOCOLS.items():
        lines.append(f"\n[{label}.{name}]")
        lines += [f"{key} = {_text(value)}" for key, value in recorded(CASES[label], protocol).items()]
    return "\n".join(lines)


def write_new() -> list[str]:
    """Add the estimators that the file does not list, and return their labels; what it lists stays."""
    labels = [label for label in CASES if label not in _expected()]
    if labels:
        FILE.write_text(FILE.read_text().rstrip("\n") + "\n" + "".join(f"{_entries(label)}\n" for label in labels))
    return labels


def _print_all() -> None:
    print("# What every estimator releases under every protocol; see test_regression.py. Edit only with a reason.\n")
    print(f"[setting]\nepsilon = {EPSILON}\ndelta = {DELTA}\nn_sites = 4\nn_colluding = 1")
    for label in CASES:
        print(_entries(label))


if __name__ == "__main__":
    _print_all()
