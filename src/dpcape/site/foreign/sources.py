"""Packages as text: read by the zygote while it still can, run by a child that has no file to read.

Code of another package must not open files: a child could leave marks on them (times of last access) for the next one.
So the text of its modules is read beforehand, without running it, and the libraries it names are loaded. Compiled
modules of the package itself, and libraries other than those below, cannot be used in this way.
"""

from __future__ import annotations

import ast
import contextlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import decode_source, find_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import msgspec

from dpcape.analyses.registry import GROUP, declared_code, package_of

MAX_SOURCE_BYTES = 2**24
# What dpcape itself is built on, and PyTorch; a package may import these and the standard library.
LIBRARIES = frozenset({"dpcape", "msgspec", "numpy", "scipy", "sklearn", "torch"})
# Modules of the standard library with visible side effects on import.
_NOT_LOADED = frozenset({"__main__", "antigravity", "idlelib", "test", "this", "turtle", "turtledemo"})


class DeclaredCode(msgspec.Struct, frozen=True, kw_only=True):
    """Code that a package declares: its kind (group of entry points), its name, and where it is."""

    package: str
    group: str
    name: str
    module: str
    attribute: str


class Sources:
    """The modules of allowed packages by name, as text, and the code they declare.

    Parameters
    ----------
    packages : iterable of str
        Distributions.
    """

    def __init__(self, packages: Iterable[str]) -> None:
        self.declared = [
            DeclaredCode(
                package=package_of(point), group=point.group, name=point.name, module=point.module, attribute=point.attr
            )
            for point in declared_code(frozenset(packages))
        ]
        self.texts: dict[str, tuple[bytes, bool]] = {}
        for top in sorted({entry.module.partition(".")[0] for entry in self.declared}):
            self._read(top)

    def of(self, package: str) -> list[DeclaredCode]:
        """Return all that a package declares."""
        return [entry for entry in self.declared if entry.package == package]

    def analysis(self, package: str, name: str) -> DeclaredCode | None:
        """Return the analysis of this name that a package declares, if it declares one."""
        return next((entry for entry in self.of(package) if (entry.group, entry.name) == (GROUP, name)), None)

    def load_libraries(self) -> None:
        """Import the libraries that the packages name, so that children find them in memory."""
        names = {name for text, _ in self.texts.values() for name in _imported(text)}
        for name in sorted(names):
            top, last = name.partition(".")[0], name.rpartition(".")[2]
            is_known = top in LIBRARIES or (top in sys.stdlib_module_names and top not in _NOT_LOADED)
            if is_known and last != "__main__":
                # A library that is missing or fails to import is skipped; the package runs without it.
                with contextlib.suppress(Exception):
                    import_module(name)

    def _read(self, top: str) -> None:
        """Read a module, or a package with everything below it; nothing of it is run."""
        spec = find_spec(top)
        if spec is None or spec.origin is None:
            return
        folders = spec.submodule_search_locations
        if folders is None:
            self._keep(top, Path(spec.origin), is_package=False)
            return
        for folder in folders:
            for path in sorted(Path(folder).rglob("*.py")):
                names = [top, *path.relative_to(folder).with_suffix("").parts]
                is_package = names[-1] == "__init__"
                self._keep(".".join(names[:-1] if is_package else names), path, is_package=is_package)

    def _keep(self, name: str, path: Path, *, is_package: bool) -> None:
        if path.suffix == ".py" and path.stat().st_size <= MAX_SOURCE_BYTES:
            self.texts[name] = (path.read_bytes(), is_package)


class SourceFinder(MetaPathFinder, InspectLoader):
    """Finds the modules of packages among texts in memory."""

    def __init__(self, texts: Mapping[str, tuple[bytes, bool]]) -> None:
        self._texts = texts

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how a module is loaded, if its text is here."""
        if fullname not in self._texts:
            return None
        return spec_from_loader(fullname, self, is_package=self._texts[fullname][1])

    def is_package(self, fullname: str) -> bool:
        """Return whether a module has modules below it."""
        return self._texts[fullname][1]

    def get_source(self, fullname: str) -> str:
        """Return a module's text."""
        return decode_source(self._texts[fullname][0])


def install_finder(sources: Sources) -> None:
    """Let this process import the packages from memory, and never from files."""
    sys.meta_path.insert(0, SourceFinder(sources.texts))


def _imported(text: bytes) -> Iterator[str]:
    """Yield the names that a module's text may import; the text is read, not run."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (entry.name for entry in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            # An imported name may be a submodule.
            yield from (f"{node.module}.{entry.name}" for entry in node.names)
