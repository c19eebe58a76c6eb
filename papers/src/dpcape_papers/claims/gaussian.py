"""Claims about the Gaussian mechanism, composition and arithmetic."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr, ndtri

from dpcape.core.privacy.gaussian import compose, delta_of, epsilon_of, mu_of
from dpcape_papers.claims.claim import CONDITIONS, WRONG, Claim, Evidence, number
from dpcape_papers.published.composition import renyi_epsilon
from dpcape_papers.published.ica import moments_claim
from dpcape_papers.published.regression import classical_multiplier


def _classical() -> Evidence:
    cases = ((10.0, 1e-5), (30.0, 1e-5), (8.0, 1e-2))
    deltas = [delta_of(e, 1 / classical_multiplier(e, d)) for e, d in cases]
    edge = _first_failure(1e-5)
    lines = (
        *(f"claimed ({e:g}, {d:g}): true delta {number(t)}" for (e, d), t in zip(cases, deltas, strict=True)),
        f"at delta 1e-5 it first fails at epsilon {number(edge)}",
        f"at (1, 1e-5) its noise is {number(classical_multiplier(1.0, 1e-5))} per unit of sensitivity, where "
        f"{number(1 / mu_of(1.0, 1e-5))} is enough",
    )
    holds_below = all(delta_of(e, 1 / classical_multiplier(e, 1e-5)) <= 1e-5 for e in (0.1, 0.5, 0.999))
    return Evidence(lines, holds_below and all(t > d for (_, d), t in zip(cases, deltas, strict=True)))


def _first_failure(delta: float) -> float:
    low, high = 1.0, 30.0
    for _ in range(60):
        middle = (low + high) / 2
        fails = delta_of(middle, 1 / classical_multiplier(middle, delta)) > delta
        low, high = (low, middle) if fails else (middle, high)
    return high


def _basic_composition() -> Evidence:
    per_release = 1 / classical_multiplier(0.5, 1e-2)
    mu = compose([per_release] * 200)
    lines = (
        "100 rounds of two releases at (0.5, 0.01): basic composition gives (100, 2)",
        f"the same noise, composed exactly: mu {number(mu)}, epsilon {number(epsilon_of(1e-5, mu))} at delta 1e-5 "
        "against someone who sees only the results",
    )
    return Evidence(lines, epsilon_of(1e-5, mu) < 100)


def _renyi() -> Evidence:
    sensitivity, scale = 3.9e-8, 2.4e-7
    vacuous = min(a / (2 * scale**2) + math.log(1e5) / (a - 1) for a in (1.0 + 10.0**k for k in range(-10, 2)))
    mu = sensitivity / scale
    best = min(a * mu**2 / 2 + math.log(1e5) / (a - 1) for a in np.geomspace(1.001, 1e4, 20_000))
    lines = (
        f"its own experiment, one release (noise 2.4e-7), with sensitivity 1 as printed: epsilon {number(vacuous)}",
        f"with the true sensitivity 3.9e-8: {number(renyi_epsilon(mu, 1, 1e-5))} at the order of eq. 6.10, "
        f"{number(best)} at the best order; exact epsilon {number(epsilon_of(1e-5, mu))}",
    )
    agree = abs(renyi_epsilon(mu, 1, 1e-5) / best - 1) < 1e-5
    return Evidence(lines, vacuous > 1e12 and agree and epsilon_of(1e-5, mu) < best < 1)


def _moments_accountant() -> Evidence:
    sensitivity, scale = 3.9e-8, 2.4e-7
    printed, true = moments_claim(sensitivity, scale, 1, 1e-5), epsilon_of(1e-5, sensitivity / scale)
    at_zero = 1.3 / math.sqrt(0.7)
    t, ratio = 3.0, 0.7 / 1.3
    correct = math.exp(t * (t + 1) * ratio**2 / 2)
    losses = np.random.default_rng(0).normal(ratio**2 / 2, ratio, 400_000)  # protects nothing
    lines = (
        f"its own experiment, one release: printed epsilon {number(printed)}, true {number(true)}",
        f"a moment generating function must be 1 at t = 0; the printed one is {number(at_zero)} (sensitivity 0.7, "
        "noise 1.3)",
        f"at t = 3: correct value {number(correct)}, mean of 400,000 draws "
        f"{number(float(np.mean(np.exp(t * losses))))}",
    )
    return Evidence(lines, printed < true / 20 and abs(at_zero - 1) > 0.1)


def _floating_point() -> Evidence:
    """Return how many outputs of textbook noise (inverse normal CDF, 53 bits) on the value 0 can also come from 1/3."""
    numerators = np.random.default_rng(1).integers(1, 2**53, 4000)  # protects nothing
    outputs = ndtri(numerators / 2.0**53)
    nearest = np.rint(ndtr(outputs - 1 / 3) * 2.0**53)
    candidates = np.clip(nearest[:, None] + np.arange(-64, 65), 1, 2**53 - 1)
    reached = (ndtri(candidates / 2.0**53) + 1 / 3 == outputs[:, None]).any(axis=1)
    share = float(np.mean(reached))
    lines = (
        f"of 4000 outputs for the true value 0, {100 * share:.0f}% are possible for 1/3; each of the others reveals "
        "with certainty that the value is not 1/3",
    )
    return Evidence(lines, share < 0.5)


CLAIMS = (
    Claim(
        "gaussian-classical",
        "dissertation, eq. 2.1, and every chapter",
        "Noise of scale sensitivity * sqrt(2 ln(1.25/delta)) / epsilon gives (epsilon, delta).",
        CONDITIONS,
        "It is proved only for epsilon below 1, and false for large epsilon. dpcape uses the exact (analytic) "
        "calibration.",
        _classical,
        ("dissertation-3.2",),
    ),
    Claim(
        "ica-basic-composition",
        "dissertation, theorem 6.1 (its composition; its epsilon of a release is that of reused-theorem)",
        "J rounds cost (2 J epsilon, 2 J delta).",
        CONDITIONS,
        "The form is right for a number of rounds fixed in advance and without the PCA, which is one more release. The "
        "(mu_z, sigma_z) used are wrong, and the result is vacuous (delta above 1). Gaussian releases compose as "
        "mu = sqrt(sum of mu_i^2).",
        _basic_composition,
        ("dissertation-6.1",),
    ),
    Claim(
        "ica-renyi",
        "dissertation, section 6.3.1, propositions 6.3 to 6.5 and eq. 6.10",
        "Rényi accounting of J rounds, as if gradients had sensitivity 1.",
        CONDITIONS,
        "The propositions are right (Mironov 2017), and so is the best order. Their use here is true but vacuous: with "
        "sensitivity 1 and noise of 1e-7 epsilon is astronomical, and it covers only adversaries who see just the "
        "result. The Rényi divergence is alpha mu^2 / 2 with the true mu.",
        _renyi,
        ("dissertation-6.1",),
    ),
    Claim(
        "ica-moments-accountant",
        "dissertation, section 6.3.2",
        "A moments accountant gives the epsilon of J rounds of capeDJICA.",
        WRONG,
        "Its moment generating function is not 1 at 0. Correct: E exp(t Z) = exp(t (t+1) mu^2 / 2). The printed "
        "epsilon can be 40 times too small.",
        _moments_accountant,
        ("dissertation-6.1",),
    ),
    Claim(
        "floating-point",
        "all papers: real-valued noise, computed in floating point (dissertation, remark 2, leaves it open)",
        "The computed noise has the distribution that the proofs assume.",
        WRONG,
        "Rounded noise has gaps that depend on the data (Mironov 2012). dpcape draws exact integer Gaussians and "
        "accounts for the cost of integers (docs/noise.md).",
        _floating_point,
    ),
)
