"""Reference values in integer arithmetic, written without the code under test."""

from __future__ import annotations

from fractions import Fraction

_BITS = 1300


def exponential(exponent: Fraction) -> tuple[Fraction, Fraction]:
    """Return rationals below and above exp(-exponent), for exponents from 0 to 600.

    Taylor's series at exponent / 1024 in fixed point with 1300 bits, then ten squarings. The series is off by
    a few hundred units of 2^-1300; no value falls below 2^-866, so each squaring adds a relative error below
    2^-433 and doubles the one before: 2^-400 covers everything.
    """
    if exponent == 0:
        return Fraction(1), Fraction(1)
    step = (exponent.numerator << _BITS) // (exponent.denominator << 10)
    term = total = 1 << _BITS
    for k in range(1, 80):
        term = -(term * step >> _BITS) // k
        total += term
    for _ in range(10):
        total = total * total >> _BITS
    value, slack = Fraction(total, 1 << _BITS), Fraction(1, 1 << 400)
    return value * (1 - slack), value * (1 + slack)


def bell(magnitude: int, scale: float) -> tuple[Fraction, Fraction]:
    """Return rationals around exp(-magnitude^2 / (2 scale^2))."""
    return exponential(Fraction(magnitude) ** 2 / (2 * Fraction(scale) ** 2))
