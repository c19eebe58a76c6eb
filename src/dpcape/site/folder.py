"""A site's folder: its identity, its ledger, its data sets, and what its steward approved.

::

    site.json        name of the site and where its keys are                                  (0600)
    ledger.sqlite    charges, ceilings, approvals, pinned identities: one chain               (0600)
    data.json        where data sets are; never leaves the site                               (0600)
    studies/         studies that were reviewed here, by digest                               (0700)
    keys/            identity.key, tls.key and ledger.head; better on another disk (``keys=``) (0700)
    vault.log        what the process that serves studies says; may speak of data              (0600)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpcape.errors import InvalidParameter, LedgerRefused, ProtocolError
from dpcape.files import NAME_RULE, is_name, write_private
from dpcape.noise import NoiseSource, OsNoise
from dpcape.privacy.terms import Terms
from dpcape.secure_sum import Identity
from dpcape.site.chain_head import Head
from dpcape.site.hash_chain import HashChain
from dpcape.site.ledger import Ceiling, SiteLedger, State, check_approved, check_seen, confirm
from dpcape.site.site import Site
from dpcape.study import Study
from dpcape.transport.messages import Request

FORMAT = "dpcape site 1"
# The name under which a site pins whoever may send it requests.
COORDINATOR = "coordinator"


class SiteFolder:
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
    same file registered twice                   refused: it would have two budgets
    ===========================================  =====================================================
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        about = _read_json(
            self.path / "site.json",
            "a site folder must be made by `dpcape site init`",
            "Name the folder with --folder, or in the variable DPCAPE_SITE.",
        )
        if about.get("format") != FORMAT:
            raise InvalidParameter(f"a site folder must be of format {FORMAT!r}; got {about.get('format')!r}.")
        self.name: str = about["name"]
        self.keys = self.path / about["keys"]
        _check_private(self.keys / "identity.key")
        self.identity = Identity.from_private_bytes(bytes.fromhex((self.keys / "identity.key").read_text().strip()))
        self.chain = HashChain(self.path / "ledger.sqlite", self.keys / "ledger.head")

    @classmethod
    def create(cls, path: str | Path, *, name: str, keys: str | Path | None = None) -> SiteFolder:
        """Make the folder, a new identity and an empty ledger; refuse to write into an existing site folder."""
        folder = Path(path)
        if not is_name(name) or name == COORDINATOR:
            raise InvalidParameter(f"a site's name must be {NAME_RULE}, and not {COORDINATOR}; got {name[:80]!r}.")
        if (folder / "site.json").exists():
            raise InvalidParameter(f"a site folder must be new; got {str(path)!r}, which is one already.")
        where = folder / "keys" if keys is None else Path(keys).absolute()
        for taken in (where / "identity.key", where / "ledger.head", folder / "ledger.sqlite"):
            # Never written over: it may be the only copy of another site's key, or what an interrupted init left.
            if taken.exists():
                raise InvalidParameter(
                    f"a new site must have its folder and keys to itself; got {str(taken)!r}, which exists. "
                    "Choose another folder or another --keys."
                )
        for place in (folder, where, folder / "studies"):
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            place.chmod(0o700)
        identity = Identity.generate()
        write_private(where / "identity.key", identity.private_bytes().hex() + "\n")
        body = {"site": name, "identity": identity.public.hex()}
        HashChain.create(folder / "ledger.sqlite", where / "ledger.head", body).close()
        write_private(folder / "data.json", "{}\n")
        about = {"format": FORMAT, "name": name, "keys": "keys" if keys is None else str(where)}
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
                f"{self.name} serves nobody because no coordinator is pinned. Compare the fingerprint with the "
                f"coordinator, then run: dpcape site pin {COORDINATOR} PUBLIC_KEY."
            )
        return key

    def note_serving(self, settings: dict[str, Any]) -> None:
        """Make the settings of a start a row of the ledger, unless they are those of the start before."""
        before = [entry.body for entry in self.chain.entries() if entry.kind == "serve"][-1:]
        if before != [settings]:
            self._append("serve", settings)

    def pin(self, name: str, public_key_hex: str) -> None:
        """Fix the identity of another site, or of the coordinator; a change is a row of the ledger like any other."""
        try:
            public = bytes.fromhex(public_key_hex)
        except ValueError:
            public = b""
        if len(public) != 32 or not is_name(name):
            raise InvalidParameter(f"an identity must be 64 hexadecimal digits for a site name; got one for {name!r}.")
        if name == self.name and public != self.identity.public:
            raise InvalidParameter(f"the pinned identity of {name!r} must be its own; got another.")
        if name == COORDINATOR:
            self._append("coordinator", {"identity": public.hex()})
            return
        self._append("pin", {"site": name, "identity": public.hex()})

    def add_data(
        self, name: str, path: str | Path, *, epsilon: float, delta: float, per_study: float | None = None
    ) -> None:
        """Register a data set with the ceiling of everything that may ever be learnt from it.

        A name that is known already stays with its spending; only where its file is may change.
        """
        from dpcape.records.readers.files import fingerprint

        if not is_name(name):
            raise InvalidParameter(f"a data set's name must be {NAME_RULE}; got {name[:80]!r}.")
        ceiling = Ceiling(float(epsilon), float(delta), per_study)
        where = Path(path).absolute()
        if not where.exists() and not list(where.parent.glob(where.name)):
            raise InvalidParameter(f"a data set must exist; got {str(path)!r}. Correct the path.")
        known, content = self.data_sets(), fingerprint(where)
        self._require_one_budget(name, known, where, content)
        if per_study is None and (now := self.state().ceilings.get(name)) is not None:
            # Named again without it, a data set must not lose its ceiling of one study unnoticed.
            ceiling = Ceiling(ceiling.epsilon, ceiling.delta, now.per_study)
        earlier = known.get(name, {}).get("earlier", [])
        if name in known and known[name]["content"] != content:
            earlier = [*earlier, known[name]["content"]]
            self._append("note", {"data": name, "text": f"{name} stands for a file with other content from here on."})
        # What it held before is remembered: those records must not come back with a budget of their own.
        known[name] = {"path": str(where), "content": content, **({"earlier": earlier} if earlier else {})}
        write_private(self.path / "data.json", json.dumps(known, indent=1) + "\n")
        self.set_ceiling(name, ceiling)

    def _require_one_budget(self, name: str, known: Mapping[str, Any], where: Path, content: str) -> None:
        for other, entry in known.items():
            if other != name and (
                entry["path"] == str(where) or content in [entry["content"], *entry.get("earlier", [])]
            ):
                raise InvalidParameter(f"a data set must have one budget; got one that is already {other!r}.")
        forgotten = sorted(set(self.state().ceilings) - set(known))
        if forgotten and name not in forgotten:
            raise InvalidParameter(
                f"every data set of the ledger must be registered before a new one; got no file for {forgotten[0]!r}, "
                "whose spending stands. Add it first, under its own name."
            )

    def data_sets(self) -> dict[str, dict[str, Any]]:
        """Return where data sets are."""
        return _read_json(
            self.path / "data.json",
            "a site folder must hold data.json",
            "Restore it from a backup; or write {} into it and add every data set again under its own name.",
        )

    def set_ceiling(self, data: str, ceiling: Ceiling, *, seen: int | None = None) -> None:
        """Set or change a ceiling; the change is a row of the ledger. ``seen`` as in :meth:`approve`."""
        if data not in self.data_sets():
            raise InvalidParameter(f"a data set must be one of {sorted(self.data_sets())}; got {data!r}. Add it first.")
        per_study = None if ceiling.per_study is None else repr(ceiling.per_study)
        body = {"data": data, "epsilon": repr(ceiling.epsilon), "delta": repr(ceiling.delta), "per_study": per_study}
        self._append("ceiling", body, seen)

    def keep(self, study: Study) -> str:
        """Keep a copy of a study and of the files it names, by digest; return the digest."""
        digest = study.digest()
        folder = self.path / "studies" / digest
        if not (folder / "study.toml").exists():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for file in study.data.files:
                copy = folder / file.relative_to(study.folder)
                copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                write_private(copy, file.read_bytes())
            write_private(folder / "study.toml", study.text)
        if Study.load(folder / "study.toml").digest() != digest:
            raise ProtocolError(
                "a study's files must not change while it is reviewed; got other ones. Review it again."
            )
        return digest

    def study(self, reference: str) -> Study:
        """Return a kept study by its name, its digest, or the first digits of its digest."""
        known = {entry.name: entry for entry in sorted((self.path / "studies").iterdir())}
        matching = [entry for digest, entry in known.items() if len(reference) >= 8 and digest.startswith(reference)]
        studies = [_kept(entry) for entry in matching or known.values()]
        found = studies if matching else [study for study in studies if study.name == reference]
        if len(found) != 1:
            raise InvalidParameter(
                f"a study must be a file, or one that was reviewed here; got {reference!r}, which matches "
                f"{len(found)}. Give the path of the study file, or its digest."
            )
        return found[0]

    def approve(self, study: Study, data: str | None = None, *, runs: int = 1, seen: int | None = None) -> None:
        """Approve a study, bound to its digest, for one data set and a number of runs.

        ``seen`` is the ledger's ``last_decision`` that the steward looked at: if there is a newer one by now,
        nothing is written. It is checked under the lock of the ledger, so an approval cannot be made twice.
        """
        self._require_member(study)
        chosen = self.chosen(data)
        if isinstance(runs, bool) or not isinstance(runs, int) or runs < 1:
            raise InvalidParameter(f"runs must be a whole number of at least 1; got {runs!r}.")
        # Finds out now, with the steward present, what the analysis will ask for.
        _Approved(study)
        digest = self.keep(study)
        self._append("approve", {"study": digest, "name": study.name, "data": chosen, "runs": runs}, seen)

    def deny(self, study: Study, *, seen: int | None = None) -> None:
        """Record that a study was refused. ``seen`` as in :meth:`approve`."""
        self._append("deny", {"study": self.keep(study), "name": study.name}, seen)

    def revoke(self, study: Study, *, seen: int | None = None) -> None:
        """Take an approval back; charges stay. ``seen`` as in :meth:`approve`."""
        digest = study.digest()
        if digest not in self.state().approvals:
            raise InvalidParameter(f"a study must be approved to be revoked; got {study.name!r}, which is not.")
        self._append("revoke", {"study": digest, "name": study.name}, seen)

    def present(self, study: Study) -> str:
        """Keep a study of this site so that it waits for a decision; return its digest. Nothing is read or spent."""
        self._require_member(study)
        return self.keep(study)

    def ledger(self, study: Study, data: str) -> SiteLedger:
        """Return the ledger of a data set as a study spends from it."""
        return SiteLedger(self.chain, data=data, study=study.digest())

    def site_for(
        self, study: Study, data_name: str | None = None, *, noise: NoiseSource | None = None, separation: str = ""
    ) -> Site:
        """Return the site that answers for an approved study; approval and ledger are checked before data is read.

        ``noise`` is for tests: with a Replay every result says "replayable: no protection". ``separation`` names the
        mode in which an engine is kept from the records.
        """
        self._require_member(study)
        data = check_approved(self.state(), study.digest(), data_name)
        missing = sorted(set(study.sites) - set(self.pinned()))
        if missing:
            raise ProtocolError(f"every site of a study must be pinned at {self.name}; got none for {missing[0]}.")
        ledger = self.ledger(study, data)
        ledger.check(study.charge(self.name))
        records = study.records_for(self.name, self.data_sets()[data]["path"])
        site = Site(
            self.name,
            records,
            ledger=ledger,
            identity=self.identity,
            noise=OsNoise() if noise is None else noise,
            approval=_Approved(study),
            separation=separation,
        )
        site.pin(self.pinned())
        return site

    def confirm(self, length: int, head: str) -> None:
        """Refuse if the ledger does not contain a head that somebody saw."""
        confirm(self.chain.entries(), length, head)

    def accept_head(self, *, reason: str, lost: Mapping[str, tuple[float, float]], seen: Head | None = None) -> None:
        """Go on after a backup was restored: the decision, and what was spent since the backup, become rows.

        Parameters
        ----------
        reason : str
            Why, in the steward's words.
        lost : mapping
            Data set -> (epsilon, delta) that may have been spent in the lost rows; none is an empty mapping.
        seen : Head or None
            A head the coordinator saw and the ledger lacks; None for the copy beside the identity key.
        """
        from dpcape.site.ledger import lost_body, lost_charge

        if not reason.strip():
            raise InvalidParameter("a reason must be given to accept a ledger that lost rows; got none.")
        disagreement = self.chain.disagreement()
        if disagreement is None and seen is None:
            raise InvalidParameter("the ledger and its head must disagree to be accepted; they agree.")
        copied = disagreement[1] if disagreement is not None else Head(0, "")
        gone = seen or copied
        charges = {name: lost_charge(*amount) for name, amount in lost.items()}
        unknown = sorted(set(charges) - set(self.data_sets()))
        if unknown:
            raise InvalidParameter(f"a data set must be one of {sorted(self.data_sets())}; got {unknown[0]!r}.")
        body = {"length": gone.length, "head": gone.hash, "reason": reason.strip()}
        self.chain.accept(body, [("charge", lost_body(name, charge)) for name, charge in charges.items()])

    def _append(self, kind: str, body: dict[str, Any], seen: int | None = None) -> None:
        self.chain.append(kind, body, check=lambda entries: None if seen is None else check_seen(entries, seen))

    def _require_member(self, study: Study) -> None:
        if self.name not in study.sites:
            raise InvalidParameter(f"a study must name the site {self.name!r}; got {', '.join(study.sites)}.")

    def chosen(self, data: str | None) -> str:
        """Return the data set meant: the one named, or the only one."""
        known = sorted(self.data_sets())
        chosen = known[0] if data is None and len(known) == 1 else data
        if not known:
            raise InvalidParameter("a site must have a data set; got none. Register one: dpcape site add.")
        if chosen not in known:
            raise InvalidParameter(f"a data set must be one of {known}; got {chosen!r}. Name one with --data.")
        if chosen not in self.state().ceilings:
            raise InvalidParameter(
                f"a data set must have a ceiling; got none for {chosen!r}. Set it: dpcape site budget {chosen}."
            )
        return chosen


class _Approved:
    """What an approved study lets through (``dpcape.site.site.Approval``)."""

    def __init__(self, study: Study) -> None:
        from dpcape.planning.rehearsal import statistic_names

        self._study, self._statistics = study, statistic_names(study)

    def check_terms(self, terms: Terms) -> None:
        self._study.check_terms(terms)

    def check_request(self, request: Request) -> None:
        if request.statistic not in self._statistics:
            raise ProtocolError(
                f"a release must be of what the approved study computes ({', '.join(sorted(self._statistics))}); "
                f"got {request.statistic!r}."
            )


def _read_json(path: Path, requirement: str, remedy: str) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        message = f"{requirement}; got {str(path.parent)!r} ({type(error).__name__}). {remedy}"
        raise InvalidParameter(message) from error
    if not isinstance(content, dict):
        raise InvalidParameter(f"{requirement}; got {str(path.parent)!r}. {remedy}")
    return content


def _check_private(path: Path) -> None:
    """Refuse a key that others on the machine can read."""
    if not path.is_file():
        raise InvalidParameter(f"the identity key must be at {str(path)!r}; got none. Mount the disk that holds it.")
    if path.stat().st_mode & 0o077:
        raise LedgerRefused(f"the identity key must be readable by its owner alone; got wider. Run: chmod 600 {path}.")


def _kept(entry: Path) -> Study:
    """Load a kept study, which must still be what was kept."""
    study = Study.load(entry / "study.toml")
    if study.digest() != entry.name:
        raise InvalidParameter(
            f"a kept study must be as it was reviewed; got another digest in {entry}. "
            "Remove that folder and review the study file again."
        )
    return study
