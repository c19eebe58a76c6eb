"""Claims about sensitivities of moments (dissertation, chapters 4, 5 and 7; capeCCA paper, poster)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np

from dpcape.core.arrays import FloatArray
from dpcape.core.privacy.gaussian import delta_of, epsilon_of, mu_of
from dpcape_papers.claims.claim import CONDITIONS, WRONG, Claim, Evidence, number
from dpcape_papers.claims.search import directions, largest_distance
from dpcape_papers.published.cape import theorem_scale, true_kappa


def _outer(x: FloatArray) -> FloatArray:
    return np.outer(x, x)


def _second_moment() -> Evidence:
    replaced = largest_distance(_outer, directions(4))
    removed = max(float(np.linalg.norm(_outer(x))) for x in directions(4))
    true = delta_of(1.0, math.sqrt(2) * mu_of(1.0, 1e-5))
    lines = (
        f"records of norm 1: replacing one changes N times the moment by {number(replaced)}, removing one by "
        f"{number(removed)}",
        f"calibrated exactly for 1/N: claimed (1, 1e-5), true delta {number(true)}, true epsilon "
        f"{number(epsilon_of(1e-5, math.sqrt(2) * mu_of(1.0, 1e-5)))}",
    )
    return Evidence(lines, abs(replaced - math.sqrt(2)) < 1e-9 and abs(removed - 1) < 1e-9 and true > 1e-5)


def _mixture_second() -> Evidence:
    candidates = directions(3)
    spectral = max(
        float(np.linalg.norm(_outer(a) - _outer(b), 2)) for a, b in itertools.combinations(candidates[::9], 2)
    )
    frobenius = largest_distance(_outer, candidates)
    lines = (f"spectral norm of the change up to {number(spectral)}, Frobenius norm up to {number(frobenius)}",)
    return Evidence(lines, spectral <= 1 + 1e-9 and abs(frobenius - math.sqrt(2)) < 1e-9)


def _asymmetric_words() -> Evidence:
    rng = np.random.default_rng(3)  # evidence on synthetic data; protects nothing
    size = 6
    noise = np.triu(10 * rng.standard_normal((size, size)))
    noise = noise + np.triu(noise, 1).T
    moment = np.zeros((size, size))
    moment[1, 4] = 1.0  # the first word was 1, the second 4
    released = moment + noise
    left = float(np.max(np.abs((released - released.T) - (moment - moment.T))))
    lines = (
        "noise of scale 10 on a moment of size 1: the difference of mirrored entries is released "
        + ("exactly" if left < 1e-12 else f"with an error of {number(left)}"),
    )
    return Evidence(lines, left < 1e-12)


def _third(variance: float, width: int) -> Callable[[FloatArray], FloatArray]:
    identity = np.eye(width)

    def contribution(t: FloatArray) -> FloatArray:
        mixed = [np.einsum(f"i,jk->{order}", t, identity) for order in ("ijk", "jik", "jki")]
        return np.asarray(np.einsum("i,j,k->ijk", t, t, t) - variance * sum(mixed))

    return contribution


def _mixture_third() -> Evidence:
    lines, supports = [], True
    for width, variance in ((3, 0.1), (10, 0.05)):
        found = largest_distance(_third(variance, width), directions(width, 60))
        exact = 2 * math.sqrt(1 - 6 * variance + 3 * (width + 2) * variance**2)
        printed = 2 + 6 * width * variance
        lines.append(
            f"{width} columns, variance {variance:g}: printed {number(printed)}, exact {number(exact)}, largest found "
            f"{number(found)}"
        )
        supports &= found <= exact * (1 + 1e-9) and abs(found - exact) < 1e-6 and printed > exact
    return Evidence(tuple(lines), supports)


def _joint_release() -> Evidence:
    """Compute the real epsilon of theorem 5.1's noise for ten sites, three of them colluding."""
    scale = theorem_scale(1.0, 1e-5, n_sites=10, n_colluding=3)
    single = math.sqrt(true_kappa(10, 3)) * math.sqrt(2) / scale
    lines = (
        f"10 sites, 3 colluding, each moment with the noise for which theorem 3.1 claims (1, 1e-5): both together have "
        f"epsilon {number(epsilon_of(2e-5, math.hypot(single, single)))} at delta 2e-5; claimed 2",
    )
    return Evidence(lines, epsilon_of(2e-5, math.hypot(single, single)) > 2)


def _reused_theorem() -> Evidence:
    lines, supports = [], True
    for name, factor in (("second moment", math.sqrt(2)), ("clipped gradient", 2.0)):
        scale = theorem_scale(1.0, 1e-5, n_sites=10, n_colluding=3)
        epsilon = epsilon_of(1e-5, factor * math.sqrt(true_kappa(10, 3)) / scale)
        lines.append(
            f"{name}, true sensitivity {number(factor)}/N_s: claimed (1, 1e-5), true epsilon {number(epsilon)}"
        )
        supports &= epsilon > 1
    return Evidence(tuple(lines), supports)


CLAIMS = (
    Claim(
        "second-moment",
        "dissertation, sections 4.2 and 7.2 (theorems 4.1 and 7.1); capeCCA paper, section 2 and theorem 1",
        "One person changes the second moment by 1/N.",
        WRONG,
        "It is sqrt(2)/N if a person is replaced, the neighbouring relation that the papers use, and 1/N if a person "
        "is removed. The poster has it right.",
        _second_moment,
        ("dissertation-4.1", "dissertation-7.1", "capecca-2", "poster-1"),
    ),
    Claim(
        "mixture-second-moment",
        "dissertation, section 5.2 (mixtures)",
        "One person changes M2 by 1/N.",
        WRONG,
        "It is sqrt(2)/N: noise is added to the entries, so the Frobenius norm matters, not the spectral norm.",
        _mixture_second,
        ("dissertation-5.1",),
    ),
    Claim(
        "topic-moments",
        "dissertation, section 5.2 (topics)",
        "Symmetric noise at sensitivity sqrt(2)/N protects M2 and M3 of the first three words.",
        WRONG,
        "The moments are not symmetric, so differences of mirrored entries are released without noise: nothing is "
        "protected. Symmetric moments have sensitivity sqrt(2)/N; dpcape releases those.",
        _asymmetric_words,
        ("dissertation-5.2",),
    ),
    Claim(
        "mixture-third-moment",
        "dissertation, section 5.2 (mixtures)",
        "One person changes M3 by (2 + 6 D sigma^2)/N.",
        CONDITIONS,
        "True but loose, and sigma^2 must be public. The exact value is (2/N) sqrt(1 - 6 s + 3 (D+2) s^2), s = "
        "sigma^2.",
        _mixture_third,
        ("dissertation-5.1",),
    ),
    Claim(
        "tensor-theorem",
        "dissertation, theorem 5.1",
        "M2 and M3 together are (epsilon1 + epsilon2, delta1 + delta2)-DP by the formula of theorem 3.1.",
        WRONG,
        "The correct total is mu^2 = mu_2^2 + mu_3^2, each with its own sensitivity and kappa.",
        _joint_release,
        ("dissertation-5.3",),
    ),
    Claim(
        "reused-theorem",
        "dissertation, theorems 4.1, 5.1, 6.1 and 7.1, and section 8.3.2 (capeFM)",
        "The privacy of every analysis follows from theorem 3.1: eqs. 3.3 and 3.4 apply unchanged.",
        WRONG,
        "Both equations are wrong (see cape-theorem), and they assume the sensitivity 1/N_s, which must be replaced by "
        "that of the statistic.",
        _reused_theorem,
        ("dissertation-4.1", "dissertation-7.1"),
    ),
)
