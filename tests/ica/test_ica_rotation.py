"""Laws of tensors and rotations: pure post-processing."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcape.core.errors import InvalidParameter
from dpcape.datasets import autocorrelation, garch, simulated_fmri
from dpcape.estimators.ica.bases import cosine_basis
from dpcape.estimators.ica.infomax import Infomax
from dpcape.estimators.ica.polish import first_widths, polished
from dpcape.estimators.ica.rotation import rotate, tensor_values
from dpcape.estimators.ica.self_check import clearance, least_clearance
from dpcape.metrics import gain_index, matched_correlations
from dpcape.statistics.packing import layout, pack4, packed_size4, pair_products, traceless4, unpack4


def power4(rows):
    pairs = pair_products(rows)
    return pack4(pairs @ pairs.T / len(rows), rows.shape[1])


def orthogonal(rng, n):
    return np.linalg.qr(rng.standard_normal((n, n)))[0]


def mixed_sources(rng, kinds, n_rows=60_000):
    makers = {
        "laplace": lambda: rng.laplace(scale=math.sqrt(0.5), size=n_rows),
        "uniform": lambda: rng.uniform(-math.sqrt(3), math.sqrt(3), n_rows),
    }
    return np.stack([makers[kind]() for kind in kinds], axis=1)


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_packing_keeps_lengths_and_inverts(n):
    rng = np.random.default_rng(n)
    full = rng.standard_normal((n,) * 4)
    full = sum(np.transpose(full, order) for order in permutations(range(4))) / 24
    rows, columns = np.triu_indices(n)
    pairs = full[rows, columns][:, rows, columns]
    packed = pack4(pairs, n)
    assert packed.shape == (packed_size4(n),)
    assert np.linalg.norm(packed) == pytest.approx(np.linalg.norm(full))
    np.testing.assert_allclose(unpack4(packed, n), pairs)
    assert (layout(n).weights ** 2).sum() == pytest.approx(n**4)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(2, 6))
def test_the_traceless_part_is_an_orthogonal_projection(seed, n):
    rng = np.random.default_rng(seed)
    tensor, other = rng.standard_normal((2, packed_size4(n)))
    part = traceless4(tensor, n)
    np.testing.assert_allclose(traceless4(part, n), part, atol=1e-9)
    assert part @ other == pytest.approx(tensor @ traceless4(other, n), abs=1e-8)
    trace = unpack4(tensor, n)[layout(n).diagonal].sum(axis=0)
    weights = np.where(layout(n).pair_rows == layout(n).pair_columns, 1.0, 2.0)
    total = trace[layout(n).diagonal].sum()
    expected = tensor @ tensor - 6 / (n + 4) * (weights * trace**2).sum() + 3 / ((n + 2) * (n + 4)) * total**2
    assert part @ part == pytest.approx(expected, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize(
    ("kurtosis", "kinds"),
    [
        ("positive", ["laplace"] * 5),
        ("negative", ["uniform"] * 5),
        ("mixed", ["laplace", "laplace", "uniform", "uniform", "uniform"]),
        ("mixed", ["laplace"] * 4),
        ("positive", ["laplace"] * 2),
    ],
)
def test_sources_are_found(kurtosis, kinds):
    rng = np.random.default_rng(7)
    sources = mixed_sources(rng, kinds)
    turn = orthogonal(rng, len(kinds))
    found = rotate(power4(sources @ turn.T), len(kinds), kurtosis=kurtosis)
    np.testing.assert_allclose(found @ found.T, np.eye(len(kinds)), atol=1e-9)
    assert gain_index(found, turn) < 0.02


def test_the_wrong_sign_finds_nothing():
    """Teeth: the contrast matters, so a test above that passes says something."""
    rng = np.random.default_rng(7)
    turn = orthogonal(rng, 5)
    tensor = power4(mixed_sources(rng, ["uniform"] * 5) @ turn.T)
    assert gain_index(rotate(tensor, 5, kurtosis="positive"), turn) > 0.1


def test_a_gaussian_part_changes_nothing():
    """Rotations are exactly invariant to I x I and I x Q2 parts: added noise of any covariance is not seen."""
    rng = np.random.default_rng(8)
    tensor = power4(mixed_sources(rng, ["laplace"] * 4, 5000) @ orthogonal(rng, 4).T)
    gaussian = tensor - traceless4(tensor, 4) + rng.standard_normal(packed_size4(4)) * 0
    np.testing.assert_allclose(rotate(tensor, 4), rotate(tensor + 7 * gaussian, 4), atol=1e-5)


def test_an_unknown_contrast_is_refused():
    with pytest.raises(InvalidParameter, match="kurtosis must be one of"):
        rotate(np.zeros(packed_size4(3)), 3, kurtosis="none")


def test_pure_noise_is_told_from_signal():
    rng = np.random.default_rng(9)
    n = 8
    noise = rng.standard_normal(packed_size4(n))
    assert clearance(tensor_values(noise, rotate(noise, n)), 1.0) < least_clearance(n)
    signal = power4(mixed_sources(rng, ["laplace"] * n, 20_000)) * 6 + noise
    assert clearance(tensor_values(signal, rotate(signal, n)), 1.0) > least_clearance(n)
    assert clearance(np.ones(n), 0.0) == math.inf


def test_a_polish_step_is_a_posterior_mean():
    scores = np.array([[0.0, 0.2], [-0.2, 0.0]])
    slopes, widths = np.array([-0.5, -0.5]), np.full((2, 2), 0.1)
    turned, left = polished(np.eye(2), scores, slopes, widths, 0.05)
    angle = 0.2 * 1.0 * 0.01 / (0.01 + 0.0025)
    np.testing.assert_allclose(turned, [[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    assert left[0, 1] == pytest.approx(0.1 * 0.05 / math.sqrt(0.0125))
    np.testing.assert_array_equal(first_widths(np.array([1e9, 1e9]), 1.0), np.full((2, 2), 0.02))
    np.testing.assert_array_equal(first_widths(np.array([-1.0, 0.5]), 1.0), np.full((2, 2), 0.3))


def test_infomax_restarts_at_a_lower_rate_when_weights_run_away():
    state = Infomax(3, 10, 1.0)
    state.step(np.full((3, 3), 1e4), np.zeros(3))
    assert state.rate == 0.5
    np.testing.assert_array_equal(state.unmixing, np.eye(3))
    assert state.done == 1


def test_infomax_slows_down_when_steps_undo_each_other():
    state = Infomax(3, 10, 1.0)
    for sign in (1, -1, 1):
        state.step(sign * 0.1 * np.eye(3), np.zeros(3))
    assert state.rate == pytest.approx(0.8**2)


def test_infomax_averages_the_second_half():
    state = Infomax(2, 4, 1.0)
    for _ in range(4):
        state.step(np.eye(2), np.zeros(2))
    np.testing.assert_allclose(state.result(), np.eye(2) * (4 + 5) / 2)


def test_gain_index():
    rng = np.random.default_rng(2)
    shuffle = np.eye(4)[[2, 0, 3, 1]] * [1, -2, 3, 0.5]
    assert gain_index(shuffle, np.eye(4)) == 0.0
    assert gain_index(np.ones((4, 4)), np.eye(4)) == pytest.approx(1.0)
    assert 0.25 < gain_index(orthogonal(rng, 20), np.eye(20)) < 0.38


def test_matched_correlations_ignore_order_and_sign():
    rng = np.random.default_rng(2)
    maps = rng.standard_normal((50, 3))
    np.testing.assert_allclose(matched_correlations(-maps[:, [2, 0, 1]] * 3 + 1, maps), np.ones(3))


def test_cosines_are_orthonormal_also_inside_a_mask():
    basis = cosine_basis((6, 5), (3, 2))
    np.testing.assert_allclose(basis.T @ basis, np.eye(6), atol=1e-12)
    mask = np.ones((6, 5), dtype=bool)
    mask[0, 0] = False
    inside = cosine_basis((6, 5), (3, 2), mask)
    assert inside.shape == (29, 6)
    np.testing.assert_allclose(inside.T @ inside, np.eye(6), atol=1e-12)
    with pytest.raises(InvalidParameter, match="n_cosines"):
        cosine_basis((6, 5), (7, 2))
    with pytest.raises(InvalidParameter, match="mask"):
        cosine_basis((6, 5), (3, 2), np.ones((5, 5), dtype=bool))


def test_simulated_sources_have_bursts_but_no_serial_correlation():
    series = garch(np.random.default_rng(0), 20_000, 8)
    assert np.abs(autocorrelation(series, 3)[1:]).max() < 0.06
    assert autocorrelation(series**2, 1)[1].mean() > 0.15
    assert series.var(axis=0) == pytest.approx(np.ones(8), abs=0.15)
    one, two = (simulated_fmri(np.random.default_rng(4), n_subjects=2) for _ in range(2))
    np.testing.assert_array_equal(one.arrays[1], two.arrays[1])
    with pytest.raises(InvalidParameter, match="kind must be one of"):
        simulated_fmri(np.random.default_rng(0), n_subjects=1, kind="none")
