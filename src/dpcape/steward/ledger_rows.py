"""The rows of a ledger in words."""

from __future__ import annotations

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
    found: list[LedgerRow] = []
    for entry in reversed(ledger.entries):
        wanted = (releases or entry.kind != "release") and (not before or entry.number < before)
        if wanted and (not data or entry.body.get("data") == data):
            found.append(_line(entry, ledger.state))
        if len(found) == limit:
            break
    return found


def _line(entry: Entry, state: State) -> LedgerRow:
    text = _WORDS[entry.kind](entry.body, state) if entry.kind in _WORDS else ""
    return LedgerRow(
        entry.number,
        entry.time.replace("T", " ").replace("+00:00", " UTC"),
        entry.kind,
        text,
        str(entry.body.get("study", "")),
        entry.hash,
    )


def _start(body: RowBody, state: State) -> str:
    return f"Ledger of {body['site']} begun; identity {_fingerprint(body)}."


def _ceiling(body: RowBody, state: State) -> str:
    per_study = "" if body["per_study"] is None else f", one study at most {float(body['per_study']):g}"
    amount = f"epsilon {float(body['epsilon']):g} at delta {float(body['delta']):g}"
    return f"{body['data']}: at most {amount} {read_unit(body)}{per_study}."


def _approve(body: RowBody, state: State) -> str:
    # A noise dealer has no data set.
    what = f"may use {body['data']}" if body["data"] else "may have noise dealt"
    return f"{body['name']} {what}, {body['runs']} run{'s' if body['runs'] > 1 else ''}."


def _deny(body: RowBody, state: State) -> str:
    return f"{body['name']} was not approved."


def _revoke(body: RowBody, state: State) -> str:
    return f"The approval of {body['name']} was taken back."


def _pin(body: RowBody, state: State) -> str:
    return f"Identity of {body['site']}: {_fingerprint(body)}."


def _coordinator(body: RowBody, state: State) -> str:
    return f"Identity of the coordinator: {_fingerprint(body)}."


def _serve(body: RowBody, state: State) -> str:
    return f"Served for {body['server']}; {body['mode']}."


def _deal(body: RowBody, state: State) -> str:
    return f"Noise dealt to the sites of {state.names.get(body['study'], body['study'][:16])}."


def _charge(body: RowBody, state: State) -> str:
    if body["study"] == "lost":
        return f"{body['data']}: spending whose rows were lost, {_amount(body, state)}."
    made, allowed = state.releases.get(body["allowance"], 0), body["n_releases"]
    name = state.names.get(body["study"], body["study"][:16])
    return f"{name} on {body['data']}: {_amount(body, state)} by itself; {made} of {allowed} releases made."


def _amount(body: RowBody, state: State) -> str:
    """Say what one charge comes to in its own unit, at the delta of its data set's ceiling."""
    charge = next(entry.charge for entry in state.charges if entry.charge.allowance == body["allowance"])
    delta = state.ceilings[body["data"]].delta
    return f"epsilon {epsilon_text(spent_epsilon([charge], delta, charge.unit))} at delta {delta:g} {charge.unit.per}"


def _release(body: RowBody, state: State) -> str:
    return f"Release {body['number'] + 1} of allowance {body['allowance'][:16]}."


def _allow(body: RowBody, state: State) -> str:
    return f"Studies may name analyses of the package {body['package']}."


def _disallow(body: RowBody, state: State) -> str:
    return f"Studies may no longer name analyses of the package {body['package']}."


def _accept(body: RowBody, state: State) -> str:
    return f"The steward accepted a ledger that lost rows: {body['reason']}"


def _overlap(body: RowBody, state: State) -> str:
    share = percent(float(body["share"]))
    return f"{body['data']} shares {share} of its rows with {body['other']}; you accepted two budgets for them."


def _note(body: RowBody, state: State) -> str:
    return str(body.get("text", ""))


def _fingerprint(body: RowBody) -> str:
    return fingerprint_of(bytes.fromhex(body["identity"]))


_WORDS = {
    "start": _start,
    "ceiling": _ceiling,
    "approve": _approve,
    "deny": _deny,
    "revoke": _revoke,
    "pin": _pin,
    "coordinator": _coordinator,
    "serve": _serve,
    "deal": _deal,
    "charge": _charge,
    "release": _release,
    "allow": _allow,
    "disallow": _disallow,
    "accept": _accept,
    "overlap": _overlap,
    "note": _note,
}
