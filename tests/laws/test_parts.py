"""The total of all records is the sum of the totals of parts: what a cluster computes is what one process computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from dpcape.core.enclosed import Enclosed
from dpcape.core.kernel import PartSums, Summed
from dpcape.core.statistic import is_own
from dpcape.core.totals import total_of
from dpcape.records.kinds import Records

from .statistic_case import Case, all_cases


def _runs_on_a_cluster(case: Case) -> bool:
    statistic = case.statistic()
    is_plain = is_own(type(statistic)) and not isinstance(statistic, Enclosed)
    return is_plain and not statistic.assumption


CASES = [case for case in all_cases() if _runs_on_a_cluster(case)]


class InParts:
    """Records that are elsewhere, in parts, one of them a single record."""

    def __init__(self, case: Case, parameters: np.ndarray, ends: tuple[int, ...]) -> None:
        self._parts = [case.records(part) for part in np.split(parameters, ends)]

    def each_part(self, function: Callable[[Records], Any]) -> Iterator[Any]:
        return (function(part) for part in self._parts)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_totals_of_parts_add_up_to_the_total(case: Case) -> None:
    statistic = case.statistic()
    parameters = np.random.default_rng(4).normal(size=(40, case.n_parameters))
    whole = statistic.total(case.records(parameters))
    parts = total_of(statistic, InParts(case, parameters, (1, 17)))  # type: ignore[arg-type]  # a stand-in
    if isinstance(statistic, Summed):
        np.testing.assert_array_equal(parts, whole)
    else:
        assert np.linalg.norm(parts - whole) <= 2 * statistic.rounding(len(parameters))


def test_what_is_sent_to_a_worker_holds_a_name_a_place_and_public_values_alone() -> None:
    case = next(case for case in CASES if case.public)
    sent = PartSums.of(case.statistic())  # type: ignore[arg-type]  # it is summed
    assert set(vars(sent)) == {"name", "facts", "public", "place"}
    assert sent.facts.n_records == 0
