"""What may be relied on: mechanisms of dpcape, with their standing and the reason for it."""

from __future__ import annotations

from dataclasses import dataclass

VERIFIED, PUBLISHED, BROKEN = "verified", "published claim only", "broken"


@dataclass(frozen=True)
class Mechanism:
    """A mechanism and its standing.

    Attributes
    ----------
    status : str
        VERIFIED (accounting proved or computed exactly from the whole view, audited), PUBLISHED (the guarantee is what
        a paper claims; the noise gives another one, which dpcape computes) or BROKEN (no useful guarantee).
    analyses : tuple of str
        Names for ``dpcape audit``.
    claims : tuple of str
        Keys for ``dpcape mechanisms --claim``.
    """

    name: str
    status: str
    reason: str
    reference: str
    analyses: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()


def verified(name: str, reason: str, reference: str, *analyses: str) -> Mechanism:
    """Return a mechanism whose accounting is proved or computed, and audited."""
    return Mechanism(name, VERIFIED, reason, reference, analyses=analyses)


def published(name: str, reason: str, reference: str, *claims: str) -> Mechanism:
    """Return a mechanism that has another guarantee than its paper claims."""
    return Mechanism(name, PUBLISHED, reason, reference, claims=claims)


def broken(name: str, reason: str, reference: str, *claims: str) -> Mechanism:
    """Return a mechanism without a useful guarantee."""
    return Mechanism(name, BROKEN, reason, reference, claims=claims)


MECHANISMS = (
    verified(
        "exact integer Gaussian noise (OsNoise)",
        "exact sampler from AES-256-CTR; what integers and cut-off cost is counted",
        "docs/noise.md; Canonne, Kamath and Steinke 2020",
    ),
    verified(
        "Cape, SecureSum, Independent, Dealer",
        "mu computed from the adversary's whole view, colluding and lost sites included",
        "docs/secure_sum.md",
        "pca",
    ),
    verified("Mean", "diameter of (x, x^2) proved at FirstMoments", "docs/analyses", "mean"),
    verified(
        "PCA, CCA, PrivateFactorModel",
        "one second moment, sqrt(2) B^2 / N; centred: mean and moment jointly",
        "Dwork et al. 2014 (Analyze Gauss)",
        "pca",
        "centred-pca",
        "cca",
        "private-factor-model",
    ),
    verified(
        "TopicModel, MixtureModel",
        "symmetric second and third moments; composition mu^2 = mu_2^2 + mu_3^2",
        "docs/analyses/topics_and_mixtures.md",
        "topic-model",
        "mixture-model",
    ),
    verified(
        "JointICA, per time point or per subject",
        "clipped moments or gradients; every release counted; the unit is printed",
        "docs/analyses/joint_ica.md",
        "joint-ica",
        "joint-ica-of-subjects",
        "joint-ica-infomax",
    ),
    verified(
        "LinearRegression, LogisticRegression, PolynomialLoss (built-in losses)",
        "all degrees in one release with the joint sensitivity",
        "docs/analyses/regression.md",
        "linear-regression",
        "logistic-regression",
        "polynomial-loss",
    ),
    verified(
        "NetworkClassifier, KMeans",
        "clipped gradients or sums; every round counted whether used or not",
        "docs/analyses/regression.md",
        "network-classifier",
        "kmeans",
    ),
    broken(
        "release of latent factors (FactorRelease)",
        "a function of the data; an empirical risk report is given instead of a guarantee",
        "Kundu and Suthaharan, privacy preserving factor analysis",
        "factor-guarantee",
    ),
    broken(
        "bounds, scaling or centring taken from the data",
        "what is estimated from data is a release of its own",
        "all papers",
        "preparation",
    ),
    broken(
        "noise drawn in floating point",
        "outputs that only one of two neighbours can produce",
        "Mironov 2012",
        "floating-point",
    ),
)
