"""Arrays of float32 are the same records as their copies in float64: facts, totals to the last bit, and noise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcape import PCA, Cape, Federation, Replay, in_process, labelled, rows, subjects, views
from dpcape.core.errors import InvalidParameter
from dpcape.core.statistic import build
from dpcape.study.study import Study

Make = Callable[[NDArray[Any]], Any]

N_RECORDS, WIDTH = 700, 5
CODES = np.arange(N_RECORDS) % 3
# Some rows are within a bound of 2 and some beyond; their numbers need all 24 bits of float32.
NARROW = (np.random.default_rng(0).normal(size=(N_RECORDS, WIDTH)) * 0.9 + 1 / 3).astype(np.float32)
KINDS: dict[str, Make] = {
    "rows": lambda X: rows(X, bound=2.0),
    "rows with ranges": lambda X: rows(X, bound=1.5, ranges=(-2, 3)),
    "views": lambda X: views(X[:, :2], X[:, 2:], bounds=(1.0, 1.7)),
    "response": lambda X: labelled(X, X[:, 0], bound=2.0, response=(-1, 1)),
    "classes": lambda X: labelled(X, CODES, bound=2.0, classes=[0, 1, 2]),
    "time points": lambda X: subjects([X[:100], X[100:]], bound=2.0, unit="record"),
}
STATISTICS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "first_moments": lambda facts: {},
    "second_moment": lambda facts: {},
    "centred_moments": lambda facts: {"mean_weight": 0.5},
    "absolute_deviations": lambda facts: {"centre": np.full(WIDTH, 0.3)},
    "scaled_second_moment": lambda facts: {
        "centre": np.full(WIDTH, 0.3),
        "scale": np.linspace(0.5, 0.9, WIDTH),
        "radius": np.full(len(facts.widths), 1.7),
    },
}


def _total(name: str, records: Any) -> NDArray[np.float64]:
    facts = records.facts()
    total: NDArray[np.float64] = build(name, facts, STATISTICS[name](facts)).total(records)
    return total


@pytest.mark.parametrize("name", STATISTICS)
@pytest.mark.parametrize("dtype", ["f4", ">f4", "f2"])
@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS.keys())
def test_totals_are_those_of_the_copy_in_float64(make: Make, dtype: str, name: str) -> None:
    given = NARROW.astype(dtype)
    narrow, wide = make(given), make(given.astype(np.float64))
    assert narrow.facts() == wide.facts()
    np.testing.assert_array_equal(_total(name, narrow), _total(name, wide))


@pytest.mark.filterwarnings("ignore::dpcape.core.errors.UtilityWarning")
@pytest.mark.parametrize("bad", [np.nan, np.inf, 3e38])
def test_rows_that_are_invalid_or_huge_are_so_in_both(bad: float) -> None:
    given = NARROW.copy()
    given[3] = bad
    narrow, wide = rows(given, bound=2.0), rows(given.astype(np.float64), bound=2.0)
    assert narrow.n_invalid == wide.n_invalid == (not np.isfinite(bad))
    np.testing.assert_array_equal(_total("second_moment", narrow), _total("second_moment", wide))


def test_whole_subjects_are_those_of_the_copy_in_float64() -> None:
    def read(X: NDArray[Any]) -> list[NDArray[np.float64]]:
        series = [X[:100], X[100:]]
        people = subjects(series, bound=2.0, unit="subject", rows_per_subject=N_RECORDS, n_features=WIDTH)
        return [one.copy() for one in people.each_subject()]

    for one, other in zip(read(NARROW), read(NARROW.astype(np.float64)), strict=True):
        np.testing.assert_array_equal(one, other)


def test_sites_with_arrays_of_either_type_are_one_federation_with_one_guarantee() -> None:
    def fitted(*types: type) -> Any:
        parts = np.array_split(NARROW, 3)
        held = {name: rows(X.astype(dtype), bound=2.0) for name, X, dtype in zip("abc", parts, types, strict=True)}
        federation = Federation(in_process(held, noise=Replay(4)), protocol=Cape(n_colluding=1))
        model = PCA(2, epsilon=1.0, delta=1e-6, center=False)
        planned = federation.plan(model).guarantee
        assert planned.sites == model.fit(federation).guarantee_.sites
        return model

    wide = fitted(np.float64, np.float64, np.float64)
    for model in (fitted(np.float32, np.float64, np.float32), fitted(np.float32, np.float32, np.float32)):
        np.testing.assert_array_equal(model.components_, wide.components_)
        assert model.guarantee_ == wide.guarantee_


STUDY = """\
[study]
name = "first"
analysis = "pca"
epsilon = 2.0
delta = 1e-5
n_components = 2

[protocol]
kind = "cape"
n_colluding = 1

[sites.lima]
[sites.lyon]
[sites.oslo]

[data]
kind = "rows"
features = 5
bound = 2.0
"""


def test_files_of_either_type_are_the_same_records_of_a_study(tmp_path: Path) -> None:
    study = Study.parse(STUDY)
    records = []
    for dtype in (np.float32, np.float64):
        file = tmp_path / f"{np.dtype(dtype)}.npy"
        np.save(file, NARROW.astype(dtype))
        records.append(study.records_for("lyon", file))
    assert records[0].facts() == records[1].facts()
    assert records[0].facts().shape_facts() == study.facts()
    np.testing.assert_array_equal(*(_total("second_moment", each) for each in records))


@pytest.mark.parametrize("precision", ["single", "double"])
def test_no_precision_can_be_asked_for(precision: str) -> None:
    with pytest.raises(InvalidParameter, match="precision"):
        Study.parse(STUDY + f'precision = "{precision}"\n')
    with pytest.raises(TypeError, match="precision"):
        rows(NARROW, bound=1.0, precision=precision)  # type: ignore[call-arg]  # there is no such parameter
