"""How an allowance is split between stages, and when noise must win: from public quantities alone."""

from __future__ import annotations

import math

PCA_SHARE = 0.22
N_COVARIANCE_ROUNDS = 2
N_POLISH_ROUNDS = 4
_LOG, _COVARIANCE = 0.05, 0.10
# Strength below which, at 20 components, subject-level runs were lost (docs/analyses/joint_ica.md).
_LEAST_STRENGTH = 250.0


def subject_shares(n_subjects: int, mu: float, *, reduces: bool, polishes: bool) -> tuple[float, ...]:
    """Return shares of mu^2 in the order (pca), log, covariance rounds, tensor, polish rounds."""
    pca = PCA_SHARE if reduces else 0.0
    strength = n_subjects * mu * math.sqrt(1 - pca)
    tensor = 0.60 if strength < 330 else 0.50 if strength < 600 else 0.35
    left = 1 - _LOG - _COVARIANCE
    tensor = tensor if polishes else left
    polish = [(left - tensor) / N_POLISH_ROUNDS] * N_POLISH_ROUNDS if polishes else []
    rest = [_LOG, *[_COVARIANCE / N_COVARIANCE_ROUNDS] * N_COVARIANCE_ROUNDS, tensor, *polish]
    shares = [share * (1 - pca) for share in rest]
    return (pca, *shares) if reduces else tuple(shares)


def subject_infomax_shares(*, reduces: bool, n_iter: int) -> tuple[float, ...]:
    """Return shares of mu^2 in the order (pca), log, covariance rounds, one per infomax round."""
    pca = PCA_SHARE if reduces else 0.0
    before = [_LOG, *[_COVARIANCE / N_COVARIANCE_ROUNDS] * N_COVARIANCE_ROUNDS]
    rounds = [(1 - _LOG - _COVARIANCE) / n_iter] * n_iter
    shares = [share * (1 - pca) for share in (*before, *rounds)]
    return (pca, *shares) if reduces else tuple(shares)


def record_shares(*, reduces: bool, n_last: int = 1) -> tuple[float, ...]:
    """Return shares of mu^2 in the order (pca), whitening, fourth moment or infomax rounds."""
    pca, whitening = (0.30, 0.10) if reduces else (0.0, 0.15)
    rounds = [(1 - pca - whitening) / n_last] * n_last
    return (pca, whitening, *rounds) if reduces else (whitening, *rounds)


def tensor_dimensions(n_components: int) -> int:
    """Return the number of free entries of a traceless symmetric tensor of order four."""
    n = n_components
    return math.comb(n + 3, 4) - n * (n + 1) // 2


def too_noisy(noise_scale: float, share: float, n_components: int) -> bool:
    """Tell whether subject-level noise must win, from the tensor's noise and its share of what follows the PCA.

    Privacy noise over sampling noise of a d-dimensional mean grows as sqrt(d)/(M mu); the threshold measured at 20
    components, with one of four sites colluding, is carried to other sizes by that rule.
    """
    strength = 2 * math.sqrt(4 / 3) * math.sqrt(1 / share) / noise_scale
    return strength < _LEAST_STRENGTH * math.sqrt(tensor_dimensions(n_components) / tensor_dimensions(20))
