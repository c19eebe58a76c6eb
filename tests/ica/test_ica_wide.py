"""Joint ICA of wide time points: a basis as an operator, and maps of what it leaves out."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from dpcape import Cosines, Exact, Federation, Independent, JointICA, Replay, Template, in_process, subjects
from dpcape.core.errors import InvalidParameter, UtilityWarning
from dpcape.core.statistic import build
from dpcape.statistics.fourth_moments import fourth_moment

Vector = NDArray[np.float64]
SHAPE, WIDE, N_SOURCES = (12, 12), 144, 3
BASIS = Cosines(np.ones(SHAPE), (5, 5))


def fitted(data: Vector, seed: int | None, **parameters: Any) -> JointICA:
    """Fit over two sites; without a seed, exactly."""
    held = {name: subjects([data[at::2]], bound=2.0, unit="record") for at, name in enumerate(("lyon", "oslo"))}
    given = {"n_components": N_SOURCES, "epsilon": 5.0, "delta": 1e-5, "basis": BASIS, **parameters}
    sites = in_process(held, noise=None if seed is None else Replay(seed))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UtilityWarning)
        return JointICA(**given).fit(Federation(sites, protocol=Exact() if seed is None else Independent()))


def series(n_rows: int, seed: int, fine: float = 0.3) -> tuple[Vector, Vector]:
    """Return time points of three sources whose maps have fine stripes, and the maps, (voxels, sources)."""
    rng = np.random.default_rng(seed)
    smooth = np.linalg.qr(BASIS.expanded(rng.normal(size=(N_SOURCES, 25)) / (1 + np.arange(25))).T)[0]
    stripes = smooth * np.cos(np.pi * np.arange(WIDE) * 0.9)[:, np.newaxis]
    stripes -= BASIS.expanded(BASIS.coordinates(np.ascontiguousarray(stripes.T))).T
    maps = np.sqrt(1 - fine) * smooth + np.sqrt(fine) * stripes / np.linalg.norm(stripes, axis=0)
    maps *= [0.5, 0.45, 0.4]
    sources = rng.laplace(size=(n_rows, N_SOURCES)) / np.sqrt(2)
    return sources @ maps.T + 0.01 * rng.normal(size=(n_rows, WIDE)), maps


def found(model: JointICA, maps: Vector) -> float:
    """Return the mean squared cosine of maps with the true ones, matched."""
    unit = [array / np.linalg.norm(array, axis=0) for array in (model.mixing_, maps)]
    cosines = np.abs(unit[0].T @ unit[1])
    return float(np.mean(cosines[linear_sum_assignment(-cosines)] ** 2))


def test_maps_find_what_the_basis_leaves_out() -> None:
    data, maps = series(12_000, 1)
    alone, both = (fitted(data, 2, maps=asked) for asked in (False, True))
    assert found(alone, maps) < 0.75
    assert found(both, maps) > 0.95
    assert [release.statistic for release in both.releases_] == [
        "basis_moments",
        "reduced_second_moment",
        "fourth_moment",
        "residual_maps",
    ]


def test_an_operator_gives_what_its_columns_give() -> None:
    data, _ = series(6000, 3)
    columns = BASIS.expanded(np.eye(25)).T
    operator, matrix = fitted(data, None), fitted(data, None, basis=columns)
    np.testing.assert_allclose(np.abs(operator.mixing_), np.abs(matrix.mixing_), atol=1e-6)
    few = Template(columns[:, :N_SOURCES])
    np.testing.assert_allclose(
        np.abs(fitted(data, None, basis=few).mixing_),
        np.abs(fitted(data, None, basis=columns[:, :N_SOURCES]).mixing_),
        atol=1e-6,
    )


@pytest.mark.filterwarnings("ignore::dpcape.core.errors.UtilityWarning")
def test_maps_that_noise_would_hide_are_not_released() -> None:
    data, _ = series(400, 4)
    held = {"lyon": subjects([data], bound=2.0, unit="record")}
    fed = Federation(in_process(held, noise=Replay(1)), protocol=Independent())
    with pytest.warns(UtilityWarning, match="Maps of what the basis leaves out are not released"):
        model = JointICA(3, epsilon=0.5, delta=1e-5, basis=BASIS, maps=True).fit(fed)
    assert "residual_maps" not in [release.statistic for release in model.releases_]
    alone = JointICA(3, epsilon=0.5, delta=1e-5, basis=BASIS).plan(fed)
    assert alone.scales == [release.scale for release in model.releases_]


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"basis": None, "maps": True}, "maps must be False without a public basis"),
        ({"basis": Cosines(np.ones(SHAPE), (3, 1)), "maps": True}, "of more columns than components"),
        ({"solver": "infomax", "maps": True}, "maps must be False with solver"),
        ({"basis": Cosines(np.ones((4, 4)), (2, 2))}, "basis must have 144 rows"),
        ({"basis": ["cosines", [12, 12], [2, 1]]}, "at least 3 columns"),
        ({"basis": ["waves", [12, 12]]}, "basis must be"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_charged(parameters: dict[str, Any], match: str) -> None:
    data, _ = series(50, 5)
    with pytest.raises(InvalidParameter, match=match):
        fitted(data, 1, **parameters)


def test_maps_of_whole_persons_are_refused() -> None:
    data, _ = series(400, 6)
    held = subjects(np.split(data, 8), bound=2.0, unit="subject", rows_per_subject=50, n_features=data.shape[1])
    federation = Federation(in_process({"lyon": held}), protocol=Independent())
    with pytest.raises(InvalidParameter, match="maps must be False for unit 'subject'"):
        JointICA(3, epsilon=5.0, delta=1e-5, basis=BASIS, maps=True, insist=True).fit(federation)


@pytest.mark.parametrize("name", ["fourth_moment", "reduced_second_moment"])
def test_wide_rows_are_read_in_blocks_of_few(name: str) -> None:
    wide = 40_000
    data = np.zeros((900, wide), dtype=np.float16)
    data[:, ::1000] = np.random.default_rng(6).normal(size=(900, 40))
    held, largest = subjects([data], bound=1.0, unit="record"), []
    tiles = held.tiles

    def watched() -> Iterator[Any]:
        for tile, gone in tiles():
            largest.append(tile.rows.ints.size)
            yield tile, gone

    held.tiles = watched  # type: ignore[method-assign]  # to see the tiles
    projection = np.zeros((wide, 2))
    projection[0, 0] = projection[1000, 1] = 1.0
    total = build(name, held.facts(), {"projection": projection, "clip": 1.0}).total(held)
    assert max(largest) <= 2**24
    assert np.isfinite(total).all()
    narrow = subjects([data[:, ::1000]], bound=1.0, unit="record")
    if name == "fourth_moment":
        same = fourth_moment(narrow.facts(), projection[::1000], clip=1.0).total(narrow)
        # Rows are on a grid of 2^20 steps per bound.
        np.testing.assert_allclose(total, same, atol=900 * 2.0**-18)
