"""Number formats of pages and guarantees."""

from __future__ import annotations

import math


def round_up(value: float, digits: int = 4) -> str:
    """Format a number with ``digits`` significant digits, rounded up, so that a printed epsilon is never too small.

    Parameters
    ----------
    value : float
        The number.
    digits : int
        Significant digits.

    Examples
    --------
    >>> round_up(0.9999995), round_up(1.00001)
    ('1', '1.001')
    """
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    exponent = math.floor(math.log10(abs(value))) - digits + 1
    unit = 10.0**exponent
    # A short decimal with a floating-point error in its last place must not gain a digit.
    rounded = math.ceil(value / unit * (1 - 1e-13)) * unit
    return f"{rounded:.{digits}g}"
