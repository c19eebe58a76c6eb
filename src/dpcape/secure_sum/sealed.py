"""Base of everything that holds secrets: it shows nothing and can be neither pickled nor copied."""

from __future__ import annotations

from typing import NoReturn


class Sealed:
    """Object whose representation is its class name and which refuses to be pickled or copied."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{type(self).__name__} holds secrets and must not be pickled or copied.")
