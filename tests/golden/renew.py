"""Record vectors again: ``python tests/golden/renew.py NAME...``, or ``words`` for help and pages, or ``all``."""

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
    groups = {"all": list(cases.FAMILIES), "words": list(cases.WORDS)}
    chosen = [family for name in names for family in groups.get(name, [name])]
    unknown = [name for name in chosen if name not in cases.FAMILIES]
    if unknown or not chosen:
        sys.exit(f"name some of: all, words, {', '.join(cases.FAMILIES)}")
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
