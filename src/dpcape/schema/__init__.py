"""Public ranges, levels and fill values of columns: how raw columns become features."""

from dpcape.schema.column import Column
from dpcape.schema.schema import Schema

__all__ = ["Column", "Schema"]
