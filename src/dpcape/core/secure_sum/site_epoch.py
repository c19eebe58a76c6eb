"""A site's secrets of one epoch, and the state of its rounds."""

from __future__ import annotations

from collections.abc import Mapping

from dpcape.core.errors import InvalidMessage
from dpcape.core.secure_sum.offers import COVER, KEY, N_KINDS, SUM, secret_at, share_at, wipe_secret, wipe_share
from dpcape.core.secure_sum.sealed import Sealed


class SiteRound:
    """State of one round at a site."""

    __slots__ = ("bound", "covered", "opened", "spoiled", "statement", "summed", "survivors")

    def __init__(self) -> None:
        self.summed = False
        self.covered = False
        self.bound: bytes | None = None
        self.survivors: tuple[str, ...] = ()
        self.statement = b""
        self.opened = False
        self.spoiled = False


class SiteEpoch(Sealed):
    """A site's own secrets, its shares of its peers' secrets, and the peers' public keys.

    Secrets and shares are overwritten in place as soon as they are used or no longer needed. (Copies made by the
    interpreter cannot be reached.)
    """

    __slots__ = ("_secrets", "_shares", "digest", "keys", "n_rounds", "number", "rounds")

    def __init__(
        self,
        digest: bytes,
        *,
        number: int,
        n_rounds: int,
        keys: Mapping[str, bytes],
        secrets: bytearray,
        shares: Mapping[str, bytearray],
    ) -> None:
        self.digest = digest
        self.number = number
        self.n_rounds = n_rounds
        self.keys = dict(keys)
        self.rounds: dict[int, SiteRound] = {}
        self._secrets = secrets
        self._shares = dict(shares)

    def at(self, round: int) -> SiteRound:
        """Return the state of a round of this epoch."""
        if round >= self.n_rounds:
            raise InvalidMessage("round", f"be below {self.n_rounds} in this epoch", round, "Start a new epoch.")
        return self.rounds.setdefault(round, SiteRound())

    def secret(self, round: int, kind: int) -> bytes:
        """Return one of this site's secrets of a round."""
        return secret_at(self._secrets, round, kind)

    def holds(self, dealer: str) -> bool:
        """Return whether a peer shared its secrets with this site."""
        return dealer in self._shares

    def share(self, dealer: str, round: int, kind: int) -> bytes:
        """Return the share of a peer's secret of a round."""
        return share_at(self._shares[dealer], round, kind)

    def wipe_key(self, round: int) -> None:
        """Overwrite this site's round key, which serves one vector."""
        wipe_secret(self._secrets, round, KEY)

    def wipe(self, round: int) -> None:
        """Overwrite all secrets of a round."""
        for kind in range(N_KINDS):
            wipe_secret(self._secrets, round, kind)
            for shares in self._shares.values():
                wipe_share(shares, round, kind)

    def wipe_all(self) -> None:
        """Overwrite everything secret of all rounds: the epoch is over."""
        for secrets in (self._secrets, *self._shares.values()):
            secrets[:] = bytes(len(secrets))

    def keep_seed_shares(self, round: int) -> None:
        """Overwrite all secrets of an opened round except the seed shares of its survivors.

        No later request can obtain the other kind of share of any peer.
        """
        state = self.rounds[round]
        survivors = set(state.survivors)
        for kind in range(N_KINDS):
            wipe_secret(self._secrets, round, kind)
        for name, shares in self._shares.items():
            wipe_share(shares, round, KEY)
            for kind, used in ((SUM, state.summed), (COVER, state.covered)):
                if name not in survivors or not used:
                    wipe_share(shares, round, kind)
