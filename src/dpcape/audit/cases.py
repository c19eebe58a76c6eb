"""Small instances of every analysis, with units (records, documents, subjects) made from plain numbers.

Any numbers are legal, also beyond the public bound: what clips at a site clips here too, so a search over the numbers
is a search over everything a person may bring.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcape.audit.adversaries import SITES
from dpcape.estimators import (
    CCA,
    PCA,
    JointICA,
    KMeans,
    LinearRegression,
    LogisticRegression,
    Mean,
    MixtureModel,
    NetworkClassifier,
    PolynomialLoss,
    TopicModel,
)
from dpcape.factor_release import PrivateFactorModel
from dpcape.records import documents, labelled, rows, subjects, views

Vector = NDArray[np.float64]
_CENTRES = np.array([[0.1, 0.0, 0.0], [-0.1, 0.0, 0.0]])
_TIME_POINTS = 8


@dataclass(frozen=True)
class Case:
    """An analysis at one small setting.

    Attributes
    ----------
    make : callable
        ``make(epsilon, delta)`` returns the estimator.
    records : callable
        Makes a site's records from numbers, one row per unit.
    n_numbers : int
        Numbers per unit.
    n_units : int
        Units per site.
    """

    name: str
    make: Callable[[float, float], Any]
    records: Callable[[Vector], Any]
    n_numbers: int
    n_units: int = 60

    def numbers(self, seed: int) -> dict[str, Vector]:
        """Return what the sites hold, as numbers; made up."""
        generator = np.random.default_rng(seed)  # protects nothing
        return {site: 0.5 * generator.standard_normal((self.n_units, self.n_numbers)) for site in SITES}


def _counts(numbers: Vector) -> Any:
    """Return documents: about ten words for ordinary numbers, long ones for extreme numbers."""
    return documents(np.floor(8 * np.abs(numbers)).astype(np.int64))


def _two_classes(numbers: Vector) -> Any:
    return labelled(numbers[:, :-1], (numbers[:, -1] > 0).astype(int), bound=1.0, classes=[0, 1])


def _response(numbers: Vector) -> Any:
    return labelled(numbers[:, :-1], numbers[:, -1], bound=1.0, response=(-1, 1))


def _count_response(numbers: Vector) -> Any:
    return labelled(numbers[:, :-1], 5 + 5 * numbers[:, -1], bound=1.0, response=(0, 10))


def _people(numbers: Vector) -> Any:
    return subjects(
        list(numbers.reshape(len(numbers), _TIME_POINTS, 2)), bound=3.0, unit="subject", rows_per_subject=_TIME_POINTS
    )


def _plain(numbers: Vector) -> Any:
    return rows(numbers, bound=1.0)


def _two_views(numbers: Vector) -> Any:
    return views(numbers[:, :2], numbers[:, 2:], bounds=(1.0, 1.0))


def _time_points(numbers: Vector) -> Any:
    return subjects([numbers], bound=3.0, unit="record")


_ALL = (
    Case("mean", lambda e, d: Mean(epsilon=e, delta=d), _plain, 3),
    Case("pca", lambda e, d: PCA(1, epsilon=e, delta=d), _plain, 3),
    Case("centred-pca", lambda e, d: PCA(1, epsilon=e, delta=d, center=True), _plain, 3),
    Case("cca", lambda e, d: CCA(1, epsilon=e, delta=d), _two_views, 4),
    Case("topic-model", lambda e, d: TopicModel(2, epsilon=e, delta=d), _counts, 3),
    Case("mixture-model", lambda e, d: MixtureModel(2, epsilon=e, delta=d, noise_variance=0.01), _plain, 3),
    Case("joint-ica", lambda e, d: JointICA(2, epsilon=e, delta=d), _time_points, 2),
    Case(
        "joint-ica-of-subjects",
        lambda e, d: JointICA(2, epsilon=e, delta=d, n_timepoints=_TIME_POINTS),
        _people,
        2 * _TIME_POINTS,
    ),
    Case(
        "joint-ica-infomax",
        lambda e, d: JointICA(2, epsilon=e, delta=d, solver="infomax", n_iter=3),
        _time_points,
        2,
    ),
    Case("linear-regression", lambda e, d: LinearRegression(epsilon=e, delta=d), _response, 3),
    Case("logistic-regression", lambda e, d: LogisticRegression(epsilon=e, delta=d), _two_classes, 3),
    Case("polynomial-loss", lambda e, d: PolynomialLoss("poisson", epsilon=e, delta=d), _count_response, 3),
    Case("network-classifier", lambda e, d: NetworkClassifier(3, epsilon=e, delta=d, n_iter=3), _two_classes, 3),
    Case(
        "private-factor-model",
        lambda e, d: PrivateFactorModel(1, epsilon=e, delta=d, n_burn_in=2, n_draws=2, kernel="lapack"),
        _plain,
        3,
    ),
    Case("kmeans", lambda e, d: KMeans(2, epsilon=e, delta=d, n_iter=3, init=_CENTRES), _plain, 3),
)
CASES = {case.name: case for case in _ALL}
