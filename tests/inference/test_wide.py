"""PCA of wide rows in a public basis: intervals cover, tests hold, maps help, and what cannot work is refused."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcape import PCA, Cosines, Federation, Independent, Replay, Template, in_process, rows
from dpcape.core.errors import InvalidParameter, UtilityWarning
from dpcape.core.grid import reach_on_grid
from dpcape.postprocessing.wide_components import kept_columns, shrunk_maps, without_noise

Vector = NDArray[np.float64]
SHAPE = (16, 18)
WIDE = 16 * 18
BASIS = Cosines(np.ones(SHAPE), (6, 6))


def fitted(data: Vector, seed: int, **parameters: Any) -> PCA:
    held = {"lyon": rows(data[::2], bound=1.0), "oslo": rows(data[1::2], bound=1.0)}
    model = PCA(**{"n_components": 3, "epsilon": 2.0, "delta": 1e-5, "basis": BASIS, "center": False, **parameters})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UtilityWarning)
        return model.fit(Federation(in_process(held, noise=Replay(seed)), protocol=Independent()))


def volumes(n_rows: int, seed: int, *, fine: float = 0.25) -> tuple[Vector, Vector]:
    """Return rows of three maps, of whose energy a part is in fine stripes, and the maps."""
    rng = np.random.default_rng(seed)
    smooth = np.linalg.qr(BASIS.expanded(rng.normal(size=(3, 36)) / (1 + np.arange(36))).T)[0]
    stripes = smooth * np.cos(np.pi * np.arange(WIDE) * 0.9)[:, np.newaxis]
    stripes -= BASIS.expanded(BASIS.coordinates(np.ascontiguousarray(stripes.T))).T
    stripes /= np.linalg.norm(stripes, axis=0)
    maps = np.linalg.qr(np.sqrt(1 - fine) * smooth + np.sqrt(fine) * stripes)[0]
    scores = rng.normal(size=(n_rows, 3)) * [0.4, 0.3, 0.2]
    return scores @ maps.T + 0.01 * rng.normal(size=(n_rows, WIDE)), maps


def clipped(data: Vector) -> Vector:
    return data / np.maximum(np.linalg.norm(data, axis=1, keepdims=True), 1.0)


@pytest.mark.parametrize("center", [False, True])
def test_intervals_cover_the_eigenvalues_of_whole_rows(center: bool) -> None:
    """At 95%, of 12 fits more than 4 miss with probability 2e-4, of 6 centred ones more than 2 with 2e-3."""
    missed = 0
    for seed in range(6 if center else 12):
        data, _ = volumes(900, seed)
        low, high = fitted(data, seed, center=center, maps=seed % 2 == 1).interval_
        used = clipped(data)
        wanted = np.linalg.eigvalsh(used.T @ used / len(used) - center * np.outer(used.mean(0), used.mean(0)))[::-1][:3]
        missed += not ((low <= wanted) & (wanted <= high)).all()
    assert missed <= (2 if center else 4)


def test_components_of_pure_noise_are_not_determined() -> None:
    """Of 30 fits of isotropic rows at most 6 may reject at 5%: more happen with probability 6e-4."""
    rng = np.random.default_rng(8)
    rejected = sum(
        fitted(0.04 * rng.normal(size=(1500, WIDE)), seed, n_components=1).p_values_[0] <= 0.05 for seed in range(30)
    )
    assert rejected <= 6


@pytest.mark.parametrize("center", [False, True])
def test_maps_find_what_the_basis_leaves_out(center: bool) -> None:
    data, maps = volumes(20_000, 5)
    energy = np.array([0.4, 0.3, 0.2]) ** 2

    def captured(model: PCA) -> float:
        np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(3), atol=1e-8)
        return float((((model.components_ @ maps) ** 2) * energy).sum() / energy.sum())

    alone, both = (captured(fitted(data, 1, center=center, maps=asked)) for asked in (False, True))
    assert alone < 0.78
    assert both > 0.97


def test_maps_of_nothing_cost_little() -> None:
    """Where the basis contains everything, maps must not take away more than 0.02."""
    data, maps = volumes(8000, 6, fine=0.0)
    energy = [float(((fitted(data, 2, maps=asked).components_ @ maps) ** 2).sum() / 3) for asked in (False, True)]
    assert energy[1] > energy[0] - 0.02


def test_maps_that_noise_would_hide_are_not_released() -> None:
    data, _ = volumes(200, 7)
    held = {"lyon": rows(data, bound=1.0)}
    fed = Federation(in_process(held, noise=Replay(1)), protocol=Independent())
    with pytest.warns(UtilityWarning, match="Maps of what the basis leaves out are not released"):
        model = PCA(3, epsilon=0.2, delta=1e-5, basis=BASIS, maps=True, center=False).fit(fed)
    assert [release.statistic for release in model.releases_] == ["basis_moments"]
    alone = PCA(3, epsilon=0.2, delta=1e-5, basis=BASIS, center=False).plan(fed)
    assert alone.scales == [model.releases_[0].scale]


def test_the_energy_left_out_is_released_at_no_cost() -> None:
    data, _ = volumes(5000, 9)
    model = fitted(data, 3, epsilon=5.0)
    used = clipped(data)
    left = used - BASIS.expanded(BASIS.coordinates(used))
    assert model.left_out_ == pytest.approx(float((left**2).sum(axis=1).mean()), abs=4 * model.releases_[0].scale)
    plain = PCA(3, epsilon=5.0, delta=1e-5, basis=BASIS, center=False).plan(
        Federation(in_process({"lyon": rows(data, bound=1.0)}), protocol=Independent())
    )
    small = PCA(3, epsilon=5.0, delta=1e-5, center=False).plan(
        Federation(in_process({"lyon": rows(data[:, :36], bound=1.0)}), protocol=Independent())
    )
    # Wide rows may be slightly longer on the grid.
    longer = reach_on_grid(1.0, WIDE) / reach_on_grid(1.0, 36)
    assert plain.scales == pytest.approx([longer**2 * scale for scale in small.scales], rel=1e-6)


def test_columns_that_are_only_noise_are_not_kept() -> None:
    rng = np.random.default_rng(4)
    noise = rng.normal(size=(200, 200))
    moment = np.zeros((200, 200))
    moment[:5, :5] = np.eye(5)
    noisy = moment + 0.05 * (noise + noise.T) / 2
    assert kept_columns(noisy, 0.05, 5, [5, 10, 50, 200]) == 5
    # What noise adds to an eigenvalue is taken off again.
    values = np.linalg.eigvalsh(noisy)[::-1][:1]
    assert without_noise(values, 0.05**2 / 2 * 200)[0] < values[0]
    assert without_noise(np.array([-1.0, 0.1]), 1.0).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("inside", [None, np.ones(SHAPE, dtype=bool), np.ones((4, 6, 12), dtype=bool)])
def test_shrinkage_removes_noise_and_keeps_signal(inside: Any) -> None:
    rng = np.random.default_rng(5)
    noise = rng.normal(size=(4, WIDE))
    assert (shrunk_maps(noise, 1.0, inside) ** 2).sum() < 0.1 * (noise**2).sum()
    signal = 50 * BASIS.expanded(rng.normal(size=(4, 36)))
    error = ((shrunk_maps(signal + noise, 1.0, inside) - signal) ** 2).sum()
    assert error < (0.7 if np.shape(inside) == SHAPE else 1.01) * (noise**2).sum()
    assert shrunk_maps(noise, 0.0, inside) is noise


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"basis": None, "maps": True}, "maps must be False without a basis"),
        ({"n_components": "auto", "maps": True}, "n_components must be a whole number with maps"),
        ({"n_components": 37}, "from 1 to 36"),
        ({"basis": Template(np.eye(5, 4))}, "one row per column of the records"),
        ({"basis": np.ones((WIDE, 4))}, "orthonormal"),
        ({"basis": "cosines"}, "must be a matrix"),
        ({"maps": "yes"}, "maps must be True or False"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_charged(parameters: dict[str, Any], match: str) -> None:
    data, _ = volumes(50, 1)
    with pytest.raises(InvalidParameter, match=match):
        fitted(data, 1, **parameters)


def test_auto_keeps_the_components_that_the_test_finds() -> None:
    data, _ = volumes(6000, 2)
    model = fitted(data, 4, n_components="auto", epsilon=5.0)
    assert len(model.explained_variance_) >= 3
    assert (model.p_values_[:3] <= 0.05).all()
