"""Invalid records contribute zero: within the diameter, counted at the site, and never a bias in silence."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpcape import (
    PCA,
    Exact,
    Federation,
    Independent,
    KMeans,
    LinearRegression,
    Replay,
    documents,
    in_process,
    labelled,
    rows,
    subjects,
    views,
)
from dpcape.core.errors import InvalidParameter, UtilityWarning
from dpcape.federation.allowance import NOT_COUNTED
from dpcape.statistics.moments import histogram, second_moment
from dpcape.statistics.regression_moment import RegressionMoment

from .statistic_case import all_cases

quiet = pytest.mark.filterwarnings("ignore::dpcape.core.errors.UtilityWarning")


@pytest.mark.parametrize("case", all_cases(), ids=lambda case: f"{case.name}-{case.label}")
def test_zero_is_within_the_sensitivity_of_every_statistic(case: object) -> None:
    """A record that becomes invalid moves a total by the length of its contribution."""
    statistic = case.statistic() if callable(getattr(case, "statistic", None)) else case.build()
    assert statistic.sensitivity(100) >= max(statistic.radius, statistic.diameter)


@quiet
def test_an_invalid_record_is_left_out_of_every_kind() -> None:
    X = np.arange(12.0).reshape(4, 3) / 20
    bad = X.copy()
    bad[1, 2] = math.nan
    keep = [0, 2, 3]
    held = rows(bad, bound=9.0)
    np.testing.assert_array_equal(np.vstack(list(held.blocks())), X[keep])
    assert (held.n_records, held.n_invalid) == (4, 1)
    both = views(X, bad, bounds=(9.0, 9.0))
    np.testing.assert_array_equal(np.vstack(list(both.blocks())), np.hstack([X, X])[keep])
    ((block, codes),) = labelled(X, ["a", "z", "b", "a"], bound=9.0, classes=["a", "b"]).blocks()
    np.testing.assert_array_equal(block, X[keep])
    assert codes.tolist() == [0, 1, 0]
    ((block, responses),) = labelled(X, [0.0, math.nan, 1.0, 2.0], bound=9.0, response=(0, 2)).blocks()
    assert responses.tolist() == [-1.0, 0.0, 1.0]
    words = documents([[3, 1], [-1, 9], [0.5, 9]])
    assert (words.n_records, words.n_invalid) == (3, 2)
    assert next(words.blocks()).toarray().tolist() == [[3, 1], [0, 0], [0, 0]]
    people = subjects([X, bad, X[:1]], bound=9.0, unit="subject", rows_per_subject=4, n_features=3)
    assert [len(block) for block in people.each_subject()] == [4, 1]
    assert (people.n_records, people.n_invalid) == (3, 1)
    points = subjects([X, bad], bound=9.0, unit="record")
    assert (points.n_records, points.n_invalid) == (8, 1)
    assert sum(len(block) for block in points.blocks(3)) == 7


def test_the_steward_is_told_how_many_and_nobody_else() -> None:
    with pytest.warns(UtilityWarning, match="2 of 5 records cannot be read and contribute zero"):
        held = rows([[1.0], [math.inf], [0.5], ["x"], [0.1]], bound=1.0)
    federation = Federation(in_process({"a": held}, noise=Replay(1)), protocol=Independent())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UtilityWarning)
        model = PCA(1, epsilon=1.0, delta=1e-5, center=False).fit(federation)
    assert "2 of 5" not in str(model.warnings_)
    assert federation.n_records == 5


def test_series_need_a_public_length() -> None:
    with pytest.raises(InvalidParameter, match="rows_per_subject must be a positive whole number for unit='subject'"):
        subjects([np.ones((3, 2))], bound=1.0, unit="subject")
    options: dict[str, Any] = {"bound": 2.0, "unit": "subject", "rows_per_subject": 9, "n_features": 2}
    facts = [subjects([np.ones((n, 2))], **options).facts() for n in (1, 5, 9)]
    assert len(set(map(repr, facts))) == 1


@quiet
@pytest.mark.parametrize("other", [np.ones((3, 5)), np.ones((3, 2)), np.ones(3), None], ids=repr)
def test_replacing_a_person_changes_nothing_that_is_public(other: object) -> None:
    """Two of five series have another width, and one more may: a majority of private series decides nothing."""
    options: dict[str, Any] = {"bound": 2.0, "unit": "subject", "rows_per_subject": 9}
    people = [np.ones((4, width)) for width in (4, 4, 4, 5, 5)]
    before = subjects(people, n_features=4, **options)
    after = subjects([other, *people[1:]], n_features=4, **options)
    assert before.facts() == after.facts()
    assert (before.n_features, before.n_invalid, after.n_invalid) == (4, 2, 3)
    named = subjects(people, feature_names=list("abcd"), **options)
    assert (
        named.facts().shape_facts()
        == subjects([other] * 5, feature_names=list("abcd"), **options).facts().shape_facts()
    )
    with pytest.raises(InvalidParameter, match=r"n_features must be given for unit='subject'.*public knowledge"):
        subjects(people, **options)


@quiet
def test_names_in_the_tables_of_people_are_not_public_by_themselves() -> None:
    pandas = pytest.importorskip("pandas")
    options: dict[str, Any] = {"bound": 2.0, "unit": "subject", "rows_per_subject": 9}
    people = [pandas.DataFrame({"a": [0.1], "b": [0.2]}), pandas.DataFrame({"a": [0.1], "c": [0.2]})]
    with pytest.raises(InvalidParameter, match="feature_names must be given for unit='subject'"):
        subjects(people, n_features=2, **options)
    assert subjects(people, feature_names=["a", "b"], **options).facts().feature_names == ("a", "b")


@quiet
def test_a_folder_with_a_file_per_person_says_nothing_of_the_columns(tmp_path: Path) -> None:
    options: dict[str, Any] = {"bound": 2.0, "unit": "subject", "rows_per_subject": 9}
    for number in range(3):
        np.save(tmp_path / f"s{number}.npy", np.ones((4, 2)))
    with pytest.raises(InvalidParameter, match="n_features must be given"):
        subjects(tmp_path, **options)
    assert subjects(tmp_path, n_features=2, **options).facts().n_features == 2


def clean_and_dirty(n: int = 400, share: float = 0.25) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    X = rng.uniform(-0.5, 0.5, size=(n, 2))
    y = 0.5 + 0.3 * X[:, 0] + 0.01 * rng.normal(size=n)
    dirty = y.copy()
    dirty[: int(n * share)] = math.nan
    return X, y, dirty


@quiet
@pytest.mark.parametrize("protocol", [Exact(), Independent()], ids=repr)
def test_a_count_divides_what_invalid_records_left_out(protocol: object) -> None:
    """A quarter of the responses is missing: the coefficients are those of the other records, and it is said."""
    X, y, dirty = clean_and_dirty(20_000)
    fits = {}
    for name, values in (("clean", y), ("dirty", dirty)):
        held = labelled(X, values, bound=1.0, response=(0, 1))
        federation = Federation(in_process({"a": held}, noise=Replay(2)), protocol=protocol)
        fits[name] = LinearRegression(epsilon=8.0, delta=1e-5, purpose="prediction", n_iter=0).fit(federation)
    np.testing.assert_allclose(fits["dirty"].coef_, fits["clean"].coef_, atol=0.05)
    assert fits["dirty"].intercept_ == pytest.approx(fits["clean"].intercept_, abs=0.02)
    assert any("about 25% of the records cannot be read" in text for text in fits["dirty"].warnings_)
    assert not any("cannot be read" in text for text in fits["clean"].warnings_)
    assert fits["dirty"].guarantee_ == fits["clean"].guarantee_
    assert fits["dirty"].uncertain_ == []


@quiet
def test_every_statistic_counts_valid_records_beside_its_total() -> None:
    """A fifth of the rows cannot be read: the second moment is that of the others, without a coordinate of its own."""
    X = np.random.default_rng(8).uniform(-0.5, 0.5, size=(5_000, 3))
    broken = X.copy()
    broken[::5] = math.nan
    found = Federation(in_process({"x": rows(broken, bound=1.0)}), protocol=Exact())
    moment = found.allow(1.0, 1e-5).mean(second_moment(found.facts))
    kept = np.delete(X, np.s_[::5], axis=0)
    # A row moves by half a step of the grid per entry, sqrt(3)/2 2^-20, and a product by twice that.
    np.testing.assert_allclose(moment, kept.T @ kept / len(kept), rtol=0, atol=2e-6)


@quiet
def test_a_statistic_that_cannot_count_for_free_says_so() -> None:
    """With a very large weight of the intercept all contributions are alike; a record more or less then costs noise."""
    held = labelled([[0.1], [0.2], [math.nan]], [0.0, 1.0, 1.0], bound=1.0, response=(0, 1))
    federation = Federation(in_process({"x": held}), protocol=Exact())
    statistic = RegressionMoment(federation.facts, response_weight=0.1, intercept_weight=30.0)
    assert statistic.count_weight == 0
    private = federation.allow(1.0, 1e-5)
    private.mean(statistic)
    assert private.uncertain == [NOT_COUNTED]


@quiet
def test_shares_of_classes_and_clusters_are_of_valid_records() -> None:
    labels = ["a"] * 300 + ["b"] * 100 + ["?"] * 100
    held = labelled(np.zeros((500, 1)), labels, bound=1.0, classes=["a", "b"])
    federation = Federation(in_process({"x": held}), protocol=Exact())
    np.testing.assert_allclose(federation.allow(1.0, 1e-5).mean(histogram(federation.facts)), [0.75, 0.25])
    X = np.vstack([np.full((300, 1), 0.5), np.full((100, 1), -0.5), np.full((100, 1), math.nan)])
    found = Federation(in_process({"x": rows(X, bound=1.0)}), protocol=Exact())
    model = KMeans(2, n_iter=3, epsilon=1.0, delta=1e-5, init=[[0.4], [-0.4]]).fit(found)
    np.testing.assert_allclose(model.shares_, [0.75, 0.25])
    # Half a step of the grid.
    np.testing.assert_allclose(model.cluster_centers_, [[0.5], [-0.5]], rtol=0, atol=2.0**-21 * 1.01)
