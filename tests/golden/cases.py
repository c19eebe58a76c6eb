"""The families of vectors: what each is computed by, and how it is compared."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg

from . import fixed, pages, plans, wire

HERE = Path(__file__).parent
# Families whose last bits come from linear algebra, which another processor or library rounds otherwise. Compared bit
# for bit where arithmetic is as it was when they were recorded; elsewhere within these, messages by kind and length.
ELSEWHERE = {"plans": 1e-12, "wire": 1e-9, "fits": 1e-5}
# Even so, iterations may amplify what compilers do.
CLOSE_FITS = 1e-9
ABOUT = {"arithmetic"}


def arithmetic() -> str:
    """Return a digest of what this machine makes of some linear algebra."""
    seen = hashlib.sha256()
    for size in range(1, 33):
        matrix = np.cos(np.arange(size * (size + 3), dtype=float)).reshape(size, size + 3)
        square = matrix @ matrix.T
        seen.update(square.tobytes() + np.exp(matrix).tobytes() + np.linalg.norm(matrix, axis=0).tobytes())
        seen.update(b"".join(part.tobytes() for part in np.linalg.svd(matrix, full_matrices=False)))
        seen.update(b"".join(part.tobytes() for part in scipy.linalg.eigh(square)))
    return seen.hexdigest()[:16]


def _digests(folder: Path) -> Any:
    texts = stored("digests")["texts"] if (HERE / "digests.json").exists() else fixed.study_texts()
    return {"texts": texts, "digests": fixed.digests(texts)}


# Numbers, bytes and names: these stay.
LASTING: dict[str, Callable[[Path], Any]] = {
    "plans": lambda folder: plans.plans(),
    "studies": lambda folder: fixed.studies(),
    "wire": lambda folder: wire.wire(),
    "forms": lambda folder: wire.forms(),
    "fits": lambda folder: wire.fits(),
    "digests": _digests,
    "ledger": fixed.ledger,
}
# Words: renewed whenever they are improved; numbers on pages are compared by themselves.
WORDS: dict[str, Callable[[Path], Any]] = {
    "help": lambda folder: pages.help_texts(),
    "plan_words": lambda folder: plans.plan_words(),
    "cards": lambda folder: pages.cards(),
    "reports": pages.reports,
    "steward": pages.steward,
}
FAMILIES = {**LASTING, **WORDS}


def computed(family: str, folder: Path) -> Any:
    """Compute a family anew, as it would be stored."""
    return json.loads(json.dumps(_made(family, folder)))


def _made(family: str, folder: Path) -> Any:
    found = FAMILIES[family](folder)
    return {"arithmetic": arithmetic(), **found} if family in ELSEWHERE else found


def stored(family: str) -> Any:
    """Return a family as it was recorded."""
    return json.loads((HERE / f"{family}.json").read_text(encoding="utf-8"))


def write(family: str, folder: Path) -> None:
    """Record a family: one case per line."""
    if family == "digests":
        texts = {name: text for name, text in fixed.study_texts().items() if fixed.digests({name: text})[name]}
        found: Any = {"texts": texts, "digests": fixed.digests(texts)}
    else:
        found = _made(family, folder)
    _write(family, found)


def _write(family: str, found: dict[str, Any]) -> None:
    lines = [f"{json.dumps(key, ensure_ascii=False)}: {_line(found[key])}" for key in found]
    (HERE / f"{family}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def write_new(family: str, folder: Path) -> bool:
    """Record what was never recorded, and nothing else; return whether there was anything."""
    was = stored(family)
    found = _with_new(was, computed(family, folder))
    if found != was:
        _write(family, found)
    return bool(found != was)


def _with_new(was: Any, now: Any) -> Any:
    """Return what was recorded, with entries that are new where the order of what is computed has them."""
    if not isinstance(was, dict) or not isinstance(now, dict):
        return was
    return {key: _with_new(was[key], now[key]) if key in was else now[key] for key in now} | {
        key: was[key] for key in was if key not in now
    }


def _line(value: Any) -> str:
    # Many cases under one key stand on lines of their own.
    if isinstance(value, dict) and len(value) > 50:
        entries = (f"{json.dumps(key, ensure_ascii=False)}: {_line(value[key])}" for key in value)
        return "{\n" + ",\n".join(entries) + "\n}"
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def difference(family: str, was: Any, now: Any) -> str:
    """Say where what was recorded and what is computed differ first; empty where they agree."""
    relative = CLOSE_FITS if family == "fits" else 0.0
    if family in ELSEWHERE and was["arithmetic"] != now["arithmetic"]:
        relative = ELSEWHERE[family]
        if family == "wire":
            was, now = _without_digests(was), _without_digests(now)
    # Refusals are compared by their class.
    ignored = ABOUT | ({"text"} if family in ("plans", "studies") else set())
    return _difference(was, now, family, relative, ignored)


def _without_digests(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_digests(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_without_digests(entry) for entry in value]
    return "" if isinstance(value, str) and len(value) == 32 else value


def _difference(was: Any, now: Any, where: str, relative: float, ignored: set[str]) -> str:
    if isinstance(was, dict) and isinstance(now, dict):
        for key in [*was, *(key for key in now if key not in was)]:
            if key in ignored:
                continue
            if key not in was or key not in now:
                return f"{where}, {key!r}: recorded {key in was}, computed {key in now}"
            found = _difference(was[key], now[key], f"{where}, {key!r}", relative, ignored)
            if found:
                return found
        orders = [[key for key in entry if key not in ignored] for entry in (was, now)]
        return "" if orders[0] == orders[1] else f"{where}: another order, {orders[1]}"
    if isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
        pairs = enumerate(zip(was, now, strict=True))
        return next(filter(None, (_difference(*pair, f"{where}[{n}]", relative, ignored) for n, pair in pairs)), "")
    if relative and float in (type(was), type(now)) and {type(was), type(now)} <= {int, float}:
        same = was == now or math.isclose(was, now, rel_tol=relative, abs_tol=relative * 1e-3) or was != was != now
    else:
        same = type(was) is type(now) and (was == now or was != was != now)
    return "" if same else f"{where}: recorded {was!r}, computed {now!r}"


def changed_numbers(was: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Return the pages whose numbers differ, whatever their words."""
    return [
        name
        for name, page in now.items()
        if isinstance(page, dict) and "numbers" in page and was.get(name, {}).get("numbers") != page["numbers"]
    ]
