"""Mechanisms of dpcape, each with its status (verified, published claim only or broken) and the reason."""

from __future__ import annotations

from dataclasses import dataclass

from dpcape.analyses.description import Analysis
from dpcape.analyses.registry import own_analyses
from dpcape.core.protocols.registry import plannable

VERIFIED, PUBLISHED, BROKEN = "verified", "published claim only", "broken"


@dataclass(frozen=True)
class Mechanism:
    """Mechanism with its status.

    Attributes
    ----------
    name : str
        What it is, with the name in Python.
    status : str
        VERIFIED (accounting proved, or computed exactly from the adversary's whole view, and audited), "conditional"
        (it holds if the code of others does what it must), PUBLISHED (the noise gives a different guarantee from the
        one a paper claims; dpcape computes it) or BROKEN (no useful guarantee).
    reason : str
        Why it has that status.
    reference : str
        Where the reason is documented.
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
    """Return a verified mechanism: its accounting is proved or computed, and audited."""
    return Mechanism(name, VERIFIED, reason, reference, analyses=analyses)


def published(name: str, reason: str, reference: str, *claims: str) -> Mechanism:
    """Return a mechanism whose guarantee differs from what its paper claims."""
    return Mechanism(name, PUBLISHED, reason, reference, claims=claims)


def broken(name: str, reason: str, reference: str, *claims: str) -> Mechanism:
    """Return a mechanism without a useful guarantee."""
    return Mechanism(name, BROKEN, reason, reference, claims=claims)


_FOUNDATIONS = (
    verified(
        "exact integer Gaussian noise (OsNoise)",
        "exact sampler from AES-256-CTR; the cost of integers and of the cut-off is counted",
        "docs/noise.md; Canonne, Kamath and Steinke 2020",
    ),
    verified(
        ", ".join(protocol.__name__ for protocol in plannable().values()),
        "mu is computed from the adversary's whole view, including colluding and lost sites",
        "docs/secure_sum.md",
        "pca",
    ),
)
_BROKEN = (
    broken(
        "release of latent factors (FactorRelease)",
        "computed directly from the data; an empirical risk report replaces a guarantee",
        "Kundu and Suthaharan, privacy preserving factor analysis",
        "factor-guarantee",
    ),
    broken(
        "bounds, scaling or centring taken from the data",
        "an estimate from the data is itself a release, and it is not protected",
        "all papers",
        "preparation",
    ),
    broken(
        "noise drawn in floating point",
        "some outputs are possible under only one of two neighbouring data sets",
        "Mironov 2012",
        "floating-point",
    ),
)


def mechanisms() -> tuple[Mechanism, ...]:
    """Return the foundations of dpcape's guarantees, its analyses, and broken mechanisms."""
    return (*_FOUNDATIONS, *_described(), *_BROKEN)


def _described() -> list[Mechanism]:
    """Return one mechanism for each group of analyses with the same status and reason."""
    grounds: dict[tuple[str, str, str], list[Analysis]] = {}
    for analysis in own_analyses().values():
        grounds.setdefault((analysis.standing, analysis.reason, analysis.reference), []).append(analysis)
    return [
        Mechanism(
            ", ".join(analysis.python for analysis in members),
            standing,
            reason,
            reference,
            analyses=tuple(case.name for analysis in members for case in analysis.audit),
        )
        for (standing, reason, reference), members in grounds.items()
    ]
