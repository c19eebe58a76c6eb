"""Cases of the analyses beyond moments: regressions, networks, clusters, topics, mixtures, independent components."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpcape import (
    GeneralizedLinearModel,
    JointICA,
    KMeans,
    LinearRegression,
    LogisticRegression,
    MixtureModel,
    NetworkClassifier,
    PolynomialLoss,
    Quantile,
    TopicModel,
    documents,
    labelled,
    rows,
    subjects,
)

SITES = ("ava", "bob", "cid", "dot")


def _generator() -> np.random.Generator:
    return np.random.default_rng(23)


def _features(n_rows: int = 300) -> dict[str, Any]:
    generator = _generator()
    return {site: 0.4 * generator.normal(size=(n_rows, 3)) for site in SITES}


def _with_response() -> dict[str, Any]:
    slope = np.array([0.5, -0.3, 0.1])
    return {site: labelled(x, x @ slope, bound=1.0, response=(-1, 1)) for site, x in _features().items()}


def _with_counts() -> dict[str, Any]:
    return {
        site: labelled(x, np.minimum(np.rint(4 * np.exp(x[:, 0])), 9), bound=1.0, response=(0, 9))
        for site, x in _features().items()
    }


def _with_classes() -> dict[str, Any]:
    return {
        site: labelled(x, np.where(x[:, 0] > 0, "ill", "well"), bound=1.0, classes=["well", "ill"])
        for site, x in _features().items()
    }


def _with_three_classes() -> dict[str, Any]:
    return {
        site: labelled(x, np.digitize(x[:, 0] + 0.3 * x[:, 1], (-0.2, 0.2)), bound=1.0, classes=[0, 1, 2])
        for site, x in _features().items()
    }


def _clusters() -> dict[str, Any]:
    generator = _generator()
    centres = np.array([[0.7, 0.0], [-0.7, 0.0]])
    return {
        site: rows(np.repeat(centres, 150, axis=0) + 0.1 * generator.normal(size=(300, 2)), bound=1.0) for site in SITES
    }


def _wide_clusters() -> dict[str, Any]:
    generator = _generator()
    centres = 0.6 * np.eye(2, 12)
    return {
        site: rows(np.repeat(centres, 150, axis=0) + 0.05 * generator.normal(size=(300, 12)), bound=1.0)
        for site in SITES
    }


def _documents() -> dict[str, Any]:
    generator = _generator()
    topics = np.array([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]])
    return {
        site: documents(np.vstack([generator.multinomial(9, topic, size=150) for topic in topics])) for site in SITES
    }


def _time_points() -> dict[str, Any]:
    generator = _generator()
    mixing = np.array([[0.8, 0.6], [0.6, -0.8]])
    return {site: subjects([generator.laplace(size=(500, 2)) @ mixing], bound=4.0, unit="record") for site in SITES}


CASES: dict[str, tuple[Any, Any, dict[str, float]]] = {
    "LinearRegression": (lambda e, d: LinearRegression(epsilon=e, delta=d), _with_response, {"coef_": 5e-2}),
    "LogisticRegression": (lambda e, d: LogisticRegression(epsilon=e, delta=d), _with_classes, {"coef_": 1e-1}),
    "LinearRegression-scaled": (
        lambda e, d: LinearRegression(epsilon=e, delta=d, scale="private"),
        _with_response,
        {"coef_": 5e-2},
    ),
    "LinearRegression-prediction": (
        lambda e, d: LinearRegression(epsilon=e, delta=d, purpose="prediction", n_iter=3),
        _with_response,
        {"coef_": 1e-1},
    ),
    "LogisticRegression-scaled": (
        lambda e, d: LogisticRegression(epsilon=e, delta=d, scale="private"),
        _with_classes,
        {},
    ),
    "LogisticRegression-prediction": (
        lambda e, d: LogisticRegression(epsilon=e, delta=d, purpose="prediction", n_iter=3),
        _with_classes,
        {},
    ),
    "GeneralizedLinearModel-gaussian": (
        lambda e, d: GeneralizedLinearModel("gaussian", epsilon=e, delta=d),
        _with_response,
        {"coef_": 5e-2},
    ),
    "GeneralizedLinearModel-logistic": (
        lambda e, d: GeneralizedLinearModel("logistic", epsilon=e, delta=d),
        _with_classes,
        {"coef_": 1e-1},
    ),
    "GeneralizedLinearModel-poisson": (
        lambda e, d: GeneralizedLinearModel("poisson", epsilon=e, delta=d),
        _with_counts,
        {"coef_": 5e-2},
    ),
    "GeneralizedLinearModel-scaled": (
        lambda e, d: GeneralizedLinearModel("poisson", epsilon=e, delta=d, scale="private"),
        _with_counts,
        {"coef_": 5e-1},
    ),
    "GeneralizedLinearModel-gamma": (
        lambda e, d: GeneralizedLinearModel("gamma", epsilon=e, delta=d),
        _with_counts,
        {"coef_": 5e-2},
    ),
    "GeneralizedLinearModel-multinomial": (
        lambda e, d: GeneralizedLinearModel("multinomial", epsilon=e, delta=d),
        _with_three_classes,
        {"coef_": 3e-1},
    ),
    "GeneralizedLinearModel-offset": (
        lambda e, d: GeneralizedLinearModel("poisson", epsilon=e, delta=d, offset=1),
        _with_counts,
        {"coef_": 5e-2},
    ),
    "GeneralizedLinearModel-ridge": (
        lambda e, d: GeneralizedLinearModel("multinomial", epsilon=e, delta=d, ridge=0.1),
        _with_three_classes,
        {"coef_": 1e-1},
    ),
    "PolynomialLoss": (lambda e, d: PolynomialLoss("poisson", epsilon=e, delta=d), _with_counts, {}),
    "NetworkClassifier": (lambda e, d: NetworkClassifier(3, epsilon=e, delta=d, n_iter=3), _with_classes, {}),
    "LinearClassifier": (lambda e, d: NetworkClassifier(0, epsilon=e, delta=d, n_iter=3), _with_classes, {}),
    "DeepClassifier": (lambda e, d: NetworkClassifier((3, 2), epsilon=e, delta=d, n_iter=3), _with_classes, {}),
    "KMeans": (
        lambda e, d: KMeans(2, epsilon=e, delta=d, n_iter=3, init=np.array([[0.1, 0.0], [-0.1, 0.0]])),
        _clusters,
        {"cluster_centers_": 5e-2},
    ),
    "KMeans-clipped": (
        lambda e, d: KMeans(
            2, epsilon=e, delta=d, n_iter=3, init=np.array([[0.1, 0.0], [-0.1, 0.0]]), clip=Quantile(0.95, share=0.1)
        ),
        _clusters,
        {},
    ),
    "KMeans-scaled": (lambda e, d: KMeans(2, epsilon=e, delta=d, n_iter=3, scale="private"), _clusters, {}),
    "KMeansInManyColumns-scaled": (
        lambda e, d: KMeans(2, epsilon=e, delta=d, n_iter=3, scale="private"),
        _wide_clusters,
        {},
    ),
    "KMeansInManyColumns-clipped": (
        lambda e, d: KMeans(2, epsilon=e, delta=d, n_iter=3, clip=Quantile(0.95, share=0.1)),
        _wide_clusters,
        {},
    ),
    "KMeansInManyColumns": (lambda e, d: KMeans(2, epsilon=e, delta=d, n_iter=3), _wide_clusters, {}),
    "TopicModel": (lambda e, d: TopicModel(2, epsilon=e, delta=d), _documents, {}),
    "MixtureModel": (lambda e, d: MixtureModel(2, epsilon=e, delta=d, noise_variance=0.01), _clusters, {}),
    "JointICA": (lambda e, d: JointICA(2, epsilon=e, delta=d, basis=np.eye(2)), _time_points, {}),
}
