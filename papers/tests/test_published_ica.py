"""Claims of the papers against what holds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpcape.core.errors import InvalidParameter
from dpcape.core.privacy.gaussian import epsilon_of
from dpcape.metrics import gain_index
from dpcape_papers.published import ica as published
from dpcape_papers.published.ica import RETRACTED, cape_djica, djica, dp_djica, moments_claim, wishart_delta

SETTING = {"epsilon_round": 0.5, "delta_round": 1e-2, "n_sites": 4, "n_colluding": 1, "delta": 1e-5}


@pytest.mark.parametrize(("n_iter", "output", "seen"), [(100, 11.733230, 17.465055), (1000, 55.794291, 89.425623)])
def test_verified_figures_of_chapter_six(n_iter, output, seen):
    found = cape_djica(n_iter=n_iter, n_records=256_000, n_timepoints=250, **SETTING)
    assert found.verified_output_only == pytest.approx(output, abs=1e-5)
    assert found.verified_epsilon == pytest.approx(seen, abs=1e-5)
    assert (found.claimed_epsilon, found.claimed_delta) == pytest.approx((n_iter, 2 * n_iter * 1e-2))
    assert found.verified_subject > 250 * found.verified_epsilon


def test_the_papers_moments_accountant_is_far_too_small_or_has_no_root():
    # The dissertation's own scale: sensitivity 0.01/256,000, noise for (0.5, 0.01) per round.
    sensitivity = 0.01 / 256_000
    scale = sensitivity * math.sqrt(2 * math.log(1.25 / 1e-2)) / 0.5
    claimed, true = moments_claim(sensitivity, scale, 1, 1e-5), epsilon_of(1e-5, sensitivity / scale)
    assert claimed == pytest.approx(0.0136, abs=5e-5)
    assert true == pytest.approx(0.572, abs=5e-4)
    assert true / claimed > 40
    assert math.isnan(moments_claim(sensitivity, scale, 100, 1e-5))


@pytest.mark.parametrize(
    ("epsilon", "extra", "scale", "delta"),
    [
        (1.0, 1, 0.5, 6.321206e-01),
        (1.0, 32, 1.0, 1.211842e-05),
        (1.0, 33, 1.0, 9.363284e-06),
        (0.5, 65, 1.0, 9.519680e-06),
    ],
)
def test_wishart_vectors(epsilon, extra, scale, delta):
    assert wishart_delta(epsilon, extra, scale) == pytest.approx(delta, rel=1e-5)


def test_the_published_wishart_step_fails_at_every_epsilon():
    for epsilon in (1.0, 5.0, 50.0):
        assert wishart_delta(epsilon, 1, 0.5) == pytest.approx(1 - math.exp(-1), rel=1e-6)


def test_dp_djica_runs_and_says_it_has_no_guarantee():
    rng = np.random.default_rng(0)
    mixing = np.linalg.qr(rng.standard_normal((6, 2)))[0]
    sites = [rng.laplace(size=(400, 2)) @ mixing.T for _ in range(3)]
    found = dp_djica(sites, 2, epsilon_pca=1.0, epsilon_round=0.1, n_iter=20, rng=rng)
    assert found.verified == RETRACTED == "no guarantee: retracted"
    assert found.claimed_epsilon == pytest.approx(3.0)
    assert found.verified_iterations == pytest.approx(2.0)
    assert np.isfinite(found.unmixing).all()
    assert found.unmixing.shape == (2, 6)


def test_djica_finds_sources():
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    sites = [rng.laplace(scale=math.sqrt(0.5), size=(3000, 3)) @ turn.T for _ in range(3)]
    assert gain_index(djica(sites, n_iter=200, learning_rate=1.0), turn) < 0.05


def test_a_round_as_printed_adds_up_the_gradients_of_all_sites_and_records() -> None:
    """Line 7 and 12 of algorithm 3, one round from W = I without noise to speak of."""
    rng = np.random.default_rng(0)
    sites = [rng.normal(size=(n, 3)) for n in (5, 8)]
    found = published._gradient_ascent(sites, 1, 1e-4, 0.0, epsilon=None, rng=None, summed=True)
    wanted = np.eye(3)
    for X in sites:
        Y = 1 / (1 + np.exp(-X))
        wanted = wanted + 1e-4 * (np.eye(3) + (1 - 2 * Y).T @ X)
    assert found == pytest.approx(wanted, abs=1e-12)
    mean = published._gradient_ascent(sites, 1, 1e-4, 0.0, epsilon=None, rng=None)
    assert not np.allclose(mean, wanted, atol=1e-5)


def test_the_local_rank_is_at_least_the_final_one_and_cut_by_the_data() -> None:
    rng = np.random.default_rng(1)
    thin = rng.normal(size=(4, 6))  # of rank 4
    full = rng.normal(size=(40, 6))
    noise = {"epsilon": 1e6, "rng": np.random.default_rng(2)}
    assert published.private_global_pca([thin, full], 3, local_rank=5, **noise).shape == (6, 3)
    # Nearly without noise the leading directions of all records are found, if the sites keep all of theirs.
    both = np.vstack([thin, full])
    wide = published.private_global_pca([thin, full], 2, local_rank=6, **noise)
    leading = np.linalg.svd(both)[2][:2]
    assert np.linalg.svd(leading @ wide, compute_uv=False).min() > 0.999
    with pytest.raises(InvalidParameter, match="local_rank must be at least"):
        published.private_global_pca([thin], 3, local_rank=2, **noise)
    with pytest.raises(InvalidParameter, match="step must be"):
        published.dp_djica(
            [full], 2, epsilon_pca=1.0, epsilon_round=1.0, n_iter=1, rng=np.random.default_rng(0), step="total"
        )
