"""Claims about independent component analysis (dissertation, chapter 6; DP-djICA paper)."""

from __future__ import annotations

import math

import numpy as np

from dpcape.core.privacy.gaussian import epsilon_of, mu_of
from dpcape_papers.claims.claim import CONDITIONS, WRONG, Claim, Evidence, number
from dpcape_papers.published.ica import wishart_delta, wishart_row_delta


def _gradient() -> Evidence:
    rng = np.random.default_rng(4)  # evidence on synthetic data; protects nothing
    gradients = rng.standard_normal((2000, 5))
    gradients *= np.minimum(1, 1 / np.linalg.norm(gradients, axis=1, keepdims=True))
    found = 2 * float(np.max(np.linalg.norm(gradients, axis=1)))
    lines = (f"opposite clipped gradients (B = 1) differ by {number(found)}; the bound is 2",)
    return Evidence(lines, abs(found - 2) < 1e-9)


def _unit() -> Evidence:
    mus = [mu_of(epsilon, 1e-5) for epsilon in (0.1, 1.0)]
    persons = [epsilon_of(1e-5, 250 * mu) for mu in mus]
    lines = (
        f"250 time points per person: (0.1, 1e-5) per time point means epsilon {number(persons[0])} per person, and "
        f"(1, 1e-5) means {number(persons[1])}",
    )
    return Evidence(lines, persons[0] > 60 and persons[1] > 2000)


def _wishart() -> Evidence:
    lines, supports = [], True
    for epsilon in (0.1, 1.0):
        exact = -math.expm1(-epsilon)
        computed = wishart_delta(epsilon, 1, 1 / (2 * epsilon))
        lines.append(f"epsilon {epsilon:g}: delta {number(computed)}, 1 - exp(-epsilon) = {number(exact)}")
        supports &= computed >= exact - 1e-6
    later = wishart_delta(10.0, 1, 0.5)
    lines.append(f"the noise for epsilon 1 still has delta {number(later)} at epsilon 10")
    supports &= later >= -math.expm1(-1.0) - 1e-6
    simulated = _outside_cone(5, 1.0, squared_norm=1.0)
    lines.append(
        f"5 columns, epsilon 1, rows of norm 1: {100 * simulated:.1f}% of 4000 outputs prove that the record was absent"
    )
    paper = wishart_row_delta(1.0, 900)
    short = _outside_cone(2, 1.0, squared_norm=1 / 8)
    lines.append(
        f"rows of norm 1/(2 sqrt(D)), as in the paper: delta 1 - exp(-epsilon/(4 D)) = {number(paper)} at D = 900 and "
        f"epsilon 1; at D = 2 {number(wishart_row_delta(1.0, 2))}, simulated {number(short)}"
    )
    supports &= abs(short - wishart_row_delta(1.0, 2)) < 0.02
    repaired = wishart_delta(1.0, 33, 1.0)
    lines.append(f"with 33 extra degrees of freedom and scale 1: delta {number(repaired)} at epsilon 1")
    return Evidence(tuple(lines), supports and abs(simulated - 0.632) < 0.04 and repaired < 1e-5)


def _outside_cone(width: int, epsilon: float, squared_norm: float) -> float:
    """Return how often W - x x' is not positive semidefinite, with W drawn as in the DP-djICA paper."""
    rng = np.random.default_rng(5)  # evidence on synthetic data; protects nothing
    roots = rng.standard_normal((4000, width, width + 1)) / math.sqrt(2 * epsilon)
    drawn = roots @ roots.transpose(0, 2, 1)
    drawn[:, 0, 0] -= squared_norm
    return float(np.mean(np.linalg.eigvalsh(drawn)[:, 0] < 0))


def _laplace() -> Evidence:
    width, n_components = 16, 4
    rng = np.random.default_rng(6)  # evidence on synthetic data; protects nothing
    basis = np.linalg.qr(rng.standard_normal((width, n_components)))[0]
    x = rng.standard_normal((4000, width))
    x[0] = basis.sum(axis=1)  # the worst case
    x *= 0.5 / math.sqrt(width) / np.linalg.norm(x, axis=1, keepdims=True)
    found = max(float(np.abs(basis.T @ (first - second)).sum()) for first, second in zip(x, -x, strict=True))
    bound = math.sqrt(n_components / width)
    lines = (
        f"16 columns reduced to 4: L1 distance between two records up to {number(found)}, bound sqrt(r/d) = "
        f"{number(bound)}; the proof uses 1",
    )
    return Evidence(lines, abs(found - bound) < 1e-12)


CLAIMS = (
    Claim(
        "ica-gradient",
        "dissertation, section 6.2",
        "Clipped gradients have sensitivity 2B/N.",
        CONDITIONS,
        "True if one time point is replaced. Algorithm 6.1 as printed never adds the noise to the gradient.",
        _gradient,
        ("dissertation-6.2",),
    ),
    Claim(
        "ica-unit",
        "dissertation, chapter 6, and DP-djICA paper: individuals are protected",
        "The stated (epsilon, delta) protects a person.",
        WRONG,
        "A record is a time point. For a person with n time points mu is n times larger. dpcape offers unit='subject', "
        "and otherwise prints 'per time point'.",
        _unit,
        ("dissertation-6.2", "djica-1"),
    ),
    Claim(
        "wishart",
        "DP-djICA paper, algorithms 1 and 2 (Wishart noise)",
        "PCA with Wishart noise of d + 1 degrees of freedom is (epsilon, 0)-DP.",
        WRONG,
        "delta is at least 1 - exp(-epsilon |x|^2) at every epsilon, because an output that is not at least x x' (in "
        "the positive semidefinite order) proves that x was absent. For the paper's rows, clipped to norm "
        "1/(2 sqrt(D)), that is 1 - exp(-epsilon/(4 D)): small, but not 0. The authors of the result retracted it "
        "(Sarwate 2017). More degrees of freedom give (epsilon, delta), but Gaussian noise can be smaller.",
        _wishart,
        ("djica-1", "djica-2"),
    ),
    Claim(
        "djica-laplace",
        "DP-djICA paper, theorem 1",
        "J rounds with Laplace noise cost J epsilon.",
        CONDITIONS,
        "True for one column, if clipping is public, |W|_1 is the largest column sum, the noisy Z is used throughout, "
        "and the PCA's budget is added. For a person the cost is n_i J epsilon. |Y| = |X| in the proof is false, but "
        "not needed.",
        _laplace,
        ("djica-1",),
    ),
)
