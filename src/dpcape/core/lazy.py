"""Names of a package that are imported on first use, so that asking for one loads one module."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from types import ModuleType
from typing import Generic, TypeVar, cast

from dpcape.core.errors import MissingExtra

T = TypeVar("T")


def names_of(package: str, modules: Mapping[str, str]) -> Callable[[str], object]:
    """Return the ``__getattr__`` of a package whose names live in other modules: each module with its names."""
    homes = {name: module for module, names in modules.items() for name in names.split()}

    def load(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return load


class Lazily(Mapping[str, T], Generic[T]):
    """Mapping whose values are loaded on first use, from a table of names to ``module:attribute``."""

    def __init__(self, locations: Mapping[str, str]) -> None:
        self._locations, self._loaded = dict(locations), dict[str, T]()

    def __getitem__(self, name: str) -> T:
        if name not in self._loaded:
            module, _, attribute = self._locations[name].partition(":")
            self._loaded[name] = cast(T, getattr(import_module(module), attribute))
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._locations)

    def __len__(self) -> int:
        return len(self._locations)

    def __contains__(self, name: object) -> bool:
        return name in self._locations


def extra_module(name: str, what: str, extra: str) -> ModuleType:
    """Import a module that an extra of dpcape installs; ``what`` is named where it is missing."""
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingExtra(what, extra) from error
