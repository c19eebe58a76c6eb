"""Mechanisms of the papers: what is only claimed, or broken, and why."""

from __future__ import annotations

from dpcape.analyses.mechanisms import broken, published

SARWATE = "A. Sarwate, retraction of 'Symmetric matrix perturbation for differentially-private PCA', 2017"
DISSERTATION = "Imtiaz, dissertation"

MECHANISMS = (
    published(
        "CAPE as published",
        "kappa understated: colluders know their draws, and 2S/(S+1) without any",
        f"{DISSERTATION}, theorem 3.1",
        "cape-theorem",
        "cape-no-collusion",
        "cape-asymmetric",
    ),
    published(
        "capeCCA with a noise generator as published",
        "two honest sites are not enough for the stated noise",
        "capeCCA paper, theorem 1",
        "capecca-collusion",
    ),
    published(
        "capePCA, capeCCA, DPdisPCA as published",
        "sensitivity sqrt(2) too small where a person is replaced, and theorem 3.1",
        f"{DISSERTATION}, theorems 4.1 and 7.1",
        "second-moment",
        "reused-theorem",
    ),
    published(
        "capeAGN for mixtures as published",
        "sensitivity of M2 too small; wrong composition of M2 and M3",
        f"{DISSERTATION}, theorem 5.1",
        "mixture-second-moment",
        "tensor-theorem",
    ),
    published(
        "capeDJICA as published",
        "per time point, and accounted by theorem 3.1",
        f"{DISSERTATION}, theorem 6.1",
        "ica-unit",
        "reused-theorem",
    ),
    published(
        "capeFM as published",
        "each degree is given the whole budget",
        f"{DISSERTATION}, theorem 8.1",
        "functional-joint",
    ),
    published(
        "classical Gaussian calibration",
        "proved below epsilon 1 only, false at large epsilon",
        f"{DISSERTATION}, eq. 2.1",
        "gaussian-classical",
    ),
    published(
        "Laplace rounds of DP-djICA",
        "per column; a person's epsilon is the number of columns times larger",
        "DP-djICA paper, theorem 1",
        "djica-laplace",
        "ica-unit",
    ),
    broken(
        "Wishart noise with d + 1 degrees of freedom",
        "delta is at least 1 - exp(-epsilon)",
        f"DP-djICA paper; {SARWATE}",
        "wishart",
    ),
    broken(
        "capeAGN for topics as published",
        "symmetric noise on asymmetric moments: differences of mirrored entries leave bare",
        f"{DISSERTATION}, section 5.2",
        "topic-moments",
    ),
    broken(
        "moments accountant of section 6.3.2",
        "not a moment generating function; its epsilon can be 40 times too small",
        f"{DISSERTATION}, section 6.3.2",
        "ica-moments-accountant",
    ),
)
