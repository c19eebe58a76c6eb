"""One budget for one table: a data set is recognised by its rows, as far as they are the same to the last value.

Recognised are the same rows in another format or encoding, in another order, with named columns in another order or
with other names in the same order, and subsets of rows. Not recognised are the same people with a column left out,
added, rescaled, rounded or recoded, or with columns permuted that have no names or other ones: budgets belong to
tables, not yet to persons. About data sets that look alike the steward is asked (:mod:`dpcape.site.similar_data`). The
list is held by ``tests/site_folder/test_recognised.py``.

Fingerprints of rows are kept in the site's folder, keyed by the site's identity, and never leave it.
"""

from __future__ import annotations

import hmac
import io
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dpcape.core.errors import DamagedFile, DpcapeError, InvalidParameter
from dpcape.core.files import write_private
from dpcape.core.secure_sum.identity import Identity
from dpcape.pages.numbers import round_up
from dpcape.records.readers.files import fingerprint
from dpcape.records.readers.row_fingerprints import Fingerprints, overlap, row_fingerprints

LARGEST_OVERLAP = 0.01
"""Share of the smaller data set's rows that two data sets may have in common without the steward's acceptance."""


def require_one_budget(
    known: Mapping[str, Any], ceilings: Collection[str], name: str, path: Path, content: str
) -> None:
    """Refuse a file that is registered under another name, or a new name while a registered one has no file."""
    for other, entry in known.items():
        if other != name and (entry["path"] == str(path) or content in [entry["content"], *entry.get("earlier", [])]):
            remedy = "Register it under that name."
            raise InvalidParameter("A data set", "have one budget", f"one that is already {other!r}", remedy)
    forgotten = sorted(set(ceilings) - set(known))
    if forgotten and name not in forgotten:
        must, got = "be registered before a new one", f"no file for {forgotten[0]!r}, whose spending stands"
        raise InvalidParameter("every data set of the ledger", must, got, "Add it first, under its own name.")


class RowStore:
    """Fingerprints of the rows of a site's data sets, by the digest of the files they were in.

    Parameters
    ----------
    folder : Path
        Where they are kept; made when the first data set is registered.
    identity : Identity
        The site's, from which the key is derived.
    """

    def __init__(self, folder: Path, identity: Identity) -> None:
        self._folder = folder
        self._key = hmac.digest(identity.private_bytes(), b"dpcape row fingerprints 1", "sha256")

    def take(self, path: Path, content: str) -> Fingerprints:
        """Return the fingerprints of a data set, kept for later; ``content`` is the digest of its files."""
        stored = self.kept(content)
        if stored is not None:
            return stored
        try:
            fingerprints = row_fingerprints(path, self._key)
        except DpcapeError:
            raise
        except Exception as error:  # third-party readers may raise any exception
            why = f"{path.name!r} could not be read ({type(error).__name__})"
            raise DamagedFile("The data set was not registered", why, "Correct the file.") from error
        self._folder.mkdir(mode=0o700, exist_ok=True)
        packed = io.BytesIO()
        np.savez(packed, allow_pickle=False, **fingerprints)
        write_private(self._folder / f"{content}.npz", packed.getvalue())
        return fingerprints

    def kept(self, content: str) -> Fingerprints | None:
        """Return the fingerprints kept for files with this digest."""
        path = self._folder / f"{content}.npz"
        if not path.is_file():
            return None
        with np.load(path, allow_pickle=False) as packed:
            return dict(packed)


def shared_rows(
    store: RowStore, rows: Fingerprints, known: Mapping[str, Mapping[str, Any]], name: str
) -> dict[str, float]:
    """Return, for each other data set, the share of rows in common with what it holds or ever held."""
    shares = {}
    for other, entry in known.items():
        if other == name:
            continue
        shares[other] = max((overlap(rows, held) for held in _holdings(store, entry)), default=0.0)
    return shares


def _holdings(store: RowStore, entry: Mapping[str, Any]) -> list[Fingerprints]:
    """Return the fingerprints of what a data set held when it was registered, and of what its file holds now."""
    contents = [entry["content"], *entry.get("earlier", [])]
    fingerprints = [stored for stored in map(store.kept, contents) if stored is not None]
    path = Path(entry["path"])
    if holds_files(path):
        fingerprints.append(store.take(path, fingerprint(path)))
    return fingerprints


def holds_files(path: Path) -> bool:
    """Return whether a file, a folder or any file of a pattern exists."""
    return path.exists() or bool(list(path.parent.glob(path.name)))


def overlap_refused(name: str, other: str, share: float) -> InvalidParameter:
    """Return the refusal of a data set whose records have a budget already."""
    return InvalidParameter(
        "a data set",
        "have one budget",
        f"{name!r}, which shares {percent(share)} of its rows with {other!r} (allowed: {percent(LARGEST_OVERLAP)})",
        f"Register it under the name {other!r}, so that its spending counts. To give these records a second budget "
        "all the same, add --accept-overlap.",
    )


def percent(share: float) -> str:
    """Write a share as a percentage.

    Examples
    --------
    >>> percent(0.01), percent(1.0)
    ('1%', '100%')
    """
    return f"{round_up(100 * share, 3)}%"
