"""Adversaries of audits: a protocol and its colluding and lost sites; the victim is always the first site."""

from __future__ import annotations

from dataclasses import dataclass

from dpcape.protocols import Cape, Dealer, Independent, Protocol, SecureSum

SITES = ("ava", "bob", "cid", "dot")
VICTIM = SITES[0]


@dataclass(frozen=True)
class Adversary:
    """Adversary: the aggregator with colluding sites, under one protocol.

    Attributes
    ----------
    name : str
        Name in the results of an audit.
    protocol : Protocol
        Protocol the sites run.
    colluding : tuple of str
        Sites that share everything they know with the aggregator.
    lost : tuple of str
        Sites that drop out after the noise is agreed.
    """

    name: str
    protocol: Protocol
    colluding: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()

    @property
    def honest(self) -> tuple[str, ...]:
        """Sites that finish and reveal nothing except their messages."""
        return tuple(site for site in SITES if site not in self.colluding + self.lost)

    def __str__(self) -> str:
        return self.name


ADVERSARIES = (
    Adversary("independent, all others collude", Independent(), SITES[1:]),
    Adversary("cape, aggregator alone", Cape(n_colluding=0)),
    Adversary("cape at the papers' split", Cape(n_colluding=0, cancelling_ratio=1.0)),
    Adversary("cape, one site colludes", Cape(n_colluding=1), ("dot",)),
    Adversary("cape, two sites collude", Cape(n_colluding=2, cancelling_ratio=2.0), ("bob", "dot")),
    Adversary("cape, one site lost and corrected", Cape(n_colluding=0, minimum_sites=3), lost=("cid",)),
    Adversary("cape, one site colludes, one is lost", Cape(n_colluding=1, minimum_sites=3), ("dot",), ("cid",)),
    Adversary("secure-sum, aggregator alone", SecureSum(n_colluding=0)),
    Adversary("secure-sum, one site colludes", SecureSum(n_colluding=1), ("dot",)),
    Adversary(
        "secure-sum, one site colludes, one is lost", SecureSum(n_colluding=1, minimum_sites=3), ("dot",), ("cid",)
    ),
    Adversary("dealer, one site colludes", Dealer(n_colluding=1), ("dot",)),
    Adversary("dealer, three sites collude", Dealer(n_colluding=3), SITES[1:]),
)
