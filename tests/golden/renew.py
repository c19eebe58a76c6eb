"""Record vectors again: ``python tests/golden/renew.py NAME...``, or ``words`` for help and pages, or ``all``.

``new`` records what a new analysis or statistic adds to ``plans``, ``forms`` and ``guarantees.toml``, and leaves alone
whatever was recorded before.
"""

from __future__ import annotations

import sys
import tempfile
from importlib import import_module
from pathlib import Path


def main(names: list[str]) -> None:
    # Run as a file: the package is the folder, and its files must not hide other modules.
    here = Path(__file__).resolve().parent
    sys.path[:] = [str(here.parent), *(entry for entry in sys.path if Path(entry or ".").resolve() != here)]
    cases = import_module(f"{here.name}.cases")
    if names == ["new"]:
        for family in ("plans", "forms"):
            with tempfile.TemporaryDirectory() as folder:
                print(f"{family}.json: {'new entries' if cases.write_new(family, Path(folder)) else 'nothing new'}")
        labels = import_module("privacy.test_regression").write_new()
        print(f"guarantees.toml: {', '.join(labels) or 'nothing new'}")
        return
    groups = {"all": list(cases.FAMILIES), "words": list(cases.WORDS)}
    chosen = [family for name in names for family in groups.get(name, [name])]
    unknown = [name for name in chosen if name not in cases.FAMILIES]
    if unknown or not chosen:
        sys.exit(f"name some of: new, all, words, {', '.join(cases.FAMILIES)}")
    for family in chosen:
        path = here / f"{family}.json"
        before = cases.stored(family) if path.exists() else {}
        with tempfile.TemporaryDirectory() as folder:
            cases.write(family, Path(folder))
        print(f"{path.name}: {path.stat().st_size} bytes")
        changed = cases.changed_numbers(before, cases.stored(family)) if family in cases.WORDS else []
        if changed:
            print(f"  NUMBERS CHANGED, not only words: {', '.join(changed)}")


if __name__ == "__main__":
    main(sys.argv[1:])
