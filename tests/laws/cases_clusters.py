"""Cases of cluster sums of rows that public arrays map: any finite arrays keep the diameter."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcape import rows

from .statistic_case import Case

Vector = NDArray[np.float64]
CENTRE = np.array([0.3, -0.2, 0.1])
PROJECTION = np.array([[0.8, 0.1], [-0.6, 0.3], [0.0, 0.9]])
CENTRES = np.array([[0.5, 0.1, 0.0], [-0.4, 0.5, 0.2], [0.0, 0.0, -0.6]])


def _rows(parameters: Vector) -> Any:
    return rows(parameters, bound=2.0)


def _shortened(x: Vector, length: float) -> Vector:
    norms = np.linalg.norm(x, axis=1, keepdims=True)
    return x * np.minimum(1.0, length / np.maximum(norms, 1e-300))


def _expected(public: dict[str, Any]) -> Any:
    def mean(parameters: Vector) -> Vector:
        z = _shortened(parameters, 2.0) - public["centre"]
        z = _shortened(z @ public["projection"] if "projection" in public else z, public["clip"])
        chosen = np.argmin(np.linalg.norm(z[:, None] - public["centres"], axis=2), axis=1)
        members = np.eye(len(public["centres"]))[chosen] / len(z)
        return np.concatenate([members.sum(axis=0), (members.T @ z).ravel()])

    return mean


def _case(name: str, label: str, reaches: float = 0.999, **public: Any) -> Case:
    compared = np.abs(public["centre"]).max() < 10
    return Case(name, label, 3, _rows, public, reaches=reaches, expected=_expected(public) if compared else None)


CASES = [
    _case("recentred_cluster_sums", "three-clusters", centre=CENTRE, centres=CENTRES, clip=0.7),
    _case("recentred_cluster_sums", "far-centre", 0.0, centre=np.full(3, 1e300), centres=CENTRES, clip=0.7),
    _case("recentred_cluster_sums", "one-cluster", centre=CENTRE, centres=CENTRES[:1], clip=0.7),
    _case(
        "reduced_cluster_sums",
        "two-coordinates",
        centre=CENTRE,
        projection=PROJECTION,
        centres=CENTRES[:, :2].copy(),
        clip=0.7,
    ),
    _case(
        "reduced_cluster_sums",
        "long-projection",
        centre=CENTRE,
        projection=1e150 * PROJECTION,
        centres=CENTRES[:, :2].copy(),
        clip=0.7,
    ),
]
