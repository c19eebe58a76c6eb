"""Public ranges, levels and fill values of columns: how raw columns become features."""
