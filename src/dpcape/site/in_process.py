"""All sites in one process: for one data holder with several data sets, for rehearsals, tests and papers.

Messages are the same bytes that cross a network, and so are the checks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpcape.core.enclosed import IN_THIS_PROCESS
from dpcape.core.errors import InvalidParameter
from dpcape.core.noise import NoiseSource, OsNoise
from dpcape.core.privacy.ledger import Ledger
from dpcape.core.protocols.dealt_noise import DEALER
from dpcape.core.protocols.noise_dealer import NoiseDealer
from dpcape.core.secure_sum.identity import Identity
from dpcape.core.site import Site
from dpcape.site.statistic_laws import require_laws
from dpcape.transport.transport import Transport


class InProcess(Transport):
    """Carries messages to sites of the same process."""

    def __init__(self, members: Mapping[str, Site], dealer: NoiseDealer, *, dealer_name: str = DEALER) -> None:
        self._sites = dict(members)
        self._dealer, self._dealer_name = dealer, dealer_name

    @property
    def sites(self) -> tuple[str, ...]:
        return tuple(sorted(self._sites))

    @property
    def dealer(self) -> str:
        return self._dealer_name

    @property
    def in_one_process(self) -> bool:
        return True

    def ask(
        self, messages_by_site: Mapping[str, bytes], deadline: float | None
    ) -> tuple[dict[str, bytes], tuple[str, ...]]:
        replies = {}
        for name, data in messages_by_site.items():
            receiver = self._dealer if name == self._dealer_name else self._sites[name]
            replies[name] = receiver.answer(data)
        return replies, ()

    def site(self, name: str) -> Site:
        """Return the site of this name, for its steward: ledger and identity."""
        return self._sites[name]


def in_process(
    records: Mapping[str, Any],
    *,
    ledgers: Mapping[str, Ledger] | None = None,
    noise: NoiseSource | None = None,
) -> InProcess:
    """Connect sites that live in this process.

    Parameters
    ----------
    records : mapping
        Records by site name.
    ledgers : mapping or None
        Ledgers by site name; sites without one get a ledger without a ceiling.
    noise : NoiseSource or None
        Where noise comes from; the operating system unless a :class:`Replay` is given for tests, whose results say
        "replayable: no protection".

    Examples
    --------
    >>> import numpy as np
    >>> from dpcape import in_process, rows
    >>> in_process({"lyon": rows(np.eye(3), bound=1.0)}).sites
    ('lyon',)
    """
    _check_records(records)
    if DEALER in records:
        raise InvalidParameter("A site's name", "not be that of the noise dealer", repr(DEALER), "Rename the site.")
    unknown = sorted(set(ledgers or {}) - set(records))
    if unknown:
        must = "be given for sites of the federation"
        raise InvalidParameter("ledgers", must, f"one for {', '.join(unknown)}", "Correct the name.")
    source = OsNoise() if noise is None else noise
    for name, ledger in (ledgers or {}).items():
        if not hasattr(ledger, "charge"):
            remedy = "Write Ledger(epsilon=..., delta=...)."
            raise InvalidParameter(f"The ledger of {name!r}", "be a Ledger", type(ledger).__name__, remedy)
    if noise is not None and not isinstance(noise, NoiseSource):
        raise InvalidParameter(
            "noise", "be left out, or a Replay for tests", type(noise).__name__, "Write noise=Replay(seed)."
        )
    members = {
        name: Site(
            name,
            site_records,
            ledger=(ledgers or {}).get(name, Ledger()),
            identity=Identity.generate(),
            noise=source,
            contributor=IN_THIS_PROCESS,
            laws=require_laws,
        )
        for name, site_records in sorted(records.items())
    }
    dealer = NoiseDealer(Identity.generate(), source)
    identities = {name: site.identity.public for name, site in members.items()}
    identities[DEALER] = dealer.identity.public
    dealer.pin(identities)
    for site in members.values():
        site.pin(identities)
    return InProcess(members, dealer)


def _check_records(records: object) -> None:
    """Refuse anything but a mapping from names to records, and say how records are made."""
    if not isinstance(records, Mapping):
        must, got = "be a mapping from site name to records", type(records).__name__
        raise InvalidParameter("records", must, got, "Write in_process({'lyon': rows(X, bound=...)}).")
    if not records:
        must = "have at least one site"
        raise InvalidParameter("records", must, "an empty mapping", "Write in_process({'lyon': rows(X, bound=...)}).")
    for name, site_records in records.items():
        if not isinstance(name, str) or not name:
            raise InvalidParameter("a site's name", "be text", repr(name), "Write {'lyon': ...}.")
        if not callable(getattr(site_records, "facts", None)):
            remedy = "Build them with rows(X, bound=...), views, labelled, documents or subjects."
            raise InvalidParameter(f"The value for site {name!r}", "be records", type(site_records).__name__, remedy)
