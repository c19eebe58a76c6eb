"""Records of a Dask cluster: totals are computed there, and are those of the same records in memory."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpcape import PCA, Cape, Federation, Ledger, Replay, in_process, labelled, rows, views
from dpcape.core.errors import InvalidParameter, ProtocolError
from dpcape.core.kernel import PartSums
from dpcape.core.site import Site
from dpcape.core.totals import released_total, total_of
from dpcape.records import dask_stream as stream
from dpcape.records.kinds import Records
from dpcape.records.streamed import Streamed
from dpcape.statistics.moments import SecondMoment, second_moment

pytest.importorskip("dask")
pytest.importorskip("pandas")
import dask
import dask.array as da
import dask.dataframe as dd
import pandas as pd

N, D = 3000, 4
X = np.random.default_rng(0).normal(size=(N, D))
RANGES = {"age": (18, 90), "sex": ["F", "M"]}


@pytest.fixture
def in_threads() -> Iterator[None]:
    with dask.config.set(scheduler="threads"):
        yield


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A cluster of two processes that start with a clean environment, as a site's would."""
    distributed = pytest.importorskip("distributed")
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1, "distributed.comm.timeouts.connect": "60s"}),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as made,
        distributed.Client(made),
    ):
        yield made


def frame() -> pd.DataFrame:
    draw = np.random.default_rng(1)
    made = pd.DataFrame({"age": draw.uniform(10, 95, N), "sex": draw.choice(["F", "M"], N), "y": draw.normal(size=N)})
    made.loc[[3, 700], "age"] = np.nan
    return made


def same_total(one: Records, other: Records) -> None:
    statistic = second_moment(other.facts())
    difference = released_total(statistic, one) - released_total(statistic, other)
    assert np.linalg.norm(difference) <= 2 * statistic.rounding(N)


@pytest.mark.usefixtures("in_threads")
@pytest.mark.filterwarnings("ignore::dpcape.core.errors.UtilityWarning")
def test_collections_give_the_blocks_and_totals_of_the_same_values_in_memory() -> None:
    table = frame()
    parts = dd.from_pandas(table, npartitions=4)
    array, target = da.from_array(X, chunks=(1100, 3)), da.from_array(X[:, 0], chunks=1100)
    wanted = [["age", "sex"], ["y"]]
    pairs: list[tuple[Records, Records]] = [
        (rows(array, bound=1.0), rows(X, bound=1.0)),
        (rows(parts, ranges=RANGES), rows(table, ranges=RANGES)),
        (rows(parts, bound=9.0, feature_names=["y", "age"]), rows(table[["y", "age"]], bound=9.0)),
        (
            labelled(parts, "y", ranges=RANGES, response=(-2, 2)),
            labelled(table, table["y"], ranges=RANGES, response=(-2, 2)),
        ),
        (labelled(array, target, bound=1.0, response=(-2, 2)), labelled(X, X[:, 0], bound=1.0, response=(-2, 2))),
        (
            views(parts, parts, bounds=(2.0, 1.0), ranges=[RANGES, {"y": (-2, 2)}]),
            views(table[wanted[0]], table[wanted[1]], bounds=(2.0, 1.0), ranges=[RANGES, {"y": (-2, 2)}]),
        ),
    ]
    for there, here in pairs:
        assert isinstance(there, Streamed)
        assert there.computed_on == "dask"
        assert there.facts() == here.facts()
        assert there.n_invalid == here.n_invalid
        same_total(there, here)
        # What runs in the site's own process meets the same blocks, bit for bit.
        for left, right in zip(there.blocks(1024), here.blocks(1024), strict=True):
            for mine, theirs in zip(left, right, strict=True) if isinstance(left, tuple) else [(left, right)]:
                np.testing.assert_array_equal(mine, theirs)


@pytest.mark.usefixtures("in_threads")
def test_one_part_gives_the_same_bits() -> None:
    here, there = rows(X, bound=1.0), rows(da.from_array(X, chunks=(N, 2)), bound=1.0)
    statistic = second_moment(here.facts())
    np.testing.assert_array_equal(total_of(statistic, there), total_of(statistic, here))


@pytest.mark.usefixtures("in_threads")
def test_parts_of_float32_are_computed_on_the_cluster_with_the_totals_of_float64() -> None:
    narrow = X.astype(np.float32)
    here, there = rows(narrow.astype(np.float64), bound=1.0), rows(da.from_array(narrow, chunks=(900, D)), bound=1.0)
    assert here.facts() == there.facts()
    statistic = second_moment(here.facts())
    assert there.each_part(PartSums.of(statistic)) is not None
    np.testing.assert_array_equal(total_of(statistic, there), total_of(statistic, here))


@pytest.mark.usefixtures("in_threads")
def test_a_part_without_rows_counts_nothing() -> None:
    parts = da.concatenate([da.from_array(X[:10], chunks=4), da.zeros((0, D)), da.from_array(X[10:], chunks=700)])
    same_total(rows(parts, bound=1.0), rows(X, bound=1.0))
    table = dd.from_pandas(frame(), npartitions=3)
    some = table[table["y"] > 10]
    with pytest.raises(InvalidParameter, match="without rows"):
        rows(some, bound=1.0, feature_names=["y"])


def with_two_others(records: Records, ledger: Ledger | None = None) -> Federation:
    others = {name: rows(X, bound=1.0) for name in ("b", "c")}
    sites = in_process({"here": records, **others}, ledgers={"here": ledger or Ledger()}, noise=Replay(5))
    return Federation(sites, protocol=Cape(n_colluding=1))


def fit(records: Records, ledger: Ledger | None = None) -> PCA:
    return PCA(n_components=1, epsilon=5.0, delta=1e-6, center=False).fit(with_two_others(records, ledger))


class Parts:
    """Parts whose values a test changes between readings."""

    def __init__(self) -> None:
        self.values = X.copy()

    def collection(self) -> Any:
        def part(start: int) -> np.ndarray:
            return self.values[start : start + 1000]

        made = [da.from_delayed(dask.delayed(part, pure=False)(at), (1000, D), float) for at in (0, 1000, 2000)]
        return da.concatenate(made)


@pytest.mark.usefixtures("in_threads")
@pytest.mark.parametrize("how", ["one value", "a row less", "another order"])
def test_a_part_that_changes_between_readings_is_refused(how: str, monkeypatch: Any) -> None:
    parts, ledger = Parts(), Ledger()
    records = rows(parts.collection(), bound=1.0)

    def change() -> None:
        if how == "one value":
            parts.values[1500, 2] += 1e-12
        elif how == "a row less":
            parts.values = parts.values[:-1]
        else:
            parts.values[[1, 2500]] = parts.values[[2500, 1]]

    unchanged = Site._check_unchanged

    def then_change(site: Site) -> None:
        unchanged(site)
        if site.name == "here":
            change()

    with monkeypatch.context() as patched:
        patched.setattr(Site, "_check_unchanged", then_change)
        with pytest.raises(ProtocolError, match="the site failed; its own log says why"):
            fit(records, ledger)
    assert len(ledger.charges) == 1
    with pytest.raises(ProtocolError, match=r"not those that were read first.*Nothing was charged"):
        fit(records, later := Ledger())
    assert not later.charges
    with pytest.raises(ProtocolError, match="not those that were read first"):
        list(records.blocks())


@pytest.mark.usefixtures("in_threads")
def test_what_is_no_table_of_dask_is_refused_in_words() -> None:
    array, parts = da.from_array(X, chunks=(1000, D)), dd.from_pandas(frame(), npartitions=3)
    with pytest.raises(InvalidParameter, match="all be collections of Dask"):
        labelled(array, X[:, 0], bound=1.0, response=(0, 1))
    with pytest.raises(InvalidParameter, match="same parts"):
        views(array, da.from_array(X, chunks=(500, D)), bounds=(1.0, 1.0))
    with pytest.raises(InvalidParameter, match="array of rows or a table"):
        rows(da.zeros(5), bound=1.0)
    with pytest.raises(InvalidParameter, match="the stream must have the column"):
        rows(parts, ranges={"wieght": (0, 1)})
    with pytest.raises(InvalidParameter, match="y must be an array of Dask"):
        labelled(array, "y", bound=1.0, response=(0, 1))


@pytest.mark.usefixtures("in_threads")
def test_workers_of_another_version_are_refused(monkeypatch: Any) -> None:
    records = rows(da.from_array(X, chunks=(1000, D)), bound=1.0)
    monkeypatch.setattr(stream, "__version__", "0.0.0")
    checked = stream._on_part

    def old(*given: Any) -> Any:
        found = checked(*given)
        return stream._OfPart(found.checksum, found.result, "0.0.1")

    monkeypatch.setattr(stream, "_on_part", old)
    with pytest.raises(ProtocolError, match="another version"):
        fit(records)


@pytest.mark.usefixtures("in_threads")
def test_a_failure_says_nothing_of_values_to_the_coordinator() -> None:
    parts = Parts()
    records, seen = rows(parts.collection(), bound=1.0), []

    class Fails:
        def __getitem__(self, rows: slice) -> np.ndarray:
            seen.append(rows)
            raise ValueError("patient 98765 is missing")

    parts.values = Fails()  # type: ignore[assignment]  # it fails
    with pytest.raises(ProtocolError, match="Dask cluster failed with ValueError") as caught:
        fit(records)
    assert seen
    assert "98765" not in str(caught.value)


# --- processes -----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("cluster")
def test_a_cluster_of_processes_computes_totals_and_the_guarantee_names_it(monkeypatch: Any) -> None:
    records = rows(da.from_array(X, chunks=(700, D)), bound=1.0)
    plain = fit(rows(X, bound=1.0))

    def not_here(self: Any, records: Any) -> None:
        if isinstance(records, Streamed):
            raise AssertionError("the total was computed in the site's own process")
        return whole(self, records)

    whole = SecondMoment.total
    monkeypatch.setattr(SecondMoment, "total", not_here)
    there = fit(records)
    np.testing.assert_allclose(np.abs(there.components_), np.abs(plain.components_), atol=1e-9)
    line = "at here: computed on the site's Dask cluster; assumed: it lies inside the site's boundary"
    assert line in there.guarantee_.assumptions
    assert line in str(there.guarantee_) or line in there.guarantee_.card()
    assert not any("Dask" in words for words in plain.guarantee_.assumptions)


@pytest.mark.usefixtures("cluster")
def test_a_worker_that_dies_changes_nothing(tmp_path: Path) -> None:
    mark = tmp_path / "killed"
    mark.touch()

    def killed_once(values: np.ndarray, name: str) -> np.ndarray:
        """End the worker that computes this the first time."""
        try:
            os.close(os.open(name, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return values
        os.kill(os.getpid(), signal.SIGKILL)
        return values

    parts = da.from_array(X, chunks=(1000, D)).map_blocks(killed_once, str(mark), dtype=float)
    records = rows(parts, bound=1.0)
    mark.unlink()
    same_total(records, rows(X, bound=1.0))
    assert mark.exists()
