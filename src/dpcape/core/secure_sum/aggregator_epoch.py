"""The public part of an epoch, at the aggregator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpcape.core.errors import ProtocolError
from dpcape.core.secure_sum.config import Config
from dpcape.core.secure_sum.graph import masking_graph
from dpcape.core.secure_sum.identity import verify
from dpcape.core.secure_sum.links import check_hellos
from dpcape.core.secure_sum.messages import Hello, Offer
from dpcape.core.secure_sum.offers import SUM, check_offers, commitment, entry, public_key
from dpcape.core.secure_sum.round_keys import acceptance
from dpcape.core.secure_sum.transcript import equal


class AggregatorEpoch:
    """Checked offers of an epoch, and checks of the secrets rebuilt in its rounds.

    Parameters
    ----------
    config : Config
        Terms of the session.
    hellos : Sequence[Hello]
        All hellos of the session.
    offers : Sequence[Offer]
        The offers of the epoch's roster; their boxes are not needed.
    pinned : Mapping[str, bytes]
        Identity keys by site.

    Attributes
    ----------
    roster : tuple[str, ...]
        Sites whose offers take part in the epoch, sorted.
    number, n_rounds : int
        Number of the epoch, and of its rounds.
    """

    def __init__(
        self, config: Config, *, hellos: Sequence[Hello], offers: Sequence[Offer], pinned: Mapping[str, bytes]
    ) -> None:
        missing = [site for site in config.sites if site not in pinned]
        if missing:
            what = f"pinned must have a key for every site; {', '.join(missing)} missing"
            raise ProtocolError(what, remedy="Pin it.")
        _, self.session_id = check_hellos(hellos, config=config, pinned=pinned)
        self.offers, self.digest = check_offers(offers, config=config, session_id=self.session_id, pinned=pinned)
        self.config = config
        self.graph = masking_graph(config, self.session_id)
        self.pinned = dict(pinned)
        self.roster = tuple(self.offers)
        first = self.offers[self.roster[0]]
        self.number, self.n_rounds = first.epoch, first.n_rounds

    def confirm(self, site: str, signature: bytes) -> None:
        """Check that a site accepted exactly this epoch.

        A site that received other offers masks with other keys, and its vector would make the sum meaningless.
        Treat a site for which this raises as lost: no round may use its vectors.
        """
        if site not in self.roster or not verify(self.pinned[site], signature, acceptance(self.digest, site)):
            what = f"The signature of site {site} was refused"
            raise ProtocolError(what, "it is not for the same offers", "Treat the site as lost.")

    def opens(self, site: str, seed: object, *, round: int, kind: int) -> bool:
        """Return whether a seed is the one the site committed to."""
        if not isinstance(seed, bytes):
            return False
        offer = self.offers[site]
        table = offer.sum_commitments if kind == SUM else offer.cover_commitments
        opened = commitment(self.session_id, site, epoch=self.number, round=round, kind=kind, seed=seed)
        return equal(opened, entry(table, round))

    def fits(self, site: str, private: bytes, *, round: int) -> bool:
        """Return whether a round key matches the public key that the site signed."""
        return equal(public_key(private), entry(self.offers[site].keys, round))
