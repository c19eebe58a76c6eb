"""What an installed package would run outside its sandbox, in every Python process of the environment."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import PurePosixPath

from dpcape.core.errors import InvalidParameter
from dpcape.site.foreign.sources import LIBRARIES

_CUSTOM = frozenset({"sitecustomize.py", "usercustomize.py"})
_MOST_BYTES = 2**20


def require_inert(package: str) -> None:
    """Refuse a package that would run code in the vault without being imported there; others are not looked into.

    Python runs ``import`` lines of ``.pth`` files and two modules by name whenever it starts, and imports dpcape's own
    libraries. A package that is not installed has nothing to run.
    """
    run_files = _run_anyway(package)
    if run_files:
        got = f"{run_files[0]!r}, which every Python process of this environment runs"
        remedy = "Remove the package from this environment, and install it as a wheel without that file."
        raise InvalidParameter(f"The package {package!r}", "not run code where the vault does", got, remedy)


def _run_anyway(package: str) -> list[str]:
    try:
        about = distribution(package)
    except PackageNotFoundError:
        return []
    run_files = []
    for entry in about.files or ():
        path = PurePosixPath(entry.as_posix())
        is_run = path.parts[0] in LIBRARIES
        if len(path.parts) == 1:
            is_run |= path.name in _CUSTOM or (path.suffix == ".pth" and _imports(about.locate_file(entry)))
        if is_run:
            run_files.append(str(path))
    return sorted(run_files)


def _imports(path_file: object) -> bool:
    """Return whether a path file has a line that is run; one that cannot be read counts as such."""
    try:
        with open(str(path_file), "rb") as stream:
            text = stream.read(_MOST_BYTES)
    except OSError:
        return True
    return any(line.startswith((b"import ", b"import\t")) for line in text.splitlines())
