"""Half-widths of intervals whose errors are normal."""

from __future__ import annotations

from scipy.special import ndtri


def normal_quantile(confidence: float) -> float:
    """Return the half-width of an interval in standard errors."""
    return -float(ndtri((1 - confidence) / 2))
