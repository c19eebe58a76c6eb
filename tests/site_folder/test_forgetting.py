"""A site forgets finished allowances with their draws and keys, and its ledger goes on refusing them."""

from __future__ import annotations

import gc
import tracemalloc
import weakref

import numpy as np
import pytest

from dpcape import Cape, Dealer, Exact, Federation, Independent, SecureSum, in_process, rows
from dpcape.core.errors import LedgerRefused, ProtocolError
from dpcape.core.messages import Describe, Open, decode_from_site, encode
from dpcape.core.privacy.ledger import Ledger
from dpcape.core.protocols.protocol import Protocol
from dpcape.core.site import MOST_OPEN
from dpcape.federation.allowance import Allowance
from dpcape.site.in_process import InProcess
from dpcape.site.ledger import Ceiling
from dpcape.statistics.moments import first_moments

from .consortium import Consortium

SITES = ("lima", "lyon", "oslo", "rome")
PROTOCOLS: list[Protocol] = [
    Independent(),
    Exact(),
    Cape(n_colluding=1),
    SecureSum(n_colluding=1),
    Dealer(n_colluding=1),
]


def line(sites: tuple[str, ...] = SITES, width: int = 4) -> InProcess:
    table = np.full((20, width), 0.1)
    return in_process({site: rows(table, bound=1.0) for site in sites})


def use(federation: Federation, n: int = 2, used: int | None = None) -> Allowance:
    private = federation.allow(1.0, 1e-5, shares=(1 / n,) * n)
    for _ in range(n if used is None else used):
        private.mean(first_moments(federation.facts))
    return private


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: protocol.name)
def test_a_finished_allowance_is_forgotten_and_still_refused(protocol: Protocol) -> None:
    sites = line()
    federation = Federation(sites, protocol=protocol)
    private = use(federation)
    site = sites.site("lyon")
    kept = weakref.ref(site._allowances[private._terms.allowance].role)
    gc.disable()
    try:
        federation.ledger_heads()
        assert site._allowances == {}
        # Freed at once, not when the garbage collector comes round.
        assert kept() is None
    finally:
        gc.enable()
    answer = decode_from_site(site.answer(encode(Open(terms=private._terms))))[1]
    assert answer.error == "LedgerRefused"
    assert "charged" in answer.text
    with pytest.raises(LedgerRefused):
        site.ledger.check(site._charge(private._terms))
    assert len(site.ledger.charges) == 1


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: protocol.name)
def test_an_unfinished_allowance_is_kept(protocol: Protocol) -> None:
    sites = line()
    federation = Federation(sites, protocol=protocol)
    private = use(federation, n=3, used=2)
    federation.ledger_heads()
    use(federation)
    private.mean(first_moments(federation.facts))
    assert private.left == 0


def test_draws_and_secrets_are_overwritten() -> None:
    sites = line()
    federation = Federation(sites, protocol=Cape(n_colluding=1))
    private = federation.allow(1.0, 1e-5)
    seen: list[np.ndarray] = []
    role = sites.site("lyon")._allowances[private._terms.allowance].role
    real = role._draw
    role._draw = lambda message: (real(message), seen.append(role._drawn))[0]
    private.mean(first_moments(federation.facts))
    assert role._drawn is None
    assert len(seen) == 1
    assert not seen[0].any()
    session = role._session
    epoch = session._recover._epoch
    # Seed shares of survivors are kept until nobody can need them to open the last release.
    assert any(any(shares) for shares in epoch._shares.values())
    federation.ledger_heads()
    assert not any(epoch._secrets)
    assert not any(any(shares) for shares in epoch._shares.values())
    assert session._recover is session._retry is session._private is None
    with pytest.raises(ProtocolError):
        session.open(round=0, survivors=SITES, signatures={})


def test_a_ledger_on_disk_refuses_a_forgotten_allowance_in_another_process_too(consortium: Consortium) -> None:
    for place in consortium.sites.values():
        place.set_ceiling("cohort", Ceiling(5.0, 1e-5))
    consortium.approve(runs=2)
    carried, members = consortium.line()
    federation = Federation(carried, protocol=consortium.study.protocol())
    consortium.study.estimator().fit(federation)
    lyon = members["lyon"]
    terms = next(iter(lyon._allowances.values())).terms
    federation.ledger_heads()
    assert lyon._allowances == {}
    for site in (lyon, consortium.sites["lyon"].site_for(consortium.study)):
        answer = decode_from_site(site.answer(encode(Open(terms=terms))))[1]
        assert (answer.error, "charged" in answer.text) == ("LedgerRefused", True)


def test_abandoned_allowances_are_bounded_and_the_latest_kept() -> None:
    sites = line(("lyon",))
    federation = Federation(sites, protocol=Independent())
    first = federation.allow(1.0, 1e-5)
    opened = [federation.allow(1.0, 1e-5) for _ in range(MOST_OPEN)]
    site = sites.site("lyon")
    assert len(site._allowances) == MOST_OPEN
    opened[0].mean(first_moments(federation.facts))
    with pytest.raises(ProtocolError, match="not open"):
        first.mean(first_moments(federation.facts))
    site.answer(encode(Describe()))
    assert len(site._allowances) == MOST_OPEN - 1


def growth(federation: Federation, n_allowances: int, n: int) -> int:
    tracemalloc.start()
    try:
        use(federation, n=n)
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(n_allowances):
            use(federation, n=n)
        federation.ledger_heads()
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: protocol.name)
def test_memory_grows_by_the_ledgers_rows_alone(protocol: Protocol) -> None:
    """Wide releases: one that stayed would be 160 kB per site."""
    federation = Federation(line(width=20_000), protocol=protocol)
    use(federation, n=2)
    assert growth(federation, n_allowances=5, n=2) < 5 * len(SITES) * 2_000


@pytest.mark.slow
def test_memory_over_ten_thousand_releases() -> None:
    sites = line(("lyon",), width=200)
    sites.site("lyon").ledger = Ledger()
    federation = Federation(sites, protocol=Independent())
    assert growth(federation, n_allowances=100, n=100) < 200_000
    assert len(sites.site("lyon").ledger.charges) == 101
