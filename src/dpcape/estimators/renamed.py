"""Names that changed: the old ones work and warn."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def renamed_parameters(**names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator of a constructor or function that takes old names of parameters, with a warning.

    Parameters
    ----------
    **names
        New name of each old one.
    """

    def decorate(make: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(make)
        def made(*args: P.args, **kwargs: P.kwargs) -> R:
            for old, new in names.items():
                if old in kwargs and new not in kwargs:
                    _warn(old, new)
                    kwargs[new] = kwargs.pop(old)
            return make(*args, **kwargs)

        return made

    return decorate


def renamed_attribute(old: str, new: str) -> property:
    """Return a property that gives an attribute under its old name, with a warning."""

    def read(self: Any) -> Any:
        value = getattr(self, new)
        _warn(old, new)
        return value

    return property(read, doc=f"Old name of ``{new}``.")


def _warn(old: str, new: str) -> None:
    warnings.warn(
        f"{old} is now called {new}, as in scikit-learn; the old name will be removed. Write {new}.",
        FutureWarning,
        stacklevel=3,
    )
