"""The data sets of a site's folder: where they are, and that the same records have one budget."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpcape.core.errors import DamagedFile, InvalidParameter
from dpcape.core.files import NAME_RULE, is_name, write_private
from dpcape.core.secure_sum.identity import Identity
from dpcape.site.folder_files import read_json
from dpcape.site.hash_chain import RowBody
from dpcape.site.ledger import Ceiling, State, unit_after

if TYPE_CHECKING:
    from dpcape.site.similar_data import Similar


class DataShelf(ABC):
    """The part of a site's folder that registers data sets."""

    path: Path
    identity: Identity

    @abstractmethod
    def state(self) -> State:
        """Return what the ledger says now."""

    @abstractmethod
    def set_ceiling(self, data: str, ceiling: Ceiling, *, seen: int | None = None) -> None:
        """Set or change a ceiling."""

    @abstractmethod
    def _append(self, kind: str, body: RowBody, seen: int | None = None) -> None:
        """Write a row of the ledger."""

    def add_data(
        self,
        name: str,
        path: str | Path,
        *,
        epsilon: float,
        delta: float,
        per_study: float | None = None,
        per: str | None = None,
        rows_per_subject: int | None = None,
        accept_overlap: bool = False,
        different_people: bool = False,
    ) -> None:
        """Register a data set with the ceiling of everything that may ever be learnt from it.

        A name that is known already stays with its spending; only where its file is may change.

        Parameters
        ----------
        name : str
            Name of the data set.
        path : str or Path
            Its file, folder or pattern of files.
        epsilon, delta, per_study : float
            The ceiling, and that of one study.
        per : str or None
            What the ceiling is about: "record" or "subject"; None keeps what is set, "record" at first.
        rows_per_subject : int or None
            Public largest number of records one subject owns; None keeps what is set.
        accept_overlap : bool
            Register records that another data set has too; the decision becomes a row of the ledger.
        different_people : bool
            Register a data set that looks like another one: the steward knows that it is of other people.
        """
        from dpcape.records.readers.files import fingerprint
        from dpcape.site.cohorts import holds_files, require_one_budget

        if not is_name(name):
            raise InvalidParameter("a data set's name", f"be {NAME_RULE}", repr(name[:80]))
        # Registering a name again without an optional setting must not silently drop that setting.
        now = self.state().ceilings.get(name)
        unit = unit_after(now, per, rows_per_subject)
        per_study = now.per_study if per_study is None and now is not None else per_study
        ceiling = Ceiling(float(epsilon), float(delta), per_study, unit)
        source = Path(path).absolute()
        if not holds_files(source):
            raise DamagedFile(f"The data set {str(path)!r} does not exist", remedy="Correct the path.")
        known, content = self.data_sets(), fingerprint(source)
        require_one_budget(known, self.state().ceilings, name, source, content)
        self._require_own_rows(name, known, source, content, accept_overlap)
        different = self._require_own_people(name, known, source, content, different_people)
        earlier = known.get(name, {}).get("earlier", [])
        if name in known and known[name]["content"] != content:
            earlier = [*earlier, known[name]["content"]]
            self._append("note", {"data": name, "text": f"{name} stands for a file with other content from here on."})
        # Remember earlier contents, so that those records cannot be registered again with a second budget.
        more = {"earlier": earlier, "different": different}
        known[name] = {"path": str(source), "content": content, **{key: value for key, value in more.items() if value}}
        write_private(self.path / "data.json", json.dumps(known, indent=1) + "\n")
        self.set_ceiling(name, ceiling)

    def _require_own_rows(self, name: str, known: Mapping[str, Any], source: Path, content: str, accept: bool) -> None:
        """Refuse rows that another data set has, in whatever file, unless the steward accepts two budgets."""
        from dpcape.site.cohorts import LARGEST_OVERLAP, RowStore, overlap_refused, shared_rows

        store, accepted = RowStore(self.path / "rows", self.identity), self.state().overlaps
        shares = shared_rows(store, store.take(source, content), known, name)
        new = {other: share for other, share in shares.items() if share > accepted.get((name, other), LARGEST_OVERLAP)}
        for other, share in new.items():
            if not accept:
                raise overlap_refused(name, other, share)
            self._append("overlap", {"data": name, "other": other, "share": repr(share)})

    def similar_data(self, name: str, path: str | Path) -> list[Similar]:
        """Return registered data sets that may be of the same people as a new one; the steward can tell."""
        from dpcape.records.readers.files import fingerprint
        from dpcape.site.cohorts import RowStore, holds_files
        from dpcape.site.similar_data import similar_data

        source, store = Path(path).absolute(), RowStore(self.path / "rows", self.identity)
        return similar_data(store, self.data_sets(), name, source, fingerprint(source)) if holds_files(source) else []

    def _require_own_people(
        self, name: str, known: Mapping[str, Any], source: Path, content: str, is_different: bool
    ) -> list[str]:
        """Refuse a data set that looks like another one until the steward states that its people are others."""
        from dpcape.site.similar_data import different_note, similar_refused

        similar = self.similar_data(name, source)
        if similar and not is_different:
            raise similar_refused(name, similar)
        for other in similar:
            self._append("note", {"data": name, "text": different_note(name, other.name)})
        before = known.get(name, {})
        different = before.get("different", []) if before.get("content") == content else []
        return sorted({*different, *(other.name for other in similar)})

    def data_sets(self) -> dict[str, dict[str, Any]]:
        """Return where data sets are."""
        remedy = "Restore it from a backup; or write {} into it and add every data set again under its own name."
        data_sets = read_json(self.path / "data.json", "hold data.json", remedy)
        for entry in data_sets.values():
            texts = [entry.get("path"), entry.get("content")] if isinstance(entry, dict) else [None]
            if not all(isinstance(text, str) for text in texts):
                must = "hold a path and a fingerprint per data set"
                raise InvalidParameter(f"data.json of {str(self.path)!r}", must, "a damaged file", remedy)
        return data_sets
