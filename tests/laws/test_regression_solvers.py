"""Post-processing of the regressions: shrinkage, the logistic length, and sizes of blocks."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import expit

from dpcape.estimators.linear.logistic_scale import logistic_scale
from dpcape.estimators.linear.shrinkage import cleaned_eigenvalues, shrunken_solution

Vector = NDArray[np.float64]


def noisy(matrix: Vector, scale: float, generator: np.random.Generator) -> Vector:
    draws = np.triu(generator.standard_normal(matrix.shape) * scale / math.sqrt(2), 1)
    return matrix + draws + draws.T + np.diag(generator.standard_normal(len(matrix)) * scale)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    width=st.integers(1, 8), n_records=st.integers(1, 12), ridge=st.sampled_from([0.0, 0.3]), seed=st.integers(0, 99)
)
def test_without_noise_it_is_least_squares(width: int, n_records: int, ridge: float, seed: int) -> None:
    """Also with more features than records: the least-norm solution."""
    generator = np.random.default_rng(seed)
    X, y = generator.standard_normal((n_records, width)), generator.standard_normal(n_records)
    found = shrunken_solution(X.T @ X, X.T @ y, scale=0.0, cross_scale=0.0, ridge=ridge).coefficients
    wanted = np.linalg.pinv(X.T @ X + ridge * np.eye(width), hermitian=True, rcond=1e-10) @ X.T @ y
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6 * max(1.0, np.abs(wanted).max()))


def test_cleaning_finds_the_energies_of_the_true_matrix() -> None:
    generator = np.random.default_rng(0)
    size, scale = 200, 0.05
    truth = np.diag(np.concatenate([np.full(100, 1.0), np.full(100, 2.0)]))
    values, vectors = np.linalg.eigh(noisy(truth, scale, generator))
    energies = np.einsum("ij,ik,kj->j", vectors, truth, vectors)
    raw, cleaned = np.abs(values - energies).mean(), np.abs(cleaned_eigenvalues(values, scale) - energies).mean()
    assert cleaned < 0.25 * raw
    assert size == len(values)


def test_noise_on_a_multiple_of_the_identity_is_seen_through() -> None:
    values = np.linalg.eigvalsh(noisy(0.02 * np.eye(300), 0.002, np.random.default_rng(1)))
    cleaned = cleaned_eigenvalues(values, 0.002)
    assert np.ptp(values) > 0.09
    assert np.abs(cleaned - 0.02).max() < 0.01


def test_pure_noise_gives_small_coefficients_and_wide_uncertainty() -> None:
    """Twenty draws without any signal; unshrunk coefficients would be about 1 long."""
    lengths, spreads = [], []
    for seed in range(20):
        generator = np.random.default_rng(seed)
        moment = noisy(np.zeros((30, 30)), 1.0, generator)
        solution = shrunken_solution(moment, generator.standard_normal(30), scale=1.0, cross_scale=1.0)
        lengths.append(np.linalg.norm(solution.coefficients))
        spreads.append(np.sqrt(np.diagonal(solution.noise_covariance)).min())
    assert np.mean(lengths) < 0.3
    assert np.median(lengths) < 0.2
    assert min(spreads) > 0.05


def test_an_indefinite_matrix_is_no_obstacle() -> None:
    moment = np.diag([1.0, -0.5, 0.0])
    solution = shrunken_solution(moment, np.ones(3), scale=0.3, cross_scale=0.3)
    assert np.isfinite(solution.coefficients).all()
    assert np.abs(solution.coefficients).max() < 3.0


@settings(max_examples=30, deadline=None, derandomize=True)
@given(spread=st.floats(0.05, 5.5), mean=st.floats(-3.0, 3.0))
def test_the_logistic_length_is_recovered(spread: float, mean: float) -> None:
    """For normal log-odds the two equations give back what made the moments."""
    nodes = np.linspace(-9, 9, 4001)
    masses = np.exp(-(nodes**2) / 2)
    masses /= masses.sum()
    ones = expit(mean + spread * nodes)
    # Least squares of the label on the log-odds: slope E[s'] = cov / variance.
    slope = float(masses @ (ones * nodes)) / spread
    length, offset = logistic_scale((slope * spread) ** 2, float(masses @ ones))
    assert length * slope == pytest.approx(1.0, rel=1e-4)
    assert offset == pytest.approx(mean, abs=1e-3)


@pytest.mark.parametrize("probability", [-0.3, 0.0, 1.0, 1.7])
@pytest.mark.parametrize("variance", [-1.0, 0.0, 0.2, 50.0])
def test_moments_that_noise_made_impossible_still_give_numbers(probability: float, variance: float) -> None:
    length, offset = logistic_scale(variance, probability)
    assert math.isfinite(length)
    assert math.isfinite(offset)
    assert length > 0
