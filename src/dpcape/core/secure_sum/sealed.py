"""Base class of objects with secrets: they show nothing and can be neither pickled nor copied."""

from __future__ import annotations

from typing import NoReturn


class Sealed:
    """Base class whose representation is its class name and which cannot be pickled or copied."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __reduce__(self) -> NoReturn:
        what = f"{type(self).__name__} holds secrets and must not be pickled or copied. Make a new one instead."
        raise TypeError(what)
