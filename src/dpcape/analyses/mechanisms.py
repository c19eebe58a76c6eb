"""What may be relied on: mechanisms of dpcape, with their standing and the reason for it."""

from __future__ import annotations

from dataclasses import dataclass

from dpcape.analyses.description import Analysis
from dpcape.analyses.registry import own_analyses
from dpcape.protocols import PLANNABLE

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


_FOUNDATIONS = (
    verified(
        "exact integer Gaussian noise (OsNoise)",
        "exact sampler from AES-256-CTR; what integers and cut-off cost is counted",
        "docs/noise.md; Canonne, Kamath and Steinke 2020",
    ),
    verified(
        ", ".join(protocol.__name__ for protocol in PLANNABLE.values()),
        "mu computed from the adversary's whole view, colluding and lost sites included",
        "docs/secure_sum.md",
        "pca",
    ),
)
_BROKEN = (
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


def mechanisms() -> tuple[Mechanism, ...]:
    """Return what dpcape's guarantees rest on, its analyses as they describe themselves, and what is broken."""
    return (*_FOUNDATIONS, *_described(), *_BROKEN)


def _described() -> list[Mechanism]:
    """Return one mechanism for all analyses that stand on the same ground."""
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
