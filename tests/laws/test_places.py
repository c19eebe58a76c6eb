"""A statistic that knows the place of its site knows it wherever it is computed: in memory, from a stream, on Dask."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dpcape import PCA, Exact, Federation, in_process, rows
from dpcape.core.kernel import PartSums, Summed
from dpcape.core.totals import total_of
from dpcape.records.streamed import Streamed

from .statistic_case import Case, all_cases

pytest.importorskip("dask")
import dask
import dask.array as da

N = 90


def units(case: Case) -> np.ndarray:
    return np.random.default_rng(6).normal(size=(N, case.n_parameters))


def _has_places(case: Case) -> bool:
    """Tell whether a total depends on the place: found by computing, not by what a class says of itself."""
    statistic = case.statistic()
    if not statistic.by_site:
        return False
    records = case.records(units(case))
    return not np.array_equal(statistic.at(0).total(records), statistic.at(1).total(records))


CASES = [case for case in all_cases() if _has_places(case)]


class Batches:
    """A table that is read as a stream of batches, and of which columns can be chosen as of an array."""

    def __init__(self, values: np.ndarray) -> None:
        self._values = values

    def __getitem__(self, chosen: Any) -> Batches:
        return Batches(self._values[chosen])

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        columns = {f"column {at}": np.ascontiguousarray(values) for at, values in enumerate(self._values.T)}
        reader = pa.Table.from_batches(pa.table(columns).to_batches(max_chunksize=13)).to_reader()
        return reader.__arrow_c_stream__(requested_schema)


def test_some_statistics_know_a_place() -> None:
    assert {case.name for case in CASES} >= {"site_centred_moments", "scaled_site_centred_moments"}


# Views of a stream are columns of one stream, which a case, made of two arrays, cannot say.
SOURCES = [(case, "dask") for case in CASES] + [
    (case, "stream") for case in CASES if case.statistic().facts.kind == "rows"
]


@pytest.mark.parametrize(("case", "source"), SOURCES, ids=str)
def test_a_total_lands_in_the_place_of_its_site(case: Case, source: str) -> None:
    parameters = units(case)
    made = case.records(Batches(parameters) if source == "stream" else da.from_array(parameters, chunks=(17, -1)))
    assert isinstance(made, Streamed)
    here = case.records(parameters)
    for place in range(int(case.statistic().numbers["n_sites"])):
        statistic = case.statistic().at(place)
        with dask.config.set(scheduler="synchronous"):
            apart = total_of(statistic, made) - statistic.total(here)
        assert np.linalg.norm(apart) <= 2 * statistic.rounding(N)


@pytest.mark.parametrize("case", all_cases(), ids=str)
def test_every_statistic_keeps_its_place(case: Case) -> None:
    """Also those whose totals are the same everywhere today; what is sent to a cluster says the place."""
    statistic = case.statistic()
    place = 1 if statistic.by_site else 0
    moved = statistic.at(place)
    assert (moved.place, statistic.place) == (place, 0)
    if isinstance(moved, Summed):
        assert PartSums.of(moved).place == place
    assert (moved.size, moved.diameter) == (statistic.size, statistic.diameter)


def test_what_only_separates_sites_is_no_component_on_a_cluster() -> None:
    """Sites differ by a shift alone: adjusted for it, the first component is the column that varies within sites."""
    draw = np.random.default_rng(7)
    shifts = {"a": -0.5, "b": 0.5}
    tables = {
        name: np.column_stack([np.full(400, shift), draw.uniform(-0.3, 0.3, 400)]) for name, shift in shifts.items()
    }
    found = {}
    for source in ("memory", "dask"):
        held = {
            name: rows(table if source == "memory" else da.from_array(table, chunks=(150, -1)), bound=1.0)
            for name, table in tables.items()
        }
        with dask.config.set(scheduler="synchronous"):
            model = PCA(1, adjust="site", epsilon=1.0, delta=1e-5).fit(Federation(in_process(held), protocol=Exact()))
        found[source] = np.abs(model.components_[0])
    np.testing.assert_allclose(found["memory"], [0.0, 1.0], atol=1e-9)
    np.testing.assert_allclose(found["dask"], found["memory"], atol=1e-9)
