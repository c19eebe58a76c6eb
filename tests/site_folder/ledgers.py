"""Chains and ledgers for tests."""

from __future__ import annotations

from pathlib import Path

from dpcape.core.privacy.ledger import Charge
from dpcape.site.hash_chain import HashChain
from dpcape.site.ledger import SiteLedger

STUDY = "a" * 64
KEY = "11" * 32


def new_chain(folder: Path) -> HashChain:
    folder.mkdir(parents=True, exist_ok=True)
    return HashChain.create(folder / "ledger.sqlite", folder / "ledger.head", {"site": "lyon", "identity": KEY})


def opened(folder: Path) -> HashChain:
    return HashChain(folder / "ledger.sqlite", folder / "ledger.head")


def note(chain: HashChain, text: str = "") -> None:
    chain.append("note", {"text": text}, check=lambda entries: None)


def ceiling(
    chain: HashChain, epsilon: float, delta: float, per_study: float | None = None, data: str = "cohort"
) -> None:
    per = None if per_study is None else repr(per_study)
    body = {"data": data, "epsilon": repr(epsilon), "delta": repr(delta), "per_study": per}
    chain.append("ceiling", body, check=lambda entries: None)


def approve(chain: HashChain, study: str = STUDY, runs: int = 10**6, data: str = "cohort") -> None:
    body = {"study": study, "name": "test", "data": data, "runs": runs}
    chain.append("approve", body, check=lambda entries: None)


def ledger(chain: HashChain, study: str = STUDY, data: str = "cohort") -> SiteLedger:
    return SiteLedger(chain, data=data, study=study)


def charge(name: str, mu: float = 0.1, n_releases: int = 1) -> Charge:
    return Charge(allowance=name, mu=mu, gap=1e-7, tail=1e-13, n_releases=n_releases)
