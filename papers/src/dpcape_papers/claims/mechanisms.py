"""Mechanisms of the papers: which are only claimed or broken, and why."""

from __future__ import annotations

from dpcape.analyses.mechanisms import broken, published

SARWATE = "A. Sarwate, retraction of 'Symmetric matrix perturbation for differentially-private PCA', 2017"
DISSERTATION = "Imtiaz, dissertation"

MECHANISMS = (
    published(
        "CAPE as published",
        "kappa is understated: colluding sites know their own draws, and without collusion it is 2S/(S+1)",
        f"{DISSERTATION}, theorem 3.1",
        "cape-theorem",
        "cape-no-collusion",
        "cape-asymmetric",
    ),
    published(
        "capeCCA with a noise generator as published",
        "the stated noise is too small if only two sites are honest",
        "capeCCA paper, theorem 1",
        "capecca-collusion",
    ),
    published(
        "capePCA, capeCCA, DPdisPCA as published",
        "the sensitivity is too small by a factor of sqrt(2) if a person is replaced; relies on theorem 3.1",
        f"{DISSERTATION}, theorems 4.1 and 7.1",
        "second-moment",
        "reused-theorem",
    ),
    published(
        "capeAGN for mixtures as published",
        "the sensitivity of M2 is too small, and M2 and M3 are composed wrongly",
        f"{DISSERTATION}, theorem 5.1",
        "mixture-second-moment",
        "tensor-theorem",
    ),
    published(
        "capeDJICA as published",
        "protects a time point, not a person; relies on theorem 3.1",
        f"{DISSERTATION}, theorem 6.1",
        "ica-unit",
        "reused-theorem",
    ),
    published(
        "capeFM as published",
        "each degree uses the whole budget",
        f"{DISSERTATION}, theorem 8.1",
        "functional-joint",
    ),
    published(
        "classical Gaussian calibration",
        "proved only for epsilon below 1; false for large epsilon",
        f"{DISSERTATION}, eq. 2.1",
        "gaussian-classical",
    ),
    published(
        "Laplace rounds of DP-djICA",
        "protects one column; a person's epsilon is larger by a factor of the number of columns",
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
        "symmetric noise on asymmetric moments: differences of mirrored entries are released without noise",
        f"{DISSERTATION}, section 5.2",
        "topic-moments",
    ),
    broken(
        "moments accountant of section 6.3.2",
        "its formula is not a moment generating function; its epsilon can be 40 times too small",
        f"{DISSERTATION}, section 6.3.2",
        "ica-moments-accountant",
    ),
)
