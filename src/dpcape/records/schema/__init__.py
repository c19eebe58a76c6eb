"""Public ranges, levels and fill values of columns: how raw columns become features."""

from dpcape.records.schema.column import Column
from dpcape.records.schema.schema import Schema

__all__ = ["Column", "Schema"]
