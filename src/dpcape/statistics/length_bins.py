"""Bins of lengths, from whose counts a quantile is found."""

N_BINS = 32
"""Bins of a radius histogram."""
