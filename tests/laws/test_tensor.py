"""Packed tensors, whitening and the power method: what must hold for every input."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from dpcape.metrics import component_error, match_components
from dpcape.postprocessing.tensor_power import (
    bounded_coordinates,
    multilinear,
    onto_simplex,
    power_method,
    spread_directions,
    tensor_noise_norm,
    whiten,
)
from dpcape.statistics.packing import (
    pack_tensor,
    packed_tensor_size,
    root_multiplicities,
    triples,
    unpack_tensor,
)

Array = NDArray[np.float64]
numbers = st.floats(-3, 3, allow_subnormal=False)


def symmetrised(tensor: Array) -> Array:
    result: Array = sum(tensor.transpose(order) for order in permutations(range(3))) / 6
    return result


def cube_tensor(weights: Array, vectors: Array) -> Array:
    """Return sum_k w_k v_k v_k v_k of the rows."""
    return np.einsum("k,ki,kj,kl->ijl", weights, vectors, vectors, vectors)


def isotropic(rng: np.random.Generator, n: int, scale: float) -> Array:
    return unpack_tensor(scale * rng.normal(size=packed_tensor_size(n)), n)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.integers(1, 6).flatmap(lambda n: hnp.arrays(np.float64, (n, n, n), elements=numbers)))
def test_packing_inverts_and_keeps_lengths(tensor: Array) -> None:
    symmetric = symmetrised(tensor)
    packed = pack_tensor(symmetric)
    assert packed.size == packed_tensor_size(len(tensor))
    np.testing.assert_allclose(unpack_tensor(packed, len(tensor)), symmetric, rtol=1e-14, atol=1e-14)
    assert np.linalg.norm(packed) == pytest.approx(np.linalg.norm(symmetric), rel=1e-12, abs=1e-12)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.integers(1, 7))
def test_multiplicities_count_permutations(n: int) -> None:
    for i, j, k, root in zip(*triples(n), root_multiplicities(n), strict=True):
        assert i <= j <= k
        assert root**2 == pytest.approx(len(set(permutations((int(i), int(j), int(k))))))


@pytest.mark.parametrize(("n_features", "n_components"), [(4, 1), (5, 5), (12, 4), (30, 10)])
def test_exact_moments_give_the_components_back(n_features: int, n_components: int) -> None:
    rng = np.random.default_rng(n_features)
    components = rng.normal(size=(n_components, n_features))
    weights = rng.uniform(0.5, 1.5, n_components)
    weights /= weights.sum()
    moment = np.einsum("k,ki,kj->ij", weights, components, components)
    whitening = whiten(moment, n_components, scale=0.0)
    third = multilinear(cube_tensor(weights, components), whitening.forward)
    values, vectors = power_method(third, n_components)
    found = (whitening.backward @ vectors * values).T
    order = match_components(found, components)
    np.testing.assert_allclose(found[order], components, atol=1e-7)
    np.testing.assert_allclose(values[order] ** -2.0, weights, rtol=1e-6)
    assert whitening.n_drowned == 0
    # The same through coordinates with shortened rows: nothing is lost by shortening.
    coordinates = bounded_coordinates(whitening)
    longest = np.linalg.norm(coordinates.forward, axis=1).max()
    assert longest <= np.linalg.norm(whitening.forward, axis=1).max() * (1 + 1e-12)
    again = multilinear(multilinear(cube_tensor(weights, components), coordinates.forward), coordinates.inner)
    values, vectors = power_method(again, n_components)
    assert component_error((coordinates.backward @ vectors * values).T, components) < 1e-7


def test_power_method_is_robust_to_noise_and_keeps_components_orthonormal() -> None:
    rng = np.random.default_rng(5)
    n = 12
    truth = np.linalg.qr(rng.normal(size=(n, n)))[0]
    tensor = cube_tensor(np.full(n, 3.0), truth.T) + isotropic(rng, n, 0.15)
    values, vectors = power_method(tensor, n)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(n), atol=1e-10)
    assert component_error(vectors.T, truth.T) < 0.35
    assert (values > 2.5).all()
    assert (np.diff(values) <= 0).all()


def test_joint_improvement_never_lowers_the_summed_squares() -> None:
    rng = np.random.default_rng(6)
    for _ in range(5):
        tensor = isotropic(rng, 6, 1.0)
        sums = [float(np.sum(power_method(tensor, 6, n_polish=steps)[0] ** 2)) for steps in (1, 3, 10, 60)]
        assert (np.diff(sums) >= -1e-9).all()


def test_whitening_undoes_the_inflation_that_noise_brings() -> None:
    rng = np.random.default_rng(7)
    size, true = 300, np.array([4.0, 2.0, 1.0])
    basis = np.linalg.qr(rng.normal(size=(size, 3)))[0]
    scale = 0.05
    noise = rng.normal(size=(size, size)) * scale / math.sqrt(2)
    noise = np.triu(noise, 1) + np.triu(noise, 1).T + np.diag(scale * rng.normal(size=size))
    whitening = whiten((basis * true) @ basis.T + noise, 3, scale=scale)
    raw, kept = np.abs(whitening.eigenvalues - true), np.abs(whitening.kept - true)
    assert (kept[1:] < raw[1:]).all()
    np.testing.assert_allclose(whitening.kept, true, rtol=0.15)


@pytest.mark.parametrize("size", [8, 500])
def test_indefinite_and_rank_deficient_moments_are_floored(size: int) -> None:
    rng = np.random.default_rng(size)
    noise = rng.normal(size=(size, size))
    whitening = whiten((noise + noise.T) / 2, 5, scale=1.0)
    assert whitening.n_drowned >= 4
    assert np.isfinite(whitening.forward).all()
    assert (whitening.kept > 0).all()
    deficient = whiten(np.diag([1.0] + [0.0] * (size - 1)), 3, scale=0.0)
    assert deficient.n_drowned == 2
    assert np.isfinite(deficient.forward).all()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(hnp.arrays(np.float64, (3, 5), elements=st.floats(-10, 10, allow_subnormal=False)))
def test_the_simplex_projection_is_the_nearest_probability_vector(rows: Array) -> None:
    projected = onto_simplex(rows)
    assert (projected >= 0).all()
    np.testing.assert_allclose(projected.sum(axis=1), 1.0, atol=1e-12)
    # Nearest point of a convex set: the angle to every vertex is at least a right one.
    for row, point in zip(rows, projected, strict=True):
        assert ((np.eye(5) - point) @ (row - point)).max() <= 1e-9
    np.testing.assert_allclose(onto_simplex(projected), projected, atol=1e-12)


def test_starts_are_unit_vectors_and_spread_out() -> None:
    starts = spread_directions(6, 200)
    np.testing.assert_allclose(np.linalg.norm(starts, axis=0), 1.0, atol=1e-12)
    covariance = starts @ starts.T / 200
    np.testing.assert_allclose(covariance, np.eye(6) / 6, atol=0.05)
    assert spread_directions(6, 3).shape == (6, 3)


def test_noise_norm_after_a_linear_map_matches_simulation() -> None:
    rng = np.random.default_rng(8)
    whitener = rng.normal(size=(7, 3)) * [1.0, 2.0, 0.3]
    squares = [float(np.sum(multilinear(isotropic(rng, 7, 0.5), whitener) ** 2)) for _ in range(4000)]
    # Relative error of a mean of 4,000 squares is below 5 % with probability 1 - 1e-6; 10 % in scale is 21 % here.
    assert np.mean(squares) == pytest.approx(tensor_noise_norm(0.5, whitener) ** 2, rel=0.1)


def test_component_measures() -> None:
    truth = np.eye(3)
    assert component_error(truth[[2, 0, 1]], truth) == 0.0
    assert component_error(truth[[0, 0, 0]], truth) == 0.0  # q_comp lets estimates share a truth ...
    assert sorted(match_components(truth[[0, 0, 0]], truth).tolist()) == [0, 1, 2]  # ... a matching does not.
    assert component_error(truth + 0.3 * np.eye(3), truth) == pytest.approx(0.3)
    assert match_components(truth[[2, 0, 1]], truth).tolist() == [1, 2, 0]
