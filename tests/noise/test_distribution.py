"""The draws have the stated law. False alarms: ALPHA = 1e-6 per test; seeds are fixed."""

from __future__ import annotations

import numpy as np
import pytest

from dpcape.core.noise import CUTOFF, OsNoise, Replay

SCALES = [1.0, 1.5, 7.3, 31.7, 33.3, 1000.0, 2.0**24, 2.0**30, 1.97 * 2**30, 2.0**50]
N = 100_000


@pytest.mark.parametrize("scale", SCALES)
def test_draws_are_gaussian(distribution, scale):
    draws = Replay(1).child("law").integer_gaussian(scale, N)
    assert distribution.gaussian_p_value(draws, scale) > distribution.ALPHA


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("factor", [0.9, 1.1])
@pytest.mark.parametrize("helper", ["variance_p_value", "gaussian_p_value"])
def test_a_wrong_scale_is_noticed(distribution, scale, factor, helper):
    """Too little and too much noise: both are rejected by the helpers that accept the right amount."""
    draws = Replay(2).child("law").integer_gaussian(scale, N)
    assert getattr(distribution, helper)(draws, scale) > distribution.ALPHA
    assert getattr(distribution, helper)(draws, scale / factor) < distribution.ALPHA


@pytest.mark.parametrize(("scale", "helper"), [(1.5, "counts_p_value"), (2.0**30, "shape_p_value")])
@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_shape_tests_have_teeth_of_their_own(distribution, scale, helper, factor):
    draws = Replay(3).integer_gaussian(scale, N)
    assert getattr(distribution, helper)(draws, scale) > distribution.ALPHA
    assert getattr(distribution, helper)(draws, scale * factor) < distribution.ALPHA


def test_the_helpers_reject_other_laws_of_the_same_variance(distribution):
    words = np.frombuffer(Replay(4).token(16 * N), dtype=np.uint32).reshape(4, N).astype(np.float64)
    uniform = (words[0] / 2.0**32 - 0.5) * np.sqrt(12.0)
    laplace = np.log((words[1] + 1.0) / (words[2] + 1.0)) / np.sqrt(2.0)
    for law in (uniform, laplace):
        draws = np.rint(law * 2.0**30).astype(np.int64)
        assert distribution.shape_p_value(draws, 2.0**30) < distribution.ALPHA
        small = np.rint(law * 7.0).astype(np.int64)
        assert distribution.counts_p_value(small, float(np.std(small))) < distribution.ALPHA


def test_a_shifted_mean_is_noticed(distribution):
    draws = Replay(5).integer_gaussian(2.0**30, N)
    assert distribution.mean_p_value(draws + 2**25, 2.0**30) < distribution.ALPHA


def test_sites_purposes_and_calls_are_independent(distribution):
    root = Replay(6)
    sources = [root.child(site, release) for site in ("lyon", "oslo", "lima") for release in (0, 1)]
    samples = [source.integer_gaussian(2.0**30, N) for source in sources]
    samples += [sources[0].integer_gaussian(2.0**30, N), root.integer_gaussian(2.0**30, N)]
    samples += [OsNoise().integer_gaussian(2.0**30, N) for _ in range(2)]
    for i, first in enumerate(samples):
        for second in samples[:i]:
            assert distribution.correlation_p_value(first, second) > distribution.ALPHA
            assert distribution.correlation_p_value(first**2 // 2**30, second**2 // 2**30) > distribution.ALPHA
    mixed = samples[0] + samples[1] // 20  # correlation 0.05
    assert distribution.correlation_p_value(mixed, samples[1]) < distribution.ALPHA


def test_neighbouring_draws_are_independent(distribution):
    draws = Replay(7).integer_gaussian(2.0**30, 2 * N)
    for lag in (1, 2, 7):
        assert distribution.correlation_p_value(draws[lag:], draws[:-lag]) > distribution.ALPHA


@pytest.mark.parametrize("scale", [2.0**24, 2.0**30, 1.3 * 2**45])
def test_low_bits_are_uniform(distribution, scale):
    draws = Replay(8).integer_gaussian(scale, N)
    assert distribution.low_bits_p_value(draws, 8) > distribution.ALPHA
    tail = draws[np.abs(draws) > 2.5 * scale]
    assert tail.size > 1000
    assert distribution.low_bits_p_value(tail, 4) > distribution.ALPHA
    # Teeth: noise that skips every second grid point in the tails, as a 53-bit inverse CDF does.
    assert distribution.low_bits_p_value(tail & ~1, 4) < distribution.ALPHA


def test_every_integer_near_the_centre_and_far_out_is_reached():
    draws = Replay(9).integer_gaussian(30.0, 1_000_000)
    reached = set(np.unique(draws).tolist())
    assert set(range(-105, 106)) <= reached  # the rarest has an expected count of 29
    assert np.abs(draws).max() <= CUTOFF * 30.0


def test_signs_are_balanced(distribution):
    draws = Replay(10).integer_gaussian(1.2, N)
    positive, negative = np.count_nonzero(draws > 0), np.count_nonzero(draws < 0)
    # Under symmetry the difference has variance positive + negative; 5 sd is exceeded with probability 6e-7.
    assert abs(positive - negative) < 5.0 * np.sqrt(positive + negative)


@pytest.mark.slow
@pytest.mark.parametrize("scale", [7.3, 2.0**24, 1.97 * 2**30])
def test_many_draws_are_gaussian(distribution, scale):
    """Twenty million draws: a scale wrong by one part in a thousand would be noticed."""
    draws = Replay(11).integer_gaussian(scale, 20_000_000)
    assert distribution.gaussian_p_value(draws, scale) > distribution.ALPHA
    assert distribution.variance_p_value(draws, scale * 1.001) < distribution.ALPHA
    assert distribution.variance_p_value(draws, scale * 0.999) < distribution.ALPHA
