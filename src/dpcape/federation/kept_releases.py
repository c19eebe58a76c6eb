"""Releases on disk: what was paid for survives a crash, and the result can be rebuilt from it for free.

::

    allowance.kept      the public terms, and how the sites described themselves
    release-0000.kept   one release: what was asked, who finished, and the noisy sum

Everything here has left the sites under noise. Each file carries its own digest and appears complete or not at all.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import shutil
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np

from dpcape.core.enclosed import Enclosure
from dpcape.core.errors import DamagedFile, Failed, InvalidMessage, InvalidParameter, ProtocolError
from dpcape.core.files import sync_folder, write_private
from dpcape.core.messages import Array, Request
from dpcape.core.privacy.terms import Terms
from dpcape.core.protocols.protocol import Outcome

_MAGIC = b"dpcape kept releases 1\n"
_ALLOWANCE = "allowance.kept"
_NAME = re.compile(r"release-(\d{4,})\.kept")
# Disk space reserved for the model, the report and the log.
_SPARE_BYTES = 32 * 2**20
_Kept = TypeVar("_Kept")
# Tolerance for public values of a request: linear algebra rounds differently on other machines.
_TOLERANCE = 1e-6

Public = dict[str, int | float | str | bool | Array]


class KeptAllowance(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An allowance as it was opened: its terms, each site's description, and how code of other packages is run.

    ``dealers`` holds the description of the noise dealer, if there is one.
    """

    terms: Terms
    described: dict[str, bytes]
    enclosure: Enclosure | None = None
    dealers: dict[str, bytes] = {}


class KeptRelease(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One release as it arrived: the integer sum over the survivors, in steps of ``step``."""

    allowance: str
    number: int
    statistic: str
    public: Public
    step: float
    survivors: tuple[str, ...]
    total: Array

    def outcome(self, request: Request, size: int) -> Outcome:
        """Return the release, if it is of what ``request`` asks for now."""
        old, new = self.public, request.public
        # Public values may differ by how linear algebra rounds.
        is_same = old.keys() == new.keys() and all(_close(old[key], new[key]) for key in old)
        if self.statistic != request.statistic or not is_same:
            why = "it is of something else than the analysis asks for now"
            remedy = "Use the parameters, the random_state and the dpcape version of the run."
            raise ProtocolError(f"The kept release {self.number + 1} was not used", why, remedy)
        total = self.total.decode()
        if total.dtype != np.int64 or total.shape != (size,):
            raise InvalidMessage("a kept release", f"hold {size} whole numbers", f"shape {total.shape}")
        return Outcome(total=total.astype(np.int64), survivors=self.survivors)


class KeptReleases:
    """The releases of one allowance in a folder.

    Parameters
    ----------
    folder : str or Path
        Where they are; it need not exist yet.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def begin(self, allowance: KeptAllowance) -> None:
        """Keep the terms of a new allowance, before any site is charged; an earlier one without charge gives way."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        sync_folder(self.folder.parent)
        for path in self.folder.glob("release-*.kept"):
            path.unlink()
        write_private(self.folder / _ALLOWANCE, _sealed(allowance))

    def allowance(self) -> KeptAllowance | None:
        """Return the allowance that was opened, or None if none was."""
        path = self.folder / _ALLOWANCE
        if not path.exists():
            return None
        try:
            return _unsealed(path, KeptAllowance)
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            what = f"The releases in {str(self.folder)!r} cannot be used"
            remedy = "Restore the folder from a backup, or start a new run with --again."
            raise DamagedFile(what, f"{_ALLOWANCE} is damaged ({type(error).__name__})", remedy) from error

    def keep(self, release: KeptRelease) -> None:
        """Write a release; it is on disk when this returns."""
        write_private(self.folder / f"release-{release.number:04d}.kept", _sealed(release))

    def releases(self) -> dict[int, KeptRelease]:
        """Return the releases that can be read, by number; one that is damaged counts as lost."""
        opened = self.allowance()
        if opened is None:
            return {}
        readable: dict[int, KeptRelease] = {}
        for path in sorted(self.folder.iterdir()):
            match = _NAME.fullmatch(path.name)
            if match is None:
                continue
            try:
                release = _unsealed(path, KeptRelease)
            except (OSError, ValueError, msgspec.MsgspecError):
                continue
            if release.allowance == opened.terms.allowance and 0 <= release.number == int(match[1]):
                readable[release.number] = release
        return {number: release for number, release in readable.items() if number < len(opened.terms.shares)}

    def require_space(self, size: int, n_releases: int) -> None:
        """Refuse to begin a release that might not fit on the disk."""
        needed = 8 * size * n_releases + _SPARE_BYTES
        existing = self.folder
        while not existing.exists() and existing != existing.parent:
            existing = existing.parent
        free = shutil.disk_usage(existing).free
        if free < needed:
            raise Failed(
                "The release was not begun",
                f"the disk of {str(self.folder)!r} has {free // 2**20} MB left and {math.ceil(needed / 2**20)} MB "
                "may be needed",
                "Nothing was charged for it. Free some space, then run again; a run that was charged before goes on "
                "with --resume.",
            )


def kept_release(allowance: str, request: Request, step: float, outcome: Outcome) -> KeptRelease:
    """Return a release in the form in which it is kept."""
    return KeptRelease(
        allowance=allowance,
        number=request.release,
        statistic=request.statistic,
        public=request.public,
        step=step,
        survivors=outcome.survivors,
        total=Array.of(outcome.total),
    )


def same_terms(kept: Terms, requested: Terms) -> Terms:
    """Return the kept terms, if the analysis asks for the same ones now; the name of an allowance is new each time."""
    close = len(kept.shares) == len(requested.shares) and all(
        math.isclose(old, new, rel_tol=_TOLERANCE) for old, new in zip(kept.shares, requested.shares, strict=True)
    )
    if not close or msgspec.structs.replace(requested, allowance=kept.allowance, shares=kept.shares) != kept:
        raise InvalidParameter(
            "The kept releases were not used because they were made under other terms: sites, sizes, epsilon, delta, "
            "protocol and number of releases",
            "be those of the run",
            remedy="Use its parameters.",
        )
    return kept


def _sealed(content: object) -> bytes:
    data = msgspec.msgpack.encode(content)
    return _MAGIC + hashlib.sha256(data).digest() + data


def _unsealed(path: Path, kind: type[_Kept]) -> _Kept:
    """Return what a file holds; ValueError if a byte of it is not as it was written."""
    if not os.path.isfile(path):
        raise ValueError("not a file")
    content = path.read_bytes()
    start = len(_MAGIC) + 32
    data = content[start:]
    if not content.startswith(_MAGIC) or content[len(_MAGIC) : start] != hashlib.sha256(data).digest():
        raise ValueError("not as it was written")
    return msgspec.msgpack.decode(data, type=kind)


def _close(kept: object, requested: object) -> bool:
    if isinstance(kept, Array) and isinstance(requested, Array):
        first, second = kept.decode(), requested.decode()
        if first.shape != second.shape or first.dtype != second.dtype:
            return False
        largest = float(np.abs(first).max(initial=0.0))
        return bool(np.allclose(first, second, rtol=_TOLERANCE, atol=_TOLERANCE * largest))
    if isinstance(kept, float) and isinstance(requested, float):
        return math.isclose(kept, requested, rel_tol=_TOLERANCE)
    return bool(kept == requested)
