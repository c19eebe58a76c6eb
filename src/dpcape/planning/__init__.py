"""Planning from public numbers, without spending budget: releases, their noise, expected errors, a planner page."""

from typing import TYPE_CHECKING

from dpcape.core.lazy import names_of

if TYPE_CHECKING:
    from dpcape.planning.declared import Declared

__all__ = ["Declared"]
__getattr__ = names_of(
    __name__,
    {
        "dpcape.planning.declared": "Declared",
    },
)
