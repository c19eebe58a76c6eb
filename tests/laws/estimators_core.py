"""Cases of the core analyses. Other topics have files ``estimators_<topic>.py`` of the same form beside this one.

``CASES`` maps a label to (make, records, fitted): ``make(epsilon, delta)`` gives an unfitted estimator, ``records()``
what each of four sites holds, and ``fitted`` names attributes that tend to the exact result as epsilon grows, with the
relative error allowed at epsilon 200 (empty where small data cannot show it).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpcape import (
    CCA,
    PCA,
    PLS,
    Atlas,
    Correlation,
    Cosines,
    Mean,
    MultiCCA,
    Quantile,
    Template,
    rows,
    views,
)

SITES = ("ava", "bob", "cid", "dot")


def table(n_rows: int = 150, width: int = 4, seed: int = 11) -> dict[str, Any]:
    """Return rows with one strong and one weaker direction per site, sizes unequal."""
    generator = np.random.default_rng(seed)
    spread = np.array([0.5, 0.3, 0.1, 0.05][:width])
    return {
        site: 0.1 + generator.normal(size=(n_rows + 10 * index, width)) * spread for index, site in enumerate(SITES)
    }


def _rows(n_rows: int = 150) -> dict[str, Any]:
    names = ["age", "dose", "time", "score"]
    return {site: rows(data, bound=1.0, feature_names=names) for site, data in table(n_rows).items()}


def _many_rows() -> dict[str, Any]:
    # Enough for a radius to be found at epsilon 1.
    return _rows(600)


def _ranged() -> dict[str, Any]:
    return {site: rows(data, bound=0.8, ranges=[(-2.0, 2.0)] * 4) for site, data in table().items()}


def _many_views() -> dict[str, Any]:
    return _views(600)


def _views(n_rows: int = 150) -> dict[str, Any]:
    result = {}
    for site, data in table(n_rows).items():
        shared = data[:, :1]
        result[site] = views(data[:, :2], np.hstack([shared, data[:, 2:]]), bounds=(1.0, 1.0))
    return result


def _many_three_views() -> dict[str, Any]:
    return _three_views(900)


def _three_views(n_rows: int = 150) -> dict[str, Any]:
    generator = np.random.default_rng(12)
    result = {}
    for site, data in table(n_rows).items():
        shared = data[:, :1]
        noise, other = generator.normal(size=(2, len(data), 1))
        third = np.hstack([shared + 0.1 * noise, other / 4])
        result[site] = views(data[:, :2], np.hstack([shared, data[:, 2:]]), third, bounds=(1.0, 1.0, 1.0))
    return result


CASES: dict[str, tuple[Any, Any, dict[str, float]]] = {
    "Mean": (lambda e, d: Mean(epsilon=e, delta=d), _rows, {"mean_": 1e-2, "variance_": 2e-2}),
    "Mean-ranges": (lambda e, d: Mean(epsilon=e, delta=d), _ranged, {"mean_": 2e-2, "original_mean_": 2e-2}),
    "Mean-clipped": (
        lambda e, d: Mean(epsilon=e, delta=d, clip=Quantile(0.9, share=0.1)),
        _rows,
        {"mean_": 1e-2},
    ),
    "Mean-recentred": (lambda e, d: Mean(epsilon=e, delta=d, recentre=True), _many_rows, {"mean_": 1e-2}),
    "PCA": (
        lambda e, d: PCA(2, epsilon=e, delta=d, center=False),
        _rows,
        {"components_": 1e-1, "explained_variance_": 1e-2},
    ),
    "PCA-clipped": (
        lambda e, d: PCA(2, epsilon=e, delta=d, clip=Quantile(0.9, share=0.1)),
        _rows,
        {"components_": 1e-1, "explained_variance_": 1e-2},
    ),
    "PCA-centred": (
        lambda e, d: PCA(2, epsilon=e, delta=d, center=True),
        _rows,
        {"components_": 1e-1, "explained_variance_": 1e-2, "mean_": 1e-2},
    ),
    "PCA-recentred": (
        lambda e, d: PCA(2, epsilon=e, delta=d, center=True),
        _many_rows,
        {"components_": 1e-1, "explained_variance_": 2e-2, "mean_": 1e-2},
    ),
    "PCA-adjusted": (
        lambda e, d: PCA(2, epsilon=e, delta=d, adjust="site"),
        _rows,
        {"components_": 1e-1, "explained_variance_": 1e-2, "mean_": 1e-2, "site_means_": 5e-2},
    ),
    "PCA-adjusted-recentred": (
        lambda e, d: PCA(2, epsilon=e, delta=d, adjust="site"),
        _many_rows,
        {"components_": 1e-1, "explained_variance_": 2e-2, "mean_": 1e-2, "site_means_": 5e-2},
    ),
    "PCA-wide": (
        lambda e, d: PCA(2, epsilon=e, delta=d, basis=Cosines(np.ones(4), [3]), center=False),
        _rows,
        {"components_": 1e-1, "explained_variance_": 1e-2, "left_out_": 1e-1},
    ),
    "PCA-wide-maps": (
        lambda e, d: PCA(1, epsilon=e, delta=d, basis=Cosines(np.ones((2, 2)), (2, 1)), maps=True, center=False),
        _many_rows,
        {"components_": 1e-1, "explained_variance_": 2e-2},
    ),
    "PCA-wide-centred-maps": (
        lambda e, d: PCA(1, epsilon=e, delta=d, basis=Atlas([1, 1, 2, 0]), maps=True, center=True),
        _many_rows,
        {"components_": 1e-1, "explained_variance_": 3e-2, "mean_": 5e-2},
    ),
    "PCA-wide-clipped": (
        lambda e, d: PCA(2, epsilon=e, delta=d, basis=Template(np.eye(4, 3)), clip=Quantile(0.9, share=0.1)),
        _rows,
        {"components_": 1e-1, "explained_variance_": 1e-2},
    ),
    "Correlation": (lambda e, d: Correlation(epsilon=e, delta=d), _many_rows, {"correlations_": 5e-2}),
    "Correlation-as-given": (
        lambda e, d: Correlation(epsilon=e, delta=d, scale="none"),
        _rows,
        {"correlations_": 2e-1},
    ),
    "CCA": (lambda e, d: CCA(1, epsilon=e, delta=d, center=False), _views, {"correlations_": 1e-1}),
    "CCA-centred": (lambda e, d: CCA(1, epsilon=e, delta=d, center=True), _views, {"correlations_": 1e-1}),
    "CCA-recentred": (
        lambda e, d: CCA(1, epsilon=e, delta=d, center=True),
        _many_views,
        {"correlations_": 1e-1},
    ),
    "CCA-wide": (
        lambda e, d: CCA(1, epsilon=e, delta=d, basis=(None, Template(np.eye(3, 2))), center=False),
        _views,
        {"correlations_": 1e-1, "left_out_": 1e-1},
    ),
    "CCA-wide-maps": (
        lambda e, d: CCA(
            1, epsilon=e, delta=d, basis=(Cosines(np.ones(2), [1]), Atlas([1, 1, 2])), maps=True, center=False
        ),
        _many_views,
        {"correlations_": 2e-1},
    ),
    "CCA-wide-centred-maps": (
        lambda e, d: CCA(1, epsilon=e, delta=d, basis=(None, Template(np.eye(3, 2))), maps=True, center=True),
        _many_views,
        {"correlations_": 1e-1},
    ),
    "CCA-adjusted": (lambda e, d: CCA(1, epsilon=e, delta=d, adjust="site"), _many_views, {"correlations_": 1e-1}),
    "PLS": (lambda e, d: PLS(1, epsilon=e, delta=d), _many_views, {"covariances_": 1e-1}),
    "PLS-uncentred": (lambda e, d: PLS(1, epsilon=e, delta=d, center=False), _views, {"covariances_": 1e-1}),
    "PLS-scaled": (lambda e, d: PLS(1, epsilon=e, delta=d, scale="private"), _many_views, {"covariances_": 1e-1}),
    "MultiCCA": (lambda e, d: MultiCCA(1, epsilon=e, delta=d, center=False), _three_views, {"correlations_": 1e-1}),
    "MultiCCA-recentred": (
        lambda e, d: MultiCCA(1, epsilon=e, delta=d, center=True),
        _many_three_views,
        {"correlations_": 1e-1},
    ),
    "MultiCCA-scaled": (
        lambda e, d: MultiCCA(1, epsilon=e, delta=d, scale="private"),
        _many_three_views,
        {"correlations_": 1e-1},
    ),
    "CCA-scaled": (
        lambda e, d: CCA(1, epsilon=e, delta=d, scale="private"),
        _many_views,
        {"correlations_": 1e-1},
    ),
}
