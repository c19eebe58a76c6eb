"""A site's folder: its identity, its ledger, its data sets, and what its steward approved.

::

    site.json        name of the site and where its keys are                                  (0600)
    ledger.sqlite    charges, ceilings, approvals, pinned identities: one chain               (0600)
    data.json        where data sets are; never leaves the site                               (0600)
    rows/            keyed fingerprints of rows, to recognise records; never leaves the site  (0700)
    peers.json       heads of the other sites' ledgers, as last seen                          (0600)
    studies/         studies that were reviewed here, by digest                               (0700)
    keys/            identity.key, tls.key and ledger.head; better on another disk (``keys=``) (0700)
    vault.log        what the process that serves studies says; may speak of data              (0600)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from dpcape.core.enclosed import Contributor
from dpcape.core.errors import Failed, InvalidParameter, LedgerRefused, ProtocolError
from dpcape.core.facts import PublicFacts
from dpcape.core.files import NAME_RULE, is_name, write_private
from dpcape.core.noise import NoiseSource, OsNoise
from dpcape.core.peer_heads import PeerHeads
from dpcape.core.privacy.ledger import Charge
from dpcape.core.secure_sum.identity import Identity
from dpcape.core.site import Site
from dpcape.core.statistic import AnyStatistic
from dpcape.site.approval import ApprovedStudy
from dpcape.site.chain_head import Head
from dpcape.site.data_shelf import DataShelf
from dpcape.site.folder_files import identity_in, read_json
from dpcape.site.foreign.own_workers import OwnWorkers
from dpcape.site.hash_chain import HashChain, RowBody
from dpcape.site.ledger import Ceiling, SiteLedger, State, check_approved, check_seen, confirm
from dpcape.site.lost_rows import lost_rows
from dpcape.site.study_shelf import StudyShelf
from dpcape.study.study import Study

FORMAT = "dpcape site 1"
# The name under which a site pins the coordinator, the only sender of requests.
COORDINATOR = "coordinator"
OLD_ROWS = (
    "This ledger has rows that were written before rows stated their unit. They are taken as per record. If a study "
    "among them was per subject, its figure per subject is smaller than shown. For a data set in which a person owns "
    "several records, set a ceiling per subject: dpcape site budget DATA --per subject --rows-per-subject K."
)


class SiteFolder(StudyShelf, DataShelf):
    """The folder of one site, for its steward and for the process that serves studies.

    Parameters
    ----------
    path : str or Path
        A folder made by :meth:`create`.

    Edge cases
    ----------
    ===========================================  =====================================================
    ledger older than the head beside the key    every use refuses; :meth:`accept_head` is the way out
    study not approved, or changed since         ``site_for`` refuses before a record is read
    same records registered twice                refused: they would have two budgets
    ===========================================  =====================================================
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        about = read_json(
            self.path / "site.json",
            "be made by `dpcape site init`",
            "Name the folder with --folder, or in the variable DPCAPE_SITE.",
        )
        if about.get("format") != FORMAT:
            raise InvalidParameter("A site folder", f"be {FORMAT!r}", repr(about.get("format")), "Update dpcape.")
        if not is_name(about.get("name")) or not isinstance(about.get("keys"), str):
            must = "name the site and its keys"
            raise InvalidParameter(repr(str(self.path / "site.json")), must, "a damaged file", "Restore it.")
        self.name: str = about["name"]
        self.keys = self.path / about["keys"]
        self.identity = identity_in(self.keys / "identity.key")
        self.chain = HashChain(self.path / "ledger.sqlite", self.keys / "ledger.head")
        self._workers = OwnWorkers(lambda: self.state().packages)

    @classmethod
    def create(cls, path: str | Path, *, name: str, keys: str | Path | None = None) -> SiteFolder:
        """Make the folder, a new identity and an empty ledger; refuse to write into an existing site folder."""
        folder = Path(path)
        if not is_name(name) or name == COORDINATOR:
            raise InvalidParameter("a site's name", f"be {NAME_RULE}, and not {COORDINATOR}", repr(name[:80]))
        if (folder / "site.json").exists():
            raise InvalidParameter("A site folder", "be new", f"{str(path)!r}, which exists", "Choose another path.")
        key_folder = folder / "keys" if keys is None else Path(keys).absolute()
        for taken in (key_folder / "identity.key", key_folder / "ledger.head", folder / "ledger.sqlite"):
            # Never overwrite: the file may be the only copy of another site's key, or left by an interrupted init.
            if taken.exists():
                remedy = "Choose another folder or another --keys."
                raise Failed("The site was not made", f"{str(taken)!r} exists", remedy)
        for new_folder in (folder, key_folder, folder / "studies"):
            new_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            new_folder.chmod(0o700)
        identity = Identity.generate()
        write_private(key_folder / "identity.key", identity.private_bytes().hex() + "\n")
        body = {"site": name, "identity": identity.public.hex()}
        HashChain.create(folder / "ledger.sqlite", key_folder / "ledger.head", body).close()
        write_private(folder / "data.json", "{}\n")
        about = {"format": FORMAT, "name": name, "keys": "keys" if keys is None else str(key_folder)}
        # Written last: a folder with site.json is complete.
        write_private(folder / "site.json", json.dumps(about, indent=1) + "\n")
        return cls(folder)

    def state(self) -> State:
        """Return what the ledger says now."""
        return State.of(self.chain.entries())

    def pinned(self) -> dict[str, bytes]:
        """Return the public keys of the consortium's sites, this one's included."""
        return dict(self.state().pins)

    def coordinator(self) -> bytes:
        """Return the pinned public key of the coordinator, whose requests the site takes."""
        key = self.state().coordinator
        if key is None:
            raise LedgerRefused(
                f"{self.name} serves nobody",
                "no coordinator is pinned",
                f"Compare the fingerprint with the coordinator, then run: dpcape site pin {COORDINATOR} PUBLIC_KEY.",
            )
        return key

    def note_serving(self, settings: RowBody) -> None:
        """Make the settings of a start a row of the ledger, unless they are those of the start before."""
        if self.last_served() != settings:
            self._append("serve", settings)

    def last_served(self) -> RowBody:
        """Return the settings of the last start; empty if there was none."""
        return next((entry.body for entry in reversed(self.chain.entries()) if entry.kind == "serve"), {})

    def engine_port(self) -> int | None:
        """Return the port that the engine of the last start may connect to, on any machine; None if there was none.

        A ledger that cannot be read says nothing; no engine is started on it either.
        """
        try:
            port = str(self.last_served().get("server", "")).rpartition(":")[2]
        except LedgerRefused:
            return None
        return int(port) if port.isdigit() else None

    def pin(self, name: str, public_key_hex: str) -> None:
        """Fix the identity of another site, or of the coordinator; a change is a row of the ledger like any other."""
        try:
            public = bytes.fromhex(public_key_hex)
        except ValueError:
            public = b""
        if len(public) != 32 or not is_name(name):
            got = f"an invalid key or name, {name!r}"
            raise InvalidParameter("An identity", "be 64 hexadecimal digits", got, "Copy it again.")
        if name == self.name and public != self.identity.public:
            raise InvalidParameter(f"The identity of {name!r}", "be its own", "a different key", "Pin its own.")
        if name == COORDINATOR:
            self._append("coordinator", {"identity": public.hex()})
        else:
            self._append("pin", {"site": name, "identity": public.hex()})

    def news(self) -> list[str]:
        """Return the notices that the steward has not seen yet; showing them is recorded as a row of the ledger."""
        state = self.state()
        if not state.has_old_rows or "units" in state.notices:
            return []
        self._append("note", {"text": OLD_ROWS, "told": "units"})
        return [OLD_ROWS]

    def set_ceiling(self, data: str, ceiling: Ceiling, *, seen: int | None = None) -> None:
        """Set or change a ceiling; the change is a row of the ledger. ``seen`` as in :meth:`approve`."""
        if data not in self.data_sets():
            raise InvalidParameter("a data set", f"be one of {sorted(self.data_sets())}", repr(data), "Add it first.")
        # Raises if an existing charge cannot be converted to the new unit.
        for charge in self.state().charges_of(data):
            charge.unit.factor(ceiling.unit)
        self._append("ceiling", {"data": data, **ceiling.row()}, seen)

    def approve(self, study: Study, data: str | None = None, *, runs: int = 1, seen: int | None = None) -> None:
        """Approve a study, bound to its digest, for one data set and a number of runs.

        ``seen`` is the ledger's ``last_decision`` that the steward looked at: if there is a newer one by now,
        nothing is written. It is checked under the lock of the ledger, so an approval cannot be made twice.
        """
        self._require_member(study)
        self.require_accepted(study)
        # A noise dealer needs no data set.
        chosen = "" if self.name == study.dealer else self.chosen(data)
        if isinstance(runs, bool) or not isinstance(runs, int) or runs < 1:
            raise InvalidParameter("runs", "be a whole number of at least 1", repr(runs), "Write for example 1.")
        # Determine now, while the steward is present, which statistics the analysis requests.
        ApprovedStudy(study)
        # A study per record needs a ceiling that states enough records per subject.
        if chosen and (reason := self.state().ceilings[chosen].uncounted(self.real_charge(study, chosen))):
            raise LedgerRefused("The study was not approved", remedy=reason)
        digest = self.keep(study)
        self._append("approve", {"study": digest, "name": study.name, "data": chosen, "runs": runs}, seen)

    def deny(self, study: Study, *, seen: int | None = None) -> None:
        """Record that a study was refused. ``seen`` as in :meth:`approve`."""
        self._append("deny", {"study": self.keep(study), "name": study.name}, seen)

    def revoke(self, study: Study, *, seen: int | None = None) -> None:
        """Take an approval back; charges stay. ``seen`` as in :meth:`approve`."""
        digest = study.digest()
        if digest not in self.state().approvals:
            raise Failed(f"{study.name!r} was not revoked", "it is not approved", "See: dpcape site log.")
        self._append("revoke", {"study": digest, "name": study.name}, seen)

    def present(self, study: Study) -> str:
        """Keep a study of this site so that it waits for a decision; return its digest. Nothing is read or spent."""
        self._require_member(study)
        return self.keep(study)

    def ledger(self, study: Study, data: str) -> SiteLedger:
        """Return the ledger of a data set as a study spends from it."""
        return SiteLedger(self.chain, data=data, study=study.digest())

    def site_for(
        self,
        study: Study,
        data_name: str | None = None,
        *,
        noise: NoiseSource | None = None,
        allowance: str = "",
        separation: str = "",
        contributor: Contributor | None = None,
    ) -> Site:
        """Return the site that answers for an approved study; approval and ledger are checked before data is read.

        ``noise`` is for tests: with a Replay every result says "replayable: no protection". ``allowance`` names one
        that goes on after a crash, under its own charge. ``separation`` names the mode in which an engine is kept from
        the records. ``contributor`` runs code of other packages; without one it is refused.
        """
        self._require_member(study)
        self.require_accepted(study)
        state = self.state()
        data = check_approved(state, study.digest(), data_name, allowance=allowance)
        missing = sorted(set(study.participants) - set(self.pinned()))
        if missing:
            raise ProtocolError("The study was refused", f"{missing[0]} is not pinned at {self.name}", "Pin it.")
        ledger = self.ledger(study, data)
        charge = study.charge(self.name)
        if allowance not in state.releases:
            ledger.check(charge)
        stated = state.unit_of(data).rows_per_subject
        records = study.records_for(self.name, self.data_sets()[data]["path"], rows_per_subject=stated)
        if allowance not in state.releases:
            # Checked before the site answers, with the same refusal whether the number is missing or too small.
            ledger.check(replace(charge, longest=getattr(records, "longest_series", 0)))
        site = Site(
            self.name,
            records,
            ledger=ledger,
            identity=self.identity,
            noise=OsNoise() if noise is None else noise,
            approval=ApprovedStudy(study),
            separation=separation,
            contributor=contributor,
            peers=PeerHeads(self.path / "peers.json"),
            laws=_searched,
        )
        site.pin(self.pinned())
        return site

    def confirm(self, length: int, head: str) -> None:
        """Refuse if the ledger does not contain a head that was seen before."""
        confirm(self.chain.entries(), length, head)

    def accept_head(self, *, reason: str, lost: Mapping[str, tuple[float, float]], seen: Head | None = None) -> None:
        """Accept a ledger restored from a backup: the decision, and what was spent since the backup, become rows.

        Parameters
        ----------
        reason : str
            Why, in the steward's words.
        lost : mapping
            Data set -> (epsilon, delta) that may have been spent in the lost rows, per the unit of its ceiling; none is
            an empty mapping.
        seen : Head or None
            A head the coordinator saw and the ledger lacks; None for the copy beside the identity key.
        """
        if not reason.strip():
            raise Failed("A ledger that lost rows is accepted only with a reason", remedy="Write --reason.")
        disagreement = self.chain.disagreement()
        if disagreement is None and seen is None:
            raise Failed("There is nothing to accept: the ledger contains its head", remedy="Omit --accept-head.")
        gone = seen or (Head(0, "") if disagreement is None else disagreement[1])
        unknown = sorted(set(lost) - set(self.data_sets()))
        if unknown:
            raise InvalidParameter("a data set", f"be one of {sorted(self.data_sets())}", repr(unknown[0]))
        body = {"length": gone.length, "head": gone.hash, "reason": reason.strip()}
        self.chain.accept(body, lost_rows(State.of(self.chain.rows_on_disk()), lost))

    def real_charge(self, study: Study, data: str) -> Charge:
        """Return the charge of a study with the length of the data set's longest series, where its ceiling needs it.

        Data that cannot be read are left for later: a run checks the length before it charges.
        """
        charge, unit = study.charge(self.name), self.state().unit_of(data)
        if study.data.kind != "subjects" or charge.unit.kind == "subject" or unit.kind == "record":
            return charge
        from dpcape.site.measured import measured

        size = measured(study, Path(self.data_sets()[data]["path"]), unit.rows_per_subject)
        return charge if size is None else replace(charge, longest=size.longest)

    def _append(self, kind: str, body: RowBody, seen: int | None = None) -> None:
        self.chain.append(kind, body, check=lambda entries: None if seen is None else check_seen(entries, seen))

    def _require_member(self, study: Study) -> None:
        if self.name not in study.participants:
            raise InvalidParameter("a study", f"name the site {self.name!r}", ", ".join(study.participants))

    def chosen(self, data: str | None) -> str:
        """Return the data set meant: the one named, or the only one."""
        known = sorted(self.data_sets())
        chosen = known[0] if data is None and len(known) == 1 else data
        if not known:
            raise Failed("The site has no data set", remedy="Register one with: dpcape site add.")
        if chosen not in known:
            raise InvalidParameter("a data set", f"be one of {known}", repr(chosen), "Name one with --data.")
        if chosen not in self.state().ceilings:
            raise Failed(f"The data set {chosen!r} has no ceiling", remedy=f"Set it: dpcape site budget {chosen}.")
        return chosen


def _searched(statistic: AnyStatistic, facts: PublicFacts) -> object:
    """Search for records that refute a statistic of another package; loaded only where there is one."""
    from dpcape.site.statistic_laws import require_laws

    return require_laws(statistic, facts)
