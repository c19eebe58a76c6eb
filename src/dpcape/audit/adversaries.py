"""Who pools what with the aggregator, under which protocol, against which site."""

from __future__ import annotations

from dataclasses import dataclass

from dpcape.core.protocols.cape import Cape
from dpcape.core.protocols.dealer import Dealer
from dpcape.core.protocols.independent import Independent
from dpcape.core.protocols.protocol import Protocol
from dpcape.core.protocols.secure_sum import SecureSum

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
    sites: tuple[str, ...] = SITES
    victim: str = VICTIM

    @property
    def honest(self) -> tuple[str, ...]:
        """Sites that finish and share nothing beyond their messages."""
        return tuple(site for site in self.sites if site not in self.colluding + self.lost)

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


def strongest(protocol: Protocol, sites: tuple[str, ...], victim: str) -> list[Adversary]:
    """Return the adversaries a protocol guarantees to hold against: as many colluding and lost sites as it allows."""
    others = [site for site in sites if site != victim]
    settings = protocol.settings(len(sites))
    n_colluding = settings.n_colluding
    colluding = tuple(others[len(others) - n_colluding :])
    n_lost = min(len(sites) - settings.minimum_sites, len(others) - n_colluding)
    name = f"{protocol.name}, {_number(n_colluding)} colluding"
    adversaries = [Adversary(name, protocol, colluding, (), sites, victim)]
    if n_lost:
        lost = tuple(others[:n_lost])
        adversaries.append(Adversary(f"{name}, {_number(n_lost)} lost", protocol, colluding, lost, sites, victim))
    return adversaries


def _number(count: int) -> str:
    return f"{count} site{'' if count == 1 else 's'}"
