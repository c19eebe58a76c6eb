"""Tables of names equal what modules define, in both directions, and a name of dpcape's own is nobody else's."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

import pytest

from dpcape.analyses.description import Analysis
from dpcape.analyses.names import IN_ONE_PROCESS, IN_STUDIES
from dpcape.core.protocols.names import PROTOCOL_NAMES
from dpcape.core.protocols.protocol import Protocol
from dpcape.core.protocols.registry import PROTOCOLS
from dpcape.core.statistic import _KNOWN, is_own
from dpcape.core.statistic_names import STATISTICS
from dpcape.statistics import feature_maps, losses
from dpcape.statistics.losses import LOSSES


def _modules(package: str) -> Iterator[ModuleType]:
    for entry in iter_modules(import_module(package).__path__):
        yield import_module(f"{package}.{entry.name}")


def _place(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def test_the_table_of_statistics_is_what_modules_define() -> None:
    assert list(_modules("dpcape.statistics"))
    assert {name: cls.__module__ for name, cls in _KNOWN.items() if is_own(cls)} == STATISTICS


def test_the_table_of_losses_is_what_modules_define() -> None:
    assert list(_modules("dpcape.statistics"))
    own = {name: type(loss).__module__ for name, loss in losses._LOSSES.items() if is_own(type(loss))}
    assert own == LOSSES


def test_the_tables_of_analyses_are_what_modules_define() -> None:
    found = {
        entry.name: (f"{module.__name__}:{attribute}", entry.in_studies)
        for module in _modules("dpcape.analyses")
        for attribute, entry in vars(module).items()
        if isinstance(entry, Analysis)
    }
    assert {name: place for name, (place, in_studies) in found.items() if in_studies} == IN_STUDIES
    assert {name: place for name, (place, in_studies) in found.items() if not in_studies} == IN_ONE_PROCESS


def test_the_table_of_protocols_is_what_modules_define_in_their_order() -> None:
    classes = [
        entry
        for module in _modules("dpcape.core.protocols")
        for entry in vars(module).values()
        if inspect.isclass(entry) and issubclass(entry, Protocol) and entry.__module__ == module.__name__
    ]
    concrete = sorted(
        (entry for entry in classes if not inspect.isabstract(entry)), key=lambda entry: (entry.rank, entry.name)
    )
    assert list(PROTOCOL_NAMES.items()) == [(entry.name, _place(entry)) for entry in concrete]
    assert dict(PROTOCOLS) == {entry.name: entry for entry in concrete}


FRESH = {
    "losses": ("from dpcape.statistics.losses import own_losses as own", losses.own_losses),
    "feature maps": ("from dpcape.statistics.feature_maps import own_maps as own", feature_maps.own_maps),
}


@pytest.mark.parametrize("name", FRESH)
def test_what_a_fresh_process_knows_is_what_all_modules_define(name: str) -> None:
    """Nothing is known only because somebody else loaded its module."""
    assert list(_modules("dpcape.statistics"))
    found, own = FRESH[name]
    code = f"{found}; print(sorted(own()))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == str(sorted(own()))


def test_dpcape_has_no_modules_of_its_own() -> None:
    """A network of dpcape's own would need a table, as losses have."""
    code = (
        "from dpcape.core.statistic import load_all; load_all()\n"
        "from dpcape.statistics.modules import _MODULES; print(_MODULES)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "{}"


TAKEN = {
    "statistic": "from dpcape.statistics import Statistic as Base, known as known\n",
    "loss": "from dpcape.statistics import RecordLoss as Base, known_loss as known\n",
}


@pytest.mark.parametrize(("kind", "name"), [("statistic", "second_moment"), ("loss", "poisson")])
def test_a_name_of_dpcape_is_taken_before_its_module_is_loaded(kind: str, name: str) -> None:
    code = (
        f"{TAKEN[kind]}"
        "import sys\n"
        "assert 'dpcape.statistics.moments' not in sys.modules\n"
        "assert 'dpcape.statistics.poisson_loss' not in sys.modules\n"
        "from dpcape.core.errors import InvalidParameter\n"
        f"try:\n    known(type('Mine', (Base,), {{'name': '{name}'}}))\n"
        "except InvalidParameter as error:\n    print(error)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert f"must be new; got '{name}'" in run.stdout
