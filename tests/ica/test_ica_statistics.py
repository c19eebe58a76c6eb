"""Laws of the statistics behind joint ICA: no record and no hostile matrix moves a total by more than said."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcape import subjects
from dpcape.core.errors import InvalidParameter
from dpcape.core.messages import decode_public, public_arrays
from dpcape.core.statistic import build
from dpcape.statistics.fourth_moments import fourth_moment, reduced_second_moment
from dpcape.statistics.infomax_scores import infomax_scores
from dpcape.statistics.subject_moments import (
    subject_covariance,
    subject_log_covariance,
    subject_projector,
    subject_tensor,
)
from dpcape.statistics.subject_scores import subject_infomax, subject_polish

WIDTH, FEW = 6, 3
BOUND = 2.0


def held(arrays, unit):
    return subjects(
        arrays, bound=BOUND, unit=unit, rows_per_subject=max(map(len, arrays)), n_features=arrays[0].shape[1]
    )


def statistics_of(unit, rng, scale=1.0):
    """One of each statistic, with public matrices drawn at random: a statistic may not trust them."""
    facts = held([np.ones((9, WIDTH))], unit).facts()
    projection = rng.standard_normal((WIDTH, FEW)) * scale
    inner, turn = rng.standard_normal((2, FEW, FEW)) * scale
    bias = rng.standard_normal(FEW)
    if unit == "record":
        return [
            reduced_second_moment(facts, projection, clip=1.3),
            fourth_moment(facts, projection, clip=1.2),
            infomax_scores(
                facts, projection, unmixing=np.linalg.qr(turn)[0] * scale, bias=bias, clip=1.5, bias_clip=0.7
            ),
        ]
    return [
        subject_projector(facts, projection, n_components=2),
        subject_log_covariance(facts, projection, clip=3.0),
        subject_covariance(facts, projection, inner, clip=0.8),
        subject_tensor(facts, projection, inner),
        subject_polish(facts, projection, inner, rotation=turn),
        subject_infomax(facts, projection, inner, unmixing=turn, bias=bias, clip=0.6),
    ]


def one_unit(rng, unit, kind):
    """A time point, or a subject, of some nasty kind."""
    n_rows = 1 if unit == "record" else int(rng.integers(1, 12))
    if kind == "zero":
        return np.zeros((n_rows, WIDTH))
    if kind == "constant":
        return np.ones((n_rows, WIDTH)) * rng.standard_normal(WIDTH)
    if kind == "rank one":
        return np.outer(rng.standard_normal(n_rows), rng.standard_normal(WIDTH))
    if kind == "spike":
        rows = np.zeros((n_rows, WIDTH))
        rows[0, rng.integers(WIDTH)] = 1e300
        return rows
    if kind == "tiny":
        return rng.standard_normal((n_rows, WIDTH)) * 1e-200
    return rng.standard_normal((n_rows, WIDTH)) * 10.0 ** rng.integers(-3, 4)


KINDS = ["zero", "constant", "rank one", "spike", "tiny", "ordinary", "ordinary", "ordinary"]


@pytest.mark.parametrize("unit", ["record", "subject"])
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), kinds=st.tuples(st.sampled_from(KINDS), st.sampled_from(KINDS)))
def test_two_units_are_never_further_apart_than_the_diameter(unit, seed, kinds):
    rng = np.random.default_rng(seed)
    first, second = (one_unit(rng, unit, kind) for kind in kinds)
    for statistic in statistics_of(unit, rng, scale=10.0 ** rng.integers(-4, 4)):
        totals = [statistic.total(held([array], unit)) for array in (first, second)]
        assert all(np.isfinite(total).all() and total.shape == (statistic.size,) for total in totals)
        assert np.linalg.norm(totals[0] - totals[1]) <= statistic.sensitivity(1)
        assert all(np.linalg.norm(total) <= statistic.radius * (1 + 1e-12) for total in totals), statistic


@pytest.mark.parametrize("unit", ["record", "subject"])
def test_totals_add_over_any_split_and_order(unit):
    rng = np.random.default_rng(3)
    arrays = [rng.standard_normal((int(n), WIDTH)) for n in rng.integers(2, 9, 7)]
    for statistic in statistics_of(unit, rng):
        whole = statistic.total(held(arrays, unit))
        parts = statistic.total(held(arrays[:3], unit)) + statistic.total(held(arrays[3:], unit))
        turned = statistic.total(held(arrays[::-1], unit))
        np.testing.assert_allclose(parts, whole, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(turned, whole, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("unit", ["record", "subject"])
def test_a_site_rebuilds_the_same_statistic_from_the_message(unit):
    rng = np.random.default_rng(4)
    records = held([rng.standard_normal((9, WIDTH))], unit)
    for statistic in statistics_of(unit, rng):
        rebuilt = build(statistic.name, records.facts(), decode_public(public_arrays(statistic.public)))
        assert (rebuilt.size, rebuilt.diameter) == (statistic.size, statistic.diameter)
        np.testing.assert_array_equal(rebuilt.total(records), statistic.total(records))


def test_the_diameters_are_attained():
    """A smaller diameter would be a false guarantee: each is reached, or nearly, by a pair of units."""
    rows, eye = np.eye(WIDTH) * BOUND, np.eye(WIDTH)
    facts = held([rows], "record").facts()
    for statistic in (
        reduced_second_moment(facts, eye, clip=1.3),
        fourth_moment(facts, eye, clip=1.2),
    ):
        apart = statistic.total(held([rows[:1]], "record")) - statistic.total(held([rows[1:2]], "record"))
        assert np.linalg.norm(apart) > 0.999 * statistic.diameter
    projector = subject_projector(held([rows], "subject").facts(), eye, n_components=2)
    signs = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1.0]])
    first, second = np.zeros((4, WIDTH)), np.zeros((4, WIDTH))
    first[:, :2], second[:, 2:4] = signs, signs
    apart = projector.total(held([first], "subject")) - projector.total(held([second], "subject"))
    assert np.linalg.norm(apart) > 0.999 * projector.diameter == pytest.approx(0.999 * 2.0)


def test_log_covariance_reaches_both_ends_of_its_ball():
    facts = held([np.ones((9, 2))], "subject").facts()
    statistic = subject_log_covariance(facts, np.eye(2), clip=1.0)
    flat = np.array([[1.0, 1e-2], [-1.0, 1e-2], [1.0, -1e-2], [-1.0, -1e-2]])
    apart = statistic.total(held([flat], "subject")) - statistic.total(held([flat[:, ::-1]], "subject"))
    assert np.linalg.norm(apart) > 0.999 * statistic.diameter


def test_ghost_clipping_holds_where_the_identity_cancels():
    """I + y z' is singular where y.z = -1; the worst unmixing sites accept points its large direction there."""
    facts = held([np.ones((9, FEW))], "record").facts()
    root = 1.5434046384182084  # z tanh(z/2) = 1
    for seed in range(200):
        rng = np.random.default_rng(seed)
        source = np.zeros(FEW)
        source[0] = root
        other = np.linalg.qr(rng.standard_normal((FEW, FEW)))[0]
        unmixing = np.diag([150.0, 1.0, 1.0]) @ other
        statistic = infomax_scores(facts, np.eye(FEW), unmixing=unmixing, bias=np.zeros(FEW), clip=1e-3, bias_clip=1e-3)
        total = statistic.total(held([np.linalg.solve(unmixing, source)[None]], "record"))
        assert np.linalg.norm(total[: FEW**2]) <= 1e-3 + statistic.rounding(1)
        assert statistic.rounding(1) < 1e-6 * statistic.radius


def test_a_skewed_unmixing_is_refused():
    facts = held([np.ones((9, FEW))], "record").facts()
    refused = {"singular value": np.diag([1.0, 1.0, 1e-3]), "norm of at least": np.zeros((FEW, FEW))}
    for why, unmixing in refused.items():
        with pytest.raises(InvalidParameter, match=why):
            infomax_scores(facts, np.eye(FEW), unmixing=unmixing, bias=np.zeros(FEW), clip=1.0, bias_clip=1.0)


def test_reduced_series_are_computed_once_per_projection():
    rng = np.random.default_rng(1)
    records = held([rng.standard_normal((9, WIDTH)) for _ in range(3)], "subject")
    read = []

    def computed(series):
        read.append(series.shape)
        return series @ np.eye(WIDTH, FEW)

    def kept(key):
        return [tile.series.kept(key, computed) for tile, _ in records.tiles()]

    first = kept(b"first")
    assert all(mine is again for mine, again in zip(first, kept(b"first"), strict=True))
    assert len(read) == 3
    kept(b"second")
    assert len(read) == 6
    np.testing.assert_array_equal(kept(b"first")[0], first[0])


def test_the_tensor_is_what_the_definition_says():
    """Against the plain sum over time and lags, symmetrised over all 24 permutations."""
    from itertools import permutations

    from dpcape.statistics.packing import unpack4

    rng = np.random.default_rng(5)
    series = rng.standard_normal((30, FEW))
    records = held([series / 10], "subject")
    statistic = subject_tensor(records.facts(), np.eye(FEW), np.eye(FEW))
    moved = series - series.mean(axis=0)
    values, vectors = np.linalg.eigh(moved.T @ moved / 30)
    x = moved @ (vectors / np.sqrt(values)) @ vectors.T
    x *= np.minimum(1, 1.3 * math.sqrt(FEW) / np.linalg.norm(x, axis=1))[:, None]
    outer = np.einsum("ti,tj->tij", x, x)
    tensor = np.zeros((FEW,) * 4)
    for t in range(30):
        tensor += 0.6 * np.multiply.outer(outer[t], outer[t])
        for lag in range(1, t + 1):
            tensor += 0.7 ** (lag - 1) * np.multiply.outer(outer[t], outer[t - lag])
    tensor = sum(np.transpose(tensor, order) for order in permutations(range(4))) / 24
    trace = np.einsum("iikl->kl", tensor)
    eye = np.eye(FEW)
    spread = sum(np.transpose(np.multiply.outer(eye, trace), order) for order in permutations(range(4))) / 24
    isotropic = sum(np.transpose(np.multiply.outer(eye, eye), order) for order in permutations(range(4))) / 24
    n = FEW
    traceless = tensor - 6 / (n + 4) * spread + 3 / ((n + 2) * (n + 4)) * np.trace(trace) * isotropic
    assert np.abs(np.einsum("iikl->kl", traceless)).max() < 1e-10 * np.abs(tensor).max()
    expected = traceless / np.linalg.norm(traceless)
    rows, columns = np.triu_indices(FEW)
    pairs = unpack4(statistic.total(records), FEW)
    np.testing.assert_allclose(pairs, expected[rows, columns][:, rows, columns], atol=1e-9)


def test_meaningless_matrices_are_refused():
    facts = held([np.ones((9, WIDTH))], "record").facts()
    with pytest.raises(InvalidParameter, match="6 x any"):
        fourth_moment(facts, np.ones((5, 2)), clip=1.0)
    with pytest.raises(InvalidParameter, match="finite"):
        fourth_moment(facts, np.full((6, 2), np.nan), clip=1.0)
    with pytest.raises(InvalidParameter, match="clip must be"):
        reduced_second_moment(facts, np.ones((6, 2)), clip=0.0)
    with pytest.raises(InvalidParameter, match="1e\\+06"):
        infomax_scores(facts, np.eye(6), unmixing=np.eye(6) * 1e9, bias=np.zeros(6), clip=1.0, bias_clip=1.0)
    with pytest.raises(InvalidParameter, match="unit"):
        subject_tensor(facts, np.eye(6), np.eye(6))


def test_short_series_are_refused_at_the_site():
    facts = held([np.ones((3, WIDTH))], "subject").facts()
    with pytest.raises(InvalidParameter, match=r"time points .*3 components"):
        subject_tensor(facts, np.eye(WIDTH)[:, :3], np.eye(3))
