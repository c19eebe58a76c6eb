"""How a statistic joins the laws: one :class:`Case` in a file ``cases_<topic>.py`` beside this one."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcape.core.facts import PublicFacts
from dpcape.core.statistic import Statistic, build

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Case:
    """A statistic at one setting, and how units are made of real parameters.

    Attributes
    ----------
    name : the name under which sites find the statistic.
    label : what is special about this setting.
    n_parameters : real numbers that describe one unit; any values are legal, also beyond the public bound.
    records : makes records from parameters, (units, n_parameters).
    public : the statistic's public values, given the facts.
    reaches : part of the diameter that the search must find; 1 where the diameter is attained. It gives the search
        teeth: a search that finds nothing proves nothing.
    expected : natural mean, flattened, computed without the statistic from parameters; None where there is none.
    numbers : what a plan knows of the statistic before there are any arrays, from facts and public values; None where
        ``test_extents.py`` says it.
    extent : size, diameter and radius as the proof has them; None where ``test_extents.py`` has them.
    """

    name: str
    label: str
    n_parameters: int
    records: Callable[[Vector], Any]
    public: Mapping[str, Any] = field(default_factory=dict)
    reaches: float = 0.999
    expected: Callable[[Vector], Vector] | None = None
    numbers: Callable[[PublicFacts, Mapping[str, Any]], dict[str, Any]] | None = None
    extent: tuple[int, float, float] | None = None

    def statistic(self) -> Statistic:
        facts = self.records(np.zeros((1, self.n_parameters))).facts()
        return build(self.name, facts, self.public)

    @cached_property
    def _built(self) -> Statistic:
        """The statistic of all totals: searches take thousands of them, and a site builds it once per release too."""
        return self.statistic()

    def total(self, parameters: Vector) -> Vector:
        return self._built.total(self.records(np.atleast_2d(parameters)))

    def __str__(self) -> str:
        return f"{self.name}-{self.label}"


def all_cases() -> list[Case]:
    """Return the cases of every ``cases_*.py`` beside this file."""
    names = sorted(path.stem for path in Path(__file__).parent.glob("cases_*.py"))
    package = __name__.rpartition(".")[0]
    return [case for name in names for case in importlib.import_module(f"{package}.{name}").CASES]
