"""Planning from public numbers, without spending budget: releases, their noise, expected errors, a planner page."""

from dpcape.planning.declared import Declared

__all__ = ["Declared"]
