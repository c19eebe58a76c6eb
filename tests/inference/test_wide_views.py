"""CCA of wide views in public bases: tests hold, maps help, and what cannot work is refused."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcape import CCA, Atlas, Cosines, Exact, Federation, Independent, Replay, in_process, views
from dpcape.core.errors import InvalidParameter, UtilityWarning
from dpcape.core.grid import reach_on_grid
from dpcape.postprocessing.wide_components import clear_directions
from dpcape.statistics.view_bases import Columns

Vector = NDArray[np.float64]
SHAPE = (12, 12)
WIDE = 144
BASIS = Cosines(np.ones(SHAPE), (5, 5))


def fitted(x: Vector, y: Vector, seed: int | None, **parameters: Any) -> CCA:
    """Fit over two sites; without a seed, exactly."""
    given = {"n_components": 2, "epsilon": 2.0, "delta": 1e-5, "basis": (BASIS, None), "center": False, **parameters}
    held = {name: views(x[at::2], y[at::2], bounds=(1.0, 1.0)) for at, name in enumerate(("lyon", "oslo"))}
    sites = in_process(held, noise=None if seed is None else Replay(seed))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UtilityWarning)
        return CCA(**given).fit(Federation(sites, protocol=Exact() if seed is None else Independent()))


def drawn(n_rows: int, seed: int, *, related: float = 0.9, fine: float = 0.3) -> tuple[Vector, Vector, Vector]:
    """Return images and a few numbers that share two variates, and the two maps of the images' loadings."""
    rng = np.random.default_rng(seed)
    smooth = np.linalg.qr(BASIS.expanded(rng.normal(size=(4, 25)) / (1 + np.arange(25))).T)[0]
    stripes = smooth * np.cos(np.pi * np.arange(WIDE) * 0.9)[:, np.newaxis]
    stripes -= BASIS.expanded(BASIS.coordinates(np.ascontiguousarray(stripes.T))).T
    maps = np.sqrt(1 - fine) * smooth + np.sqrt(fine) * stripes / np.linalg.norm(stripes, axis=0)
    scores, own = rng.normal(size=(2, n_rows, 4))
    own[:, :2] = related * scores[:, :2] + np.sqrt(1 - related**2) * own[:, :2]
    loadings = maps * [0.35, 0.3, 0.25, 0.2]
    x = scores @ loadings.T + 0.01 * rng.normal(size=(n_rows, WIDE))
    return x, 0.3 * own[:, :3], loadings[:, :2]


def found(model: CCA, loadings: Vector) -> float:
    """Return the share of the true loadings that the estimated ones span."""
    span = np.linalg.qr(model.x_loadings_)[0]
    return float(((span.T @ loadings) ** 2).sum() / (loadings**2).sum())


def test_unrelated_wide_views_are_not_related() -> None:
    """Of 30 fits of unrelated views at most 6 may reject at 5%: more happen with probability 6e-4."""
    rejected = 0
    for seed in range(30):
        x, y, _ = drawn(1500, seed, related=0.0)
        rejected += int(fitted(x, y, seed, n_components=1).p_values_[0] <= 0.05)
    assert rejected <= 6


@pytest.mark.parametrize("center", [False, True])
def test_maps_find_loadings_beyond_the_basis(center: bool) -> None:
    x, y, loadings = drawn(12_000, 5)
    alone, both = (fitted(x, y, 1, center=center, maps=asked) for asked in (False, True))
    assert found(alone, loadings) < 0.75
    assert found(both, loadings) > 0.96
    # Lengths are those of the loadings too, up to what clipping takes away.
    assert np.linalg.norm(both.x_loadings_) == pytest.approx(np.hypot(0.35, 0.3), rel=0.08)
    assert alone.y_loadings_.shape == (3, 2)
    assert both.correlations_[0] == pytest.approx(0.9, abs=0.06)
    scores = both.transform(x, y)
    assert abs(np.corrcoef(scores[0][:, 0], scores[1][:, 0])[0, 1]) > 0.85


def test_both_views_may_be_wide() -> None:
    """Each view has its own maps: here the second is the first, upside down and with noise of its own."""
    x, y, loadings = drawn(12_000, 6)
    other = x[:, ::-1] + 0.01 * np.random.default_rng(1).normal(size=x.shape)
    model = fitted(x, other, 2, n_components=4, basis=(BASIS, BASIS), maps=True, epsilon=5.0)
    assert [release.statistic for release in model.releases_] == ["scaled_basis_moments", "scaled_residual_maps"]
    assert (model.left_out_ > 0.02).all()
    assert (model.correlations_ > 0.8).all()
    for own, true in ((model.x_loadings_, loadings), (model.y_loadings_, loadings[::-1])):
        span = np.linalg.qr(own)[0]
        assert float(((span.T @ true) ** 2).sum() / (true**2).sum()) > 0.95
    swapped = fitted(y, x, 3, basis=(None, BASIS), maps=True)
    span = np.linalg.qr(swapped.y_loadings_)[0]
    assert float(((span.T @ loadings) ** 2).sum() / (loadings**2).sum()) > 0.95


def test_without_noise_the_basis_gives_what_plain_cca_of_the_coordinates_gives() -> None:
    x, y, _ = drawn(3000, 7)
    x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1.0)
    wide = fitted(x, y, None)
    plain = fitted(BASIS.coordinates(x), y, None, basis=None)
    np.testing.assert_allclose(wide.correlations_, plain.correlations_, rtol=1e-6)
    # Rows and coordinates are rounded on grids of their own; weights of columns of little variance are the most moved.
    np.testing.assert_allclose(BASIS.coordinates(wide.x_weights_.T.copy()), _same_signs(wide, plain, x), atol=1e-3)
    loadings = x.T @ wide.transform(x) / len(x)
    inside = BASIS.expanded(BASIS.coordinates(np.ascontiguousarray(loadings.T))).T
    np.testing.assert_allclose(wide.x_loadings_, inside, atol=1e-7)
    exact = fitted(x, y, None, maps=True)
    # Loadings beyond the basis are exact but for the few records whose residuals or variates are shortened.
    np.testing.assert_allclose(exact.x_loadings_, loadings, atol=0.02)


def _same_signs(wide: CCA, plain: CCA, x: Vector) -> Vector:
    signs = np.sign((BASIS.coordinates(wide.x_weights_.T.copy()) * plain.x_weights_.T).sum(axis=1))
    flipped: Vector = signs[:, np.newaxis] * plain.x_weights_.T
    return flipped


def test_maps_that_noise_would_hide_are_not_released() -> None:
    x, y, _ = drawn(300, 8)
    fed = Federation(in_process({"lyon": views(x, y, bounds=(1.0, 1.0))}, noise=Replay(1)), protocol=Independent())
    with pytest.warns(UtilityWarning, match="Maps of what the basis leaves out are not released"):
        model = CCA(1, epsilon=0.5, delta=1e-5, basis=(BASIS, None), maps=True, center=False).fit(fed)
    assert [release.statistic for release in model.releases_] == ["scaled_basis_moments"]
    assert CCA(1, epsilon=0.5, delta=1e-5, basis=(BASIS, None), center=False).plan(fed).scales == [
        model.releases_[0].scale
    ]


def test_the_energy_left_out_of_each_view_costs_nothing() -> None:
    x, y, _ = drawn(5000, 9)
    model = fitted(x, y, 4, epsilon=5.0)
    used = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1.0)
    left = used - BASIS.expanded(BASIS.coordinates(used))
    assert model.left_out_[0] == pytest.approx(float((left**2).sum(axis=1).mean()), abs=4 * model.releases_[0].scale)
    assert model.left_out_[1] == 0.0
    small = fitted(BASIS.coordinates(x), y, 4, epsilon=5.0, basis=None)
    # Wide rows may be slightly longer on the grid.
    longer = reach_on_grid(1.0, x.shape[1] + y.shape[1]) / reach_on_grid(1.0, BASIS.n_columns + y.shape[1])
    assert model.releases_[0].scale == pytest.approx(longer**2 * small.releases_[0].scale, rel=1e-6)


def test_directions_of_noise_are_left_out() -> None:
    rng = np.random.default_rng(3)
    noise = rng.normal(size=(60, 60))
    moment = 0.02 * (noise + noise.T) / 2
    moment[:3, :3] += np.eye(3)
    directions, values = clear_directions(moment, 0.02, 1, [10, 20, 60])
    assert directions.shape[1] == len(values) == 3
    assert clear_directions(moment, 0.02, 5, [60])[0].shape == (60, 5)


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"basis": None, "maps": True}, "maps must be False without a basis"),
        ({"n_components": "auto", "maps": True}, "n_components must be a whole number with maps"),
        ({"scale": "private"}, "scale must be None with a basis"),
        ({"n_components": 4}, "from 1 to 3"),
        ({"basis": BASIS}, "one entry per view"),
        ({"basis": (BASIS, None, None)}, "one entry per view"),
        ({"basis": (None, None)}, "at least one view"),
        ({"basis": (None, Atlas([1, 2]))}, "one row per column of the view"),
        ({"basis": (np.ones((WIDE, 2)), None)}, "orthonormal"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_charged(parameters: dict[str, Any], match: str) -> None:
    x, y, _ = drawn(50, 1)
    with pytest.raises(InvalidParameter, match=match):
        fitted(x, y, 1, **parameters)


def test_columns_are_copied() -> None:
    """A view without a basis is shortened in place afterwards: never the records themselves."""
    block = np.ones((2, 3))
    Columns(3).coordinates(block)[:] = 0.0
    assert block.all()
