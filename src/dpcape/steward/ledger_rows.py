"""The rows of a ledger in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dpcape.core.privacy.ledger import spent_epsilon
from dpcape.core.privacy.unit import read_unit
from dpcape.core.secure_sum.identity import fingerprint_of
from dpcape.site.cohorts import percent
from dpcape.site.hash_chain import Entry, RowBody
from dpcape.site.ledger import State
from dpcape.steward.ledger_view import LedgerView, epsilon_text


@dataclass(frozen=True)
class LedgerRow:
    """One row in words; ``study`` is the digest of the study it is about, or empty."""

    number: int
    time: str
    kind: str
    text: str
    study: str
    hash: str


def lines(
    ledger: LedgerView, *, data: str = "", before: int = 0, releases: bool = False, limit: int
) -> list[LedgerRow]:
    """Return rows, newest first: of one data set or all, with or without counts of releases."""
    rows: list[LedgerRow] = []
    for entry in reversed(ledger.entries):
        wanted = (releases or entry.kind != "release") and (not before or entry.number < before)
        if wanted and (not data or entry.body.get("data") == data):
            rows.append(_row(entry, ledger.state))
        if len(rows) == limit:
            break
    return rows


def _row(entry: Entry, state: State) -> LedgerRow:
    text = _WORDS[entry.kind](entry.body, state) if entry.kind in _WORDS else ""
    time = entry.time.replace("T", " ").replace("+00:00", " UTC")
    return LedgerRow(entry.number, time, entry.kind, text, str(entry.body.get("study", "")), entry.hash)


def _ceiling(body: RowBody, state: State) -> str:
    per_study = "" if body["per_study"] is None else f", one study at most {float(body['per_study']):g}"
    amount = f"epsilon {float(body['epsilon']):g} at delta {float(body['delta']):g}"
    return f"{body['data']}: at most {amount} {read_unit(body)}{per_study}."


def _approve(body: RowBody, state: State) -> str:
    # A noise dealer has no data set.
    what = f"may use {body['data']}" if body["data"] else "may have noise dealt"
    return f"{body['name']} {what}, {body['runs']} run{'s' if body['runs'] > 1 else ''}."


def _serve(body: RowBody, state: State) -> str:
    confirmed = ", which the steward confirmed" if body.get("confirmed") else ""
    return f"Served for {body['server']}{confirmed}; {body['mode']}."


def _charge(body: RowBody, state: State) -> str:
    if body["study"] == "lost":
        return f"{body['data']}: spending whose rows were lost, {_amount(body, state)}."
    n_releases, name = state.releases.get(body["allowance"], 0), state.names.get(body["study"], body["study"][:16])
    releases = f"{n_releases} of {body['n_releases']} releases made"
    return f"{name} on {body['data']}: {_amount(body, state)} by itself; {releases}."


def _amount(body: RowBody, state: State) -> str:
    """Say what one charge comes to in its own unit, at the delta of its data set's ceiling."""
    charge = next(entry.charge for entry in state.charges if entry.charge.allowance == body["allowance"])
    delta = state.ceilings[body["data"]].delta
    return f"epsilon {epsilon_text(spent_epsilon([charge], delta, charge.unit))} at delta {delta:g} {charge.unit.per}"


def _overlap(body: RowBody, state: State) -> str:
    share = percent(float(body["share"]))
    return f"{body['data']} shares {share} of its rows with {body['other']}; you accepted two budgets for them."


def _fingerprint(body: RowBody) -> str:
    return fingerprint_of(bytes.fromhex(body["identity"]))


_WORDS: dict[str, Callable[[RowBody, State], str]] = {
    "start": lambda body, _: f"Ledger of {body['site']} begun; identity {_fingerprint(body)}.",
    "ceiling": _ceiling,
    "approve": _approve,
    "deny": lambda body, _: f"{body['name']} was not approved.",
    "revoke": lambda body, _: f"The approval of {body['name']} was taken back.",
    "pin": lambda body, _: f"Identity of {body['site']}: {_fingerprint(body)}.",
    "coordinator": lambda body, _: f"Identity of the coordinator: {_fingerprint(body)}.",
    "serve": _serve,
    "deal": lambda body, state: f"Noise dealt to the sites of {state.names.get(body['study'], body['study'][:16])}.",
    "charge": _charge,
    "release": lambda body, _: f"Release {body['number'] + 1} of allowance {body['allowance'][:16]}.",
    "allow": lambda body, _: f"Studies may name analyses of the package {body['package']}.",
    "disallow": lambda body, _: f"Studies may no longer name analyses of the package {body['package']}.",
    "accept": lambda body, _: f"The steward accepted a ledger that lost rows: {body['reason']}",
    "overlap": _overlap,
    "note": lambda body, _: str(body.get("text", "")),
}
