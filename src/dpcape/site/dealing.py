"""A site folder as the noise dealer of a study: its identity and its decisions, and no records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dpcape.core.errors import LedgerRefused, ProtocolError
from dpcape.core.noise import NoiseSource, OsNoise
from dpcape.core.protocols.noise_dealer import NoiseDealer
from dpcape.site.hash_chain import Entry
from dpcape.site.ledger import State, check_approved
from dpcape.site.vault.modes import NONE

if TYPE_CHECKING:
    from dpcape.site.folder import SiteFolder
    from dpcape.study.study import Study


def dealer_for(
    folder: SiteFolder, study: Study, *, noise: NoiseSource | None = None, allowance: str = "", separation: str = ""
) -> NoiseDealer:
    """Return the dealer that answers for an approved study.

    Parameters
    ----------
    folder : SiteFolder
        Folder of the participant that the study names as its dealer.
    study : Study
        The study; each of its sites is pinned in the folder.
    noise : NoiseSource or None
        For tests: with a Replay every result says "replayable: no protection".
    allowance : str
        One that is resumed after a crash; it does not count as another run.
    separation : str
        Mode in which an engine is kept from identity and noise. Without separation noise is not dealt: anyone who reads
        it could take it off the sites' totals.
    """
    check_approved(folder.state(), study.digest(), allowance=allowance)
    if separation == NONE.name:
        why = "its engine is not separated: every member and the coordinator could read the noise"
        raise LedgerRefused(f"{folder.name} deals no noise", why, "Serve it on Linux with Landlock.")
    pinned = folder.pinned()
    missing = sorted(set(study.sites) - set(pinned))
    if missing:
        raise ProtocolError("The study was refused", f"{missing[0]} is not pinned at {folder.name}", "Pin it.")
    dealer = NoiseDealer(
        folder.identity,
        OsNoise() if noise is None else noise,
        separation=separation,
        sites=study.sites,
        record=lambda name, terms: _record(folder, study.digest(), name, terms.hex()),
    )
    dealer.pin(pinned)
    return dealer


def _record(folder: SiteFolder, study: str, allowance: str, terms: str) -> None:
    """Make the first deal of an allowance a row of the ledger, which counts as a run of the study."""
    known = folder.state().dealt.get(allowance)
    if known == (study, terms):
        return

    def check(entries: Sequence[Entry]) -> None:
        if known is not None:
            raise LedgerRefused("Noise was not dealt", "the allowance has other terms", "Start a new run.")
        check_approved(State.of(entries), study)

    folder.chain.append("deal", {"study": study, "allowance": allowance, "terms": terms}, check=check)
