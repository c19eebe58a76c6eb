"""Planning before anything is spent: which releases an analysis makes, what their noise costs, a page to try it."""

from dpcape.planning.declared import Declared

__all__ = ["Declared"]
