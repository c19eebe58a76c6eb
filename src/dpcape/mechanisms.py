"""What may be relied on: mechanisms of dpcape and of the papers, with their standing and the reason for it."""

from __future__ import annotations

from dataclasses import dataclass

VERIFIED, PUBLISHED, BROKEN = "verified", "published claim only", "broken"
SARWATE = "A. Sarwate, retraction of 'Symmetric matrix perturbation for differentially-private PCA', 2017"
DISSERTATION = "Imtiaz, dissertation"


@dataclass(frozen=True)
class Mechanism:
    """A mechanism and its standing.

    Attributes
    ----------
    status : VERIFIED (accounting proved or computed exactly from the whole view, audited), PUBLISHED (the guarantee is
        what a paper claims; the noise gives another one, which dpcape computes) or BROKEN (no useful guarantee).
    analyses : names for ``dpcape audit``.
    claims : keys for ``dpcape mechanisms --claim``.
    """

    name: str
    status: str
    reason: str
    reference: str
    analyses: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()


def _verified(name: str, reason: str, reference: str, *analyses: str) -> Mechanism:
    return Mechanism(name, VERIFIED, reason, reference, analyses=analyses)


def _published(name: str, reason: str, reference: str, *claims: str) -> Mechanism:
    return Mechanism(name, PUBLISHED, reason, reference, claims=claims)


def _broken(name: str, reason: str, reference: str, *claims: str) -> Mechanism:
    return Mechanism(name, BROKEN, reason, reference, claims=claims)


MECHANISMS = (
    _verified(
        "exact integer Gaussian noise (OsNoise)",
        "exact sampler from AES-256-CTR; what integers and cut-off cost is counted",
        "docs/noise.md; Canonne, Kamath and Steinke 2020",
    ),
    _verified(
        "Cape, SecureSum, Independent, Dealer",
        "mu computed from the adversary's whole view, colluding and lost sites included",
        "docs/secure_sum.md",
        "pca",
    ),
    _verified("Mean", "diameter of (x, x^2) proved at FirstMoments", "docs/analyses", "mean"),
    _verified(
        "PCA, CCA, PrivateFactorModel",
        "one second moment, sqrt(2) B^2 / N; centred: mean and moment jointly",
        "Dwork et al. 2014 (Analyze Gauss)",
        "pca",
        "centred-pca",
        "cca",
        "private-factor-model",
    ),
    _verified(
        "TopicModel, MixtureModel",
        "symmetric second and third moments; composition mu^2 = mu_2^2 + mu_3^2",
        "docs/analyses/topics_and_mixtures.md",
        "topic-model",
        "mixture-model",
    ),
    _verified(
        "JointICA, per time point or per subject",
        "clipped moments or gradients; every release counted; the unit is printed",
        "docs/analyses/joint_ica.md",
        "joint-ica",
        "joint-ica-of-subjects",
        "joint-ica-infomax",
    ),
    _verified(
        "LinearRegression, LogisticRegression, PolynomialLoss (built-in losses)",
        "all degrees in one release with the joint sensitivity",
        "docs/analyses/regression.md",
        "linear-regression",
        "logistic-regression",
        "polynomial-loss",
    ),
    _verified(
        "NetworkClassifier, KMeans",
        "clipped gradients or sums; every round counted whether used or not",
        "docs/analyses/regression.md",
        "network-classifier",
        "kmeans",
    ),
    _published(
        "CAPE as published",
        "kappa understated: colluders know their draws, and 2S/(S+1) without any",
        f"{DISSERTATION}, theorem 3.1",
        "cape-theorem",
        "cape-no-collusion",
        "cape-asymmetric",
    ),
    _published(
        "capeCCA with a noise generator as published",
        "two honest sites are not enough for the stated noise",
        "capeCCA paper, theorem 1",
        "capecca-collusion",
    ),
    _published(
        "capePCA, capeCCA, DPdisPCA as published",
        "sensitivity sqrt(2) too small where a person is replaced, and theorem 3.1",
        f"{DISSERTATION}, theorems 4.1 and 7.1",
        "second-moment",
        "reused-theorem",
    ),
    _published(
        "capeAGN for mixtures as published",
        "sensitivity of M2 too small; wrong composition of M2 and M3",
        f"{DISSERTATION}, theorem 5.1",
        "mixture-second-moment",
        "tensor-theorem",
    ),
    _published(
        "capeDJICA as published",
        "per time point, and accounted by theorem 3.1",
        f"{DISSERTATION}, theorem 6.1",
        "ica-unit",
        "reused-theorem",
    ),
    _published(
        "capeFM as published",
        "each degree is given the whole budget",
        f"{DISSERTATION}, theorem 8.1",
        "functional-joint",
    ),
    _published(
        "classical Gaussian calibration",
        "proved below epsilon 1 only, false at large epsilon",
        f"{DISSERTATION}, eq. 2.1",
        "gaussian-classical",
    ),
    _published(
        "Laplace rounds of DP-djICA",
        "per column; a person's epsilon is the number of columns times larger",
        "DP-djICA paper, theorem 1",
        "djica-laplace",
        "ica-unit",
    ),
    _broken(
        "Wishart noise with d + 1 degrees of freedom",
        "delta is at least 1 - exp(-epsilon)",
        f"DP-djICA paper; {SARWATE}",
        "wishart",
    ),
    _broken(
        "capeAGN for topics as published",
        "symmetric noise on asymmetric moments: differences of mirrored entries leave bare",
        f"{DISSERTATION}, section 5.2",
        "topic-moments",
    ),
    _broken(
        "moments accountant of section 6.3.2",
        "not a moment generating function; its epsilon can be 40 times too small",
        f"{DISSERTATION}, section 6.3.2",
        "ica-moments-accountant",
    ),
    _broken(
        "release of latent factors (FactorRelease)",
        "a function of the data; an empirical risk report is given instead of a guarantee",
        "Kundu and Suthaharan, privacy preserving factor analysis",
        "factor-guarantee",
    ),
    _broken(
        "bounds, scaling or centring taken from the data",
        "what is estimated from data is a release of its own",
        "all papers",
        "preparation",
    ),
    _broken(
        "noise drawn in floating point",
        "outputs that only one of two neighbours can produce",
        "Mironov 2012",
        "floating-point",
    ),
)
