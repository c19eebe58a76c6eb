"""Measures against scikit-learn where it has them, against values worked out by hand otherwise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as reference
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA

from dpcape import metrics
from dpcape.core.errors import InvalidParameter


@pytest.fixture(scope="module")
def rng() -> np.random.Generator:
    return np.random.default_rng(20)


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(5, 60), k=st.integers(2, 4), d=st.integers(1, 5))
def test_calinski_harabasz_equals_scikit_learn(seed: int, n: int, k: int, d: int) -> None:
    source = np.random.default_rng(seed)
    points, clusters = source.normal(size=(n, d)), np.append(np.arange(k), source.integers(0, k, n - k))
    expected = reference.calinski_harabasz_score(points, clusters)
    assert metrics.calinski_harabasz(points, clusters) == pytest.approx(expected, rel=1e-9)


def test_calinski_harabasz_by_hand() -> None:
    # Centres 1 and 6, middle 3.5: between 2 (2.5)^2 2 = 25, within 4, so 25 / 1 over 4 / 2.
    assert metrics.calinski_harabasz([[0.0], [2.0], [5.0], [7.0]], ["a", "a", "b", "b"]) == 12.5


def test_calinski_harabasz_prefers_the_true_clusters(rng: np.random.Generator) -> None:
    centres = np.array([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0]])
    points = np.repeat(centres, 40, axis=0) + rng.normal(size=(120, 2))
    found = KMeans(3, n_init=4, random_state=0).fit(points).labels_
    assert metrics.calinski_harabasz(points, found) > 10 * metrics.calinski_harabasz(points, rng.permutation(found))


def test_calinski_harabasz_of_points_at_their_centres_is_scikit_learns() -> None:
    points, clusters = np.array([[1.0], [1.0], [2.0], [2.0]]), [0, 0, 1, 1]
    assert metrics.calinski_harabasz(points, clusters) == reference.calinski_harabasz_score(points, clusters) == 1.0


@pytest.mark.parametrize("clusters", [[0, 0, 0], [0, 1, 2], [0, 1]])
def test_calinski_harabasz_refuses_what_has_no_index(clusters: list[int]) -> None:
    with pytest.raises(InvalidParameter, match="2 to n - 1 groups"):
        metrics.calinski_harabasz(np.eye(3), clusters)


def test_accuracy_and_mean_squared_error_equal_scikit_learn(rng: np.random.Generator) -> None:
    labels, predicted = rng.integers(0, 3, 50), rng.integers(0, 3, 50)
    assert metrics.accuracy(labels, predicted) == pytest.approx(reference.accuracy_score(labels, predicted))
    assert metrics.accuracy(["a", "b", "b"], ["a", "b", "c"]) == pytest.approx(2 / 3)
    y, fitted = rng.normal(size=50), rng.normal(size=50)
    assert metrics.squared_loss(y, fitted) == pytest.approx(reference.mean_squared_error(y, fitted))
    assert metrics.explained_share(y, fitted) == pytest.approx(reference.r2_score(y, fitted))


def test_log_loss_equals_scikit_learn(rng: np.random.Generator) -> None:
    probabilities = rng.dirichlet(np.ones(3), size=40)
    codes = rng.integers(0, 3, 40)
    expected = reference.log_loss(codes, probabilities, labels=[0, 1, 2])
    assert metrics.log_loss(codes, probabilities) == pytest.approx(expected)


def test_empirical_loss_is_the_mean_squared_error_of_the_predictions(rng: np.random.Generator) -> None:
    rows, w, y = rng.normal(size=(30, 4)), rng.normal(size=4), rng.normal(size=30)
    assert metrics.empirical_loss(w, rows, y) == pytest.approx(reference.mean_squared_error(y, rows @ w))
    assert metrics.empirical_loss(np.array([2.0]), np.array([[1.0], [2.0]]), np.array([3.0, 2.0])) == 2.5


def test_coefficient_error_by_hand() -> None:
    assert metrics.coefficient_error(np.array([1.0, 4.0]), np.array([4.0, 0.0])) == 2.5


def test_correlation_error_by_hand() -> None:
    assert metrics.correlation_error([0.9, 0.5], [0.6, 0.1]) == pytest.approx(0.25)
    assert metrics.correlation_error([0.9, 0.5, 0.1], [0.9, 0.5, 0.1]) == 0.0


def test_captured_energy_equals_the_variance_scikit_learn_explains(rng: np.random.Generator) -> None:
    rows = rng.normal(size=(200, 6)) * [4, 3, 2, 1, 1, 1]
    rows -= rows.mean(axis=0)
    fitted = PCA(2).fit(rows)
    moment = rows.T @ rows / (len(rows) - 1)
    assert metrics.captured_energy(fitted.components_, moment) == pytest.approx(fitted.explained_variance_.sum())
    assert metrics.captured_ratio(fitted.components_, moment) == pytest.approx(1.0)
    assert metrics.captured_energy(np.eye(3)[:2], np.diag([5.0, 2.0, 1.0])) == 7.0
    assert metrics.captured_ratio(np.eye(3)[1:], np.diag([5.0, 2.0, 1.0])) == pytest.approx(3 / 7)


def test_component_error_by_hand() -> None:
    true = np.array([[1.0, 0.0], [0.0, 1.0]])
    assert metrics.component_error(true[::-1], true) == 0.0
    # Both estimates are nearest to the first component: at distances 0 and 1.
    assert metrics.component_error(np.array([[1.0, 0.0], [2.0, 0.0]]), true) == pytest.approx(0.5)
    estimated = np.array([[0.0, 1.1], [0.9, 0.0]])
    np.testing.assert_array_equal(metrics.match_components(estimated, true), [1, 0])


def test_gain_index_by_hand() -> None:
    mixing = np.array([[1.0, 0.0], [0.0, 1.0]])
    # Order, sign and scale of the sources do not matter; equal gains are the worst there is.
    assert metrics.gain_index(np.array([[0.0, -3.0], [0.5, 0.0]]), mixing) == 0.0
    assert metrics.gain_index(np.ones((2, 2)), mixing) == pytest.approx(1.0)
    # Rows (1, 1/2), (1/4, 1): sums over maxima 1.5, 1.25 by row, 1.25, 1.5 by column.
    assert metrics.gain_index(np.array([[1.0, 0.5], [0.25, 1.0]]), mixing) == pytest.approx(1.5 / 4)


def test_matched_correlations_see_through_order_and_sign(rng: np.random.Generator) -> None:
    maps = rng.normal(size=(300, 3))
    np.testing.assert_allclose(metrics.matched_correlations(-2 * maps[:, [2, 0, 1]] + 1, maps), 1.0)
    mixed = np.column_stack([maps[:, 0] + maps[:, 1], maps[:, 1] - maps[:, 0]])
    expected = abs(np.corrcoef(mixed[:, 0], maps[:, 0])[0, 1])
    assert metrics.matched_correlations(mixed[:, :1], maps[:, :1])[0] == pytest.approx(expected)
    assert math.isclose(expected, math.sqrt(0.5), abs_tol=0.1)
