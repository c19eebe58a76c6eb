"""Public feature maps: applied to single records at the sites, clipped afterwards."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcape import Cape, Exact, Federation, NetworkClassifier, Replay, in_process, labelled
from dpcape.core.errors import InvalidParameter
from dpcape.statistics.feature_maps import _MAPS, FeatureMap, feature_map, known_map
from dpcape.statistics.gradients import linear_gradient

Vector = NDArray[np.float64]


def bars(n_records: int, seed: int) -> tuple[Vector, NDArray[np.int64]]:
    """Return 8 x 8 images of a bar, upright or lying, light or dark: what is linear in pixels is zero on average."""
    generator = np.random.default_rng(seed)
    images, codes = np.zeros((n_records, 8, 8)), generator.integers(0, 2, n_records)
    for image, code, place in zip(images, codes, generator.integers(1, 7, n_records), strict=True):
        image[(slice(None), place) if code else (place, slice(None))] = generator.choice([-1, 1]) * generator.uniform(
            0.3, 1
        )
    return images.reshape(n_records, 64) + 0.02 * generator.standard_normal((n_records, 64)), codes


def federation(X: Vector, y: Any, protocol: Any, seed: int = 0) -> Federation:
    held = {f"site{k}": labelled(X[k::4], y[k::4], bound=4.0, classes=[0, 1]) for k in range(4)}
    return Federation(in_process(held, noise=Replay(seed)), protocol=protocol)


def linear(**options: Any) -> NetworkClassifier:
    return NetworkClassifier(0, epsilon=1.0, delta=1e-5, n_iter=40, **options)


def test_features_make_a_linear_classifier_enough() -> None:
    X, y = bars(4000, 0)
    fresh, codes = bars(1000, 1)
    protocol = Cape(n_colluding=1)
    mapped = linear(features="hog").fit(federation(X, y, protocol))
    assert mapped.score(fresh, codes) > 0.95
    assert mapped.guarantee_.epsilon <= 1.0
    assert mapped.hidden_.shape == (0, 33)
    assert linear().fit(federation(X, y, protocol)).score(fresh, codes) < 0.7


def test_hog_depends_on_one_row_only_and_is_at_most_one_long() -> None:
    X = np.concatenate([bars(6, 2)[0], np.zeros((1, 64)), np.full((1, 64), 1e300)])
    chosen = feature_map("hog")
    found = chosen.mapped(X)
    np.testing.assert_array_equal(found, np.concatenate([chosen.mapped(row[None]) for row in X]))
    assert (np.linalg.norm(found, axis=1) <= 1 + 1e-12).all()
    assert not found[6].any()


def test_hog_does_not_depend_on_brightness() -> None:
    X = bars(20, 3)[0] * 20
    np.testing.assert_allclose(feature_map("hog").mapped(X), feature_map("hog").mapped(3 * X), atol=0.02)


@pytest.mark.parametrize("width", [1, 9, 60])
def test_hog_is_for_square_images(width: int) -> None:
    X, y = np.zeros((8, width)), np.arange(8) % 2
    with pytest.raises(InvalidParameter, match="square images"):
        linear(features="hog").fit(federation(X, y, Exact()))


@pytest.mark.parametrize("features", ["scattering", 7, ""])
def test_unknown_features_are_refused_before_a_charge(features: Any) -> None:
    X, y = bars(8, 0)
    with pytest.raises(InvalidParameter, match="features must be"):
        linear(features=features).fit(federation(X, y, Exact()))


@pytest.fixture
def greedy() -> Any:
    """A map of somebody else that standardises within what it is given, as a map must not."""

    class Greedy(FeatureMap):
        name = "greedy"

        def width(self, n_features: int) -> int:
            return n_features

        def features(self, rows: Vector) -> Vector:
            return rows - rows.mean(axis=0)

    yield known_map(Greedy)
    del _MAPS["greedy"]


def test_a_foreign_map_is_given_single_records_and_makes_the_guarantee_conditional(greedy: Any) -> None:
    X, y = bars(80, 4)
    # Of one record, a row minus the mean of the block is zero.
    assert not feature_map("greedy").mapped(X).any()
    model = linear(features="greedy").fit(federation(X, y, Cape(n_colluding=1)))
    assert any("'greedy'" in text for text in model.guarantee_.assumptions)
    own = linear(features="hog").fit(federation(X, y, Cape(n_colluding=1)))
    assert not any("feature map" in text for text in own.guarantee_.assumptions)


def test_names_of_maps_are_unique_and_mapped_is_not_overridden(greedy: Any) -> None:
    with pytest.raises(InvalidParameter, match="must be new"):
        known_map(greedy)

    class Sly(greedy):
        name = "sly"

        def mapped(self, rows: Vector) -> Vector:
            return rows

    with pytest.raises(InvalidParameter, match="must not override"):
        known_map(Sly)


def test_kept_features_give_the_same_sum_in_the_next_round() -> None:
    X, y = bars(3000, 5)
    held = labelled(X, y, bound=4.0, classes=[0, 1])
    output = np.random.default_rng(0).standard_normal((1, 33))
    asked = linear_gradient(held.facts(), output=output, clip=0.5, input_scale=1.0, features="hog")
    np.testing.assert_array_equal(asked.total(held), asked.total(held))


def test_without_hidden_units_it_is_logistic_regression() -> None:
    """Without noise and clipping, many steps lead to scikit-learn's weights."""
    from sklearn.linear_model import LogisticRegression

    generator = np.random.default_rng(1)
    X = generator.normal(size=(800, 2)) / 2
    y = (X[:, 0] + generator.logistic(size=800) / 2 > 0).astype(int)
    fed = Federation(in_process({"a": labelled(X, y, bound=4.0, classes=[0, 1])}), protocol=Exact())
    model = NetworkClassifier(0, epsilon=1.0, delta=1e-5, n_iter=400, clip=10.0).fit(fed)
    theirs = LogisticRegression(C=np.inf).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), theirs.predict_proba(X), atol=1e-2)
